"""Which of two rules says more: theta-subsumption of clauses (Plotkin 1970).

A clause subsumes another if some substitution makes its body a part of the other's: wherever the other fires, it fires.
Of two findings about the same ops, a person then wants the other one alone, which says more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import count
from typing import Final, TypeAlias

from cake.core.clauses_parse import parse_clauses
from cake.core.clauses_tree import (
    FINDING,
    MIRRORED,
    Aggregate,
    Atom,
    Compare,
    Literal,
    Not,
    Term,
    Variable,
    Wildcard,
)

_Theta: TypeAlias = Mapping[str, Term]
#: Pairs of literals that are looked at for one answer: a pack's clauses must not keep a check from ending.
STEPS: Final = 10_000


@lru_cache(maxsize=4096)
def subsumes(general: str, specific: str) -> bool:
    """Whether each finding of the rule text `specific` is one of `general` by its form alone, and not the other way
    round. Rules with helpers or aggregates on the general side are never found to be, nor what takes too long to tell.
    Raises ClauseError."""
    return _covers(general, specific) and not _covers(specific, general)


def _covers(general: str, specific: str) -> bool:
    one, two = parse_clauses(general).clauses, parse_clauses(specific).clauses
    if any(c.head.relation != FINDING or any(isinstance(b, Aggregate) for b in c.body) for c in one):
        return False
    steps = count()
    return all(any(_maps(g.body, s.body, {}, steps) for g in one) for s in two if s.head.relation == FINDING)


def _maps(rest: Sequence[Literal], body: Sequence[Literal], theta: _Theta, steps: Iterator[int]) -> bool:
    """Whether all literals of `rest` can be found in `body`, under one substitution that extends `theta`; no when that
    takes too long."""
    if not rest:
        return True
    for literal in body:
        if next(steps) > STEPS:
            return False
        extended = _match(rest[0], literal, theta)
        if extended is not None and _maps(rest[1:], body, extended, steps):
            return True
    return False


def _match(general: Literal, specific: Literal, theta: _Theta) -> _Theta | None:
    match general, specific:
        case Atom(), Atom() if general.relation == specific.relation:
            return _terms(general.terms, specific.terms, theta, True)
        case Not(atom=a), Not(atom=b) if a.relation == b.relation:
            # That there is no tuple at all says more than that there is no such tuple.
            return _terms(a.terms, b.terms, theta, False)
        case Compare(), Compare():
            for op, left, right in (
                (specific.op, specific.left, specific.right),
                (MIRRORED[specific.op], specific.right, specific.left),
            ):
                if op == general.op:
                    found = _terms((general.left, general.right), (left, right), theta, False)
                    if found is not None:
                        return found
    return None


def _terms(general: Sequence[Term], specific: Sequence[Term], theta: _Theta, any_will_do: bool) -> _Theta | None:
    found = dict(theta)
    for g, s in zip(general, specific, strict=True):
        match g:
            case Wildcard():
                if not any_will_do and not isinstance(s, Wildcard):
                    return None
            case Variable(name=name):
                if isinstance(s, Wildcard) or found.setdefault(name, s) != s:
                    return None
            case _:
                if g != s:
                    return None
    return found
