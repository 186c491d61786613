"""Which scalars of a role the exploration keeps, and how far it may reduce them.

Only values that reach an address, a slot, a parity, a loop bound or a condition with effects are kept. Such a scalar
is *concrete* (made of constants, thread indices and other concrete scalars), *symbolic* (extents or launch values
enter) or *data* (memory enters); one that is none of the first is not computed.

A counter that grows for ever is kept modulo its uses. `Reduction(after, period)` says that values from `after` on may
be folded by `period`: every use, through every assignment that copies or updates the value, is a comparison with a
constant below `after` or depends on the value modulo a divisor of `period`. Where one use does neither, the value
stays exact.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from math import lcm
from typing import Final, TypeAlias

from cake.core.events import Arrive, Event, Expect, Read, Start, Sync, SyncArrive, Wait, Write
from cake.core.ir import (
    COMPARISONS,
    LOGIC,
    Assign,
    BarrierRef,
    Binary,
    Break,
    Cast,
    Const,
    Declare,
    DType,
    Expr,
    Extent,
    For,
    FragmentType,
    If,
    OneLane,
    OpStmt,
    Select,
    Special,
    Stmt,
    Unary,
    Var,
    View,
    bodies,
    operands,
    walk_expr,
)
from cake.core.tree import nodes


class Kind(IntEnum):
    """What a scalar is made of; the larger one wins."""

    CONCRETE = 0
    SYMBOLIC = 1
    DATA = 2


@dataclass(frozen=True, slots=True)
class Reduction:
    """Values from `after` on are equivalent when they agree modulo `period`."""

    after: int = 0
    period: int = 1

    def fold(self, value: int) -> int:
        """The representative of a non-negative `value`."""
        return value if value < self.after + self.period else self.after + (value - self.after) % self.period


#: A demand on a value: its exact number (None), or its class under a reduction.
Demand: TypeAlias = Reduction | None
CONCRETE_SPECIALS: Final = frozenset({"instance", "warp_id", "lane_id", "thread_id"})
MAX_PERIOD: Final = 4096


def join(a: Demand, b: Demand) -> Demand:
    """The weakest demand that serves both."""
    if a is None or b is None:
        return None
    period = lcm(a.period, b.period)
    return Reduction(max(a.after, b.after), period) if period <= MAX_PERIOD else None


def statements(stmts: Iterable[Stmt]) -> Iterator[Stmt]:
    """All statements, nested ones included, in canonical order."""
    for stmt in stmts:
        yield stmt
        for body in bodies(stmt):
            yield from statements(body)


def view_exprs(view: View) -> tuple[Expr, ...]:
    """Stage (when there is one) and coordinates."""
    return view.at if view.stage is None else (view.stage, *view.at)


def slot_exprs(ref: BarrierRef) -> tuple[Expr, ...]:
    """The slot, when there are several."""
    return () if ref.slot is None else (ref.slot,)


def event_exprs(event: Event) -> tuple[Expr, ...]:
    """The expressions whose exact values an event's effect on shared memory, registers and barriers depends on."""
    match event:
        case Read(cell=View() as view) | Write(cell=View() as view):
            return view_exprs(view)
        case Start(reads=reads, writes=writes, done=done, updates=updates):
            views = [e for c in (*reads, *writes) if isinstance(c, View) for e in view_exprs(c)]
            return (*views, *(slot_exprs(done) if done else ()), *(() if updates is None else (updates,)))
        case (
            Arrive(barrier=ref) | Expect(barrier=ref) | Sync(barrier=ref) | SyncArrive(barrier=ref) | Wait(barrier=ref)
        ):
            return slot_exprs(ref)
    return ()


