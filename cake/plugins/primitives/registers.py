"""Moving registers between warpgroups (PTX ISA, setmaxnreg)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal, Self

from cake.core.emitter import Emitter
from cake.core.events import Collective, Event, Registers
from cake.core.op import Op, Work, primitive
from cake.plugins.targets import SINCE_HOPPER, sm_90a

if TYPE_CHECKING:
    from cake.core.sim.machine import Machine, Steps


@primitive("setmaxnreg", targets=SINCE_HOPPER, ptx="setmaxnreg")
class Setmaxnreg(Op):
    """Set the executing warpgroup's registers a thread: `dec` gives some back to the CTA's pool, `inc` blocks until the
    pool has them. The pool holds what the launch assigned: more than that is a hang."""

    sugar = "role.registers"
    count: int
    action: Literal["inc", "dec"]

    @classmethod
    def for_role(cls, registers: int, threads: int, ctas_per_sm: int) -> Self:
        """The action that takes a CTA of `threads` threads from what its launch gave each to `registers`. Hopper's
        registers stand for those of later targets, which have as many."""
        launched = sm_90a.SM_90A.registers_at_launch(threads, ctas_per_sm)
        return cls(registers, "dec" if registers < launched else "inc")

    def check(self) -> Iterable[str]:
        if not 24 <= self.count <= 256 or self.count % 8:
            yield f"count={self.count}, not a multiple of 8 from 24 to 256"

    def events(self) -> tuple[Event, ...]:
        return (Collective("warpgroup"), Registers(self.count, self.action == "inc"))

    def compute(self, m: Machine) -> Steps:
        yield from m.meet("warpgroup")
        yield from m.resize(self.count, increase=self.action == "inc")

    def emit(self, c: Emitter) -> None:
        c.line(f'asm volatile("setmaxnreg.{self.action}.sync.aligned.u32 {self.count};");')

    def cost(self) -> Work:
        return Work(issue=1, sync=1 if self.action == "inc" else 0)
