@schedule(target="sm_90a")
def store_outside(A: Tensor[f32, 20], O: Tensor[f32, 1, 20]):
    launch(ctas=1)
    box = smem(f32, (1, 32), at=0)
    O_map = tensor_map(O, box=(1, 32))
    only = role(warps=1)

    with only:
        x = fragment(f32, (1,), layout="thread")
        ld_global(x, A[thread_id], when=thread_id < 20)
        st_shared(box.tile((0, thread_id), (1, 1)), sum(x))
        fence_proxy_async()
        warp_sync()
        with one_lane():
            tma_store(O_map, box, at=(0, 0))
            bulk_commit()
            bulk_wait(0)
