"""Learning with questions: clauses that explain the failures so far are told apart by programs that nobody has run yet.

The learner keeps all cheapest clauses. A program that some of them flag and others do not is put to the oracle; so is
one that the favourite flags, in case it passes. A passing program that is flagged becomes a counterexample, and the
learner starts again. When nothing in the pool separates the clauses that are left, they say the same of every program
at hand, and the first of them in a fixed order stands; when the questions run out first, the learner refuses and names
the tie.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from distill.join import Example, covers, fires, solutions
from distill.learn import Candidate, search
from distill.saturate import saturate, vocabulary_words

#: Questions to the oracle for one clause, and heads that are tried.
MAX_ASKED: Final = 48
MAX_HEADS: Final = 6

Ask = Callable[[str], bool | None]


@dataclass(frozen=True, slots=True)
class Question:
    """A program put to the oracle: its name, how many of the surviving clauses flagged it, and whether it passes (None:
    the oracle could not tell)."""

    program: str
    flagged: int
    alive: int
    passes: bool | None


@dataclass(frozen=True, slots=True)
class Lesson:
    """What was learnt. `clause` is None when the learner refuses, for `reason`; `tie` then lists the clauses that it
    could not tell apart. `alive` are all survivors, `considered` the number of demands that the search met."""

    clause: Candidate | None
    alive: tuple[Candidate, ...]
    asked: tuple[Question, ...]
    considered: int
    reason: str = ""

    @property
    def tie(self) -> tuple[str, ...]:
        """The surviving clauses as text, when there is no single one."""
        return tuple(c.text for c in self.alive) if self.clause is None else ()


def learn(
    target: Example,
    heads: Sequence[str],
    positives: Sequence[Example],
    negatives: Sequence[Example],
    pool: Mapping[str, Example],
    ask: Ask,
    budget: int = MAX_ASKED,
    alike: Sequence[Example] = (),
    focus: str = "",
) -> Lesson:
    """The shortest clause that flags `target` at one of `heads` (in order of preference), and each of `positives`, and
    none of `negatives`. `pool` holds unlabelled programs by name; `ask` labels one (True: it passes). Of clauses that
    are equally short, one that explains most of the failures `alike` is taken, and of those one that speaks of the
    barrier `focus`, where the failing run stopped."""

    def best(alive: Sequence[Candidate]) -> Candidate:
        return min(
            alive,
            key=lambda c: (-sum(flagged_members(c, alike)), not _speaks_of(c, target, focus), c.sort_key()),
        )

    passing = list(negatives)
    asked: list[Question] = []
    known: set[str] = set()
    while True:
        alive, demands, reason = _optima(target, heads, positives, passing)
        if not alive:
            return Lesson(None, (), tuple(asked), demands, reason)
        question = _question(alive, pool, known)
        if question is None:
            return Lesson(best(alive), alive, tuple(asked), demands)
        if len(asked) >= budget:
            if _split(alive, pool, known) is None:
                return Lesson(best(alive), alive, tuple(asked), demands)
            return Lesson(None, alive, tuple(asked), demands, f"{len(alive)} clauses are left after {budget} questions")
        name, flagged = question
        known.add(name)
        passes = ask(name)
        asked.append(Question(name, flagged, len(alive), passes))
        if passes:
            passing.append(pool[name])


def _optima(
    target: Example, heads: Sequence[str], positives: Sequence[Example], negatives: Sequence[Example]
) -> tuple[tuple[Candidate, ...], int, str]:
    """The cheapest clauses over all heads, the demands met, and why there is none."""
    words = vocabulary_words((target, *positives, *negatives))
    found: list[Candidate] = []
    demands, reason = 0, "the failing program has no op that a rule could flag"
    for head in heads[:MAX_HEADS]:
        result = search(saturate(target, head, words), (target, *positives), negatives)
        demands += result.demands
        found += result.optima
        reason = result.reason or reason
    if not found:
        return (), demands, reason
    least = min(c.cost for c in found)
    texts = {c.text: c for c in sorted(found, key=Candidate.sort_key) if c.cost == least}
    return tuple(texts.values()), demands, ""


def _flagging(alive: Sequence[Candidate], example: Example) -> tuple[bool, ...]:
    return tuple(next(fires(c.body, example, c.head), None) is not None for c in alive)


def _split(alive: Sequence[Candidate], pool: Mapping[str, Example], known: set[str]) -> tuple[str, int] | None:
    """The program that splits the surviving clauses most evenly, and how many of them flag it."""
    best: tuple[int, str, int] | None = None
    for name in sorted(pool):
        if name in known:
            continue
        flagged = sum(_flagging(alive, pool[name]))
        balance = abs(2 * flagged - len(alive))
        if 0 < flagged < len(alive) and (best is None or (balance, name) < best[:2]):
            best = (balance, name, flagged)
    return best[1:] if best else None


def _question(alive: Sequence[Candidate], pool: Mapping[str, Example], known: set[str]) -> tuple[str, int] | None:
    """A program that splits the survivors; else one that they all flag and nobody has tried."""
    split = _split(alive, pool, known)
    if split is not None:
        return split
    for name in sorted(pool):
        if name not in known and all(_flagging(alive, pool[name])):
            return name, len(alive)
    return None


def _speaks_of(clause: Candidate, target: Example, focus: str) -> bool:
    """Whether the clause, where it flags the target, names `focus`."""
    return bool(focus) and any(focus in found.values() for found in solutions(clause.body, target, {}, False))


def flagged_members(clause: Candidate, members: Sequence[Example]) -> tuple[bool, ...]:
    """Which failing programs the clause flags at an op that their repair touches."""
    return tuple(covers(clause.body, m, clause.head) for m in members)
