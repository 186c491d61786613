// bar.sync of 64 threads with three warps: two pass, the third waits for ever.
#include "litmus.h"
extern "C" __global__ void litmus(const float *A, float *O, TAIL) {
  if (threadIdx.x < 32) pause(delay);
  asm volatile("bar.sync 1, 64;" ::: "memory");
  O[threadIdx.x] = A[threadIdx.x];
}
