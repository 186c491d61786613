// Bytes may complete before they are expected: the pending arrival keeps the phase open.
#include "litmus.h"
extern "C" __global__ void litmus(MAP A_map, const float *A, const float *Z, float *O, TAIL) {
  uint8_t *full = smem + 128;
  if (threadIdx.x == 0) init(full, 1);
  init_done();
  if (threadIdx.x == 0) {
    load2(smem, &A_map, 0, 0, full);
    pause(delay);
    arrive_expect(full, 128);
  }
  wait(full, 0, gave_up);
  O[threadIdx.x] = ((volatile float *)smem)[threadIdx.x];
}
