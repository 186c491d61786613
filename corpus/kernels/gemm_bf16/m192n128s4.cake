@schedule(target="sm_90a")
def gemm_bf16(A: Tensor[bf16, "M", "K"], B: Tensor[bf16, "N", "K"], C: Tensor[bf16, "M", "N"]):
    launch(ctas=sm_count)
    a = smem(bf16, (192, 64), at=0, stages=4, swizzle=128)
    b = smem(bf16, (128, 64), at=98304, stages=4, swizzle=128)
    out = smem(bf16, (64, 64), at=163840, stages=6, swizzle=128)
    A_map = tensor_map(A, box=(192, 64), swizzle=128)
    B_map = tensor_map(B, box=(128, 64), swizzle=128)
    C_map = tensor_map(C, box=(64, 64), swizzle=128)
    ring_full = mbarrier(arrivals=1, at=212992, slots=4)
    ring_empty = mbarrier(arrivals=3, at=213024, slots=4)
    staged = named_barrier(arrivals=128, at=1, slots=3)
    load = role(warps=4)
    math = role(warps=4, instances=3)

    with load:
        setmaxnreg(32, "dec")
        ring_slot = 0
        ring_phase = 1
        with one_lane():
            prefetch_tensormap(A_map)
            prefetch_tensormap(B_map)
            for tile in range(cta_id, (M + 191) // 192 * ((N + 127) // 128), cta_count):
                tile_first = tile // (16 * ((N + 127) // 128)) * 16
                tile_rows = min((M + 191) // 192 - tile_first, 16)
                m = tile_first + tile % (16 * ((N + 127) // 128)) % tile_rows
                n = tile % (16 * ((N + 127) // 128)) // tile_rows
                for i in range((K + 63) // 64):
                    mbarrier_wait(ring_empty[ring_slot], ring_phase)
                    mbarrier_expect(ring_full[ring_slot], 40960)
                    tma_load(a[ring_slot], A_map, at=(m * 192, i * 64), done=ring_full[ring_slot])
                    tma_load(b[ring_slot], B_map, at=(n * 128, i * 64), done=ring_full[ring_slot])
                    ring_phase = ring_phase ^ 1 if ring_slot == 3 else ring_phase
                    ring_slot = ring_slot + 1 if ring_slot < 3 else 0

    with math:
        setmaxnreg(160, "inc")
        ring_slot = 0
        ring_phase = 0
        previous = 0
        for tile in range(cta_id, (M + 191) // 192 * ((N + 127) // 128), cta_count):
            tile_first = tile // (16 * ((N + 127) // 128)) * 16
            tile_rows = min((M + 191) // 192 - tile_first, 16)
            m = tile_first + tile % (16 * ((N + 127) // 128)) % tile_rows
            n = tile % (16 * ((N + 127) // 128)) // tile_rows
            acc = fragment(f32, (64, 128), layout="wgmma")
            for i in range((K + 63) // 64):
                mbarrier_wait(ring_full[ring_slot], ring_phase)
                wgmma_fence()
                wgmma(acc, a[ring_slot].tile((64 * instance, 0), (64, 16)), b[ring_slot].tile((0, 0), (128, 16)), accumulate=i > 0)
                wgmma(acc, a[ring_slot].tile((64 * instance, 16), (64, 16)), b[ring_slot].tile((0, 16), (128, 16)), accumulate=True)
                wgmma(acc, a[ring_slot].tile((64 * instance, 32), (64, 16)), b[ring_slot].tile((0, 32), (128, 16)), accumulate=True)
                wgmma(acc, a[ring_slot].tile((64 * instance, 48), (64, 16)), b[ring_slot].tile((0, 48), (128, 16)), accumulate=True)
                wgmma_commit()
                wgmma_wait(1)
                if i > 0:
                    with one_lane():
                        mbarrier_arrive(ring_empty[previous])
                previous = ring_slot
                ring_phase = ring_phase ^ 1 if ring_slot == 3 else ring_phase
                ring_slot = ring_slot + 1 if ring_slot < 3 else 0
            wgmma_wait(0)
            with one_lane():
                mbarrier_arrive(ring_empty[previous])
            with one_lane():
                bulk_wait(1, read=True)
            barrier_sync(staged[instance])
            stmatrix(out[2 * instance], cast(acc.cols(0, 64), bf16))
            fence_proxy_async()
            barrier_sync(staged[instance])
            with one_lane():
                tma_store(C_map, out[2 * instance], at=(m * 192 + 64 * instance, n * 128))
                bulk_commit()
            with one_lane():
                bulk_wait(1, read=True)
            barrier_sync(staged[instance])
            stmatrix(out[2 * instance + 1], cast(acc.cols(64, 64), bf16))
            fence_proxy_async()
            barrier_sync(staged[instance])
            with one_lane():
                tma_store(C_map, out[2 * instance + 1], at=(m * 192 + 64 * instance, n * 128 + 64))
                bulk_commit()
        with one_lane():
            bulk_wait(0)
