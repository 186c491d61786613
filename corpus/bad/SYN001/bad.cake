@schedule(target="sm_90a")
def two_pairs(X: Tensor[f32, "N"], Y: Tensor[f32, "N"]):
    launch(ctas=1)
    held = smem(f32, (128,), at=0)
    left_meet = named_barrier(arrivals=64, at=1)
    right_meet = named_barrier(arrivals=64, at=1)
    left = role(warps=2)
    right = role(warps=2)

    with left:
        x = fragment(f32, (1,), layout="thread")
        ld_global(x, X[thread_id], when=thread_id < N)
        st_shared(held.tile((thread_id,), (1,)), x[0])
        barrier_sync(left_meet)
        y = ld_shared(held.tile((63 - thread_id,), (1,)))
        st_global(Y[thread_id], x + y, when=thread_id < N)

    with right:
        x = fragment(f32, (1,), layout="thread")
        ld_global(x, X[64 + thread_id], when=64 + thread_id < N)
        st_shared(held.tile((64 + thread_id,), (1,)), x[0])
        barrier_sync(right_meet)
        y = ld_shared(held.tile((127 - thread_id,), (1,)))
        st_global(Y[64 + thread_id], x + y, when=64 + thread_id < N)
