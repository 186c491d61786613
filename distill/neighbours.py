"""Near misses: unlabelled programs one or two edits from a failing program or its repair.

Counterfactuals beat volume: what separates two explanations of a failure is rarely in a log, but often one edit away.
The simulator sees some schedules of one problem, exploration sees all of them. So a program counts only if exploration
closes, no shipped rule flags it, and nothing that holds of the repair is refuted: of others, a pass says little. It is
made from the whole pair, not from the reduced one: what was reduced away may be what would have shown a fault.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice
from typing import Final

from cake.core.edits import Edit, edits
from cake.core.ir import Barrier, OpStmt, Program, Smem, TensorMap, walk
from cake.core.printer import print_program
from cake.core.programs import text_hash
from cake.core.tree import nodes
from distill.alternatives import alternatives
from distill.join import Example
from distill.lab import Lab
from distill.pair import Pair
from distill.repair import touched
from distill.saturate import irregular

#: Programs explored around one pair, and edits that are combined two by two.
MAX_NEIGHBOURS: Final = 96
MAX_COMBINED: Final = 4
#: Kinds of edit that change what is computed rather than when: they pass or fail for reasons that facts do not tell.
_VALUES: Final = ("index", "predicate", "retarget", "bound")


def neighbours(p: Pair) -> Iterator[tuple[str, Program]]:
    """Neighbours of a pair with how each was made: other ways to write the repair; edits of it and of the failing
    program around the ops that the repair touches; two edits of the failing program around one object; other edits."""
    near = _around(p)
    bad, good = ([e for e in edits(side) if e.kind not in _VALUES] for side in (p.bad, p.good))
    close = [[e for e in side if _is_near(e, near)] for side in (bad, good)]
    seen = {print_program(p.bad), print_program(p.good)}
    other = ((f"the repair, {how}", program) for how, program in alternatives(p.good))
    edited = (
        (f"{label}: {e.path}: {e.detail}", e.program)
        for label, e in chain(_turns(close[1], close[0]), _compensations(p.bad, close[0]), _turns(good, bad))
    )
    for how, program in chain(other, edited):
        text = print_program(program)
        if text not in seen:
            seen.add(text)
            yield how, program


def pool(p: Pair, lab: Lab, limit: int = MAX_NEIGHBOURS) -> tuple[dict[str, Example], dict[str, tuple[str, Program]]]:
    """The facts of the usable ones among the first `limit` neighbours, by hash; and how each was made, with it."""
    facts: dict[str, Example] = {}
    made: dict[str, tuple[str, Program]] = {}
    good = lab.example(p.good)
    baseline = irregular(good) if good is not None else frozenset()
    for how, program in islice(neighbours(p), limit):
        example = lab.usable(program)
        if example is None or not lab.clean(program) or irregular(example) - baseline:
            continue
        name = text_hash(print_program(program))
        facts[name], made[name] = example, (how, program)
    return facts, made


def _around(p: Pair) -> frozenset[str]:
    """Paths of the ops that the repair touches, the declarations that they use, and the ops that use those."""
    stmts = {x.path: x.stmt for x in walk(p.bad) if isinstance(x.stmt, OpStmt)}
    found = touched(p)
    paths = {*found.direct, *found.near} if len(found.all) < len(stmts) else set(found.direct)
    things = {n.name for path in paths for n in nodes(stmts[path]) if isinstance(n, Smem | Barrier | TensorMap)}
    things |= {old.name for old, _ in p.declared}
    for path, stmt in stmts.items():
        if any(isinstance(n, Barrier | Smem) and n.name in things for n in nodes(stmt)):
            paths.add(path)
    return frozenset(paths | things)


def _is_near(edit: Edit, near: frozenset[str]) -> bool:
    return edit.path in near or any(path.startswith(f"{edit.path}.") for path in near)


def _turns(good: list[Edit], bad: list[Edit]) -> Iterator[tuple[str, Edit]]:
    """Both lists spread over their kinds of edit, taken in turns, two of the repair for one of the failing program: a
    budget then sees some of everything. Most edits of a failing program still fail."""
    one, two = _spread(good), _spread(bad)
    for i in range(max((len(one) + 1) // 2, len(two))):
        for edit in one[2 * i : 2 * i + 2]:
            yield "of the repair", edit
        if i < len(two):
            yield "of the failing program", two[i]


def _spread(found: list[Edit]) -> list[Edit]:
    by_kind: dict[str, list[Edit]] = {}
    for edit in found:
        by_kind.setdefault(edit.kind, []).append(edit)
    longest = max(map(len, by_kind.values()), default=0)
    return [queue[i] for i in range(longest) for queue in by_kind.values() if i < len(queue)]


def _compensations(bad: Program, close: list[Edit]) -> Iterator[tuple[str, Edit]]:
    """Second edits around the same objects: two changes that may cancel."""
    numbers = [e for e in close if e.kind in ("count", "bytes", "phase", "depth", "offset", "swizzle", "box")]
    names = {e.path for e in close}
    for first in _spread(numbers)[:MAX_COMBINED]:
        second = [
            e
            for e in edits(first.program)
            if e.path in names
            and e.path != first.path
            and e.kind in ("count", "bytes", "phase", "depth", "box", "swizzle")
        ]
        for edit in _spread(second)[:MAX_COMBINED]:
            if edit.program != bad:
                yield f"{first.detail}, and", edit
