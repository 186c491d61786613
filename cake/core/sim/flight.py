"""Asynchronous operations in flight, from their start to their two ends."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cake.core.events import Timeline
from cake.core.sim.barriers import MBarrier
from cake.core.sim.result import Stop

if TYPE_CHECKING:
    from cake.core.sim.machine import Machine


@dataclass(slots=True, eq=False)
class Operation:
    """One started operation. `source` reads what it will deliver, `result` delivers it; each runs once, in this order,
    at any time from the start on."""

    machine: Machine
    timeline: Timeline
    issuer: Hashable
    path: str
    source: Callable[[], Any]
    result: Callable[[Any], None]
    done: MBarrier | None
    bytes: int
    carried: Any = None
    was_read: bool = False
    finished: bool = False

    def read(self) -> None:
        """Take the source: from here on it may be reused."""
        if not self.was_read:
            self.was_read = True
            with self._blamed():
                self.carried = self.source()

    def finish(self) -> None:
        """Deliver the result."""
        if not self.finished:
            self.read()
            self.finished = True
            with self._blamed():
                self.result(self.carried)
                if self.done is not None:
                    self.done.complete(self.bytes)
            self.carried = None

    @contextmanager
    def _blamed(self) -> Iterator[None]:
        """A stop is the fault of the statement that started the operation, whoever moves when it comes."""
        try:
            yield
        except Stop as stop:
            stop.where = stop.where or self.machine.cta.stuck(self.machine, stop.why, self.path)
            raise


@dataclass(slots=True)
class Flight:
    """All operations of a CTA that have not finished. Those of one issuer end in order where their timeline says so."""

    pending: dict[Operation, None] = field(default_factory=dict)
    _queues: dict[Hashable, deque[Operation]] = field(default_factory=dict)

    def add(self, operation: Operation) -> None:
        """Start an operation."""
        self.pending[operation] = None
        if operation.timeline.in_order:
            key = (operation.timeline.name, operation.issuer)
            self._queues.setdefault(key, deque()).append(operation)

    def read(self, operation: Operation) -> None:
        """Force the source of `operation`, and of those that its timeline orders before it."""
        for earlier in self._until(operation):
            earlier.read()

    def finish(self, operation: Operation) -> None:
        """Force the result of `operation`, and of those that its timeline orders before it."""
        if operation.finished:
            return
        ended = self._until(operation)
        for earlier in ended:
            self.pending.pop(earlier, None)
            earlier.finish()
        if operation.timeline.in_order:
            queue = self._queues[operation.timeline.name, operation.issuer]
            for _ in ended:
                queue.popleft()

    def _until(self, operation: Operation) -> list[Operation]:
        if not operation.timeline.in_order or operation.finished:
            return [operation]
        queue = self._queues[operation.timeline.name, operation.issuer]
        ended = []
        for earlier in queue:
            ended.append(earlier)
            if earlier is operation:
                break
        return ended
