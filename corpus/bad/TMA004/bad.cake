@schedule(target="sm_90a")
def first_column(X: Tensor[bf16, "M", "N"], Y: Tensor[bf16, "M"]):
    launch(ctas=1)
    rows = smem(bf16, (32, 4), at=0)
    X_map = tensor_map(X, box=(32, 4))
    full = mbarrier(arrivals=1, at=1024)
    one = role(warps=1)

    with one:
        with one_lane():
            mbarrier_expect(full, 256)
            tma_load(rows, X_map, at=(0, 0), done=full)
        mbarrier_wait(full, 0)
        x = fragment(bf16, (1,), layout="thread")
        ld_global(x, X[lane_id, 0], when=lane_id < M)
        y = ld_shared(rows.tile((lane_id, 0), (1, 1)))
        st_global(Y[lane_id], x + y, when=lane_id < M)
