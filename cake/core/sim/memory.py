"""Memories: shared memory with its two proxies, and global tensors.

Shared memory is bytes. The generic view is what loads and stores see; the async view is what TMA and wgmma read. A
generic write reaches the async view when its own order says so, at the latest at a proxy fence by an agent that has the
write in its order (PTX ISA, "Async proxy"). Async writes reach both views as they land.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import numpy as np

from cake.core.ir import DType, Tensor
from cake.core.sim.result import Array, Trap
from cake.core.sim.values import WORDS, numpy_type

#: Swizzled addresses repeat with this period: eight rows of 128 bytes (PTX ISA, "Shared memory swizzling modes").
SWIZZLE_PERIOD: Final = 1024


def swizzled(address: Any, span: int) -> Any:
    """The place of byte `address` under a swizzle of `span` bytes: 16-byte chunks XORed with the number of the row."""
    return address ^ (((address >> 7) & (span // 16 - 1)) << 4) if span else address


@dataclass(frozen=True, slots=True)
class Place:
    """Words that one access touches: indices relative to its first word, and the byte range they span."""

    index: Array
    low: int
    high: int


class Footprint:
    """Byte offsets of an access's elements from its address, in the order of the values; placed under a swizzle.

    An instance is made once for a shape (see `box`) and remembers its placements, which depend on the address only
    through its remainder by the swizzle period.
    """

    __slots__ = ("_places", "itemsize", "offsets")

    def __init__(self, offsets: Array, itemsize: int) -> None:
        self.offsets = offsets.astype(np.int64)
        self.itemsize = itemsize
        self._places: dict[tuple[int, int], Place] = {}

    def at(self, address: int, swizzle: int) -> Place:
        """Where the elements lie, for an access that starts at byte `address`."""
        phase = address % SWIZZLE_PERIOD if swizzle else 0
        place = self._places.get((phase, swizzle))
        if place is None:
            offsets = swizzled(self.offsets + phase, swizzle) - phase
            index = (offsets // self.itemsize).astype(np.intp)
            place = Place(index, int(offsets.min()), int(offsets.max()) + self.itemsize)
            self._places[phase, swizzle] = place
        return place


def pitches(shape: Sequence[int], itemsize: int) -> tuple[int, ...]:
    """Byte distance of neighbours in each dimension of a row-major array."""
    steps = [itemsize]
    for extent in reversed(shape[1:]):
        steps.insert(0, steps[0] * extent)
    return tuple(steps)


@lru_cache(maxsize=256)
def box(shape: tuple[int, ...], steps: tuple[int, ...], itemsize: int) -> Footprint:
    """The footprint of a box of `shape` elements that lie `steps` bytes apart in each dimension."""
    offsets = np.zeros(shape, np.int64)
    for axis, (extent, step) in enumerate(zip(shape, steps, strict=True)):
        offsets += (np.arange(extent) * step).reshape((extent,) + (1,) * (len(shape) - 1 - axis))
    return Footprint(offsets, itemsize)


@lru_cache(maxsize=256)
def cells(offsets: Callable[..., Array], args: tuple[Hashable, ...], itemsize: int) -> Footprint:
    """The footprint of the byte offsets `offsets(*args)`."""
    return Footprint(offsets(*args), itemsize)


@dataclass(slots=True)
class _Unfenced:
    """A generic write that the async view has not seen yet."""

    writer: int
    sequence: int
    itemsize: int
    index: Array
    values: Array


class Shared:
    """One CTA's shared memory, poisoned at the start.

    `tracked` says whether the program reads shared memory through the async proxy at all; only then are generic writes
    kept apart. `guarded` are the byte ranges of barriers: data written there corrupts them, which `on_corrupt` learns.
    """

    def __init__(self, size: int, *, tracked: bool, guarded: Iterable[int], on_corrupt: Callable[[int], None]) -> None:
        self.size = size
        self._generic = np.full(-(-size // 16) * 16, 0xFF, np.uint8)
        self._async = self._generic.copy() if tracked else self._generic
        self._tracked = tracked
        self._unfenced: list[_Unfenced] = []
        self._guarded = tuple(sorted(guarded))
        self._on_corrupt = on_corrupt

    def load(self, cells: Footprint, address: int, swizzle: int, *, proxy: str = "generic") -> Array:
        """The words of an access, in the footprint's shape."""
        place = self.check(cells, address, swizzle)
        memory = self._generic if proxy == "generic" else self._async
        return memory.view(WORDS[cells.itemsize]).take(place.index + address // cells.itemsize)

    def store(
        self, cells: Footprint, address: int, swizzle: int, values: Array, writer: tuple[int, int] | None = None
    ) -> None:
        """Write words. `writer` is (agent, its sequence number) for a generic write that the async view must not see
        yet; None writes both views."""
        place = self.check(cells, address, swizzle)
        index = place.index + address // cells.itemsize
        self._write(index, values.view(WORDS[cells.itemsize]), writer)
        if self._guarded and address + place.low < self._guarded[-1] + 8 and self._guarded[0] < address + place.high:
            self._corrupt(index, cells.itemsize)

    def load_words(self, address: Array, itemsize: int) -> Array:
        """One word from each byte address, through the generic proxy."""
        self._check_words(address, itemsize)
        return self._generic.view(WORDS[itemsize]).take(address // itemsize)

    def store_words(self, address: Array, values: Array, writer: tuple[int, int] | None = None) -> None:
        """One word to each byte address; where two lanes write one place, the last lane's stays."""
        self._check_words(address, values.itemsize)
        index = address // values.itemsize
        self._write(index, values.view(WORDS[values.itemsize]), writer)
        if self._guarded:
            self._corrupt(index, values.itemsize)

    def _write(self, index: Array, words: Array, writer: tuple[int, int] | None) -> None:
        self._generic.view(words.dtype)[index] = words
        if writer is not None and self._tracked:
            self._unfenced.append(_Unfenced(*writer, words.itemsize, index, words.copy()))
        elif self._tracked:
            self._async.view(words.dtype)[index] = words
            if self._unfenced:
                self._forget(index * words.itemsize, words.itemsize)

    def _corrupt(self, index: Array, itemsize: int) -> None:
        first = index * itemsize
        for barrier in self._guarded:
            if np.any((first < barrier + 8) & (first + itemsize > barrier)):
                self._on_corrupt(barrier)

    def _check_words(self, address: Array, itemsize: int) -> None:
        if address.size and (address.min() < 0 or address.max() + itemsize > self.size):
            worst = int(address.min() if address.min() < 0 else address.max())
            raise Trap(f"shared-memory byte {worst} is outside the CTA's {self.size}", fault="illegal_address")
        if np.any(address % itemsize):
            raise Trap(f"a misaligned shared-memory address: no multiple of {itemsize}", fault="misaligned_address")

    def check(self, cells: Footprint, address: int, swizzle: int) -> Place:
        """Where an access goes. Traps when it is misaligned or leaves the CTA's shared memory."""
        if address % cells.itemsize:
            raise Trap(
                f"misaligned shared-memory address {address}: no multiple of {cells.itemsize}",
                fault="misaligned_address",
            )
        place = cells.at(address, swizzle)
        if address + place.low < 0 or address + place.high > self.size:
            low, high = address + place.low, address + place.high
            raise Trap(
                f"shared-memory bytes {low} to {high - 1} are outside the CTA's {self.size}", fault="illegal_address"
            )
        return place

    def fence(self, seen: Sequence[int]) -> None:
        """Show the async view the generic writes that the fencing agent has in its order: `seen[a]` of each agent a."""
        waiting = []
        for write in self._unfenced:
            if write.sequence <= seen[write.writer]:
                self._async.view(WORDS[write.itemsize])[write.index] = write.values
            else:
                waiting.append(write)
        self._unfenced = waiting

    def poison(self) -> None:
        """The CTA is gone; its shared memory may be anyone's."""
        self._generic[:] = 0xFF
        self._async[:] = 0xFF

    def _forget(self, first: Array, itemsize: int) -> None:
        """Drop unfenced bytes that an async write has just overwritten: the later value is in memory for good."""
        taken = np.unique(first.reshape(-1, 1) + np.arange(itemsize))
        for write in self._unfenced:
            keep = ~np.isin(write.index * write.itemsize, taken)
            write.index, write.values = write.index[keep], write.values[keep]


class Global:
    """One tensor in global memory, row-major and dense. `double` counts elements that were written more than once."""

    def __init__(self, tensor: Tensor, array: Array, *, written: bool) -> None:
        self.tensor = tensor
        self.array = array
        self.flat = array.reshape(-1)
        self._written = np.zeros(array.shape, np.bool_) if written else None
        self.double = 0

    @property
    def dtype(self) -> DType:
        """The element type."""
        return self.tensor.dtype

    def load_box(self, at: Sequence[int], shape: Sequence[int]) -> Array:
        """A box of elements; those outside the tensor are zero."""
        inside, target = self._overlap(at, shape)
        values = np.zeros(shape, numpy_type(self.dtype))
        values[target] = self.array[inside]
        return values

    def store_box(self, at: Sequence[int], values: Array) -> None:
        """Write a box of elements; those outside the tensor are not written."""
        inside, source = self._overlap(at, values.shape)
        self._count(inside, self.array)
        self.array[inside] = values[source].view(numpy_type(self.dtype))

    def load(self, start: Array, width: int) -> Array:
        """`width` consecutive elements from each flat index in `start`; traps outside the tensor or when misaligned."""
        return self.flat[self._vector(start, width)]

    def store(self, start: Array, values: Array) -> None:
        """Write consecutive elements from each flat index in `start`; `values` has one row an index."""
        index = self._vector(start, values.shape[1])
        self._count(index, self.flat)
        self.flat[index] = values

    def _vector(self, start: Array, width: int) -> Array:
        index: Array = start.astype(np.intp)[:, None] + np.arange(width)
        if index.size and (index.min() < 0 or index.max() >= self.flat.size):
            worst = int(index.max() if index.max() >= self.flat.size else index.min())
            raise Trap(
                f"element {worst} of {self.tensor.name} is outside its {self.flat.size} elements",
                fault="illegal_address",
            )
        if np.any(start % width):
            bad = int(start[start % width != 0][0])
            raise Trap(
                f"element {bad} of {self.tensor.name} is misaligned for a vector of {width}",
                fault="misaligned_address",
            )
        return index

    def _count(self, index: Any, like: Array) -> None:
        if self._written is None:
            return
        written = self._written.reshape(like.shape)
        self.double += int(np.count_nonzero(written[index]))
        written[index] = True

    def _overlap(self, at: Sequence[int], shape: Sequence[int]) -> tuple[tuple[slice, ...], tuple[slice, ...]]:
        inside, local = [], []
        for start, count, extent in zip(at, shape, self.array.shape, strict=True):
            low = max(start, 0)
            high = max(low, min(start + count, extent))
            inside.append(slice(low, high))
            local.append(slice(low - start, high - start))
        return tuple(inside), tuple(local)
