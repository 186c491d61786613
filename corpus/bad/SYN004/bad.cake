@schedule(target="sm_90a")
def one_tile(A: Tensor[bf16, "M", "K"], B: Tensor[bf16, "N", "K"], C: Tensor[bf16, "M", "N"]):
    launch(ctas=1)
    a = smem(bf16, (64, 64), at=0, swizzle=128)
    b = smem(bf16, (16, 64), at=8192, swizzle=128)
    out = smem(bf16, (64, 16), at=10240)
    A_map = tensor_map(A, box=(64, 64), swizzle=128)
    B_map = tensor_map(B, box=(16, 64), swizzle=128)
    C_map = tensor_map(C, box=(64, 16))
    full = mbarrier(arrivals=1, at=12288)
    meet = named_barrier(arrivals=128, at=1)
    idle = role(warps=1)
    math = role(warps=4)

    with idle:
        x = fragment(bf16, (1,), layout="thread")
        ld_global(x, A[0, 0], when=lane_id < 0)

    with math:
        with one_lane():
            mbarrier_expect(full, 10240)
            tma_load(a, A_map, at=(0, 0), done=full)
            tma_load(b, B_map, at=(0, 0), done=full)
        mbarrier_wait(full, 0)
        acc = fragment(f32, (64, 16), layout="wgmma")
        wgmma_fence()
        wgmma(acc, a.tile((0, 0), (64, 16)), b.tile((0, 0), (16, 16)), accumulate=False)
        wgmma(acc, a.tile((0, 16), (64, 16)), b.tile((0, 16), (16, 16)), accumulate=True)
        wgmma(acc, a.tile((0, 32), (64, 16)), b.tile((0, 32), (16, 16)), accumulate=True)
        wgmma(acc, a.tile((0, 48), (64, 16)), b.tile((0, 48), (16, 16)), accumulate=True)
        wgmma_commit()
        wgmma_wait(0)
        stmatrix(out, cast(acc, bf16))
        fence_proxy_async()
        barrier_sync(meet)
        with one_lane():
            tma_store(C_map, out, at=(0, 0))
            bulk_commit()
            bulk_wait(0)
