"""Evaluation of rules over facts: one clingo program for all of them, one grounding.

Only text that is printed here from checked clause trees reaches clingo. Stratified clauses have one model, which
grounding alone computes. Relations are printed as `f_<name>`, the predicates of rule number i as `r<i>_<name>`, so no
rule sees another's helpers. Rules from elsewhere run in a process of their own, which is killed when it is slow.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from cake.core.clauses_check import LIMIT, bound_variables, ranging
from cake.core.clauses_parse import parse_clauses
from cake.core.clauses_tree import (
    FINDING,
    Aggregate,
    Atom,
    Clause,
    ClauseError,
    Clauses,
    Constant,
    Literal,
    atoms,
    map_terms,
    variables,
)

if TYPE_CHECKING:
    from cake.core.rule import Rule

Value: TypeAlias = int | str
Facts: TypeAlias = Mapping[str, AbstractSet[tuple[Value, ...]]]
#: Seconds that the rules of one foreign distribution may take, the start of their process included.
FOREIGN_TIMEOUT: Final = 10.0
#: The distribution whose rules run in this process.
OWN: Final = "cake"


@dataclass(frozen=True, slots=True)
class Evaluation:
    """`hits` holds the tuples of `finding` by rule code, for every rule that was decided; `unknown` says why the others
    were not. A rule is decided when it fires, or when no missing fact could make it fire."""

    hits: dict[str, set[tuple[Value, ...]]] = field(default_factory=dict)
    unknown: dict[str, str] = field(default_factory=dict)


def evaluate(
    rules: Sequence[Rule], facts: Facts, complete: AbstractSet[str], *, timeout: float = FOREIGN_TIMEOUT
) -> Evaluation:
    """Evaluate `rules` over `facts`, of which the relations in `complete` lack nothing.

    Rules whose `origin` is not Cake itself run in one killable process for each origin, for at most `timeout` seconds;
    a rule that cannot be read, evaluated or decided is `unknown` and disturbs no other.
    """
    found = Evaluation()
    by_origin: dict[str, list[tuple[str, str]]] = {}
    for rule in rules:
        by_origin.setdefault(rule.origin, []).append((rule.code, rule.finding))
    for origin, group in by_origin.items():
        part = evaluate_text(group, facts, complete) if origin == OWN else _foreign(group, facts, complete, timeout)
        found.hits.update(part.hits)
        found.unknown.update(part.unknown)
    return found


def evaluate_text(rules: Iterable[tuple[str, str]], facts: Facts, complete: AbstractSet[str]) -> Evaluation:
    """Evaluate (code, clauses) pairs in this process."""
    found = Evaluation()
    trees: list[tuple[str, str]] = []
    for code, text in rules:
        try:
            large = [r for r in sorted(_read(text).relations) if _is_large(facts.get(r, ()))]
        except ClauseError as error:
            found.unknown[code] = f"the rule cannot be read: {error.reason}"
            continue
        if large:
            found.unknown[code] = f"{', '.join(large)} holds a number beyond 31 bits"
        else:
            trees.append((code, text))
    _run([code for code, _ in trees], _compile(tuple(text for _, text in trees), frozenset(complete)), facts, found)
    return found


def _is_large(tuples: Iterable[tuple[Value, ...]]) -> bool:
    return any(isinstance(v, int) and not -LIMIT <= v <= LIMIT for t in tuples for v in t)


@lru_cache(maxsize=1024)
def _read(text: str) -> Clauses:
    return parse_clauses(text)


# ------------------------------------------------------------------------------------------------------------ compiling


@dataclass(frozen=True, slots=True)
class _Sum:
    """Where a rule adds numbers: printed predicate, arity, and the column of the weight (or a constant weight)."""

    predicate: str
    arity: int
    column: int | None
    weight: int


@dataclass(frozen=True, slots=True)
class _Compiled:
    text: str
    relations: frozenset[str]
    arities: tuple[int, ...]  # of each rule's finding
    sums: tuple[tuple[_Sum, ...], ...]
    incomplete: tuple[tuple[str, ...], ...]  # of each rule: the incomplete relations that it reads


@lru_cache(maxsize=64)
def _compile(texts: tuple[str, ...], complete: frozenset[str]) -> _Compiled:
    """The clingo text of all rules."""
    lines: list[str] = []
    relations: set[str] = set()
    arities: list[int] = []
    sums: list[tuple[_Sum, ...]] = []
    incomplete: list[tuple[str, ...]] = []
    for i, text in enumerate(texts):
        clauses = _read(text)
        names = {r: f"f_{r}" for r in clauses.relations} | {h: f"r{i}_{h}" for h in clauses.heads}
        opened = _open(clauses, complete)
        for clause in clauses.clauses:
            if all(isinstance(b, Atom) or not _reads(b, opened) for b in clause.body):
                lines.append(_print(clause, names))
        if opened:
            for clause in clauses.of(FINDING):
                rest = ", ".join(_show(b, names) for b in _certain(clause, opened))
                lines.append(f"r{i}_maybe :- {rest}." if rest else f"r{i}_maybe.")
        relations |= clauses.relations
        arities.append(len(clauses.of(FINDING)[0].head.terms))
        sums.append(tuple(_sum(b, names) for c in clauses.clauses for b in c.body if _adds(b)))
        incomplete.append(tuple(sorted(clauses.relations - complete)))
    return _Compiled("\n".join(lines), frozenset(relations), tuple(arities), tuple(sums), tuple(incomplete))


def _print(clause: Clause, names: Mapping[str, str]) -> str:
    return f"{_show(clause.head, names)} :- {', '.join(_show(b, names) for b in clause.body)}."


def _show(literal: Literal, names: Mapping[str, str]) -> str:
    return str(map_terms(literal, lambda t: t, lambda n: names[n]))


def _open(clauses: Clauses, complete: frozenset[str]) -> frozenset[str]:
    """The predicates that may lack tuples: incomplete relations, and helpers that read one somewhere below."""
    opened = set(clauses.relations - complete)
    while True:
        more = {c.head.relation for c in clauses.clauses if any(_reads(b, opened) for b in c.body)} - opened
        if not more:
            return frozenset(opened)
        opened |= more


def _reads(literal: Literal, predicates: AbstractSet[str]) -> bool:
    return any(a.relation in predicates for a in atoms(literal))


def _certain(clause: Clause, opened: AbstractSet[str]) -> tuple[Literal, ...]:
    """The part of a body that missing facts cannot change. Where it does not hold, the clause does not fire."""
    body = tuple(b for b in clause.body if not _reads(b, opened))
    while True:
        bound = bound_variables(body)
        safe = tuple(b for b in body if _outer(b, clause) <= bound)
        if safe == body:
            return body
        body = safe


def _outer(literal: Literal, clause: Clause) -> frozenset[str]:
    """The variables of a literal that something else must bind."""
    names = variables(literal)
    return names - ranging(literal, clause) if isinstance(literal, Aggregate) else names


def _adds(literal: Literal) -> bool:
    return isinstance(literal, Aggregate) and literal.function == "#sum"


def _sum(literal: Literal, names: Mapping[str, str]) -> _Sum:
    assert isinstance(literal, Aggregate)
    weight = literal.terms[0]
    predicate, arity = names[literal.atom.relation], len(literal.atom.terms)
    if isinstance(weight, Constant):
        assert isinstance(weight.value, int)
        return _Sum(predicate, arity, None, weight.value)
    return _Sum(predicate, arity, literal.atom.terms.index(weight) if weight in literal.atom.terms else None, LIMIT)


# ------------------------------------------------------------------------------------------------------------- running


def _run(codes: Sequence[str], compiled: _Compiled, facts: Facts, found: Evaluation) -> None:
    """Ground the rules over the facts and collect every rule's result into `found`."""
    if not codes:
        return
    import clingo

    control = clingo.Control(["--warn=none"], logger=lambda code, message: None)
    control.add("base", [], compiled.text)
    control.add("base", [], _print_facts(compiled.relations, facts))
    control.ground([("base", [])])
    model = control.symbolic_atoms
    for i, code in enumerate(codes):
        tuples = (a.symbol.arguments for a in model.by_signature(f"r{i}_{FINDING}", compiled.arities[i]))
        hits = {tuple(map(_value, t)) for t in tuples}
        if any(_total(model, s) > LIMIT for s in compiled.sums[i]):
            found.unknown[code] = "a sum may exceed 31 bits"
        elif not hits and next(iter(model.by_signature(f"r{i}_maybe", 0)), None) is not None:
            missing = ", ".join(compiled.incomplete[i])
            found.unknown[code] = f"facts may be missing from {missing}"
        else:
            found.hits[code] = hits