@dataclass(slots=True)
class Variables:
    """What is known about a role's scalars: `kinds`, the `varying` ones (they may differ between threads of the role
    instance), those that may be `negative`, the `kept` ones with their demand, and the conditional statements with
    effects."""

    kinds: dict[str, Kind] = field(default_factory=dict)
    varying: set[str] = field(default_factory=set)
    negative: set[str] = field(default_factory=set)
    kept: dict[str, Demand] = field(default_factory=dict)
    effective: set[int] = field(default_factory=set)  # id() of If statements, which the program keeps alive

    def kind(self, expr: Expr) -> Kind:
        """The kind of an expression."""
        worst = Kind.CONCRETE
        for e in walk_expr(expr):
            match e:
                case Var(name=name, type=t):
                    kind = Kind.DATA if isinstance(t, FragmentType) else self.kinds.get(name, Kind.SYMBOLIC)
                case Extent():
                    kind = Kind.SYMBOLIC
                case Special(name=name):
                    kind = Kind.CONCRETE if name in CONCRETE_SPECIALS else Kind.SYMBOLIC
                case Const(value=float()) | Cast(dtype=DType(kind="float")):
                    kind = Kind.DATA  # no float is computed here
                case _:
                    continue
            worst = max(worst, kind)
        return worst

    def varies(self, expr: Expr) -> bool:
        """Whether an expression may differ between threads of the role instance."""
        return any(
            (isinstance(e, Special) and e.name in ("warp_id", "lane_id", "thread_id"))
            or (isinstance(e, Var) and e.name in self.varying)
            for e in walk_expr(expr)
        )

    def may_be_negative(self, expr: Expr) -> bool:
        """Whether a concrete expression is not made of non-negative numbers by operators that keep them so."""
        match expr:
            case Const(value=value):
                return value < 0
            case Var(name=name):
                return name in self.negative
            case Special():
                return False
            case Binary(op="-") | Unary(op="-"):
                return True
            case Binary(op=op) if op in COMPARISONS + LOGIC:
                return False
            case Select(then=then, other=other):
                return self.may_be_negative(then) or self.may_be_negative(other)
        return any(map(self.may_be_negative, operands(expr)))

    def demand(self, expr: Expr, demand: Demand) -> bool:
        """Demand the value of `expr`; whether that demanded more of some scalar than before."""
        match expr:
            case Var(name=name):
                if self.kinds.get(name, Kind.SYMBOLIC) != Kind.CONCRETE:
                    return False
                old = self.kept.get(name, demand)
                new = join(old, demand)
                changed = name not in self.kept or new != old
                self.kept[name] = new
                return changed
            case Binary(op=op, left=left, right=right):
                return self._binary(op, left, right, demand)
            case Select(condition=condition, then=then, other=other):
                changed = self.demand(condition, None)
                changed |= self.demand(then, demand)
                return self.demand(other, demand) | changed
            case Cast(operand=operand):
                return self.demand(operand, demand)
            case Unary(op=op, operand=operand):
                return self.demand(operand, None if op == "-" else demand)
        return False

    def _binary(self, op: str, left: Expr, right: Expr, demand: Demand) -> bool:
        if isinstance(left, Const) and op in ("+", "*", "&"):
            left, right = right, left
        c = right.value if isinstance(right, Const) and isinstance(right.value, int) else None
        # A fold keeps a value at `after` or above; so does a sum, unless something below 0 is added to it.
        if op == "+" and demand is not None and not (self.may_be_negative(left) or self.may_be_negative(right)):
            changed = self.demand(left, demand)
            return self.demand(right, demand) | changed
        if c is not None and c >= 0:
            if op in COMPARISONS:
                return self.demand(left, Reduction(c + 1, 1))
            if op == "%" and c:
                return self.demand(left, Reduction(0, c))
            if op == "&":
                return self.demand(left, Reduction(0, 1 << c.bit_length()))
            if demand is not None:
                if op == "-":
                    return self.demand(left, Reduction(demand.after + c, demand.period))
                if op == "*":
                    return self.demand(left, demand)
                if op == "//" and c:
                    return self.demand(left, Reduction(demand.after * c, demand.period * c))
                if op == ">>" and c < 12:
                    return self.demand(left, Reduction(demand.after << c, demand.period << c))
        changed = self.demand(left, None)
        return self.demand(right, None) | changed


def _needed(stmt: Stmt, variables: Variables) -> Iterator[tuple[Expr, Demand]]:
    """The expressions whose values exploration computes at `stmt`, with what it needs of them."""
    match stmt:
        case OpStmt(op=op):
            for event in op.events():
                yield from ((e, None) for e in event_exprs(event))
                if isinstance(event, Wait):
                    yield event.parity, Reduction(0, 2)
        case For(start=start, stop=stop, step=step):
            yield from ((e, None) for e in (start, stop, step))
        case If(condition=condition) if id(stmt) in variables.effective:
            yield from ((e, None) for e in _leaves(condition))


def _leaves(condition: Expr) -> Iterator[Expr]:
    """The parts of a condition that `and`, `or` and `not` join."""
    match condition:
        case Binary(op="and" | "or", left=left, right=right):
            yield from _leaves(left)
            yield from _leaves(right)
        case Unary(op="not", operand=operand):
            yield from _leaves(operand)
        case _:
            yield condition


