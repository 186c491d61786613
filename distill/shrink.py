"""Single steps of reduction: each makes a smaller pair, or raises IRError or ValueError when it cannot."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import TypeAlias

from cake.core.ir import (
    SPECIALS,
    Assign,
    Barrier,
    BarrierRef,
    Const,
    Decl,
    Expr,
    Extent,
    For,
    FragmentType,
    If,
    IRError,
    OpStmt,
    Program,
    Role,
    Scalar,
    Smem,
    Special,
    Stmt,
    Tensor,
    TensorMap,
    Var,
    View,
    operands,
)
from cake.core.tree import nodes, rebuild, redeclare
from distill.pair import Item, Pair, Place, transform

#: A role's name and a place in its merged body.
Where: TypeAlias = tuple[str, Place]


def without_role(name: str, p: Pair) -> Pair:
    """Without one role."""
    return p.with_items([x for x in p.items if x[0] != name])


def without(chunk: AbstractSet[Where], p: Pair) -> Pair:
    """Without the statements at these places."""

    def kept(role: str) -> Callable[[Place, Item], Sequence[Item]]:
        return lambda place, item: () if (role, place) in chunk else (item,)

    return p.with_items([(role, transform(items, kept(role))) for role, items in p.items])


def _at(where: Where, change: Callable[[Item], Sequence[Item]], p: Pair) -> Pair:
    role, place = where
    return p.with_items(
        [(r, transform(x, lambda at, i: change(i) if at == place else (i,)) if r == role else x) for r, x in p.items]
    )


def opened(where: Where, p: Pair) -> Pair:
    """The contents of a block (an `if`: its first branch) in its place; a loop's variable becomes its first value."""
    return _at(where, _opened, p)


def _opened(item: Item) -> Sequence[Item]:
    inner = item.nested[0]
    if not isinstance(item.bad, For) or not isinstance(item.good, For):
        return inner
    if item.bad.start != item.good.start:
        raise IRError("the loops start differently")
    return tuple(_substituted(i, item.good.var, item.good.start) for i in inner)


def _substituted(item: Item, var: Var, value: Expr) -> Item:
    def change(node: object) -> object | None:
        return value if node == var else None

    return Item(
        rebuild(item.bad, change) if item.bad is not None else None,
        rebuild(item.good, change) if item.good is not None else None,
        tuple(tuple(_substituted(i, var, value) for i in nested) for nested in item.nested),
    )


def bounded(where: Where, trips: int, p: Pair) -> Pair:
    """A loop with a constant trip count, counting from 0."""

    def change(item: Item) -> Sequence[Item]:
        if not isinstance(item.bad, For) or not isinstance(item.good, For):
            raise IRError("no loop")
        if (item.bad.start, item.bad.stop, item.bad.step) != (item.good.start, item.good.stop, item.good.step):
            raise IRError("the loops differ")
        return (replace(item, bad=_counting(item.bad, trips), good=_counting(item.good, trips)),)

    return _at(where, change, p)


def _counting(loop: For, trips: int) -> For:
    return replace(loop, start=Const(0), stop=Const(trips), step=Const(1))


# --------------------------------------------------------------------------------------------------------- declarations


def undeclared(name: str, p: Pair) -> Pair:
    """Without a declaration that nothing uses."""

    def change(program: Program) -> Program:
        decl = _decl(program, name)
        rest = tuple(d for d in program.decls if d is not decl)
        if isinstance(decl, Role) or any(n == decl for n in nodes(program.roles)):
            raise IRError(f"{name} is in use")
        return replace(program, decls=rest)

    return p.with_programs(change)


def unparametrised(name: str, p: Pair) -> Pair:
    """Without a parameter that nothing uses, nor any extent that it alone introduces."""

    def change(program: Program) -> Program:
        param = next(q for q in program.params if q.name == name)
        rest = tuple(q for q in program.params if q is not param)
        known = {d for q in rest if isinstance(q, Tensor) for d in q.dims}
        for node in nodes((program.launch, program.decls, program.roles)):
            if node == param or (isinstance(node, Var | Scalar) and node.name == name):
                raise IRError(f"{name} is in use")
            if isinstance(node, Extent) and node.name not in known:
                raise IRError(f"{node.name} is in use")
        return replace(program, params=rest)

    return p.with_programs(change)


