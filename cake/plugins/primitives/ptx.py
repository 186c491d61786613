"""The typed escape: inline PTX that no primitive covers yet. The ore that the primitive miner digests."""

from __future__ import annotations

from dataclasses import KW_ONLY

from cake.core.events import Event, Opaque, Read, Write
from cake.core.ir import View
from cake.core.op import Op, Value, Work, primitive
from cake.plugins.primitives.named_barrier import ALL


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
        first = self.text.split(maxsplit=1)[0] if self.text.strip() else "nothing"
        return (*map(Read, self.reads), *map(Write, self.writes), Opaque(f"ptx({first} ...) is not modelled"))

    def cost(self) -> Work:
        return Work(issue=1)
