"""Moving registers between warpgroups (PTX ISA, setmaxnreg)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from cake.core.events import Collective, Event, Registers
from cake.core.op import Op, primitive


@primitive("setmaxnreg", targets=("sm_90a", "sm_100a"), ptx="setmaxnreg")
class Setmaxnreg(Op):
    """Set the executing warpgroup's registers a thread: `dec` gives some back to the CTA's pool, `inc` blocks until the
    pool has them. The pool holds what the launch assigned: more than that is a hang."""

    count: int
    action: Literal["inc", "dec"]

    def check(self) -> Iterable[str]:
        if not 24 <= self.count <= 256 or self.count % 8:
            yield f"count={self.count}, not a multiple of 8 from 24 to 256"

    def events(self) -> tuple[Event, ...]:
        return (Collective("warpgroup"), Registers(self.count, self.action == "inc"))
