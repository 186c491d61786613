@schedule(target="sm_90a")
def setmaxnreg_over(A: Tensor[f32, 384], O: Tensor[f32, 384]):
    launch(ctas=1)
    first = role(warps=4)
    rest = role(warps=4, instances=2)

    with first:
        x = fragment(f32, (1,), layout="thread")
        ld_global(x, A[thread_id])
        setmaxnreg(232, "inc")
        st_global(O[thread_id], x)

    with rest:
        x = fragment(f32, (1,), layout="thread")
        ld_global(x, A[128 + 128 * instance + thread_id])
        setmaxnreg(232, "inc")
        st_global(O[128 + 128 * instance + thread_id], x)
