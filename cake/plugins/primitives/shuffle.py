"""Warp shuffles (PTX ISA, shfl.sync)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal

import numpy as np

from cake.core.emitter import Emitter
from cake.core.events import Collective, Event
from cake.core.ir import F32, I32, Type
from cake.core.op import Op, Value, Work, primitive
from cake.plugins.targets import ALL

if TYPE_CHECKING:
    from cake.core.sim.machine import Machine, Steps


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

    def compute(self, m: Machine) -> Steps:
        values = yield from m.exchange(m.value(self.value), self.value)
        lanes = m.lanes
        other = {"bfly": lanes ^ self.by, "down": lanes + self.by, "idx": lanes * 0 + self.by}[self.mode]
        return values[np.where(other < len(values), other, lanes)]

    def emit(self, c: Emitter) -> None:
        name = {"bfly": "__shfl_xor_sync", "down": "__shfl_down_sync", "idx": "__shfl_sync"}[self.mode]
        c.result(f"{name}(0xffffffffu, {c.expr(self.value)}, {self.by})")

    def cost(self) -> Work:
        return Work(issue=1)
