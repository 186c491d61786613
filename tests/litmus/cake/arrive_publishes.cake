@schedule(target="sm_90a")
def arrive_publishes(A: Tensor[f32, 32], Z: Tensor[f32, 32], O: Tensor[f32, 32]):
    launch(ctas=1)
    box = smem(f32, (32,), at=0)
    ready = mbarrier(arrivals=32, at=128)
    writer = role(warps=1)
    reader = role(warps=1)

    with writer:
        x = fragment(f32, (1,), layout="thread")
        ld_global(x, A[thread_id])
        st_shared(box.tile((thread_id,), (1,)), sum(x))
        mbarrier_arrive(ready)

    with reader:
        z = fragment(f32, (1,), layout="thread")
        ld_global(z, Z[thread_id])
        mbarrier_wait(ready, 0)
        y = ld_shared(box.tile((thread_id,), (1,)))
        st_global(O[thread_id], z + y)
