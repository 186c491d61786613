"""A calibration: what a unit of each kind of work costs on one device, fitted from measurements."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Calibration:
    """Coefficients (seconds a unit of a cost feature) for one device, with where they come from and how good they are.

    `held_out_error` is the median relative error on `held_out_n` launches, each predicted by a fit that saw no launch
    of the same kernel in the same configuration; `interval` the conformal half-width (relative) at `coverage`.
    """

    name: str
    device: str
    target: str
    features: tuple[str, ...]
    coefficients: tuple[float, ...]
    fitted_on: str
    n: int
    held_out_error: float
    held_out_n: int
    interval: float
    coverage: float
    provenance: str
    sm_count: int = 0  #: multiprocessors of the device, for predictions on a machine without it
