"""The event algebra: what one execution of a primitive does to memory, barriers and asynchronous groups.

A primitive's `events()` returns a tuple of these, in order. They are static: addresses, slots and parities stay IR
expressions, which exploration evaluates in each agent's environment. The algebra knows no instruction.

*Agents.* An event is done by every thread that executes the statement: all threads of a role instance, or its one
elected lane inside `OneLane`. An `Arrive` therefore counts once for each executing thread.

*Proxies.* `generic` is ordinary loads and stores, `async` is TMA and wgmma operands in shared memory (PTX ISA, "Async
proxy"). A generic write is visible to the async proxy only past a `Fence`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from cake.core.ir import BarrierRef, Expr, Part, Tensor, Var, View


@dataclass(frozen=True, slots=True)
class Timeline:
    """A kind of asynchronous execution, declared by the plugin that starts operations on it.

    `proxy` is the proxy through which it touches shared memory; `issuer` who starts one operation (`thread`, `warp`,
    `warpgroup`); `in_order` whether operations of one issuer complete in order; `completion` how an end is reached:
    `barrier` (the operation completes bytes on an mbarrier) or `group` (commit, then wait for all but n groups).
    """

    name: str
    proxy: str
    issuer: str
    in_order: bool
    completion: str


@dataclass(frozen=True, slots=True)
class GlobalBox:
    """A box of a tensor in global memory: `shape` elements from coordinates `at`, touched by the threads for which
    `when` holds. TMA leaves out what lies outside the tensor; threads do not."""

    tensor: Tensor
    at: tuple[Expr, ...]
    shape: tuple[int, ...]
    when: Expr | None = None


#: What is touched: a box of shared memory, a box of global memory, or registers (a fragment or a part of one).
Cell: TypeAlias = View | GlobalBox | Var | Part


@dataclass(frozen=True, slots=True)
class Read:
    """A synchronous read, finished when the statement is. With `by_warp`, warp w of n reads the w-th part of rows."""

    cell: Cell
    proxy: str = "generic"
    by_warp: bool = False


@dataclass(frozen=True, slots=True)
class Write:
    """A synchronous write, finished when the statement is, visible to the executing threads in `proxy`. With `by_warp`,
    warp w of n writes the w-th n-th of the rows."""

    cell: Cell
    proxy: str = "generic"
    by_warp: bool = False


@dataclass(frozen=True, slots=True)
class Start:
    """Start one asynchronous operation.

    Its two ends are *source may be reused* (for `reads`) and *result is visible* (for `writes`); both come at any time
    after the start and are known only through `done` or a waited group.
    """

    timeline: Timeline
    reads: tuple[Cell, ...] = ()
    writes: tuple[Cell, ...] = ()
    done: BarrierRef | None = None
    bytes: int = 0
    updates: Expr | None = None


@dataclass(frozen=True, slots=True)
class Commit:
    """Close the executing issuer's open group of `timeline`."""

    timeline: Timeline


@dataclass(frozen=True, slots=True)
class WaitGroup:
    """Wait until at most `pending` committed groups of `timeline` are unfinished. With `sources_only`, their sources
    may be reused but their results need not be visible."""

    timeline: Timeline
    pending: int
    sources_only: bool = False


@dataclass(frozen=True, slots=True)
class Arrive:
    """Each executing thread arrives once on the barrier's current phase (release, CTA scope)."""

    barrier: BarrierRef


@dataclass(frozen=True, slots=True)
class Expect:
    """Raise the current phase's outstanding transaction bytes. The phase ends at zero arrivals and zero bytes."""

    barrier: BarrierRef
    bytes: int


@dataclass(frozen=True, slots=True)
class Wait:
    """Block until the phase with this parity is complete (acquire, CTA scope). A fresh barrier's phase of parity 1
    counts as complete."""

    barrier: BarrierRef
    parity: Expr


@dataclass(frozen=True, slots=True)
class Sync:
    """Arrive on a named barrier with every executing thread and block until `barrier.arrivals` threads have arrived."""

    barrier: BarrierRef


@dataclass(frozen=True, slots=True)
class SyncArrive:
    """Arrive on a named barrier with every executing thread, without blocking."""

    barrier: BarrierRef


@dataclass(frozen=True, slots=True)
class Fence:
    """Order the executing threads' known generic accesses before later accesses of `proxy`."""

    proxy: str


@dataclass(frozen=True, slots=True)
class RegisterFence:
    """Order register accesses before later operations of `timeline` by the same threads (wgmma.fence)."""

    timeline: Timeline


@dataclass(frozen=True, slots=True)
class Converge:
    """The executing warp's lanes meet and see each other's accesses (bar.warp.sync)."""


@dataclass(frozen=True, slots=True)
class Collective:
    """All threads of the `scope` (`warp`, `warpgroup`) must execute this statement together."""

    scope: str


@dataclass(frozen=True, slots=True)
class Registers:
    """Ask for `count` registers a thread. `increase` blocks until the CTA's pool has enough; a decrease gives back."""

    count: int
    increase: bool


@dataclass(frozen=True, slots=True)
class Opaque:
    """Something that the algebra does not model: every verdict that depends on it is `unknown`, for this reason."""

    reason: str


Event: TypeAlias = (
    Read
    | Write
    | Start
    | Commit
    | WaitGroup
    | Arrive
    | Expect
    | Wait
    | Sync
    | SyncArrive
    | Fence
    | RegisterFence
    | Converge
    | Collective
    | Registers
    | Opaque
)
