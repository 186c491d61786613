// Which thread holds which accumulators of m64n64k16, and what they are.
#include "litmus.h"
extern "C" __global__ void litmus(MAP A_map, MAP B_map, MAP O_map, const uint16_t *A, const uint16_t *B, uint16_t *O, TAIL) {
  uint8_t *full = smem + 24576;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (threadIdx.x == 0) init(full, 1);
  init_done();
  if (threadIdx.x == 0) {
    arrive_expect(full, 16384);
    load2(smem, &A_map, 0, 0, full);
    load2(smem + 8192, &B_map, 0, 0, full);
  }
  wait(full, 0, gave_up);
  pause(delay);
  float d[32];
  for (int r = 0; r < 32; ++r) d[r] = 0;
  wgmma_fence();
  for (int k = 0; k < 4; ++k) wgmma(d, descriptor(smem + 32 * k), descriptor(smem + 8192 + 32 * k), k > 0);
  wgmma_commit();
  wgmma_wait();
  for (int r = 0; r < 32; ++r) {
    const int row = 16 * warp + lane / 4 + 8 * (r / 2 % 2), column = 8 * (r / 4) + 2 * (lane % 4) + r % 2;
    O[64 * row + column] = bf16(d[r]);
  }
}
