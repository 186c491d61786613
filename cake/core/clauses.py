"""Clauses: stratified Datalog over facts, the language in which a rule's finding is written.

    finding(W, R) :- conflict(R, W, C), touches(W, C, "write", _), not ordered(R, W).
    finding(B, N) :- barrier(B, "mbarrier", _, N, _, _), #sum { A, Op : arrives(Op, B, A) } != N.

A clause defines `finding` or a helper predicate. Its body is a conjunction of

* atoms over fact relations (`cake.core.vocabulary`) and helpers: variables, numbers, "strings", `_` for any value;
* negated atoms (`not`);
* comparisons (`=`, `!=`, `<`, `<=`, `>`, `>=`) between values of one type and unit;
* keyed aggregates (`#count`, `#sum`, `#min`, `#max`) over one atom.

Negation and aggregates look only at lower strata. There are no functions, no arithmetic, no intervals, pools, choices
or scripts: every clause set terminates and has one model.

The tree is in `clauses_tree`, the reader in `clauses_parse`, the checks in `clauses_check`, evaluation in
`clauses_eval`; this module is the front door to all of them.
"""

from cake.core.clauses_check import Kind, Typing, check_clauses
from cake.core.clauses_eval import Evaluation, evaluate, evaluate_text
from cake.core.clauses_parse import parse_clauses
from cake.core.clauses_tree import (
    FINDING,
    Aggregate,
    Atom,
    Clause,
    ClauseError,
    Clauses,
    Compare,
    Constant,
    Literal,
    Not,
    Term,
    Variable,
    Wildcard,
    canonical,
    fingerprint,
    print_clauses,
)

__all__ = [
    "FINDING",
    "Aggregate",
    "Atom",
    "Clause",
    "ClauseError",
    "Clauses",
    "Compare",
    "Constant",
    "Evaluation",
    "Kind",
    "Literal",
    "Not",
    "Term",
    "Typing",
    "Variable",
    "Wildcard",
    "canonical",
    "check_clauses",
    "evaluate",
    "evaluate_text",
    "fingerprint",
    "parse_clauses",
    "print_clauses",
]
