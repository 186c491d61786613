"""Values in registers and memory: NumPy types, poison, and the machine's integer arithmetic.

A scalar is a Python or NumPy scalar while it is the same in all lanes of an agent, and an array of one value a lane
once it differs. A fragment is always an array, lanes first.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Final, TypeAlias

import ml_dtypes
import numpy as np

from cake.core.ir import DType
from cake.core.sim.result import Array, Trap

NUMPY: Final[dict[str, np.dtype[Any]]] = {
    "bool": np.dtype(np.bool_),
    "i32": np.dtype(np.int32),
    "u32": np.dtype(np.uint32),
    "i64": np.dtype(np.int64),
    "f32": np.dtype(np.float32),
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
}
#: Unsigned words by size: memory moves bits, whatever they mean.
WORDS: Final[dict[int, np.dtype[Any]]] = {n: np.dtype(f"u{n}") for n in (1, 2, 4, 8)}

Fn: TypeAlias = Callable[[Any, Any], Any]


def numpy_type(dtype: DType) -> np.dtype[Any]:
    """The NumPy type that holds `dtype`."""
    return NUMPY[dtype.name]


def poison(dtype: DType, shape: tuple[int, ...]) -> Array:
    """Values that nobody wrote: all bits set, which is NaN in every float type and -1 in the signed integers."""
    if dtype.kind == "bool":
        return np.ones(shape, np.bool_)
    return np.full(shape, -1, np.dtype(f"i{dtype.bytes}")).view(numpy_type(dtype))


def convert(value: Any, dtype: DType) -> Any:
    """`value` as `dtype`: floats round to nearest even, floats to integers towards zero, integers wrap."""
    if isinstance(value, np.ndarray):
        return value.astype(numpy_type(dtype))
    if dtype.kind in ("int", "uint"):
        return wrap(int(value), dtype)
    if dtype.kind == "bool":
        return bool(value)
    return numpy_type(dtype).type(value)


def wrap(value: int, dtype: DType) -> int:
    """`value` reduced to the range of an integer type, in two's complement."""
    bits = 8 * dtype.bytes
    value &= (1 << bits) - 1
    return value - (1 << bits) if dtype.kind == "int" and value >> (bits - 1) else value


def _divide(a: int, b: int) -> int:
    if b == 0:
        raise Trap("integer division by zero")
    return a // b if (a >= 0) == (b > 0) else -(-a // b)


def _remainder(a: int, b: int) -> int:
    return a - b * _divide(a, b)


def _divide_array(a: Any, b: Any) -> Any:
    if not np.all(b):
        raise Trap("integer division by zero")
    quotient = np.floor_divide(a, b)
    inexact = quotient * b != a
    return quotient + (inexact & ((np.less(a, 0)) != (np.less(b, 0))))


def _remainder_array(a: Any, b: Any) -> Any:
    return a - _divide_array(a, b) * b


_SCALAR: Final[dict[str, Fn]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
    "<<": operator.lshift,
    ">>": operator.rshift,
    "min": np.fmin,  # CUDA's fminf and fmaxf give the number when one operand is NaN
    "max": np.fmax,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_INTEGER: Final[dict[str, Fn]] = {"/": _divide, "//": _divide, "%": _remainder, "min": min, "max": max}
_ARRAY: Final[dict[str, Fn]] = {
    **_SCALAR,
    "/": np.true_divide,
    "//": np.floor_divide,
    "%": np.fmod,
    "and": np.logical_and,
    "or": np.logical_or,
}
_INTEGER_ARRAY: Final[dict[str, Fn]] = {"/": _divide_array, "//": _divide_array, "%": _remainder_array}
_MAY_OVERFLOW: Final = frozenset({"+", "-", "*", "<<"})


def scalar_operator(op: str, dtype: DType) -> Fn:
    """`op` on two uniform scalars of `dtype`. Integers wrap; division truncates as in C."""
    if dtype.kind not in ("int", "uint"):
        return _SCALAR[op]
    plain = _INTEGER.get(op, _SCALAR[op])
    if op not in _MAY_OVERFLOW:
        return plain
    low, high = (-(1 << 8 * dtype.bytes - 1), 1 << 8 * dtype.bytes - 1)
    if dtype.kind == "uint":
        low, high = 0, 1 << 8 * dtype.bytes

    def run(a: Any, b: Any) -> Any:
        result = plain(a, b)
        return result if low <= result < high else wrap(result, dtype)

    return run


def array_operator(op: str, dtype: DType) -> Fn:
    """`op` where at least one side is an array of `dtype`."""
    if dtype.kind in ("int", "uint"):
        return _INTEGER_ARRAY.get(op, _ARRAY[op])
    return _ARRAY[op]


def lane_of(value: Any, lane: int) -> Any:
    """A scalar's value in one lane."""
    return value[lane].item() if isinstance(value, np.ndarray) else value
