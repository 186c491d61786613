"""One CTA: its agents, memories and barriers, and the loop that lets one of them move at a time."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any

from cake.core.events import Start
from cake.core.ir import Barrier, OpStmt, Program, Role, View, walk
from cake.core.sim.barriers import MBarrier, Meeting, NamedBarrier, RegisterPool
from cake.core.sim.body import Compiled
from cake.core.sim.flight import Flight
from cake.core.sim.machine import WARP, Machine
from cake.core.sim.memory import Global, Shared
from cake.core.sim.order import Order
from cake.core.sim.result import Blocked, BudgetSpent, Stop, Stuck, Trap
from cake.core.sim.values import lane_of
from cake.core.target import Target


def reads_through_async_proxy(program: Program) -> bool:
    """Whether some operation reads shared memory through another proxy than the generic one."""
    return any(
        isinstance(event, Start) and event.timeline.proxy != "generic" and any(isinstance(c, View) for c in event.reads)
        for located in walk(program)
        if isinstance(located.stmt, OpStmt)
        for event in located.stmt.op.events()
    )


class Cta:
    """One CTA from launch to exit."""

    def __init__(
        self,
        code: Compiled,
        target: Target,
        order: Order,
        tensors: Mapping[str, Global],
        scalars: Mapping[str, Any],
        extents: Mapping[str, int],
        specials: Mapping[str, int],
        *,
        tracked: bool,
        budget: int,
    ) -> None:
        self.code = code
        self.program = program = code.program
        self.target, self.order = target, order
        self.tensors, self.scalars, self.extents, self.specials = tensors, scalars, extents, specials
        self.steps, self._budget = 0, budget
        self.notes: list[str] = []
        self.agents = sum(r.instances * (r.warps + (r.name in code.electing)) for r in program.of(Role))
        self.ready: list[Machine] = []
        self.mbarriers = self._init_mbarriers()
        self._named: dict[int, NamedBarrier] = {}
        self._meetings: dict[tuple[str, int], Meeting] = {}
        self.pool = RegisterPool(self._wake)
        self.flight = Flight()
        self.shared = Shared(
            program.smem_bytes, tracked=tracked, guarded=self.mbarriers, on_corrupt=self._corrupt_barrier
        )
        self.machines = self._agents()

    def run(self) -> tuple[Stuck, ...]:
        """Run to the end. Returns the agents that are stuck, if any. Raises Stop with its place."""
        runs = {m: self.code.bodies[m.role.name](m) for m in self.machines}
        self.ready = list(self.machines)
        live = len(self.ready)
        while live:
            self.order.nudge(self.flight)
            if not self.ready:
                if not self._land_one():
                    return self.unfinished()
                continue
            machine = self.ready.pop(self.order.pick(self.ready))
            live -= self._step(machine, runs[machine])
        self._exit()
        return ()

    def stuck(self, machine: Machine, why: Blocked, path: str = "") -> Stuck:
        """Where an agent stands: at `path`, or at what it runs now."""
        lane = next(machine.each(), 0)
        env = machine.env
        return Stuck(
            path or machine.path,
            why.reason,
            machine.role.name,
            machine.instance,
            machine.warp,
            self.specials["cta_id"],
            why.barrier,
            why.slot,
            why.parity,
            tuple((n, int(lane_of(env[n], lane))) for n in self.code.loops(path or machine.path) if n in env),
            why.fault,
        )

    def unfinished(self) -> tuple[Stuck, ...]:
        """Where every agent stands that is not ready to go on; who has waited longest comes first, as the others may
        well be waiting for its next step."""
        waiting = sorted((m for m in self.machines if m.blocked is not None), key=lambda m: m.began)
        return tuple(self.stuck(m, m.blocked) for m in waiting if m.blocked is not None)

    def tick(self) -> None:
        """Count a step against the budget."""
        self.steps += 1
        if self.steps > self._budget:
            raise BudgetSpent(f"the step budget of {self._budget} is spent")

    def named_barrier(self, number: int, name: str) -> NamedBarrier:
        """The hardware barrier with this number."""
        last = self.target.limits["named_barriers"]
        if not 0 <= number <= last:
            raise Trap(f"{name} is barrier {number}, beyond {last}", name)
        if number not in self._named:
            self._named[number] = NamedBarrier(self._wake, number, self.agents)
        return self._named[number]

    def meeting(self, scope: str, group: int, lanes: int) -> Meeting:
        """Where the lanes of one warp or warpgroup meet."""
        key = (scope, group)
        if key not in self._meetings:
            self._meetings[key] = Meeting(self._wake, lanes)
        return self._meetings[key]

    def _init_mbarriers(self) -> dict[int, MBarrier]:
        """Barriers by byte address. Two at one address are one, and the later declaration is what its words hold."""
        limit = self.target.limits.get("mbarrier_bytes")
        found: dict[int, MBarrier] = {}
        for declared in self.program.of(Barrier):
            if declared.kind == "mbarrier":
                for slot in range(declared.slots):
                    shown = slot if declared.slots > 1 else None
                    barrier = MBarrier(
                        self._wake, declared.name, shown, declared.arrivals, self.agents, limit, self.order.pieces()
                    )
                    found[declared.at + 8 * slot] = barrier
        return found

    def _agents(self) -> list[Machine]:
        limits = self.target.limits
        pooled = "registers_pool_thread_minimum" in limits
        registers = (
            self.target.registers_at_launch(self.program.threads, self.program.launch.ctas_per_sm) if pooled else 0
        )
        machines: list[Machine] = []
        for role in self.program.of(Role):
            for instance in range(role.instances):
                for warp in range(role.warps):
                    split = warp == 0 and role.name in self.code.electing
                    for lanes in (range(1), range(1, WARP)) if split else (range(WARP),):
                        machines.append(Machine(self, len(machines), role, instance, warp, lanes, registers))
        return machines

    def _step(self, machine: Machine, run: Generator[bool, None, bool]) -> bool:
        """Let one agent move to where another may go first, or to where it blocks; True when it has finished."""
        try:
            if not next(run):
                self.ready.append(machine)
        except StopIteration:
            return True
        except Stop as stop:
            stop.where = stop.where or self.stuck(machine, stop.why)
            raise
        return False

    def _wake(self, machine: Machine) -> None:
        self.ready.append(machine)

    def _land_one(self) -> bool:
        """No agent can move: an operation that completes on a barrier lands, if there is one. Those that somebody waits
        for come first; what completes in groups can help nobody here."""
        copies = [o for o in self.flight.pending if o.done is not None]
        awaited = [o for o in copies if o.done is not None and o.done.waiters]
        if not copies:
            return False
        self.flight.finish(self.order.force(awaited or copies))
        return True

    def _corrupt_barrier(self, address: int) -> None:
        self.mbarriers[address].corrupt = True
        self.mbarriers[address].release()

    def _exit(self) -> None:
        """The CTA has left; its shared memory is no longer its own, and what still reads it delivers nonsense."""
        late = list(self.flight.pending)
        if late:
            self.notes.append(
                f"cta {self.specials['cta_id']} left with {len(late)} operations in flight: {late[0].path}"
            )
        self.shared.poison()
        for operation in late:
            if operation.done is None:
                self.flight.finish(operation)
