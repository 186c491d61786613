@schedule(target="sm_90a")
def copy_rows(X: Tensor[bf16, "M", "N"], Y: Tensor[bf16, "M", "N"]):
    launch(ctas=(M + 63) // 64)
    rows = smem(bf16, (64, 4), at=0)
    X_map = tensor_map(X, box=(64, 4))
    Y_map = tensor_map(Y, box=(64, 4))
    full = mbarrier(arrivals=1, at=512)
    one = role(warps=1)

    with one:
        with one_lane():
            prefetch_tensormap(X_map)
            for n in range((N + 3) // 4):
                mbarrier_expect(full, 512)
                tma_load(rows, X_map, at=(cta_id * 64, n * 4), done=full)
                mbarrier_wait(full, n % 2)
                tma_store(Y_map, rows, at=(cta_id * 64, n * 4))
                bulk_commit()
                bulk_wait(0)
