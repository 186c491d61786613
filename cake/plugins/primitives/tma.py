"""TMA: boxes of a tensor between global and shared memory (PTX ISA, cp.async.bulk.tensor)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import KW_ONLY
from functools import partial
from typing import TYPE_CHECKING

from cake.core.emitter import Emitter
from cake.core.events import Event, GlobalBox, Start, Timeline
from cake.core.ir import BarrierRef, TensorMap, View
from cake.core.op import Coords, Op, Work, primitive
from cake.plugins.primitives.mbarrier import is_mbarrier
from cake.plugins.targets import SINCE_HOPPER

if TYPE_CHECKING:
    from cake.core.sim.machine import Machine
    from cake.core.sim.memory import Footprint

TMA_LOAD = Timeline("tma_load", proxy="async", issuer="thread", in_order=False, completion="barrier")
TMA_STORE = Timeline("tma_store", proxy="async", issuer="thread", in_order=True, completion="group")


def _load(dims: int) -> str:
    """The device function of a load in `dims` dimensions, coordinates innermost first."""
    names = [f"c{i}" for i in range(dims)]
    return f"""
__device__ __forceinline__ void tma_load_{dims}d(uint32_t to, const tensor_map *map, uint32_t done,
                                            {", ".join(f"int32_t {c}" for c in names)}) {{
  asm volatile(
      "cp.async.bulk.tensor.{dims}d.shared::cta.global.tile.mbarrier::complete_tx::bytes "
      "[%0], [%1, {{{", ".join(f"%{i + 3}" for i in range(dims))}}}], [%2];"
      :: "r"(to), "l"(map), "r"(done), {", ".join(f'"r"({c})' for c in names)} : "memory");
}}
"""


def _store(dims: int) -> str:
    """The device function of a store in `dims` dimensions, coordinates innermost first."""
    names = [f"c{i}" for i in range(dims)]
    return f"""
