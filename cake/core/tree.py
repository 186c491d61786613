"""Reading and rebuilding IR trees: statements by path, substitution of declarations, scope repair.

All functions are pure. A rebuilt tree shares every part that did not change with the tree it came from, so that a
one-statement edit of a program costs the length of its path.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from functools import cache
from operator import is_
from typing import Any

from cake.core.ir import (
    Assign,
    Break,
    Declare,
    DType,
    For,
    FragmentType,
    If,
    IRError,
    OneLane,
    OpStmt,
    Program,
    RoleBody,
    Scalar,
    Span,
    Stmt,
    Type,
    Var,
    bodies,
)


@cache
def field_names(kind: Any) -> tuple[str, ...]:
    """Names of a node class's fields, in order; none for leaves (types, spans) and classes that are no dataclass."""
    leaf = kind in (Span, DType, FragmentType)
    return tuple(f.name for f in fields(kind)) if is_dataclass(kind) and not leaf else ()


def rebuild(node: Any, change: Callable[[Any], Any | None]) -> Any:
    """`node` with every sub-node `n` for which `change(n)` is not None replaced by that. Outermost first: what `change`
    returns is not visited again. Raises IRError when the result is ill-typed."""
    new = change(node)
    if new is not None:
        return new
    if isinstance(node, tuple):
        items = tuple(rebuild(item, change) for item in node)
        return node if all(a is b for a, b in zip(items, node, strict=True)) else items
    changed: dict[str, Any] = {}
    for name in field_names(node.__class__):
        old = getattr(node, name)
        value = rebuild(old, change)
        if value is not old:
            changed[name] = value
    return replace(node, **changed) if changed else node


def nodes(node: Any) -> Iterator[Any]:
    """`node` and every dataclass node below it, outermost first."""
    if isinstance(node, tuple):
        for item in node:
            yield from nodes(item)
    elif names := field_names(node.__class__):
        yield node
        for name in names:
            yield from nodes(getattr(node, name))


def redeclare(program: Program, old: object, new: object) -> Program:
    """`program` with declaration (or parameter, or launch) `old` replaced by `new`, wherever it is referred to."""
    kind = type(old)
    result: Program = rebuild(program, lambda n: new if type(n) is kind and n == old else None)
    return result


# ----------------------------------------------------------------------------------------------------------- statements


def with_bodies(stmt: Stmt, nested: tuple[tuple[Stmt, ...], ...]) -> Stmt:
    """`stmt` with its nested statement lists (as `bodies` gives them) replaced."""
    match stmt:
        case For() | OneLane():
            return replace(stmt, body=nested[0])
        case If():
            return replace(stmt, then=nested[0], other=nested[1])
    return stmt


def parse_path(path: str) -> tuple[str, tuple[int, ...]]:
    """`load:0.1.2` as role name and child positions. Raises KeyError when it is no path."""
    role, colon, rest = path.partition(":")
    try:
        steps = tuple(int(step) for step in rest.split(".")) if rest else ()
    except ValueError:
        raise KeyError(path) from None
    if not colon:
        raise KeyError(path)
    return role, steps


def _descend(stmt: Stmt, step: int) -> tuple[int, int]:
    """The nested list of `stmt` that child number `step` is in, and its position there."""
    for i, body in enumerate(bodies(stmt)):
        if step < len(body):
            return i, step
        step -= len(body)
    raise IndexError(step)


def _body(program: Program, role: str) -> RoleBody:
    for body in program.roles:
        if body.role.name == role:
            return body
    raise KeyError(role)


def statement(program: Program, path: str) -> Stmt:
    """The statement at `path` (see `cake.core.ir.Located`). Raises KeyError when there is none."""
    role, steps = parse_path(path)
    if not steps:
        raise KeyError(path)
    try:
        stmt = _body(program, role).body[steps[0]]
        for step in steps[1:]:
            i, at = _descend(stmt, step)
            stmt = bodies(stmt)[i][at]
    except IndexError:
        raise KeyError(path) from None
    return stmt


Splice = Callable[[tuple[Stmt, ...], int], tuple[Stmt, ...]]


def splice(program: Program, path: str, edit: Splice) -> Program:
    """`program` with the statement list around `path` replaced by `edit(list, position in it)`.

    Scopes are repaired (see `rescoped`). Raises KeyError for a wrong path, IRError when the result is ill-typed."""
    role, steps = parse_path(path)
    if not steps:
        raise KeyError(path)

    def visit(stmts: tuple[Stmt, ...], rest: tuple[int, ...]) -> tuple[Stmt, ...]:
        if len(rest) == 1:
            if not 0 <= rest[0] < len(stmts):
                raise KeyError(path)
            return edit(stmts, rest[0])
        try:
            stmt = stmts[rest[0]]
            i, at = _descend(stmt, rest[1])
        except IndexError:
            raise KeyError(path) from None
        nested = list(bodies(stmt))
        nested[i] = visit(nested[i], (at, *rest[2:]))
        return (*stmts[: rest[0]], with_bodies(stmt, tuple(nested)), *stmts[rest[0] + 1 :])

    body = _body(program, role)
    return with_role_body(program, role, visit(body.body, steps))


