// bar.sync of 96 threads with two warps: neither passes.
#include "litmus.h"
extern "C" __global__ void litmus(const float *A, float *O, TAIL) {
  pause(delay);
  asm volatile("bar.sync 1, 96;" ::: "memory");
  O[threadIdx.x] = A[threadIdx.x];
}
