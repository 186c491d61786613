"""The clause tree, its text as written and its canonical text."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import chain, permutations, product
from typing import Final, TypeAlias

#: The predicate that a rule defines.
FINDING: Final = "finding"
ORDERINGS: Final = ("<", "<=", ">", ">=")
COMPARISONS: Final = ("=", "!=", *ORDERINGS)
AGGREGATES: Final = ("#count", "#sum", "#min", "#max")
#: What `a OP b` becomes when it is written `b OP a`.
MIRRORED: Final = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
#: Literals of one body and conditions of one aggregate: beyond these, a helper reads better, and ordering stays cheap.
MAX_BODY: Final = 24
MAX_CONDITIONS: Final = 3


class ClauseError(ValueError):
    """Clauses that cannot be accepted. `reason` says why; `line` and `column` are 1-based (0 where the tree was built
    rather than read)."""

    def __init__(self, reason: str, text: str = "", offset: int = -1) -> None:
        self.reason = reason
        self.line = self.column = 0
        message = reason
        if 0 <= offset <= len(text):
            start = text.rfind("\n", 0, offset) + 1
            self.line = text.count("\n", 0, offset) + 1
            self.column = offset - start + 1
            source = text[start:].split("\n", 1)[0]
            message = f"line {self.line}, column {self.column}: {reason}\n  {source}\n  {' ' * (offset - start)}^"
        super().__init__(message)


@dataclass(frozen=True, slots=True)
class Variable:
    """A logic variable; it starts with a capital letter."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Constant:
    """A number or a string."""

    value: int | str

    def __str__(self) -> str:
        if isinstance(self.value, int):
            return str(self.value)
        return '"' + self.value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"') + '"'


@dataclass(frozen=True, slots=True)
class Wildcard:
    """`_`: any value, not remembered."""

    def __str__(self) -> str:
        return "_"


Term: TypeAlias = Variable | Constant | Wildcard


@dataclass(frozen=True, slots=True)
class Atom:
    """`relation(term, ...)`. `offset` is where it stands in the text it was read from."""

    relation: str
    terms: tuple[Term, ...]
    offset: int = field(default=-1, compare=False, repr=False)

    def __str__(self) -> str:
        return f"{self.relation}({', '.join(map(str, self.terms))})"


@dataclass(frozen=True, slots=True)
class Not:
    """`not atom`: no such tuple exists."""

    atom: Atom

    def __str__(self) -> str:
        return f"not {self.atom}"


@dataclass(frozen=True, slots=True)
class Compare:
    """`left op right`, both of one type and unit."""

    op: str
    left: Term
    right: Term
    offset: int = field(default=-1, compare=False, repr=False)

    def __str__(self) -> str:
        return f"{self.left} {self.op} {self.right}"


@dataclass(frozen=True, slots=True)
class Aggregate:
    """`function { terms : atom, conditions } op bound`, over the distinct tuples of `terms`.

    Variables that occur outside the braces are fixed; the others range. `#sum` adds the first term of each tuple, and
    its tuple names every ranging variable, so that equal values of different tuples both count.
    """

    function: str
    terms: tuple[Term, ...]
    atom: Atom
    conditions: tuple[Compare, ...]
    op: str
    bound: Term
    offset: int = field(default=-1, compare=False, repr=False)

    def __str__(self) -> str:
        inner = ", ".join(map(str, (self.atom, *self.conditions)))
        return f"{self.function} {{ {', '.join(map(str, self.terms))} : {inner} }} {self.op} {self.bound}"


Literal: TypeAlias = Atom | Not | Compare | Aggregate
#: The order of a canonical body: what binds first.
RANK: Final[dict[type[Literal], int]] = {Atom: 0, Compare: 1, Not: 2, Aggregate: 3}


@dataclass(frozen=True, slots=True)
class Clause:
    """`head :- body.`"""

    head: Atom
    body: tuple[Literal, ...]

    def __str__(self) -> str:
        return f"{self.head} :- {', '.join(map(str, self.body))}."


@dataclass(frozen=True, slots=True)
class Clauses:
    """A rule's clauses: one or more for `finding`, and those of its helper predicates."""

    clauses: tuple[Clause, ...]

    def __str__(self) -> str:
        return print_clauses(self)

    @property
    def heads(self) -> frozenset[str]:
        """Predicates that the clauses define, `finding` included."""
        return frozenset(c.head.relation for c in self.clauses)

    @property
    def relations(self) -> frozenset[str]:
        """Fact relations that the clauses read."""
        return frozenset(a.relation for c in self.clauses for b in c.body for a in atoms(b)) - self.heads

    def of(self, predicate: str) -> tuple[Clause, ...]:
        """The clauses that define `predicate`."""
        return tuple(c for c in self.clauses if c.head.relation == predicate)


def atoms(literal: Literal) -> tuple[Atom, ...]:
    """The atoms inside one body literal."""
    match literal:
        case Atom():
            return (literal,)
        case Not(atom) | Aggregate(atom=atom):
            return (atom,)
    return ()


def terms(literal: Literal) -> Iterator[Term]:
    """All terms of one body literal, in reading order."""
    match literal:
        case Atom(terms=inner) | Not(Atom(terms=inner)):
            yield from inner
        case Compare(_, left, right):
            yield from (left, right)
        case Aggregate(_, tuple_, atom, conditions, _, bound):
            yield from tuple_
            yield from atom.terms
            for condition in conditions:
                yield from (condition.left, condition.right)
            yield bound


