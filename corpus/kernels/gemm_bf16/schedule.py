"""C = A @ B.T in bf16 with f32 accumulation, as an expert writes it for Hopper."""

from cake import *


@schedule(target="sm_90a")
def gemm_bf16(
    A: Tensor[bf16, "M", "K"],
    B: Tensor[bf16, "N", "K"],
    C: Tensor[bf16, "M", "N"],
    *,
    BN=256,
    BK=64,
    STAGES=4,
    CONSUMERS=2,
    GROUP=16,
    LOAD_REGS=40,
    MATH_REGS=232,
):
    """C = A @ B.T: one producer role feeds CONSUMERS warpgroups through a TMA ring; persistent over output tiles."""
    BM = 64 * CONSUMERS
    launch(ctas=sm_count, ctas_per_sm=1)

    a = smem(bf16, (BM, BK), stages=STAGES, swizzle=128, at=0)
    b = smem(bf16, (BN, BK), stages=STAGES, swizzle=128, at=a.end)
    out = smem(bf16, (64, 64), stages=2 * CONSUMERS, swizzle=128, at=b.end)
    A_map = tensor_map(A, box=(BM, BK), swizzle=128)
    B_map = tensor_map(B, box=(BN, BK), swizzle=128)
    C_map = tensor_map(C, box=(64, 64), swizzle=128)

    load = role(warps=4, registers=LOAD_REGS)
    math = role(warps=4, instances=CONSUMERS, registers=MATH_REGS)
    ring = pipeline(stages=STAGES, producer=load, consumer=math, at=out.end)
    staged = named_barrier(slots=CONSUMERS, arrivals=128, at=1)

    with load:
        with one_lane():
            prefetch_tensormap(A_map)
            prefetch_tensormap(B_map)
            for m, n in tiles(ceil_div(M, BM), ceil_div(N, BN), group=GROUP):
                for i in range(ceil_div(K, BK)):
                    slot = ring.acquire()
                    slot.expect(A_map.bytes + B_map.bytes)
                    tma_load(a[slot], A_map, at=(m * BM, i * BK), done=slot.full)
                    tma_load(b[slot], B_map, at=(n * BN, i * BK), done=slot.full)
                    ring.advance()

    with math:
        previous = 0
        for m, n in tiles(ceil_div(M, BM), ceil_div(N, BN), group=GROUP):
            acc = fragment(f32, (64, BN), layout="wgmma")
            for i in range(ceil_div(K, BK)):
                slot = ring.wait()
                wgmma_fence()
                for k in static(range(BK // 16)):
                    wgmma(
                        acc,
                        a[slot].tile((64 * instance, 16 * k), (64, 16)),
                        b[slot].tile((0, 16 * k), (BN, 16)),
                        accumulate=i > 0 or k > 0,
                    )
                wgmma_commit()
                # One group stays in flight: the slot it reads is released an iteration later.
                wgmma_wait(1)
                if i > 0:
                    ring.release(previous)
                previous = slot
                ring.advance()
            wgmma_wait(0)
            ring.release(previous)
            for q in static(range(BN // 64)):
                # Two staging slots an instance: the store of the last but one must have read its slot.
                with one_lane():
                    bulk_wait(1, read=True)
                barrier_sync(staged[instance])
                stmatrix(out[2 * instance + q % 2], cast(acc.cols(64 * q, 64), bf16))
                fence_proxy_async()
                barrier_sync(staged[instance])
                with one_lane():
                    tma_store(C_map, out[2 * instance + q % 2], at=(m * BM + 64 * instance, n * BN + 64 * q))
                    bulk_commit()
        with one_lane():
            bulk_wait(0)
