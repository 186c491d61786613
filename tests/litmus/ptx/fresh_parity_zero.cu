// A fresh mbarrier does not answer a wait for parity 0 until its first phase completes.
#include "litmus.h"
extern "C" __global__ void litmus(const float *A, float *O, TAIL) {
  if (threadIdx.x == 0) init(smem, 1);
  init_done();
  pause(delay);
  wait(smem, 0, gave_up);
  O[threadIdx.x] = A[threadIdx.x];
}
