"""What a simulation says: outcome, outputs, and where it stopped."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]
Outcome: TypeAlias = Literal["ok", "hang", "trap", "unknown"]
#: What kind of stop a trap is, in the words of the evidence log.
Fault: TypeAlias = Literal["", "illegal_instruction", "illegal_address", "misaligned_address", "launch_failure"]


@dataclass(frozen=True, slots=True)
class Stuck:
    """Where an agent stopped, and why.

    `path` is the op path (see `cake.core.ir.walk`; empty for the launch itself), `warp` the index in the role instance.
    `barrier`, `slot` and `parity` are set when it stopped at a barrier; `iteration` holds the enclosing loop variables,
    outermost first; `fault` says what kind of trap it was.
    """

    path: str
    reason: str
    role: str = ""
    instance: int = 0
    warp: int = 0
    cta: int = 0
    barrier: str = ""
    slot: int | None = None
    parity: int | None = None
    iteration: tuple[tuple[str, int], ...] = ()
    fault: Fault = ""

    def __str__(self) -> str:
        if not self.path:
            return f"launch: {self.reason}"
        loops = "".join(f", {name}={value}" for name, value in self.iteration)
        return f"{self.path}: cta {self.cta}, {self.role}[{self.instance}] warp {self.warp}{loops}: {self.reason}"


@dataclass(frozen=True, slots=True)
class SimResult:
    """One simulated launch.

    `outcome` is `ok` (every CTA ran to its end), `hang` (no agent can move, or the step budget is spent), `trap` (an
    illegal access or instruction) or `unknown` (the program holds something that is not modelled). `where` is the agent
    to look at first, `stuck` all agents that had not finished; `outputs` are the tensors that the program writes, as
    they stood at the end; `steps` counts executed primitives and loop iterations. An `ok` judges no values: compare the
    outputs.
    """

    outcome: Outcome
    outputs: dict[str, Array]
    where: Stuck | None = None
    stuck: tuple[Stuck, ...] = ()
    steps: int = 0
    notes: tuple[str, ...] = ()
    order: str = "eager"
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Blocked:
    """Why an agent cannot go on, for a hang report."""

    reason: str
    barrier: str = ""
    slot: int | None = None
    parity: int | None = None
    fault: Fault = ""


class Stop(Exception):
    """The simulation ends here. `where` is filled in on the way out, by whoever knows which agent moved."""

    def __init__(self, reason: str, barrier: str = "", slot: int | None = None, fault: Fault = "") -> None:
        super().__init__(reason)
        self.why = Blocked(reason, barrier, slot, fault=fault)
        self.where: Stuck | None = None

    @property
    def place(self) -> Stuck:
        """Where it happened; the launch itself when no agent was running."""
        return self.where or Stuck("", self.why.reason, fault=self.why.fault)


class Trap(Stop):
    """An illegal access or instruction, as the machine would stop at it."""

    def __init__(
        self, reason: str, barrier: str = "", slot: int | None = None, fault: Fault = "illegal_instruction"
    ) -> None:
        super().__init__(reason, barrier, slot, fault)


class Unmodelled(Stop):
    """The program did something that the simulator cannot judge."""


class BudgetSpent(Stop):
    """The step budget is spent."""


def same_outputs(
    a: SimResult | Mapping[str, Array], b: SimResult | Mapping[str, Array], *, tolerance: float = 0.0
) -> bool:
    """Whether two sets of outputs agree: byte for byte, or within `tolerance` times the largest magnitude of `b`.

    NaNs agree only with NaNs at the same place. Different names, shapes or dtypes never agree.
    """
    left = a.outputs if isinstance(a, SimResult) else a
    right = b.outputs if isinstance(b, SimResult) else b
    return left.keys() == right.keys() and all(_same(left[name], right[name], tolerance) for name in left)


def _same(a: Array, b: Array, tolerance: float) -> bool:
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if a.tobytes() == b.tobytes():
        return True
    if not tolerance:
        return False
    x, y = a.astype(np.float64), b.astype(np.float64)
    if not np.array_equal(np.isfinite(x), np.isfinite(y)):
        return False
    finite = np.isfinite(x)
    if not np.array_equal(x[~finite], y[~finite], equal_nan=True):
        return False
    scale = float(np.max(np.abs(y[finite]), initial=0.0))
    return bool(np.all(np.abs(x[finite] - y[finite]) <= tolerance * scale))
