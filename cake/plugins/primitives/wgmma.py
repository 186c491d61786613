"""wgmma: warpgroup matrix multiply-accumulate on Hopper (PTX ISA, "Asynchronous Warpgroup Level Matrix")."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import KW_ONLY
from functools import cache, partial
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from cake.core.emitter import Emitter
from cake.core.events import Collective, Commit, Event, RegisterFence, Start, Timeline, WaitGroup
from cake.core.ir import BF16, BOOL, F16, F32, FragmentType, View
from cake.core.op import Frag, Op, Pred, Work, primitive
from cake.plugins.layouts.wgmma import LAYOUT
from cake.plugins.targets import HOPPER

if TYPE_CHECKING:
    from cake.core.sim.machine import Machine, Steps


WGMMA = Timeline("wgmma", proxy="async", issuer="warpgroup", in_order=True, completion="group")


def _descriptor(swizzle: int) -> tuple[str, str]:
    """Name and text of the device function that makes a matrix descriptor (PTX ISA, "Matrix descriptor"): K-major,
    rows of `swizzle` bytes, so that groups of 8 rows are 8 * swizzle bytes apart."""
    mode = {128: 1, 64: 2, 32: 3, 0: 0}[swizzle]
    fixed = mode << 62 | (8 * (swizzle or 16) >> 4) << 32 | 1 << 16
    name = f"k_major_{swizzle}"
    text = f"__device__ __forceinline__ uint64_t {name}(uint32_t start) {{ return {fixed:#x}ull | start; }}"
    return name, text


def _instruction(n: int, dtype: str) -> str:
    """The device function of one m64nNk16: N / 2 accumulators, two descriptors, and whether to accumulate."""
    count = n // 2
    rows = range(0, count, 8)
    registers = [", ".join(f"%{i}" for i in range(r, min(r + 8, count))) for r in rows]
    operands = [", ".join(f'"+f"(d[{i}])' for i in range(r, min(r + 8, count))) for r in rows]
    listed = ', "\n      "'.join(registers)
    bound = ",\n        ".join(operands)
    return f"""
