"""What work costs on NVIDIA H200, fitted by `python -m distill.calibrate fit`."""

from cake.core.calibration import Calibration

H200 = Calibration(
    name="h200",
    device="NVIDIA H200",
    target="sm_90a",
    features=("launch", "waves", "tensor", "smem", "alu", "issue", "l2", "dram", "sync"),
    coefficients=(4.816e-06, 2.742e-07, 1.568e-13, 5.392e-13, 1.675e-12, 3.588e-10, 6.601e-14, 2.665e-13, 1.715e-08),
    fitted_on="gemm_bf16, rmsnorm_bf16",
    n=72,
    held_out_error=0.0546,
    held_out_n=72,
    interval=0.1841,
    coverage=0.9,
    provenance="72 launches, 8 configurations each held out in turn; rank correlation of held-out predictions 0.993",
    sm_count=132,
)
