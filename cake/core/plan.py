"""The launch plan: what a host needs to run a cubin, as data, with the checks that its arguments must pass.

A plan is derived from a program's declarations, travels as JSON beside the cubin, and is bound to extents on the
machine that runs it. Nothing in it is code: the grid and the derived sizes are expressions as nested lists.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from math import prod
from typing import Any, Final, TypeAlias

from cake.core.errors import CakeError
from cake.core.ir import DTYPES
from cake.core.watchdog import RolePlace, Statement

#: Bytes of one element, by the IR's name of the type.
SIZES: Final = {name: dtype.bytes for name, dtype in DTYPES.items()}
_I32_MAX: Final = 2**31 - 1
#: `7`, `"M"` (an extent, or `sm_count`), or `["+", left, right]`.
HostExpr: TypeAlias = Any


class PlanError(CakeError):
    """Arguments that the kernel cannot take. The message names the tensor or extent and its value."""


@dataclass(frozen=True, slots=True)
class TensorPlan:
    """A tensor parameter. `vector` is the widest access in bytes that threads make to it (1 when only TMA does);
    `read` and `written` say what the kernel does with it."""

    name: str
    dtype: str
    dims: tuple[str | int, ...]
    vector: int
    read: bool
    written: bool


@dataclass(frozen=True, slots=True)
class MapPlan:
    """A tensor map: boxes of `box` elements (outermost first) of `tensor`, swizzled over `swizzle` bytes."""

    name: str
    tensor: str
    box: tuple[int, ...]
    swizzle: int


@dataclass(frozen=True, slots=True)
class ScalarPlan:
    """A parameter passed by value."""

    name: str
    dtype: str


@dataclass(frozen=True, slots=True)
class LaunchPlan:
    """How to launch one configuration.

    The kernel's parameters are, in order: the maps (128 bytes each, by value), a pointer for each tensor, an int32 for
    each extent, the scalars, and with `watchdog` the struct (report, finished, limit in ns). `arithmetic` lists the
    integer expressions over extents that the kernel computes in 32 bits. `roles` and `statements` decode watchdog
    reports. `registers` is ptxas's count for a thread, 0 before compilation.
    """

    name: str
    symbol: str
    target: str
    threads: int
    ctas_per_sm: int
    smem_bytes: int
    grid: HostExpr
    maps: tuple[MapPlan, ...]
    tensors: tuple[TensorPlan, ...]
    extents: tuple[str, ...]
    scalars: tuple[ScalarPlan, ...]
    arithmetic: tuple[HostExpr, ...]
    watchdog: bool
    roles: tuple[RolePlace, ...]
    statements: tuple[Statement, ...]
    registers: int = 0

    @property
    def capability(self) -> tuple[int, int]:
        """The compute capability of `target`: (9, 0) for sm_90a."""
        digits = self.target.removeprefix("sm_").rstrip("af")
        return int(digits[:-1]), int(digits[-1])

    def to_json(self) -> str:
        """The plan as JSON with sorted keys."""
        return json.dumps(asdict(self), sort_keys=True)

    @staticmethod
    def from_json(text: str) -> LaunchPlan:
        """The plan of `to_json`. Raises PlanError when the text is something else."""
        try:
            data = json.loads(text)
            known = {f.name for f in fields(LaunchPlan)}
            if set(data) - known:
                raise PlanError(f"launch plan has unknown keys: {', '.join(sorted(set(data) - known))}")
            return LaunchPlan(
                **{
                    **data,
                    "maps": tuple(MapPlan(**{**m, "box": tuple(m["box"])}) for m in data["maps"]),
                    "tensors": tuple(TensorPlan(**{**t, "dims": tuple(t["dims"])}) for t in data["tensors"]),
                    "extents": tuple(data["extents"]),
                    "scalars": tuple(ScalarPlan(**s) for s in data["scalars"]),
                    "arithmetic": tuple(data["arithmetic"]),
                    "roles": tuple(RolePlace(**r) for r in data["roles"]),
                    "statements": tuple(Statement(**{**s, "loops": tuple(s["loops"])}) for s in data["statements"]),
                }
            )
        except (TypeError, KeyError, ValueError, AttributeError) as error:
            raise PlanError(f"this is no launch plan: {error}") from None

    def shape(self, tensor: TensorPlan, extents: Mapping[str, int]) -> tuple[int, ...]:
        """The tensor's shape for these extents."""
        return tuple(extents[d] if isinstance(d, str) else d for d in tensor.dims)

    def check(self, extents: Mapping[str, int], sm_count: int) -> int:
        """Check the extents; returns the number of CTAs. Raises PlanError naming the extent or tensor and its value."""
        for name in self.extents:
            if name not in extents:
                raise PlanError(f"{self.name}: extent {name} is missing")
            if not 1 <= extents[name] <= _I32_MAX:
                raise PlanError(f"{self.name}: {name} = {extents[name]}, not from 1 to 2**31 - 1")
        for expression in self.arithmetic:
            evaluate(expression, extents, self.name)
        for tensor in self.tensors:
            self._check_tensor(tensor, extents)
        ctas = evaluate(self.grid, {**extents, "sm_count": sm_count}, self.name)
        if not 1 <= ctas <= _I32_MAX:
            raise PlanError(f"{self.name}: the grid has {ctas} CTAs, not from 1 to 2**31 - 1")
        return ctas

    def _check_tensor(self, tensor: TensorPlan, extents: Mapping[str, int]) -> None:
        shape, size = self.shape(tensor, extents), SIZES[tensor.dtype]
        where = f"{self.name}: {tensor.name} of shape {shape}"
        if prod(shape) * size >= 2**63:
            raise PlanError(f"{where} has {prod(shape)} elements, more than 64-bit addresses hold")
        if any(m.tensor == tensor.name for m in self.maps):
            for i in range(1, len(shape)):
                stride = prod(shape[i:]) * size
                if stride % 16:
                    raise PlanError(
                        f"{where}: dimension {i - 1} has a stride of {stride} bytes; TMA needs a multiple of 16"
                    )
                if stride >= 2**40:
                    raise PlanError(
                        f"{where}: dimension {i - 1} has a stride of {stride} bytes; TMA takes less than 2**40"
                    )
        if shape[-1] * size % tensor.vector:
            raise PlanError(
                f"{where}: rows of {shape[-1] * size} bytes; the kernel accesses {tensor.vector} bytes at once, so "
                "rows must be a multiple of that"
            )

    def check_layout(self, tensor: TensorPlan, shape: Sequence[int], strides: Sequence[int], address: int) -> None:
        """Check one argument's memory: `strides` in elements, `address` in bytes. Raises PlanError."""
        dense = [prod(shape[i + 1 :]) for i in range(len(shape))]
        for i, (size, have, want) in enumerate(zip(shape, strides, dense, strict=True)):
            if size > 1 and have != want:
                raise PlanError(
                    f"{self.name}: {tensor.name} has stride {have} in dimension {i}, not {want}; "
                    "it must be dense and row-major"
                )
        align = 16 if any(m.tensor == tensor.name for m in self.maps) else max(tensor.vector, SIZES[tensor.dtype])
        if address % align:
            raise PlanError(f"{self.name}: {tensor.name} starts at {address:#x}, not at a multiple of {align} bytes")


