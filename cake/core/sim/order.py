"""Orders: which of the things that may happen next does happen, and how late asynchronous effects come."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from cake.core.sim.flight import Flight, Operation

if TYPE_CHECKING:
    from cake.core.sim.machine import Machine

OrderName: TypeAlias = Literal["eager", "lazy", "random"]

#: Bits of a lazy order's seed.
EARLY_COPIES: Final = 1  # operations that complete on a barrier land at once
LAST_FIRST: Final = 2  # the last agent has priority, not the first
EARLY_GROUPS: Final = 4  # operations that complete in groups run at once


class Order:
    """The friendly machine: agents take turns, every asynchronous effect comes at once, proxies agree."""

    def pick(self, ready: Sequence[Machine]) -> int:
        """The index of the agent to run next; `ready` holds them in the order in which they became ready."""
        return 0

    def early(self, operation: Operation) -> bool:
        """Whether an operation ends as soon as it starts."""
        return True

    def hides(self) -> bool:
        """Whether a write stays unseen by asynchronous readers until it is fenced."""
        return False

    def pieces(self) -> bool:
        """Whether a copy's bytes count in pieces, so that a phase that expects too few may end in the middle of it."""
        return False

    def nudge(self, flight: Flight) -> None:
        """Let operations in flight make progress of their own accord."""

    def force(self, operations: Sequence[Operation]) -> Operation:
        """The operation that ends next when no agent can move without one."""
        return operations[0]


class LazyOrder(Order):
    """One agent runs as far as it can while the others starve; effects come as late as permitted, but for what the
    seed's bits make early."""

    def __init__(self, seed: int) -> None:
        self._copies = bool(seed & EARLY_COPIES)
        self._groups = bool(seed & EARLY_GROUPS)
        self._sign = -1 if seed & LAST_FIRST else 1

    def pick(self, ready: Sequence[Machine]) -> int:
        """The first agent in priority order."""
        return min(range(len(ready)), key=lambda i: self._sign * ready[i].index)

    def early(self, operation: Operation) -> bool:
        """By the seed's bits."""
        return self._copies if operation.done is not None else self._groups

    def hides(self) -> bool:
        """Always."""
        return True

    def force(self, operations: Sequence[Operation]) -> Operation:
        """The newest: operations that are not ordered may well overtake each other."""
        return operations[-1]


class RandomOrder(Order):
    """A random adversary: each run draws how it schedules, how late effects come and how long writes stay hidden.

    Half of the runs schedule by random priorities that change now and then, which finds rare orderings that need one
    agent far ahead (probabilistic concurrency testing); the other half pick uniformly.
    """

    def __init__(self, seed: int) -> None:
        self._pieces = bool(seed % 2)
        self._random = random.Random(seed)
        self._priorities: dict[int, float] | None = {} if self._random.random() < 0.5 else None
        # Copies that refill a buffer early and readers that come late expose more than the reverse.
        self._early_copies = self._random.choice((0.0, 0.5, 1.0, 1.0))
        self._early_groups = self._random.choice((0.0, 0.0, 0.5, 1.0))
        self._hidden = self._random.choice((0.0, 0.5, 1.0))
        self._nudge = self._random.choice((0.0, 0.0, 0.02, 0.2))

    def pick(self, ready: Sequence[Machine]) -> int:
        """Uniform, or the highest of priorities that are redrawn now and then."""
        priorities = self._priorities
        if priorities is None:
            return int(self._random.random() * len(ready))
        for machine in ready:
            if machine.index not in priorities:
                priorities[machine.index] = self._random.random()
        best = max(range(len(ready)), key=lambda i: priorities[ready[i].index])
        if self._random.random() < 0.03:
            priorities[ready[best].index] = self._random.random()
        return best

    def early(self, operation: Operation) -> bool:
        """With this run's chance for the kind of operation."""
        chance = self._early_copies if operation.done is not None else self._early_groups
        return self._random.random() < chance

    def hides(self) -> bool:
        """With this run's chance."""
        return self._random.random() < self._hidden

    def pieces(self) -> bool:
        """In every second run."""
        return self._pieces

    def nudge(self, flight: Flight) -> None:
        """Now and then some operation takes its source or delivers its result."""
        if flight.pending and self._random.random() < self._nudge:
            operation = self._random.choice(list(flight.pending))
            if self._random.random() < 0.5:
                flight.read(operation)
            else:
                flight.finish(operation)

    def force(self, operations: Sequence[Operation]) -> Operation:
        """Any."""
        return self._random.choice(operations)


def make_order(name: OrderName, seed: int) -> Order:
    """The order called `name`; `eager` has no use for a seed."""
    if name == "eager":
        return Order()
    return LazyOrder(seed) if name == "lazy" else RandomOrder(seed)
