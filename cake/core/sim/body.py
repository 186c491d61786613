"""Role bodies compiled once into generators over an agent."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Generator
from typing import Any, Final, TypeAlias

import numpy as np

from cake.core.events import Collective, Read, Write
from cake.core.ir import (
    Assign,
    Break,
    Const,
    Declare,
    Expr,
    For,
    FragmentType,
    If,
    OneLane,
    OpStmt,
    Part,
    Program,
    RoleBody,
    Select,
    Stmt,
    Var,
    View,
    bodies,
    walk,
)
from cake.core.op import Op
from cake.core.sim.expr import Code, compile_expr, layout_of
from cake.core.sim.machine import Machine
from cake.core.sim.memory import pitches
from cake.core.sim.result import Unmodelled

#: Runs statements; True when all active lanes have left the innermost loop.
Block: TypeAlias = Callable[[Machine], Generator[bool, None, bool]]
Plain: TypeAlias = Callable[[Machine], Any]

_PLAIN: Final = 0  # touches nothing that another agent could see
_VISIBLE: Final = 1  # others may run first
_BLOCKING: Final = 2  # a primitive that may block
_COMPOUND: Final = 3  # a statement with statements inside

Step: TypeAlias = tuple[int, str, Callable[[Machine], Any]]


class Compiled:
    """A program's expressions, views and bodies as closures, each compiled at first use and kept.

    Keys are identities: the program holds its nodes, and equal nodes are not worth a deep comparison.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self._exprs: dict[int, tuple[Expr, Code]] = {}
        self._views: dict[int, tuple[View, Code]] = {}
        self._located = {located.path: located for located in walk(program)}
        self.bodies = {body.role.name: self._role(body) for body in program.roles}
        #: Roles that elect a lane: the warp of their thread 0 is two agents.
        self.electing = frozenset(x.role.name for x in self._located.values() if isinstance(x.stmt, OneLane))

    def expr(self, expr: Expr) -> Code:
        """`expr` as a closure."""
        known = self._exprs.get(id(expr))
        if known is None:
            known = self._exprs[id(expr)] = (expr, compile_expr(expr))
        return known[1]

    def view(self, view: View) -> Code:
        """The address of `view`'s first element, before swizzling, as a closure."""
        known = self._views.get(id(view))
        if known is None:
            known = self._views[id(view)] = (view, self._address(view))
        return known[1]

    def registers(self, t: FragmentType) -> int:
        """Registers a thread of a spread fragment."""
        layout = layout_of(t.layout)
        try:
            return layout.registers(t.shape)
        except ValueError as error:
            raise Unmodelled(str(error)) from None

    def loops(self, path: str) -> tuple[str, ...]:
        """Variables of the loops around the statement at `path`, outermost first."""
        located = self._located.get(path)
        return tuple(p.var.name for p in located.parents if isinstance(p, For)) if located else ()

    def _address(self, view: View) -> Code:
        steps = pitches(view.buffer.shape, view.buffer.dtype.bytes)
        base = view.buffer.at
        terms: list[tuple[Code, int]] = []
        parts = [(view.stage, view.buffer.stage_bytes), *zip(view.at, steps, strict=True)]
        for expr, step in parts:
            if isinstance(expr, Const):
                base += int(expr.value) * step
            elif expr is not None:
                terms.append((self.expr(expr), step))

        def run(m: Machine) -> Any:
            address: Any = base
            for code, step in terms:
                address = address + code(m) * step
            return address

        return run

    def _role(self, body: RoleBody) -> Block:
        return self._block(body.body, f"{body.role.name}:", 0)

    def _block(self, stmts: tuple[Stmt, ...], prefix: str, first: int) -> Block:
        steps = [self._step(stmt, f"{prefix}{first + i}") for i, stmt in enumerate(stmts)]

        def run(m: Machine) -> Generator[bool, None, bool]:
            for kind, path, action in steps:
                m.path = path
                if kind == _PLAIN:
                    action(m)
                elif kind == _COMPOUND:
                    if (yield from action(m)):
                        return True
                else:
                    m.cta.tick()
                    m.began = m.cta.steps
                    yield False
                    if kind == _VISIBLE:
                        action(m)
                    else:
                        yield from action(m)
            return False

        return run

    def _step(self, stmt: Stmt, path: str) -> Step:
        match stmt:
            case Assign(target, value):
                return _PLAIN, path, self._assign(target, value)
            case Declare(target):
                return _PLAIN, path, lambda m: m.declare(target)
            case OpStmt(op, out):
                return self._op(op, out, path)
            case Break():
                return _COMPOUND, path, _leave
            case For():
                return _COMPOUND, path, self._for(stmt, path)
            case If(condition, then, other):
                taken = self._block(then, path + ".", 0)
                left = self._block(other, path + ".", len(then))
                return _COMPOUND, path, _choose(self.expr(condition), taken, left, _may_break(stmt))
            case OneLane(body):
                return _COMPOUND, path, _elect(self._block(body, path + ".", 0))

    def _assign(self, target: Var, value: Expr) -> Plain:
        code = self.expr(value)
        shared = isinstance(value, Var | Part | Select)  # its value may be the storage of a fragment
        if shared:
            return lambda m: m.assign(target, _own(code(m)))
        if not isinstance(target.type, FragmentType):
            name = target.name

            def scalar(m: Machine) -> None:
                if m.mask is None:
                    m.env[name] = code(m)
                else:
                    m.assign(target, code(m))

            return scalar
        return lambda m: m.assign(target, code(m))

    def _op(self, op: Op, out: Var | None, path: str) -> Step:
        compute: Plain = op.compute
        if self.program.target not in op.targets:
            compute = _illegal(op, self.program.target)
        elif type(op).compute is Op.compute:
            compute = _unmodelled(op)
        if inspect.isgeneratorfunction(compute):

            def blocking(m: Machine) -> Generator[bool, None, None]:
                value = yield from compute(m)
                if out is not None:
                    m.assign(out, value)

            return _BLOCKING, path, blocking

        def plain(m: Machine) -> None:
            value = compute(m)
            if out is not None:
                m.assign(out, value)

        return (_PLAIN if _private(op) else _VISIBLE), path, plain

    def _for(self, loop: For, path: str) -> Block:
        start, stop, step = (self.expr(e) for e in (loop.start, loop.stop, loop.step))
        body, name = self._block(loop.body, path + ".", 0), loop.var.name

        def run(m: Machine) -> Generator[bool, None, bool]:
            first, end, by = start(m), stop(m), step(m)
            mask, gone = m.mask, m.gone
            m.gone = None
            if any(isinstance(x, np.ndarray) for x in (first, end, by)):
                yield from _varying(m, name, body, first, end, by)
            else:
                if by <= 0:
                    m.trap(f"the step of {name} is {by}")
                for i in range(first, end, by):
                    m.env[name] = i
                    m.cta.tick()
                    if (yield from body(m)):
                        break
                    m.path = path
            m.mask, m.gone = mask, gone
            return False

        return run


