"""The checks of clause trees: names, arities, types and units, safety, stratification."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from cake.core.clauses_tree import (
    FINDING,
    ORDERINGS,
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
    atoms,
    variables,
)

if TYPE_CHECKING:
    from cake.core.vocabulary import Relation

#: The one column type that has an order and numbers for constants; all others are names, compared for equality.
INTEGER: Final = "int"
#: Column types that hold things of several narrower types.
WIDER: Final = {
    "object": frozenset({"buffer", "barrier", "map", "role"}),
    "cell": frozenset({"buffer", "tensor", "name"}),
}
#: clingo's integers have 32 bits and wrap silently.
LIMIT: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Kind:
    """A column's type and unit. An empty unit is open: a literal, a count, a column of numbers with several units."""

    type: str
    unit: str = ""

    def __str__(self) -> str:
        return f"{self.type} in {self.unit}" if self.unit else self.type

    def meet(self, other: Kind) -> Kind | None:
        """What is both, or None."""
        for one, two in ((self, other), (other, self)):
            if one.type in WIDER.get(two.type, ()):
                return one
        if self.type != other.type or (self.unit and other.unit and self.unit != other.unit):
            return None
        return self if self.unit else other


@dataclass(frozen=True, slots=True)
class Typing:
    """The inferred kinds: of each helper's columns, and of each clause's variables, clause by clause."""

    helpers: Mapping[str, tuple[Kind | None, ...]]
    variables: tuple[Mapping[str, Kind], ...]


def vocabulary() -> Mapping[str, Relation]:
    """The fact vocabulary, imported on first use: reading a rule file needs nothing else of the verifier."""
    from cake.core.vocabulary import RELATIONS

    return RELATIONS


def check_clauses(clauses: Clauses, relations: Mapping[str, Relation] | None = None, text: str = "") -> Typing:
    """Check a clause tree, read or built, and return its typing. `text` is what offsets in the tree refer to.

    Raises `ClauseError` at the first fault, in reading order of the checks named in the module's title.
    """
    checker = _Checker(clauses, vocabulary() if relations is None else relations, text)
    checker.names()
    typing = checker.types()
    for clause in clauses.clauses:
        checker.safety(clause)
    strata(clauses, text)
    return typing


def strata(clauses: Clauses, text: str = "") -> dict[str, int]:
    """The stratum of each defined predicate: each negates and aggregates over lower strata only."""
    level = dict.fromkeys(clauses.heads, 0)
    while True:
        raised: list[Atom] = []
        for clause in clauses.clauses:
            for literal in clause.body:
                for atom in atoms(literal):
                    least = level.get(atom.relation, -1) + (not isinstance(literal, Atom))
                    if level[clause.head.relation] < least:
                        level[clause.head.relation] = least
                        raised.append(atom)
        if not raised:
            return level
        if max(level.values()) > len(level):  # only a cycle climbs that high
            raise ClauseError(f"{raised[0].relation} depends on its own negation or aggregate", text, raised[0].offset)


