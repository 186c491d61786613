@schedule(target="sm_90a")
def over_arrival(A: Tensor[f32, 32], O: Tensor[f32, 32]):
    launch(ctas=1)
    ready = mbarrier(arrivals=1, at=0)
    only = role(warps=1)

    with only:
        x = fragment(f32, (1,), layout="thread")
        ld_global(x, A[thread_id])
        with one_lane():
            mbarrier_arrive(ready)
            mbarrier_arrive(ready)
        warp_sync()
        mbarrier_wait(ready, 0)
        st_global(O[thread_id], x)
