"""Evaluation: hits, what missing facts make unknown, isolation of rules from each other and of foreign rules."""

from __future__ import annotations

import time
from collections.abc import Mapping

import pytest

from cake.core.clauses import Evaluation, evaluate, evaluate_text
from cake.core.diagnostics import Category
from cake.core.rule import Rule
from cake.core.vocabulary import RELATIONS

EVERYTHING = frozenset(RELATIONS)
FACTS: Mapping[str, set[tuple[int | str, ...]]] = {
    "op": {("load:0", "tma_load", "load"), ("load:1", "tma_load", "load"), ("math:0", "wgmma", "math")},
    "conflict": {("math:0", "load:0", "a"), ("load:0", "math:0", "a")},
    "ordered": {("load:0", "math:0")},
    "arrives": {("math:0", "empty", 2), ("math:1", "empty", 2), ("load:0", "full", 1)},
    "barrier": {("empty", "mbarrier", 4, 4, 0, 24), ("full", "mbarrier", 4, 2, 32, 56)},
    "opaque": {("load:1",)},
}


def rule(code: str, finding: str, origin: str = "cake") -> Rule:
    """A rule with the given clauses and empty words."""
    return Rule(code, code.lower(), Category.PROGRAM_SAFETY, "0.1", finding, "", "", "", (), (), (), origin=origin)


def hits(finding: str, complete: frozenset[str] = EVERYTHING) -> set[tuple[int | str, ...]]:
    """What one rule finds; the test fails where it is undecided."""
    return evaluate_text([("X", finding)], FACTS, complete).hits["X"]


@pytest.mark.parametrize(
    ("finding", "expected"),
    [
        ("finding(A, B) :- conflict(A, B, _), not ordered(A, B).", {("math:0", "load:0")}),
        # Two arrivals of 2 are 4, not 2: the tuple's key keeps equal values apart.
        ("finding(B, N) :- barrier(B, _, _, N, _, _), #sum { A, O : arrives(O, B, A) } != N.", {("full", 2)}),
        ('finding(R) :- op(_, _, R), #count { O : op(O, "tma_load", R) } >= 2.', {("load",)}),
        ("finding(B, M) :- barrier(B, _, _, _, _, _), M = #max { A : arrives(_, B, A) }, M > 1.", {("empty", 2)}),
        ("h(O) :- op(O, _, _), not opaque(O).\nfinding(O) :- h(O), not conflict(O, _, _).", set()),
        ("finding(O) :- op(O, _, _), not conflict(O, _, _).", {("load:1",)}),
        ('finding(O) :- op(O, K, _), K != "tma_load".', {("math:0",)}),
        ("finding(O) :- outside(O, _).", set()),
    ],
)
def test_hits(finding: str, expected: set[tuple[int | str, ...]]) -> None:
    """Joins, negation, helpers and aggregates give exactly the tuples of the stratified model."""
    assert hits(finding) == expected


def test_rules_do_not_share_helpers() -> None:
    """Two rules may use one helper name for different things."""
    found = evaluate_text(
        [
            ("A", "h(O) :- opaque(O).\nfinding(O) :- h(O)."),
            ("B", 'h(O) :- op(O, "wgmma", _).\nfinding(O) :- h(O).'),
        ],
        FACTS,
        EVERYTHING,
    )
    assert found.hits == {"A": {("load:1",)}, "B": {("math:0",)}}


@pytest.mark.parametrize(
    "finding",
    [
        # Fires only through a negation, or an aggregate, over what may lack tuples.
        "finding(A, B) :- conflict(A, B, _), not ordered(A, B).",
        "h(A, B) :- ordered(A, B).\nfinding(A, B) :- conflict(A, B, _), not h(A, B).",
        "finding(A) :- op(A, _, _), #count { B : ordered(A, B) } = 0.",
        "finding(A, N) :- op(A, _, _), #count { B : ordered(A, B) } = N, N < 1.",
        # Could fire if the missing tuple were there.
        "finding(A) :- op(A, _, _), ordered(A, A).",
    ],
)
def test_incomplete_relations_leave_a_rule_unknown(finding: str) -> None:
    """A rule that missing facts could make fire, or stop from firing, is not decided."""
    found = evaluate_text([("X", finding)], FACTS, EVERYTHING - {"ordered"})
    assert found == Evaluation({}, {"X": "facts may be missing from ordered"})


