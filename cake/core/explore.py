"""Exploration: run a program for every trip count, and gather what its executions do.

One canonical schedule is followed: each strand runs until it blocks or asks an undecided choice; a choice is made
when no strand can go on, and then both ways. The state is compared whole with those seen at earlier choices,
iterations counted from the slowest strand, so that the graph closes although trip counts are unbounded. The other
schedules are the same where synchronisation is determinate, which is checked on the way (`cake.core.explore_sync`);
where it is not, the result is not closed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from cake.core.events import Arrive, Cell, Event, Read, Start, Wait, Write
from cake.core.explore_code import Compiler
from cake.core.explore_machine import CHOICE, Machine, Occurrence
from cake.core.explore_masks import knowers_of, thread_masks
from cake.core.explore_state import NO_GROUPS, Slot, State, Strand, Trace, Unbounded
from cake.core.explore_values import Unresolved, Values
from cake.core.explore_vars import Variables, statements, study
from cake.core.facts import FactBase, static_facts, universal
from cake.core.ir import Barrier, OpStmt, Part, Program, RoleBody, Tensor, Var, View
from cake.core.order import remainder, volume
from cake.core.target import Target
from cake.core.vocabulary import ALWAYS_COMPLETE, RELATIONS

STATE_BUDGET: Final = 20_000
#: States still explored, for their facts, once it is clear that the result is not closed.
AFTERWARDS: Final = 400
STEP_BUDGET: Final = 1_000_000
#: Which reason is given first, by how it starts.
_WEIGHT: Final = {"stuck": -2, "indeterminate": -1, "explored in part": 1}
#: Universal relations that say what threads know.
KNOWN: Final = ("ordered", "visible", "paced", "lasting", "retired")


@dataclass(frozen=True, slots=True)
class Stuck:
    """A strand that waits for ever at the end of one explored run: where, and for what."""

    strand: str
    path: str
    text: str


@dataclass(frozen=True, slots=True)
class Analysis:
    """What exploration found.

    `facts` maps each relation of the vocabulary to its tuples; negation over a relation outside `complete` proves
    nothing. `closed` means that every execution was explored, for every trip count and schedule; otherwise `reason`
    says why not. `states` counts the states compared, `steps` the events run. `occurrences` maps (relation, tuple) to
    the first execution that added or refuted it; `stuck` lists who waits for ever, if a run ended so.
    """

    facts: FactBase
    complete: frozenset[str]
    closed: bool
    reason: str
    states: int
    steps: int
    domain: str
    occurrences: dict[tuple[str, tuple[Any, ...]], Occurrence] = field(default_factory=dict)
    stuck: tuple[Stuck, ...] = ()

    @property
    def incomplete(self) -> frozenset[str]:
        """Relations whose absent tuples prove nothing."""
        return frozenset(RELATIONS) - self.complete


def analyse(
    program: Program, target: Target | None = None, *, budget: int = STATE_BUDGET, afterwards: int = AFTERWARDS
) -> Analysis:
    """Explore `program` for every trip count. `target` supplies limits and the register pool; without it, relations
    about limits are empty and not complete. `budget` bounds the states compared, `afterwards` those that are compared
    once it is known that the graph cannot close: 0 for a caller who has no use for such a program."""
    first = _Exploration(program, target, budget, afterwards, narrow=True)
    if not any(first.m.refuted.get(relation) for relation in KNOWN) or (first.m.reasons and not afterwards):
        return first.result()
    return _Exploration(program, target, budget, afterwards, narrow=False).result()


class _Exploration:
    def __init__(self, program: Program, target: Target | None, budget: int, afterwards: int, *, narrow: bool) -> None:
        self.program, self.target, self.budget, self.afterwards = program, target, budget, afterwards
        threads, share = program.threads, program.launch.ctas_per_sm
        registers = None if target is None else target.registers_at_launch(threads, share)
        self.m = Machine(program, registers, narrow)
        self.steps = 0
        self.states: set[tuple[Any, ...]] = set()
        self.stuck: tuple[Stuck, ...] = ()
        studies = {body.role.name: study(body.body) for body in program.roles}
        self._prepare(studies)
        self._explore()

    # -------------------------------------------------------------------------------------------------------- set-up

    def _prepare(self, studies: dict[str, Variables]) -> None:
        m = self.m
        self._links()
        bodies: list[RoleBody] = []
        for body in self.program.roles:
            for instance in range(body.role.instances):
                strand = Strand(len(m.strands), body.role, instance)
                values = Values(studies[body.role.name], strand.index, instance, body.role.warps)
                everyone = (1 << body.role.threads) - 1
                masks = sorted(set(thread_masks(body.body, values, body.role.threads, everyone)))
                strand.knowers = knowers_of(strand, masks, len(m.knowers))
                m.knowers += strand.knowers
                m.touched_by += [set() for _ in strand.knowers]
                m.strands.append(strand)
                bodies.append(body)
                waits, arrivals = _mbarriers(body, Wait), _mbarriers(body, Arrive)
                m.net_pairs[strand.index] = tuple((w, a) for w in waits for a in arrivals if w != a)
                for event in _events(body):
                    if isinstance(event, Start) and any(
                        isinstance(c, Var | Part) for c in (*event.reads, *event.writes)
                    ):
                        m.dirty_of.setdefault((strand.index, event.timeline.name), len(m.dirty_of))
        self.environments = []
        for strand, body in zip(m.strands, bodies, strict=True):
            compiler = Compiler(m, strand, studies[body.role.name])
            self.environments.append([None] * len(compiler.values.index))
            compiler.compile(body.body)
        m.prepared()

    def _links(self) -> None:
        """Which regions an mbarrier guards for the roles that wait on it: those that its arrivers touch as well."""
        touched: dict[str, set[str]] = {}
        for body in self.program.roles:
            touched[body.role.name] = {c.buffer.name for e in _events(body) for c in _cells(e) if isinstance(c, View)}
        for i, barrier in enumerate(self.m.barriers):
            if barrier.kind != "mbarrier":
                continue
            waiting = [b.role.name for b in self.program.roles if barrier.name in _mbarriers(b, Wait)]
            arriving = [b.role.name for b in self.program.roles if barrier.name in _mbarriers(b, Arrive)]
            for waiter in waiting:
                for region in touched[waiter] & {r for a in arriving if a != waiter for r in touched[a]}:
                    key = (waiter, region)
                    self.m.guarded_by[key] = (*self.m.guarded_by.get(key, ()), i)

    def _initial(self) -> State:
        m = self.m
        fresh = sum(m.phase_bits)
        n = len(m.knowers)
        slots = [Slot(roles=(0,) * len(m.roles), complete=bit) for bit in m.phase_bits]
        strands = len(m.strands)
        return State(
            pc=[0] * strands, env=self.environments, loops=[()] * strands, tapes={}, know=[fresh] * n, seen=[0] * n,
            own=[0] * n, live=0, slots=slots, gaps=[None] * m.gap_count, groups=[NO_GROUPS] * len(m.owners),
            held=[0] * len(m.owners), last=[None] * (strands * len(m.barriers)), dirty=[-1] * len(m.dirty_of),
            registers=[m.registers or 0] * strands, pool=0,
        )  # fmt: skip

    # ------------------------------------------------------------------------------------------------------- running

    def _explore(self) -> None:
        m = self.m
        todo, open_at = [self._initial()], 0
        learners = [tuple(k.index for w in m.waiters[b.name] for k in w.knowers) for b in m.slot_barrier]
        while todo:
            st = todo.pop()
            try:
                asks = self._run(st)
            except Unresolved as reason:
                m.unknown(str(reason))
                continue
            if self.steps > STEP_BUDGET:
                m.unknown(f"more than {STEP_BUDGET} events")
                return
            if asks is None:
                self._finish(st)
                continue
            cls, vector, element = m.choice
            try:
                key = st.identity(m.control, m.memory.generic, m.cares, learners, m.strands, m.classes)
            except Unbounded as reason:
                m.unknown(str(reason))
                continue
            if key in self.states:
                continue
            self.states.add(key)
            open_at = open_at or (len(self.states) if self._is_open() else 0)
            if open_at and len(self.states) > open_at + self.afterwards:
                m.unknown(f"explored in part: {len(self.states)} states")
                return
            if len(self.states) > self.budget:
                m.unknown(f"more than {self.budget} states")
                return
            low, high = st.tapes.get((cls, vector), (m.classes[cls].least, None))
            path = f"{asks.name} at {asks.loop_paths.get(cls, m.classes[cls].key)}"
            leave, again = st, st.copy()
            leave.tapes[cls, vector] = (low, element)
            again.tapes[cls, vector] = (element + 1, high)
            depth = 1 + (st.trace.depth if st.trace else 0)
            leave.trace = Trace(st.trace, f"{path} ends", depth)
            again.trace = Trace(st.trace, f"{path} goes on", depth)
            todo += (leave, again)

    def _is_open(self) -> bool:
        """Whether the result can no longer be closed."""
        return bool(self.m.reasons) or any(self.m.refuted.get(r) for r in ("paced", "lasting"))

    def _run(self, st: State) -> Strand | None:
        """Run every strand as far as it goes. The strand whose choice stands in the way, or None at the end."""
        m, moving = self.m, True
        asks: Strand | None = None
        while moving:
            moving, asks = False, None
            for strand in m.strands:
                code, at = strand.code, st.pc[strand.index]
                pc, end, steps = at, len(code), 0
                while pc < end:
                    after = code[pc](st)
                    if after < 0:
                        break
                    pc = after
                    steps += 1
                    if steps > STEP_BUDGET:
                        break
                self.steps += steps
                st.pc[strand.index] = pc
                moving |= steps > 0
                if pc < end and after == CHOICE and asks is None:
                    asks, choice = strand, m.choice
            if self.steps > STEP_BUDGET:
                break
        if asks is not None:
            m.choice = choice
        return asks

    def _finish(self, st: State) -> None:
        """The end of a run: everybody is done, or nobody can go on."""
        m = self.m
        for index, slot in enumerate(st.slots):
            if slot.arrived or slot.expected or slot.delivered:
                m.fact("phase", m.slot_barrier[index].name, "standing", slot.arrived, slot.expected, slot.delivered)
        waiting = [s for s in m.strands if st.pc[s.index] < len(s.code)]
        if waiting:
            if not self.stuck:
                self.stuck = tuple(self._stuck(st, s) for s in waiting)
                m.unknown("stuck: " + "; ".join(s.text for s in self.stuck))
            return
        owners = {i: key for key, i in m.owners.items()}
        for bit, record in m.memory.of(st.live):
            if not record.grouped:
                continue
            kind, index, _ = owners[record.issuer[1]]
            knowers = m.strands[index].knowers if kind == "strand" else (m.knowers[index],)
            if any(not st.know[k.index] & bit for k in knowers):
                end = "results" if record.write else "sources"
                path = m.path(record)
                text = f"{m.strands[record.strand].name} ends without knowing that the {end} of {path} are done"
                m.refute("retired", (path, end), st, text)

    def _stuck(self, st: State, strand: Strand) -> Stuck:
        path, what = strand.waits[st.pc[strand.index]]
        return Stuck(strand.name, path, f"{strand.name} at {path} waits for {what(st)}")

    # ------------------------------------------------------------------------------------------------------- results

    def result(self) -> Analysis:
        """The analysis."""
        m = self.m
        for relation in ("paced", "lasting"):
            for row in sorted(m.refuted.get(relation, ())):
                m.unknown(f"indeterminate: {m.occurrences[relation, row].text}")
        facts: FactBase = {name: set() for name in RELATIONS}
        for relation, rows in static_facts(self.program, self.target, m).items():
            facts[relation] |= rows
        for relation, rows in m.facts.items():
            facts[relation] |= rows
        universal(facts, m.refuted, self.program)
        for tensor in self.program.of(Tensor):
            modes = {mode for _, cell, mode, _ in facts["touches"] if cell == tensor.name}
            if len(modes) > 1:
                m.unknown(f"{tensor.name} is both read and written in global memory, which is not ordered here")
        self._misplaced(facts)
        self._coverage(facts)
        closed = not m.reasons
        missing = set() if self.target is not None else {"limit", "uses"}
        complete = (frozenset(RELATIONS) if closed else ALWAYS_COMPLETE) - missing
        reason = min(m.reasons, key=lambda text: _WEIGHT.get(text.partition(":")[0], 0), default="")
        return Analysis(
            facts,
            complete,
            closed,
            reason,
            len(self.states),
            self.steps,
            self._domain(facts),
            m.occurrences,
            self.stuck,
        )

    def _misplaced(self, facts: FactBase) -> None:
        """Give up what regions and mbarriers do to each other other than by name."""
        for barrier in self.program.of(Barrier):
            if barrier.kind == "mbarrier" and barrier.at % 8:
                self.m.unknown(f"the mbarrier {barrier.name} is at byte {barrier.at}, not a multiple of 8")
            for other in sorted(str(b) for a, b in facts["overlap"] if a == barrier.name):
                self.m.unknown(f"the mbarrier {barrier.name} shares bytes with {other}, which is not followed here")
        for op, region in sorted(facts["outside"]):
            self.m.unknown(f"{op} touches {region} outside its stages or its shape, which is not followed here")

    def _domain(self, facts: FactBase) -> str:
        warps = sum(r.warps * r.instances for r in self.m.roles)
        tensors = {t.name for t in self.program.of(Tensor)}
        written = sorted({str(cell) for _, cell, mode, _ in facts["touches"] if mode == "write" and cell in tensors})
        domain = f"all trip counts, {len(self.states)} states, {warps} warps, one CTA"
        if written:
            domain += f"; writes to {', '.join(written)} not compared with one another"
        return domain

    def _coverage(self, facts: FactBase) -> None:
        boxes: dict[tuple[str, str], list[Any]] = {}
        sizes: dict[str, int] = {}
        for record in self.m.memory.records:
            if record is not None and record.place.shared and not record.place.loose:
                boxes.setdefault((record.place.cell, "write" if record.write else "read"), []).extend(
                    record.place.boxes
                )
                sizes[record.place.cell] = record.place.element
        for (cell, mode), every in boxes.items():
            unique = list(dict.fromkeys(every))
            total = 0
            done: list[Any] = []
            for box in sorted(unique, key=volume, reverse=True):
                total += sum(volume(piece) for piece in remainder(box, done))
                done.append(box)
            facts.setdefault("covered", set()).add((cell, mode, total * sizes[cell]))


def _events(body: RoleBody) -> Iterator[Event]:
    for stmt in statements(body.body):
        if isinstance(stmt, OpStmt):
            yield from stmt.op.events()


def _cells(event: Event) -> tuple[Cell, ...]:
    match event:
        case Read(cell=cell) | Write(cell=cell):
            return (cell,)
        case Start(reads=reads, writes=writes):
            return (*reads, *writes)
    return ()


def _mbarriers(body: RoleBody, kind: type[Wait] | type[Arrive]) -> list[str]:
    """Names of the mbarriers that a role waits for, or arrives on, in order."""
    return list(dict.fromkeys(e.barrier.barrier.name for e in _events(body) if isinstance(e, kind)))
