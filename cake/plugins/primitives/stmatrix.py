"""stmatrix: matrix fragments to shared memory (PTX ISA, stmatrix)."""

from __future__ import annotations

from collections.abc import Iterable

from cake.core.events import Collective, Event, Write
from cake.core.ir import BF16, F16, FragmentType, View
from cake.core.op import Op, Value, Work, primitive


@primitive("stmatrix", targets=("sm_90a", "sm_100a"), ptx="stmatrix")
class Stmatrix(Op):
    """Store a 64 x N fragment of 16-bit values to a 64 x N view: each warp stores its 16 rows, four 8x8 matrices an
    instruction, each 16-byte row to its swizzled place. N is a multiple of 16."""

    dst: View
    src: Value

    def check(self) -> Iterable[str]:
        t = self.src.type
        if not isinstance(t, FragmentType) or t.layout != "wgmma" or t.dtype not in (BF16, F16):
            yield f'src is {t}, not a 16-bit fragment with layout="wgmma"'
        elif t.shape != self.dst.shape or t.shape[1] % 16:
            yield f"src has shape {t.shape}, dst {self.dst.shape}; both need 64 rows and a multiple of 16 columns"
        elif t.dtype != self.dst.buffer.dtype:
            yield f"src holds {t.dtype}, {self.dst.buffer.name} holds {self.dst.buffer.dtype}"

    def events(self) -> tuple[Event, ...]:
        return (Collective("warp"), Write(self.dst))

    def cost(self) -> Work:
        return Work(issue=self.dst.shape[1] // 16, smem_bytes=self.dst.bytes / 4)  # a warp's quarter of the rows
