// Two arrivals on a barrier that counts one complete two phases; the wait for the first is then for one to come.
#include "litmus.h"
extern "C" __global__ void litmus(const float *A, float *O, TAIL) {
  if (threadIdx.x == 0) init(smem, 1);
  init_done();
  if (threadIdx.x == 0) {
    arrive(smem);
    pause(delay);
    arrive(smem);
  }
  __syncwarp();
  wait(smem, 0, gave_up);
  O[threadIdx.x] = A[threadIdx.x];
}
