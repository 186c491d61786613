@schedule(target="sm_90a")
def two_owners(X: Tensor[f32, "N"], Y: Tensor[f32, "N"]):
    launch(ctas=1)
    mine = smem(f32, (32,), at=0)
    yours = smem(f32, (32,), at=128)
    left = role(warps=1)
    right = role(warps=1)

    with left:
        x = fragment(f32, (1,), layout="thread")
        ld_global(x, X[lane_id], when=lane_id < N)
        st_shared(mine.tile((lane_id,), (1,)), x[0])
        warp_sync()
        y = ld_shared(mine.tile((31 - lane_id,), (1,)))
        st_global(Y[lane_id], x + y, when=lane_id < N)

    with right:
        x = fragment(f32, (1,), layout="thread")
        ld_global(x, X[32 + lane_id], when=32 + lane_id < N)
        st_shared(yours.tile((lane_id,), (1,)), x[0])
        warp_sync()
        y = ld_shared(yours.tile((31 - lane_id,), (1,)))
        st_global(Y[32 + lane_id], x + y, when=32 + lane_id < N)
