"""What a learnt clause is called and how it reads."""

from __future__ import annotations

import pytest

from cake.core.clauses import parse_clauses
from cake.core.vocabulary import RELATIONS
from distill import words
from distill.compose import mending, message

SAID = [
    (
        "finding(Op, Bar) :- syncs(Op, Bar, _, _), not paced(Op, Bar).",
        "unpaced-sync",
        "{Op} may act on {Bar} before the previous phase is complete",
    ),
    (
        "finding(Op, Tensor) :- global_access(Op, Tensor, _, _), not in_bounds(Op, Tensor).",
        "unbounded-global-access",
        "no guard or loop bound keeps {Op} inside {Tensor} for every extent",
    ),
    (
        "finding(Op, Bytes, Alignment) :- global_access(Op, _, Bytes, Alignment), Bytes != Alignment.",
        "accessed-bytes-differ-from-address-alignment",
        "{Op} accesses {Bytes} bytes at once, at addresses that are multiples of {Alignment} only",
    ),
    (
        "finding(Op, Loop) :- waits(Op, _), loop(Op, Loop, _), not same_trip(Loop, _).",
        "unpaired-wait",
        "{Op}: no other loop is known to run as often as {Loop}",
    ),
    (
        'finding(Op) :- loop(Op, _, _), parity(Op, "constant").',
        "constant-parity-operation",
        "{Op} waits for a parity that is constant",
    ),
    ("finding(Op, Buf) :- outside(Op, Buf).", "out-of-region-operation", "{Op} reaches outside {Buf}"),
    ("finding(A) :- back(A, _), commits(_, A).", "back-commits-operation", ""),
    ('finding(Op) :- flag(Op, "when", "false").', "when-false-operation", "when of {Op} is false"),
]


@pytest.mark.parametrize(("text", "name", "said"), SAID)
def test_a_clause_has_a_name_of_two_words_and_a_sentence(text: str, name: str, said: str) -> None:
    """Names say the fault and its subject; messages name what the finding names."""
    clause = parse_clauses(text).clauses[0]
    assert words.name_of(clause) == name
    if said:
        assert message(clause) == said
    assert mending(clause)


def test_every_word_is_about_a_relation_that_exists() -> None:
    """No table keeps a relation that the vocabulary lacks, and each relation is described."""
    for table in (words.FACT, words.LACK, words.NONE, words.MEND, words.UNDO, words.SUBJECT):
        assert table.keys() <= RELATIONS.keys()
    assert {name.removeprefix("not ") for name in words.ADJECTIVE} <= RELATIONS.keys()
    assert words.FACT.keys() == RELATIONS.keys()
