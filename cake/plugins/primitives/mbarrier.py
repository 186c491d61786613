"""mbarrier: phases with arrivals and transaction bytes, in shared memory (PTX ISA, "mbarrier")."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from cake.core.emitter import Emitter
from cake.core.events import Arrive, Event, Expect, Wait
from cake.core.ir import I32, BarrierRef
from cake.core.op import Op, Value, Work, primitive
from cake.plugins.targets import SINCE_HOPPER

if TYPE_CHECKING:
    from cake.core.sim.machine import Machine, Steps


ARRIVE = """
__device__ __forceinline__ void mbarrier_arrive(uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(barrier) : "memory");
}
"""

EXPECT = """
__device__ __forceinline__ void mbarrier_expect(uint32_t barrier, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(barrier), "r"(bytes) : "memory");
}
"""

# try_wait suspends the thread for a while by itself; CTA scope and no cluster form, which would flush caches.
WAIT = """
__device__ __forceinline__ void mbarrier_wait(uint32_t barrier, uint32_t phase) {
  asm volatile(
      "{ "
      ".reg .pred done; "
      "again: "
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1; "
      "@!done bra again; "
      "}" :: "r"(barrier), "r"(phase) : "memory");
}
"""

BOUNDED_WAIT = """
__device__ __forceinline__ void mbarrier_wait(uint32_t barrier, uint32_t phase, uint32_t slot, watch w,
                                              uint32_t statement, uint32_t i, uint32_t j, uint32_t k) {
  uint64_t start = 0;
  for (;;) {
    uint32_t done;
    asm volatile(
        "{ "
        ".reg .pred done; "
        "mbarrier.try_wait.parity.shared::cta.b64 done, [%1], %2; "
        "selp.b32 %0, 1, 0, done; "
        "}" : "=r"(done) : "r"(barrier), "r"(phase) : "memory");
    if (done) return;
    if (start == 0) start = now();
    if (now() - start > w.limit) give_up(w, 1, statement, slot, phase, i, j, k);
  }
}
"""


def is_mbarrier(ref: BarrierRef) -> Iterable[str]:
    """Why `ref` cannot take an mbarrier's operations, if it cannot."""
    if ref.barrier.kind != "mbarrier":
        yield f"{ref.barrier.name} is a {ref.barrier.kind} barrier, not an mbarrier"


@primitive("mbarrier_arrive", targets=SINCE_HOPPER, ptx="mbarrier.arrive")
class MbarrierArrive(Op):
    """Each executing thread arrives once on one slot's current phase (PTX ISA, mbarrier.arrive)."""

    sugar = "barrier.arrive"
    barrier: BarrierRef

    def check(self) -> Iterable[str]:
        yield from is_mbarrier(self.barrier)

    def events(self) -> tuple[Event, ...]:
        return (Arrive(self.barrier),)

    def compute(self, m: Machine) -> None:
        m.arrive(self.barrier)

    def emit(self, c: Emitter) -> None:
        c.line(f"{c.helper('mbarrier_arrive', ARRIVE)}({c.barrier(self.barrier)});")

    def cost(self) -> Work:
        return Work(issue=1)


@primitive("mbarrier_expect", targets=SINCE_HOPPER, ptx="mbarrier.arrive.expect_tx")
class MbarrierExpect(Op):
    """Each executing thread adds `bytes` to the phase's transactions and arrives (PTX ISA, mbarrier.arrive)."""

    sugar = "barrier.expect"
    barrier: BarrierRef
    bytes: int

    def check(self) -> Iterable[str]:
        yield from is_mbarrier(self.barrier)
        if not 0 <= self.bytes < 2**20:
            yield f"bytes={self.bytes}, but an mbarrier counts 0 to 2**20 - 1"

    def events(self) -> tuple[Event, ...]:
        return (Expect(self.barrier, self.bytes), Arrive(self.barrier))

    def compute(self, m: Machine) -> None:
        m.expect(self.barrier, self.bytes)

    def emit(self, c: Emitter) -> None:
        c.line(f"{c.helper('mbarrier_expect', EXPECT)}({c.barrier(self.barrier)}, {self.bytes});")

    def cost(self) -> Work:
        return Work(issue=1)


@primitive("mbarrier_wait", targets=SINCE_HOPPER, ptx="mbarrier.try_wait.parity")
class MbarrierWait(Op):
    """Block until the phase of parity `phase` is complete (PTX ISA, mbarrier.try_wait.parity).

    A fresh barrier answers at once for parity 1: that is how a producer's first pass over an empty ring starts.
    """

    sugar = "barrier.wait"
    barrier: BarrierRef
    phase: Value

    def check(self) -> Iterable[str]:
        yield from is_mbarrier(self.barrier)
        if self.phase.type != I32:
            yield f"phase has type {self.phase.type}, not i32"

    def events(self) -> tuple[Event, ...]:
        return (Wait(self.barrier, self.phase),)

    def compute(self, m: Machine) -> Steps:
        yield from m.wait(self.barrier, self.phase)

    def emit(self, c: Emitter) -> None:
        barrier, phase = c.barrier(self.barrier), c.expr(self.phase)
        if not c.watchdog:
            c.line(f"{c.helper('mbarrier_wait', WAIT)}({barrier}, {phase});")
            return
        slot = "0" if self.barrier.slot is None else c.expr(self.barrier.slot)
        c.line(f"{c.helper('mbarrier_wait', BOUNDED_WAIT)}({barrier}, {phase}, {slot}, {c.place});")

    def cost(self) -> Work:
        return Work(issue=1, sync=1)
