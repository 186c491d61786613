"""Saturation: every literal that holds around one op of one failing program, with variables for its values.

A clause that flags that op is a subset of this *bottom clause*. An object (an op, a barrier, a region, ...) has one
variable wherever it occurs, so a shared variable is a join. A number or a word has a variable of its own at each
occurrence: that two of them agree, or which word it is, is a literal of its own with a price, and so is left out where
it does not matter. Numbers are compared with each other, in one unit, or with small ordinals (a bit, phases, groups);
never with the sizes that one configuration happens to have.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Final

from cake.core.clauses import Aggregate, Atom, Compare, Constant, Literal, Not, Term, Variable, Wildcard
from cake.core.vocabulary import RELATIONS, Column, Relation
from distill.join import Example, Tuple, Value

#: Column types that hold an object; declared things share one name space, so one variable serves them all.
THINGS: Final = ("role", "buffer", "barrier", "map", "tensor", "cell", "object")
OBJECTS: Final = ("op", "loop", *THINGS)
#: Units whose small values are ordinals with a meaning of their own, and may be compared with a constant.
ORDINAL: Final = ("bit", "phases", "groups")
#: Units whose values are differences, each from an origin of its own: two of them have nothing to do with each other.
RELATIVE: Final = ("bit", "phases", "depth", "dimension", "id")
#: Wider column types last: what a variable holds is known best from the narrowest column it occurs in.
_NARROW: Final = {
    t: i for i, t in enumerate(("op", "loop", "role", "buffer", "barrier", "map", "tensor", "cell", "object"))
}

#: Relations that say nothing outside a domain: their negation is a condition only where one of these holds of the same
#: objects. `not ordered(A, B)` of two ops that never conflict, say, is no more than an accident of the examples.
DOMAIN: Final[Mapping[str, tuple[str, ...]]] = {
    "ordered": ("conflict",),
    "visible": ("conflict",),
    "conflict_kind": ("conflict",),
    "same_slot": ("guards",),
    "paced": ("arrives", "expects", "completes", "syncs"),
    "lasting": ("waits",),
    "retired": ("async", "commits"),
    "register_fenced": ("async",),
    "covers": ("async", "commits"),
    "commits": ("async",),
    "completes_slot": ("completes",),
    "in_bounds": ("global_access",),
}

#: Relations of a domain whose first object is not the one that they say something about.
ABOUT: Final[Mapping[str, int]] = {"commits": 1}

#: Prices, in rough proportion to what a reader has to take in. Structure is cheap, words are dearer, an instruction's
#: or operand's name is dearer still, and a bare number is the last resort.
ATOM, GLOBAL, NOT, TALLY = 4, 6, 5, 8
EQUAL, UNEQUAL, LESS, DISTINCT = 2, 3, 4, 3
WORD, NAME, KIND, NUMBER = 4, 5, 8, 6
#: What a `_` costs in the negation of a relation that holds unless refuted: "of nothing is it certain that" is vague.
BLANK: Final = 4
#: What a word costs that names a symptom: how a barrier is left behind by a hang says that there is one, not why.
SYMPTOM: Final = 9
SYMPTOMS: Final = ("State",)
#: What an atom costs that merely restates the text: that some op comes next, or that some operand is a number. That
#: there is none costs as much more.
TEXT: Final = 9
TEXTUAL: Final = frozenset(
    (
        "next",
        "back",
        "const",
        "flag",
        "index",
        "view_extent",
        "box_extent",
        "role",
        "alignment",
        "conditional",
        "may_skip",
    )
)
#: What a comparison costs less when both sides belong to one tuple: it says one thing about one thing.
WITHIN: Final = 1

#: Bounds that keep the bottom clause readable for the solver. Breadth-first order decides what is kept.
MAX_OPS: Final = 14
MAX_LITERALS: Final = 900


@dataclass(frozen=True, slots=True)
class Bottom:
    """A bottom clause: the variable of the flagged op, the literals with their prices, and the substitution under which
    all of them hold in the program that they come from."""

    head: str
    literals: tuple[Literal, ...]
    costs: tuple[int, ...]
    identity: Mapping[str, Value]

    def guards(self, literal: Literal) -> tuple[int, ...] | None:
        """The literals of which a clause with this negated one needs at least one; None when it needs none."""
        if not isinstance(literal, Not) or literal.atom.relation not in DOMAIN:
            return None
        inside = _object_variables(literal.atom)
        return tuple(
            i
            for i, b in enumerate(self.literals)
            if isinstance(b, Atom)
            and b.relation in DOMAIN[literal.atom.relation]
            and _object_variables(b)[ABOUT.get(b.relation, 0) :][: len(inside)] == inside
        )


def _object_variables(atom: Atom) -> tuple[str, ...]:
    """The variables of an atom's object columns, in order."""
    columns = objects(RELATIONS[atom.relation])
    return tuple(t.name for i in columns if isinstance(t := atom.terms[i], Variable))


