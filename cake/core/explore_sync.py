"""Barriers: arrivals, waits and phases, with the check that synchronisation is determinate; and the register pool.

Exploration follows one schedule. That stands for all of them where every arrival, expectation and delivery belongs to
one phase whatever the timing (*paced*: the previous phase is known to be complete), and where a phase that somebody
waits for lasts until that wait has passed (*lasting*: the next completion knows of the pass). Both are questions of
knowledge: each slot has a bit for its latest completion, and one for each waiting thread that has passed it.
"""

from __future__ import annotations

from cake.core.explore_machine import BLOCKED, Act, Machine, Number, Site, Waiter
from cake.core.explore_state import State
from cake.core.ir import Barrier

LEAD_LEAST, LEAD_MOST = -2, 3


def arrive(m: Machine, site: Site, barrier: Barrier, slot: Number, after: int) -> Act:
    """Each executing thread arrives once on the running phase."""
    first = m.first_slot[barrier.name]
    knowers = tuple(k.index for k in site.execs)
    role = m.roles.index(site.strand.role)

    def run(st: State) -> int:
        _arrive(m, site, st, first + slot(st), knowers, site.threads, role)
        return after

    return run


def _arrive(m: Machine, site: Site, st: State, index: int, knowers: tuple[int, ...], threads: int, role: int) -> None:
    slot, barrier = st.slots[index], m.slot_barrier[index]
    while threads:
        for k in knowers:
            if not st.know[k] & m.phase_bits[index]:
                text = f"{site} arrives on {barrier.name} without knowing that its previous phase is complete"
                m.refute("paced", (site.path, barrier.name), st, text)
        for k in knowers:
            slot.pending |= st.know[k] | st.own[k]
            slot.pending_seen |= st.seen[k]
            slot.control |= st.know[k] & m.control
        room = barrier.arrivals - slot.arrived
        some = min(threads, room) if room > 0 else threads
        threads -= some
        slot.arrived += some
        slot.roles = tuple(n + some if i == role else n for i, n in enumerate(slot.roles))
        settle(m, st, index)


def expect(m: Machine, site: Site, barrier: Barrier, slot: Number, amount: int, after: int) -> Act:
    """Each executing thread raises the running phase's awaited bytes."""
    first = m.first_slot[barrier.name]
    knowers = tuple(k.index for k in site.execs)

    def run(st: State) -> int:
        index = first + slot(st)
        for k in knowers:
            if not st.know[k] & m.phase_bits[index]:
                text = f"{site} expects bytes on {barrier.name} without knowing that its previous phase is complete"
                m.refute("paced", (site.path, barrier.name), st, text)
        st.slots[index].expected += amount * site.threads
        return after

    return run


def settle(m: Machine, st: State, index: int) -> None:
    """Complete the running phase if nothing is missing."""
    slot, barrier = st.slots[index], m.slot_barrier[index]
    if slot.arrived < barrier.arrivals or slot.expected != slot.delivered:
        return
    if m.once("phase", barrier.name, slot.arrived, slot.expected, slot.delivered, slot.roles):
        m.fact("phase", barrier.name, "completed", slot.arrived, slot.expected, slot.delivered)
        for role, n in zip(m.roles, slot.roles, strict=True):
            if n:
                m.fact("phase_role", barrier.name, role.name, n)
    for waiter in m.waiters[barrier.name]:
        _check_passed(m, waiter, st, index)
    bit = m.phase_bits[index]
    pending, pending_seen = slot.pending & ~m.passes[index], slot.pending_seen
    st.forget(bit | m.passes[index])
    for act in slot.waiters:
        for k in m.sync_acts[act]:
            st.know[k.index] |= pending | bit
            st.seen[k.index] |= pending_seen
    if barrier.kind == "mbarrier":  # who waits later learns it then, with what earlier phases released
        others = m.foreign.get((barrier.slots, index - m.first_slot[barrier.name]), 0)
        slot.complete |= pending & ~others | bit
        slot.complete_seen |= pending_seen & ~others
    slot.waiters = ()
    slot.pending = slot.pending_seen = slot.control = 0
    slot.arrived = slot.expected = slot.delivered = 0
    slot.roles = (0,) * len(slot.roles)
    slot.parity ^= 1
    slot.done = min(slot.done + 1, 2)


def _check_passed(m: Machine, waiter: Waiter, st: State, index: int) -> None:
    """The completion that is about to happen must know that `waiter` has passed its wait for the previous one."""
    barrier = m.slot_barrier[index]
    at = waiter.gaps + index - m.first_slot[barrier.name]
    gap = st.gaps[at]
    if gap is None:
        return
    behind, usual = gap
    slot = st.slots[index]
    known = slot.pending | slot.complete | slot.control
    if behind >= usual or any(bit & ~known for bit in waiter.bits[index]):
        name = m.strands[waiter.strand].name
        for path in sorted(waiter.paths):
            text = f"a phase of {barrier.name} may complete before {name} has passed {path} for the one before it"
            m.refute("lasting", (path, barrier.name), st, text)
    st.gaps[at] = (min(behind + 1, 4), usual)


