@schedule(target="sm_90a")
def twice(X: Tensor[f32, "N"], Y: Tensor[f32, "N"]):
    launch(ctas=1)
    most = role(warps=32)
    rest = role(warps=1)

    with most:
        x = fragment(f32, (1,), layout="thread")
        ld_global(x, X[thread_id], when=thread_id < N)
        st_global(Y[thread_id], x * 2.0, when=thread_id < N)

    with rest:
        x = fragment(f32, (1,), layout="thread")
        ld_global(x, X[1024 + thread_id], when=1024 + thread_id < N)
        st_global(Y[1024 + thread_id], x * 2.0, when=1024 + thread_id < N)
