// Elements outside the tensor arrive as zeros and count as bytes.
#include "litmus.h"
extern "C" __global__ void litmus(MAP A_map, const float *A, const float *Z, float *O, TAIL) {
  uint8_t *full = smem + 128;
  if (threadIdx.x == 0) init(full, 1);
  ((float *)smem)[threadIdx.x] = -1;
  fence_async();
  init_done();
  if (threadIdx.x == 0) {
    arrive_expect(full, 128);
    load2(smem, &A_map, 0, 0, full);
  }
  wait(full, 0, gave_up);
  O[threadIdx.x] = ((volatile float *)smem)[threadIdx.x];
}
