"""mbarrier: phases with arrivals and transaction bytes, in shared memory (PTX ISA, "mbarrier")."""

from __future__ import annotations

from collections.abc import Iterable

from cake.core.events import Arrive, Event, Expect, Wait
from cake.core.ir import I32, BarrierRef
from cake.core.op import Op, Value, Work, primitive

SM90 = ("sm_90a", "sm_100a")


def _is_mbarrier(ref: BarrierRef) -> Iterable[str]:
    if ref.barrier.kind != "mbarrier":
        yield f"{ref.barrier.name} is a {ref.barrier.kind} barrier, not an mbarrier"


@primitive("mbarrier_arrive", targets=SM90, ptx="mbarrier.arrive")
class MbarrierArrive(Op):
    """Each executing thread arrives once on one slot's current phase (PTX ISA, mbarrier.arrive)."""

    sugar = "barrier.arrive"
    barrier: BarrierRef

    def check(self) -> Iterable[str]:
        yield from _is_mbarrier(self.barrier)

    def events(self) -> tuple[Event, ...]:
        return (Arrive(self.barrier),)

    def cost(self) -> Work:
        return Work(issue=1)


@primitive("mbarrier_expect", targets=SM90, ptx="mbarrier.arrive.expect_tx")
class MbarrierExpect(Op):
    """Each executing thread adds `bytes` to the phase's transactions and arrives (PTX ISA, mbarrier.arrive.expect_tx)."""

    sugar = "barrier.expect"
    barrier: BarrierRef
    bytes: int

    def check(self) -> Iterable[str]:
        yield from _is_mbarrier(self.barrier)
        if not 0 <= self.bytes < 2**20:
            yield f"bytes={self.bytes}, but an mbarrier counts 0 to 2**20 - 1"

    def events(self) -> tuple[Event, ...]:
        return (Expect(self.barrier, self.bytes), Arrive(self.barrier))

    def cost(self) -> Work:
        return Work(issue=1)


@primitive("mbarrier_wait", targets=SM90, ptx="mbarrier.try_wait.parity")
class MbarrierWait(Op):
    """Block until the phase of parity `phase` is complete (PTX ISA, mbarrier.try_wait.parity).

    A fresh barrier answers at once for parity 1: that is how a producer's first pass over an empty ring starts.
    """

    sugar = "barrier.wait"
    barrier: BarrierRef
    phase: Value

    def check(self) -> Iterable[str]:
        yield from _is_mbarrier(self.barrier)
        if self.phase.type != I32:
            yield f"phase has type {self.phase.type}, not i32"

    def events(self) -> tuple[Event, ...]:
        return (Wait(self.barrier, self.phase),)

    def cost(self) -> Work:
        return Work(issue=1, sync=1)
