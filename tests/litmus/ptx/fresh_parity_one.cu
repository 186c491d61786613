// A fresh mbarrier answers a wait for parity 1 at once.
#include "litmus.h"
extern "C" __global__ void litmus(const float *A, float *O, TAIL) {
  if (threadIdx.x == 0) init(smem, 1);
  init_done();
  pause(delay);
  wait(smem, 1, gave_up);
  O[threadIdx.x] = A[threadIdx.x];
}
