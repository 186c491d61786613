@schedule(target="sm_90a")
def swap_warps(X: Tensor[f32, "N"], Y: Tensor[f32, "N"]):
    launch(ctas=1)
    held = smem(f32, (64,), at=0)
    meet = named_barrier(arrivals=64, at=16)
    both = role(warps=2)

    with both:
        x = fragment(f32, (1,), layout="thread")
        ld_global(x, X[thread_id], when=thread_id < N)
        st_shared(held.tile((thread_id,), (1,)), x[0])
        barrier_sync(meet)
        y = ld_shared(held.tile((63 - thread_id,), (1,)))
        st_global(Y[thread_id], x + y, when=thread_id < N)