def _varying(m: Machine, name: str, body: Block, first: Any, end: Any, by: Any) -> Generator[bool, None, None]:
    """A loop whose bounds differ between lanes: each lane takes part until its own end."""
    if np.any(np.asarray(by) <= 0):
        m.trap(f"the step of {name} is not positive in some lane")
    current = np.broadcast_to(np.asarray(first, np.int32), (m.width,)).copy()
    active = m.where(None) & (current < end)
    while active.any():
        m.cta.tick()
        m.mask, m.env[name] = active, current.copy()
        if (yield from body(m)):
            return
        current = current + np.int32(by) if not isinstance(by, np.ndarray) else current + by
        active = m.where(None) & (current < end)


def _unmodelled(op: Op) -> Plain:
    """What stands in for a primitive without value semantics."""
    return lambda m: m.unmodelled(f"{op.opname} has no value semantics")


def _illegal(op: Op, target: str) -> Plain:
    """What stands in for a primitive that the target does not have."""
    return lambda m: m.trap(f"{op.opname} is no instruction of {target}")


def _private(op: Op) -> bool:
    """Whether nothing that `op` does can be seen by another agent."""
    return all(
        isinstance(e, Collective) or (isinstance(e, Read | Write) and isinstance(e.cell, Var | Part))
        for e in op.events()
    )


def _own(value: Any) -> Any:
    return value.copy() if isinstance(value, np.ndarray) else value


def _may_break(stmt: Stmt) -> bool:
    """Whether `stmt` can leave the loop that it stands in."""
    return any(
        isinstance(inner, Break) or (not isinstance(inner, For) and _may_break(inner))
        for body in bodies(stmt)
        for inner in body
    )


def _leave(m: Machine) -> Generator[bool, None, bool]:
    if m.mask is not None:
        m.gone = m.mask if m.gone is None else m.gone | m.mask
    return True
    yield  # a generator like the other compound statements


def _choose(condition: Code, then: Block, other: Block, may_break: bool) -> Block:
    def run(m: Machine) -> Generator[bool, None, bool]:
        c = condition(m)
        if not isinstance(c, np.ndarray):
            return (yield from (then if c else other)(m))
        outer = m.mask
        taken, left = m.where(None) & c, m.where(None) & ~c
        if taken.any():
            m.mask = taken
            yield from then(m)
        if left.any():
            m.mask = left
            yield from other(m)
        m.mask = outer
        if may_break and m.gone is not None:
            m.mask = m.where(None) & ~m.gone
            return not m.mask.any()
        return False

    return run


def _elect(body: Block) -> Block:
    def run(m: Machine) -> Generator[bool, None, bool]:
        if m.elects and (m.mask is None or m.mask[0]):
            return (yield from body(m))
        return False

    return run