@dataclass(frozen=True, slots=True)
class _Occurrence:
    """A number or a word at one place: its variable, value, relation and column."""

    variable: str
    value: Value
    relation: str
    column: Column
    atom: int


def objects(relation: Relation) -> tuple[int, ...]:
    """The columns that hold objects."""
    return tuple(i for i, c in enumerate(relation.columns) if c.type in OBJECTS)


def _space(kind: str) -> str:
    return "thing" if kind in THINGS else kind


@dataclass(slots=True)
class _Builder:
    example: Example
    names: dict[tuple[str, Value], str] = field(default_factory=dict)
    kinds: dict[str, str] = field(default_factory=dict)
    depth: dict[str, int] = field(default_factory=dict)
    identity: dict[str, Value] = field(default_factory=dict)
    found: dict[tuple[str, Tuple], None] = field(default_factory=dict)
    literals: dict[Literal, int] = field(default_factory=dict)
    occurrences: list[_Occurrence] = field(default_factory=list)

    # ------------------------------------------------------------------------------------------------------ objects

    def variable(self, kind: str, value: Value, depth: int) -> str | None:
        """The variable of an object, made on first sight; None when there are too many ops already."""
        key = (_space(kind), value)
        name = self.names.get(key)
        if name is None:
            if kind == "op" and sum(k == "op" for k in self.kinds.values()) >= MAX_OPS:
                return None
            name = self.names[key] = f"{key[0].title()}{len(self.names)}"
            self.kinds[name], self.depth[name], self.identity[name] = kind, depth, value
        elif _NARROW[kind] < _NARROW[self.kinds[name]]:
            self.kinds[name] = kind
        return name

    def known(self, relation: Relation, t: Tuple) -> bool:
        """Whether all objects of a tuple have variables."""
        return all((_space(relation.columns[i].type), t[i]) in self.names for i in objects(relation))

    def expand(self, depth: int) -> None:
        """Take in the tuples that hold an object found at `depth`, and give their other objects variables.

        Loops, roles and tensors lead to everything, so nothing is reached through them."""
        for relation in RELATIONS.values():
            columns = objects(relation)
            for t in self.example.tuples(relation.name):
                keys = [(_space(relation.columns[i].type), t[i]) for i in columns]
                frontier = any(
                    k in self.names and self.depth[self.names[k]] == depth and self._leads(self.names[k]) for k in keys
                )
                if frontier and not _is_detail(relation, depth):
                    for i in columns:
                        self.variable(relation.columns[i].type, t[i], depth + 1)
                    if self.known(relation, t):
                        self.found[relation.name, t] = None

    def _leads(self, name: str) -> bool:
        return self.kinds[name] not in ("loop", "role", "tensor")

    def close(self) -> None:
        """Take in every tuple whose objects all have variables, and those that hold no object at all."""
        for relation in RELATIONS.values():
            for t in self.example.tuples(relation.name):
                if self.known(relation, t) and not _is_detail(relation, 2):
                    self.found[relation.name, t] = None

    # ------------------------------------------------------------------------------------------------------- literals

    def add(self, literal: Literal, cost: int) -> None:
        """One literal, at the lower of its prices; none beyond `MAX_LITERALS`."""
        if literal in self.literals:
            self.literals[literal] = min(cost, self.literals[literal])
        elif len(self.literals) < MAX_LITERALS:
            self.literals[literal] = cost

    def atoms(self) -> None:
        """A positive literal for each tuple found."""
        for index, (name, t) in enumerate(self.found):
            relation = RELATIONS[name]
            terms: list[Term] = []
            for column, value in zip(relation.columns, t, strict=True):
                if column.type in OBJECTS:
                    terms.append(Variable(self.names[_space(column.type), value]))
                else:
                    prefix = "N" if column.type == "int" else "S"
                    term = Variable(f"{prefix}{len(self.occurrences)}")
                    self.occurrences.append(_Occurrence(term.name, value, name, column, index))
                    self.identity[term.name] = value
                    terms.append(term)
            # That nothing refuted a relation is more than a clause needs to know of an op that it merely points at.
            price = TEXT if name in TEXTUAL else ATOM + (name in DOMAIN)
            self.add(Atom(name, tuple(terms)), price if objects(relation) else GLOBAL)

    def tallies(self) -> None:
        """Sums and counts over what shares an object: the arrivals on a barrier, the ops that wait on it."""
        for name, kind in list(self.kinds.items()):
            if kind not in ("barrier", "buffer"):
                continue
            for relation in RELATIONS.values():
                keys = [i for i, c in enumerate(relation.columns) if c.type == kind]
                ops = [i for i, c in enumerate(relation.columns) if c.type == "op"]
                if len(keys) != 1 or len(ops) != 1:
                    continue
                for i, column in enumerate(relation.columns):
                    if column.type == "int":
                        self._tally("#sum", relation, name, keys[0], i)
                self._tally("#count", relation, name, keys[0], ops[0])

    def _tally(self, function: str, relation: Relation, name: str, key: int, column: int) -> None:
        inner = [Variable(f"{c.name}_") for c in relation.columns]
        terms: tuple[Term, ...] = tuple(Variable(name) if i == key else v for i, v in enumerate(inner))
        if function == "#sum":
            ranging = (inner[column], *(v for i, v in enumerate(inner) if i not in (column, key)))
            unit = relation.columns[column].unit
        else:
            ranging, unit = (inner[column],), "count"
            terms = tuple(t if i in (key, column) else Wildcard() for i, t in enumerate(terms))
        value = self.example.aggregate(function, relation.name, key, column, self.identity[name])
        end = Variable(f"N{len(self.occurrences)}")
        made = Column(f"{function[1:]}_{relation.name}", "int", unit)
        self.occurrences.append(_Occurrence(end.name, value, f"{function}{relation.name}", made, -1))
        self.identity[end.name] = value
        self.add(Aggregate(function, ranging, Atom(relation.name, terms), (), "=", end), TALLY)

    def comparisons(self) -> None:
        """What the numbers and words of the bottom clause are, to each other and by themselves."""
        for one in self.occurrences:
            if one.column.type == "symbol":
                price = SYMPTOM if one.column.name in SYMPTOMS else WORD
                self.add(Compare("=", Variable(one.variable), Constant(one.value)), price)
            elif one.column.type == "name" and one.column.name != "Var":
                self.add(
                    Compare("=", Variable(one.variable), Constant(one.value)),
                    KIND if one.column.name == "Kind" else NAME,
                )
            elif one.column.unit in ORDINAL and isinstance(one.value, int) and abs(one.value) <= 1:
                self.add(Compare("=", Variable(one.variable), Constant(one.value)), NUMBER)
        for one, two in combinations(self.occurrences, 2):
            if one.atom != two.atom or one.atom == -1 or one.column.unit:
                self._relate(one, two)
        ops = [n for n, k in self.kinds.items() if k == "op"]
        for a, b in combinations(ops, 2):
            self.add(Compare("!=", Variable(a), Variable(b)), DISTINCT)

    def _relate(self, one: _Occurrence, two: _Occurrence) -> None:
        left, right = Variable(one.variable), Variable(two.variable)
        same_place = (one.relation, one.column.name) == (two.relation, two.column.name)
        if one.column.type != two.column.type:
            return
        if one.column.type == "int":
            if one.column.unit != two.column.unit or one.column.unit in RELATIVE or same_place:
                return
            assert isinstance(one.value, int)
            assert isinstance(two.value, int)
            within = WITHIN if one.atom == two.atom != -1 else 0
            if one.value == two.value:
                self.add(Compare("=", left, right), EQUAL - within)
            else:
                self.add(Compare("!=", left, right), UNEQUAL - within)
                self.add(Compare("<", *((left, right) if one.value < two.value else (right, left))), LESS - within)
        elif one.column.name == two.column.name and one.column.name not in ("Var", "Field"):
            if one.value == two.value:
                self.add(Compare("=", left, right), EQUAL if one.column.type == "name" else LESS)
            else:
                self.add(Compare("!=", left, right), LESS)

    def negations(self, words: Mapping[tuple[str, int], Sequence[Value]]) -> None:
        """What does not hold: of one object near the op, or of two objects that a tuple brings together."""
        together = self._pairs()
        for relation in RELATIONS.values():
            if relation.name not in self.example.complete:
                continue
            for body in self._absent(relation, together, words):
                columns = [i for i, t in enumerate(body) if not isinstance(t, Wildcard)]
                values = tuple(
                    t.value if isinstance(t, Constant) else self.identity[str(t)]
                    for t in body
                    if not isinstance(t, Wildcard)
                )
                if not self.example.matching(relation.name, tuple(columns), values):
                    blanks = sum(isinstance(body[i], Wildcard) for i in objects(relation))
                    vague = blanks * BLANK if relation.complete_when == "always" else 0
                    cost = NOT + sum(isinstance(t, Constant) for t in body) * WORD + vague
                    cost += TEXT - ATOM if relation.name in TEXTUAL else 0
                    self.add(Not(Atom(relation.name, body)), cost)

    def _pairs(self) -> set[tuple[str, str]]:
        pairs: set[tuple[str, str]] = set()
        for literal in self.literals:
            if isinstance(literal, Atom):
                inside = [t.name for t in literal.terms if isinstance(t, Variable) and t.name in self.kinds]
                pairs |= {(a, b) for a in inside for b in inside if a != b}
        return pairs

    def _absent(
        self, relation: Relation, together: set[tuple[str, str]], words: Mapping[tuple[str, int], Sequence[Value]]
    ) -> Iterator[tuple[Term, ...]]:
        columns = objects(relation)
        blank: tuple[Term, ...] = (Wildcard(),) * relation.arity
        fitting = {i: [n for n in self.kinds if _fits(self.kinds[n], relation.columns[i].type)] for i in columns}
        chosen: list[tuple[Term, ...]] = []
        for i in columns:
            chosen += [_put(blank, i, n) for n in fitting[i] if self.depth[n] <= 1 or self.kinds[n] != "op"]
        for i, j in combinations(columns, 2):
            chosen += [_put(_put(blank, i, a), j, b) for a in fitting[i] for b in fitting[j] if (a, b) in together]
        worded = [i for i, c in enumerate(relation.columns) if c.type == "symbol"]
        for body in chosen:
            yield body
            for i in worded:
                for word in words.get((relation.name, i), ()):
                    yield (*body[:i], Constant(word), *body[i + 1 :])