def with_role_body(program: Program, role: str, stmts: tuple[Stmt, ...]) -> Program:
    """`program` with the body of `role` replaced by `stmts`, scopes repaired."""
    scoped = rescoped(program, stmts)
    return replace(program, roles=tuple(replace(b, body=scoped) if b.role.name == role else b for b in program.roles))


def replace_statement(program: Program, path: str, stmts: Iterable[Stmt]) -> Program:
    """`program` with the statement at `path` replaced by `stmts` (none drops it)."""
    new = tuple(stmts)
    return splice(program, path, lambda old, i: (*old[:i], *new, *old[i + 1 :]))


def drop_empty(stmts: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """`stmts` without loops, conditions and `one_lane` blocks that hold nothing: the text form has no empty block."""
    kept: list[Stmt] = []
    for stmt in stmts:
        nested = bodies(stmt)
        lists = tuple(map(drop_empty, nested))
        if isinstance(stmt, If) and lists[1] and not lists[0]:
            raise IRError("an if without statements has an else", stmt.span)
        if any(lists) or not nested:
            same = all(a is b for a, b in zip(lists, nested, strict=True))
            kept.append(stmt if same else with_bodies(stmt, lists))
    return stmts if len(kept) == len(stmts) and all(map(is_, kept, stmts)) else tuple(kept)


# --------------------------------------------------------------------------------------------------------------- scopes


def expression_names(node: object) -> Iterator[Var]:
    """Every `Var` in an expression, reference or primitive."""
    for n in nodes(node):
        if isinstance(n, Var):
            yield n


def rescoped(program: Program, stmts: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """`stmts`, a role's body, with `declare` set on exactly the first binding of each name and empty blocks gone.

    A name is visible from its binding to the end of the block that binds it. Raises IRError for a name that is used
    unbound, or bound again with another type.
    """
    outer: dict[str, Type] = {p.name: p.dtype for p in program.of(Scalar)}
    return _scoped(drop_empty(stmts), outer)


def _use(node: object, env: Mapping[str, Type], stmt: Stmt) -> None:
    for var in expression_names(node):
        if var.name not in env:
            raise IRError(f"{var.name} is used before it is bound", stmt.span)
        if env[var.name] != var.type:
            raise IRError(f"{var.name} has type {env[var.name]}, not {var.type}", stmt.span)


def _bind(target: Var, env: dict[str, Type], stmt: Stmt) -> bool:
    """Bind `target`; whether that declares it."""
    known = env.get(target.name)
    if known is None:
        env[target.name] = target.type
        return True
    if known != target.type:
        raise IRError(f"{target.name} has type {known}, not {target.type}", stmt.span)
    return False


def _scoped(stmts: tuple[Stmt, ...], outer: Mapping[str, Type]) -> tuple[Stmt, ...]:
    env = dict(outer)
    done: list[Stmt] = []
    for stmt in stmts:
        new: Stmt = stmt
        match stmt:
            case Assign(target=target, value=value, declare=declare):
                _use(value, env, stmt)
                first = _bind(target, env, stmt)
                new = stmt if first == declare else replace(stmt, declare=first)
            case Declare(target=target):
                if target.name in env:
                    raise IRError(f"{target.name} is declared twice", stmt.span)
                env[target.name] = target.type
            case OpStmt(op=op, out=out, declare=declare):
                _use(op, env, stmt)
                if out is not None:
                    first = _bind(out, env, stmt)
                    new = stmt if first == declare else replace(stmt, declare=first)
            case For(var=var, start=start, stop=stop, step=step, body=body):
                for bound in (start, stop, step):
                    _use(bound, env, stmt)
                if var.name in env:
                    raise IRError(f"loop variable {var.name} is bound already", stmt.span)
                inner = _scoped(body, {**env, var.name: var.type})
                new = stmt if inner is body else replace(stmt, body=inner)
            case If(condition=condition, then=then, other=other):
                _use(condition, env, stmt)
                a, b = _scoped(then, env), _scoped(other, env)
                new = stmt if a is then and b is other else replace(stmt, then=a, other=b)
            case OneLane(body=body):
                inner = _scoped(body, env)
                new = stmt if inner is body else replace(stmt, body=inner)
            case Break():
                pass
        done.append(new)
    return stmts if all(a is b for a, b in zip(stmts, done, strict=True)) else tuple(done)