def _print_facts(relations: AbstractSet[str], facts: Facts) -> str:
    quoted: dict[Value, str] = {}

    def show(value: Value) -> str:
        text = quoted.get(value)
        if text is None:
            text = quoted[value] = str(Constant(value))
        return text

    return "\n".join(
        f"f_{name}({','.join(map(show, values))})." for name in sorted(relations) for values in facts.get(name, ())
    )


def _value(symbol: Any) -> Value:
    """A clingo number or string as a Python value."""
    import clingo

    value: Value = symbol.number if symbol.type == clingo.SymbolType.Number else symbol.string
    return value


def _total(model: Any, part: _Sum) -> int:
    """A bound on the sums over one predicate: the magnitudes of all its weights together."""
    tuples = (a.symbol.arguments for a in model.by_signature(part.predicate, part.arity))
    return sum(abs(part.weight if part.column is None else t[part.column].number) for t in tuples)


# ------------------------------------------------------------------------------------------------------ foreign rules


def _foreign(group: Sequence[tuple[str, str]], facts: Facts, complete: AbstractSet[str], timeout: float) -> Evaluation:
    """Evaluate one distribution's rules in a process that is killed after `timeout` seconds."""
    relations: set[str] = set()
    for _, text in group:
        try:
            relations |= _read(text).relations
        except ClauseError:
            continue  # the process reads it again and says why it cannot
    request = json.dumps(
        {
            "rules": list(group),
            "facts": {r: sorted(facts.get(r, ()), key=repr) for r in sorted(relations)},
            "complete": sorted(complete & relations),
        }
    )
    # The process imports exactly what this one would, and nothing from the working directory (-P).
    command = [sys.executable, "-P", "-c", "from cake.core.clauses_eval import serve; serve()"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    try:
        answer = subprocess.run(
            command, input=request, capture_output=True, text=True, timeout=timeout, check=True, env=environment
        )
        reply = json.loads(answer.stdout)
    except subprocess.TimeoutExpired:
        return Evaluation(unknown={code: f"stopped after {timeout:g} s" for code, _ in group})
    except (subprocess.CalledProcessError, json.JSONDecodeError) as error:
        return Evaluation(unknown={code: f"its process failed: {error}" for code, _ in group})
    return Evaluation({c: {tuple(t) for t in hits} for c, hits in reply["hits"].items()}, reply["unknown"])


def serve() -> None:
    """Answer one request from standard input on standard output: the far side of a foreign evaluation."""
    request = json.load(sys.stdin)
    facts = {name: {tuple(t) for t in tuples} for name, tuples in request["facts"].items()}
    found = evaluate_text([(c, t) for c, t in request["rules"]], facts, frozenset(request["complete"]))
    json.dump({"hits": {c: sorted(h, key=repr) for c, h in found.hits.items()}, "unknown": found.unknown}, sys.stdout)
