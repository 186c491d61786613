"""Programs that do the same in another way: what a good program may also look like.

One edit away from a repair there are mostly faults. A rule that took an accident of one kernel for the cause is refuted
by a program that is as good and lacks the accident: bytes announced in two parts, arrivals by every thread instead of
one lane, an arrival left over at the end. All are found by events, so that they need no instruction by name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from cake.core.events import Arrive, Expect, Wait
from cake.core.ir import Barrier, BarrierRef, Const, IRError, OneLane, OpStmt, Program, Stmt, walk
from cake.core.tree import parse_path, rebuild, redeclare, splice, with_role_body

Build = Callable[[], Program]


def alternatives(program: Program) -> Iterator[tuple[str, Program]]:
    """Other ways to write a good program, each with how it was made, in a fixed order."""
    for how, build in (
        *_split_announcements(program),
        *_by_every_thread(program),
        *_handshakes(program),
        *_left_over(program),
    ):
        try:
            yield how, build()
        except IRError:
            continue


def _ops(program: Program) -> Iterator[tuple[str, OpStmt, bool]]:
    """Primitives with their path, and whether a `one_lane` block holds nothing else."""
    for found in walk(program):
        if isinstance(found.stmt, OpStmt):
            parent = found.parents[-1] if found.parents else None
            yield found.path, found.stmt, isinstance(parent, OneLane) and len(parent.body) == 1


def _split_announcements(program: Program) -> Iterator[tuple[str, Build]]:
    """Bytes announced by two ops, each of which arrives."""
    for path, stmt, _ in _ops(program):
        events = stmt.op.events()
        expects = [e for e in events if isinstance(e, Expect)]
        if len(expects) == 1 and expects[0].bytes >= 32 and any(isinstance(e, Arrive) for e in events):
            first = expects[0].bytes // 32 * 16
            yield f"{path}: announced in two parts", _split(program, path, stmt, expects[0], first)


def _split(program: Program, path: str, stmt: OpStmt, event: Expect, first: int) -> Build:
    barrier = event.barrier.barrier

    def build() -> Program:
        parts: tuple[Stmt, ...] = tuple(
            replace(stmt, op=_with_number(stmt.op, event.bytes, n)) for n in (first, event.bytes - first)
        )
        new = splice(program, path, lambda old, i: (*old[:i], *parts, *old[i + 1 :]))
        return redeclare(new, barrier, replace(barrier, arrivals=barrier.arrivals + 1))

    return build


def _with_number(op: Any, old: int, new: int) -> Any:
    names = [name for name in op.kinds if getattr(op, name) == old and type(getattr(op, name)) is int]
    if not names:
        raise IRError(f"{op.opname} takes no such number")
    return replace(op, **{names[0]: new})


def _arrivals(program: Program) -> dict[str, list[tuple[str, OpStmt, bool]]]:
    """The ops that do nothing but arrive on an mbarrier, by barrier."""
    found: dict[str, list[tuple[str, OpStmt, bool]]] = {}
    for path, stmt, alone in _ops(program):
        events = stmt.op.events()
        if len(events) == 1 and isinstance(events[0], Arrive):
            found.setdefault(events[0].barrier.barrier.name, []).append((path, stmt, alone))
    return found


def _barrier(program: Program, name: str) -> Barrier:
    return next(b for b in program.of(Barrier) if b.name == name)


def _by_every_thread(program: Program) -> Iterator[tuple[str, Build]]:
    """Every thread arrives where one lane did, and the barrier counts them."""
    for name, sites in _arrivals(program).items():
        roles = {parse_path(path)[0] for path, _, _ in sites}
        if all(alone for _, _, alone in sites) and len(roles) == 1:
            yield f"{name}: every thread arrives", _all_arrive(program, name, sites, roles.pop())


def _all_arrive(program: Program, name: str, sites: list[tuple[str, OpStmt, bool]], role: str) -> Build:
    def build() -> Program:
        new = program
        for path, stmt, _ in reversed(sites):
            block = path.rpartition(".")[0]
            new = splice(new, block, _put(stmt))
        barrier = _barrier(new, name)
        threads = next(b.role.threads for b in new.roles if b.role.name == role)
        return redeclare(new, barrier, replace(barrier, arrivals=barrier.arrivals * threads))

    return build


def _put(stmt: Stmt) -> Callable[[tuple[Stmt, ...], int], tuple[Stmt, ...]]:
    return lambda old, i: (*old[:i], stmt, *old[i + 1 :])


def _left_over(program: Program) -> Iterator[tuple[str, Build]]:
    """One more arrival when everything is done, which nobody waits for."""
    for name, sites in _arrivals(program).items():
        path, stmt, _ = sites[-1]
        yield f"{name}: an arrival left over", _one_more(program, parse_path(path)[0], stmt)


def _one_more(program: Program, role: str, stmt: OpStmt) -> Build:
    def first_slot(node: object) -> object | None:
        return replace(node, slot=Const(0)) if isinstance(node, BarrierRef) and node.slot is not None else None

    def build() -> Program:
        body = next(b.body for b in program.roles if b.role.name == role)
        one = OneLane((replace(stmt, op=rebuild(stmt.op, first_slot)),), stmt.span)
        return with_role_body(program, role, (*body, one))

    return build


def _handshakes(program: Program) -> Iterator[tuple[str, Build]]:
    """Before anything else, one role waits once for another: a barrier that has a single phase."""
    waits = [(path, stmt, lane) for path, stmt, lane in _waits(program)]
    for name, sites in _arrivals(program).items():
        path, arrive, _ = sites[0]
        giver = parse_path(path)[0]
        for where, wait, lane in waits:
            taker = parse_path(where)[0]
            if taker != giver:
                yield f"{taker} waits once for {giver}", _handshake(program, name, (giver, arrive), (taker, wait), lane)
                break


def _waits(program: Program) -> Iterator[tuple[str, OpStmt, bool]]:
    """The ops that do nothing but wait for an mbarrier's phase, and whether one lane executes them."""
    for found in walk(program):
        if isinstance(found.stmt, OpStmt):
            events = found.stmt.op.events()
            if len(events) == 1 and isinstance(events[0], Wait):
                yield found.path, found.stmt, any(isinstance(p, OneLane) for p in found.parents)


def _handshake(program: Program, name: str, giver: tuple[str, OpStmt], taker: tuple[str, OpStmt], lane: bool) -> Build:
    def build() -> Program:
        arrivals = next(b.role.instances for b in program.roles if b.role.name == giver[0])
        new = Barrier("ready", "mbarrier", 1, arrivals, -(-program.smem_bytes // 8) * 8)
        at = next(i for i, d in enumerate(program.decls) if d.name == name)
        made = replace(program, decls=(*program.decls[:at], new, *program.decls[at:]))
        arrive = OneLane((_on(giver[1], new),), giver[1].span)
        wait = _on(taker[1], new)
        for role, first in ((giver[0], arrive), (taker[0], OneLane((wait,), wait.span) if lane else wait)):
            body = next(b.body for b in made.roles if b.role.name == role)
            made = with_role_body(made, role, (first, *body))
        return made

    return build


def _on(stmt: OpStmt, barrier: Barrier) -> OpStmt:
    """The same primitive on the only slot of another barrier, for its first phase."""
    parities = [e.parity for e in stmt.op.events() if isinstance(e, Wait)]

    def change(node: object) -> object | None:
        if isinstance(node, BarrierRef):
            return BarrierRef(barrier, None)
        return Const(0) if node in parities else None

    return replace(stmt, op=rebuild(stmt.op, change))