def variables(literal: Literal) -> frozenset[str]:
    """Names of the variables of one body literal."""
    return frozenset(t.name for t in terms(literal) if isinstance(t, Variable))


def map_terms(literal: Literal, change: Callable[[Term], Term], rename: Callable[[str], str]) -> Literal:
    """`literal` with every term passed through `change` and every relation name through `rename`."""
    match literal:
        case Atom(relation, inner, offset):
            return Atom(rename(relation), tuple(map(change, inner)), offset)
        case Not(atom):
            return Not(Atom(rename(atom.relation), tuple(map(change, atom.terms)), atom.offset))
        case Compare(op, left, right, offset):
            return Compare(op, change(left), change(right), offset)
        case Aggregate(function, tuple_, atom, conditions, op, bound, offset):
            return Aggregate(
                function,
                tuple(map(change, tuple_)),
                Atom(rename(atom.relation), tuple(map(change, atom.terms)), atom.offset),
                tuple(Compare(c.op, change(c.left), change(c.right), c.offset) for c in conditions),
                op,
                change(bound),
                offset,
            )


def print_clauses(clauses: Clauses) -> str:
    """One clause a line, with the author's variable names; `parse_clauses` reads it back to an equal tree."""
    return "\n".join(map(str, clauses.clauses))


# ------------------------------------------------------------------------------------------------------ canonical text


def canonical(clauses: Clauses) -> str:
    """The same text for clause sets that differ only in the names of variables and helpers and in the order of clauses,
    body literals and comparison sides. Equal texts mean equal rules; different texts may still mean equivalent ones."""
    names: dict[str, str] = {FINDING: FINDING}
    rename = {**dict.fromkeys(clauses.heads, "helper"), FINDING: FINDING}
    # A helper is known by the hash of its clauses, in which the helpers below it stand by their own hashes. Rounds
    # equal to the number of helpers reach the bottom of every chain; a recursive one keeps hashing its own last hash.
    for _ in range(len(clauses.heads)):
        rename = {**{h: _digest(clauses, h, rename) for h in clauses.heads}, FINDING: FINDING}
    helpers = sorted(clauses.heads - {FINDING}, key=lambda h: rename[h])
    names |= {h: f"helper{i}" for i, h in enumerate(helpers)}
    return "\n".join(line for h in (FINDING, *helpers) for line in _lines(clauses, h, names))


def fingerprint(clauses: Clauses) -> str:
    """sha256 of the canonical text, hexadecimal."""
    return hashlib.sha256(canonical(clauses).encode()).hexdigest()


def _digest(clauses: Clauses, predicate: str, names: dict[str, str]) -> str:
    return "h" + hashlib.sha256("\n".join(_lines(clauses, predicate, names)).encode()).hexdigest()


def _lines(clauses: Clauses, predicate: str, names: dict[str, str]) -> list[str]:
    return sorted({_canonical_clause(c, names) for c in clauses.of(predicate)})


def _orient(literal: Literal) -> tuple[Literal, ...]:
    """The ways in which a literal may be written; `>` and `>=` always become `<` and `<=`."""
    match literal:
        case Compare(op, left, right):
            mirrored = Compare(MIRRORED[op], right, left)
            return (mirrored,) if op in (">", ">=") else (literal, mirrored) if op in ("=", "!=") else (literal,)
        case Aggregate(function, tuple_, atom, conditions, op, bound) if conditions:
            ways = (product(*map(_orient, order)) for order in permutations(conditions))
            return tuple(
                Aggregate(function, tuple_, atom, tuple(c for c in way if isinstance(c, Compare)), op, bound)
                for way in chain.from_iterable(ways)
            )
    return (literal,)


def _canonical_clause(clause: Clause, names: dict[str, str]) -> str:
    """The least printing: always append the body literal that comes first (atoms, comparisons, negations, aggregates;
    then by its text with the variables named so far), and try every literal that ties."""

    def show(literal: Literal, bound: dict[str, str]) -> tuple[str, dict[str, str]]:
        seen = dict(bound)

        def change(term: Term) -> Term:
            if isinstance(term, Variable):
                return Variable(seen.setdefault(term.name, f"V{len(seen)}"))
            return term

        return str(map_terms(literal, change, lambda n: names.get(n, n))), seen

    def finish(rest: tuple[Literal, ...], bound: dict[str, str]) -> tuple[tuple[int, str], ...]:
        if not rest:
            return ()
        options = [
            (RANK[type(way)], *show(way, bound), i) for i, literal in enumerate(rest) for way in _orient(literal)
        ]
        least = min((rank, text) for rank, text, _, _ in options)
        # Literals without new variables tie only with copies of themselves: following one of them is enough.
        ties = {(i, tuple(seen.items())): seen for rank, text, seen, i in options if (rank, text) == least}
        if all(seen == bound for seen in ties.values()):
            ties = dict([next(iter(ties.items()))])
        return min((least, *finish(rest[:i] + rest[i + 1 :], dict(seen))) for i, seen in ties)

    head, bound = show(clause.head, {})
    body = tuple(dict.fromkeys(clause.body))
    return f"{head} :- {', '.join(text for _, text in finish(body, bound))}."
