"""The same fault in a smaller configuration of its kernel: what a reader would try first, and what costs least to run.

A mutant is one edit of one configuration. The same edit, at the corresponding place, is made in the smallest
configuration that is right and clean; when that fails alike, the study starts from there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from cake.core.corpus import CorpusKernel
from cake.core.edits import Edit, edits
from cake.core.errors import CakeError
from cake.core.ir import IRError, OneLane, OpStmt, Program, Stmt, bodies, walk
from distill.lab import Lab
from distill.oracle import Problem
from distill.pair import likeness

#: The least value that constants are brought down to. Two, not one: a ring of one slot and a loop of one round hide
#: what goes wrong between neighbours.
FLOOR: Final = 2


def smallest(kernel: CorpusKernel, problem: Problem, lab: Lab, floor: int = FLOOR) -> Program | None:
    """The configuration with the least constants, each at least `floor` and one after the other, that is right, clean,
    and uses every primitive that the kernel uses. None when no constant can shrink."""
    config: dict[str, Any] = dict(kernel.constants(next(iter(kernel.configs))))
    used = _primitives(kernel.program(next(iter(kernel.configs))))
    best = None
    for name in sorted(config):
        value = config[name]
        if not isinstance(value, int) or isinstance(value, bool):
            continue
        for smaller in sorted({floor, *(value >> s for s in range(1, 5) if value >> s >= floor)}):
            if smaller >= value:
                break
            try:
                program = kernel.kernel.configure(**{**config, name: smaller})
            except (IRError, CakeError, ValueError, ArithmeticError):
                continue
            if _primitives(program) == used and lab.clean(program) and lab.right(program, problem) is not None:
                config[name], best = smaller, program
                break
    return best


def _primitives(program: Program) -> frozenset[str]:
    return frozenset(x.stmt.op.opname for x in walk(program) if isinstance(x.stmt, OpStmt))


def scaled(small: Sequence[Program], bad: Program, good: Program) -> Iterator[tuple[Program, Program]]:
    """(failing, good) pairs in the configurations `small`; none when `bad` is not one edit of `good`."""
    found = _edit_between(good, bad) if small else None
    for program in small:
        same = _corresponding(found, good, program) if found is not None else None
        if same is not None and program != good:
            yield same.program, program


@dataclass(frozen=True, slots=True)
class _Found:
    """An edit and its rank among those of its kind and operand at its path."""

    edit: Edit
    rank: int


def _key(edit: Edit) -> tuple[str, str]:
    return edit.kind, edit.detail.partition(":")[0]


def _edit_between(good: Program, bad: Program) -> _Found | None:
    ranks: dict[tuple[str, tuple[str, str]], int] = {}
    for edit in edits(good):
        place = (edit.path, _key(edit))
        if edit.program == bad:
            return _Found(edit, ranks.get(place, 0))
        ranks[place] = ranks.get(place, 0) + 1
    return None


def _corresponding(found: _Found, good: Program, small: Program) -> Edit | None:
    """The like edit of another configuration, at the corresponding place."""
    path = correspondence(good, small).get(found.edit.path, found.edit.path)
    same = [e for e in edits(small) if e.path == path and _key(e) == _key(found.edit)]
    return same[min(found.rank, len(same) - 1)] if same else None


def correspondence(one: Program, two: Program) -> dict[str, str]:
    """Paths of statements of `one` with the paths of their counterparts in `two`, where they have one."""
    found: dict[str, str] = {}
    for a in one.roles:
        for b in two.roles:
            if a.role.name == b.role.name:
                _match(f"{a.role.name}:", f"{a.role.name}:", a.body, 0, b.body, 0, found)
    return found


def _match(
    left: str, right: str, one: Sequence[Stmt], at: int, two: Sequence[Stmt], to: int, found: dict[str, str]
) -> None:
    """Pair statements of one shape in order. Of what is unrolled more often in the first list, the last counterpart
    stands for the rest."""
    j, last = 0, -1
    for i, stmt in enumerate(one):
        k = next((k for k in range(j, len(two)) if _shape(two[k]) == _shape(stmt)), -1)
        if k >= 0:
            j, last = k + 1, k
        else:
            k = next((k for k in range(last, -1, -1) if _shape(two[k]) == _shape(stmt)), -1)
        if k < 0:
            continue
        a, b = f"{left}{at + i}", f"{right}{to + k}"
        found[a] = b
        offset_a = offset_b = 0
        for inner_a, inner_b in zip(bodies(stmt), bodies(two[k]), strict=True):
            _match(f"{a}.", f"{b}.", inner_a, offset_a, inner_b, offset_b, found)
            offset_a, offset_b = offset_a + len(inner_a), offset_b + len(inner_b)


def _shape(stmt: Stmt) -> tuple[object, ...]:
    """What makes statements of two configurations counterparts: their likeness, and that of what `one_lane` holds."""
    inside = tuple(_shape(s) for body in bodies(stmt) for s in body) if isinstance(stmt, OneLane) else ()
    return (*likeness(stmt), *inside)
