@schedule(target="sm_90a")
def two_widths(X: Tensor[bf16, "M", "N"], Y: Tensor[bf16, "M", "N"]):
    launch(ctas=M)
    rows = role(warps=2)

    with rows:
        wide = fragment(bf16, (8,), layout="thread")
        narrow = fragment(bf16, (1,), layout="thread")
        first = fragment(bf16, (1,), layout="thread")
        ld_global(first, X[cta_id, 0])
        for c in range(0, N // 512 * 512, 512):
            ld_global(wide, X[cta_id, c + thread_id * 8])
            st_global(Y[cta_id, c + thread_id * 8], wide)
        for c in range(N // 512 * 512, N, 64):
            ld_global(narrow, X[cta_id, c + thread_id], when=c + thread_id < N)
            st_global(Y[cta_id, c + thread_id], cast(cast(narrow, f32) + cast(first, f32), bf16), when=c + thread_id < N)
