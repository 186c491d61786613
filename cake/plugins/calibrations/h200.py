"""What work costs on NVIDIA H200, fitted by `python -m distill.calibrate fit`."""

from cake.core.calibration import Calibration

H200 = Calibration(
    name="h200",
    device="NVIDIA H200",
    target="sm_90a",
    features=("launch", "waves", "tensor", "smem", "alu", "issue", "l2", "dram", "sync"),
    coefficients=(4.466e-06, 4.441e-07, 1.584e-13, 2.157e-12, 1.164e-11, 1.894e-10, 6.667e-14, 2.469e-13, 1.64e-08),
    fitted_on="gemm_bf16, rmsnorm_bf16",
    n=56,
    held_out_error=0.0847,
    held_out_n=56,
    interval=0.2888,
    coverage=0.9,
    provenance="56 launches, 6 configurations each held out in turn; rank correlation of held-out predictions 0.981",
    sm_count=132,
)