@pytest.mark.parametrize(
    ("finding", "expected"),
    [
        ("finding(A, B) :- ordered(A, B), conflict(A, B, _).", {("load:0", "math:0")}),
        ("finding(A, B) :- outside(A, _), conflict(A, B, _), not ordered(A, B).", set()),
        ("finding(A) :- op(A, _, _), not outside(A, _).\nfinding(A) :- ordered(A, _).", {("load:0",)}),
    ],
)
def test_incomplete_relations_leave_what_is_certain(finding: str, expected: set[tuple[int | str, ...]]) -> None:
    """A rule that fires without the missing facts, or cannot fire with them, is decided."""
    complete = EVERYTHING - {"ordered"} if "not outside" not in finding else EVERYTHING - {"ordered", "outside"}
    assert hits(finding, complete) == expected


def test_large_numbers_never_reach_clingo() -> None:
    """clingo wraps at 32 bits; a rule over larger numbers, or whose sums may get there, is unknown and alone."""
    facts: dict[str, set[tuple[int | str, ...]]] = {
        "const": {("a", "x", 2**40)},
        "expects": {(f"op{i}", "full", 2**30) for i in range(4)},
        "barrier": {("full", "mbarrier", 1, 1, 0, 0)},
    }
    found = evaluate_text(
        [
            ("BIG", "finding(O) :- const(O, _, V), V < 3."),
            ("SUM", "finding(B) :- barrier(B, _, _, _, _, _), #sum { N, O : expects(O, B, N) } = 0."),
            ("FINE", "finding(B) :- barrier(B, _, _, _, _, _), #count { N, O : expects(O, B, N) } = 4."),
        ],
        facts,
        EVERYTHING,
    )
    assert found.hits == {"FINE": {("full",)}}
    assert found.unknown == {
        "BIG": "const holds a number beyond 31 bits",
        "SUM": "a sum may exceed 31 bits",
    }


def test_strings_are_data() -> None:
    """Quotes, backslashes and clause text inside a fact stay inside it."""
    nasty = 'a"). finding("\\\n'
    facts = {"op": {(nasty, "k", "r")}}
    assert evaluate_text([("X", "finding(O) :- op(O, _, _).")], facts, EVERYTHING).hits == {"X": {(nasty,)}}


def test_an_unreadable_rule_disturbs_no_other() -> None:
    """One broken rule is unknown with its reason; the rest are evaluated."""
    found = evaluate(
        [rule("BAD", "finding(O) :- nothing(O)."), rule("OK", "finding(O) :- opaque(O).")], FACTS, EVERYTHING
    )
    assert found.hits == {"OK": {("load:1",)}}
    assert found.unknown["BAD"].startswith("the rule cannot be read: unknown relation 'nothing'")


def test_foreign_rules_run_in_a_process_that_is_killed() -> None:
    """A pack's rule gives the same hits from its own process; one that would ground for minutes is stopped."""
    slow = "p(A, B, C, D) :- op(A, _, _), op(B, _, _), op(C, _, _), op(D, _, _).\nfinding(A) :- p(A, _, _, _)."
    many = {"op": {(f"op{i}", "k", "r") for i in range(200)}, "opaque": {("op3",)}}
    quick, own = rule("p:OK", "finding(O) :- opaque(O).", "pack-a"), rule("OWN", "finding(O) :- opaque(O).")
    start = time.monotonic()
    found = evaluate([quick, rule("p:SLOW", slow, "pack-b"), own], many, EVERYTHING, timeout=1.5)
    assert time.monotonic() - start < 10
    assert found.hits == {"p:OK": {("op3",)}, "OWN": {("op3",)}}
    assert found.unknown == {"p:SLOW": "stopped after 1.5 s"}
