"""The state of one exploration: program points, kept values, loop choices, barriers, groups and knowledge.

A state is copied at every choice and compared whole with those seen before, so its parts are flat lists of integers and
tuples. Knowledge is kept as masks of the bits of `cake.core.order`: what each *knower* (threads of one warp that always
act together) knows to be done, and what of that is visible in the async proxy.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from cake.core.ir import Role


@dataclass(frozen=True, slots=True)
class Knower:
    """Threads of one warp that execute the same statements: `threads` are their numbers in the role instance."""

    index: int
    strand: int
    warp: int
    threads: tuple[int, ...]


@dataclass(slots=True)
class LoopInfo:
    """How one strand runs a loop or condition of a choice class: its code range, its first counter value and step, and
    the shift from a counter value to the element of the choice that must exist for that iteration to run."""

    first: int
    last: int
    origin: int = 0
    step: int = 1
    offset: int = 0


@dataclass(slots=True)
class Strand:
    """One role instance: its code runs in step, one legal schedule where synchronisation is determinate."""

    index: int
    role: Role
    instance: int
    knowers: tuple[Knower, ...] = ()
    code: list[Any] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    infos: dict[int, LoopInfo] = field(default_factory=dict)  # choice class -> how this strand runs it
    loop_paths: dict[int, str] = field(default_factory=dict)
    waits: dict[int, tuple[str, Callable[[State], str]]] = field(default_factory=dict)  # blocking acts: path, for what

    @property
    def name(self) -> str:
        """The role, with the instance when there are several."""
        return f"{self.role.name}[{self.instance}]" if self.role.instances > 1 else self.role.name


@dataclass(frozen=True, slots=True)
class ChoiceClass:
    """Trip counts (or conditions) that are provably the same number: `chain` holds the classes of the enclosing loops
    and its own; `least` is a lower bound; `exact` the count, if known."""

    index: int
    chain: tuple[int, ...]
    key: str
    least: int = 0
    exact: int | None = None


Active: TypeAlias = tuple[int, int, tuple[int, ...]]  #: a running loop: class, counter, net counts of its iteration
Groups: TypeAlias = tuple[int, int, int, tuple[tuple[int, int, int], ...], int]
#: The open group's source bits, result bits and issue progress; committed groups likewise; results that a wait for
#: sources alone left behind.
NO_GROUPS: Final[Groups] = (0, 0, 0, (), 0)
FINISHED: Final = 2**62
RUN_AHEAD: Final = 48  # iterations between strands in one loop, from which on the distance counts as unbounded


class Unbounded(Exception):
    """A strand runs ahead of another without bound: nothing that it waits for depends on the other."""

    def __init__(self, strand: str, loop: str) -> None:
        super().__init__(f"{strand} runs more than {RUN_AHEAD} iterations of the loop at {loop} ahead of another role")


Gap: TypeAlias = tuple[int, int] | None  #: completed phases minus passed waits, and what that was when first passed


@dataclass(slots=True)
class Slot:
    """One slot of a barrier. `parity` is that of the running phase, `done` how many have completed (stops at 2).

    `pending` holds what the arrivals of the running phase know, `complete` what a waiter learns; `..._seen` the same
    for the async proxy. `control` holds the contributors' knowledge of barrier progress alone. `roles` counts
    arrivals by role; `waiters` are the blocked `Sync` acts.
    """

    arrived: int = 0
    expected: int = 0
    delivered: int = 0
    parity: int = 0
    done: int = 0
    pending: int = 0
    pending_seen: int = 0
    complete: int = 0
    complete_seen: int = 0
    control: int = 0
    roles: tuple[int, ...] = ()
    waiters: tuple[int, ...] = ()

    def copy(self) -> Slot:
        """An independent copy."""
        return Slot(
            self.arrived, self.expected, self.delivered, self.parity, self.done, self.pending, self.pending_seen,
            self.complete, self.complete_seen, self.control, self.roles, self.waiters,
        )  # fmt: skip


@dataclass(slots=True)
class Trace:
    """How a state was reached: a choice after another."""

    before: Trace | None
    text: str
    depth: int = 0


@dataclass(slots=True)
class State:
    """See the module's text. Lists are indexed by strand, knower, barrier slot, group owner or waiter."""

    pc: list[int]
    env: list[list[Any]]
    loops: list[tuple[Active, ...]]
    tapes: dict[tuple[int, tuple[int, ...]], tuple[int, int | None]]
    know: list[int]
    seen: list[int]
    own: list[int]
    live: int
    slots: list[Slot]
    gaps: list[Gap]
    groups: list[Groups]
    held: list[int]  # at least the bits in each owner's groups
    last: list[tuple[int, int] | None]  # latest wait on a barrier by a strand: op, slot
    dirty: list[int]
    registers: list[int]
    pool: int
    trace: Trace | None = None

    def copy(self) -> State:
        """An independent copy."""
        return State(
            self.pc[:], [e[:] for e in self.env], self.loops[:], dict(self.tapes), self.know[:], self.seen[:],
            self.own[:], self.live, [s.copy() for s in self.slots], self.gaps[:], self.groups[:], self.held[:],
            self.last[:], self.dirty[:], self.registers[:], self.pool, self.trace,
        )  # fmt: skip

    def forget_generic(self, bits: int) -> None:
        """Make bits of generic touches unknown to everyone: they are about to stand for something new."""
        keep = ~bits
        self.know = [k & keep for k in self.know]
        self.seen = [k & keep for k in self.seen]
        self.own = [k & keep for k in self.own]
        for s in self.slots:
            if (s.pending | s.complete) & bits:
                s.pending &= keep
                s.pending_seen &= keep
                s.complete &= keep
                s.complete_seen &= keep

    def forget(self, bits: int) -> None:
        """Likewise for bits of asynchronous touches and of barrier progress, which groups hold as well."""
        keep = ~bits
        self.know = [k & keep for k in self.know]
        for s in self.slots:
            if (s.pending | s.complete | s.control) & bits:
                s.pending &= keep
                s.complete &= keep
                s.control &= keep
        for i, held in enumerate(self.held):
            if held & bits:
                self.groups[i] = _without(self.groups[i], keep)
                self.held[i] = held & keep

    def identity(
        self, control: int, generic: int, cares: list[int], learners: list[tuple[int, ...]], strands: list[Strand],
        classes: list[ChoiceClass],
    ) -> tuple[Any, ...]:  # fmt: skip
        """What makes two states the same: everything but absolute iteration numbers and knowledge that cannot matter.

        A bit is settled when every knower that may ever have to know it (`cares`) does. Until the bit is taken anew,
        which makes everybody forget it, it decides nothing; so settled bits, and dead ones, are left out. So is what a
        completed phase would teach to nobody: `learners` are the knowers that wait on each slot.
        """
        alive = self.live | control
        open_bits = open_seen = 0
        for care, known, seen in zip(cares, self.know, self.seen, strict=True):
            open_bits |= care & ~known
            open_seen |= care & ~seen
        open_bits &= alive
        open_seen &= alive & generic
        bases = Bases(self, strands, classes)
        return (
            tuple(self.pc),
            tuple(map(tuple, self.env)),
            tuple([bases.relative(s) for s in strands]),
            bases.tapes(),
            tuple([k & open_bits for k in self.know]),
            tuple([k & open_seen for k in self.seen]),
            tuple([o & ~k & alive for o, k in zip(self.own, self.know, strict=True)]),
            self.live,
            tuple([self._slot_key(s, ks, open_bits, open_seen) for s, ks in zip(self.slots, learners, strict=True)]),
            tuple(self.gaps),
            tuple([g if g is NO_GROUPS else _without(g, open_bits) for g in self.groups]),
            tuple(self.last),
            tuple(self.dirty),
            tuple(self.registers),
        )

    def _slot_key(self, s: Slot, learners: tuple[int, ...], bits: int, seen: int) -> tuple[Any, ...]:
        news = news_seen = 0
        for k in learners:
            news |= ~self.know[k]
            news_seen |= ~self.seen[k]
        return (
            s.arrived, s.expected, s.delivered, s.parity, s.done, s.pending & bits, s.pending_seen & seen,
            s.complete & bits & news, s.complete_seen & seen & news_seen, s.control & bits, s.roles, s.waiters,
        )  # fmt: skip


