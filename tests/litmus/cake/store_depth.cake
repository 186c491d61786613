@schedule(target="sm_90a")
def store_depth(A: Tensor[f32, 64, 32], B: Tensor[f32, 32], O: Tensor[f32, 64, 32], P: Tensor[f32, 64, 32]):
    launch(ctas=1)
    first = smem(f32, (64, 32), at=0)
    second = smem(f32, (64, 32), at=8192)
    A_map = tensor_map(A, box=(64, 32))
    O_map = tensor_map(O, box=(64, 32))
    P_map = tensor_map(P, box=(64, 32))
    full = mbarrier(arrivals=1, at=16384)
    only = role(warps=1)

    with only:
        x = fragment(f32, (1,), layout="thread")
        ld_global(x, B[thread_id])
        with one_lane():
            mbarrier_expect(full, 16384)
            tma_load(first, A_map, at=(0, 0), done=full)
            tma_load(second, A_map, at=(0, 0), done=full)
        mbarrier_wait(full, 0)
        with one_lane():
            tma_store(O_map, first, at=(0, 0))
            bulk_commit()
            tma_store(P_map, second, at=(0, 0))
            bulk_commit()
            bulk_wait(1, read=True)
        warp_sync()
        for i in range(64):
            st_shared(first.tile((63 - i, thread_id), (1, 1)), sum(x))
        with one_lane():
            bulk_wait(0)
