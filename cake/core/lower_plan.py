"""What lowering tells the host: the launch plan, and the statements that watchdog reports refer to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cake.core import watchdog as dog
from cake.core.cpp import cpp_name
from cake.core.events import Event, GlobalBox, Read, Start, Write
from cake.core.ir import (
    I32,
    Barrier,
    Binary,
    Const,
    Expr,
    Extent,
    For,
    IRError,
    Located,
    OpStmt,
    Program,
    Role,
    Scalar,
    Special,
    Tensor,
    TensorMap,
    walk,
    walk_expr,
)
from cake.core.plan import HostExpr, LaunchPlan, MapPlan, ScalarPlan, TensorPlan
from cake.core.printer import print_expr
from cake.core.tree import nodes, rebuild


def loops_around(located: Located) -> tuple[str, ...]:
    """Variables of the enclosing loops, innermost first, at most three."""
    return tuple(p.var.name for p in reversed(located.parents) if isinstance(p, For))[:3]


def statement(located: Located, line: int) -> dog.Statement:
    """A statement as watchdog reports refer to it."""
    stmt = located.stmt
    if not isinstance(stmt, OpStmt):
        return dog.Statement(located.path, line, type(stmt).__name__.lower(), "", loops_around(located))
    barrier = next((n.name for n in nodes(stmt.op) if isinstance(n, Barrier)), "")
    return dog.Statement(located.path, line, stmt.op.opname, barrier, loops_around(located))


def launch_plan(program: Program, statements: tuple[dog.Statement, ...], watchdog: bool) -> LaunchPlan:
    """The plan of `program`. Raises IRError for a grid that the host cannot compute."""
    touched = list(_global_boxes(program))
    reads = {box.tensor.name for box, written, _ in touched if not written}
    writes = {box.tensor.name for box, written, _ in touched if written}
    widest = widest_accesses(program)
    tensors = tuple(
        TensorPlan(t.name, t.dtype.name, t.dims, widest.get(t.name, 1), t.name in reads, t.name in writes)
        for t in program.of(Tensor)
    )
    return LaunchPlan(
        name=program.name,
        symbol=cpp_name(program.name),
        target=program.target,
        threads=program.threads,
        ctas_per_sm=program.launch.ctas_per_sm,
        smem_bytes=program.smem_bytes,
        grid=_host(program.launch.ctas),
        maps=tuple(MapPlan(m.name, m.tensor.name, m.box, m.swizzle) for m in program.of(TensorMap)),
        tensors=tensors,
        extents=program.extents,
        scalars=tuple(ScalarPlan(s.name, s.dtype.name) for s in program.of(Scalar)),
        arithmetic=_arithmetic(program),
        watchdog=watchdog,
        roles=tuple(dog.RolePlace(r.name, program.first_warp(r), r.warps, r.instances) for r in program.of(Role)),
        statements=statements,
    )


def widest_accesses(program: Program) -> dict[str, int]:
    """The bytes of the widest access that threads make to each tensor that they touch: the host checks that the tensor
    and its rows are aligned to it."""
    found: dict[str, int] = {}
    for box, _, by_thread in _global_boxes(program):
        if by_thread:
            found[box.tensor.name] = max(found.get(box.tensor.name, 1), box.shape[-1] * box.tensor.dtype.bytes)
    return found


def _global_boxes(program: Program) -> Iterator[tuple[GlobalBox, bool, bool]]:
    """The boxes of global memory that a program touches: whether it writes them, whether a thread does (not TMA)."""
    for located in walk(program):
        for event in located.stmt.op.events() if isinstance(located.stmt, OpStmt) else ():
            yield from _boxes_of(event)


def _boxes_of(event: Event) -> Iterator[tuple[GlobalBox, bool, bool]]:
    """The boxes of global memory that an event touches: whether it writes them, whether a thread does (not TMA)."""
    match event:
        case Read(GlobalBox() as box):
            yield box, False, True
        case Write(GlobalBox() as box):
            yield box, True, True
        case Start(reads=reads, writes=writes):
            yield from ((cell, False, False) for cell in reads if isinstance(cell, GlobalBox))
            yield from ((cell, True, False) for cell in writes if isinstance(cell, GlobalBox))


_HOST_OPS = frozenset(("+", "-", "*", "//", "%", "min", "max", "&", "|", "^", "<<", ">>"))


def _is_host(expr: Expr) -> bool:
    """Whether the host can compute `expr`: i32 arithmetic on constants, extents and the SM count."""
    match expr:
        case Const(_, dtype):
            return dtype == I32
        case Extent() | Special("sm_count"):
            return True
        case Binary(op, left, right):
            return op in _HOST_OPS and _is_host(left) and _is_host(right)
    return False


def _host(expr: Expr) -> HostExpr:
    match expr:
        case Const(value, _):
            return int(value)
        case Extent(name) | Special(name):
            return name
        case Binary(op, left, right) if op in _HOST_OPS:
            return [op, _host(left), _host(right)]
    raise IRError(f"the host cannot compute {print_expr(expr)}; a launch uses extents, sm_count and + - * // % min max")


def _arithmetic(program: Program) -> tuple[HostExpr, ...]:
    """The largest integer expressions over extents alone that roles compute, in order of first use."""
    found: dict[str, HostExpr] = {}

    def note(node: Any) -> Any:
        """Take the largest host expressions; `rebuild` goes no deeper where something is returned."""
        if not (isinstance(node, Binary) and _is_host(node)):
            return None
        if any(isinstance(e, Extent) for e in walk_expr(node)):
            found.setdefault(print_expr(node), _host(node))
        return node

    for body in program.roles:
        rebuild(body.body, note)
    return tuple(found.values())