def _without(groups: Groups, keep: int) -> Groups:
    reads, writes, progress, committed, late = groups
    if committed:
        left = [(r & keep, w & keep, p & keep) for r, w, p in committed]
        while left and not left[0][0] and not left[0][1]:  # waiting for it would teach nothing any more
            left.pop(0)
        committed = tuple(left)
    elif not (reads | writes | late) & keep:
        return NO_GROUPS
    return reads & keep, writes & keep, progress & keep, committed, late & keep


class Bases:
    """Iterations counted from the slowest strand that can still ask about them."""

    def __init__(self, state: State, strands: list[Strand], classes: list[ChoiceClass]) -> None:
        self.state, self.strands, self.classes = state, strands, classes
        self.found: dict[tuple[int, tuple[int, ...]], int] = {}

    def position(self, strand: Strand, cls: ChoiceClass, vector: tuple[int, ...]) -> int | None:
        """The next element that `strand` may ask of choice `cls` in enclosing iterations `vector`; None when none."""
        info = strand.infos.get(cls.index)
        if info is None:
            return None
        origin = info.origin - info.offset
        loops, pc = self.state.loops[strand.index], self.state.pc[strand.index]
        for depth, enclosing in enumerate(cls.chain):
            at = strand.infos.get(enclosing)
            if at is None:
                return None
            if depth >= len(loops) or loops[depth][0] != enclosing:
                return origin if pc < at.last and (pc <= at.first or enclosing == cls.index) else None
            counter = loops[depth][1]
            if depth == len(vector):
                return counter - info.offset
            if counter != vector[depth]:
                return origin if counter < vector[depth] else None
        return origin if pc < info.last else None

    def base(self, cls: ChoiceClass, vector: tuple[int, ...]) -> int:
        """The least position over all strands; FINISHED when no strand can still ask, 0 for a known count."""
        key = (cls.index, vector)
        base = self.found.get(key)
        if base is None:
            if cls.exact is not None:
                base = 0
            else:
                positions = [self.position(s, cls, vector) for s in self.strands]
                base = min((p for p in positions if p is not None), default=FINISHED)
            self.found[key] = base
        return base

    def _vector(self, chain: tuple[int, ...], vector: tuple[int, ...]) -> tuple[int, ...]:
        """Enclosing iterations, each counted from its base."""
        return tuple(v - self.base(self.classes[chain[d]], vector[:d]) for d, v in enumerate(vector))

    def relative(self, strand: Strand) -> tuple[Any, ...]:
        """The strand's running loops, with counters from their base."""
        out: list[Any] = []
        vector: tuple[int, ...] = ()
        for cls_index, counter, net in self.state.loops[strand.index]:
            cls = self.classes[cls_index]
            ahead = counter - self.base(cls, vector)
            if ahead > RUN_AHEAD * strand.infos[cls_index].step and cls.exact is None:
                raise Unbounded(strand.name, strand.loop_paths[cls_index])
            out.append((cls_index, ahead, net))
            vector = (*vector, counter)
        return tuple(out)

    def tapes(self) -> frozenset[Any]:
        """The choices that somebody can still ask about; the others are dropped from the state as well."""
        out = []
        for (cls_index, vector), (low, high) in list(self.state.tapes.items()):
            cls = self.classes[cls_index]
            base = self.base(cls, vector)
            if base == FINISHED:
                del self.state.tapes[cls_index, vector]
                continue
            relative = self._vector(cls.chain, vector)
            out.append((cls_index, relative, max(low - base, 0), None if high is None else high - base))
        return frozenset(out)
