@schedule(target="sm_90a")
def gemm_bf16(A: Tensor[bf16, "M", "K"], B: Tensor[bf16, "N", "K"], C: Tensor[bf16, "M", "N"]):
    launch(ctas=sm_count)
    a = smem(bf16, (128, 64), at=0, stages=4, swizzle=128)
    b = smem(bf16, (256, 64), at=65536, stages=4, swizzle=128)
    out = smem(bf16, (64, 64), at=196608, stages=4, swizzle=128)
    A_map = tensor_map(A, box=(128, 64), swizzle=128)
    B_map = tensor_map(B, box=(256, 64), swizzle=128)
    C_map = tensor_map(C, box=(64, 64), swizzle=128)
    ring_full = mbarrier(arrivals=1, at=229376, slots=4)
    ring_empty = mbarrier(arrivals=2, at=229408, slots=4)
    staged = named_barrier(arrivals=128, at=1, slots=2)
    load = role(warps=4)
    math = role(warps=4, instances=2)

    with load:
        setmaxnreg(40, "dec")
        ring_slot = 0
        ring_phase = 1
        with one_lane():
            prefetch_tensormap(A_map)
            prefetch_tensormap(B_map)
            for tile in range(cta_id, (M + 127) // 128 * ((N + 255) // 256), cta_count):
                tile_first = tile // (16 * ((N + 255) // 256)) * 16
                tile_rows = min((M + 127) // 128 - tile_first, 16)
                m = tile_first + tile % (16 * ((N + 255) // 256)) % tile_rows
                n = tile % (16 * ((N + 255) // 256)) // tile_rows
                for i in range((K + 63) // 64):
                    mbarrier_wait(ring_empty[ring_slot], ring_phase)
                    mbarrier_expect(ring_full[ring_slot], 49152)
                    tma_load(a[ring_slot], A_map, at=(m * 128, i * 64), done=ring_full[ring_slot])
                    tma_load(b[ring_slot], B_map, at=(n * 256, i * 64), done=ring_full[ring_slot])
                    ring_phase = ring_phase ^ 1 if ring_slot == 3 else ring_phase
                    ring_slot = ring_slot + 1 if ring_slot < 3 else 0

    with math:
        setmaxnreg(232, "inc")
        ring_slot = 0
        ring_phase = 0
        previous = 0
        for tile in range(cta_id, (M + 127) // 128 * ((N + 255) // 256), cta_count):
            tile_first = tile // (16 * ((N + 255) // 256)) * 16
            tile_rows = min((M + 127) // 128 - tile_first, 16)
            m = tile_first + tile % (16 * ((N + 255) // 256)) % tile_rows
            n = tile % (16 * ((N + 255) // 256)) // tile_rows
            acc = fragment(f32, (64, 256), layout="wgmma")
            for i in range((K + 63) // 64):
                mbarrier_wait(ring_full[ring_slot], ring_phase)
                wgmma_fence()
                wgmma(acc, a[ring_slot].tile((64 * instance, 0), (64, 16)), b[ring_slot].tile((0, 0), (256, 16)), accumulate=i > 0)
                wgmma(acc, a[ring_slot].tile((64 * instance, 16), (64, 16)), b[ring_slot].tile((0, 16), (256, 16)), accumulate=True)
                wgmma(acc, a[ring_slot].tile((64 * instance, 32), (64, 16)), b[ring_slot].tile((0, 32), (256, 16)), accumulate=True)
                wgmma(acc, a[ring_slot].tile((64 * instance, 48), (64, 16)), b[ring_slot].tile((0, 48), (256, 16)), accumulate=True)
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
                tma_store(C_map, out[2 * instance], at=(m * 128 + 64 * instance, n * 256))
                bulk_commit()
            with one_lane():
                bulk_wait(1, read=True)
            barrier_sync(staged[instance])
            stmatrix(out[2 * instance + 1], cast(acc.cols(64, 64), bf16))
            fence_proxy_async()
            barrier_sync(staged[instance])
            with one_lane():
                tma_store(C_map, out[2 * instance + 1], at=(m * 128 + 64 * instance, n * 256 + 64))
                bulk_commit()
            with one_lane():
                bulk_wait(1, read=True)
            barrier_sync(staged[instance])
            stmatrix(out[2 * instance], cast(acc.cols(128, 64), bf16))
            fence_proxy_async()
            barrier_sync(staged[instance])
            with one_lane():
                tma_store(C_map, out[2 * instance], at=(m * 128 + 64 * instance, n * 256 + 128))
                bulk_commit()
            with one_lane():
                bulk_wait(1, read=True)
            barrier_sync(staged[instance])
            stmatrix(out[2 * instance + 1], cast(acc.cols(192, 64), bf16))
            fence_proxy_async()
            barrier_sync(staged[instance])
            with one_lane():
                tma_store(C_map, out[2 * instance + 1], at=(m * 128 + 64 * instance, n * 256 + 192))
                bulk_commit()
        with one_lane():
            bulk_wait(0)
