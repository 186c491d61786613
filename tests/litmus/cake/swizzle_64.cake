@schedule(target="sm_90a")
def swizzle_64(A: Tensor[bf16, 64, 32], O: Tensor[bf16, 64, 32]):
    launch(ctas=1)
    box = smem(bf16, (64, 32), at=0, swizzle=64)
    A_map = tensor_map(A, box=(64, 32), swizzle=64)
    raw = tensor_map(O, box=(64, 32))
    full = mbarrier(arrivals=1, at=16384)
    only = role(warps=1)

    with only:
        with one_lane():
            mbarrier_expect(full, 4096)
            tma_load(box, A_map, at=(0, 0), done=full)
        mbarrier_wait(full, 0)
        with one_lane():
            tma_store(raw, box, at=(0, 0))
            bulk_commit()
            bulk_wait(0)
