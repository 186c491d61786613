// 384 threads launched with 168 registers: when all three warpgroups ask for 232, not all can have them.
#include "litmus.h"
extern "C" __global__ void __launch_bounds__(384, 1) litmus(const float *A, float *O, TAIL) {
  if (threadIdx.x < 128) pause(delay);
  asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
  O[threadIdx.x] = A[threadIdx.x];
}
