"""What a repair touches: the ops of the failing program at which a rule may flag it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from cake.core.events import Commit, RegisterFence, Start, WaitGroup
from cake.core.ir import (
    Assign,
    Barrier,
    Declare,
    For,
    OpStmt,
    Role,
    Smem,
    Stmt,
    Tensor,
    TensorMap,
    Var,
    bodies,
    walk,
)
from cake.core.tree import nodes
from distill.pair import Item, Pair

#: Events that belong to a timeline.
_TIMED = (Start, Commit, WaitGroup, RegisterFence)


@dataclass(frozen=True, slots=True)
class Touched:
    """Op paths of the failing program. `direct` are ops that the repair changes, removes, or feeds (through a variable
    or a declaration); `near` are ops that use what an added op uses, or stand in a changed block."""

    direct: tuple[str, ...]
    near: tuple[str, ...]

    @property
    def all(self) -> frozenset[str]:
        """Every op at which a finding is in the right place."""
        return frozenset((*self.direct, *self.near))


@dataclass(frozen=True, slots=True)
class _Difference:
    """One item that differs: its path in the failing program (where it would stand, if it is missing there)."""

    path: str
    item: Item


def touched(p: Pair) -> Touched:
    """The ops that turn up in the difference of a pair; all ops when the difference names none."""
    ops = {x.path: x.stmt for x in walk(p.bad) if isinstance(x.stmt, OpStmt)}
    direct: dict[str, None] = {}
    near: dict[str, None] = {}
    for old, _ in p.declared:
        for path, op in ops.items():
            if _refers(op, old.name) or (isinstance(old, Role) and path.startswith(f"{old.name}:")):
                direct.setdefault(path)
    for found in _differences(p):
        bad, good = found.item.bad, found.item.good
        role = found.path.partition(":")[0] + ":"
        if bad is not None:
            for path in sorted(_ops_at(found.path, ops), key=lambda p: p.count(".")):
                direct.setdefault(path)  # of a loop, what runs as often as it does before what inner loops hold
        for side in (bad, good):
            match side:
                case Assign(target=target) | Declare(target=target):
                    for path, op in ops.items():
                        if path.startswith(role) and _mentions(op, target):
                            direct.setdefault(path)
                    for path in _beside(found.path, ops):
                        near.setdefault(path)
        if good is not None and (bad is None or not _places(good)):
            for used in _things(good):
                for path, op in ops.items():
                    if used in _things(op):
                        near.setdefault(path)
            for path in _after(found.path, ops) if _places(good) else _beside(found.path, ops):
                near.setdefault(path)
    rest = tuple(x for x in near if x not in direct)
    if not direct and not rest:
        return Touched((), tuple(ops))
    return Touched(tuple(direct), rest)


def _differences(p: Pair) -> Iterator[_Difference]:
    for role, items in p.items:
        yield from _walk(items, f"{role}:", 0)


def _walk(items: Sequence[Item], prefix: str, base: int) -> Iterator[_Difference]:
    at = base
    for item in items:
        path = f"{prefix}{at}"
        if item.nested and item.bad is not None and item.good is not None:
            if _header(item.bad) != _header(item.good):
                yield _Difference(path, item)
            offset = 0
            for nested in item.nested:
                yield from _walk(nested, f"{path}.", offset)
                offset += sum(i.bad is not None for i in nested)
        elif not item.same:
            yield _Difference(path, item)
        at += item.bad is not None


def _header(stmt: Stmt) -> object:
    """A block without its contents."""
    match stmt:
        case For(var=var, start=start, stop=stop, step=step):
            return (var, start, stop, step)
    return getattr(stmt, "condition", None)


def _ops_at(path: str, ops: dict[str, OpStmt]) -> list[str]:
    return [p for p in ops if p == path or p.startswith(f"{path}.")]


def _beside(path: str, ops: dict[str, OpStmt]) -> list[str]:
    """The ops in the block that a path is in, its own place first: where an op is missing that works on nothing itself,
    such as a fence, it is they that it would have kept apart."""
    block = path.rpartition(".")[0] or path.partition(":")[0]
    inside = [p for p in ops if p.startswith(f"{block}.") or (":" not in block and p.startswith(f"{block}:"))]
    return sorted(inside, key=lambda p: (_key(p) < _key(path), abs(_key(p)[0] - _key(path)[0]), _key(p)))


def _after(path: str, ops: dict[str, OpStmt]) -> list[str]:
    """The first op at or behind a path in its role."""
    role = path.partition(":")[0] + ":"
    behind = [p for p in ops if p.startswith(role) and _key(p) >= _key(path)]
    return behind[:1]


def _key(path: str) -> tuple[int, ...]:
    return tuple(int(x) for x in path.partition(":")[2].split("."))


def _refers(stmt: Stmt, name: str) -> bool:
    kinds = Smem | TensorMap | Barrier | Tensor
    return any(isinstance(n, kinds) and n.name == name for n in nodes(stmt))


def _mentions(stmt: Stmt, var: Var) -> bool:
    return any(n == var for n in nodes(stmt))


def _things(stmt: Stmt) -> frozenset[str]:
    """What an op works on: regions, barriers and timelines, by name."""
    found = set(_places(stmt))
    for inner in _flat(stmt):
        if isinstance(inner, OpStmt):
            found |= {e.timeline.name for e in inner.op.events() if isinstance(e, _TIMED)}
    return frozenset(found)


def _places(stmt: Stmt) -> frozenset[str]:
    """The regions and barriers that an op works on. One that has none, such as a fence or a group wait, matters for the
    ops that it keeps apart."""
    return frozenset(
        n.name for x in _flat(stmt) if isinstance(x, OpStmt) for n in nodes(x) if isinstance(n, Smem | Barrier)
    )


def _flat(stmt: Stmt) -> Iterator[Stmt]:
    yield stmt
    for body in bodies(stmt):
        for inner in body:
            yield from _flat(inner)
