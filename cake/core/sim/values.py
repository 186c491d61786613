"""Values in registers and memory: NumPy types, poison, and the machine's integer arithmetic.

A scalar is a Python or NumPy scalar while it is the same in all lanes of an agent, and an array of one value a lane
once it differs. A fragment is always an array, lanes first.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Final, TypeAlias

import numpy as np

from cake.core.inputs import NUMPY
from cake.core.ir import DType
from cake.core.sim.result import Array, Trap

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
    """`value` as `dtype`: floats round to nearest even, integers wrap; floats become integers towards zero, within the
    type's range, and NaN becomes 0 (PTX ISA, cvt)."""
    whole = dtype.kind in ("int", "uint")
    if isinstance(value, np.ndarray):
        if whole and value.dtype.kind not in "iub":
            low, high = integer_range(dtype)
            value = np.clip(np.nan_to_num(np.trunc(value.astype(np.float64)), posinf=high, neginf=low), low, high)
        return value.astype(numpy_type(dtype))
    if whole and not isinstance(value, int):
        low, high = integer_range(dtype)
        return 0 if np.isnan(value) else int(min(max(float(value), low), high))
    if whole:
        return wrap(value, dtype)
    if dtype.kind == "bool":
        return bool(value)
    return numpy_type(dtype).type(value)


def integer_range(dtype: DType) -> tuple[int, int]:
    """The least and the greatest value of an integer type."""
    bits = 8 * dtype.bytes
    return (-(1 << bits - 1), (1 << bits - 1) - 1) if dtype.kind == "int" else (0, (1 << bits) - 1)


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


_LONGEST: Final = 64  # bits of the widest integer


def _shift_left(a: int, b: int) -> int:
    # A count beyond the width shifts everything out, and a negative one counts as unsigned (PTX ISA, shl, shr).
    return a << b if 0 <= b < _LONGEST else 0


def _shift_right(a: int, b: int) -> int:
    return a >> b if 0 <= b < _LONGEST else a >> _LONGEST


def _shift_left_array(a: Any, b: Any) -> Any:
    bits = 8 * np.result_type(a, b).itemsize
    return np.where(_inside(b, bits), np.left_shift(a, np.clip(b, 0, bits - 1)), 0).astype(np.result_type(a, b))


def _shift_right_array(a: Any, b: Any) -> Any:
    bits = 8 * np.result_type(a, b).itemsize
    return np.right_shift(a, np.where(_inside(b, bits), b, bits - 1).astype(np.result_type(a, b)))


def _inside(count: Any, bits: int) -> Any:
    return np.greater_equal(count, 0) & np.less(count, bits)


_SCALAR: Final[dict[str, Fn]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
    "<<": _shift_left,
    ">>": _shift_right,
    "min": np.fmin,  # CUDA's fminf and fmaxf give the number when one operand is NaN
    "max": np.fmax,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_INTEGER: Final[dict[str, Fn]] = {**_SCALAR, "//": _divide, "%": _remainder, "min": min, "max": max}
_ARRAY: Final[dict[str, Fn]] = {
    **_SCALAR,
    "/": np.true_divide,
    "and": np.logical_and,
    "or": np.logical_or,
}
_INTEGER_ARRAY: Final[dict[str, Fn]] = {
    **_ARRAY,
    "//": _divide_array,
    "%": _remainder_array,
    "<<": _shift_left_array,
    ">>": _shift_right_array,
}
_MAY_OVERFLOW: Final = frozenset({"+", "-", "*", "<<"})


def scalar_operator(op: str, dtype: DType) -> Fn:
    """`op` on two uniform scalars of `dtype`. Integers wrap; division truncates as in C."""
    if dtype.kind not in ("int", "uint"):
        return _SCALAR[op]
    plain = _INTEGER[op]
    if op not in _MAY_OVERFLOW:
        return plain
    low, high = integer_range(dtype)

    def run(a: Any, b: Any) -> Any:
        result = plain(a, b)
        return result if low <= result <= high else wrap(result, dtype)

    return run


def array_operator(op: str, dtype: DType) -> Fn:
    """`op` where at least one side is an array of `dtype`."""
    if dtype.kind in ("int", "uint"):
        return _INTEGER_ARRAY[op]
    return _ARRAY[op]


def lane_of(value: Any, lane: int) -> Any:
    """A scalar's value in one lane."""
    return value[lane].item() if isinstance(value, np.ndarray) else value
