@schedule(target="sm_90a")
def one_role(X: Tensor[f32, "M", 64], Y: Tensor[f32, "M"]):
    launch(ctas=sm_count)
    row = smem(f32, (1, 64), at=0)
    partial = smem(f32, (2,), at=256)
    X_map = tensor_map(X, box=(1, 64))
    full = mbarrier(arrivals=1, at=264)
    done = named_barrier(arrivals=64, at=1)
    rows = role(warps=2)

    with rows:
        with one_lane():
            prefetch_tensormap(X_map)
        phase = 0
        y = fragment(f32, (1,), layout="thread")
        ld_global(y, X[0, 0])
        if thread_id < 2:
            st_shared(partial.tile((thread_id,), (1,)), 0.0)
        barrier_sync(done)
        for r in range(cta_id, M, cta_count):
            with one_lane():
                mbarrier_expect(full, 256)
                tma_load(row, X_map, at=(r, 0), done=full)
            mbarrier_wait(full, phase)
            phase = phase ^ 1
            s = ld_shared(row.tile((0, thread_id), (1, 1)))
            shfl_value = shfl(s, "bfly", 16)
            s = s + shfl_value
            if lane_id == 0:
                st_shared(partial.tile((warp_id,), (1,)), s)
            barrier_sync(done)
            with one_lane():
                p = ld_shared(partial.tile((0,), (1,)))
                q = ld_shared(partial.tile((1,), (1,)))
                st_global(Y[r], y + (p + q))
            barrier_sync(done)
