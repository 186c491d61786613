"""The shortest clause that flags every failing program at the right op and no passing one.

Subsets of a bottom clause are searched as a hitting set. Whenever a candidate fires on a passing program, that firing
is extended to the whole bottom clause, and *some literal that is false there must be in the clause* becomes a demand;
when it misses a failing program, some literal of a smallest missing part must go. clingo finds the cheapest subsets
that meet all demands; when none is refuted any more they are exactly the optima, because every demand is necessary.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import clingo

from cake.core.clauses import (
    Aggregate,
    Atom,
    Clause,
    ClauseError,
    Clauses,
    Compare,
    Literal,
    Not,
    Variable,
    canonical,
    check_clauses,
)
from cake.core.clauses_tree import variables
from cake.core.vocabulary import RELATIONS
from distill.join import (
    NOTHING,
    Example,
    Substitution,
    aggregate_key,
    covers,
    extend,
    fires,
    holds,
    pattern,
    solutions,
    total,
)
from distill.saturate import TEXTUAL, Bottom, objects

#: A clause dearer than this says less than the program it comes from.
MAX_COST: Final = 20
#: Optima looked at in one round, and rounds of refutation, before the search gives up.
MAX_OPTIMA: Final = 24
MAX_ROUNDS: Final = 400


@dataclass(frozen=True, slots=True)
class Candidate:
    """One clause: the head variable, the body as picked from the bottom clause, its cost and its canonical text."""

    head: str
    body: tuple[Literal, ...]
    cost: int
    text: str

    def sort_key(self) -> tuple[int, int, int, int, str]:
        """Cheapest first, then the one that restates the text the least, then the one that looks at the least that it
        does not compare, then the shortest, then the least text: a total order."""
        textual = sum(isinstance(b, Atom) and b.relation in TEXTUAL for b in self.body)
        return (self.cost, textual, self._idle(), len(self.body), self.text)

    def _idle(self) -> int:
        """Columns of numbers whose unit no comparison of the clause is about."""
        units: dict[str, str] = {}
        for literal in self.body:
            if isinstance(literal, Atom):
                for term, column in zip(literal.terms, RELATIONS[literal.relation].columns, strict=True):
                    if isinstance(term, Variable) and column.type == "int":
                        units[term.name] = column.unit
        compared = {v for b in self.body if isinstance(b, Compare) for v in variables(b)}
        about = {units[v] for v in compared if v in units}
        return sum(unit not in about for unit in units.values())


@dataclass(frozen=True, slots=True)
class Search:
    """What a search ended with. `optima` are in canonical order and semantically distinct as text; an empty tuple with
    its `reason` means that there is no clause."""

    optima: tuple[Candidate, ...]
    demands: int
    rounds: int
    reason: str = ""


def search(bottom: Bottom, positives: Sequence[Example], negatives: Sequence[Example]) -> Search:
    """The cheapest clauses within `bottom` that cover all `positives` and fire on no one of `negatives`."""
    return _Search(bottom, tuple(positives), tuple(negatives)).run()


def clauses_of(head: str, body: Sequence[Literal]) -> Clauses:
    """The body as a one-clause rule that flags `head`."""
    return Clauses((Clause(Atom("finding", (Variable(head),)), tuple(body)),))


@dataclass(slots=True)
class _Search:
    bottom: Bottom
    positives: tuple[Example, ...]
    negatives: tuple[Example, ...]
    demands: set[frozenset[int]] = field(default_factory=set)
    pending: list[frozenset[int]] = field(default_factory=list)
    nogoods: set[frozenset[int]] = field(default_factory=set)
    spoilt: list[frozenset[int]] = field(default_factory=list)

    def run(self) -> Search:
        solver = _Solver(self.bottom)
        for example in self.negatives[:1]:
            for path in sorted({str(t[0]) for t in example.tuples("op")}):
                self._demand(example, {self.bottom.head: path})
        for rounds in range(1, MAX_ROUNDS + 1):
            for demand in self.pending:
                if not demand:
                    return Search((), len(self.demands), rounds, "a passing program looks exactly like the failing one")
                solver.require(demand)
            for nogood in self.spoilt:
                solver.forbid(nogood)
            self.pending, self.spoilt = [], []
            optima = list(solver.optima())
            if not optima:
                return Search((), len(self.demands), rounds, f"no clause costs at most {MAX_COST}")
            good = [c for c in optima if self._stands(c)]
            if not self.pending and not self.spoilt:
                found = {c.text: c for c in map(self._candidate, good)}
                return Search(tuple(sorted(found.values(), key=Candidate.sort_key)), len(self.demands), rounds)
        return Search((), len(self.demands), MAX_ROUNDS, f"not settled after {MAX_ROUNDS} rounds of refutation")

    # ------------------------------------------------------------------------------------------------------ refutation

    def _stands(self, chosen: frozenset[int]) -> bool:
        """Whether a candidate survives the examples; otherwise note what its failure demands."""
        body = self._body(chosen)
        try:
            check_clauses(clauses_of(self.bottom.head, body))
        except ClauseError:
            self._forbid(chosen)
            return False
        for example in self.negatives:
            refuted = False
            for n, found in enumerate(solutions(body, example, {}, True)):
                refuted = True
                self._demand(example, found)
                if n == 3:
                    break
            if refuted:
                return False
        for example in self.positives:
            if not covers(body, example, self.bottom.head):
                self._forbid(self._smallest_miss(chosen, example))
                return False
        return True

    def _forbid(self, nogood: frozenset[int]) -> None:
        if nogood not in self.nogoods:
            self.nogoods.add(nogood)
            self.spoilt.append(nogood)

    def _smallest_miss(self, chosen: frozenset[int], example: Example) -> frozenset[int]:
        """A part of the candidate that misses `example`, none of whose literals can be left out."""
        kept = sorted(chosen)
        for literal in sorted(chosen):
            smaller = [i for i in kept if i != literal]
            body = self._body(smaller)
            if self._closed(body) and not covers(body, example, self.bottom.head):
                kept = smaller
        return frozenset(kept)

    def _closed(self, body: Sequence[Literal]) -> bool:
        """Whether the body is safe and names the head: only then does a miss of it mean anything."""
        bound = {self.bottom.head} & {v for b in body if isinstance(b, Atom) for v in variables(b)}
        for literal in body:
            if isinstance(literal, Atom):
                bound |= variables(literal)
        for literal in body:
            if isinstance(literal, Aggregate) and isinstance(literal.bound, Variable):
                bound.add(literal.bound.name)
        return self.bottom.head in bound and all(_needs(b) <= bound for b in body)

    def _demand(self, example: Example, start: Substitution) -> None:
        """Extend a firing to the whole bottom clause, as true as it will go, and demand one of the false literals."""
        bound = self._extension(example, start)
        false = frozenset(i for i, b in enumerate(self.bottom.literals) if not holds(b, example, bound, True))
        if false not in self.demands:
            self.demands.add(false)
            self.pending.append(false)

    def _extension(self, example: Example, start: Substitution) -> Substitution:
        bound = dict(start)
        waiting = [b for b in self.bottom.literals if isinstance(b, Atom)]
        while waiting:
            later: list[Atom] = []
            for atom in waiting:
                columns, values = pattern(atom, bound)
                if not columns and atom.terms:
                    later.append(atom)
                    continue
                # Prefer the tuple that equals the failing program's in its words and ordinals: fewer false literals.
                options = example.matching(atom.relation, columns, values)
                best = max(options, key=lambda t: self._likeness(atom, t), default=None)
                new = extend(atom, best, bound) if best is not None else None
                if new is not None:
                    bound = new
            if len(later) == len(waiting):
                # Nothing connects the rest: start from the first of them.
                atom = later.pop(0)
                options = example.tuples(atom.relation)
                best = max(options, key=lambda t: self._likeness(atom, t), default=None)
                if best is not None:
                    bound = extend(atom, best, bound) or bound
            waiting = later
        for name in self.bottom.identity:
            bound.setdefault(name, NOTHING)
        for literal in self.bottom.literals:
            if isinstance(literal, Aggregate) and isinstance(literal.bound, Variable):
                bound[literal.bound.name] = start.get(literal.bound.name, total(literal, example, bound))
        return bound

    def _likeness(self, atom: Atom, t: tuple[int | str, ...]) -> int:
        score = 0
        for term, value in zip(atom.terms, t, strict=True):
            if isinstance(term, Variable):
                score += self.bottom.identity[term.name] == value
        return score

    # -------------------------------------------------------------------------------------------------------- results

    def _body(self, chosen: Sequence[int] | frozenset[int]) -> tuple[Literal, ...]:
        return tuple(self.bottom.literals[i] for i in sorted(chosen))

    def _candidate(self, chosen: frozenset[int]) -> Candidate:
        body = self._body(chosen)
        cost = sum(self.bottom.costs[i] for i in chosen)
        return Candidate(self.bottom.head, body, cost, canonical(clauses_of(self.bottom.head, body)))


def _needs(literal: Literal) -> frozenset[str]:
    """The variables of a literal that positive atoms must bind."""
    match literal:
        case Compare() | Not():
            return variables(literal)
        case Aggregate():
            return frozenset({aggregate_key(literal)})
    return frozenset()


_ENCODING: Final = """
{ in(L) : literal(L, _) }.
bound(V) :- in(L), binds(L, V).
:- in(L), needs(L, V), not bound(V).
:- in(L), guarded(L), not guard_in(L).
guard_in(L) :- in(L), guard(L, G), in(G).
:- head(V), not bound(V).
reach(V) :- head(V).
reach(V) :- reach(U), in(L), joins(L, U), joins(L, V).
:- in(L), joins(L, _), not reached(L).
reached(L) :- in(L), joins(L, V), reach(V).
:- #sum { C, L : in(L), literal(L, C) } > limit.
#minimize { C, L : in(L), literal(L, C) }.
#show in/1.
"""


class _Solver:
    """clingo, kept between rounds: demands only ever grow."""

    def __init__(self, bottom: Bottom) -> None:
        options = ["--opt-mode=optN", f"-c limit={MAX_COST}", "--seed=1", "--parallel-mode=1", "--warn=none"]
        self._control = clingo.Control(options, logger=lambda code, message: None)
        self._control.configuration.solve.models = 0  # type: ignore[union-attr]
        self._control.add("base", [], _ENCODING)
        self._control.add("base", [], "\n".join(_facts(bottom)))
        self._control.ground([("base", [])])
        atoms = self._control.symbolic_atoms
        self._atom = {a.symbol.arguments[0].number: a.literal for a in atoms.by_signature("in", 1)}

    def require(self, some: frozenset[int]) -> None:
        """At least one of these literals."""
        with self._control.backend() as backend:
            backend.add_rule([], [-self._atom[i] for i in sorted(some)])

    def forbid(self, together: frozenset[int]) -> None:
        """Not all of these literals."""
        with self._control.backend() as backend:
            backend.add_rule([], [self._atom[i] for i in sorted(together)])

    def optima(self) -> Iterator[frozenset[int]]:
        """Some of the cheapest subsets, at most `MAX_OPTIMA`."""
        found = 0
        with self._control.solve(yield_=True) as handle:
            for model in handle:
                if not model.optimality_proven:
                    continue
                yield frozenset(s.arguments[0].number for s in model.symbols(shown=True))
                found += 1
                if found == MAX_OPTIMA:
                    return


def _facts(bottom: Bottom) -> Iterator[str]:
    yield f'head("{bottom.head}").'
    for i, (literal, cost) in enumerate(zip(bottom.literals, bottom.costs, strict=True)):
        yield f"literal({i}, {cost})."
        for name in sorted(_needs(literal)):
            yield f'needs({i}, "{name}").'
        for name in sorted(_binds(literal)):
            yield f'binds({i}, "{name}").'
        for name in sorted(_joins(literal)):
            yield f'joins({i}, "{name}").'
        guards = bottom.guards(literal)
        if guards is not None:
            yield f"guarded({i})."
            yield from (f"guard({i}, {g})." for g in guards)


def _binds(literal: Literal) -> frozenset[str]:
    if isinstance(literal, Atom):
        return variables(literal)
    if isinstance(literal, Aggregate) and isinstance(literal.bound, Variable):
        return frozenset({literal.bound.name})
    return frozenset()


def _joins(literal: Literal) -> frozenset[str]:
    """The objects that a literal connects. What is in a clause has to be connected to its head by objects: that two
    numbers compare is no connection, save for facts about the whole program, which hold no object."""
    match literal:
        case Atom(relation=relation):
            columns = objects(RELATIONS[relation])
            return frozenset(t.name for i in columns if isinstance(t := literal.terms[i], Variable))
        case Not():
            return variables(literal)
        case Aggregate():
            return _needs(literal)
    return frozenset()


def equivalent_on(one: Candidate, two: Candidate, examples: Mapping[str, Example]) -> str | None:
    """The name of a program in which one of the clauses flags an op that the other does not, or None."""
    for name in sorted(examples):
        example = examples[name]
        if set(fires(one.body, example, one.head)) != set(fires(two.body, example, two.head)):
            return name
    return None
