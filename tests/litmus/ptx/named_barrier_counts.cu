// bar.sync of 64 threads lets two warps pass together, with what each wrote before it.
#include "litmus.h"
extern "C" __global__ void litmus(const float *A, const float *Z, float *O, TAIL) {
  volatile float *box = (float *)smem;
  const int lane = threadIdx.x % 32;
  if (threadIdx.x < 32) {
    pause(delay);
    box[lane] = A[lane];
  }
  asm volatile("bar.sync 1, 64;" ::: "memory");
  if (threadIdx.x >= 32) O[lane] = box[lane];
}
