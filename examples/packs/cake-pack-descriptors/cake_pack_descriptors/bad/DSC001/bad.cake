@schedule(target="sm_90a")
def copy_rows(X: Tensor[bf16, "M", "N"], Y: Tensor[bf16, "M", "N"]):
    launch(ctas=(M + 63) // 64)
    rows = smem(bf16, (64, 64), at=0)
    X_map = tensor_map(X, box=(64, 64))
    Y_map = tensor_map(Y, box=(64, 64))
    full = mbarrier(arrivals=1, at=8192)
    one = role(warps=1)

    with one:
        with one_lane():
            for n in range((N + 63) // 64):
                mbarrier_expect(full, 8192)
                tma_load(rows, X_map, at=(cta_id * 64, n * 64), done=full)
                mbarrier_wait(full, n % 2)
                tma_store(Y_map, rows, at=(cta_id * 64, n * 64))
                bulk_commit()
                bulk_wait(0)
