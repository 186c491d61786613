"""A failing program and its repair as one tree: what reduces one reduces the other, and their difference stays.

Statements that both have are one `Item`; where they differ, the item holds both versions, or one. Every change of a
pair is made on items, and both programs are read off the result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from cake.core.ir import Assign, Decl, Declare, For, If, IRError, OneLane, OpStmt, Program, Role, Stmt, bodies
from cake.core.tree import redeclare, rescoped, with_bodies


@dataclass(frozen=True, slots=True)
class Item:
    """One place in a role's body: the failing program's statement, the repair's, and, where both are blocks of one
    kind, the items inside (`nested` then replaces their own bodies)."""

    bad: Stmt | None
    good: Stmt | None
    nested: tuple[tuple[Item, ...], ...] = ()

    @property
    def same(self) -> bool:
        """Whether both programs have the same here, all the way down."""
        return self.bad == self.good

    @property
    def stmt(self) -> Stmt:
        """The statement, the failing program's if they differ."""
        found = self.bad if self.bad is not None else self.good
        assert found is not None
        return found


@dataclass(frozen=True, slots=True)
class Pair:
    """Both programs, and the merged body of each role by name, in order. `declared` holds the declarations that differ,
    as (failing, repaired): `items` speak of the repaired one on both sides, so that only its name counts there."""

    bad: Program
    good: Program
    items: tuple[tuple[str, tuple[Item, ...]], ...]
    declared: tuple[tuple[Decl, Decl], ...] = ()

    def with_items(self, items: Sequence[tuple[str, tuple[Item, ...]]]) -> Pair:
        """The pair with other bodies, without roles that `items` leaves out. Raises IRError when it is ill-typed."""
        merged = tuple(items)
        bad = _project(_redeclared(self.bad, self.declared), merged, True)
        bad = _redeclared(bad, [(new, old) for old, new in self.declared if new in bad.decls])
        return pair(bad, _project(self.good, merged, False))

    def with_programs(self, change: Callable[[Program], Program]) -> Pair:
        """Both programs changed alike."""
        return pair(change(self.bad), change(self.good))


def pair(bad: Program, good: Program) -> Pair:
    """Align two programs that have the same roles. Raises ValueError when they have not."""
    names = [b.role.name for b in bad.roles]
    if names != [b.role.name for b in good.roles]:
        raise ValueError(f"{bad.name} has roles {names}, its repair {[b.role.name for b in good.roles]}")
    by_name = {d.name: d for d in good.decls}
    declared = tuple((d, by_name[d.name]) for d in bad.decls if d.name in by_name and d != by_name[d.name])
    try:
        like = _redeclared(bad, declared)
    except IRError:
        like, declared = bad, ()
    merged = tuple((x.role.name, align(x.body, y.body)) for x, y in zip(like.roles, good.roles, strict=True))
    return Pair(bad, good, merged, declared)


def _redeclared(program: Program, changes: Sequence[tuple[Decl, Decl]]) -> Program:
    for old, new in changes:
        program = redeclare(program, old, new)
    return program


def align(bad: Sequence[Stmt], good: Sequence[Stmt]) -> tuple[Item, ...]:
    """The merged list of two statement lists: equal statements first, then similar ones between them."""
    items: list[Item] = []
    for left, right in _runs(bad, good):
        if left is right or left == right:
            items += [_item(a, b) for a, b in zip(left, right, strict=True)]
        else:
            items += _similar(left, right)
    return tuple(items)


def _runs(bad: Sequence[Stmt], good: Sequence[Stmt]) -> Iterator[tuple[Sequence[Stmt], Sequence[Stmt]]]:
    """Stretches of both lists in order: equal ones, and between them what is left of each."""
    n, m = len(bad), len(good)
    common = [[0] * (m + 1) for _ in range(n + 1)]
    for i in range(n - 1, -1, -1):
        for j in range(m - 1, -1, -1):
            common[i][j] = common[i + 1][j + 1] + 1 if bad[i] == good[j] else max(common[i + 1][j], common[i][j + 1])
    i = j = 0
    left: list[Stmt] = []
    right: list[Stmt] = []
    while i < n or j < m:
        if i < n and j < m and bad[i] == good[j]:
            if left or right:
                yield left, right
                left, right = [], []
            yield [bad[i]], [good[j]]
            i, j = i + 1, j + 1
        elif j == m or (i < n and common[i + 1][j] >= common[i][j + 1]):
            left.append(bad[i])
            i += 1
        else:
            right.append(good[j])
            j += 1
    if left or right:
        yield left, right


