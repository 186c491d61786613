@schedule(target="sm_90a")
def too_large(X: Tensor[f32, "N"], Y: Tensor[f32, "N"]):
    launch(ctas=1)
    held = smem(f32, (58113,), at=0)
    one = role(warps=1)

    with one:
        x = fragment(f32, (1,), layout="thread")
        ld_global(x, X[thread_id], when=thread_id < N)
        st_shared(held.tile((thread_id,), (1,)), x[0])
        y = ld_shared(held.tile((thread_id,), (1,)))
        st_global(Y[thread_id], x + y, when=thread_id < N)
