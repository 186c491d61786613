"""stmatrix: matrix fragments to shared memory (PTX ISA, stmatrix)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from cake.core.emitter import Emitter
from cake.core.events import Collective, Event, Write
from cake.core.ir import BF16, F16, FragmentType, View
from cake.core.op import Op, Value, Work, primitive
from cake.plugins.layouts.wgmma import LAYOUT
from cake.plugins.targets import SINCE_HOPPER

if TYPE_CHECKING:
    from cake.core.sim.machine import Machine, Steps


# Lane l gives the address of row l % 8 of matrix l / 8; matrices are rows 0-7 and 8-15 of 8 columns, then of 8 more.
STORE = """
template <int N, int pitch, typename T>  // N instructions of 16 columns, rows `pitch` bytes apart
__device__ __forceinline__ void NAME(const T *x, uint32_t to, int32_t warp_id, int32_t lane_id) {
  const uint32_t row = to + (16 * warp_id + lane_id % 16) * pitch + lane_id / 16 * 16;
#pragma unroll
  for (int n = 0; n < N; ++n) {
    uint32_t w[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) w[i] = x[8 * n + 2 * i].bits | uint32_t(x[8 * n + 2 * i + 1].bits) << 16;
    const uint32_t at = row + 32 * n;
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared::cta.b16 [%0], {%1, %2, %3, %4};"
                 :: "r"(PLACE), "r"(w[0]), "r"(w[1]), "r"(w[2]), "r"(w[3]) : "memory");
  }
}
"""


def _warp_rows(shape: tuple[int, ...], pitch: int, first_lane: int, lanes: int) -> npt.NDArray[np.int64]:
    """Byte offsets, from a warp's first row on, of the elements that some of its lanes hold: (lanes, registers)."""
    coords = LAYOUT.coords(shape)[first_lane : first_lane + lanes]
    return coords[..., 0] * pitch + coords[..., 1] * 2


@primitive("stmatrix", targets=SINCE_HOPPER, ptx="stmatrix")
class Stmatrix(Op):
    """Store a 64 x N fragment of 16-bit values to a 64 x N view: each warp stores its 16 rows, four 8x8 matrices an
    instruction, each 16-byte row to its swizzled place. N is a multiple of 16."""

    dst: View
    src: Value

    def check(self) -> Iterable[str]:
        t = self.src.type
        if not isinstance(t, FragmentType) or t.layout != LAYOUT.name or t.dtype not in (BF16, F16):
            yield f'src is {t}, not a 16-bit fragment with layout="{LAYOUT.name}"'
        elif t.shape != self.dst.shape or len(t.shape) != 2 or t.shape[0] != 64 or t.shape[1] % 16:
            yield f"src has shape {t.shape}, dst {self.dst.shape}; both need 64 rows and a multiple of 16 columns"
        elif t.dtype != self.dst.buffer.dtype:
            yield f"src holds {t.dtype}, {self.dst.buffer.name} holds {self.dst.buffer.dtype}"

    def events(self) -> tuple[Event, ...]:
        return (Collective("warp"), Write(self.dst, by_warp=True))

    def compute(self, m: Machine) -> Steps:
        yield from m.meet("warp")
        buffer, address = self.dst.buffer, m.uniform_address(self.dst)
        pitch = buffer.shape[-1] * buffer.dtype.bytes
        if address % 16 or pitch % 16:
            m.trap(f"misaligned rows: byte {address}, {pitch} bytes apart", "misaligned_address")
        cells = m.cells(_warp_rows, self.dst.shape, pitch, int(m.lanes[0]), m.width, itemsize=buffer.dtype.bytes)
        at = address + 16 * m.warp * pitch
        m.shared.store(cells, at, buffer.swizzle, m.value(self.src), m.stamp())

    def emit(self, c: Emitter) -> None:
        values, pitch = c.fragment(self.src), self.dst.buffer.shape[-1] * self.dst.buffer.dtype.bytes
        place = c.swizzle(self.dst.buffer.swizzle, "at")
        name = f"stmatrix_swizzle_{self.dst.buffer.swizzle}"
        store = c.helper(name, STORE.replace("PLACE", place).replace("NAME", name))
        where = f"{c.address(self.dst)}, {c.special('warp_id')}, {c.special('lane_id')}"
        c.line(f"{store}<{len(values.index) // 8}, {pitch}>({values.pointer}, {where});")

    def cost(self) -> Work:
        return Work(issue=self.dst.shape[1] // 16, smem_bytes=self.dst.bytes / 4)  # a warp's quarter of the rows
