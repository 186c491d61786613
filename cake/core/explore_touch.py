"""Touches of shared memory and registers, asynchronous operations and their groups, fences and convergence.

Each function makes an `Act` for one event of one statement in one strand; `after` is the next program counter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from cake.core.events import Timeline
from cake.core.explore_machine import Act, Machine, Number, Site, memoised
from cake.core.explore_state import NO_GROUPS, Groups, Knower, State
from cake.core.explore_sync import settle
from cake.core.order import Place, Record


@dataclass(frozen=True, slots=True)
class Target:
    """What an event touches: the places for each group of knowers, as a function of the kept values `uses`.

    `stages` and `stage` are those of the shared-memory region `region`; `fragment` is the bit of a fragment.
    """

    uses: tuple[int, ...]
    places: Callable[[State], Sequence[tuple[Place, tuple[Knower, ...]]]]
    region: str = ""
    stages: int = 1
    stage: Number | None = None
    fragment: int = 0


def touch(m: Machine, site: Site, target: Target, write: bool, collective: str, after: int) -> Act:
    """Read or write shared memory synchronously, in the generic proxy."""
    strand = site.strand.index

    def build(st: State) -> tuple[list[tuple[Record, int, int]], int]:
        touches = []
        for place, knowers in target.places(st):
            for k in knowers:
                record = Record(site.op, place, write, True, strand, ("knower", k.index), collective=collective)
                touches.append((record, m.bit(record, (k.index,)), k.index))
        return touches, sum(bit for _, bit, _ in touches)

    resolve = memoised(strand, target.uses, build)
    guard = _guard(m, site, target)
    alone = frozenset(k.index for k in site.execs if len(k.threads) == 1)

    def run(st: State) -> int:
        touches, bits = resolve(st)
        if guard is not None:
            guard(st)
        live = st.live
        for record, bit, k in touches:
            place = record.place
            met = live & (place.writes | place.reads if write else place.writes)
            if met:
                missing = met & ~st.know[k]
                mine = missing & st.own[k]
                if m.once(site.op, bit, met, missing, mine):
                    m.meet(site, record, False, met, missing, mine, st)
            if not write:
                m.check_written(site, place, st)
        st.forget_generic(bits)
        if write:
            for record, _, _ in touches:
                live &= ~record.place.covered
        st.live = live | bits
        for _, bit, k in touches:
            if k in alone:
                st.know[k] |= bit
            else:
                st.own[k] |= bit
        return after

    return run


def _guard(m: Machine, site: Site, target: Target) -> Callable[[State], None] | None:
    """Compares the stage touched with the slot of the latest wait on each barrier that guards the region."""
    stage = target.stage
    guards = m.guarded_by.get((site.strand.role.name, target.region), ())
    bars = [i for i in guards if m.barriers[i].slots == target.stages > 1]
    if not bars or stage is None:
        return None
    base = site.strand.index * len(m.barriers)

    def compare(st: State) -> None:
        for i in bars:
            last = st.last[base + i]
            if last is not None and m.once("guard", site.strand.index, site.op, last[0], last[1] == stage(st)):
                wait = site.strand.paths[last[0]]
                m.fact("guards", wait, site.path)
                if last[1] != stage(st):
                    text = f"{site} touches stage {stage(st)} of {target.region}, {wait} waited for slot {last[1]}"
                    m.refute("same_slot", (wait, site.path), st, text)

    return compare


def registers(
    m: Machine, site: Site, reads: Sequence[Place], writes: Sequence[Place], fragments: int, after: int
) -> Act:
    """Read and write registers synchronously: each thread its own, so only asynchronous operations can interfere."""
    strand = site.strand.index
    knowers = tuple(k.index for k in site.execs)
    touches: list[tuple[Record, int]] = []
    for places, write in ((reads, False), (writes, True)):
        for place in places:
            record = Record(site.op, place, write, False, strand, ("strand", strand))
            touches.append((record, m.memory.bit(record)[0]))
    m.register_bits[strand] = m.register_bits.get(strand, 0) | sum(bit for _, bit in touches)
    others = [k.index for k in site.strand.knowers if k.index not in knowers]
    for k in others:
        m.lacking[k] = m.lacking.get(k, 0) | sum(bit for record, bit in touches if record.write)

    def run(st: State) -> int:
        known = m.register_bits[strand]
        live = st.live
        for record, bit in touches:
            place = record.place
            met = live & (place.writes | place.reads if record.write else place.writes) & ~known
            if met:
                missing = 0
                for k in knowers:
                    missing |= met & ~st.know[k]
                if m.once(site.op, bit, met, missing):
                    m.meet(site, record, False, met, missing, 0, st)
            if not record.write:
                st.live = live
                for lacking in {m.lacking.get(k, 0) for k in knowers}:
                    m.check_written(site, place, st, lacking)
            elif not others:
                live &= ~place.covered
            live |= bit
        st.live = live
        for (owner, _), i in m.dirty_of.items():
            if owner == strand:
                st.dirty[i] |= fragments
        return after

    return run


def declare(m: Machine, site: Site, whole: Place, after: int) -> Act:
    """Registers become undefined: what finished touches wrote is gone."""
    knowers = tuple(k.index for k in site.execs)

    def run(st: State) -> int:
        done = m.register_bits.get(site.strand.index, 0)
        finished = st.know[knowers[0]]
        for k in knowers:
            finished &= st.know[k]
        st.live &= ~(whole.covered & (done | finished))
        return after

    return run


@dataclass(frozen=True, slots=True)
class Done:
    """The mbarrier slot on which an operation completes `bytes`."""

    slot: Number
    barrier: str
    bytes: int


def _parties(m: Machine, site: Site, timeline: Timeline) -> Iterator[tuple[int, tuple[int, ...], int]]:
    """(owner of the group, knowers, threads) for each issuer among the executing threads."""
    if timeline.issuer == "warpgroup":
        owner = m.owners.setdefault(("strand", site.strand.index, timeline.name), len(m.owners))
        yield owner, tuple(k.index for k in site.execs), 1
        return
    for k in site.execs:
        owner = m.owners.setdefault(("knower", k.index, timeline.name), len(m.owners))
        yield owner, (k.index,), len(k.threads) if timeline.issuer == "thread" else 1


def start(
    m: Machine, site: Site, timeline: Timeline, reads: Sequence[Target], writes: Sequence[Target],
    updates: Number | None, done: Done | None, after: int,
) -> Act:  # fmt: skip
    """Start one asynchronous operation for each issuer among the executing threads."""
    strand = site.strand.index
    parties = list(_parties(m, site, timeline))
    in_async = timeline.proxy == "async"
    fragments = sum({t.fragment for t in (*reads, *writes)})
    dirty = m.dirty_of.get((strand, timeline.name)) if fragments else None
    guards = [g for t in (*reads, *writes) if (g := _guard(m, site, t)) is not None]
    uses = tuple(sorted({i for t in (*reads, *writes) for i in t.uses}))

    def build(st: State) -> list[tuple[int, tuple[int, ...], int, list[tuple[Record, int]], int, int]]:
        resolved = []
        for owner, knowers, threads in parties:
            touches: list[tuple[Record, int]] = []
            for targets, write in ((reads, False), (writes, True)):
                for target in targets:
                    for place, group in target.places(st):
                        if any(k.index in knowers for k in group):
                            record = Record(
                                site.op, place, write, False, strand, ("owner", owner), timeline.name,
                                timeline.in_order, timeline.completion == "group",
                            )  # fmt: skip
                            touches.append((record, m.bit(record, knowers)))
            read_bits = sum({b for r, b in touches if not r.write})
            write_bits = sum({b for r, b in touches if r.write})
            resolved.append((owner, knowers, threads, touches, read_bits, write_bits))
        return resolved

    resolve = memoised(strand, uses, build)

    def run(st: State) -> int:
        for guard in guards:
            guard(st)
        update = updates is not None and bool(updates(st))
        if dirty is not None and st.dirty[dirty] & fragments:
            text = f"{site} starts without a fence of {timeline.name}'s registers since they were touched"
            m.refute("register_fenced", (site.path,), st, text)
        for owner, knowers, threads, touches, read_bits, write_bits in resolve(st):
            known, seen, progress = -1, -1, 0
            for k in knowers:
                known &= st.know[k]
                seen &= st.seen[k]
                progress |= st.know[k]
            known |= m.register_bits.get(strand, 0)
            for record, bit in touches:
                place = record.place
                met = st.live & (place.writes | place.reads if record.write else place.writes)
                if met:
                    hidden = met & m.memory.generic & ~seen if in_async else 0
                    if m.once(site.op, bit, met, met & ~known, hidden, update):
                        m.meet(site, record, update and record.write, met, met & ~known, 0, st)
                        m.hide(site, record, hidden, st)
                if not record.write or update:
                    m.check_written(site, place, st)
            bits = read_bits | write_bits
            st.forget(bits)
            live = st.live
            for record, _ in touches:
                if record.write:
                    live &= ~record.place.covered
            st.live = live | bits
            if done is not None:
                deliver(m, site, st, done, bits, progress & m.control, threads)
            elif timeline.completion == "group":
                r, w, p, committed, late = st.groups[owner]
                progress &= m.control
                st.groups[owner] = (r | read_bits, w | write_bits, p | progress, committed, late)
                st.held[owner] |= bits | progress
        return after

    return run


def deliver(m: Machine, site: Site, st: State, done: Done, bits: int, progress: int, times: int) -> None:
    """Complete an operation's bytes on its barrier: the earliest moment; that later ones are the same is checked by
    pacing. What the operation touched becomes known to whoever waits for the phase."""
    index = m.first_slot[done.barrier] + done.slot(st)
    slot = st.slots[index]
    if not progress & m.phase_bits[index]:
        text = f"{site} delivers to {done.barrier} without knowing that its previous phase is complete"
        m.refute("paced", (site.path, done.barrier), st, text)
    slot.pending |= bits
    slot.control |= progress
    slot.delivered += done.bytes * times
    settle(m, st, index)


def completes_slot(m: Machine, site: Site, target: Target, done: Done, after: int) -> Act:
    """Compare the stage that a copy fills with the slot of the barrier that it completes on."""
    stage = target.stage
    assert stage is not None

    def run(st: State) -> int:
        a, b = stage(st), done.slot(st)
        if a != b:
            text = f"{site} fills stage {a} of {target.region} and completes on slot {b} of {done.barrier}"
            m.refute("completes_slot", (site.path,), st, text)
        return after

    return run


def commit(m: Machine, site: Site, timeline: Timeline, after: int) -> Act:
    """Close the open group of each issuer among the executing threads."""
    owners = [owner for owner, _, _ in _parties(m, site, timeline)]

    def run(st: State) -> int:
        for owner in owners:
            r, w, p, committed, late = st.groups[owner]
            if m.once("commit", site.strand.index, site.op, r | w):
                for _, record in m.memory.of(r | w):
                    m.fact("commits", site.path, m.path(record))
            if r | w or committed:
                st.groups[owner] = (0, 0, 0, (*committed, (r, w, p)), late)
        return after

    return run


def wait_group(m: Machine, site: Site, timeline: Timeline, pending: int, sources_only: bool, after: int) -> Act:
    """Wait for all but the last `pending` committed groups, and learn what they touched."""
    parties = list(_parties(m, site, timeline))

    def learn(groups: Groups) -> tuple[Groups, int, int]:
        r, w, p, committed, late = groups
        cut = max(0, len(committed) - pending)
        sources, results, progress = 0, 0, 0
        for reads, writes, issued in committed[:cut]:
            sources |= reads
            results |= writes
            progress |= issued
        if sources_only:
            return (r, w, p, committed[cut:], late | results), sources | progress, sources
        return (r, w, p, committed[cut:], 0), sources | results | late | progress, sources | results | late

    def run(st: State) -> int:
        for owner, knowers, _ in parties:
            groups = st.groups[owner]
            if groups is NO_GROUPS:
                continue
            left, learnt, touched = learn(groups)
            st.groups[owner] = left
            new = touched & ~st.know[knowers[0]]
            if m.once("wait", site.strand.index, site.op, new, len(left[3])):
                m.fact("outstanding", site.path, timeline.name, len(left[3]))
                for _, record in m.memory.of(new):
                    m.fact("covers", site.path, m.path(record), "results" if record.write else "sources")
            for k in knowers:
                st.know[k] |= learnt
        return after

    return run


def fence(m: Machine, site: Site, after: int) -> Act:
    """What the executing threads know of generic accesses becomes visible in the async proxy."""
    knowers = tuple(k.index for k in site.execs)

    def run(st: State) -> int:
        for k in knowers:
            st.seen[k] |= (st.know[k] | st.own[k]) & m.memory.generic
        return after

    return run


def register_fence(m: Machine, site: Site, timeline: Timeline, after: int) -> Act:
    """Registers touched so far are in order before later operations of `timeline`."""
    index = m.dirty_of.get((site.strand.index, timeline.name))

    def run(st: State) -> int:
        if index is not None:
            st.dirty[index] = 0
        return after

    return run


def converge(m: Machine, site: Site, after: int) -> Act:
    """The executing lanes of each warp learn from each other."""
    warps: dict[int, list[int]] = {}
    for k in site.execs:
        warps.setdefault(k.warp, []).append(k.index)

    def run(st: State) -> int:
        for members in warps.values():
            known = seen = 0
            for k in members:
                known |= st.know[k] | st.own[k]
                seen |= st.seen[k]
            for k in members:
                st.know[k] |= known
                st.seen[k] |= seen
        return after

    return run
