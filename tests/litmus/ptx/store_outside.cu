// A store's elements outside the tensor are not written.
#include "litmus.h"
extern "C" __global__ void litmus(MAP O_map, const float *A, float *O, TAIL) {
  if (threadIdx.x < 20) ((float *)smem)[threadIdx.x] = A[threadIdx.x];
  if (threadIdx.x >= 20) ((float *)smem)[threadIdx.x] = -1;
  fence_async();
  __syncwarp();
  if (threadIdx.x == 0) {
    pause(delay);
    store2(&O_map, smem, 0, 0);
    commit();
    wait_all<0>();
  }
}
