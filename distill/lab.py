"""The laboratory: programs, their facts and their labels, each computed once per process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from cake.core.clauses import evaluate
from cake.core.explore import AFTERWARDS, Analysis, analyse
from cake.core.ir import IRError, Program
from cake.core.printer import print_program
from cake.core.programs import text_hash
from cake.core.reader import read_program
from cake.core.registry import targets
from cake.core.rule import Rule
from distill.join import Example
from distill.oracle import Judgement, Problem, Right, judge, reference

#: States that exploration may compare in one program here. Good programs close with a few hundred.
STATES = 1_500


@dataclass(slots=True)
class Lab:
    """Facts and labels by program hash. `rules` are the shipped rules."""

    rules: tuple[Rule, ...]
    _facts: dict[str, Example | None] = field(default_factory=dict)
    _closed: dict[str, bool] = field(default_factory=dict)
    _open: set[str] = field(default_factory=set)
    _right: dict[tuple[str, str], Right | None] = field(default_factory=dict)
    _labels: dict[tuple[str, str, str], Judgement] = field(default_factory=dict)
    _flags: dict[str, Mapping[str, frozenset[str]]] = field(default_factory=dict)
    _programs: dict[str, Program] = field(default_factory=dict)

    def read(self, text: str) -> Program:
        """The program of a canonical text. Raises IRError."""
        found = self._programs.get(text)
        if found is None:
            found = self._programs[text] = read_program(text)
        return found

    def name(self, program: Program) -> str:
        """A program's hash."""
        return text_hash(print_program(program))

    def example(self, program: Program, heads: frozenset[str] = frozenset()) -> Example | None:
        """The program's facts; `heads` are the ops at which it may be flagged, when it fails. None when exploration
        cannot take it in at all."""
        name = self.name(program)
        if name not in self._facts:
            analysis = self._explored(program)
            self._closed[name] = analysis is not None and analysis.closed
            self._facts[name] = None if analysis is None else Example(name, _frozen(analysis.facts), analysis.complete)
        found = self._facts[name]
        if found is None or not heads:
            return found
        return Example(name, found.facts, found.complete, heads)

    def usable(self, program: Program) -> Example | None:
        """The program's facts when its exploration closes. It is given up as soon as it cannot, which is cheaper."""
        name = self.name(program)
        if name not in self._facts and name not in self._open:
            analysis = self._explored(program, afterwards=0)
            if analysis is None or not analysis.closed:
                self._open.add(name)
            else:
                self._closed[name] = True
                self._facts[name] = Example(name, _frozen(analysis.facts), analysis.complete)
        return self._facts[name] if self._closed.get(name) else None

    def _explored(self, program: Program, afterwards: int = AFTERWARDS) -> Analysis | None:
        try:
            return analyse(program, targets().get(program.target), budget=STATES, afterwards=afterwards)
        except (IRError, ValueError, KeyError, ArithmeticError, RecursionError):
            return None

    def closed(self, program: Program) -> bool:
        """Whether exploration saw every execution."""
        self.example(program)
        return self._closed[self.name(program)]

    def flags(self, program: Program) -> Mapping[str, frozenset[str]]:
        """The shipped rules that flag a program, each with the first values of its findings; undecided rules that would
        block are listed with none."""
        name = self.name(program)
        if name not in self._flags:
            example = self.example(program)
            if example is None:
                self._flags[name] = {r.code: frozenset() for r in self.rules}
            else:
                found = evaluate(self.rules, example.facts, example.complete)
                hits = {c: frozenset(str(h[0]) for h in hs) for c, hs in found.hits.items() if hs}
                self._flags[name] = {**hits, **{c: frozenset() for c in found.unknown}}
        return self._flags[name]

    def clean(self, program: Program) -> bool:
        """Whether exploration closed and every shipped rule was decided and silent."""
        return self.usable(program) is not None and not self.flags(program)

    def right(self, program: Program, problem: Problem) -> Right | None:
        """What a right program gives, or None when it is not right by itself (see `distill.oracle.reference`)."""
        key = (self.name(program), repr(problem))
        if key not in self._right:
            self._right[key] = reference(program, problem)
        return self._right[key]

    def label(self, program: Program, problem: Problem, right: Right) -> Judgement:
        """What the oracle says of a program."""
        key = (self.name(program), repr(problem), right.checksum)
        if key not in self._labels:
            self._labels[key] = judge(program, problem, right)
        return self._labels[key]

    def preset(self, name: str, problem: Problem, right: Right, judgement: Judgement) -> None:
        """Take a label from stored evidence: the GPU has run this very program."""
        self._labels.setdefault((name, repr(problem), right.checksum), judgement)


def _frozen(facts: Mapping[str, set[tuple[int | str, ...]]]) -> dict[str, frozenset[tuple[int | str, ...]]]:
    return {relation: frozenset(tuples) for relation, tuples in facts.items()}


def programs_in(folder: Path, names: Sequence[str]) -> list[Program]:
    """The programs of some `.cake` files that can be read."""
    found = []
    for name in names:
        try:
            found.append(read_program((folder / name).read_text(), name))
        except (OSError, IRError):
            continue
    return found
