"""An agent and what it can do: the machine as a primitive's `compute` sees it.

An agent is a warp with its 32 lanes in one NumPy vector. The warp that holds thread 0 of an instance is two agents when
its role elects a lane: the lane alone, and the other 31, which go on without it. They meet at collective statements.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeAlias

import numpy as np

from cake.core.events import Timeline
from cake.core.ir import Barrier, BarrierRef, DType, Expr, FragmentType, GlobalRef, Part, Role, Tensor, Var, View
from cake.core.sim.barriers import MBarrier, Meeting, NamedBarrier, Waitable, merge
from cake.core.sim.expr import fragment_dims, part_index, spread
from cake.core.sim.flight import Operation
from cake.core.sim.memory import Footprint, Global, Shared, box, cells, pitches, swizzled
from cake.core.sim.result import Array, Blocked, Fault, Trap, Unmodelled
from cake.core.sim.values import lane_of, numpy_type, poison

if TYPE_CHECKING:
    from cake.core.sim.cta import Cta

WARP: Final = 32  # threads (PTX ISA, "Cooperative Thread Arrays")
WARPGROUP: Final = 4  # warps, the first of them a multiple of 4 (PTX ISA, "Warpgroup")
SCOPES: Final = {"warp": 1, "warpgroup": WARPGROUP}

#: What an agent yields: True when it is blocked, False where another agent may run first.
Steps: TypeAlias = Generator[bool, None, Any]


class Machine:
    """One agent. Methods named in the imperative act for all active lanes; those that block are generators."""

    def __init__(
        self, cta: Cta, index: int, role: Role, instance: int, warp: int, lanes: range, registers: int
    ) -> None:
        self.cta = cta
        self.index = index
        self.role, self.instance, self.warp = role, instance, warp
        self.cta_warp = cta.program.first_warp(role) + instance * role.warps + warp
        self.lanes = np.arange(lanes.start, lanes.stop, dtype=np.int32)
        self.width = len(lanes)
        self.elects = len(lanes) == 1
        self.registers = registers
        self.env: dict[str, Any] = dict(cta.scalars)
        self.extents: Mapping[str, int] = cta.extents
        self.specials: dict[str, Any] = {
            **cta.specials,
            "instance": instance,
            "warp_id": warp,
            "lane_id": self.lanes,
            "thread_id": self.lanes + np.int32(WARP * warp),
        }
        self.mask: Array | None = None  # active lanes, where a condition has split them
        self.gone: Array | None = None  # lanes that left the innermost loop
        self.path = ""
        self.blocked: Blocked | None = None
        self.began = 0  # the CTA's step at which the current primitive began
        self.clock = [0] * cta.agents
        self._open: dict[str, list[Operation]] = {}
        self._groups: dict[str, deque[list[Operation]]] = {}
        self._unfenced: dict[str, Array] = {}

    @property
    def threads(self) -> int:
        """Active threads."""
        return self.width if self.mask is None else int(np.count_nonzero(self.mask))

    def each(self) -> Iterator[int]:
        """The active lanes, as positions in this agent's vectors."""
        return iter(range(self.width)) if self.mask is None else iter(np.flatnonzero(self.mask).tolist())

    def where(self, condition: Expr | None) -> Array:
        """Which lanes are active and fulfil `condition`."""
        active = np.ones(self.width, np.bool_) if self.mask is None else self.mask
        return active if condition is None else active & self.value(condition)

    def value(self, expr: Expr) -> Any:
        """`expr` now: a scalar if all lanes agree, else one value a lane; a fragment as an array, lanes first."""
        return self.cta.code.expr(expr)(self)

    def uniform(self, expr: Expr, what: str) -> Any:
        """`expr`, which must be the same in all active lanes."""
        return self._same(self.value(expr), what)

    def _same(self, value: Any, what: str) -> Any:
        if not isinstance(value, np.ndarray):
            return value
        values = np.unique(value if self.mask is None else value[self.mask])
        return values[0].item() if len(values) == 1 else self.trap(f"{what} differs between lanes")

    def coords(self, exprs: Iterable[Expr], lane: int) -> tuple[int, ...]:
        """Coordinates as one lane has them."""
        return tuple(lane_of(self.value(e), lane) for e in exprs)

    def assign(self, target: Var, value: Any) -> None:
        """Bind a name in the active lanes. Fragments given here must not be shared with another name."""
        old = self.env.get(target.name)
        if self.mask is not None and old is not None:
            value = np.where(spread(self.mask, fragment_dims(target.type)), value, old)
            if not isinstance(target.type, FragmentType):
                value = value.astype(numpy_type(target.type), copy=False)
        self._remember(target, old)
        self.env[target.name] = value

    def write(self, target: Var | Part, value: Array) -> None:
        """Write registers of the active lanes in place."""
        var, index = (target.fragment, part_index(target)) if isinstance(target, Part) else (target, (...,))
        old = self.value(var)
        self._remember(var, old)
        if self.mask is not None:
            value = np.where(spread(self.mask, value.ndim - 1), value, old[index])
        old[index] = value

    def deliver(self, target: Var | Part, value: Array) -> None:
        """Write registers from an asynchronous operation, whatever the agent is doing meanwhile."""
        var, index = (target.fragment, part_index(target)) if isinstance(target, Part) else (target, (...,))
        if var.name not in self.env:
            raise Trap(f"{var.name} is written before it is declared")
        self.env[var.name][index] = value
        self._unfenced.pop(var.name, None)

    def declare(self, target: Var) -> None:
        """Registers that nobody has written."""
        t = target.type
        assert isinstance(t, FragmentType)
        shape = t.shape if t.layout == "thread" else (self.cta.code.registers(t),)
        self.env[target.name] = poison(t.dtype, (self.width, *shape))

    @property
    def limits(self) -> Mapping[str, int]:
        """The target's limits, by documented name."""
        return self.cta.target.limits

    @property
    def shared(self) -> Shared:
        """The CTA's shared memory."""
        return self.cta.shared

    def tensor(self, tensor: Tensor) -> Global:
        """A tensor in global memory."""
        return self.cta.tensors[tensor.name]

    def address(self, view: View) -> Any:
        """Byte address of the view's first element, before swizzling; one a lane if lanes differ."""
        return self.cta.code.view(view)(self)

    def lane_address(self, view: View, lane: int) -> int:
        """Byte address of the view's first element as one lane has it, before swizzling."""
        return int(lane_of(self.address(view), lane))

    def uniform_address(self, view: View) -> int:
        """Byte address of the view's first element, which must be the same in all active lanes; before swizzling."""
        return int(self._same(self.address(view), f"the address in {view.buffer.name}"))

    def box(self, shape: tuple[int, ...], *, itemsize: int) -> Footprint:
        """The footprint of a dense row-major box."""
        return box(shape, pitches(shape, itemsize), itemsize)

    def cells(self, offsets: Callable[..., Array], *args: Hashable, itemsize: int) -> Footprint:
        """The footprint of the byte offsets `offsets(*args)`, made once for these arguments."""
        return cells(offsets, args, itemsize)

    def floats(self, words: Array, dtype: DType) -> Array:
        """Words of memory as the values of a float type, in f32."""
        return words.view(numpy_type(dtype)).astype(np.float32)

    def element(self, ref: GlobalRef) -> Array:
        """Row-major index of `ref` in its tensor, one a lane."""
        at = 0
        for expr, extent in zip(ref.at, self.tensor(ref.tensor).array.shape, strict=True):
            coordinate = self.value(expr)
            wide = coordinate.astype(np.int64) if isinstance(coordinate, np.ndarray) else coordinate
            at = at * extent + wide
        return np.broadcast_to(np.asarray(at, np.int64), (self.width,))

    def load(self, view: View) -> Any:
        """One element a lane from shared memory; inactive lanes get zeros."""
        dtype, address = numpy_type(view.buffer.dtype), self.address(view)
        if not isinstance(address, np.ndarray):
            word = self.shared.load_words(self._places(view, np.array([address])), dtype.itemsize)
            return word.view(dtype)[0].item() if dtype.kind in "iub" else word.view(dtype)[0]
        values = np.zeros(self.width, dtype)
        active = self.where(None)
        values[active] = self.shared.load_words(self._places(view, address[active]), dtype.itemsize).view(dtype)
        return values

    def store(self, view: View, value: Any) -> None:
        """One element a lane to shared memory."""
        active = self.where(None)
        address = np.broadcast_to(self.address(view), (self.width,))[active]
        values = np.broadcast_to(np.asarray(value, numpy_type(view.buffer.dtype)), (self.width,))[active]
        self.shared.store_words(self._places(view, address), values.copy(), self.stamp())

    def stamp(self) -> tuple[int, int] | None:
        """The mark of a generic write that asynchronous readers cannot see yet, or None when they can."""
        if not self.cta.order.hides():
            return None
        self.clock[self.index] += 1
        return self.index, self.clock[self.index]

    def fence(self, proxy: str) -> None:
        """Order the generic writes that this agent knows of before accesses of `proxy`."""
        if proxy != "async":
            self.unmodelled(f"a fence of proxy {proxy!r}")
        self.shared.fence(self.clock)

    def _places(self, view: View, address: Array) -> Array:
        placed: Array = swizzled(address.astype(np.int64), view.buffer.swizzle)
        return placed

    def mbarrier(self, ref: BarrierRef, lane: int) -> MBarrier:
        """One slot of an mbarrier, as one lane addresses it."""
        return self._mbarrier(ref.barrier, lane_of(self._slot(ref), lane))

    def arrive(self, ref: BarrierRef) -> None:
        """Every active thread arrives once."""
        for lane in self.each():
            self.mbarrier(ref, lane).arrive(self.clock)

    def expect(self, ref: BarrierRef, count: int) -> None:
        """Every active thread raises the phase's outstanding bytes and arrives."""
        for lane in self.each():
            barrier = self.mbarrier(ref, lane)
            barrier.expect(count)
            barrier.arrive(self.clock)

    def wait(self, ref: BarrierRef, parity: Expr) -> Steps:
        """Block until the phases of this parity are complete."""
        slots, parities = self._slot(ref), self.value(parity)
        varying = isinstance(slots, np.ndarray) or isinstance(parities, np.ndarray)
        lanes = self.each() if varying else (0,)
        pairs = dict.fromkeys((lane_of(slots, lane), lane_of(parities, lane)) for lane in lanes)
        for slot, bit in pairs:
            barrier = self._mbarrier(ref.barrier, slot)
            while not barrier.passed(bit):
                reason = (
                    f"waits for parity {bit} of {barrier.label}, whose phase {barrier.phase} has {barrier.pending} of "
                    f"{barrier.expected} arrivals and {barrier.tx} bytes outstanding"
                )
                yield from self._block(barrier, Blocked(reason, ref.barrier.name, slot, bit))
            merge(self.clock, barrier.acquired)

    def _slot(self, ref: BarrierRef) -> Any:
        return 0 if ref.slot is None else self.value(ref.slot)

    def _mbarrier(self, barrier: Barrier, slot: int) -> MBarrier:
        # Only the address counts: a slot out of range is whatever lies there, as on the machine.
        found = self.cta.mbarriers.get(barrier.at + 8 * slot)
        if found is None:
            raise Trap(f"slot {slot} of {barrier.name} is no mbarrier", barrier.name, slot)
        return found

    def meet(self, scope: str, what: Any = None) -> Generator[bool, None, tuple[list[tuple[Machine, Any]], bool]]:
        """Come together with all lanes of the warp or warpgroup at this statement; it orders no memory.

        Returns who brought what, and whether this agent came last."""
        if self.mask is not None and not self.mask.all():
            self.trap(f"a statement for all lanes of a {scope} runs with {self.threads} of {self.width} lanes")
        if scope == "warp" and self.width == WARP:
            return [(self, what)], True
        meeting = self._meeting(scope)
        generation = meeting.generation
        last = meeting.join(self, what)
        while meeting.generation == generation:
            reason = f"waits for all lanes of its {scope}: {meeting.present} of {meeting.lanes} are here"
            yield from self._block(meeting, Blocked(reason))
        return meeting.last, last

    def converge(self) -> Steps:
        """The warp's lanes meet and see each other's accesses."""
        present, _ = yield from self.meet("warp", list(self.clock))
        for _, clock in present:
            merge(self.clock, clock)

    def exchange(self, value: Any, expr: Expr) -> Generator[bool, None, Array]:
        """The warp's lanes show each other a scalar; returns all 32 values."""
        assert not isinstance(expr.type, FragmentType)
        present, _ = yield from self.meet("warp", value)
        whole = np.empty(WARP, numpy_type(expr.type))
        for machine, part in present:
            whole[machine.lanes] = part
        return whole

    def sync(self, ref: BarrierRef) -> Steps:
        """Arrive on a named barrier with the whole warp and block until its threads are there."""
        barrier, generation = yield from self._arrive_named(ref)
        while barrier.generation == generation:
            here = WARP * len(barrier.warps)
            reason = f"waits at {ref.barrier.name}: {here} of {barrier.expected} threads are here"
            yield from self._block(barrier, Blocked(reason, ref.barrier.name, barrier.number - ref.barrier.at))
        merge(self.clock, barrier.acquired)

    def sync_arrive(self, ref: BarrierRef) -> Steps:
        """Arrive on a named barrier with the whole warp, without blocking."""
        yield from self._arrive_named(ref)

    def _arrive_named(self, ref: BarrierRef) -> Generator[bool, None, tuple[NamedBarrier, int]]:
        number = ref.barrier.at + (0 if ref.slot is None else self.uniform(ref.slot, "the barrier's slot"))
        barrier = self.cta.named_barrier(number, ref.barrier.name)
        present, last = yield from self.meet("warp", list(self.clock))
        meeting = self._meeting("warp")
        if last:
            meeting.token = barrier.generation
            clock = list(self.clock)
            for _, other in present:
                merge(clock, other)
            barrier.arrive(self.cta_warp, WARP, ref.barrier.arrivals, clock, ref.barrier.name)
        return barrier, meeting.token

    def _meeting(self, scope: str) -> Meeting:
        return self.cta.meeting(scope, self.cta_warp // SCOPES[scope], WARP * SCOPES[scope])

    def resize(self, count: int, *, increase: bool) -> Steps:
        """Set this agent's registers a thread; an increase blocks until the CTA's pool has them."""
        pool, change = self.cta.pool, (count - self.registers) * self.width
        if increase != (change >= 0) and change:
            verb = "an increase" if increase else "a decrease"
            self.trap(f"{verb} to {count} registers from {self.registers}")
        while pool.free < change:
            reason = f"waits for {change} registers to reach {count} a thread; the CTA's pool has {pool.free}"
            yield from self._block(pool, Blocked(reason))
        pool.free -= change
        self.registers = count
        if change < 0:
            pool.release()

    def _block(self, on: Waitable, why: Blocked) -> Steps:
        on.waiters.append(self)
        self.blocked = why
        yield True
        self.blocked = None

    def start(
        self,
        timeline: Timeline,
        *,
        source: Callable[[], Any],
        result: Callable[[Any], None],
        issuer: Hashable,
        members: Iterable[Machine] | None = None,
        done: MBarrier | None = None,
        count: int = 0,
    ) -> None:
        """Start an operation: `source` reads, `result` delivers, at times that the order chooses.

        It belongs to the open group of each of `members` (this agent) or completes `count` bytes on `done`."""
        operation = Operation(self, timeline, issuer, self.path, source, result, done, count)
        self.cta.flight.add(operation)
        if done is None:
            for member in (self,) if members is None else members:
                member._open.setdefault(timeline.name, []).append(operation)
        if self.cta.order.early(operation):
            self.cta.flight.finish(operation)

    def commit(self, timeline: Timeline) -> None:
        """Close the open group."""
        group = self._open.pop(timeline.name, [])
        self._groups.setdefault(timeline.name, deque()).append(group)

    def wait_group(self, timeline: Timeline, pending: int, *, sources_only: bool = False) -> None:
        """Force all but the newest `pending` groups: their sources, or also their results."""
        groups = self._groups.get(timeline.name, deque())
        flight = self.cta.flight
        for group in list(groups)[: len(groups) - pending]:
            for operation in group:
                (flight.read if sources_only else flight.finish)(operation)
        while groups and all(operation.finished for operation in groups[0]) and len(groups) > pending:
            groups.popleft()

    def fence_registers(self) -> None:
        """Let the next asynchronous operations see this agent's register writes."""
        self._unfenced.clear()

    def unfenced(self, target: Var | Part) -> Array | None:
        """What an asynchronous operation that starts now would still find in registers written since the last register
        fence; None when it finds their value at the time it runs."""
        var = target.fragment if isinstance(target, Part) else target
        old = self._unfenced.get(var.name)
        return old[part_index(target)] if old is not None and isinstance(target, Part) else old

    def _remember(self, target: Var, old: Any) -> None:
        t = target.type
        if not isinstance(t, FragmentType) or t.layout == "thread" or target.name in self._unfenced:
            return
        if self.cta.order.hides():
            fresh = poison(t.dtype, (self.width, self.cta.code.registers(t)))
            self._unfenced[target.name] = fresh if old is None else old.copy()

    def trap(self, reason: str, fault: Fault = "illegal_instruction") -> NoReturn:
        """Stop as the machine would at something illegal."""
        raise Trap(reason, fault=fault)

    def unmodelled(self, reason: str) -> NoReturn:
        """Give up judging this program."""
        raise Unmodelled(reason)
