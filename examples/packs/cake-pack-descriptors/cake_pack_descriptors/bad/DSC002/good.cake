@schedule(target="sm_90a")
def copy_rows(X: Tensor[bf16, "M", "N"], Y: Tensor[bf16, "M", "N"]):
    launch(ctas=(M + 63) // 64)
    rows = smem(bf16, (64, 8), at=0)
    X_map = tensor_map(X, box=(64, 8))
    Y_map = tensor_map(Y, box=(64, 8))
    full = mbarrier(arrivals=1, at=1024)
    one = role(warps=1)

    with one:
        with one_lane():
            prefetch_tensormap(X_map)
            for n in range((N + 7) // 8):
                mbarrier_expect(full, 1024)
                tma_load(rows, X_map, at=(cta_id * 64, n * 8), done=full)
                mbarrier_wait(full, n % 2)
                tma_store(Y_map, rows, at=(cta_id * 64, n * 8))
                bulk_commit()
                bulk_wait(0)
