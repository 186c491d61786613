@schedule(target="sm_90a")
def proxy_fence_missing(A: Tensor[f32, 64, 32], B: Tensor[f32, 32], O: Tensor[f32, 64, 32]):
    launch(ctas=1)
    box = smem(f32, (64, 32), at=0)
    A_map = tensor_map(A, box=(64, 32))
    O_map = tensor_map(O, box=(64, 32))
    full = mbarrier(arrivals=1, at=8192)
    only = role(warps=1)

    with only:
        x = fragment(f32, (1,), layout="thread")
        ld_global(x, B[thread_id])
        with one_lane():
            mbarrier_expect(full, 8192)
            tma_load(box, A_map, at=(0, 0), done=full)
        mbarrier_wait(full, 0)
        for i in range(64):
            st_shared(box.tile((i, thread_id), (1, 1)), sum(x))
        warp_sync()
        with one_lane():
            tma_store(O_map, box, at=(0, 0))
            bulk_commit()
            bulk_wait(0)
