"""How fast rules are: what an author waits for between two keystrokes."""

from __future__ import annotations

import time

from cake.core.clauses import evaluate_text
from cake.core.vocabulary import RELATIONS

#: CPU seconds for 25 rules over 3,000 facts. Measured 0.025 to 0.04 on an idle machine; the bound is for a busy one.
BOUND = 0.2


def test_many_rules_over_many_facts_take_milliseconds() -> None:
    """25 three-way joins with helpers and negation over 3,000 facts are one short grounding."""
    ops = [f"load:0.{i}" for i in range(150)]
    pairs = [(ops[i % 150], ops[(7 * i + i // 150) % 150]) for i in range(900)]
    facts: dict[str, set[tuple[int | str, ...]]] = {
        "conflict": {(a, b, "ring") for a, b in pairs},
        "conflict_kind": {(a, b, "war") for a, b in pairs},
        "ordered": set(pairs[:800]),
        "op": {(op, "tma_load", "load") for op in ops},
        "touches": {(op, "ring", mode, "async") for op in ops for mode in ("read", "write")},
    }
    assert sum(map(len, facts.values())) > 2900
    rules = [
        (
            f"R{i}",
            'h(A, B) :- conflict(A, B, C), touches(A, C, "write", _), op(B, K, _), '
            f'K != "k{i}". finding(B, A) :- h(A, B), conflict_kind(A, B, "war"), not ordered(A, B).',
        )
        for i in range(25)
    ]
    evaluate_text(rules, facts, frozenset(RELATIONS))  # imports and parses once
    start = time.process_time()
    found = evaluate_text(rules, facts, frozenset(RELATIONS))
    assert time.process_time() - start < BOUND
    assert {len(hits) for hits in found.hits.values()} == {len(set(pairs) - set(pairs[:800]))}