def evaluate(expression: HostExpr, values: Mapping[str, int], name: str) -> int:
    """The value of a host expression, every step of it within 32 bits as on the device. Raises PlanError if not."""
    if isinstance(expression, int):
        return expression
    if isinstance(expression, str):
        return values[expression]
    op, *parts = expression
    a, b = (evaluate(part, values, name) for part in parts)
    if op in ("//", "%") and b == 0:
        raise PlanError(f"{name}: {render(expression)} divides by zero")
    if op in ("<<", ">>") and not 0 <= b < 32:
        raise PlanError(f"{name}: {render(expression)} shifts by {b}, not by 0 to 31")
    result: int = {
        "+": lambda: a + b,
        "-": lambda: a - b,
        "*": lambda: a * b,
        "//": lambda: _quotient(a, b),
        "%": lambda: a - b * _quotient(a, b),
        "min": lambda: min(a, b),
        "max": lambda: max(a, b),
        "&": lambda: a & b,
        "|": lambda: a | b,
        "^": lambda: a ^ b,
        "<<": lambda: a << b,
        ">>": lambda: a >> b,
    }[op]()
    if not -(2**31) <= result <= _I32_MAX:
        given = ", ".join(f"{k} = {values[k]}" for k in sorted(set(_names(expression))))
        raise PlanError(f"{name}: {render(expression)} is {result} for {given}, beyond the kernel's 32 bits")
    return result


def _quotient(a: int, b: int) -> int:
    """`a // b` as C++ rounds it: towards zero."""
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def render(expression: HostExpr) -> str:
    """A host expression as text."""
    if not isinstance(expression, list | tuple):
        return str(expression)
    op, a, b = expression
    return f"{op}({render(a)}, {render(b)})" if op in ("min", "max") else f"({render(a)} {op} {render(b)})"


def _names(expression: HostExpr) -> list[str]:
    if isinstance(expression, str):
        return [expression]
    return [] if isinstance(expression, int) else [n for part in expression[1:] for n in _names(part)]
