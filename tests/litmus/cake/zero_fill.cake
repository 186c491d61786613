@schedule(target="sm_90a")
def zero_fill(A: Tensor[f32, 1, 20], Z: Tensor[f32, 32], O: Tensor[f32, 32]):
    launch(ctas=1)
    box = smem(f32, (1, 32), at=0)
    A_map = tensor_map(A, box=(1, 32))
    full = mbarrier(arrivals=1, at=128)
    only = role(warps=1)

    with only:
        z = fragment(f32, (1,), layout="thread")
        ld_global(z, Z[thread_id])
        with one_lane():
            mbarrier_expect(full, 128)
            tma_load(box, A_map, at=(0, 0), done=full)
        mbarrier_wait(full, 0)
        y = ld_shared(box.tile((0, thread_id), (1, 1)))
        st_global(O[thread_id], z + y)
