"""What rmsnorm_bf16 should compute, in float64 with PyTorch, and the library calls that it is timed against."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch


def reference(
    inputs: Mapping[str, torch.Tensor], scalars: Mapping[str, float]
) -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
    """For each output its float64 value and the scale of its error: here the magnitude of the value itself."""
    x, w = inputs["X"].double(), inputs["W"].double()
    y = x * torch.rsqrt(x.square().mean(dim=1, keepdim=True) + scalars["eps"]) * w
    return {"Y": (y, y.abs())}


def peers(inputs: Mapping[str, torch.Tensor], scalars: Mapping[str, float]) -> dict[str, Callable[[], torch.Tensor]]:
    """Calls to time: PyTorch's fused rms_norm."""
    x, w, eps = inputs["X"], inputs["W"], scalars["eps"]
    return {"torch.nn.functional.rms_norm": lambda: torch.nn.functional.rms_norm(x, (x.shape[1],), w, eps)}
