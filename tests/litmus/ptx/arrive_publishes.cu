// What each thread wrote before its arrival is what the waiter reads.
#include "litmus.h"
extern "C" __global__ void litmus(const float *A, const float *Z, float *O, TAIL) {
  float *box = (float *)smem;
  uint8_t *ready = smem + 128;
  if (threadIdx.x == 0) init(ready, 32);
  init_done();
  const int lane = threadIdx.x % 32;
  if (threadIdx.x < 32) {
    pause(delay);
    box[lane] = A[lane];
    arrive(ready);
  } else {
    wait(ready, 0, gave_up);
    O[lane] = ((volatile float *)box)[lane];
  }
}
