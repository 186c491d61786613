@schedule(target="sm_90a")
def rows_by_threads(X: Tensor[f32, "M", 64], Y: Tensor[f32, "M", 64]):
    launch(ctas=sm_count)
    ring = smem(f32, (1, 64), at=0, stages=2)
    X_map = tensor_map(X, box=(1, 64))
    full = mbarrier(arrivals=1, at=1024, slots=2)
    empty = mbarrier(arrivals=64, at=1040, slots=2)
    load = role(warps=1)
    rows = role(warps=2)

    with load:
        slot = 0
        phase = 1
        with one_lane():
            prefetch_tensormap(X_map)
            for r in range(cta_id, M, cta_count):
                mbarrier_wait(empty[slot], phase)
                mbarrier_expect(full[slot], 256)
                tma_load(ring[slot], X_map, at=(r, 0), done=full[slot])
                phase = phase ^ 1 if slot == 1 else phase
                slot = slot + 1 if slot < 1 else 0

    with rows:
        slot = 0
        phase = 0
        y = fragment(f32, (1,), layout="thread")
        ld_global(y, X[0, thread_id])
        for r in range(cta_id, M, cta_count):
            mbarrier_wait(full[slot], phase)
            x = ld_shared(ring[slot].tile((0, thread_id), (1, 1)))
            mbarrier_arrive(empty[slot])
            y = y + x
            st_global(Y[r, thread_id], y)
            phase = phase ^ 1 if slot == 1 else phase
            slot = slot + 1 if slot < 1 else 0
