// Without a wait the reader sees the old value, the new one, or some of each.
#include "litmus.h"
extern "C" __global__ void litmus(const float *A, const float *B, const float *Z, float *O, TAIL) {
  volatile float *box = (float *)smem;
  const int lane = threadIdx.x % 32;
  if (threadIdx.x < 32) box[lane] = A[lane];
  const float next = B[lane];
  asm volatile("bar.sync 1, 64;" ::: "memory");
  if (threadIdx.x < 32) {
    box[lane] = next;
  } else {
    pause(delay);
    O[lane] = box[lane];
  }
}
