"""Theta-subsumption, and findings that a more specific rule makes idle."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cake.core.clauses_subsume import subsumes
from cake.core.reader import read_program
from cake.core.registry import rules
from cake.core.verify import check

UNORDERED = "finding(A, B) :- conflict(A, B, _), not ordered(A, B)."
BAD = Path(__file__).parents[2] / "corpus" / "bad"

PAIRS = [
    (UNORDERED, "finding(B, A) :- conflict(A, B, _), view(A, _, P, _, _), not ordered(A, B).", True),
    (UNORDERED, "w(M) :- waits(M, _). finding(X, Y) :- conflict(Y, X, C), w(X), not ordered(Y, X).", True),
    (UNORDERED, UNORDERED, False),
    (UNORDERED, "finding(A, B) :- conflict(A, B, _), not ordered(B, A).", False),
    (UNORDERED, "finding(A, B) :- conflict(A, B, _), not visible(A, B).", False),
    ("finding(A) :- conflict(A, _, _), not ordered(A, _).", UNORDERED, False),
    ("finding(A) :- touches(A, _, _, _).", 'finding(A) :- touches(A, C, "read", _), waits(A, _).', True),
    ('finding(A) :- touches(A, _, "write", _).', 'finding(A) :- touches(A, C, "read", _), waits(A, _).', False),
    (
        "finding(O, B, N) :- arrives(O, B, N), barrier(B, _, _, M, _, _), N < M.",
        "finding(O, B, N) :- arrives(O, B, N), waits(_, B), barrier(B, _, _, M, _, _), M > N.",
        True,
    ),
    (
        "finding(B, N) :- barrier(B, _, _, N, _, _), #count { O : waits(O, B) } > 1.",
        "finding(B, N) :- barrier(B, _, _, N, _, _), #count { O : waits(O, B) } > 1, id_overlap(B, _).",
        False,
    ),
]


@pytest.mark.parametrize(("general", "specific", "expected"), PAIRS)
def test_a_clause_subsumes_what_fires_wherever_it_does(general: str, specific: str, expected: bool) -> None:
    """By form alone: a rule that says the same, or counts, subsumes nothing."""
    assert subsumes(general, specific) is expected


def test_clauses_that_match_in_too_many_ways_are_given_up() -> None:
    """Two dozen literals over one relation would take longer than anybody waits; the answer is then no."""
    many = ", ".join(f"next(X{i}, Y{i})" for i in range(22))
    assert not subsumes(f"finding(X0) :- {many}, back(X0, X0).", f"finding(X0) :- {many}, back(X0, Y0).")


def test_the_finding_that_says_more_stands_alone() -> None:
    """A general rule about the same ops is silent, unless the specific one only advises."""
    specific = rules()["MEM001"]
    general = replace(specific, code="MEM999", finding=UNORDERED, message="{A} {B}", help="{A}")
    program = read_program((BAD / "MEM001" / "bad.cake").read_text())
    assert {f.code for f in check(program, [general, specific]).findings} == {"MEM001"}
    assert {f.code for f in check(program, [general]).findings} == {"MEM999"}
    advice = replace(specific, blocking=False)
    assert {f.code for f in check(program, [general, advice]).findings} == {"MEM001", "MEM999"}
