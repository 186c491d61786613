"""One-edit neighbours of a program: what a slip, a misreading or a repair would change.

The mutation campaign draws its broken programs from here and the distiller its near misses. `edits` is pure and its
order is fixed: declarations, launch, then statements in canonical order. A neighbour that cannot be built (IRError) is
left out and counted. Edits of edits are neighbours two apart: `edits(edit.program)`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from cake.core.events import Fence, RegisterFence, Wait
from cake.core.ir import (
    I32,
    Assign,
    Barrier,
    Binary,
    Break,
    Const,
    Decl,
    Declare,
    Expr,
    For,
    If,
    IRError,
    OneLane,
    OpStmt,
    Program,
    Role,
    Scalar,
    Smem,
    Stmt,
    TensorMap,
    Var,
    bodies,
)
from cake.core.op import Op
from cake.core.tree import expression_names, nodes, redeclare, splice, with_bodies, with_role_body
from cake.core.variants import changed, index_variants, near, op_changes, variants

#: Every kind of edit, in the order of the issue's list: statements first, then what one of their numbers says.
KINDS: Final = (
    "drop",
    "duplicate",
    "move",
    "retarget",
    "count",
    "phase",
    "bytes",
    "offset",
    "swizzle",
    "box",
    "role",
    "fence",
    "depth",
    "index",
    "bound",
    "predicate",
    "registers",
    "mode",
)


@dataclass(frozen=True, slots=True)
class Edit:
    """One edit. `path` is the op path it touches, or the name of the declaration (`launch` for the launch)."""

    kind: str
    path: str
    detail: str
    program: Program


Candidate = tuple[str, str, str, Callable[[], Program]]


def edits(program: Program, refused: Counter[str] | None = None) -> Iterator[Edit]:
    """All one-edit neighbours of `program`. `refused` counts, by kind, those that could not be built."""
    for kind, path, detail, build in _candidates(program):
        try:
            neighbour = build()
        except IRError:
            if refused is not None:
                refused[kind] += 1
            continue
        yield Edit(kind, path, detail, neighbour)


def _candidates(program: Program) -> Iterator[Candidate]:
    yield from _declarations(program)
    yield from _launch(program)
    outer = tuple(Var(s.name, s.dtype) for s in program.of(Scalar))
    for body in program.roles:
        role = _RoleEdits(program, body.role)
        yield from role.block(f"{body.role.name}:", body.body, 0, outer)


# --------------------------------------------------------------------------------------------------------- declarations


def _declarations(program: Program) -> Iterator[Candidate]:
    for decl in program.decls:
        for kind, field, new in _changes(decl, program):
            detail = f"{field}: {changed(getattr(decl, field), new)}"
            yield kind, decl.name, detail, _redeclared(program, decl, field, new)


def _redeclared(program: Program, decl: Decl, field: str, new: Any) -> Callable[[], Program]:
    return lambda: redeclare(program, decl, replace(decl, **{field: new}))


FieldChange = tuple[str, str, Any]


def _changes(decl: Decl, program: Program) -> Iterator[FieldChange]:
    match decl:
        case Smem():
            return _smem(decl, program)
        case TensorMap():
            return _tensor_map(decl)
        case Barrier():
            return _barrier(decl, program)
        case Role():
            return _role(decl)


def _smem(decl: Smem, program: Program) -> Iterator[FieldChange]:
    overlaps = [decl.at - r.stage_bytes for r in program.of(Smem) if r.end == decl.at]
    for at in dict.fromkeys((*overlaps, decl.at + 16, decl.at + 128, decl.at - 128, decl.at + 1024)):
        if at >= 0:
            yield "offset", "at", at
    for span in (0, 32, 64, 128):
        if span != decl.swizzle:
            yield "swizzle", "swizzle", span
    if decl.stages > 1:
        for stages in near(decl.stages):
            yield "count", "stages", stages


def _tensor_map(decl: TensorMap) -> Iterator[FieldChange]:
    for i, extent in enumerate(decl.box):
        for other in (extent // 2, 2 * extent):
            if other:
                yield "box", "box", (*decl.box[:i], other, *decl.box[i + 1 :])
    if len(set(decl.box)) > 1:
        yield "box", "box", decl.box[::-1]
    for span in (0, 32, 64, 128):
        if span != decl.swizzle:
            yield "swizzle", "swizzle", span


def _barrier(decl: Barrier, program: Program) -> Iterator[FieldChange]:
    for arrivals in near(decl.arrivals, 32 if decl.kind == "named" else 1):
        yield "count", "arrivals", arrivals
    if decl.kind == "mbarrier":
        for arrivals in sorted({r.threads for r in program.of(Role)} - {decl.arrivals}):
            yield "count", "arrivals", arrivals
    if decl.slots > 1:
        for slots in near(decl.slots):
            yield "count", "slots", slots
    steps = (8, -8, 4, -1024) if decl.kind == "mbarrier" else (1, -1, 16)
    for step in steps:
        if decl.at + step >= 0:
            yield "offset", "at", decl.at + step


def _role(decl: Role) -> Iterator[FieldChange]:
    for instances in near(decl.instances):
        yield "count", "instances", instances
    for warps in near(decl.warps):
        yield "count", "warps", warps


def _launch(program: Program) -> Iterator[Candidate]:
    launch = program.launch

    def launched(**change: Any) -> Callable[[], Program]:
        return lambda: replace(program, launch=replace(launch, **change))

    for ctas in index_variants(launch.ctas, ()):
        yield "bound", "launch", f"ctas: {changed(launch.ctas, ctas)}", launched(ctas=ctas)
    for count in near(launch.ctas_per_sm):
        if count >= 1:
            yield "bound", "launch", f"ctas_per_sm: {changed(launch.ctas_per_sm, count)}", launched(ctas_per_sm=count)


# ----------------------------------------------------------------------------------------------------------- statements


def _is_fence(stmt: Stmt) -> bool:
    return isinstance(stmt, OpStmt) and any(isinstance(e, Fence | RegisterFence) for e in stmt.op.events())


def _bound(stmt: Stmt) -> tuple[Var, ...]:
    match stmt:
        case Assign(target=var) | Declare(target=var):
            return (var,)
        case OpStmt(out=Var() as var):
            return (var,)
    return ()


@dataclass(frozen=True, slots=True)
class _Uses:
    """Names of one role's variables by what they reach: parities of waits, and places (slots, stages, coordinates)."""

    parity: frozenset[str]
    index: frozenset[str]


