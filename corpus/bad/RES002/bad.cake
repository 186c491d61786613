@schedule(target="sm_90a")
def grow(X: Tensor[f32, "N"], Y: Tensor[f32, "N"]):
    launch(ctas=1)
    load = role(warps=4)
    math = role(warps=4, instances=2)

    with load:
        setmaxnreg(40, "dec")

    with math:
        setmaxnreg(240, "inc")
        x = fragment(f32, (1,), layout="thread")
        ld_global(x, X[instance * 128 + thread_id], when=instance * 128 + thread_id < N)
        st_global(Y[instance * 128 + thread_id], x * 2.0, when=instance * 128 + thread_id < N)
