@schedule(target="sm_90a")
def gemm_bf16(A: Tensor[bf16, "M", "K"], B: Tensor[bf16, "N", "K"]):
    launch(ctas=sm_count)
    a = smem(bf16, (128, 64), at=0, stages=2, swizzle=128)
    b = smem(bf16, (128, 64), at=32768, stages=2, swizzle=128)
    A_map = tensor_map(A, box=(128, 64), swizzle=128)
    B_map = tensor_map(B, box=(128, 64), swizzle=128)
    ring_full = mbarrier(arrivals=1, at=98304, slots=2)
    ring_empty = mbarrier(arrivals=2, at=98320, slots=2)
    load = role(warps=4)
    math = role(warps=4, instances=2)

    with load:
        ring_slot = 0
        ring_phase = 1
        with one_lane():
            for tile in range(cta_id, (M + 127) // 128 * ((N + 127) // 128), cta_count):
                for i in range((K + 63) // 64):
                    mbarrier_wait(ring_empty[ring_slot], ring_phase)
                    mbarrier_expect(ring_full[ring_slot], 32768)
                    tma_load(a[ring_slot], A_map, at=(0, 0), done=ring_full[ring_slot])
                    tma_load(b[ring_slot], B_map, at=(0, 0), done=ring_full[ring_slot])
                    ring_phase = ring_phase ^ 1 if ring_slot == 1 else ring_phase
                    ring_slot = ring_slot + 1 if ring_slot < 1 else 0

    with math:
        ring_slot = 0
        ring_phase = 0
        previous = 0
        for tile in range(cta_id, (M + 127) // 128 * ((N + 127) // 128), cta_count):
            acc = fragment(f32, (64, 128), layout="wgmma")
            for i in range((K + 63) // 64):
                mbarrier_wait(ring_full[ring_slot], ring_phase)
                wgmma(acc, a[ring_slot].tile((0, 0), (64, 16)), b[ring_slot].tile((0, 0), (128, 16)), accumulate=i > 0)
                wgmma_commit()
                wgmma_wait(1)
                if i > 0:
                    with one_lane():
                        mbarrier_arrive(ring_empty[previous])
                previous = ring_slot
                ring_phase = ring_phase ^ 1 if ring_slot == 1 else ring_phase
                ring_slot = ring_slot + 1 if ring_slot < 1 else 0
            wgmma_wait(0)
            with one_lane():
                mbarrier_arrive(ring_empty[previous])
