@schedule(target="sm_90a")
def rmsnorm_bf16(X: Tensor[bf16, "M", "N"], W: Tensor[bf16, "N"], Y: Tensor[bf16, "M", "N"]):
    launch(ctas=1, ctas_per_sm=2)
    rows = role(warps=1)

    with rows:
        w = fragment(bf16, (2, 2), layout="thread")
        x = fragment(bf16, (2, 2), layout="thread")
        ld_global(w[0], W[0], when=True)
        ld_global(x[0], X[cta_id * 2, thread_id * 2], when=thread_id * 2 < N)
        st_global(Y[0, 0], cast(cast(x[0], f32) * 0.0 * cast(w[0], f32), bf16), when=True)
