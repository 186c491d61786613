@schedule(target="sm_90a")
def rmsnorm_bf16(X: Tensor[bf16, "M", "N"], W: Tensor[bf16, "N"], Y: Tensor[bf16, "M", "N"], eps: f32):
    launch(ctas=(M + 3) // 4, ctas_per_sm=2)
    partial = smem(f32, (8,), at=0)
    done = named_barrier(arrivals=256, at=1)
    rows = role(warps=8)

    with rows:
        w = fragment(bf16, (4, 8), layout="thread")
        x = fragment(bf16, (4, 8), layout="thread")
        ld_global(w[0], W[thread_id * 8], when=thread_id * 8 < N)
        ld_global(w[1], W[(256 + thread_id) * 8], when=(256 + thread_id) * 8 < N)
        ld_global(w[2], W[(512 + thread_id) * 8], when=(512 + thread_id) * 8 < N)
        ld_global(w[3], W[(768 + thread_id) * 8], when=(768 + thread_id) * 8 < N)
        for r in range(cta_id * 4, min(M, (cta_id + 1) * 4)):
            ld_global(x[0], X[r, thread_id * 8], when=thread_id * 8 < N)
            ld_global(x[1], X[r, (256 + thread_id) * 8], when=(256 + thread_id) * 8 < N)
            ld_global(x[2], X[r, (512 + thread_id) * 8], when=(512 + thread_id) * 8 < N)
            ld_global(x[3], X[r, (768 + thread_id) * 8], when=(768 + thread_id) * 8 < N)
            s = 0.0
            f = cast(x[0], f32)
            s = s + sum(f * f)
            f = cast(x[1], f32)
            s = s + sum(f * f)
            f = cast(x[2], f32)
            s = s + sum(f * f)
            f = cast(x[3], f32)
            s = s + sum(f * f)
            shfl_value = shfl(s, "bfly", 16)
            s = s + shfl_value
            shfl_value = shfl(s, "bfly", 8)
            s = s + shfl_value
            shfl_value = shfl(s, "bfly", 4)
            s = s + shfl_value
            shfl_value = shfl(s, "bfly", 2)
            s = s + shfl_value
            shfl_value = shfl(s, "bfly", 1)
            s = s + shfl_value
            if lane_id == 0:
                st_shared(partial.tile((warp_id,), (1,)), s)
            barrier_sync(done)
            p = ld_shared(partial.tile((lane_id % 8,), (1,)))
            shfl_value = shfl(p, "bfly", 4)
            p = p + shfl_value
            shfl_value = shfl(p, "bfly", 2)
            p = p + shfl_value
            shfl_value = shfl(p, "bfly", 1)
            p = p + shfl_value
            scale = rsqrt(p / cast(N, f32) + eps)
            st_global(Y[r, thread_id * 8], cast(cast(x[0], f32) * scale * cast(w[0], f32), bf16), when=thread_id * 8 < N)
            st_global(Y[r, (256 + thread_id) * 8], cast(cast(x[1], f32) * scale * cast(w[1], f32), bf16), when=(256 + thread_id) * 8 < N)
            st_global(Y[r, (512 + thread_id) * 8], cast(cast(x[2], f32) * scale * cast(w[2], f32), bf16), when=(512 + thread_id) * 8 < N)
            st_global(Y[r, (768 + thread_id) * 8], cast(cast(x[3], f32) * scale * cast(w[3], f32), bf16), when=(768 + thread_id) * 8 < N)
            barrier_sync(done)