def has_effect(stmt: Stmt, variables: Variables) -> bool:
    """Whether exploration must run `stmt`: it has events, touches fragments, leaves a loop or sets a kept scalar."""
    match stmt:
        case OpStmt(op=op):
            return bool(op.events())
        case Assign(target=target):
            return target.name in variables.kept or isinstance(target.type, FragmentType)
        case Break() | Declare():
            return True
    return any(has_effect(s, variables) for body in bodies(stmt) for s in body)


def study(stmts: tuple[Stmt, ...]) -> Variables:
    """What is known about the scalars of a role's body."""
    v = Variables()
    everything = list(statements(stmts))
    sources: list[tuple[str, Expr]] = []
    for stmt in everything:
        match stmt:
            case Assign(target=Var(name=name, type=t), value=value) if not isinstance(t, FragmentType):
                sources.append((name, value))
            case For(var=Var(name=name), start=start, step=step):
                sources += [(name, start), (name, step)]
            case OpStmt(out=Var(name=name)):
                v.kinds[name] = Kind.DATA
    for name, _ in sources:
        v.kinds.setdefault(name, Kind.CONCRETE)
    elected, others = _names_by_lane(stmts)
    v.varying |= elected & others
    changed = True
    while changed:
        changed = False
        for name, value in sources:
            kind = max(v.kinds[name], v.kind(value))
            if kind != v.kinds[name]:
                v.kinds[name], changed = kind, True
            if v.varies(value) and name not in v.varying:
                v.varying.add(name)
                changed = True
            if v.may_be_negative(value) and name not in v.negative:
                v.negative.add(name)
                changed = True
        changed |= _spread_masks(stmts, v, False)
    _spread_demands(everything, v)
    return v


def _spread_masks(stmts: Iterable[Stmt], v: Variables, masked: bool) -> bool:
    """A scalar assigned under a condition that varies is itself varying."""
    changed = False
    for stmt in stmts:
        inner = masked
        match stmt:
            case If(condition=condition):
                inner = masked or v.varies(condition)
            case Assign(target=Var(name=name)) if masked and name not in v.varying:
                v.varying.add(name)
                changed = True
        for body in bodies(stmt):
            changed |= _spread_masks(body, v, inner)
    return changed


def _names_by_lane(stmts: Iterable[Stmt]) -> tuple[set[str], set[str]]:
    """Scalars that one lane alone assigns inside `one_lane()`, and scalars that others read."""
    assigned: set[str] = set()
    read: set[str] = set()
    for stmt in stmts:
        if isinstance(stmt, OneLane):
            assigned |= {s.target.name for s in statements(stmt.body) if isinstance(s, Assign)}
            continue
        match stmt:
            case Assign(value=value):
                used: tuple[object, ...] = (value,)
            case OpStmt(op=op):
                used = (op,)
            case If(condition=condition):
                used = (condition,)
            case For(start=start, stop=stop, step=step):
                used = (start, stop, step)
            case _:
                used = ()
        read |= {n.name for n in nodes(used) if isinstance(n, Var)}
        for body in bodies(stmt):
            inner_assigned, inner_read = _names_by_lane(body)
            assigned |= inner_assigned
            read |= inner_read
    return assigned, read


def _spread_demands(everything: list[Stmt], v: Variables) -> None:
    for rounds in range(64):
        changed = False
        for stmt in everything:
            if isinstance(stmt, If) and id(stmt) not in v.effective and has_effect(stmt, v):
                v.effective.add(id(stmt))
                changed = True
            for expr, demand in _needed(stmt, v):
                if v.kind(expr) == Kind.CONCRETE:  # others are choices, or unresolved
                    changed |= v.demand(expr, demand)
            match stmt:
                case Assign(target=Var(name=name), value=value) if name in v.kept:
                    changed |= v.demand(value, v.kept[name])
                case For(var=Var(name=name), start=start) if name in v.kept:
                    changed |= v.demand(start, v.kept[name])
        if not changed:
            return
        if rounds > 8:  # a demand that keeps growing (a counter that is subtracted from) has no finite reduction
            v.kept = {name: d if d is None or d.after <= 64 else None for name, d in v.kept.items()}
    v.kept = dict.fromkeys(v.kept)


def names_in(expr: Expr) -> set[str]:
    """Names of the scalars in an expression."""
    return {e.name for e in walk_expr(expr) if isinstance(e, Var)}


def fragment_parts(expr: Expr) -> Iterator[Expr]:
    """The outermost fragments and parts of fragments in an expression."""
    if isinstance(expr, Var):
        if isinstance(expr.type, FragmentType):
            yield expr
        return
    children = operands(expr)
    if len(children) == 1 and isinstance(children[0], Var) and hasattr(expr, "fragment"):
        yield expr
        return
    for child in children:
        yield from fragment_parts(child)
