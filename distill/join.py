"""Conjunctions over one program's facts: the fast inner loop of the search. `cake.core.clauses` has the last word.

Everything here agrees with `cake.core.clauses_eval.evaluate` on the single clauses that the learner builds; a test
holds the two together. What facts cannot decide is counted against the clause: a negated literal over an incomplete
relation does not hold in a failing program, and holds in a passing one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import TypeAlias

from cake.core.clauses import Aggregate, Atom, Compare, Constant, Literal, Not, Term, Variable

Value: TypeAlias = int | str
Tuple: TypeAlias = tuple[Value, ...]
Substitution: TypeAlias = dict[str, Value]

#: Stands for "nothing in this program": no fact holds it.
NOTHING: Value = "\0nothing"


@dataclass(slots=True)
class Example:
    """One program as the learner sees it: its facts, the relations that lack nothing, and whether it fails.

    `heads` are the op paths at which a failing program may be flagged; they are empty for a passing one.
    """

    name: str
    facts: Mapping[str, AbstractSet[Tuple]]
    complete: frozenset[str]
    heads: frozenset[str] = frozenset()
    _sorted: dict[str, list[Tuple]] = field(default_factory=dict, repr=False)
    _index: dict[tuple[str, tuple[int, ...]], dict[Tuple, list[Tuple]]] = field(default_factory=dict, repr=False)
    _sums: dict[tuple[str, str, int, int], dict[Value, int]] = field(default_factory=dict, repr=False)

    @property
    def fails(self) -> bool:
        """Whether it is an example of the fault."""
        return bool(self.heads)

    def tuples(self, relation: str) -> list[Tuple]:
        """The tuples of a relation, in a fixed order."""
        found = self._sorted.get(relation)
        if found is None:
            found = self._sorted[relation] = sorted(self.facts.get(relation, ()), key=_order)
        return found

    def matching(self, relation: str, columns: tuple[int, ...], values: Tuple) -> Sequence[Tuple]:
        """The tuples of a relation that hold `values` in `columns`."""
        if not columns:
            return self.tuples(relation)
        index = self._index.get((relation, columns))
        if index is None:
            index = self._index[relation, columns] = {}
            for t in self.tuples(relation):
                index.setdefault(tuple(t[c] for c in columns), []).append(t)
        return index.get(values, ())

    def aggregate(self, function: str, relation: str, key: int, column: int, value: Value) -> int:
        """`#sum` of `column`, or `#count` of its distinct values, over the tuples that hold `value` in column `key`."""
        table = self._sums.get((function, relation, key, column))
        if table is None:
            table = self._sums[function, relation, key, column] = {}
            if function == "#count":
                pairs = {(t[key], t[column]) for t in self.tuples(relation)}
                for group, _ in pairs:
                    table[group] = table.get(group, 0) + 1
            else:
                for t in self.tuples(relation):
                    weight = t[column]
                    assert isinstance(weight, int)
                    table[t[key]] = table.get(t[key], 0) + weight
        return table.get(value, 0)


def _order(t: Tuple) -> tuple[tuple[int, int, str], ...]:
    return tuple((0, v, "") if isinstance(v, int) else (1, 0, v) for v in t)


def value_of(term: Term, bound: Mapping[str, Value]) -> Value | None:
    """What a term stands for, or None for a wildcard and for a variable without a value."""
    if isinstance(term, Constant):
        return term.value
    return bound.get(term.name) if isinstance(term, Variable) else None


def pattern(atom: Atom, bound: Mapping[str, Value]) -> tuple[tuple[int, ...], Tuple]:
    """The columns of `atom` whose values are known, and those values."""
    columns: list[int] = []
    values: list[Value] = []
    for i, term in enumerate(atom.terms):
        value = value_of(term, bound)
        if value is not None:
            columns.append(i)
            values.append(value)
    return tuple(columns), tuple(values)


def aggregate_columns(literal: Aggregate) -> tuple[int, int]:
    """The key column and the aggregated column of a keyed aggregate as the learner writes it: one key, held by a
    variable that the tuple leaves out."""
    ranging = {t.name for t in literal.terms if isinstance(t, Variable)}
    names = [t.name if isinstance(t, Variable) else "" for t in literal.atom.terms]
    key = next(i for i, n in enumerate(names) if n and n not in ranging)
    first = literal.terms[0]
    assert isinstance(first, Variable)
    return key, names.index(first.name)


def compare(op: str, left: Value, right: Value) -> bool:
    """One comparison; an ordering holds between numbers only."""
    if op == "=":
        return left == right
    if op == "!=":
        return left != right
    if not (isinstance(left, int) and isinstance(right, int)):
        return False
    return {"<": left < right, "<=": left <= right, ">": left > right, ">=": left >= right}[op]


def holds(literal: Literal, example: Example, bound: Mapping[str, Value], benefit: bool) -> bool:
    """Whether a literal all of whose variables are bound holds. `benefit` is the answer where facts do not decide."""
    match literal:
        case Atom():
            columns, values = pattern(literal, bound)
            return bool(example.matching(literal.relation, columns, values))
        case Not(atom):
            columns, values = pattern(atom, bound)
            if example.matching(atom.relation, columns, values):
                return False
            return atom.relation in example.complete or benefit
        case Compare(op, left, right):
            a, b = value_of(left, bound), value_of(right, bound)
            return a is not None and b is not None and compare(op, a, b)
        case Aggregate():
            computed = total(literal, example, bound)
            wanted = value_of(literal.bound, bound)
            return wanted is not None and compare(literal.op, computed, wanted)


def total(literal: Aggregate, example: Example, bound: Mapping[str, Value]) -> int:
    """The value of an aggregate whose key is bound."""
    key, column = aggregate_columns(literal)
    value = value_of(literal.atom.terms[key], bound)
    assert value is not None
    return example.aggregate(literal.function, literal.atom.relation, key, column, value)


def solutions(
    body: Sequence[Literal], example: Example, start: Mapping[str, Value], benefit: bool
) -> Iterator[Substitution]:
    """Every substitution of the body's variables, from `start` on, under which all its literals hold; fixed order."""
    yield from _solve(tuple(body), example, dict(start), benefit)


