// wait_group.read 1 leaves the last store running: the source of the one before may be overwritten.
#include "litmus.h"
extern "C" __global__ void litmus(MAP A_map, MAP O_map, MAP P_map, const float *A, const float *B, float *O, float *P, TAIL) {
  float *first = (float *)smem, *second = (float *)(smem + 8192);
  uint8_t *full = smem + 16384;
  if (threadIdx.x == 0) init(full, 1);
  init_done();
  const float next = B[threadIdx.x];
  if (threadIdx.x == 0) {
    arrive_expect(full, 16384);
    load2(first, &A_map, 0, 0, full);
    load2(second, &A_map, 0, 0, full);
  }
  wait(full, 0, gave_up);
  if (threadIdx.x == 0) {
    store2(&O_map, first, 0, 0);
    commit();
    store2(&P_map, second, 0, 0);
    commit();
    wait_read<1>();
  }
  __syncwarp();
  pause(delay);
  for (int i = 0; i < 64; ++i) first[32 * (63 - i) + threadIdx.x] = next;
  if (threadIdx.x == 0) wait_all<0>();
}
