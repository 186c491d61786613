"""Named CTA barriers and warp convergence (PTX ISA, bar/barrier and bar.warp.sync)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from cake.core.emitter import Emitter
from cake.core.events import Collective, Converge, Event, Sync, SyncArrive
from cake.core.ir import BarrierRef
from cake.core.op import Op, Work, primitive
from cake.plugins.targets import ALL

if TYPE_CHECKING:
    from cake.core.sim.machine import Machine, Steps


SYNC = """
__device__ __forceinline__ void barrier_sync(uint32_t barrier, uint32_t threads) {
  asm volatile("barrier.sync %0, %1;" :: "r"(barrier), "r"(threads) : "memory");
}
"""

ARRIVE = """
__device__ __forceinline__ void barrier_arrive(uint32_t barrier, uint32_t threads) {
  asm volatile("barrier.arrive %0, %1;" :: "r"(barrier), "r"(threads) : "memory");
}
"""


def _is_named(ref: BarrierRef) -> Iterable[str]:
    if ref.barrier.kind != "named":
        yield f"{ref.barrier.name} is an {ref.barrier.kind}, not a named barrier"


@primitive("barrier_sync", targets=ALL, ptx="barrier.sync")
class BarrierSync(Op):
    """Arrive with every executing thread and block until the barrier's `arrivals` threads have arrived; orders generic
    accesses among them."""

    barrier: BarrierRef

    def check(self) -> Iterable[str]:
        yield from _is_named(self.barrier)

    def events(self) -> tuple[Event, ...]:
        return (Collective("warp"), Sync(self.barrier))

    def compute(self, m: Machine) -> Steps:
        yield from m.sync(self.barrier)

    def emit(self, c: Emitter) -> None:
        c.line(f"{c.helper('barrier_sync', SYNC)}({c.barrier(self.barrier)}, {c.arrivals(self.barrier)});")

    def cost(self) -> Work:
        return Work(issue=1, sync=1)


@primitive("barrier_arrive", targets=ALL, ptx="barrier.arrive")
class BarrierArrive(Op):
    """Arrive with every executing thread, without blocking."""

    barrier: BarrierRef

    def check(self) -> Iterable[str]:
        yield from _is_named(self.barrier)

    def events(self) -> tuple[Event, ...]:
        return (Collective("warp"), SyncArrive(self.barrier))

    def compute(self, m: Machine) -> Steps:
        yield from m.sync_arrive(self.barrier)

    def emit(self, c: Emitter) -> None:
        c.line(f"{c.helper('barrier_arrive', ARRIVE)}({c.barrier(self.barrier)}, {c.arrivals(self.barrier)});")

    def cost(self) -> Work:
        return Work(issue=1)


@primitive("warp_sync", targets=ALL, ptx="bar.warp.sync")
class WarpSync(Op):
    """The lanes of each executing warp meet and see each other's accesses."""

    def events(self) -> tuple[Event, ...]:
        return (Collective("warp"), Converge())

    def compute(self, m: Machine) -> Steps:
        yield from m.converge()

    def emit(self, c: Emitter) -> None:
        c.line("__syncwarp();")

    def cost(self) -> Work:
        return Work(issue=1)
