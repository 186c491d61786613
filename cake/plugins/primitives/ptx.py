"""The typed escape: inline PTX that no primitive covers yet. The ore that the primitive miner digests."""

from __future__ import annotations

import json
from dataclasses import KW_ONLY
from typing import TYPE_CHECKING

from cake.core.emitter import Emitter
from cake.core.events import Event, Opaque, Read, Write
from cake.core.ir import View, element_type
from cake.core.op import Op, Value, Work, primitive
from cake.plugins.targets import ALL

if TYPE_CHECKING:
    from cake.core.sim.machine import Machine


#: asm constraints by scalar type.
CONSTRAINTS = {"bool": "r", "i32": "r", "u32": "r", "i64": "l", "f32": "f", "f16": "h", "bf16": "h"}


def _bits(value: Value, c: Emitter) -> str:
    dtype = element_type(value)
    if dtype.kind == "bool":
        return f"int32_t({c.expr(value)})"
    return f"{c.expr(value, 20)}.bits" if dtype.bytes == 2 else c.expr(value)


@primitive("ptx", targets=ALL, ptx="*")
class Ptx(Op):
    """Run `text`, with `%0`, `%1`, ... standing for `inputs`, then the addresses of `reads`, then those of `writes`.

    It must touch no other memory, but nothing checks that: every verdict that depends on it is `unknown`.
    """

    text: str
    _: KW_ONLY
    inputs: tuple[Value, ...] = ()
    reads: tuple[View, ...] = ()
    writes: tuple[View, ...] = ()

    def events(self) -> tuple[Event, ...]:
        reason = f"ptx({self._instruction} ...) is not modelled"
        return (*map(Read, self.reads), *map(Write, self.writes), Opaque(reason))

    @property
    def _instruction(self) -> str:
        return self.text.split(maxsplit=1)[0] if self.text.strip() else "nothing"

    def compute(self, m: Machine) -> None:
        m.unmodelled(f"ptx({self._instruction} ...) is not modelled")

    def emit(self, c: Emitter) -> None:
        operands = [f'"{CONSTRAINTS[element_type(x).name]}"({_bits(x, c)})' for x in self.inputs]
        operands += [f'"r"({c.address(view)})' for view in (*self.reads, *self.writes)]
        c.line(f'asm volatile({json.dumps(self.text)} :: {", ".join(operands)} : "memory");')

    def cost(self) -> Work:
        return Work(issue=1)
