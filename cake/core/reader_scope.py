"""Scopes of a role's body: what names mean, and the program's variables behind them.

Two scopes run side by side. The author's: a name first assigned in a block ends with it. The program's: unrolled blocks
melt into the block around them, so a name may live on there, and is assigned again (same type) or renamed (another).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from cake.core.ir import SPECIALS, Extent, IRError, OpStmt, Role, Special, Stmt, Type, Var
from cake.core.op import Op
from cake.core.reader_expr import Expressions
from cake.core.reader_source import Source, check_free, suggest
from cake.core.reader_values import describe
from cake.core.scope import MAX_NESTING, MAX_STATEMENTS


@dataclass(slots=True)
class Binding:
    """What an author's name means: an IR scalar or fragment, or (`fixed`) something that no statement may assign."""

    value: object
    fixed: str = ""  # why it cannot be assigned


@dataclass(slots=True)
class Spare:
    """A generated name for a nested primitive's value: free again once its statement has been read."""

    opname: str
    var: Var
    busy: bool = True


@dataclass(slots=True)
class Fresh:
    """Makes names that nothing else has: `taken` in this role or program."""

    taken: set[str]

    def __call__(self, wanted: str) -> str:
        """`wanted`, or `wanted_1` and so on."""
        name, n = wanted, 0
        while name in self.taken:
            n += 1
            name = f"{wanted}_{n}"
        self.taken.add(name)
        return name


@dataclass(slots=True)
class Context:
    """What the roles of one program share: its text, the names declared above them, and how much has been read."""

    source: Source
    known: dict[str, object]
    extents: frozenset[str]
    taken: frozenset[str]
    read: int = 0  # statements, unrolled ones each time
    emitted: int = 0


class Scopes(Expressions):
    """Names and emitted statements of one role's body."""

    def __init__(self, context: Context, role: Role) -> None:
        super().__init__(context.source)
        self.context = context
        self.role = role
        self.known = context.known
        self.extents = context.extents
        self.fresh = Fresh(set(context.taken))
        self.names: list[dict[str, Binding]] = [{}]
        self.emitted: list[dict[str, Type]] = [{}]
        self.out: list[list[Stmt]] = [[]]
        self.ended: dict[str, int] = {}
        self.spare: list[Spare] = []  # names of nested primitives' values

    # ---------------------------------------------------------------------------------------------------------- scopes

    def lookup(self, node: ast.Name) -> object:
        """What a name means in this role."""
        name = node.id
        for scope in reversed(self.names):
            if name in scope:
                return scope[name].value
        if name in self.known:
            return self.known[name]
        if name in self.extents:
            return Extent(name)
        if name in SPECIALS:
            if name == "sm_count":
                raise self.error(node, "sm_count is known to the launch only; write cta_count in a role")
            return 0 if name == "instance" and self.fold and self.role.instances == 1 else Special(name)
        if name in self.ended:
            raise self.error(
                node,
                f"{name!r} ended with the block that assigned it first, at line {self.ended[name]}; assign it before",
            )
        visible = {n for scope in self.names for n in scope} | set(self.known) | self.extents | set(SPECIALS)
        raise self.error(node, f"unknown name {name!r}{suggest(name, visible)}")

    def binding(self, name: str) -> Binding | None:
        """The author's binding of a name, innermost first."""
        return next((scope[name] for scope in reversed(self.names) if name in scope), None)

    @contextmanager
    def scope(self, node: ast.stmt, *, unrolled: bool = False) -> Iterator[list[Stmt]]:
        """A block: names first assigned in it end with it. An unrolled one emits into the block around it."""
        if len(self.names) > MAX_NESTING:  # unrolled ones count too: they nest the reader's own calls
            raise self.error(node, f"blocks are nested more than {MAX_NESTING} deep")
        self.names.append({})
        if not unrolled:
            self.emitted.append({})
            self.out.append([])
        spare = self.spare
        if not unrolled:
            self.spare = []  # a loop's bounds may use the outer ones
        try:
            yield self.out[-1]
        finally:
            line = self.source.span(node).line
            self.ended |= dict.fromkeys(self.names.pop(), line)
            if not unrolled:
                self.emitted.pop()
                self.out.pop()
                self.spare = spare

    def emit(self, stmt: Stmt) -> None:
        """Add a statement to the block being read."""
        self.context.emitted += 1
        if self.context.emitted > MAX_STATEMENTS:
            raise IRError(f"the program has more than {MAX_STATEMENTS} statements once unrolled", stmt.span)
        self.out[-1].append(stmt)

    def introduce(self, var: Var) -> None:
        """Note that the program declares `var` in the current block."""
        self.emitted[-1][var.name] = var.type

    def target(self, node: ast.Name, type_: Type, *, redeclare: bool = False) -> tuple[Var, bool]:
        """The program's variable for an assignment to an author's name, and whether this declares it."""
        bound = self.binding(node.id)
        if bound is not None:
            if bound.fixed:
                raise self.error(node, f"{node.id!r} {bound.fixed}; choose another name")
            assert isinstance(bound.value, Var)
            if redeclare:
                raise self.error(node, f"{node.id!r} is declared already; delete the line")
            return bound.value, False
        self.check_name(node)
        name = node.id
        holder = next((scope[name] for scope in reversed(self.emitted) if name in scope), None)
        if holder is not None and (redeclare or holder != type_):
            name, holder = self.fresh(name), None
        var = Var(name, type_)
        self.names[-1][node.id] = Binding(var)
        if holder is None:
            self.introduce(var)
        return var, holder is None

    def check_name(self, node: ast.Name) -> None:
        """Refuse to give a name another meaning than it has."""
        name = node.id
        if name in self.known:
            raise self.error(node, f"{name!r} is {describe(self.known[name])} already; choose another name")
        if name in self.extents:
            raise self.error(node, f"{name!r} is a problem extent already; choose another name")
        check_free(self.source, node, name)

    def new(self, target: ast.expr) -> ast.Name:
        """A loop variable: a name that is not in use."""
        if not isinstance(target, ast.Name):
            raise self.error(target, "a loop variable is a name")
        if self.binding(target.id) is not None:
            raise self.error(target, f"{target.id!r} is in use here; choose another loop variable")
        self.check_name(target)
        return target

    # --------------------------------------------------------------------------------------------------------- lifting

    def lift(self, op: Op, node: ast.Call) -> Var:
        """A nested primitive gets a statement of its own, before the one that uses it."""
        result = op.result_type()
        assert result is not None
        if self.source.canonical:
            raise self.error(node, f"{op.opname} inside an expression: a .cake file gives it a statement of its own")
        span = self.source.span(node)
        for spare in self.spare:
            if not spare.busy and (spare.opname, spare.var.type) == (op.opname, result):
                spare.busy = True
                self.emit(OpStmt(op, spare.var, False, span))
                return spare.var
        var = Var(self.fresh(f"{op.opname}_value"), result)
        self.spare.append(Spare(op.opname, var))
        self.introduce(var)
        self.emit(OpStmt(op, var, True, span))
        return var
