"""Expressions compiled once into closures over an agent."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Protocol, TypeAlias

import numpy as np

from cake.core.ir import (
    Binary,
    Cast,
    Const,
    Expr,
    Extent,
    FragmentType,
    Part,
    Reduce,
    Select,
    Special,
    Type,
    Unary,
    Var,
    element_type,
)
from cake.core.layout import Layout
from cake.core.registry import layouts
from cake.core.sim.result import Array, Trap, Unmodelled
from cake.core.sim.values import array_operator, convert, numpy_type, scalar_operator, wrap


class Scope(Protocol):
    """What an expression reads: registers by name, extents, and the special values."""

    env: dict[str, Any]
    extents: Mapping[str, int]
    specials: Mapping[str, Any]


Code: TypeAlias = Callable[[Any], Any]


def fragment_dims(t: Type) -> int:
    """Array dimensions behind the lane dimension: a private fragment keeps its shape, a spread one lists registers."""
    if not isinstance(t, FragmentType):
        return 0
    return len(t.shape) if t.layout == "thread" else 1


def spread(value: Any, dims: int) -> Any:
    """A per-lane scalar shaped to broadcast over `dims` fragment dimensions."""
    return value.reshape(value.shape + (1,) * dims) if isinstance(value, np.ndarray) else value


def layout_of(name: str) -> Layout:
    """The fragment layout called `name`."""
    found = layouts().get(name)
    if found is None:
        raise Unmodelled(f"no fragment layout is called {name!r}; known: {', '.join(layouts())}")
    return found


@lru_cache(maxsize=256)
def registers_of(layout: str, shape: tuple[int, ...], start: int, count: int) -> slice | Array:
    """The registers that hold columns `start` to `start + count` of a spread fragment.

    They must be the same in every thread, and in the order in which the narrower fragment holds them; otherwise the
    part has no meaning without moving data between threads.
    """
    whole = layout_of(layout).coords(shape)
    inside = (whole[..., -1] >= start) & (whole[..., -1] < start + count)
    registers = np.flatnonzero(inside[0])
    part = layout_of(layout).coords((*shape[:-1], count)) + np.array([0] * (len(shape) - 1) + [start])
    if not (inside == inside[0]).all() or not np.array_equal(whole[:, registers], part):
        raise Unmodelled(f"columns {start} to {start + count - 1} of layout {layout!r} cross registers")
    if np.array_equal(registers, np.arange(registers[0], registers[0] + len(registers))):
        return slice(int(registers[0]), int(registers[0]) + len(registers))
    return registers


def part_index(part: Part) -> tuple[Any, ...]:
    """The index that picks `part` from its fragment's array."""
    t = part.fragment.type
    assert isinstance(t, FragmentType)
    if part.count is None:
        return (slice(None), part.start)
    if t.layout == "thread":
        return (..., slice(part.start, part.start + part.count))
    return (slice(None), registers_of(t.layout, t.shape, part.start, part.count))


def compile_expr(expr: Expr) -> Code:
    """A closure that evaluates `expr` in a `Scope`."""
    match expr:
        case Const(value, type=dtype):
            constant = convert(value, dtype)
            return lambda m: constant
        case Var(name):
            return _variable(name)
        case Extent(name):
            return lambda m: m.extents[name]
        case Special(name):
            return lambda m: m.specials[name]
        case Binary():
            return _binary(expr)
        case Unary():
            return _unary(expr)
        case Select():
            return _select(expr)
        case Cast(operand, dtype):
            inner = compile_expr(operand)
            return lambda m: convert(inner(m), dtype)
        case Part(fragment):
            source, index = compile_expr(fragment), part_index(expr)
            return lambda m: source(m)[index]
        case Reduce(op, operand):
            return _reduce(op, compile_expr(operand))
    raise Unmodelled(f"expression {type(expr).__name__} is not modelled")


def _variable(name: str) -> Code:
    def run(m: Scope) -> Any:
        try:
            return m.env[name]
        except KeyError:
            raise Trap(f"{name} is read before it is assigned") from None

    return run


def _operand(expr: Expr, dims: int) -> Code:
    """`expr`, shaped to meet fragments of `dims` dimensions when it is a scalar."""
    code = compile_expr(expr)
    if dims and not fragment_dims(expr.type):
        return lambda m: spread(code(m), dims)
    return code


def _binary(expr: Binary) -> Code:
    dims = fragment_dims(expr.type)
    left, right = _operand(expr.left, dims), _operand(expr.right, dims)
    dtype = element_type(expr.left)
    on_arrays = array_operator(expr.op, dtype)
    if expr.op in ("and", "or"):
        return _logic(expr.op == "and", left, right, on_arrays)
    on_scalars = scalar_operator(expr.op, dtype)

    def run(m: Scope) -> Any:
        a, b = left(m), right(m)
        if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
            return on_arrays(a, b)
        return on_scalars(a, b)

    return run


def _logic(conjunction: bool, left: Code, right: Code, on_arrays: Callable[[Any, Any], Any]) -> Code:
    def run(m: Scope) -> Any:
        a = left(m)
        if not isinstance(a, np.ndarray) and bool(a) != conjunction:
            return a  # as in C++, the other side is not evaluated
        b = right(m)
        if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
            return on_arrays(a, b)
        return b

    return run


def _unary(expr: Unary) -> Code:
    inner, dtype = compile_expr(expr.operand), element_type(expr.operand)
    if expr.op == "not":
        return lambda m: np.logical_not(v) if isinstance(v := inner(m), np.ndarray) else not v
    if dtype.kind in ("int", "uint"):
        return lambda m: -v if isinstance(v := inner(m), np.ndarray) else wrap(-v, dtype)
    return lambda m: -inner(m)


def _select(expr: Select) -> Code:
    dims = fragment_dims(expr.type)
    condition = _operand(expr.condition, dims)
    then, other = compile_expr(expr.then), compile_expr(expr.other)
    dtype = numpy_type(element_type(expr.then))

    def run(m: Scope) -> Any:
        c = condition(m)
        if not isinstance(c, np.ndarray):
            return then(m) if c else other(m)
        return np.asarray(np.where(c, then(m), other(m)), dtype)

    return run


def _reduce(op: str, operand: Code) -> Code:
    # Index order, as the thread code does it: NumPy's own sum is pairwise and rounds differently.
    step: Any = np.add if op == "sum" else np.fmax

    def run(m: Scope) -> Any:
        value = operand(m)
        return step.accumulate(value.reshape(len(value), -1), axis=1)[:, -1]

    return run