def _solve(rest: tuple[Literal, ...], example: Example, bound: Substitution, benefit: bool) -> Iterator[Substitution]:
    best: tuple[int, int] | None = None
    for i, literal in enumerate(rest):
        match literal:
            case Atom(relation=relation):
                columns, values = pattern(literal, bound)
                size = len(example.matching(relation, columns, values))
                if not size:
                    return
                if best is None or size < best[0]:
                    best = (size, i)
            case Aggregate(bound=Variable(name=name)) if name not in bound:
                if aggregate_key(literal) in bound:
                    best = (0, i)
                    break
            case _:
                if all(n in bound for n in _free(literal)):
                    if not holds(literal, example, bound, benefit):
                        return
                    yield from _solve(rest[:i] + rest[i + 1 :], example, bound, benefit)
                    return
    if not rest:
        yield bound
        return
    if best is None:
        return
    literal, after = rest[best[1]], rest[: best[1]] + rest[best[1] + 1 :]
    if isinstance(literal, Aggregate):
        assert isinstance(literal.bound, Variable)
        extended = {**bound, literal.bound.name: total(literal, example, bound)}
        yield from _solve(after, example, extended, benefit)
        return
    assert isinstance(literal, Atom)
    columns, values = pattern(literal, bound)
    for t in example.matching(literal.relation, columns, values):
        new = extend(literal, t, bound)
        if new is not None:
            yield from _solve(after, example, new, benefit)


def aggregate_key(literal: Aggregate) -> str:
    """The variable that an aggregate is keyed by."""
    term = literal.atom.terms[aggregate_columns(literal)[0]]
    assert isinstance(term, Variable)
    return term.name


def _free(literal: Literal) -> tuple[str, ...]:
    match literal:
        case Not(atom):
            return tuple(t.name for t in atom.terms if isinstance(t, Variable))
        case Compare(_, left, right):
            return tuple(t.name for t in (left, right) if isinstance(t, Variable))
        case Aggregate(bound=end):
            return (aggregate_key(literal), *((end.name,) if isinstance(end, Variable) else ()))
    return ()


def extend(atom: Atom, t: Tuple, bound: Mapping[str, Value]) -> Substitution | None:
    """`bound` with the atom's variables taken from tuple `t`, or None when a repeated variable meets two values."""
    new = dict(bound)
    for term, value in zip(atom.terms, t, strict=True):
        if isinstance(term, Variable) and new.setdefault(term.name, value) != value:
            return None
    return new


def fires(body: Sequence[Literal], example: Example, head: str) -> Iterator[Value]:
    """The distinct values of the variable `head` for which the body holds. A failing program needs certain facts, a
    passing one is charged with what its facts leave open."""
    seen: set[Value] = set()
    for found in solutions(body, example, {}, not example.fails):
        if found[head] not in seen:
            seen.add(found[head])
            yield found[head]


def covers(body: Sequence[Literal], example: Example, head: str) -> bool:
    """Whether a failing program is flagged at one of its `heads`."""
    return any(next(solutions(body, example, {head: h}, False), None) is not None for h in sorted(example.heads))
