"""Proxy fences (PTX ISA, membar/fence, fence.proxy)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cake.core.emitter import Emitter
from cake.core.events import Event, Fence
from cake.core.op import Op, Work, primitive
from cake.plugins.targets import SINCE_HOPPER

if TYPE_CHECKING:
    from cake.core.sim.machine import Machine


@primitive("fence_proxy_async", targets=SINCE_HOPPER, ptx="fence.proxy.async")
class FenceProxyAsync(Op):
    """Make the executing threads' earlier generic accesses to shared memory visible to the async proxy (TMA, wgmma)."""

    def events(self) -> tuple[Event, ...]:
        return (Fence("async"),)

    def compute(self, m: Machine) -> None:
        m.fence("async")

    def emit(self, c: Emitter) -> None:
        c.line('asm volatile("fence.proxy.async.shared::cta;" ::: "memory");')

    def cost(self) -> Work:
        return Work(issue=1)
