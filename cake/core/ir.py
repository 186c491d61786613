"""Cake IR: the nodes (`cake.core.ir_nodes`, the whole grammar in one readable place), and the walks over them.

This module is the front door: every user of the IR imports from here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from cake.core.ir_check import *  # noqa: F403
from cake.core.ir_nodes import *  # noqa: F403
from cake.core.ir_nodes import (
    Binary,
    Cast,
    Expr,
    For,
    If,
    OneLane,
    Part,
    Program,
    Reduce,
    Role,
    Select,
    Stmt,
    Unary,
)


def operands(expr: Expr) -> tuple[Expr, ...]:
    """The direct sub-expressions of `expr`."""
    match expr:
        case Binary(_, left, right):
            return (left, right)
        case Unary(_, operand) | Cast(operand, _) | Reduce(_, operand):
            return (operand,)
        case Select(condition, then, other):
            return (condition, then, other)
        case Part(fragment, _, _):
            return (fragment,)
    return ()


def walk_expr(expr: Expr) -> Iterator[Expr]:
    """`expr` and all its sub-expressions, outermost first."""
    yield expr
    for operand in operands(expr):
        yield from walk_expr(operand)


def bodies(stmt: Stmt) -> tuple[tuple[Stmt, ...], ...]:
    """The statement lists nested directly in `stmt`."""
    match stmt:
        case For(body=body) | OneLane(body=body):
            return (body,)
        case If(then=then, other=other):
            return (then, other)
    return ()


@dataclass(frozen=True, slots=True)
class Located:
    """A statement with its path: role name and child positions, such as `load:0.1.2` (an `If`'s else-branch counts on
    from its then-branch). Paths are how findings, mutations and evidence point at a statement."""

    path: str
    stmt: Stmt
    role: Role
    parents: tuple[Stmt, ...]


def walk(program: Program) -> Iterator[Located]:
    """Every statement of `program`, in canonical order."""

    def visit(
        prefix: str, stmts: tuple[Stmt, ...], base: int, role: Role, parents: tuple[Stmt, ...]
    ) -> Iterator[Located]:
        for i, stmt in enumerate(stmts):
            path = f"{prefix}{base + i}"
            yield Located(path, stmt, role, parents)
            offset = 0
            for nested in bodies(stmt):
                yield from visit(path + ".", nested, offset, role, (*parents, stmt))
                offset += len(nested)

    for body in program.roles:
        yield from visit(f"{body.role.name}:", body.body, 0, body.role, ())