def irregular(example: Example) -> frozenset[str]:
    """Relations that hold unless refuted, and are refuted somewhere in their domain; and those that hold only of what a
    sound program rarely does. A good program that loses parts must not gain any of these."""
    found = {name for name in ("reads_unwritten", "supersedes", "outside") if example.tuples(name)}
    for name, domain in DOMAIN.items():
        if RELATIONS[name].complete_when != "always":
            continue
        width = len(objects(RELATIONS[name]))
        held = {t[:width] for t in example.tuples(name)}
        asked = {
            t[ABOUT.get(r, 0) :][:width]
            for r in domain
            for t in example.tuples(r)
            if len(objects(RELATIONS[r])) - ABOUT.get(r, 0) >= width
        }
        if asked - held:
            found.add(name)
    return frozenset(found)


def _is_detail(relation: Relation, depth: int) -> bool:
    """Operand-level tuples (one object and several values: constants, flags, extents) matter for the op itself only."""
    return depth > 0 and len(objects(relation)) == 1 and relation.columns[0].type == "op" and relation.arity >= 3


def _fits(kind: str, column: str) -> bool:
    if kind == column:
        return True
    return (column == "object" and kind in ("buffer", "barrier", "map", "role")) or (
        column == "cell" and kind in ("buffer", "tensor")
    )


