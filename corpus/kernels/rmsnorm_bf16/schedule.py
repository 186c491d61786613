"""RMS normalisation in bf16, as thread code: vector loads, warp and CTA reductions."""

from cake import *


@schedule(target="sm_90a")
def rmsnorm_bf16(
    X: Tensor[bf16, "M", "N"],
    W: Tensor[bf16, "N"],
    Y: Tensor[bf16, "M", "N"],
    eps: f32,
    *,
    WARPS=8,
    VEC=8,
    CHUNKS=4,
    ROWS=4,
):
    """Y = X / sqrt(mean(X**2) + eps) * W, one row at a time in registers; N <= 32 * WARPS * VEC * CHUNKS."""
    THREADS = 32 * WARPS
    launch(ctas=ceil_div(M, ROWS), ctas_per_sm=2)
    partial = smem(f32, (WARPS,), at=0)
    done = named_barrier(arrivals=THREADS, at=1)
    rows = role(warps=WARPS)

    with rows:
        w = fragment(bf16, (CHUNKS, VEC), layout="thread")
        x = fragment(bf16, (CHUNKS, VEC), layout="thread")
        for j in static(range(CHUNKS)):
            ld_global(w[j], W[(j * THREADS + thread_id) * VEC], when=(j * THREADS + thread_id) * VEC < N)
        for r in range(cta_id * ROWS, min(M, (cta_id + 1) * ROWS)):
            for j in static(range(CHUNKS)):
                ld_global(x[j], X[r, (j * THREADS + thread_id) * VEC], when=(j * THREADS + thread_id) * VEC < N)
            s = 0.0
            for j in static(range(CHUNKS)):
                f = cast(x[j], f32)
                s = s + sum(f * f)
            for step in static((16, 8, 4, 2, 1)):
                s = s + shfl(s, "bfly", step)
            if lane_id == 0:
                st_shared(partial.tile((warp_id,), (1,)), s)
            barrier_sync(done)
            # Every warp adds the partial sums itself: each lane takes one, lanes beyond WARPS repeat them.
            p = ld_shared(partial.tile((lane_id % WARPS,), (1,)))
            for step in static((16, 8, 4, 2, 1)):
                if step < WARPS:
                    p = p + shfl(p, "bfly", step)
            scale = rsqrt(p / cast(N, f32) + eps)
            for j in static(range(CHUNKS)):
                st_global(
                    Y[r, (j * THREADS + thread_id) * VEC],
                    cast(cast(x[j], f32) * scale * cast(w[j], f32), bf16),
                    when=(j * THREADS + thread_id) * VEC < N,
                )
            # The next row's partial sums must not overtake this row's readers.
            barrier_sync(done)
