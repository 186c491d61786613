"""The oracle: the simulator under early, late and mixed schedules, against the output of a program that is right."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from cake.core.ir import Program
from cake.core.mutate import SMS, checksum, inputs_of, label
from cake.core.sim import Simulator
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
    """What the oracle says of one program: `ok`, an outcome of `cake.core.evidence.OUTCOMES`, or `unknown`; and the op
    and the barrier at which it stopped, where it did."""

    outcome: str
    path: str = ""
    barrier: str = ""

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


#: What the simulator raises for a program that cannot be run at all: an extent that it needs is missing, say.
_CANNOT: Final = (ValueError, KeyError, ArithmeticError, IndexError)


def reference(program: Program, problem: Problem) -> Right | None:
    """What a right program gives: None unless every schedule runs to its end with the same outputs."""
    try:
        inputs = inputs_of(program, problem.extents, problem.scalars, problem.seed)
        first = Simulator(program).run(inputs, problem.extents, sms=SMS)
        names = tuple(sorted(first.outputs))
        if first.outcome != "ok" or not names:
            return None
        right = Right(names, checksum(first.outputs, names))
        return right if label(program, inputs, problem.extents, names, right.checksum).outcome == "ok" else None
    except _CANNOT:
        return None


def judge(program: Program, problem: Problem, right: Right) -> Judgement:
    """Run `program`, which should give what `right` says."""
    try:
        inputs = inputs_of(program, problem.extents, problem.scalars, problem.seed)
        found = label(program, inputs, problem.extents, right.outputs, right.checksum)
    except _CANNOT:
        return Judgement("unknown")
    where = found.where
    return Judgement(found.outcome, where.path if where else "", where.barrier if where else "")