def _put(terms: tuple[Term, ...], i: int, name: str) -> tuple[Term, ...]:
    return (*terms[:i], Variable(name), *terms[i + 1 :])


def vocabulary_words(examples: Sequence[Example]) -> dict[tuple[str, int], tuple[Value, ...]]:
    """The words that occur in each symbol column over all examples, in order."""
    found: dict[tuple[str, int], set[Value]] = {}
    for relation in RELATIONS.values():
        for i, column in enumerate(relation.columns):
            if column.type == "symbol":
                found[relation.name, i] = {t[i] for e in examples for t in e.tuples(relation.name)}
    return {k: tuple(sorted(map(str, v))) for k, v in found.items()}


def saturate(example: Example, head: str, words: Mapping[tuple[str, int], Sequence[Value]], reach: int = 2) -> Bottom:
    """The bottom clause around op `head` of `example`: what is at most `reach` tuples away. `words` are the symbols
    that negated literals may name (see `vocabulary_words`)."""
    builder = _Builder(example)
    top = builder.variable("op", head, 0)
    assert top is not None
    for depth in range(reach):
        builder.expand(depth)
    builder.close()
    builder.atoms()
    builder.tallies()
    builder.negations(words)
    builder.comparisons()
    return Bottom(top, tuple(builder.literals), tuple(builder.literals.values()), builder.identity)
