@schedule(target="sm_90a")
def named_barrier_over(A: Tensor[f32, 96], O: Tensor[f32, 96]):
    launch(ctas=1)
    some = named_barrier(arrivals=64, at=1)
    every = role(warps=3)

    with every:
        x = fragment(f32, (1,), layout="thread")
        ld_global(x, A[thread_id])
        barrier_sync(some)
        st_global(O[thread_id], x)