__device__ __forceinline__ void tma_store_{dims}d(const tensor_map *map, uint32_t from,
                                             {", ".join(f"int32_t {c}" for c in names)}) {{
  asm volatile(
      "cp.async.bulk.tensor.{dims}d.global.shared::cta.tile.bulk_group "
      "[%0, {{{", ".join(f"%{i + 2}" for i in range(dims))}}}], [%1];"
      :: "l"(map), "r"(from), {", ".join(f'"r"({c})' for c in names)} : "memory");
}}
"""


def _illegal(tensor_map: TensorMap, shape: tuple[int, ...], limits: Mapping[str, int]) -> str:
    """Why the driver would not encode this descriptor of a tensor of `shape` (CUDA Driver API, cuTensorMapEncodeTiled),
    or nothing."""
    size, inner = tensor_map.tensor.dtype.bytes, tensor_map.box[-1] * tensor_map.tensor.dtype.bytes
    stride = size
    for extent in reversed(shape[1:]):
        stride *= extent
        if stride % 16:
            return f"{tensor_map.tensor.name} has a stride of {stride} bytes, not a multiple of 16"
    if max(tensor_map.box) > limits["box_extent"]:
        return f"box={tensor_map.box} has an extent beyond {limits['box_extent']}"
    if inner % limits["box_inner_multiple"]:
        return f"rows of box={tensor_map.box} have {inner} bytes, not a multiple of {limits['box_inner_multiple']}"
    if tensor_map.swizzle and inner > tensor_map.swizzle:
        return f"rows of box={tensor_map.box} have {inner} bytes, more than swizzle={tensor_map.swizzle}"
    return ""


def _box_cells(m: Machine, tensor_map: TensorMap) -> Footprint:
    """Where a box lies in shared memory: dense rows from its address on, before swizzling."""
    reason = _illegal(tensor_map, m.tensor(tensor_map.tensor).array.shape, m.limits)
    if reason:
        m.trap(f"no launch: the descriptor {tensor_map.name} is illegal, {reason}", "launch_failure")
    return m.box(tensor_map.box, itemsize=tensor_map.tensor.dtype.bytes)


def _box_address(m: Machine, view: View, lane: int) -> int:
    """The shared-memory end of a copy, as one lane has it."""
    address = m.lane_address(view, lane)
    if address % 128:
        m.trap(f"misaligned box: byte {address} of shared memory, not a multiple of 128", "misaligned_address")
    return address


def _coords(at: Coords, tensor_map: TensorMap) -> Iterable[str]:
    if len(at) != len(tensor_map.box):
        yield f"at has {len(at)} coordinates, {tensor_map.name} has {len(tensor_map.box)} dimensions"


@primitive("tma_load", targets=SINCE_HOPPER, ptx="cp.async.bulk.tensor.shared::cta.global")
class TmaLoad(Op):
    """Copy one box of a tensor into a shared-memory view, asynchronously, completing the box's bytes on `done`.

    Elements outside the tensor arrive as zeros and count as bytes (PTX ISA, cp.async.bulk.tensor; tensor modes, tiled).
    That the box has the shape and the swizzle of `dst` is for rules to say.
    """

    dst: View
    src: TensorMap
    _: KW_ONLY
    at: Coords
    done: BarrierRef

    def check(self) -> Iterable[str]:
        yield from _coords(self.at, self.src)
        yield from is_mbarrier(self.done)

    def events(self) -> tuple[Event, ...]:
        box = GlobalBox(self.src.tensor, self.at, self.src.box)
        return (Start(TMA_LOAD, reads=(box,), writes=(self.dst,), done=self.done, bytes=self.src.bytes),)

    def compute(self, m: Machine) -> None:
        tensor, cells = m.tensor(self.src.tensor), _box_cells(m, self.src)
        for lane in m.each():
            at, address = m.coords(self.at, lane), _box_address(m, self.dst, lane)
            m.shared.check(cells, address, self.src.swizzle)
            m.start(
                TMA_LOAD,
                source=partial(tensor.load_box, at, self.src.box),
                result=partial(m.shared.store, cells, address, self.src.swizzle),
                issuer=(m.index, lane),
                done=m.mbarrier(self.done, lane),
                count=self.src.bytes,
            )

    def emit(self, c: Emitter) -> None:
        load = c.helper(f"tma_load_{len(self.at)}d", _load(len(self.at)))
        where = f"{c.tensor_map(self.src)}, {c.barrier(self.done)}, {c.coordinates(self.at)}"
        c.line(f"{load}({c.address(self.dst)}, {where});")

    def cost(self) -> Work:
        return Work(issue=1, dram_bytes=self.src.bytes, smem_bytes=self.src.bytes)


@primitive("tma_store", targets=SINCE_HOPPER, ptx="cp.async.bulk.tensor.global.shared::cta")
class TmaStore(Op):
    """Copy a shared-memory view to one box of a tensor, asynchronously, in the executing thread's bulk group.

    Elements outside the tensor are not written. What the async proxy reads must have been written through it or fenced.
    """

    dst: TensorMap
    src: View
    _: KW_ONLY
    at: Coords

    def check(self) -> Iterable[str]:
        yield from _coords(self.at, self.dst)

    def events(self) -> tuple[Event, ...]:
        return (Start(TMA_STORE, reads=(self.src,), writes=(GlobalBox(self.dst.tensor, self.at, self.dst.box),)),)

    def compute(self, m: Machine) -> None:
        tensor, cells = m.tensor(self.dst.tensor), _box_cells(m, self.dst)
        for lane in m.each():
            at, address = m.coords(self.at, lane), _box_address(m, self.src, lane)
            m.shared.check(cells, address, self.dst.swizzle)
            m.start(
                TMA_STORE,
                source=partial(m.shared.load, cells, address, self.dst.swizzle, proxy="async"),
                result=partial(tensor.store_box, at),
                issuer=(m.index, lane),
            )

    def emit(self, c: Emitter) -> None:
        store = c.helper(f"tma_store_{len(self.at)}d", _store(len(self.at)))
        c.line(f"{store}({c.tensor_map(self.dst)}, {c.address(self.src)}, {c.coordinates(self.at)});")

    def cost(self) -> Work:
        return Work(issue=1, dram_bytes=self.dst.bytes, smem_bytes=self.dst.bytes)


@primitive("prefetch_tensormap", targets=SINCE_HOPPER, ptx="prefetch.tensormap")
class PrefetchTensormap(Op):
    """Bring a descriptor into the cache, so that the first copy does not wait for it (PTX ISA, prefetch)."""

    tensor_map: TensorMap

    def events(self) -> tuple[Event, ...]:
        return ()

    def compute(self, m: Machine) -> None:
        _box_cells(m, self.tensor_map)  # a descriptor that cannot be made fails at launch, used or not

    def emit(self, c: Emitter) -> None:
        c.line(f'asm volatile("prefetch.tensormap [%0];" :: "l"({c.tensor_map(self.tensor_map)}) : "memory");')

    def cost(self) -> Work:
        return Work(issue=1)
