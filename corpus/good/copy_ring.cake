@schedule(target="sm_90a")
def copy_ring(X: Tensor[f32, "M", 64], Y: Tensor[f32, "M", 64]):
    launch(ctas=sm_count)
    ring = smem(f32, (8, 64), at=0, stages=2)
    X_map = tensor_map(X, box=(8, 64))
    Y_map = tensor_map(Y, box=(8, 64))
    full = mbarrier(arrivals=1, at=4096, slots=2)
    empty = mbarrier(arrivals=1, at=4112, slots=2)
    load = role(warps=1)
    store = role(warps=1)

    with load:
        slot = 0
        phase = 1
        with one_lane():
            prefetch_tensormap(X_map)
            for i in range(cta_id, (M + 7) // 8, cta_count):
                mbarrier_wait(empty[slot], phase)
                mbarrier_expect(full[slot], 2048)
                tma_load(ring[slot], X_map, at=(i * 8, 0), done=full[slot])
                phase = phase ^ 1 if slot == 1 else phase
                slot = slot + 1 if slot < 1 else 0

    with store:
        slot = 0
        phase = 0
        with one_lane():
            prefetch_tensormap(Y_map)
            for i in range(cta_id, (M + 7) // 8, cta_count):
                mbarrier_wait(full[slot], phase)
                tma_store(Y_map, ring[slot], at=(i * 8, 0))
                bulk_commit()
                bulk_wait(0, read=True)
                mbarrier_arrive(empty[slot])
                phase = phase ^ 1 if slot == 1 else phase
                slot = slot + 1 if slot < 1 else 0
            bulk_wait(0)
