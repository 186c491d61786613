"""The study of one group of failures: reduce, look around, learn. A pure function of its arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from cake.core.ir import IRError, Program
from cake.core.printer import print_program
from cake.core.sim.order import OrderName
from cake.core.vocabulary import RELATIONS
from distill.ingest import LIKE
from distill.join import Example, Value
from distill.lab import Lab
from distill.learn import Candidate
from distill.neighbours import pool
from distill.oracle import ORDERS, Problem, judge, reference
from distill.pair import Pair, pair
from distill.reduce import reduce_pair
from distill.repair import touched
from distill.saturate import irregular
from distill.scale import scaled
from distill.survey import TEXTUAL, Case, Group, dynamic
from distill.teach import Lesson, flagged_members, learn

#: Members of a group that the clause has to flag while it is learnt, and folds of the held-out gate.
MAX_MEMBERS: Final = 6
MAX_FOLDS: Final = 4
#: Extents to try in place of a problem's own, smallest first.
EXTENTS: Final = (1, 8, 16, 40, 64, 72, 136, 200, 264, 328)
#: Why some failures teach nothing.
VALUES_ONLY: Final = "only what is computed differs: numerical validation finds it, no fact does"


@dataclass(frozen=True, slots=True)
class Study:
    """What a study found. `bad` and `good` are the reduced pair as text and `heads` the ops at which `bad` may be
    flagged; `near_misses` are the programs that were asked about: how made, hash, and the answer; `held_out` says which
    members are flagged by a clause learnt without them; `explains` which members the clause flags."""

    group: Group
    studied: Case
    problem: Problem
    bad: str
    good: str
    heads: tuple[str, ...]
    reduction: tuple[str, ...]
    questions: int
    near_misses: tuple[tuple[str, str, str], ...]
    lesson: Lesson
    held_out: tuple[bool, ...]
    explains: tuple[bool, ...]
    passing: tuple[str, ...]
    generated: tuple[str, ...]

    @property
    def clause(self) -> Candidate | None:
        """The clause that was learnt."""
        return self.lesson.clause


@dataclass(frozen=True, slots=True)
class Known:
    """What every study shares: programs that pass and good parents (text by hash), scalars by kernel, and the smallest
    configurations by kernel, as text."""

    passing: Mapping[str, str]
    parents: Mapping[str, str]
    scalars: Mapping[str, Mapping[str, float]]
    small: Mapping[str, tuple[str, ...]]


def study(group: Group, known: Known, lab: Lab) -> Study | str:
    """Study one group; a string says why it teaches nothing."""
    reason = "no member can be reproduced in the simulator"
    for case in group.cases[:3]:
        started = _start(case, known, lab)
        if isinstance(started, str):
            reason = started
            continue
        start, problem, outcome = started
        reduced, less, steps, questions = _reduced(start, problem, outcome, lab)
        return _learnt(group, case, _Setting(start, problem, reduced, less, steps, questions), known, lab)
    return reason


@dataclass(frozen=True, slots=True)
class _Setting:
    """The pair as it came, with its problem, and reduced, with the reduced problem and how it got there."""

    start: Pair
    problem: Problem
    reduced: Pair
    less: Problem
    steps: tuple[str, ...]
    questions: int


def _start(case: Case, known: Known, lab: Lab) -> tuple[Pair, Problem, str] | str:
    """The pair to study, at a small configuration if one shows the failure, its problem, and the outcome to keep."""
    failure = case.failure
    bad, good = lab.read(failure.text), lab.read(known.parents[failure.parent])
    problem = Problem(failure.extents, known.scalars.get(failure.kernel, {}))
    right = lab.right(good, problem)
    if right is None:
        return "the program that it was made from is no reference in the simulator"
    judgement = lab.label(bad, problem, right)
    # A race shows as this or that, by the schedule: a label of the simulator's own may rest on one not tried here. What
    # an access out of bounds finds on a GPU, and so what becomes of it, is luck: the simulator stops at it.
    free = not failure.gpu or judgement.outcome == "illegal_address"
    outcome = failure.outcome if judgement.like(failure.outcome) or not free else judgement.outcome
    if not judgement.like(outcome) or not judgement.fails:
        return f"the simulator says {judgement.outcome}, the log {failure.outcome}"
    if untold := _untold(pair(bad, good), lab):
        computed = LIKE.get(outcome) == "wrong values" and not any(dynamic(change) for change in case.delta)
        return VALUES_ONLY if computed else f"nothing learnt: {untold}"
    silent = not any(lab.flags(bad).values())
    small = [lab.read(text) for text in known.small.get(failure.kernel, ())]
    for less_bad, less_good in scaled(small, bad, good):
        less_right = lab.right(less_good, problem)
        if less_right is None or not lab.label(less_bad, problem, less_right).like(outcome):
            continue
        if silent and any(lab.flags(less_bad).values()):
            continue
        return pair(less_bad, less_good), problem, outcome
    return pair(bad, good), problem, outcome


def _untold(p: Pair, lab: Lab) -> str:
    """Why no clause tells the failing program from its repair; empty when one does. If none does here, none will after
    a reduction."""
    heads = _heads(p, lab)
    target, good = lab.example(p.bad, frozenset(heads)), lab.example(p.good)
    if target is None or good is None:
        return "exploration cannot take it in"
    return learn(target, heads, (), [good], {}, lambda n: None, 0).reason


def _heads(p: Pair, lab: Lab) -> tuple[str, ...]:
    """The ops that the repair touches, those first of which the repair changes what executions did: a changed role or
    loop touches more of them than can be tried."""
    found, bad, good = touched(p), lab.example(p.bad), lab.example(p.good)
    changed: set[Value] = set()
    if bad is not None and good is not None:
        for name in RELATIONS.keys() - TEXTUAL:
            changed.update(v for t in bad.facts.get(name, set()) ^ good.facts.get(name, set()) for v in t)
    return tuple(sorted((*found.direct, *found.near), key=lambda path: path not in changed))


def _reduced(start: Pair, problem: Problem, outcome: str, lab: Lab) -> tuple[Pair, Problem, tuple[str, ...], int]:
    """The reduced pair, with smaller extents where they show the failure as well."""
    strict = lab.clean(start.good)
    whole = lab.example(start.good)
    baseline = irregular(whole) if whole is not None else frozenset()
    silent = not any(lab.flags(start.bad).values())

    telling = (_order(start, problem, lab),)

    def accepts(p: Pair, at: Problem) -> bool:
        # The schedule that showed the failure is asked alone first: most steps end there.
        quick = reference(p.good, at, telling)
        if quick is None or not judge(p.bad, at, quick, telling).like(outcome):
            return False
        if lab.right(p.good, at) != quick:
            return False
        good = lab.usable(p.good) if strict else lab.example(p.good)
        if good is None or (strict and not lab.clean(p.good)) or irregular(good) - baseline:
            return False
        return not (silent and any(lab.flags(p.bad).values()))

    asked = 0
    steps: list[str] = []
    for name in sorted(problem.extents):
        for value in (v for v in EXTENTS if v < problem.extents[name]):
            smaller = replace(problem, extents={**problem.extents, name: value})
            asked += 1
            if accepts(start, smaller):
                problem = smaller
                steps.append(f"{name} = {value}")
                break
    at = problem
    done = reduce_pair(start, lambda p: accepts(p, at))
    return done.pair, at, (*steps, *done.steps), asked + done.questions


def _order(start: Pair, problem: Problem, lab: Lab) -> tuple[OrderName, int]:
    """The first schedule under which the failing program fails."""
    right = lab.right(start.good, problem)
    assert right is not None
    found = lab.label(start.bad, problem, right).order
    return next(order for order in ORDERS if order == found)


def _learnt(group: Group, case: Case, at: _Setting, known: Known, lab: Lab) -> Study | str:
    p, heads = at.reduced, _heads(at.reduced, lab)
    target, good = lab.example(p.bad, frozenset(heads)), lab.example(p.good)
    right = lab.right(at.start.good, at.problem)
    if target is None or good is None or right is None:
        return "the reduced pair has no facts"
    members = _members(group, case, lab)
    negatives = [good, *_passing(known, lab)]
    around, made = pool(at.start, lab)

    def ask(name: str) -> bool | None:
        judgement = lab.label(made[name][1], at.problem, right)
        return True if judgement.passes else False if judgement.fails else None

    lesson = learn(
        target, heads, members[:MAX_MEMBERS], negatives, around, ask, alike=members, focus=case.failure.barrier
    )
    if members:
        # What the members share may be a symptom. A shorter clause for the one alone names a cause; the members that it
        # does not explain are studied by themselves.
        single = learn(target, heads, (), negatives, around, ask, alike=members, focus=case.failure.barrier)
        if single.clause and (lesson.clause is None or single.clause.cost < lesson.clause.cost):
            lesson = single
    asked = tuple((made[q.program][0], q.program, _answer(q.passes)) for q in lesson.asked)
    passing = tuple(print_program(made[q.program][1]) for q in lesson.asked if q.passes)
    explained = tuple(flagged_members(lesson.clause, members)) if lesson.clause else ()
    counter = [around[q.program] for q in lesson.asked if q.passes]
    held = _held_out(lesson, target, heads, members, [*negatives, *counter]) if lesson.clause else ()
    generated = tuple(print_program(made[n][1]) for n in sorted(around))
    return Study(
        group, case, at.less, print_program(p.bad), print_program(p.good), heads, at.steps, at.questions, asked, lesson,
        held, explained, passing, generated,
    )  # fmt: skip


def _answer(passes: bool | None) -> str:
    return {True: "passes", False: "fails", None: "unknown"}[passes]


def _members(group: Group, case: Case, lab: Lab) -> list[Example]:
    """The facts of the group's other members, as failing examples."""
    found = []
    for other in group.cases:
        if other is not case:
            example = lab.example(lab.read(other.failure.text), frozenset(other.heads))
            if example is not None and other.heads:
                found.append(example)
    return found


