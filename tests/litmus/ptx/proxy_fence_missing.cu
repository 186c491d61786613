// Without the proxy fence a TMA store reads the old value, the new one, or some of each.
#include "litmus.h"
extern "C" __global__ void litmus(MAP A_map, MAP O_map, const float *A, const float *B, float *O, TAIL) {
  float *box = (float *)smem;
  uint8_t *full = smem + 8192;
  if (threadIdx.x == 0) init(full, 1);
  init_done();
  const float next = B[threadIdx.x];
  if (threadIdx.x == 0) {
    arrive_expect(full, 8192);
    load2(box, &A_map, 0, 0, full);
  }
  wait(full, 0, gave_up);
  for (int i = 0; i < 64; ++i) box[32 * i + threadIdx.x] = next;
  __syncwarp();
  if (threadIdx.x == 0) {
    pause(delay);
    store2(&O_map, box, 0, 0);
    commit();
    wait_all<0>();
  }
}
