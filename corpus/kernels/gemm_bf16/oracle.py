"""What gemm_bf16 should compute, in float64 with PyTorch, and the library calls that it is timed against."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch


def reference(
    inputs: Mapping[str, torch.Tensor], scalars: Mapping[str, float]
) -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
    """For each output its float64 value and the scale of its error: here sum |a||b| over k."""
    a, b = inputs["A"].double(), inputs["B"].double()
    return {"C": (a @ b.T, a.abs() @ b.abs().T)}


def peers(inputs: Mapping[str, torch.Tensor], scalars: Mapping[str, float]) -> dict[str, Callable[[], torch.Tensor]]:
    """Calls to time: cuBLAS through torch.matmul, into an output that is allocated once."""
    a, b = inputs["A"], inputs["B"].T
    out = torch.empty(a.shape[0], b.shape[1], dtype=a.dtype, device=a.device)
    return {"torch.matmul": lambda: torch.matmul(a, b, out=out)}