def _similar(left: Sequence[Stmt], right: Sequence[Stmt]) -> list[Item]:
    """Statements of the same kind, paired in order; the others stand alone."""
    items: list[Item] = []
    rest = list(right)
    for a in left:
        j = next((k for k, b in enumerate(rest) if likeness(a) == likeness(b)), None)
        if j is None:
            items.append(Item(a, None))
        else:
            items += [Item(None, b) for b in rest[:j]]
            items.append(_item(a, rest[j]))
            rest = rest[j + 1 :]
    return items + [Item(None, b) for b in rest]


def likeness(stmt: Stmt) -> tuple[str, ...]:
    """What makes two statements versions of each other: kind, primitive, the name bound."""
    match stmt:
        case OpStmt(op=op, out=out):
            return ("op", op.opname, out.name if out else "")
        case Assign(target=var) | Declare(target=var):
            return (type(stmt).__name__, var.name)
        case For(var=var):
            return ("for", var.name)
    return (type(stmt).__name__,)


def _item(a: Stmt, b: Stmt) -> Item:
    nested = tuple(align(x, y) for x, y in zip(bodies(a), bodies(b), strict=True)) if type(a) is type(b) else ()
    return Item(a, b, nested)


def side(items: Sequence[Item], bad: bool) -> tuple[Stmt, ...]:
    """The statements of one of the programs."""
    found: list[Stmt] = []
    for item in items:
        stmt = item.bad if bad else item.good
        if stmt is None:
            continue
        found.append(with_bodies(stmt, tuple(side(n, bad) for n in item.nested)) if item.nested else stmt)
    return tuple(found)


def _project(program: Program, items: Sequence[tuple[str, tuple[Item, ...]]], bad: bool) -> Program:
    by_name = dict(items)
    roles = tuple(
        replace(b, body=rescoped(program, side(by_name[b.role.name], bad)))
        for b in program.roles
        if b.role.name in by_name
    )
    decls = tuple(d for d in program.decls if not isinstance(d, Role) or d.name in by_name)
    return replace(program, roles=roles, decls=decls)


# ------------------------------------------------------------------------------------------------------------- places

Place = tuple[int, ...]
#: A place in a pair: the role's position, then child positions; a block's `nested` lists count on from each other.


def places(items: Sequence[Item], prefix: Place = (), base: int = 0) -> Iterator[tuple[Place, Item]]:
    """Every item with its place, outermost first."""
    for i, item in enumerate(items, base):
        place = (*prefix, i)
        yield place, item
        offset = 0
        for nested in item.nested:
            yield from places(nested, place, offset)
            offset += len(nested)


def transform(
    items: Sequence[Item], change: Callable[[Place, Item], Sequence[Item]], prefix: Place = (), base: int = 0
) -> tuple[Item, ...]:
    """Items with each replaced by what `change` gives for it; what it gives back as it was is entered."""
    done: list[Item] = []
    for i, item in enumerate(items, base):
        place = (*prefix, i)
        new = change(place, item)
        if len(new) != 1 or new[0] is not item:
            done += new
            continue
        offset, lists = 0, []
        for nested in item.nested:
            lists.append(transform(nested, change, place, offset))
            offset += len(nested)
        done.append(item if tuple(lists) == item.nested else replace(item, nested=tuple(lists)))
    return tuple(done)


def size(program: Program) -> tuple[int, int]:
    """Statements and declarations: how much there is to read."""

    def count(stmts: Sequence[Stmt]) -> int:
        return sum(1 + sum(count(b) for b in bodies(s)) for s in stmts)

    return sum(count(b.body) for b in program.roles), len(program.decls) + len(program.params)


def is_block(stmt: Stmt | None) -> bool:
    """Whether a statement holds others."""
    return isinstance(stmt, For | If | OneLane)
