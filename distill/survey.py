"""Stage three: which failures a shipped rule explains already, and what the others have in common in their facts.

Failures that look alike from outside may have many causes. What changed in the facts between the good program and the
failing one tells them apart further; it is observed, like a symptom, and says nothing of how the mutant was made.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from cake.core.ir import IRError
from cake.core.vocabulary import RELATIONS
from distill.ingest import Failure
from distill.join import Example
from distill.lab import Lab
from distill.pair import pair
from distill.repair import touched

#: Relations that restate the text of a program. A change in them says where an edit was, not what it did.
TEXTUAL: Final = frozenset(
    ("op", "next", "back", "const", "flag", "index", "loop", "view", "view_extent", "conditional", "role", "uses_map")
)


#: Relations that say in which order and how often things happen: where they change, there is something to learn.
DYNAMIC: Final = frozenset(
    (
        *("phase", "phase_role", "net", "lead", "paced", "lasting", "first_parity", "same_slot", "completes_slot"),
        *("retired", "covers", "outstanding", "ordered", "visible", "register_fenced"),
        *("commits", "expects", "arrives", "conflict", "same_trip"),
    )
)


@dataclass(frozen=True, slots=True)
class Case:
    """One failure as surveyed. `codes` are shipped rules that flag it at an op that the repair touches and are silent
    on its parent; `elsewhere` those that flag it at other ops; `heads` where a rule may flag it; `delta` what changed
    in the facts. `trouble` says why it cannot be learnt from, if so."""

    failure: Failure
    codes: tuple[str, ...] = ()
    elsewhere: tuple[str, ...] = ()
    heads: tuple[str, ...] = ()
    delta: tuple[str, ...] = ()
    trouble: str = ""


@dataclass(frozen=True, slots=True)
class Group:
    """Failures of one cluster that no shipped rule explains, and that changed the facts alike."""

    key: str
    cluster: str
    signature: tuple[str, ...]
    cases: tuple[Case, ...] = field(default=())

    @property
    def gpu(self) -> int:
        """How many members failed on a GPU."""
        return sum(c.failure.gpu for c in self.cases)


def examine(failure: Failure, parent_text: str | None, lab: Lab) -> Case:
    """Survey one failure beside its parent."""
    if parent_text is None:
        return Case(failure, trouble="the program that it was made from is not known")
    try:
        bad, good = lab.read(failure.text), lab.read(parent_text)
        found = touched(pair(bad, good))
    except (IRError, ValueError) as error:
        return Case(failure, trouble=str(error))
    flags, before = lab.flags(bad), lab.flags(good)
    codes = sorted(c for c, at in flags.items() if at and not before.get(c))
    right = tuple(c for c in codes if flags[c] & found.all or not flags[c] & _ops(lab.example(bad)))
    elsewhere = tuple(c for c in codes if c not in right)
    heads = (*found.direct, *found.near)
    trouble = "" if lab.example(bad) is not None else "exploration cannot take it in"
    return Case(failure, right, elsewhere, heads, delta(lab.example(bad), lab.example(good)), trouble)


def _ops(example: Example | None) -> frozenset[str]:
    return frozenset(str(t[0]) for t in example.tuples("op")) if example is not None else frozenset()


def delta(bad: Example | None, good: Example | None) -> tuple[str, ...]:
    """What changed in the facts: `+` or `-`, relation and words, with places and numbers left out. What merely restates
    the text counts only where nothing else changed."""
    if bad is None or good is None:
        return ()
    return _changed(bad, good, RELATIONS.keys() - TEXTUAL) or _changed(bad, good, TEXTUAL)


def dynamic(change: str) -> bool:
    """Whether a change in the facts, as `delta` writes it, is one in what executions do."""
    return change[1:].partition(" ")[0] in DYNAMIC


def _changed(bad: Example, good: Example, relations: Collection[str]) -> tuple[str, ...]:
    one, two = _abstract(bad, relations), _abstract(good, relations)
    more = [f"+{name}" for name, n in one.items() if n > two[name]]
    less = [f"-{name}" for name, n in two.items() if n > one[name]]
    return tuple(sorted({*more, *less}))


def _abstract(example: Example, relations: Collection[str]) -> Counter[str]:
    found: Counter[str] = Counter()
    for name in relations:
        relation = RELATIONS[name]
        for t in example.tuples(name):
            words = [str(v) for v, c in zip(t, relation.columns, strict=True) if c.type in ("symbol", "name")]
            found[" ".join((name, *words))] += 1
    return found


def groups(cluster_key: str, signature: tuple[str, ...], cases: Sequence[Case]) -> list[Group]:
    """The unexplained cases of a cluster, by what changed in their facts; the largest group first."""
    by_delta: dict[tuple[str, ...], list[Case]] = {}
    for case in cases:
        if not case.codes and not case.trouble:
            by_delta.setdefault(case.delta, []).append(case)
    return [Group(f"{cluster_key}-{i}", cluster_key, signature, tuple(c)) for i, c in enumerate(_sorted(by_delta))]


def _sorted(by_delta: Mapping[tuple[str, ...], list[Case]]) -> list[list[Case]]:
    rows = sorted(by_delta.items(), key=lambda x: (-sum(c.failure.gpu for c in x[1]), -len(x[1]), x[0]))
    return [cases for _, cases in rows]
