"""Clauses: what the reader accepts and refuses, printing, canonical text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cake.core.clauses import (
    ClauseError,
    Constant,
    canonical,
    check_clauses,
    fingerprint,
    parse_clauses,
    print_clauses,
)
from cake.core.clauses_check import Kind, strata

ACCEPTED = (
    'finding(W, R) :- conflict(R, W, C), conflict_kind(R, W, "war"), touches(W, C, "write", _), not ordered(R, W).',
    'finding(B, N) :- barrier(B, "mbarrier", _, N, _, _), #sum { A, Op : arrives(Op, B, A) } != N.',
    "finding(What, N, M) :- uses(What, N), limit(What, M), N > M.",
    'finding(Op) :- op(Op, "tma_load", Role), 2 <= #count { X : op(X, _, Role) }.',
    "finding(Op, N) :- view(Op, _, _, _, _), N = #max { E : view_extent(Op, _, _, E), E != 1 }, N > 256.",
    "after(A, B) :- next(A, B).\nafter(A, C) :- after(A, B), next(B, C).\nfinding(A) :- after(A, _), not after(_, A).",
    'finding(A) :- overlap(A, B), smem(A, _, _, _, _), A != B. % "a comment"\n\n',
    'finding(Op) :- const(Op, F, V), V < -3, F = "a \\"quoted\\" \\\\ name".',
)

REFUSED = (
    ("finding(O) :- wrties(O, _).", 1, 15, "unknown relation 'wrties'; did you mean"),
    ("finding(O) :- op(O, _).", 1, 15, "op has 3 columns (Op, Kind, Role), not 2"),
    ("finding(O) :- op(O, K, _), 3 < K.", 1, 28, "K is name"),
    ("finding(O) :- view(O, _, _, B, _), role(_, B, _, _).", 1, 36, "B is int in bytes; role.Warps is int in warps"),
    ('finding(O) :- op(O, "tma_load", 3).', 1, 15, "3 is int; op.Role is role"),
    ('finding(O) :- const(O, _, "x").', 1, 15, '"x" is a string'),
    ("finding(O) :- op(O, _, R), op(P, _, S), O < P, R = S.", 1, 41, "op values, which have no order"),
    ("finding(X) :- op(O, _, _), not opaque(X).", 1, 1, "X is unsafe"),
    ("finding(O) :- op(O, _, _), not opaque(X).", 1, 32, "X is unsafe"),
    ("finding(O) :- op(O, _, _), X < 3.", 1, 28, "X is unsafe"),
    ("p(O) :- op(O, _, _), not q(O).\nq(O) :- op(O, _, _), not p(O).\nfinding(O) :- p(O).", 1, 26, "its own negation"),
    ("p(O, N) :- op(O, _, _), #count { P : p(P, _) } = N.\nfinding(O) :- p(O, _).", 1, 38, "its own negation"),
    ("finding(O) :- op(O, _, _), #sum { A : arrives(O, B, A) } > 3.", 1, 28, "add B to the tuple"),
    ("finding(O) :- op(O, _, _), #sum { A : arrives(O, _, A) } > 3.", 1, 28, "name the column"),
    ("finding(O) :- op(O, _, _), #count { X : arrives(O, _, A) } > 3.", 1, 28, "X is unsafe"),
    ("finding(O) :- op(O, _, _), #max { K : op(O, K, _) } > 3.", 1, 28, "#max needs numbers"),
    ("finding(O) :- op(O, _, _), #count { X : not opaque(X) } > 3.", 1, 41, "ranges over one atom"),
    ("finding(O) :- op(O, _, _), #count { X : opaque(X), one_lane(X) } > 3.", 1, 52, "ranges over one atom"),
    ("finding(O) :- op(O, 1..3, _).", 1, 22, "intervals"),
    ("finding(O) :- op(O; P).", 1, 19, "pools"),
    ("finding(O) :- op(O, K, _), K = @f(O).", 1, 32, "script calls"),
    ("finding(O) :- op(O, _, _), O = O + 1.", 1, 34, "no arithmetic"),
    ('#include "secret.lp".', 1, 1, "#include is not part of the language"),
    ("{ finding(O) } :- op(O, _, _).", 1, 1, "choices"),
    ("finding(O) | other(O) :- op(O, _, _).", 1, 12, "disjunction"),
    (":- op(O, _, _).", 1, 1, "constraints"),
    (":~ op(O, _, _). [1]", 1, 1, "weak constraints"),
    ("finding(O) :- op(O, f(K), _).", 1, 21, "expected a variable"),
    ("finding(O).", 1, 11, "needs a body"),
    ('finding("a") :- op(_, _, _).', 1, 1, "a head holds variables"),
    ("finding(O) :- op(O, _, _), not not opaque(O).", 1, 32, "expected a relation"),
    ("finding(O) :- op(O, _, _), const(O, _, 2147483648).", 1, 40, "31 bits"),
    (f"finding(O) :- op(O, _, _), const(O, _, {'9' * 5000}).", 1, 40, "31 bits"),
    ("op(O, K, R) :- op(O, K, R).", 1, 1, "facts are computed, not defined"),
    ("found(O) :- op(O, _, _).", 1, 1, "no clause defines finding"),
    ("finding(O) :- op(O, _, _).\nfinding(O, P) :- next(O, P).", 2, 1, "finding has 1 columns elsewhere"),
    ("finding(O) :- finding(O).", 1, 15, "no clause may use it"),
    ("h(O) :- op(O, _, _).\nfinding(O) :- op(O, _, _).", 1, 1, "nothing uses the helper h"),
    ('finding(O) :- op(O, "x, _).', 1, 21, "not closed"),
    ("finding(O) :- op(O, _, _)", 1, 26, "expected '.', found 'the end'"),
    ("", 1, 1, "there is no clause"),
    ("finding(O) :- op(O, _, _), _ != O.", 1, 28, "'_' cannot be compared"),
    ("finding(O) :- op(O, _, _), 1 = 2.", 1, 28, "a comparison needs a variable"),
)


@pytest.mark.parametrize("text", ACCEPTED)
def test_print_then_read_is_the_identity(text: str) -> None:
    """What the printer writes reads back to an equal tree, and prints the same again."""
    clauses = parse_clauses(text)
    again = parse_clauses(print_clauses(clauses))
    assert again == clauses
    assert print_clauses(again) == print_clauses(clauses)


@pytest.mark.parametrize(("text", "line", "column", "reason"), REFUSED)
def test_refusals_name_place_and_reason(text: str, line: int, column: int, reason: str) -> None:
    """Each shape outside the language is refused with the position and the reason."""
    with pytest.raises(ClauseError) as refused:
        parse_clauses(text)
    assert reason in refused.value.reason
    assert (refused.value.line, refused.value.column) == (line, column)
    assert text == "" or str(refused.value).endswith("^")


def test_types_are_inferred_through_helpers() -> None:
    """A helper's columns take type and unit from the clauses that define it."""
    typing = check_clauses(parse_clauses("h(B, N) :- view(_, _, B, N, _).\nfinding(B) :- h(B, N), N > 4."))
    assert typing.helpers["h"] == (Kind("buffer"), Kind("int", "bytes"))
    assert typing.variables[1] == {"B": Kind("buffer"), "N": Kind("int", "bytes")}


