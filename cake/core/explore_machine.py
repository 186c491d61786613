"""What is fixed during one exploration, and what it has observed so far.

Observations are facts: existential ones are added when an execution shows them, universal ones are refuted by the first
execution that does not. Each carries the occurrence that settled it, for the witness.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias, TypeVar

from cake.core.explore_forms import Forms
from cake.core.explore_state import ChoiceClass, Knower, State, Strand, Trace
from cake.core.ir import Barrier, Program, Role, Smem
from cake.core.order import Memory, Place, Record

#: One event of one statement: runs once for each execution, returns the next program counter, BLOCKED, or CHOICE when
#: an undecided choice stands in the way.
Act: TypeAlias = Callable[[State], int]
Number: TypeAlias = Callable[[State], int]
BLOCKED: Final = -1
CHOICE: Final = -2
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Site:
    """One statement in one strand: its path, the knowers that execute it, and how many threads they are."""

    strand: Strand
    op: int
    path: str
    execs: tuple[Knower, ...]
    threads: int

    def __str__(self) -> str:
        return f"{self.strand.name} at {self.path}"


@dataclass(slots=True)
class Waiter:
    """Threads of a strand that wait on an mbarrier: their ops, their progress bits by slot, where their gaps start."""

    strand: int
    knowers: tuple[Knower, ...]
    gaps: int
    paths: set[str] = field(default_factory=set)
    bits: dict[int, tuple[int, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Occurrence:
    """The first execution that showed something: how it was reached, and what happened there."""

    trace: Trace | None
    text: str


def memoised(strand: int, uses: tuple[int, ...], build: Callable[[State], T]) -> Callable[[State], T]:
    """`build`, computed once for each combination of the kept values `uses` of a strand."""
    memo: dict[Any, T] = {}
    if len(uses) == 1:
        only = uses[0]

        def one(st: State) -> T:
            key = st.env[strand][only]
            found = memo.get(key)
            if found is None:
                found = memo[key] = build(st)
            return found

        return one

    def many(st: State) -> T:
        env = st.env[strand]
        key = tuple([env[i] for i in uses])
        found = memo.get(key)
        if found is None:
            found = memo[key] = build(st)
        return found

    return many


class Machine:
    """See the module's text. `registers` is what the launch gives each thread, None when the target does not say.

    With `narrow`, a phase of slot i of an mbarrier passes on no knowledge about other stages of regions (and slots of
    barriers) that have as many. Rings do not need it, and states that differ in it alone are many. Less knowledge only
    ever refutes more, so that what is clean when narrow is clean; what is not must be explored in full.
    """

    def __init__(self, program: Program, registers: int | None, narrow: bool) -> None:
        self.program = program
        self.registers = registers
        self.narrow = narrow
        self.foreign: dict[tuple[int, int], int] = {}  # (slots, slot) -> bits about others of as many
        self.forms = Forms()
        self.memory = Memory()
        self.strands: list[Strand] = []
        self.knowers: list[Knower] = []
        self.roles = program.of(Role)
        self.barriers = program.of(Barrier)
        self.first_slot: dict[str, int] = {}
        self.slot_barrier: list[Barrier] = []
        for barrier in self.barriers:
            self.first_slot[barrier.name] = len(self.slot_barrier)
            self.slot_barrier += [barrier] * barrier.slots
        self.phase_bits = [self.memory.fresh_bit() for _ in self.slot_barrier]
        self.control = sum(self.phase_bits)  # bits of barrier progress, alive for ever
        self.passes = [0] * len(self.slot_barrier)  # bits of waits that passed for the latest completed phase
        self.aliases = _aliases(program)
        self.stages = {s.name: s.stages for s in program.of(Smem)}
        self.touched_by: list[set[tuple[str, int | None, bool]]] = []  # knower -> (cell, stage or any, whether written)
        self.cares: list[int] = []  # knower -> bits that it may have to know
        self.arrivers: list[set[int]] = [set() for _ in self.slot_barrier]  # slot -> knowers
        self.waiters: dict[str, list[Waiter]] = {b.name: [] for b in self.barriers}
        self.gap_count = 0
        self.classes: list[ChoiceClass] = []
        self.owners: dict[tuple[str, int, str], int] = {}
        self.dirty_of: dict[tuple[int, str], int] = {}
        self.sync_acts: list[tuple[Knower, ...]] = []
        self.register_bits: dict[int, int] = {}  # strand -> bits of its synchronous register touches
        self.lacking: dict[int, int] = {}  # knower -> bits of register writes by other threads of its strand alone
        self.guarded_by: dict[tuple[str, str], tuple[int, ...]] = {}  # (role, region) -> barriers that guard it there
        self.net_pairs: dict[int, tuple[tuple[str, str], ...]] = {}  # strand -> (waited, arrived) barriers
        self.threads: dict[str, dict[int, int]] = {}  # op path -> strand -> executing threads
        self.lane_varying: set[str] = set()  # op paths that only some lanes of a warp may reach
        self.loops: dict[str, set[tuple[tuple[int, ...], bool]]] = {}  # loop path -> how strands count it, may it skip
        self.facts: dict[str, set[tuple[Any, ...]]] = {}
        self.refuted: dict[str, set[tuple[Any, ...]]] = {}
        self.reasons: dict[str, None] = {}
        self.occurrences: dict[tuple[str, tuple[Any, ...]], Occurrence] = {}
        self.noted: set[tuple[Any, ...]] = set()
        self.choice: tuple[int, tuple[int, ...], int] = (0, (), 0)

    # ------------------------------------------------------------------------------------------------- observations

    def fact(self, relation: str, *row: Any) -> None:
        """Some execution did this."""
        self.facts.setdefault(relation, set()).add(row)

    def first(self, relation: str, row: tuple[Any, ...], st: State, text: str) -> None:
        """Some execution did this; the first one is kept as its occurrence."""
        self.fact(relation, *row)
        self.occurrences.setdefault((relation, row), Occurrence(st.trace, text))

    def refute(self, relation: str, row: tuple[Any, ...], st: State, text: str) -> None:
        """Some execution did not do this; the first one is kept as its occurrence."""
        rows = self.refuted.setdefault(relation, set())
        if row not in rows:
            rows.add(row)
            self.occurrences[relation, row] = Occurrence(st.trace, text)

    def prepared(self) -> None:
        """All strands are compiled: who may ever ask about which barrier's progress is known."""
        self.cares = [0] * len(self.knowers)
        for index, (bit, knowers) in enumerate(zip(self.phase_bits, self.arrivers, strict=True)):
            self.care(bit, knowers)
            barrier = self.slot_barrier[index]
            self.belongs(bit, barrier.slots, index - self.first_slot[barrier.name])

    def arriver(self, barrier: Barrier, slot: int | None, knowers: Iterable[Knower]) -> None:
        """These knowers may arrive, expect or deliver on this slot, or on any."""
        first = self.first_slot[barrier.name]
        for index in range(first, first + barrier.slots) if slot is None else (first + slot,):
            self.arrivers[index].update(k.index for k in knowers)

    def belongs(self, bit: int, count: int, number: int) -> None:
        """`bit` is about stage or slot `number` of `count`."""
        if self.narrow and count > 1:
            for other in range(count):
                if other != number:
                    self.foreign[count, other] = self.foreign.get((count, other), 0) | bit

    def care(self, bit: int, knowers: Iterable[int]) -> None:
        """These knowers may have to know `bit`."""
        for k in knowers:
            self.cares[k] |= bit

    def bit(self, record: Record, knowers: Iterable[int]) -> int:
        """The bit of a touch by `knowers`."""
        bit, new = self.memory.bit(record)
        if new:
            cell, stage = record.place.space
            anywhere = {cell, *self.aliases.get(cell, ())}
            for k, touched in enumerate(self.touched_by):
                if any(
                    c in anywhere
                    and (c != cell or at in (None, stage) or record.place.loose)
                    and (writes or record.write)
                    for c, at, writes in touched
                ):
                    self.cares[k] |= bit
            self.care(bit, knowers)
            if record.place.shared:
                self.belongs(bit, self.stages[cell], stage)
        return bit

    def unknown(self, reason: str) -> None:
        """Exploration is not complete, for this reason."""
        self.reasons.setdefault(reason)

    def once(self, *key: Any) -> bool:
        """Whether `key` is noted for the first time."""
        if key in self.noted:
            return False
        self.noted.add(key)
        return True

    def path(self, record: Record) -> str:
        """Where a record's op stands."""
        return self.strands[record.strand].paths[record.op]

    def meet(self, site: Site, new: Record, update: bool, met: int, missing: int, mine: int, st: State) -> None:
        """Facts about the touch `new`, which meets the live touches `met`; its threads do not know those in `missing`
        to be done, of which `mine` are their own. An `update` reads what it overwrites."""
        place = new.place
        olds = list(self.memory.of(met))
        reads = [old.place for _, old in olds if not old.write]
        for bit, old in olds:
            if not (place.shared or new.timeline or old.timeline):
                continue
            unread = old.write and not any(r.meets(old.place) for r in reads)
            if new.write and old.write and not unread:
                continue  # the read between them is ordered after one and before the other
            if new.collective and new.collective == old.collective and old.place is place:
                first, second = self.knowers[old.issuer[1]], self.knowers[new.issuer[1]]
                if (first.strand, first.warp) == (second.strand, second.warp):
                    continue  # each lane touches the part that it touched before
            pair = (self.path(old), site.path)
            self.fact("conflict", *pair, place.cell)
            if old.write and (not new.write or update):
                self.fact("conflict_kind", *pair, "raw")
            if new.write:
                self.fact("conflict_kind", *pair, "waw" if old.write else "war")
            if new.write and unread and not update and place.covers(old.place):
                text = f"{site} overwrites what {pair[0]} wrote to {place.cell} and nobody read"
                self.first("supersedes", (site.path, pair[0], place.cell), st, text)
            in_order = old.in_order and new.timeline == old.timeline and new.issuer == old.issuer
            if bit & missing and not in_order and not (bit & mine and _apart(old.place, place)):
                verb = "writes" if new.write else "reads"
                other = self.strands[old.strand].name
                end = "has finished writing" if old.write else "has finished reading"
                text = f"{site} {verb} {place.cell} without knowing that {other} at {pair[0]} {end} it"
                self.refute("ordered", pair, st, text)

    def hide(self, site: Site, new: Record, hidden: int, st: State) -> None:
        """Facts about the touch `new` in the async proxy, where the generic touches `hidden` are not visible."""
        for _, old in self.memory.of(hidden):
            if new.write or old.write:
                pair = (self.path(old), site.path)
                text = f"{site} reaches {new.place.cell} in the async proxy, no fence after {pair[0]}"
                self.refute("visible", pair, st, text)

    def check_written(self, site: Site, place: Place, st: State, lacking: int = 0) -> None:
        """A fact if `site` reads part of `place` that nothing has written, the writes in `lacking` apart."""
        live = st.live & ~lacking
        key = ("written", site.strand.index, site.op, id(place), live & place.writes)
        if self.once(*key) and self.memory.unwritten(place, live):
            text = f"{site} reads {place.cell} where nothing was written"
            self.first("reads_unwritten", (site.path, place.cell), st, text)


def _aliases(program: Program) -> dict[str, set[str]]:
    """For each region, the others that share bytes with it."""
    regions = program.of(Smem)
    return {a.name: {b.name for b in regions if b != a and a.at < b.end and b.at < a.end} for a in regions}


def _apart(old: Place, new: Place) -> bool:
    """Whether no two different threads of one knower touch a common element, so that program order is order enough."""
    if old.lanes is None or new.lanes is None or len(old.lanes) != len(new.lanes) or old.space != new.space:
        return False
    return all(
        i == j or not all(p < s and r < q for (p, q), (r, s) in zip(a, b, strict=True))
        for i, a in enumerate(old.lanes)
        for j, b in enumerate(new.lanes)
    )
