"""What agents wait for: mbarriers, named barriers, meetings of a warp or warpgroup, and the register pool."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from cake.core.sim.result import Trap

if TYPE_CHECKING:
    from cake.core.sim.machine import Machine

Clock: TypeAlias = list[int]  #: generic writes of each agent that are in somebody's order


def merge(into: Clock, other: Sequence[int]) -> None:
    """Take everything in `other`'s order into `into`'s."""
    into[:] = map(max, into, other)


@dataclass(slots=True)
class Waitable:
    """Something that agents block on. `wake` is called with each of them when it changes."""

    wake: Callable[[Machine], None]
    waiters: list[Machine] = field(default_factory=list, init=False)

    def release(self) -> None:
        """Let every waiter look again."""
        waiters, self.waiters = self.waiters, []
        for waiter in waiters:
            self.wake(waiter)


@dataclass(slots=True)
class MBarrier(Waitable):
    """One mbarrier: a phase ends at zero pending arrivals and zero transaction bytes (PTX ISA, "mbarrier").

    Bytes may complete before they are expected: `tx` is signed. `limit` is the largest count that it can hold. A copy
    delivers its bytes in pieces of no documented size; with `pieces`, one piece ends where the count is zero.
    """

    name: str
    slot: int | None
    expected: int
    agents: int
    limit: int | None
    pieces: bool = False
    phase: int = 0
    corrupt: bool = False
    pending: int = field(init=False)
    tx: int = field(default=0, init=False)
    arrived: Clock = field(init=False)
    acquired: Clock = field(init=False)

    def __post_init__(self) -> None:
        self.pending = self.expected
        self.arrived, self.acquired = [0] * self.agents, [0] * self.agents

    @property
    def label(self) -> str:
        """Its name, and its slot when it has several."""
        return self.name if self.slot is None else f"{self.name}[{self.slot}]"

    def arrive(self, clock: Sequence[int]) -> None:
        """One arrival, which releases everything in `clock`."""
        self._intact()
        if self.pending == 0:
            raise Trap(
                f"an arrival on {self.label} beyond the {self.expected} that its phase expects", self.name, self.slot
            )
        self.pending -= 1
        merge(self.arrived, clock)
        self._settle()

    def expect(self, count: int) -> None:
        """Raise the phase's outstanding transaction bytes."""
        self._intact()
        self.tx += count
        self._check_range()
        self._settle()

    def complete(self, count: int) -> None:
        """An asynchronous copy has delivered `count` bytes."""
        self._intact()
        if self.pieces and 0 < self.tx < count:
            first, self.tx = self.tx, 0
            count -= first
            self._settle()
        self.tx -= count
        self._check_range()
        self._settle()

    def passed(self, parity: int) -> bool:
        """Whether the phase of this parity is complete: the current, incomplete one has the other parity."""
        self._intact()
        return (self.phase & 1) != (parity & 1)

    def _settle(self) -> None:
        if self.pending == 0 and self.tx == 0:
            self.phase += 1
            self.pending = self.expected
            merge(self.acquired, self.arrived)
            self.release()

    def _check_range(self) -> None:
        if self.limit is not None and abs(self.tx) > self.limit:
            raise Trap(f"{self.label} holds {self.tx} transaction bytes, beyond {self.limit}", self.name, self.slot)

    def _intact(self) -> None:
        if self.corrupt:
            raise Trap(f"{self.label} was overwritten with data", self.name, self.slot)


@dataclass(slots=True)
class NamedBarrier(Waitable):
    """One hardware barrier of the CTA. Whole warps arrive; the generation ends at `expected` threads."""

    number: int
    agents: int
    generation: int = 0
    expected: int = 0
    warps: set[int] = field(default_factory=set)
    arrived: Clock = field(init=False)
    acquired: Clock = field(init=False)

    def __post_init__(self) -> None:
        self.arrived, self.acquired = [0] * self.agents, [0] * self.agents

    def arrive(self, warp: int, threads: int, expected: int, clock: Sequence[int], name: str) -> None:
        """A warp of `threads` threads arrives for a generation of `expected` threads."""
        if expected % threads:
            raise Trap(f"{name} expects {expected} threads, not a multiple of a warp's {threads}", name)
        if self.warps and self.expected != expected:
            raise Trap(f"{name} expects {expected} threads where others expect {self.expected}", name)
        if warp in self.warps:
            raise Trap(f"a warp arrives twice on one generation of {name}", name)
        self.expected = expected
        self.warps.add(warp)
        merge(self.arrived, clock)
        if len(self.warps) * threads == expected:
            self.generation += 1
            self.warps.clear()
            merge(self.acquired, self.arrived)
            self.release()


@dataclass(slots=True)
class Meeting(Waitable):
    """All lanes of a warp or warpgroup come together at one statement and see what each brought."""

    lanes: int
    path: str = ""
    present: int = 0
    generation: int = 0
    brought: list[tuple[Machine, Any]] = field(default_factory=list)
    last: list[tuple[Machine, Any]] = field(default_factory=list)
    token: int = 0

    def join(self, machine: Machine, what: Any) -> bool:
        """Bring `what`; True for the agent that completes the meeting."""
        if self.present and self.path != machine.path:
            raise Trap(f"some of the lanes that must run {self.path} together run {machine.path}")
        self.path = machine.path
        self.present += machine.width
        self.brought.append((machine, what))
        if self.present < self.lanes:
            return False
        self.last, self.brought, self.present = self.brought, [], 0
        self.generation += 1
        self.release()
        return True


@dataclass(slots=True)
class RegisterPool(Waitable):
    """The CTA's registers that no thread holds (PTX ISA, setmaxnreg)."""

    free: int = 0