def _uses(body: tuple[Stmt, ...]) -> _Uses:
    parity: set[str] = set()
    index: set[str] = set()
    for node in nodes(body):
        if isinstance(node, OpStmt):
            waits = [e.parity for e in node.op.events() if isinstance(e, Wait)]
            names = {v.name for v in expression_names(node.op) if v.type == I32}
            waited = {v.name for p in waits for v in expression_names(p)}
            parity |= waited
            index |= names - waited
    return _Uses(frozenset(parity), frozenset(index))


class _RoleEdits:
    """Edits of one role's statements. `names` are the variables in scope, in order of binding."""

    def __init__(self, program: Program, role: Role) -> None:
        self.program = program
        self.role = role
        self.body = next(b.body for b in program.roles if b.role == role)
        self.uses = _uses(self.body)

    def block(self, prefix: str, stmts: tuple[Stmt, ...], base: int, names: tuple[Var, ...]) -> Iterator[Candidate]:
        """Edits of a statement list whose first statement has the path `prefix` + `base`."""
        for i, stmt in enumerate(stmts):
            path = f"{prefix}{base + i}"
            yield from self._whole(path, stmts, i)
            yield from self._moves(path, stmts, i)
            yield from self._contents(path, stmt, names)
            inner = (*names, stmt.var) if isinstance(stmt, For) else names
            offset = 0
            for nested in bodies(stmt):
                yield from self.block(path + ".", nested, offset, inner)
                offset += len(nested)
            names += tuple(v for v in _bound(stmt) if v not in names)

    def _splice(self, path: str, edit: Callable[[tuple[Stmt, ...], int], tuple[Stmt, ...]]) -> Callable[[], Program]:
        return lambda: splice(self.program, path, edit)

    def _put(self, path: str, *new: Stmt) -> Callable[[], Program]:
        return self._splice(path, lambda s, i: (*s[:i], *new, *s[i + 1 :]))

    def _whole(self, path: str, stmts: tuple[Stmt, ...], i: int) -> Iterator[Candidate]:
        """Drop, duplicate, hand to one lane or to all, hand to another role."""
        stmt = stmts[i]
        yield "fence" if _is_fence(stmt) else "drop", path, "dropped", self._put(path)
        leaf = not bodies(stmt)
        if not isinstance(stmt, Declare | Break | For | If):
            yield "duplicate", path, "done twice", self._put(path, stmt, stmt)
        if isinstance(stmt, OneLane):
            yield "role", path, "done by every thread", self._put(path, *stmt.body)
        elif isinstance(stmt, OpStmt) and stmt.out is None:
            yield "role", path, "done by one lane", self._put(path, OneLane((stmt,), stmt.span))
        if (leaf and isinstance(stmt, OpStmt)) or isinstance(stmt, OneLane):
            for other in self.program.of(Role):
                if other != self.role:
                    yield "role", path, f"done by {other.name}", self._handed(path, stmt, other)

    def _handed(self, path: str, stmt: Stmt, other: Role) -> Callable[[], Program]:
        """The statement leaves this role and ends a block of `other` that is as deep in loops as it was here."""
        depth = self._loop_depth(path)

        def build() -> Program:
            without = self._put(path)()
            body = next(b.body for b in without.roles if b.role == other)
            return with_role_body(without, other.name, _append(body, stmt, depth))

        return build

    def _loop_depth(self, path: str) -> int:
        steps = [int(s) for s in path.partition(":")[2].split(".")]
        stmts, depth = self.body, 0
        for step in steps[:-1]:
            stmt = stmts[step]
            depth += isinstance(stmt, For)
            stmts = tuple(s for nested in bodies(stmt) for s in nested)
        return depth

    def _moves(self, path: str, stmts: tuple[Stmt, ...], i: int) -> Iterator[Candidate]:
        """Swap with the next statement; move into it, or it into this one; move out of this one's block."""
        stmt = stmts[i]
        if i + 1 < len(stmts) and stmts[i + 1] != stmt:
            after = stmts[i + 1]
            swapped = self._splice(path, lambda s, j: (*s[:j], s[j + 1], s[j], *s[j + 2 :]))
            yield "move", path, "after the next statement", swapped
            for n, body in enumerate(bodies(after)):
                if body or n == 0:
                    yield "move", path, "into the start of the next statement", self._into(path, after, n, stmt, False)
            for n, body in enumerate(bodies(stmt)):
                if body or n == 0:
                    yield "move", path, "takes in the next statement", self._into(path, stmt, n, after, True)
        for n, body in enumerate(bodies(stmt)):
            if len(body) > 1 or (body and not isinstance(stmt, OneLane)):
                first = with_bodies(stmt, _set(bodies(stmt), n, body[1:]))
                last = with_bodies(stmt, _set(bodies(stmt), n, body[:-1]))
                yield "move", path, "its first statement goes before it", self._put(path, body[0], first)
                yield "move", path, "its last statement goes after it", self._put(path, last, body[-1])

    def _into(self, path: str, block: Stmt, n: int, stmt: Stmt, at_end: bool) -> Callable[[], Program]:
        """`block` and its neighbour `stmt` become one: `stmt` ends (or starts) nested list number `n` of `block`."""
        body = bodies(block)[n]
        merged = with_bodies(block, _set(bodies(block), n, (*body, stmt) if at_end else (stmt, *body)))
        return self._splice(path, lambda s, i: (*s[:i], merged, *s[i + 2 :]))

    def _contents(self, path: str, stmt: Stmt, names: tuple[Var, ...]) -> Iterator[Candidate]:
        """Changes of what the statement says."""
        match stmt:
            case OpStmt(op=op):
                for kind, detail, build in op_changes(op, self.program, names):
                    yield kind, path, detail, self._rebuilt(path, stmt, build)
            case Assign(target=target, value=value) if target.type == I32:
                kind = "phase" if target.name in self.uses.parity else "index"
                for new in _assigned(value, kind == "phase"):
                    yield (
                        kind,
                        path,
                        f"{target.name} = {changed(value, new)}",
                        self._put(path, replace(stmt, value=new)),
                    )
            case For():
                yield from self._loop(path, stmt)
            case If(condition=condition):
                for new in variants(condition, ()):
                    detail = f"if {changed(condition, new)}"
                    yield "predicate", path, detail, self._put(path, replace(stmt, condition=new))

    def _rebuilt(self, path: str, stmt: OpStmt, build: Callable[[], Op]) -> Callable[[], Program]:
        return lambda: self._put(path, replace(stmt, op=build()))()

    def _loop(self, path: str, stmt: For) -> Iterator[Candidate]:
        bounds: tuple[tuple[str, Expr], ...] = (("start", stmt.start), ("stop", stmt.stop), ("step", stmt.step))
        for field, old in bounds:
            for new in _loop_bounds(field, old):
                bound: dict[str, Any] = {field: new}
                yield "bound", path, f"{field}: {changed(old, new)}", self._put(path, replace(stmt, **bound))


