"""Reduction: the smallest pair of programs that still differ in the same way, with the oracle as judge.

The passes are those of hierarchical delta debugging, on both programs at once: whole roles, then statements from the
outside in, by halves and then one by one; blocks are opened; loops get constant bounds; unused declarations go; values
become constants; counts shrink. A step is kept when the pair is less in one total order and the judge accepts
it, so the same pair always ends at the same minimum. The judge is asked a bounded number of times.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from cake.core.ir import I32, Assign, Const, For, If, IRError, OpStmt
from cake.core.printer import print_program
from cake.core.tree import nodes
from distill import shrink
from distill.pair import Item, Pair, places
from distill.shrink import Where

Judge = Callable[[Pair], bool]
#: How often a judge is asked about one pair.
MAX_QUESTIONS: Final = 240
#: Trip counts to try for a loop, fewest first: some faults need a second round, some a second use of a slot.
TRIPS: Final = (1, 2, 4)


@dataclass(frozen=True, slots=True)
class Reduction:
    """The reduced pair, the questions asked, the steps that were kept, and whether the budget ended it early."""

    pair: Pair
    questions: int
    steps: tuple[str, ...]
    exhausted: bool


def weight(p: Pair) -> tuple[int, int, int, str]:
    """The total order: fewer lines in both programs, smaller numbers, shorter text, then the text itself."""
    bad, good = print_program(p.bad), print_program(p.good)
    total = sum(abs(int(c.value)) for c in nodes((p.bad, p.good)) if isinstance(c, Const) and c.type == I32)
    return (bad.count("\n") + good.count("\n"), total, len(bad) + len(good), bad + good)


def reduce_pair(start: Pair, judge: Judge, budget: int = MAX_QUESTIONS) -> Reduction:
    """Reduce `start`, which the judge accepts, until no pass gets anywhere or the budget is spent."""
    return _Reducer(start, judge, budget).run()


@dataclass(slots=True)
class _Reducer:
    pair: Pair
    judge: Judge
    budget: int
    questions: int = 0
    steps: list[str] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)

    def run(self) -> Reduction:
        passes = (
            self._roles,
            self._statements,
            self._open,
            self._loops,
            self._declarations,
            self._shrink,
            self._values,
        )
        while True:
            before = len(self.steps)
            for one in passes:
                one()
            if len(self.steps) == before or self.questions >= self.budget:
                return Reduction(self.pair, self.questions, tuple(self.steps), self.questions >= self.budget)

    def attempt(self, what: str, build: Callable[[Pair], Pair]) -> bool:
        """Keep what `build` makes of the pair if it is less, and the judge accepts it."""
        if self.questions >= self.budget:
            return False
        try:
            new = build(self.pair)
        except (IRError, ValueError):
            return False
        key = weight(new)
        if key[3] in self.seen or key >= weight(self.pair):
            return False
        self.seen.add(key[3])
        self.questions += 1
        if new.bad == new.good or not self.judge(new):
            return False
        self.pair = new
        self.steps.append(what)
        return True

    # --------------------------------------------------------------------------------------------------------- passes

    def _roles(self) -> None:
        for name, items in self.pair.items:
            if all(i.same for i in items):
                self.attempt(f"dropped role {name}", partial(shrink.without_role, name))

    def _statements(self) -> None:
        """Drop statements that both have: depth by depth, all of them, then halves, quarters, ..., then single ones."""
        depth = 0
        while found := self._at(depth):
            removable = [where for where, item in found if item.same]
            size = len(removable)
            while size:
                i = 0
                while i < len(removable):
                    chunk = frozenset(removable[i : i + size])
                    if self.attempt(f"dropped {len(chunk)} statements", partial(shrink.without, chunk)):
                        # Places have moved: read them again, and go on behind what is left of this stretch.
                        removable = [where for where, item in self._at(depth) if item.same]
                    else:
                        i += size
                size //= 2
            depth += 1

    def _at(self, depth: int) -> list[tuple[Where, Item]]:
        return [
            ((role, place), item)
            for role, items in self.pair.items
            for place, item in places(items)
            if len(place) == depth + 1
        ]

    def _blocks(self) -> list[tuple[Where, Item]]:
        """Blocks that both programs have, innermost last statement first, so that a change leaves the rest in place."""
        found = [
            ((role, place), item) for role, items in self.pair.items for place, item in places(items) if item.nested
        ]
        return found[::-1]

    def _open(self) -> None:
        for where, _ in self._blocks():
            self.attempt("opened a block", partial(shrink.opened, where))

    def _loops(self) -> None:
        for where, item in self._blocks():
            if isinstance(item.stmt, For):
                any(self.attempt("bounded a loop", partial(shrink.bounded, where, n)) for n in TRIPS)

    def _declarations(self) -> None:
        for decl in reversed(self.pair.good.decls):
            self.attempt(f"dropped {decl.name}", partial(shrink.undeclared, decl.name))
        for param in reversed(self.pair.good.params):
            self.attempt(f"dropped {param.name}", partial(shrink.unparametrised, param.name))
        self.attempt("one CTA", shrink.one_cta)

    def _shrink(self) -> None:
        for decl in self.pair.good.decls:
            for count, value in shrink.counts(decl):
                smaller = sorted({1, value // 2, value - 1} - {0, value})
                what = f"fewer {count} of {decl.name}"
                any(self.attempt(what, partial(shrink.with_count, decl.name, count, n)) for n in smaller)

    def _values(self) -> None:
        for role, items in self.pair.items:
            for place, item in list(places(items)):
                if item.same and isinstance(item.stmt, Assign | If | OpStmt):
                    for n, expr in enumerate(shrink.expressions(item.bad)):
                        step = [partial(shrink.revalued, (role, place), n, new) for new in shrink.simpler(expr)]
                        any(self.attempt("simplified a value", build) for build in step)
