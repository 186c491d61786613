"""Warp shuffles (PTX ISA, shfl.sync)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from cake.core.emitter import Emitter
from cake.core.events import Collective, Event
from cake.core.ir import F32, I32, Type
from cake.core.op import Op, Value, Work, primitive
from cake.plugins.primitives.named_barrier import ALL


@primitive("shfl", targets=ALL, ptx="shfl.sync")
class Shfl(Op):
    """Exchange a 32-bit scalar within the warp: `bfly` with lane `lane_id ^ by`, `down` with lane `lane_id + by` (its
    own value where there is none), `idx` with lane `by`. All 32 lanes take part; it orders no memory."""

    value: Value
    mode: Literal["bfly", "down", "idx"]
    by: int

    def check(self) -> Iterable[str]:
        if self.value.type not in (F32, I32):
            yield f"value is {self.value.type}, not f32 or i32"
        if not 0 <= self.by < 32:
            yield f"by={self.by}, not 0 to 31"

    def result_type(self) -> Type:
        return self.value.type

    def events(self) -> tuple[Event, ...]:
        return (Collective("warp"),)

    def emit(self, c: Emitter) -> None:
        name = {"bfly": "__shfl_xor_sync", "down": "__shfl_down_sync", "idx": "__shfl_sync"}[self.mode]
        c.result(f"{name}(0xffffffffu, {c.expr(self.value)}, {self.by})")

    def cost(self) -> Work:
        return Work(issue=1)
