// Where stmatrix puts the rows of a 64 x 64 tile when each lane gives its row's swizzled address: the raw bytes.
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
  uint8_t *tile = smem + 16384;
  const int row = 16 * warp + lane % 16;
  for (int n = 0; n < 4; ++n) {  // four 8x8 matrices: rows 0-7 and 8-15, columns 16n and 16n + 8
    const int chunk = 2 * n + lane / 16;
    const uint32_t to = at(tile) + 128 * row + 16 * (chunk ^ (row % 8));
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to),
                 "r"(bf16x2(d[8 * n], d[8 * n + 1])), "r"(bf16x2(d[8 * n + 2], d[8 * n + 3])),
                 "r"(bf16x2(d[8 * n + 4], d[8 * n + 5])), "r"(bf16x2(d[8 * n + 6], d[8 * n + 7])) : "memory");
  }
  __syncthreads();
  for (int i = threadIdx.x; i < 4096; i += 128) O[i] = ((volatile uint16_t *)tile)[i];
}
