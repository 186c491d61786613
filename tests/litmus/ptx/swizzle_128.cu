// Where a TMA load with the 128-byte swizzle puts each 16-byte chunk: the raw bytes of shared memory, in order.
#include "litmus.h"
extern "C" __global__ void litmus(MAP A_map, MAP raw, const uint16_t *A, uint16_t *O, TAIL) {
  uint8_t *full = smem + 16384;
  if (threadIdx.x == 0) init(full, 1);
  init_done();
  if (threadIdx.x == 0) {
    pause(delay);
    arrive_expect(full, 64 * 128);
    load2(smem, &A_map, 0, 0, full);
  }
  wait(full, 0, gave_up);
  for (int i = threadIdx.x; i < 64 * 128 / 2; i += 32) O[i] = ((volatile uint16_t *)smem)[i];
}
