"""Whether threads stay inside the tensors that they access, and how their addresses are aligned.

Both are proved from the text by linear arithmetic, for all extents that the host lets through: loop bounds, the `if`s
and the `when` around an access give inequalities over extents, counters and thread indices, and an access is in bounds
when one or two of them add up to what is asked. What the host checks is used too: rows are a multiple of the widest
access that threads make to a tensor (`cake.core.plan`), so that `8 * i < N` leaves room for eight elements.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import reduce
from itertools import pairwise
from math import gcd
from typing import Final, TypeAlias

from cake.core.events import GlobalBox, Read, Write
from cake.core.explore_forms import INFINITE, Form, Forms, add, multiply, number
from cake.core.ir import (
    Assign,
    Binary,
    Const,
    Expr,
    For,
    If,
    Located,
    OpStmt,
    Program,
    Stmt,
    Tensor,
    Unary,
    Var,
    bodies,
    walk_expr,
)
from cake.core.lower_plan import widest_accesses

#: Inequalities that are added up for one proof.
TERMS: Final = 2
_TURNED: Final = {"<": ">=", "<=": ">", ">": "<=", ">=": "<"}


class Bounds:
    """What holds around each access of a program to global memory."""

    def __init__(self, program: Program) -> None:
        self.program = program
        elements = {t.name: t.dtype.bytes for t in program.of(Tensor)}
        self.widest = {**elements, **widest_accesses(program)}
        self.multiples = _multiples(program, self.widest)
        self.scalars = {b.role.name: _scalars(b.body) for b in program.roles}

    def accesses(self, located: Located) -> Iterator[tuple[GlobalBox, int, int, bool]]:
        """The boxes that threads access at a statement, each in one piece: its bytes, the largest power of two up
        to that which divides every address, given what the host checks; and whether it is in bounds."""
        if not isinstance(located.stmt, OpStmt):
            return
        for event in located.stmt.op.events():
            if isinstance(event, Read | Write) and isinstance(event.cell, GlobalBox):
                box = event.cell
                scene = _Scene(self, located, box.when)
                size = box.shape[-1] * box.tensor.dtype.bytes
                yield box, size, self._alignment(box, size, scene), scene.inside(box)

    def _alignment(self, box: GlobalBox, size: int, scene: _Scene) -> int:
        stride, found = box.tensor.dtype.bytes, self.widest[box.tensor.name]
        for dim, at in reversed(list(zip(box.tensor.dims, box.at, strict=True))):
            form = scene.form(at)
            terms = [1] if form is None else [scene.modulus(product, factor) for product, factor in form.terms]
            found = gcd(found, *(t * stride for t in terms))
            stride *= dim if isinstance(dim, int) else self.multiples.get(dim, 1)
        return min(found & -found, size)


class _Scene:
    """What is known where one access stands: forms of expressions, and inequalities `form >= 0`."""

    def __init__(self, bounds: Bounds, located: Located, when: Expr | None) -> None:
        self.bounds, self.role = bounds, located.role
        self.forms = Forms()
        self.upper: dict[str, int] = {
            "thread_id": located.role.threads - 1,
            "warp_id": located.role.warps - 1,
            "lane_id": 31,
            "instance": located.role.instances - 1,
        }
        self.env: dict[str, Form | None] = {}
        self.known: dict[Form, None] = {}  # in the order in which they were met
        self.never = False  # whether nothing gets here
        for extent, multiple in bounds.multiples.items():
            self.forms.atom(extent, multiple)
        self._below(self.forms.atom("cta_id", 0), bounds.program.launch.ctas)
        self._enter(located)
        if when is not None:
            self._assume(when, True)

    def _enter(self, located: Located) -> None:
        around: list[For] = []
        self._define(around)
        for parent, child in pairwise((*located.parents, located.stmt)):
            match parent:
                case For():
                    self._loop(parent)
                    around.append(parent)
                    self._define(around)
                case If(condition=condition, then=then):
                    self._assume(condition, any(child is s for s in then))

    def _define(self, around: list[For]) -> None:
        """Give the scalars that are assigned within these loops, and no others, the forms of their values."""
        for name, (value, loops) in self.bounds.scalars[self.role.name].items():
            if name not in self.env and loops == tuple(around[: len(loops)]):
                self.env[name] = self.form(value) if value is not None else None

    def _loop(self, loop: For) -> None:
        start, name = self.form(loop.start), loop.var.name
        if start is not None and isinstance(loop.step, Const):
            turns = self.forms.atom(f"turns of {name}", 0)
            counter = add(start, turns, int(loop.step.value))
        else:
            counter = self.forms.atom(f"counter {name}", INFINITE if start is None else self.forms.least(start))
            if start is not None:
                self._know(add(counter, start, -1))
        self._below(counter, loop.stop)
        self.env[name] = counter

    def _know(self, form: Form) -> None:
        """Take in that `form >= 0`."""
        self.known.setdefault(form)

    def _below(self, counter: Form, stop: Expr) -> None:
        """Take in that a counter is less than `stop`."""
        for part in _least_of(stop):
            if (form := self.form(part)) is None:
                continue
            room = add(add(form, counter, -1), number(1), -1)
            match part:
                case Binary(op="//", right=Const(value=int() as divisor)) if divisor > 0:
                    room = multiply(room, number(divisor))  # as much as the quotient is short of its dividend
            self._know(room)

    def form(self, expr: Expr) -> Form | None:
        """The expression as a sum of products of what has a name here. Of quotients it takes in that they are rounded
        down, where they are."""
        for part in walk_expr(expr):
            match part:
                case Binary(op="//", left=left, right=Const(value=int() as divisor)) if divisor > 0:
                    whole, quotient = self.forms.of(left, self.env), self.forms.of(part, self.env)
                    if whole is not None and quotient is not None and self.forms.least(whole) >= 0:
                        self._know(add(whole, multiply(quotient, number(divisor)), -1))
        return self.forms.of(expr, self.env)

    def _assume(self, condition: Expr, holds: bool) -> None:
        match condition:
            case Const(value=bool() as value):
                self.never |= value != holds
            case Unary(op="not", operand=operand):
                self._assume(operand, not holds)
            case Binary(op="and", left=left, right=right) if holds:
                self._assume(left, True)
                self._assume(right, True)
            case Binary(op="or", left=left, right=right) if not holds:
                self._assume(left, False)
                self._assume(right, False)
            case Binary(op="==", left=left, right=right) if holds:
                self._at_least(left, right, 0)
                self._at_least(right, left, 0)
            case Binary(op=op, left=left, right=right) if op in _TURNED:
                op = op if holds else _TURNED[op]
                more, less = (right, left) if op in ("<", "<=") else (left, right)
                self._at_least(more, less, 0 if op in ("<=", ">=") else 1)

    def _at_least(self, more: Expr, less: Expr, by: int) -> None:
        low = self.form(less)
        for part in _least_of(more):
            high = self.form(part)
            if high is not None and low is not None:
                self._know(add(add(high, low, -1), number(by), -1))

    # ------------------------------------------------------------------------------------------------------- proofs

    def inside(self, box: GlobalBox) -> bool:
        """Whether every coordinate is at least 0, and at most what leaves room for the access."""
        if self.never:
            return True
        for dim, at, size in zip(box.tensor.dims, box.at, box.shape, strict=True):
            form = self.form(at)
            if form is None or not self._holds(form):
                return False
            end = number(dim) if isinstance(dim, int) else self.forms.atom(dim, 1)
            last = [f for part in _least_of(at) if (f := self.form(part)) is not None]
            if not any(self._holds(add(add(end, f, -1), number(size), -1)) for f in last):
                return False
        return True

    def _holds(self, wanted: Form) -> bool:
        """Whether `wanted >= 0`."""
        return self._lower(wanted.symbolic, TERMS) + wanted.constant >= 0

    def _lower(self, form: Form, terms: int) -> int:
        """What `form`, a sum without a constant, is at least: by the bounds of its atoms, or of what is left when some
        inequality that is known is taken out of it; and then the next number that may be its value."""
        found = self._least(form)
        for known in self.known if terms else ():
            least = self._rounded(-known.constant, known.symbolic)
            found = max(found, self._lower(add(form, known.symbolic, -1), terms - 1) + least)
        return self._rounded(found, form)

    def _rounded(self, least: int, form: Form) -> int:
        """The least number from `least` on that `form` may be, by what divides it."""
        step = gcd(*(self.modulus(product, factor) for product, factor in form.terms))
        return -(-least // step) * step if step else least

    def _least(self, form: Form) -> int:
        total = 0
        for product, factor in form.terms:
            low = [self.forms.lower.get(name, INFINITE) for name in product]
            if any(bound < 0 for bound in low):
                return INFINITE
            if factor > 0:
                total += factor * reduce(lambda a, b: a * b, low, 1)
            elif all(name in self.upper for name in product):
                total += factor * reduce(lambda a, b: a * b, [self.upper[name] for name in product], 1)
            else:
                return INFINITE
        return total

    def modulus(self, product: tuple[str, ...], factor: int) -> int:
        """A number that divides the term whatever its atoms are."""
        multiples = self.bounds.multiples
        return abs(factor) * reduce(lambda a, b: a * b, [multiples.get(name, 1) for name in product], 1)


def _least_of(expr: Expr) -> Iterator[Expr]:
    """The parts of a minimum, and of one that something is added to: what is below it is below each."""
    match expr:
        case Binary(op="min", left=left, right=right):
            yield from _least_of(left)
            yield from _least_of(right)
        case Binary(op="+" | "-", left=left, right=right):
            yield from (replace(expr, left=part) for part in _least_of(left))
        case _:
            yield expr


def _multiples(program: Program, widest: Mapping[str, int]) -> dict[str, int]:
    """What the host's check of rows makes of the extents: each is a multiple of that."""
    found: dict[str, int] = {}
    for t in program.of(Tensor):
        inner = t.dims[-1]
        each = widest[t.name] // gcd(widest[t.name], t.dtype.bytes)
        if isinstance(inner, str):
            found[inner] = max(found.get(inner, 1), each)
    return found


#: The value of a scalar wherever it is used, and the loops around its assignment. None if it is assigned again, or by a
#: loop or an op.
_Scalars: TypeAlias = dict[str, tuple[Expr | None, tuple[For, ...]]]


def _scalars(stmts: tuple[Stmt, ...]) -> _Scalars:
    """The integer scalars of a role, in the order of their assignment."""
    found: _Scalars = {}

    def visit(body: tuple[Stmt, ...], loops: tuple[For, ...]) -> None:
        for stmt in body:
            inside = (*loops, stmt) if isinstance(stmt, For) else loops
            match stmt:
                case Assign(target=Var(name=name), value=value):
                    found[name] = (None if name in found else value, loops)
                case OpStmt(out=Var(name=name)):
                    found[name] = (None, loops)
            for inner in bodies(stmt):
                visit(inner, inside)

    visit(stmts, ())
    return found