def one_cta(p: Pair) -> Pair:
    """A grid of a single CTA."""
    return p.with_programs(lambda q: replace(q, launch=replace(q.launch, ctas=Const(1))))


def counts(decl: Decl) -> tuple[tuple[str, int], ...]:
    """The numbers of a declaration that say how many of something there are."""
    match decl:
        case Role(instances=instances, warps=warps):
            return (("instances", instances), ("warps", warps))
        case Smem(stages=stages):
            return (("stages", stages),)
        case Barrier(slots=slots):
            return (("slots", slots),)
    return ()


def with_count(name: str, count: str, value: int, p: Pair) -> Pair:
    """A declaration with fewer of something. A single stage or slot takes no index."""

    def change(program: Program) -> Program:
        decl = _decl(program, name)
        new: Decl
        match decl, count:
            case Role(), "instances":
                new = replace(decl, instances=value)
            case Role(), "warps":
                new = replace(decl, warps=value)
            case Smem(), "stages":
                new = replace(decl, stages=value)
            case Barrier(), "slots":
                new = replace(decl, slots=value)
            case _:
                raise IRError(f"{name} has no {count}")

        def single(node: object) -> object | None:
            match node:
                case View(buffer=old) if old == decl and isinstance(new, Smem):
                    return replace(node, buffer=new, stage=None)
                case BarrierRef(barrier=old) if old == decl and isinstance(new, Barrier):
                    return replace(node, barrier=new, slot=None)
            return new if node == decl else None

        if value == 1 and count in ("stages", "slots"):
            result: Program = rebuild(program, single)
            return result
        return redeclare(program, decl, new)

    return p.with_programs(change)


def _decl(program: Program, name: str) -> Decl:
    return next(d for d in program.decls if d.name == name)


# --------------------------------------------------------------------------------------------------------------- values


def expressions(stmt: Stmt | None) -> tuple[Expr, ...]:
    """The scalar expressions that a statement holds, outermost only, in order."""
    found: list[Expr] = []

    def note(node: Expr) -> Expr:
        found.append(node)
        return node

    if stmt is not None:
        _with_values(stmt, note)
    return tuple(found)


def _with_values(stmt: Stmt, change: Callable[[Expr], Expr]) -> Stmt:
    def visit(node: object) -> object | None:
        if isinstance(node, TensorMap | Smem | Barrier | Tensor):
            return node
        kind = getattr(node, "type", None)
        return change(node) if kind is not None and not isinstance(kind, FragmentType) else None  # type: ignore[arg-type]

    match stmt:
        case Assign(value=value) if not isinstance(value.type, FragmentType):
            return replace(stmt, value=change(value))
        case If(condition=condition):
            return replace(stmt, condition=change(condition))
        case OpStmt(op=op):
            return replace(stmt, op=rebuild(op, visit))
    return stmt


def simpler(expr: Expr) -> tuple[Expr, ...]:
    """Simpler values to try, simplest first: constants, the value with a special as 0, an operand of the same type."""
    if isinstance(expr, Const):
        return ()
    kind = expr.type
    assert not isinstance(kind, FragmentType)
    constants = {"bool": (True, False), "float": (0.0, 1.0)}.get(kind.kind, (0, 1))
    found: list[Expr] = [Const(value, kind) for value in constants]
    for name in SPECIALS:
        special = Special(name)
        if any(n == special for n in nodes(expr)):
            found.append(rebuild(expr, _replacer(special)))
    found += [e for e in operands(expr) if e.type == kind]
    return tuple(dict.fromkeys(found))


def _replacer(special: Special) -> Callable[[object], object | None]:
    return lambda node: Const(0) if node == special else None


def revalued(where: Where, n: int, value: Expr, p: Pair) -> Pair:
    """The statement with its expression number `n` replaced, in both programs."""

    def change(item: Item) -> Sequence[Item]:
        if item.bad is None or item.good is None:
            raise IRError("only one program has this statement")
        return (replace(item, bad=put(item.bad), good=put(item.good)),)

    def put(stmt: Stmt) -> Stmt:
        seen = iter(range(1 << 20))
        return _with_values(stmt, lambda e: value if next(seen) == n else e)

    return _at(where, change, p)