def test_wide_column_types_meet_narrow_ones() -> None:
    """An `object` may be a region, but no region is a barrier."""
    parse_clauses("finding(A, B) :- overlap(A, B), smem(A, _, _, _, _), waits(_, B).")
    with pytest.raises(ClauseError, match=r"A is buffer; barrier\.Bar is barrier"):
        parse_clauses("finding(A) :- smem(A, _, _, _, _), barrier(A, _, _, _, _, _).")


def test_strata_rise_through_negation_and_aggregates() -> None:
    """A predicate stands above what it negates or counts, beside what it uses positively."""
    text = (
        "a(O) :- opaque(O).\nb(O) :- op(O, _, _), not a(O).\nc(O) :- b(O).\n"
        "finding(O) :- op(O, _, _), #count { P : c(P) } > 2."
    )
    assert strata(parse_clauses(text)) == {"a": 0, "b": 1, "c": 1, "finding": 2}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("finding(W) :- conflict(R, W, C), R != W.", "finding(A) :- B != A, conflict(B, A, X)."),
        ("finding(O) :- const(O, _, V), V > 3.", "finding(Z) :- 3 < Y, const(Z, _, Y)."),
        (
            "h(A) :- opaque(A).\ng(A) :- one_lane(A).\nfinding(O) :- h(O), not g(O).",
            "finding(O) :- not a(O), b(O).\nb(A) :- opaque(A).\na(A) :- one_lane(A).",
        ),
        (
            "finding(O) :- op(O, _, R), 2 > #count { X, Y : const(X, K, Y), Y > 3, Y != 9 }, op(_, K, R).",
            "finding(O) :- op(_, F, R), op(O, _, R), #count { X, V : const(X, F, V), 9 != V, 3 < V } < 2.",
        ),
        (
            "finding(A) :- next(A, B), next(B, C), next(C, A).",
            "finding(X) :- next(Y, Z), next(Z, X), next(X, Y).",
        ),
    ],
)
def test_canonical_text_ignores_names_and_order(one: str, other: str) -> None:
    """Variable and helper names, the order of clauses and literals and the side of a comparison do not matter."""
    assert canonical(parse_clauses(one)) == canonical(parse_clauses(other))
    assert fingerprint(parse_clauses(one)) == fingerprint(parse_clauses(other))


def test_canonical_text_keeps_what_differs() -> None:
    """Swapped roles, constants and negation change the text."""
    texts = (
        "finding(W, R) :- conflict(R, W, _).",
        "finding(R, W) :- conflict(R, W, _).",
        'finding(W, R) :- conflict(R, W, "a").',
        "finding(W, R) :- conflict(R, W, _), not ordered(R, W).",
        "finding(A, C) :- next(A, B), next(B, C), next(C, A).",
        "finding(A, C) :- next(A, B), next(B, C), next(A, C).",
    )
    assert len({canonical(parse_clauses(t)) for t in texts}) == len(texts)


@given(st.text())
def test_any_string_constant_survives(value: str) -> None:
    """Strings print to what reads back, whatever they hold."""
    clauses = parse_clauses(f"finding(O) :- op(O, {Constant(value)}, _).")
    assert clauses.clauses[0].body[0].terms[1] == Constant(value)  # type: ignore[union-attr]


@given(st.permutations(range(5)), st.permutations(["A", "B", "C", "D"]))
def test_canonical_text_is_invariant(order: list[int], names: list[str]) -> None:
    """Every order of body literals and every renaming gives the same canonical text."""
    a, b, c, d = names
    body = (f"next({a}, {b})", f"next({b}, {c})", f"not opaque({c})", f"next({a}, {d})", f"{b} != {d}")
    clauses = parse_clauses(f"finding({a}) :- {', '.join(body[i] for i in order)}.")
    assert canonical(clauses) == ("finding(V0) :- next(V0, V1), next(V0, V2), next(V1, V3), V1 != V2, not opaque(V3).")


@given(st.text(max_size=60))
def test_no_text_crashes_the_reader(text: str) -> None:
    """No arbitrary text defines a finding; all of it is refused with a place, and nothing else happens."""
    with pytest.raises(ClauseError) as refused:
        parse_clauses(text)
    assert refused.value.line >= 1
