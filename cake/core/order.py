"""Places and records: what was touched, by whom, and which other touches it meets.

A *place* is a set of boxes in one stage of a shared-memory region, or in one fragment's registers. A *record* is the
latest touch of one place by one op and one group of threads, in one mode; each has a bit. What a thread knows to be
done is an integer of such bits, so that learning is `or`, and asking whether every conflicting touch is known is one
`and`. Bits belong to (place, op, threads), not to iterations: a repeated touch takes its bit anew, and states stay
finite.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from cake.core.ir import Smem

Box: TypeAlias = tuple[tuple[int, int], ...]  #: half-open ranges, outermost dimension first


def meet(a: Box, b: Box) -> bool:
    """Whether two boxes of one space share an element."""
    return all(p < s and r < q for (p, q), (r, s) in zip(a, b, strict=True))


def inside(a: Box, b: Box) -> bool:
    """Whether `a` lies in `b`."""
    return all(r <= p and q <= s for (p, q), (r, s) in zip(a, b, strict=True))


def volume(box: Box) -> int:
    """Number of elements."""
    n = 1
    for lo, hi in box:
        n *= max(0, hi - lo)
    return n


def remainder(box: Box, covers: list[Box]) -> list[Box]:
    """Disjoint boxes that make up `box` without `covers`."""
    rest = [box]
    for cover in covers:
        rest = [piece for old in rest for piece in _without(old, cover)]
        if not rest:
            break
    return rest


def _without(box: Box, cover: Box) -> Iterator[Box]:
    if not meet(box, cover):
        yield box
        return
    head: tuple[tuple[int, int], ...] = ()
    for d, ((lo, hi), (a, b)) in enumerate(zip(box, cover, strict=True)):
        tail = box[d + 1 :]
        if lo < a:
            yield (*head, (lo, a), *tail)
        if b < hi:
            yield (*head, (b, hi), *tail)
        head = (*head, (max(lo, a), min(hi, b)))


@dataclass(slots=True, eq=False)
class Place:
    """Boxes of one space. `cell` is the region's or fragment's name, `lo` to `hi` the bytes that hold them (shared
    memory only). `lanes` gives each thread's own box where they differ. The masks hold bits of records: `reads` and
    `writes` at places that meet this one, `covered` at places inside it."""

    cell: str
    space: tuple[str, int]
    boxes: tuple[Box, ...]
    lo: int
    hi: int
    element: int
    loose: bool
    lanes: tuple[Box, ...] | None
    reads: int = 0
    writes: int = 0
    covered: int = 0
    own_reads: int = 0
    own_writes: int = 0
    near: list[Place] = field(default_factory=list)
    around: list[Place] = field(default_factory=list)

    @property
    def shared(self) -> bool:
        """Whether the place is in shared memory rather than in registers."""
        return self.hi > self.lo

    def meets(self, other: Place) -> bool:
        """Whether both share a byte; where regions differ or a box leaves its region, whether their byte ranges do."""
        if self.space == other.space and not (self.loose or other.loose):
            return any(meet(a, b) for a in self.boxes for b in other.boxes)
        return self.lo < other.hi and other.lo < self.hi

    def covers(self, other: Place) -> bool:
        """Whether every box of `other` lies in a box of this place."""
        if self.space != other.space or self.loose or other.loose:
            return False
        return all(any(inside(b, a) for a in self.boxes) for b in other.boxes)


@dataclass(frozen=True, slots=True)
class Record:
    """One touch: the op's index, its place, whether it writes, in which proxy, and by whom.

    `issuer` identifies the threads: a knower for synchronous touches, whoever started it for asynchronous ones, whose
    `timeline` is set (with marks when operations of one issuer complete in order, and by group). `collective` names
    the kind of op whose lanes always touch the same parts of equal boxes.
    """

    op: int
    place: Place
    write: bool
    generic: bool
    strand: int
    issuer: tuple[str, int]
    timeline: str = ""
    in_order: bool = False
    grouped: bool = False
    collective: str = ""


class Memory:
    """All places and records of one exploration."""

    def __init__(self) -> None:
        self.records: list[Record | None] = []
        self.generic = 0  #: bits of records in the generic proxy
        self._bits: dict[tuple[object, ...], int] = {}
        self._places: dict[tuple[object, ...], Place] = {}
        self._spaces: dict[tuple[str, int], list[Place]] = {}
        self._loose: list[Place] = []

    def fresh_bit(self) -> int:
        """A bit for something other than a touch; `records` has a gap there."""
        return self._allocate(None)

    def _allocate(self, record: Record | None) -> int:
        bit = 1 << len(self.records)
        self.records.append(record)
        return bit

    def shared_place(self, buffer: Smem, stage: int, boxes: tuple[Box, ...], lanes: tuple[Box, ...] | None) -> Place:
        """The place of `boxes` (element ranges) in a stage of `buffer`."""
        key = (buffer.name, stage, boxes, lanes)
        place = self._places.get(key)
        if place is None:
            loose = not 0 <= stage < buffer.stages or any(
                lo < 0 or hi > n for box in boxes for (lo, hi), n in zip(box, buffer.shape, strict=True)
            )
            lo, hi = _hull(buffer, stage, boxes)
            place = Place(buffer.name, (buffer.name, stage), boxes, lo, hi, buffer.dtype.bytes, loose, lanes)
            self._introduce(key, place)
        return place

    def register_place(self, cell: str, shape: tuple[int, ...], strand: int, box: Box) -> Place:
        """The place of `box` (element ranges) in fragment `cell` of strand number `strand`. Scopes may declare a name
        with several shapes: those are fragments of their own."""
        space = (f"%{cell}{shape}", strand)
        key = (*space, box)
        place = self._places.get(key)
        if place is None:
            place = Place(cell, space, (box,), 0, 0, 0, False, None)
            self._introduce(key, place)
        return place

    def token_place(self, cell: str) -> Place:
        """A place that meets no other: its records only say whether an operation is done."""
        return self._places.setdefault(("@", cell), Place(cell, (f"@{cell}", 0), (((0, 1),),), 0, 0, 0, False, None))

    def _introduce(self, key: tuple[object, ...], place: Place) -> None:
        self._places[key] = place
        if place.loose:
            rivals = [p for p in self._places.values() if p.shared]
            self._loose.append(place)
        else:
            rivals = [*self._spaces.get(place.space, ()), *self._loose]
            if place.shared:
                for space, others in self._spaces.items():
                    if space[0] != place.space[0] and others[0].shared:
                        rivals += others
            self._spaces.setdefault(place.space, []).append(place)
            rivals.append(place)
        for other in rivals:
            if place.meets(other):
                place.reads |= other.own_reads
                place.writes |= other.own_writes
                place.near.append(other)
                if other is not place:
                    other.near.append(place)
                if place.covers(other):
                    place.covered |= other.own_reads | other.own_writes
                    other.around.append(place)
                if other is not place and other.covers(place):
                    place.around.append(other)

    def bit(self, record: Record) -> tuple[int, bool]:
        """The bit of `record`, allocated on first use, and whether that was now."""
        key = (record.op, id(record.place), record.write, record.issuer, record.timeline)
        bit = self._bits.get(key)
        if bit is not None:
            return bit, False
        bit = self._bits[key] = self._allocate(record)
        place = record.place
        if record.generic:
            self.generic |= bit
        if record.write:
            place.own_writes |= bit
        else:
            place.own_reads |= bit
        for other in place.near:
            if record.write:
                other.writes |= bit
            else:
                other.reads |= bit
        for other in place.around:
            other.covered |= bit
        return bit, True

    def of(self, mask: int) -> Iterator[tuple[int, Record]]:
        """(bit, record) of the touches in `mask`, oldest allocation first."""
        while mask:
            bit = mask & -mask
            mask ^= bit
            record = self.records[bit.bit_length() - 1]
            if record is not None:
                yield bit, record

    def unwritten(self, place: Place, live: int) -> bool:
        """Whether part of `place` is covered by no live write."""
        if place.loose:
            return False
        covers = [b for _, r in self.of(live & place.writes) if r.place.space == place.space for b in r.place.boxes]
        return any(remainder(box, covers) for box in place.boxes)


def _hull(buffer: Smem, stage: int, boxes: tuple[Box, ...]) -> tuple[int, int]:
    """The byte range that holds `boxes`, whole rows where the region is swizzled."""
    strides = [buffer.dtype.bytes]
    for extent in reversed(buffer.shape[1:]):
        strides.insert(0, strides[0] * extent)
    first = min(sum(lo * s for (lo, _), s in zip(box, strides, strict=True)) for box in boxes)
    last = max(sum((hi - 1) * s for (_, hi), s in zip(box, strides, strict=True)) for box in boxes)
    base = buffer.at + stage * buffer.stage_bytes
    row = strides[0] if buffer.swizzle and len(strides) > 1 else 0
    if row:
        first, last = first // row * row, last // row * row + row - buffer.dtype.bytes
    return base + first, base + last + buffer.dtype.bytes
