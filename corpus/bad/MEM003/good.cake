@schedule(target="sm_90a")
def through_tma(X: Tensor[f32, "N"], Y: Tensor[f32, "N"]):
    launch(ctas=1)
    held = smem(f32, (32,), at=0)
    Y_map = tensor_map(Y, box=(32,))
    one = role(warps=1)

    with one:
        x = fragment(f32, (1,), layout="thread")
        ld_global(x, X[lane_id], when=lane_id < N)
        st_shared(held.tile((lane_id,), (1,)), x[0])
        fence_proxy_async()
        warp_sync()
        with one_lane():
            tma_store(Y_map, held, at=(0,))
            bulk_commit()
            bulk_wait(0)