def _passing(known: Known, lab: Lab) -> list[Example]:
    """The facts of programs that pass, and that nothing shipped objects to."""
    found = []
    for name in sorted(known.passing):
        try:
            program: Program = lab.read(known.passing[name])
        except IRError:
            continue
        example = lab.usable(program)
        if example is not None and lab.clean(program):
            found.append(example)
    return found


def _held_out(
    lesson: Lesson, target: Example, heads: Sequence[str], members: Sequence[Example], negatives: Sequence[Example]
) -> tuple[bool, ...]:
    """For each of some members: does a clause learnt without it flag it? The target takes its turn as well."""
    everyone = [target, *members[: MAX_FOLDS - 1]]
    if len(everyone) < 2:
        return ()
    result = []
    for i, left_out in enumerate(everyone):
        rest = [m for j, m in enumerate(everyone) if j != i]
        first = rest[0]
        order = heads if first is target else sorted(first.heads)
        again = learn(first, order, rest[1:], negatives, {}, lambda name: None, 0)
        result.append(again.clause is not None and flagged_members(again.clause, [left_out])[0])
    return tuple(result)


def as_json(found: Study) -> dict[str, Any]:
    """What a reviewer wants to see of a study."""
    return {
        "group": found.group.key,
        "signature": list(found.group.signature),
        "members": [c.failure.program for c in found.group.cases],
        "problem": found.problem.as_json(),
        "heads": list(found.heads),
        "reduction": list(found.reduction),
        "questions": found.questions,
        "asked": [list(x) for x in found.near_misses],
        "clause": found.clause.text if found.clause else None,
        "alive": [c.text for c in found.lesson.alive],
        "demands": found.lesson.considered,
        "reason": found.lesson.reason,
        "held_out": list(found.held_out),
        "explains": list(found.explains),
    }
