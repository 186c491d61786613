"""The oracle: the simulator under early, late and mixed schedules, against the output of a program that is right."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Final

from cake.core.errors import CakeError
from cake.core.ir import Program, Tensor
from cake.core.mutate import SMS, checksum, inputs_of
from cake.core.sim import FIXED, Simulator
from cake.core.sim.order import OrderName
from cake.core.sim.result import SimResult
from distill.ingest import LIKE


@dataclass(frozen=True, slots=True)
class Problem:
    """What a program is run on: extents, scalar parameters, and the seed of its inputs."""

    extents: Mapping[str, int]
    scalars: Mapping[str, float]
    seed: int = 0

    def as_json(self) -> dict[str, Any]:
        """Plain data, for artefacts and keys."""
        return {"extents": dict(self.extents), "scalars": dict(self.scalars), "seed": self.seed}


@dataclass(frozen=True, slots=True)
class Judgement:
    """What the oracle says of one program: `ok`, an outcome of `cake.core.evidence.OUTCOMES`, or `unknown`; the op and
    the barrier at which it stopped, where it did; and the first schedule that showed it."""

    outcome: str
    path: str = ""
    barrier: str = ""
    order: tuple[str, int] = ("eager", 0)

    @property
    def passes(self) -> bool:
        """Whether the program is right, as far as the oracle can see."""
        return self.outcome == "ok"

    @property
    def fails(self) -> bool:
        """Whether it is wrong; `unknown` is neither."""
        return self.outcome not in ("ok", "unknown")

    def like(self, outcome: str) -> bool:
        """Whether it fails in the way that `outcome` names."""
        return LIKE.get(self.outcome, self.outcome) == LIKE.get(outcome, outcome)


@dataclass(frozen=True, slots=True)
class Right:
    """What a right program gives: the names of its outputs and their checksum."""

    outputs: tuple[str, ...]
    checksum: str


#: Schedules that a program is run under: whom they starve, and which effects they let come early or late.
ORDERS: Final[tuple[tuple[OrderName, int], ...]] = (*FIXED, ("random", 0))
#: Steps of one CTA after which a run counts as a hang: reduced problems need a few thousand.
STEPS: Final = 200_000
#: Elements of the largest tensor that is simulated: a log may name any extents.
ELEMENTS: Final = 1 << 24

#: What the simulator raises for a program that cannot be run at all: an extent that it needs is missing, say.
_CANNOT: Final = (ValueError, KeyError, ArithmeticError, IndexError, CakeError)


def reference(program: Program, problem: Problem, orders: Sequence[tuple[OrderName, int]] = ORDERS) -> Right | None:
    """What a right program gives: None unless it runs to its end under every schedule, with the same outputs."""
    right: Right | None = None
    try:
        for result in _runs(program, problem, orders):
            names = tuple(sorted(result.outputs))
            found = Right(names, checksum(result.outputs, names))
            if result.outcome != "ok" or (right is not None and found != right):
                return None
            right = found
    except _CANNOT:
        return None
    return right


def judge(
    program: Program, problem: Problem, right: Right, orders: Sequence[tuple[OrderName, int]] = ORDERS
) -> Judgement:
    """Run `program`, which should give what `right` says, until a schedule shows that it does not."""
    try:
        for result in _runs(program, problem, orders):
            where = result.where
            order = (result.order, result.seed)
            if result.outcome != "ok":
                fault = where.fault if where and result.outcome == "trap" else ""
                outcome = fault or result.outcome
                return Judgement(outcome, where.path if where else "", where.barrier if where else "", order)
            if checksum(result.outputs, right.outputs) != right.checksum:
                return Judgement("mismatch", order=order)
    except _CANNOT:
        return Judgement("unknown")
    return Judgement("ok")


def _runs(program: Program, problem: Problem, orders: Sequence[tuple[OrderName, int]]) -> Iterator[SimResult]:
    for tensor in program.of(Tensor):
        if prod(problem.extents[d] if isinstance(d, str) else d for d in tensor.dims) > ELEMENTS:
            raise ValueError(f"{tensor.name} is too large to be simulated")
    simulator = Simulator(program)
    inputs = inputs_of(program, problem.extents, problem.scalars, problem.seed)
    for order, seed in orders:
        yield simulator.run(inputs, problem.extents, order=order, seed=seed, sms=SMS, max_steps=STEPS)
