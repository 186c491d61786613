@schedule(target="sm_90a")
def unordered_read(A: Tensor[f32, 32], B: Tensor[f32, 32], Z: Tensor[f32, 32], O: Tensor[f32, 32]):
    launch(ctas=1)
    box = smem(f32, (32,), at=0)
    both = named_barrier(arrivals=64, at=1)
    writer = role(warps=1)
    reader = role(warps=1)

    with writer:
        x = fragment(f32, (1,), layout="thread")
        ld_global(x, A[thread_id])
        st_shared(box.tile((thread_id,), (1,)), sum(x))
        ld_global(x, B[thread_id])
        barrier_sync(both)
        st_shared(box.tile((thread_id,), (1,)), sum(x))

    with reader:
        z = fragment(f32, (1,), layout="thread")
        ld_global(z, Z[thread_id])
        barrier_sync(both)
        y = ld_shared(box.tile((thread_id,), (1,)))
        st_global(O[thread_id], z + y)
