// Hand-written wrappers of the PTX that the litmus tests are about. Nothing here comes from Cake's lowering.
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long long uint64_t;

struct alignas(64) TensorMap { uint64_t words[16]; };
extern __shared__ __align__(1024) uint8_t smem[];

#define MAP const __grid_constant__ TensorMap
#define TAIL volatile uint32_t *gave_up, uint32_t delay  // the last two parameters of every test

__device__ inline uint32_t at(const void *p) { return (uint32_t)__cvta_generic_to_shared(p); }

__device__ inline uint64_t now() {
  uint64_t t;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t));
  return t;
}
__device__ inline void pause(uint32_t ns) {
  for (uint64_t start = now(); now() - start < ns;) {}
}
__device__ inline void hang(volatile uint32_t *gave_up) {
  *gave_up = 1;
  __threadfence_system();
  asm volatile("trap;");
}

// mbarrier ---------------------------------------------------------------------------------------------------------
__device__ inline void init(void *bar, uint32_t count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(at(bar)), "r"(count) : "memory");
}
__device__ inline void init_done() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  __syncthreads();
}
__device__ inline void arrive(void *bar) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(at(bar)) : "memory");
}
__device__ inline void arrive_expect(void *bar, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(at(bar)), "r"(bytes) : "memory");
}
__device__ inline bool test(void *bar, uint32_t parity) {
  uint32_t done;
  asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
               : "=r"(done) : "r"(at(bar)), "r"(parity) : "memory");
  return done;
}
__device__ inline void wait(void *bar, uint32_t parity, volatile uint32_t *gave_up) {  // 20 ms, then it is a hang
  for (uint64_t start = now(); !test(bar, parity);)
    if (now() - start > 20000000) hang(gave_up);
}

// TMA --------------------------------------------------------------------------------------------------------------
__device__ inline void load2(void *dst, const TensorMap *map, int x, int y, void *bar) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
               ::"r"(at(dst)), "l"(map), "r"(x), "r"(y), "r"(at(bar)) : "memory");
}
__device__ inline void store2(const TensorMap *map, void *src, int x, int y) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];"
               ::"l"(map), "r"(x), "r"(y), "r"(at(src)) : "memory");
}
__device__ inline void commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
template <int N> __device__ inline void wait_read() { asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(N) : "memory"); }
template <int N> __device__ inline void wait_all() { asm volatile("cp.async.bulk.wait_group %0;" ::"n"(N) : "memory"); }
__device__ inline void fence_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// wgmma m64n64k16, both operands 64 rows of 128 bytes, 128-byte swizzle ----------------------------------------------
__device__ inline uint64_t descriptor(const void *tile) {  // stride between 8-row groups: 1024 bytes
  return (uint64_t)((at(tile) & 0x3FFFF) >> 4) | (uint64_t)1 << 16 | (uint64_t)(1024 >> 4) << 32 | (uint64_t)1 << 62;
}
__device__ inline void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ inline void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
__device__ inline void wgmma_wait() { asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory"); }
__device__ inline void wgmma(float (&d)[32], uint64_t a, uint64_t b, int accumulate) {
  asm volatile(
      "{ .reg .pred p; setp.ne.b32 p, %34, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, "
      "%14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, %32, %33, p, 1, 1, 0, 0; }"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]),
        "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]),
        "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]),
        "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
      : "l"(a), "l"(b), "r"(accumulate) : "memory");
}
__device__ inline uint16_t bf16(float x) {  // exact for the small whole numbers of these tests
  return (uint16_t)(__float_as_uint(x) >> 16);
}
__device__ inline uint32_t bf16x2(float low, float high) { return bf16(low) | (uint32_t)bf16(high) << 16; }