def wait(m: Machine, site: Site, barrier: Barrier, slot: Number, parity: Number, after: int) -> Act:
    """Block until the phase of this parity is complete."""
    first = m.first_slot[barrier.name]
    waiter = _waiter(m, site, barrier)
    knowers = tuple(k.index for k in site.execs)
    last = site.strand.index * len(m.barriers) + m.barriers.index(barrier)
    changed = levels(m, site, waited=barrier)

    def run(st: State) -> int:
        number = slot(st)
        index = first + number
        state = st.slots[index]
        bit = parity(st) & 1
        if m.once("parity", site.op, site.strand.index):
            m.fact("first_parity", site.path, bit)
        gap = st.gaps[waiter.gaps + number]
        lead, usual = (state.done, min(state.done, 1)) if gap is None else gap
        if state.parity == bit:
            if lead > usual or (lead == usual and state.done):  # its phase is complete, yet not the latest or not this
                text = f"{site} waits for parity {bit} on slot {number} of {barrier.name}, not that of its next phase"
                m.refute("lasting", (site.path, barrier.name), st, text)
            return BLOCKED
        if m.once("lead", site.strand.index, site.op, lead):
            m.fact("lead", site.path, max(LEAD_LEAST, min(LEAD_MOST, lead)))
        if lead != usual:
            text = f"{site} passes {lead} phases after its own count on slot {number} of {barrier.name}"
            m.refute("lasting", (site.path, barrier.name), st, text)
        st.gaps[waiter.gaps + number] = (max(lead - 1, -4), usual)
        bits = waiter.bits.get(index)
        if bits is None:
            bits = waiter.bits[index] = tuple(m.memory.fresh_bit() for _ in knowers)
            m.control |= sum(bits)
            m.care(sum(bits), m.arrivers[index])
            m.belongs(sum(bits), barrier.slots, number)
            m.passes[index] |= sum(bits)
        for k, passed in zip(knowers, bits, strict=True):
            st.know[k] |= state.complete | passed
            st.seen[k] |= state.complete_seen
        st.last[last] = (site.op, number)
        if changed:
            count(m, st, site.strand.index, changed, 1)
        return after

    return run


def _waiter(m: Machine, site: Site, barrier: Barrier) -> Waiter:
    for waiter in m.waiters[barrier.name]:
        if waiter.strand == site.strand.index and waiter.knowers == site.execs:
            waiter.paths.add(site.path)
            return waiter
    waiter = Waiter(site.strand.index, site.execs, m.gap_count, {site.path})
    m.gap_count += barrier.slots
    m.waiters[barrier.name].append(waiter)
    return waiter


def count(m: Machine, st: State, strand: int, changed: list[int], change: int) -> None:
    """Add to the net counts of every running loop of a strand."""
    loops = []
    for cls, counter, net in st.loops[strand]:
        new = list(net)
        for i in changed:
            new[i] = max(-8, min(8, new[i] + change))
        loops.append((cls, counter, tuple(new)))
    st.loops[strand] = tuple(loops)


def levels(m: Machine, site: Site, *, waited: Barrier | None = None, arrived: Barrier | None = None) -> list[int]:
    """Which net counts of a strand a wait or an arrival on this barrier changes."""
    names = (waited.name if waited else "", arrived.name if arrived else "")
    return [i for i, pair in enumerate(m.net_pairs[site.strand.index]) if pair[0] == names[0] or pair[1] == names[1]]


def count_arrival(m: Machine, site: Site, changed: list[int], after: int) -> Act:
    """Count an arrival in the net counts of the running loops."""

    def run(st: State) -> int:
        count(m, st, site.strand.index, changed, -1)
        return after

    return run


def sync_arrive(m: Machine, site: Site, barrier: Barrier, slot: Number, blocks: bool, after: int) -> tuple[Act, int]:
    """Arrive on a named barrier; with `blocks`, as a participant who learns. Returns the act and its number."""
    first = m.first_slot[barrier.name]
    knowers = tuple(k.index for k in site.execs)
    role = m.roles.index(site.strand.role)
    number = len(m.sync_acts)
    m.sync_acts.append(site.execs)

    def run(st: State) -> int:
        index = first + slot(st)
        if site.threads > barrier.arrivals - st.slots[index].arrived:
            m.unknown(f"{site} brings more threads to {barrier.name} than its generation still takes")
        if blocks:
            st.slots[index].waiters = tuple(sorted((*st.slots[index].waiters, number)))
        _arrive(m, site, st, index, knowers, site.threads, role)
        return after

    return run, number


def sync_wait(m: Machine, barrier: Barrier, slot: Number, number: int, after: int) -> Act:
    """Block until the generation on which act `number` arrived is complete."""
    first = m.first_slot[barrier.name]

    def run(st: State) -> int:
        return BLOCKED if number in st.slots[first + slot(st)].waiters else after

    return run


def set_registers(m: Machine, site: Site, amount: int, increase: bool, after: int) -> Act:
    """Move registers between the executing threads and the CTA's pool; an increase blocks until there are enough."""
    strand = site.strand.index

    def run(st: State) -> int:
        need = (amount - st.registers[strand]) * site.threads
        if increase and need > st.pool:
            return BLOCKED
        st.pool -= need
        st.registers[strand] = amount
        return after

    return run
