"""One-change variants of expressions and operands: the small alphabet that `cake.core.edits` applies to a program.

Variants come in a fixed order. Those of an operand are a kind of edit, a short description and how to build the new
one; they may be ill-typed: building them raises IRError, which the caller counts.
"""

from __future__ import annotations

import typing
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

from cake.core.events import Event, Expect, Registers, Wait, WaitGroup
from cake.core.ir import (
    BOOL,
    I32,
    Barrier,
    BarrierRef,
    Binary,
    Cast,
    Const,
    Expr,
    FragmentType,
    GlobalRef,
    Part,
    Program,
    Reduce,
    Select,
    Smem,
    Tensor,
    TensorMap,
    Unary,
    Var,
    View,
)
from cake.core.op import Op
from cake.core.printer import print_operand

#: A comparison or operation and what a slip of the pen makes of it.
SLIPS: Final[dict[str, str]] = {
    "<": "<=",
    "<=": "<",
    ">": ">=",
    ">=": ">",
    "==": "!=",
    "!=": "==",
    "+": "-",
    "-": "+",
    "and": "or",
    "or": "and",
    "min": "max",
    "max": "min",
}

Change = tuple[str, str, Callable[[], Op]]  #: kind, description, how to build the changed primitive


def near(value: int, step: int = 1) -> tuple[int, ...]:
    """Non-negative integers that a mistake may put in place of `value`: one step off, half, double."""
    found = [value + step, value - step, *((value // 2, 2 * value) if value >= 4 * step else ())]
    return tuple(dict.fromkeys(v for v in found if v >= 0 and v != value))


def variants(expr: Expr, names: Sequence[Var] = ()) -> Iterator[Expr]:
    """`expr` with one change in it: a constant, a name (for another of `names` with its type), an operator."""
    match expr:
        case Const(value=bool(value)):
            yield Const(not value, BOOL)
        case Const(value=int(value)):
            for other in near(value):
                yield Const(other, expr.type)
        case Var(name=name, type=t):
            for var in names:
                if var.type == t and var.name != name:
                    yield var
        case Binary(op=op, left=left, right=right):
            if op in SLIPS and not isinstance(expr.type, FragmentType):
                yield Binary(SLIPS[op], left, right)
            for new in variants(left, names):
                yield Binary(op, new, right)
            for new in variants(right, names):
                yield Binary(op, left, new)
        case Unary(op=op, operand=operand):
            if op == "not":
                yield operand
            for new in variants(operand, names):
                yield Unary(op, new)
        case Select(condition=condition, then=then, other=other):
            yield Select(condition, other, then)
            for new in variants(condition, names):
                yield Select(new, then, other)
            for new in variants(then, names):
                yield Select(condition, new, other)
            for new in variants(other, names):
                yield Select(condition, then, new)
        case Cast(operand=operand, dtype=dtype):
            for new in variants(operand, names):
                yield Cast(new, dtype)
        case Reduce(op=op, operand=operand):
            for new in variants(operand, names):
                yield Reduce(op, new)
        case Part(fragment=fragment, start=start, count=count):
            assert isinstance(fragment.type, FragmentType)
            extent = fragment.type.shape[0] if count is None else fragment.type.shape[-1]
            for other in (start + (count or 1), start - (count or 1)):
                if other >= 0 and other + (count or 1) <= extent:
                    yield replace(expr, start=other)
            for new in variants(fragment, names):
                if isinstance(new, Var):
                    yield replace(expr, fragment=new)


def index_variants(expr: Expr, names: Sequence[Var], modulus: int = 0) -> Iterator[Expr]:
    """Variants of an i32 index. One with a `modulus` above 1 (a slot, a stage) also steps around it and sticks at 0."""
    yield from variants(expr, names)
    if isinstance(expr, Const):
        return
    one = Const(1)
    yield Binary("%", Binary("+", expr, one), Const(modulus)) if modulus > 1 else Binary("+", expr, one)
    if modulus > 1:
        yield Const(0)


def changed(old: object, new: object) -> str:
    """`old -> new` as text."""
    return f"{_text(old)} -> {_text(new)}"


def _text(value: object) -> str:
    match value:
        case Smem() | Tensor() | TensorMap() | Barrier():
            return value.name
        case bool() | int() | str() | None | tuple():
            return str(value)
    return print_operand(value)


def op_changes(op: Op, program: Program, names: Sequence[Var]) -> Iterator[Change]:
    """Every one-operand change of a primitive."""
    events = op.events()
    for field in op.kinds:
        value = getattr(op, field)
        for kind, detail, new in _operand(op, field, value, events, program, names):
            yield kind, f"{op.opname}.{field}{detail}", _with(op, field, new)


def _with(op: Any, field: str, build: Callable[[], Any]) -> Callable[[], Op]:
    return lambda: replace(op, **{field: build()})


Variant = tuple[str, str, Callable[[], Any]]


def _operand(
    op: Op, field: str, value: Any, events: tuple[Event, ...], program: Program, names: Sequence[Var]
) -> Iterator[Variant]:
    match value:
        case bool():
            waits = any(isinstance(e, WaitGroup) for e in events)
            yield "depth" if waits else "mode", f": {changed(value, not value)}", lambda: not value
        case int():
            yield from _integer(value, events, program)
        case str():
            kind = "registers" if any(isinstance(e, Registers) for e in events) else "mode"
            for choice in typing.get_args(op.kinds[field]):
                if choice != value:
                    yield kind, f": {changed(value, choice)}", _constant(choice)
        case View():
            yield from _view(value, program, names)
        case BarrierRef():
            yield from _barrier(value, program, names)
        case GlobalRef():
            yield from _global(value, program, names)
        case TensorMap():
            for other in program.of(TensorMap):
                if other != value and len(other.box) == len(value.box):
                    yield "retarget", f": {changed(value, other)}", _constant(other)
        case tuple() if all(getattr(c, "type", None) == I32 for c in value):
            yield from _coords(value, names)
        case Const() | Var() | Binary() | Unary() | Select() | Cast() | Part() | Reduce():
            yield from _expression(value, events, names)


def _constant(value: Any) -> Callable[[], Any]:
    return lambda: value


def _integer(value: int, events: tuple[Event, ...], program: Program) -> Iterator[Variant]:
    kind, found = "count", near(value)
    for event in events:
        match event:
            case WaitGroup(pending=pending) if pending == value:
                kind = "depth"
            case Registers(count=count) if count == value:
                kind, found = "registers", near(value, 8)
            case Expect(bytes=count) if count == value:
                kind = "bytes"
                single = [value - m.bytes for m in program.of(TensorMap) if value > m.bytes]
                found = tuple(dict.fromkeys((*near(value, 16), *single)))
    for other in found:
        yield kind, f": {changed(value, other)}", _constant(other)


def _expression(value: Expr, events: tuple[Event, ...], names: Sequence[Var]) -> Iterator[Variant]:
    if any(isinstance(e, Wait) and e.parity == value for e in events):
        flipped = Const(1 - int(value.value)) if isinstance(value, Const) else Binary("^", value, Const(1))
        constants = () if isinstance(value, Const) else (Const(0), Const(1))
        for new in (flipped, *constants):
            yield "phase", f": {changed(value, new)}", _constant(new)
    elif value.type == BOOL:
        for expr in (Const(True, BOOL), Const(False, BOOL)):
            if expr != value:
                yield "predicate", f": {changed(value, expr)}", _constant(expr)
        if not isinstance(value, Const):
            yield from _each("predicate", value, variants(value, names))
    else:
        fragments = [v for v in names if isinstance(v.type, FragmentType)]
        yield from _each("retarget", value, _moved(value, fragments))


def _moved(expr: Expr, fragments: Sequence[Var]) -> Iterator[Expr]:
    """Variants of a value that read other registers; its arithmetic stays."""
    match expr:
        case Var() | Part():
            yield from variants(expr, fragments)
        case Cast(operand=operand, dtype=dtype):
            for new in _moved(operand, fragments):
                yield Cast(new, dtype)
        case Binary(op=op, left=left, right=right):
            for new in _moved(left, fragments):
                yield Binary(op, new, right)
            for new in _moved(right, fragments):
                yield Binary(op, left, new)


def _each(kind: str, old: Expr, news: Iterator[Expr], where: str = "") -> Iterator[Variant]:
    for new in news:
        yield kind, f"{where}: {changed(old, new)}", _constant(new)


def _coords(value: tuple[Expr, ...], names: Sequence[Var], steps: tuple[int, ...] = ()) -> Iterator[Variant]:
    """Variants of coordinates; a constant one moves by its dimension's entry of `steps`, the extent of a box."""
    for i, coord in enumerate(value):
        news = index_variants(coord, names)
        if isinstance(coord, Const) and steps:
            news = (Const(n) for n in near(int(coord.value), steps[i]))
        for new in news:
            yield "index", f"[{i}]: {changed(coord, new)}", _constant((*value[:i], new, *value[i + 1 :]))
    for i in range(len(value) - 1):
        if value[i] != value[i + 1]:
            swapped = (*value[:i], value[i + 1], value[i], *value[i + 2 :])
            yield "index", f": coordinates {i} and {i + 1} swapped", _constant(swapped)


def _view(value: View, program: Program, names: Sequence[Var]) -> Iterator[Variant]:
    for other in program.of(Smem):
        if other != value.buffer and len(other.shape) == len(value.buffer.shape):
            stage = None if other.stages == 1 else value.stage or Const(0)
            yield "retarget", f": {changed(value.buffer, other)}", _later(value, buffer=other, stage=stage)
    if value.stage is not None:
        for new in index_variants(value.stage, names, value.buffer.stages):
            yield "index", f" stage: {changed(value.stage, new)}", _later(value, stage=new)
    for _, detail, at in _coords(value.at, names, value.shape):
        yield "index", f" at{detail}", _later(value, at=at())


def _barrier(value: BarrierRef, program: Program, names: Sequence[Var]) -> Iterator[Variant]:
    for other in program.of(Barrier):
        if other != value.barrier and other.kind == value.barrier.kind:
            slot = None if other.slots == 1 else value.slot or Const(0)
            yield "retarget", f": {changed(value.barrier, other)}", _later(value, barrier=other, slot=slot)
    if value.slot is not None:
        for new in index_variants(value.slot, names, value.barrier.slots):
            yield "index", f" slot: {changed(value.slot, new)}", _later(value, slot=new)


def _global(value: GlobalRef, program: Program, names: Sequence[Var]) -> Iterator[Variant]:
    for other in program.of(Tensor):
        if other != value.tensor and len(other.dims) == len(value.tensor.dims) and other.dtype == value.tensor.dtype:
            yield "retarget", f": {changed(value.tensor, other)}", _later(value, tensor=other)
    for _, detail, at in _coords(value.at, names):
        yield "index", f" at{detail}", _later(value, at=at())


def _later(node: Any, **changes: Any) -> Callable[[], Any]:
    return lambda: replace(node, **changes)