class _Checker:
    def __init__(self, clauses: Clauses, relations: Mapping[str, Relation], text: str) -> None:
        self.clauses, self.relations, self.text = clauses, relations, text

    def fail(self, reason: str, offset: int) -> ClauseError:
        return ClauseError(reason, self.text, offset)

    # ------------------------------------------------------------------------------------------------------- names

    def names(self) -> None:
        """Every atom names a relation of the vocabulary or a helper, with its arity; `finding` is defined, not used."""
        arity = {name: len(r.columns) for name, r in self.relations.items()}
        for clause in self.clauses.clauses:
            head = clause.head
            if head.relation in self.relations:
                raise self.fail(f"{head.relation} is a fact relation: facts are computed, not defined", head.offset)
            if arity.setdefault(head.relation, len(head.terms)) != len(head.terms):
                raise self.fail(f"{head.relation} has {arity[head.relation]} columns elsewhere", head.offset)
            if not clause.body:
                raise self.fail(f"{head.relation} needs a body: rules state no facts", head.offset)
            for term in head.terms:
                if not isinstance(term, Variable):
                    raise self.fail(f"a head holds variables, not {term}", head.offset)
        if FINDING not in self.clauses.heads:
            raise self.fail(f"no clause defines {FINDING}", self.clauses.clauses[0].head.offset)
        used: set[str] = set()
        for atom in self._body_atoms():
            used.add(atom.relation)
            if atom.relation == FINDING:
                raise self.fail(f"{FINDING} is the result: no clause may use it", atom.offset)
            if atom.relation not in arity:
                close = difflib.get_close_matches(atom.relation, arity, n=1)
                hint = f"; did you mean {close[0]!r}?" if close else ""
                raise self.fail(f"unknown relation {atom.relation!r}{hint}", atom.offset)
            if len(atom.terms) != arity[atom.relation]:
                raise self.fail(
                    f"{atom.relation} has {arity[atom.relation]} columns{self._columns(atom.relation)}, "
                    f"not {len(atom.terms)}",
                    atom.offset,
                )
        for clause in self.clauses.clauses:
            if clause.head.relation not in used | {FINDING}:
                raise self.fail(f"nothing uses the helper {clause.head.relation}", clause.head.offset)

    def _body_atoms(self) -> Iterator[Atom]:
        for clause in self.clauses.clauses:
            for literal in clause.body:
                yield from atoms(literal)

    def _columns(self, name: str) -> str:
        relation = self.relations.get(name)
        return f" ({', '.join(c.name for c in relation.columns)})" if relation else ""

    # ------------------------------------------------------------------------------------------------------- types

    def types(self) -> Typing:
        """Infer every variable's kind; helpers' columns take theirs from the clauses until nothing changes."""
        heads = [clause.head for clause in self.clauses.clauses]
        helpers: dict[str, list[Kind | None]] = {head.relation: [None] * len(head.terms) for head in heads}
        while True:
            before = {h: list(kinds) for h, kinds in helpers.items()}
            found = tuple(self._clause_types(clause, helpers) for clause in self.clauses.clauses)
            if before == helpers:
                return Typing({h: tuple(kinds) for h, kinds in helpers.items()}, found)

    def _clause_types(self, clause: Clause, helpers: dict[str, list[Kind | None]]) -> dict[str, Kind]:
        kinds: dict[str, Kind] = {}

        def unify(term: Term, kind: Kind | None, what: str, offset: int) -> Kind | None:
            """Give `term` a kind; None where neither side knows one yet."""
            if isinstance(term, Wildcard):
                return kind
            if isinstance(term, Constant):
                own: Kind | None = Kind(INTEGER) if isinstance(term.value, int) else None
                if own is None and kind is not None and kind.type == INTEGER:
                    raise self.fail(f"{term} is a string; {what} is {kind}", offset)
            else:
                own = kinds.get(term.name)
            met = kind if own is None else own if kind is None else own.meet(kind)
            if own is not None and kind is not None and met is None:
                raise self.fail(f"{term} is {own}; {what} is {kind}", offset)
            if isinstance(term, Variable) and met is not None:
                kinds[term.name] = met
            return met

        def atom(a: Atom) -> None:
            relation = self.relations.get(a.relation)
            for i, term in enumerate(a.terms):
                if relation is not None:
                    column = relation.columns[i]
                    unify(term, Kind(column.type, column.unit), f"{a.relation}.{column.name}", a.offset)
                else:
                    met = unify(term, helpers[a.relation][i], f"column {i + 1} of {a.relation}", a.offset)
                    helpers[a.relation][i] = met

        def compare(c: Compare) -> None:
            kind = unify(c.left, None, "", c.offset)
            kind = unify(c.right, kind, str(c.left), c.offset)
            unify(c.left, kind, str(c.right), c.offset)
            if c.op in ORDERINGS and kind is not None and kind.type != INTEGER:
                raise self.fail(f"{c.op} compares {kind} values, which have no order", c.offset)

        def literal(b: Literal) -> None:
            for a in atoms(b):
                atom(a)
            if isinstance(b, Compare):
                compare(b)
            if isinstance(b, Aggregate):
                for c in b.conditions:
                    compare(c)
                weight = unify(b.terms[0], None, "", b.offset)
                if b.function != "#count" and weight is not None and weight.type != INTEGER:
                    raise self.fail(f"{b.function} needs numbers; {b.terms[0]} is {weight}", b.offset)
                result = Kind(INTEGER) if b.function == "#count" else weight
                unify(b.bound, result, f"the {b.function[1:]}", b.offset)

        # Twice: a comparison may precede the atom that types its variables.
        for b in (*clause.body, *clause.body):
            literal(b)
        atom(clause.head)
        return kinds

    # ------------------------------------------------------------------------------------------------------ safety

    def safety(self, clause: Clause) -> None:
        """Every variable is bound by an atom, by `=` to something bound, or by an aggregate's `=`."""
        bound = bound_variables(clause.body)
        for literal in (clause.head, *clause.body):
            offset = literal.atom.offset if isinstance(literal, Not) else literal.offset
            names = variables(literal)
            if isinstance(literal, Aggregate):
                self._aggregate(literal, clause)
                names -= ranging(literal, clause)
            for name in sorted(names - bound):
                raise self.fail(f"{name} is unsafe: no positive atom binds it", offset)
            if isinstance(literal, Compare):
                if not names:
                    raise self.fail("a comparison needs a variable", offset)
                if Wildcard() in (literal.left, literal.right):
                    raise self.fail("'_' cannot be compared", offset)

    def _aggregate(self, aggregate: Aggregate, clause: Clause) -> None:
        local = ranging(aggregate, clause)
        inside = {t.name for t in aggregate.atom.terms if isinstance(t, Variable)}
        in_tuple = {t.name for t in aggregate.terms if isinstance(t, Variable)}
        for name in sorted(local - inside):
            raise self.fail(f"{name} is unsafe: the aggregate's atom does not bind it", aggregate.offset)
        sides = {t for c in aggregate.conditions for t in (c.left, c.right)}
        if Wildcard() in {*sides, *aggregate.terms, aggregate.bound}:
            raise self.fail("'_' may stand only in the aggregate's atom", aggregate.offset)
        if aggregate.function == "#sum":
            if missing := sorted(local - in_tuple):
                raise self.fail(
                    f"#sum counts equal tuples once: add {', '.join(missing)} to the tuple", aggregate.offset
                )
            if Wildcard() in aggregate.atom.terms:
                raise self.fail("#sum counts equal tuples once: name the column instead of '_'", aggregate.offset)


def ranging(aggregate: Aggregate, clause: Clause) -> frozenset[str]:
    """The variables over which an aggregate ranges: those that the rest of the clause does not mention."""
    rest: set[str] = set()
    for literal in (clause.head, *clause.body):
        if literal is not aggregate:
            rest |= variables(literal)
    if isinstance(aggregate.bound, Variable):
        rest.add(aggregate.bound.name)
    return variables(aggregate) - rest


def bound_variables(body: Iterable[Literal]) -> frozenset[str]:
    """The variables that a body binds."""
    body = tuple(body)
    bound: set[str] = set()
    for literal in body:
        if isinstance(literal, Atom):
            bound |= variables(literal)
        elif isinstance(literal, Aggregate) and literal.op == "=" and isinstance(literal.bound, Variable):
            bound.add(literal.bound.name)
    while True:
        before = len(bound)
        for literal in body:
            if isinstance(literal, Compare) and literal.op == "=":
                for one, other in ((literal.left, literal.right), (literal.right, literal.left)):
                    known = isinstance(one, Constant) or (isinstance(one, Variable) and one.name in bound)
                    if known and isinstance(other, Variable):
                        bound.add(other.name)
        if len(bound) == before:
            return frozenset(bound)