__device__ __forceinline__ void wgmma_m64n{n}k16_{dtype}(float *d, uint64_t a, uint64_t b, bool accumulate) {{
  asm volatile(
      "{{ "
      ".reg .pred p; "
      "setp.ne.b32 p, %{count + 2}, 0; "
      "wgmma.mma_async.sync.aligned.m64n{n}k16.f32.{dtype}.{dtype} {{"
      "{listed}"
      "}}, %{count}, %{count + 1}, p, 1, 1, 0, 0; "
      "}}"
      : {bound}
      : "l"(a), "l"(b), "r"(int32_t(accumulate)));
}}
"""


HOLD = """
template <int N> __device__ __forceinline__ void hold(float *x) {
#pragma unroll
  for (int i = 0; i < N; ++i) asm volatile("" : "+f"(x[i]) :: "memory");
}
"""


def _core_rows(rows: int, swizzle: int) -> npt.NDArray[np.int64]:
    """Byte offsets, as the matrix descriptor gives them, of a K-major (rows, 16) operand of 2-byte elements."""
    return np.arange(rows)[:, None] * (swizzle or 16) + 2 * np.arange(16)


def _operand(m: Machine, view: View) -> Callable[[], npt.NDArray[np.float32]]:
    """Reads an operand through the async proxy, whenever the instruction gets to it."""
    address, swizzle, dtype = m.uniform_address(view), view.buffer.swizzle, view.buffer.dtype
    if address % 16:
        m.trap(f"misaligned operand: byte {address} of shared memory, not a multiple of 16", "misaligned_address")
    cells = m.cells(_core_rows, view.shape[0], swizzle, itemsize=dtype.bytes)
    m.shared.check(cells, address, swizzle)
    return lambda: m.floats(m.shared.load(cells, address, swizzle, proxy="async"), dtype)


def _accumulate(
    acc: Frag,
    product: npt.NDArray[np.float32],
    *,
    team: Sequence[tuple[Machine, npt.NDArray[np.float32] | None]],
    add: bool,
) -> None:
    """Deliver a (64, N) product to the registers of a warpgroup, plus what they hold or still held unfenced."""
    t = acc.type
    assert isinstance(t, FragmentType)
    flat = _register_index(t.shape)
    for machine, unfenced in team:
        first = 32 * (machine.cta_warp % 4) + int(machine.lanes[0])
        values = product.take(flat[first : first + machine.width])
        if add:
            values += machine.value(acc) if unfenced is None else unfenced
        machine.deliver(acc, values)


@cache
def _register_index(shape: tuple[int, ...]) -> npt.NDArray[np.intp]:
    """For each thread and register, the row-major index of its element."""
    coords = LAYOUT.coords(shape)
    return np.ascontiguousarray(coords[..., 0] * shape[1] + coords[..., 1], np.intp)


@primitive("wgmma", targets=HOPPER, ptx="wgmma.mma_async")
class Wgmma(Op):
    """acc (64 x N) = a (64 x 16) @ b (N x 16).T, plus acc where `accumulate`; bf16 or f16 operands, f32 accumulators.

    One instruction, m64nNk16, both operands K-major in shared memory (PTX ISA, wgmma.mma_async). It is asynchronous:
    `acc` may be touched again only past a `wgmma_wait` that covers its group.
    """

    acc: Frag
    a: View
    b: View
    _: KW_ONLY
    accumulate: Pred

    def check(self) -> Iterable[str]:
        t = self.acc.type
        if (
            not isinstance(t, FragmentType)
            or t.layout != LAYOUT.name
            or t.dtype != F32
            or len(t.shape) != 2
            or t.shape[0] != 64
        ):
            yield f'acc is {t}, not a fragment(f32, (64, N), layout="{LAYOUT.name}")'
            return
        if self.a.shape != (64, 16):
            yield f"a has shape {self.a.shape}, not (64, 16)"
        if self.b.shape != (t.shape[1], 16):
            yield f"b has shape {self.b.shape}, not ({t.shape[1]}, 16)"
        if self.a.buffer.dtype not in (BF16, F16) or self.a.buffer.dtype != self.b.buffer.dtype:
            yield f"operands are {self.a.buffer.dtype} and {self.b.buffer.dtype}, not both bf16 or both f16"
        if t.shape[1] % 8 or not 8 <= t.shape[1] <= 256:
            yield f"N={t.shape[1]}, not a multiple of 8 from 8 to 256"
        if self.accumulate.type != BOOL:
            yield f"accumulate has type {self.accumulate.type}, not bool"

    def events(self) -> tuple[Event, ...]:
        start = Start(WGMMA, reads=(self.a, self.b), writes=(self.acc,), updates=self.accumulate)
        return (Collective("warpgroup"), start)

    def compute(self, m: Machine) -> Steps:
        team, last = yield from m.meet("warpgroup", m.unfenced(self.acc))
        if last:
            a, b = _operand(m, self.a), _operand(m, self.b)
            accumulate = m.uniform(self.accumulate, "accumulate")
            m.start(
                WGMMA,
                source=lambda: a() @ b().T,
                result=partial(_accumulate, self.acc, team=team, add=bool(accumulate)),
                issuer=m.cta_warp // 4,
                members=[machine for machine, _ in team],
            )

    def emit(self, c: Emitter) -> None:
        n, dtype = self.b.shape[0], self.a.buffer.dtype
        acc = c.registers(self.acc)
        issue = c.helper(f"wgmma_m64n{n}k16_{dtype}", _instruction(n, dtype.name))
        a, b = (f"{c.helper(*_descriptor(v.buffer.swizzle))}({c.units(v)})" for v in (self.a, self.b))
        c.line(f"{issue}({acc.pointer}, {a}, {b}, {c.expr(self.accumulate)});")

    def cost(self) -> Work:
        return Work(issue=1, smem_bytes=self.a.bytes + self.b.bytes, tensor_flops=2 * 64 * self.b.shape[0] * 16)


@primitive("wgmma_fence", targets=HOPPER, ptx="wgmma.fence")
class WgmmaFence(Op):
    """Order register accesses before the next wgmma: needed before the first and whenever registers changed."""

    def events(self) -> tuple[Event, ...]:
        return (Collective("warpgroup"), RegisterFence(WGMMA))

    def compute(self, m: Machine) -> Steps:
        yield from m.meet("warp")
        m.fence_registers()

    def emit(self, c: Emitter) -> None:
        c.line('asm volatile("wgmma.fence.sync.aligned;" ::: "memory");')

    def cost(self) -> Work:
        return Work(issue=1)


@primitive("wgmma_commit", targets=HOPPER, ptx="wgmma.commit_group")
class WgmmaCommit(Op):
    """Close the open group of wgmmas."""

    def events(self) -> tuple[Event, ...]:
        return (Collective("warpgroup"), Commit(WGMMA))

    def compute(self, m: Machine) -> Steps:
        yield from m.meet("warp")
        m.commit(WGMMA)

    def emit(self, c: Emitter) -> None:
        c.line('asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");')

    def cost(self) -> Work:
        return Work(issue=1)


@primitive("wgmma_wait", targets=HOPPER, ptx="wgmma.wait_group")
class WgmmaWait(Op):
    """Wait until at most `pending` groups of wgmmas are unfinished."""

    pending: int

    def check(self) -> Iterable[str]:
        if not 0 <= self.pending <= 7:
            yield f"pending={self.pending}, not 0 to 7"

    def events(self) -> tuple[Event, ...]:
        return (Collective("warpgroup"), WaitGroup(WGMMA, self.pending))

    def compute(self, m: Machine) -> Steps:
        yield from m.meet("warp")
        m.wait_group(WGMMA, self.pending)

    def emit(self, c: Emitter) -> None:
        c.line(f'asm volatile("wgmma.wait_group.sync.aligned {self.pending};" ::: "memory");')
        for acc in c.accumulators(LAYOUT.name, F32):  # no instruction: keeps the C++ compiler from reading them early
            c.line(f"{c.helper('hold', HOLD)}<{len(acc.index)}>({acc.pointer});")

    def cost(self) -> Work:
        return Work(issue=1, sync=1)
