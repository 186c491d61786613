// 384 threads launched with 168 registers: one warpgroup gives back down to 40, two take 232.
#include "litmus.h"
extern "C" __global__ void __launch_bounds__(384, 1) litmus(const float *A, float *O, TAIL) {
  if (threadIdx.x < 128) {
    pause(delay);
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
  }
  O[threadIdx.x] = A[threadIdx.x];
}