def _set(lists: tuple[tuple[Stmt, ...], ...], n: int, body: tuple[Stmt, ...]) -> tuple[tuple[Stmt, ...], ...]:
    return (*lists[:n], body, *lists[n + 1 :])


def _append(body: tuple[Stmt, ...], stmt: Stmt, depth: int) -> tuple[Stmt, ...]:
    """`body` with `stmt` at the end of its first block `depth` loops deep; `one_lane` blocks and branches are passed
    through. Raises IRError when there is no such block."""
    if depth == 0:
        return (*body, stmt)
    for i, outer in enumerate(body):
        for n, nested in enumerate(bodies(outer)):
            try:
                inner = _append(nested, stmt, depth - isinstance(outer, For))
            except IRError:
                continue
            return (*body[:i], with_bodies(outer, _set(bodies(outer), n, inner)), *body[i + 1 :])
    raise IRError(f"no block {depth} loops deep")


def _assigned(value: Expr, parity: bool) -> Sequence[Expr]:
    if isinstance(value, Const):
        return (Const(1 - int(value.value)),) if parity and value.value in (0, 1) else (Const(int(value.value) + 1),)
    return tuple(variants(value, ()))


def _loop_bounds(field: str, old: Expr) -> Iterator[Expr]:
    if isinstance(old, Const):
        for n in near(int(old.value)):
            if n or field != "step":
                yield Const(n)
        return
    one = Const(1)
    if field != "step":
        yield Binary("+", old, one)
        yield Binary("-", old, one)
    yield from variants(old, ())
