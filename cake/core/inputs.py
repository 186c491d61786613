"""Input data by distribution, the same on every machine: NumPy's Philox keyed by seed and tensor name.

Needs NumPy and ml_dtypes only, so that the GPU worker can make its inputs where it runs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

import ml_dtypes
import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]

#: NumPy types of the IR's scalar types.
NUMPY: Final[dict[str, np.dtype[Any]]] = {
    "bool": np.dtype(np.bool_),
    "i32": np.dtype(np.int32),
    "u32": np.dtype(np.uint32),
    "i64": np.dtype(np.int64),
    "f32": np.dtype(np.float32),
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
}


def _normal(rng: np.random.Generator, shape: tuple[int, ...], std: float = 1.0) -> Array:
    return rng.standard_normal(shape, dtype=np.float32) * np.float32(std)


def _uniform(rng: np.random.Generator, shape: tuple[int, ...], low: float = -1.0, high: float = 1.0) -> Array:
    return np.float32(low) + rng.random(shape, dtype=np.float32) * np.float32(high - low)


def _integers(rng: np.random.Generator, shape: tuple[int, ...], low: int = -2, high: int = 2) -> Array:
    """Whole numbers from `low` to `high`: many ties, and sums that are exact in f32."""
    return rng.integers(low, high + 1, shape).astype(np.float32)


def _magnitudes(rng: np.random.Generator, shape: tuple[int, ...], low: float = -20, high: float = 20) -> Array:
    """Signs at random, magnitudes 2**x with x uniform from `low` to `high`."""
    sign = rng.integers(0, 2, shape).astype(np.float32) * 2 - 1
    return np.asarray(sign * np.exp2(_uniform(rng, shape, low, high)), np.float32)


def _paired(rng: np.random.Generator, shape: tuple[int, ...], sign: int = 1, noise: float = 0.0) -> Array:
    """Neighbours along the last dimension are equal but for `sign` and some `noise`: products of one tensor with sign 1
    and one with sign -1 cancel."""
    x = _normal(rng, shape)
    half = x.shape[-1] // 2
    x[..., 1 : 2 * half : 2] = sign * x[..., 0 : 2 * half : 2]
    return np.asarray(x + np.float32(noise) * _normal(rng, shape), np.float32)


def _constant(rng: np.random.Generator, shape: tuple[int, ...], value: float = 0.0) -> Array:
    return np.full(shape, value, np.float32)


KINDS: Final[dict[str, Callable[..., Array]]] = {
    "normal": _normal,
    "uniform": _uniform,
    "integers": _integers,
    "magnitudes": _magnitudes,
    "paired": _paired,
    "constant": _constant,
}


def generate(
    kind: str, parameters: Mapping[str, float], shape: tuple[int, ...], dtype: str, *, seed: int, name: str
) -> Array:
    """An array of `shape` and IR type `dtype`, drawn from distribution `kind`; `seed` and `name` fix its values."""
    key = hashlib.sha256(f"{seed}/{name}".encode()).digest()
    rng = np.random.Generator(np.random.Philox(key=int.from_bytes(key[:16], "little")))
    return KINDS[kind](rng, shape, **parameters).astype(NUMPY[dtype])
