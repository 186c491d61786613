"""Special functions of thread code (PTX ISA, rsqrt)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from cake.core.emitter import Emitter
from cake.core.events import Event
from cake.core.ir import F32, Type
from cake.core.op import Op, Value, Work, primitive
from cake.plugins.targets import ALL

if TYPE_CHECKING:
    from cake.core.sim.machine import Machine


RSQRT = """
__device__ __forceinline__ float rsqrt(float x) {
  float y;
  asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
"""


@primitive("rsqrt", targets=ALL, ptx="rsqrt.approx")
class Rsqrt(Op):
    """1 / sqrt(x) in f32, at most 2 ulp off (PTX ISA, rsqrt.approx.ftz.f32)."""

    x: Value

    def check(self) -> Iterable[str]:
        if self.x.type != F32:
            yield f"x is {self.x.type}, not f32"

    def result_type(self) -> Type:
        return F32

    def events(self) -> tuple[Event, ...]:
        return ()

    def compute(self, m: Machine) -> Any:
        return np.float32(1) / np.sqrt(m.value(self.x))

    def emit(self, c: Emitter) -> None:
        c.result(f"{c.helper('rsqrt', RSQRT)}({c.expr(self.x)})")

    def cost(self) -> Work:
        return Work(issue=1, alu_flops=1)
