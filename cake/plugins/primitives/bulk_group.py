"""Bulk async-groups: how a thread learns that its TMA stores are done (PTX ISA, cp.async.bulk.commit_group)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import KW_ONLY
from typing import TYPE_CHECKING

from cake.core.emitter import Emitter
from cake.core.events import Commit, Event, WaitGroup
from cake.core.op import Op, Work, primitive
from cake.plugins.primitives.tma import TMA_STORE
from cake.plugins.targets import SINCE_HOPPER

if TYPE_CHECKING:
    from cake.core.sim.machine import Machine


@primitive("bulk_commit", targets=SINCE_HOPPER, ptx="cp.async.bulk.commit_group")
class BulkCommit(Op):
    """Close the executing thread's open bulk group."""

    def events(self) -> tuple[Event, ...]:
        return (Commit(TMA_STORE),)

    def compute(self, m: Machine) -> None:
        m.commit(TMA_STORE)

    def emit(self, c: Emitter) -> None:
        c.line('asm volatile("cp.async.bulk.commit_group;" ::: "memory");')

    def cost(self) -> Work:
        return Work(issue=1)


@primitive("bulk_wait", targets=SINCE_HOPPER, ptx="cp.async.bulk.wait_group")
class BulkWait(Op):
    """Wait until at most `pending` of the executing thread's bulk groups are unfinished; with `read`, until their
    sources may be overwritten, which comes earlier than the results."""

    pending: int
    _: KW_ONLY
    read: bool = False

    def check(self) -> Iterable[str]:
        if self.pending < 0:
            yield f"pending={self.pending} is negative"

    def events(self) -> tuple[Event, ...]:
        return (WaitGroup(TMA_STORE, self.pending, sources_only=self.read),)

    def compute(self, m: Machine) -> None:
        m.wait_group(TMA_STORE, self.pending, sources_only=self.read)

    def emit(self, c: Emitter) -> None:
        read = ".read" if self.read else ""
        c.line(f'asm volatile("cp.async.bulk.wait_group{read} {self.pending};" ::: "memory");')

    def cost(self) -> Work:
        return Work(issue=1, sync=1)
