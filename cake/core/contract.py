"""A workload contract: what a kernel promises, on which shapes, to which accuracy. One `contract.toml` a kernel."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from cake.core.errors import CakeError
from cake.core.expression import evaluate
from cake.core.inputs import KINDS

Extents: TypeAlias = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Constraint:
    """A condition on extents and configuration constants outside which the kernel promises nothing, and why."""

    holds: str
    reason: str


@dataclass(frozen=True, slots=True)
class Distribution:
    """Input values: for each tensor (or `*`, all others) a kind of `cake.core.inputs` with its parameters."""

    name: str
    why: str
    tensors: Mapping[str, Mapping[str, Any]]

    def of(self, tensor: str) -> tuple[str, dict[str, float]]:
        """Kind and parameters for `tensor`."""
        entry = dict(self.tensors.get(tensor, self.tensors.get("*", {"kind": "normal"})))
        return str(entry.pop("kind")), entry


@dataclass(frozen=True, slots=True)
class Tolerance:
    """|error| <= relative * |reference| + scaled * scale + absolute, elementwise; each an expression over extents and
    configuration constants. `scale` is the oracle's, such as sum |a||b|: the bound then follows the data."""

    relative: str
    scaled: str
    absolute: str
    reasoning: str

    def bound(self, names: Mapping[str, int | float]) -> tuple[float, float, float]:
        """The three factors for one problem."""
        return (
            float(evaluate(self.relative, names)),
            float(evaluate(self.scaled, names)),
            float(evaluate(self.absolute, names)),
        )


@dataclass(frozen=True, slots=True)
class Contract:
    """What `contract.toml` says.

    `correctness`, `performance`, `simulator`, `calibration` and `mutation` are lists of extents, the last for broken
    variants (the simulator labels its first). `flops` and `bytes` are the least work that any kernel for this problem
    does, as expressions; the physical floor follows from them. `peers` names the oracle's functions to time against.
    """

    kernel: str
    summary: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    scalars: Mapping[str, float]
    constraints: tuple[Constraint, ...]
    correctness: tuple[Extents, ...]
    performance: tuple[Extents, ...]
    simulator: tuple[Extents, ...]
    mutation: tuple[Extents, ...]
    calibration: tuple[Extents, ...]
    distributions: tuple[Distribution, ...]
    tolerance: Tolerance
    flops: str
    bytes: str
    peers: tuple[str, ...]

    def refusal(self, extents: Extents, config: Mapping[str, Any]) -> str:
        """Why the contract does not cover this problem in this configuration; empty when it does."""
        numbers = {k: v for k, v in config.items() if isinstance(v, int | float)}
        for constraint in self.constraints:
            if not evaluate(constraint.holds, {**numbers, **extents}):
                return f"{constraint.holds} does not hold: {constraint.reason}"
        return ""


def read_contract(path: Path) -> Contract:
    """Read one contract. Raises CakeError that names the file and the key that is wrong."""
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise CakeError(f"{path}: {error}") from None
    try:
        return _contract(data)
    except KeyError as error:
        raise CakeError(f"{path}: key {error} is missing") from None
    except (TypeError, ValueError, AttributeError) as error:
        raise CakeError(f"{path}: {error}") from None


def _contract(data: Mapping[str, Any]) -> Contract:
    shapes, floor = data["shapes"], data["floor"]
    distributions = tuple(
        Distribution(name, entry["why"], entry["tensors"]) for name, entry in data["distribution"].items()
    )
    for distribution in distributions:
        for tensor in distribution.tensors:
            kind, _ = distribution.of(tensor)
            if kind not in KINDS:
                raise ValueError(f"distribution {distribution.name}: kind {kind!r} is none of {', '.join(KINDS)}")
    return Contract(
        kernel=data["kernel"],
        summary=data["summary"],
        inputs=tuple(data["inputs"]),
        outputs=tuple(data["outputs"]),
        scalars=dict(data.get("scalars", {})),
        constraints=tuple(Constraint(c["holds"], c["reason"]) for c in data.get("constraint", ())),
        correctness=_shapes(shapes["names"], shapes["correctness"]),
        performance=_shapes(shapes["names"], shapes["performance"]),
        simulator=_shapes(shapes["names"], shapes["simulator"]),
        mutation=_shapes(shapes["names"], shapes["mutation"]),
        calibration=_shapes(shapes["names"], shapes["calibration"]),
        distributions=distributions,
        tolerance=Tolerance(**data["tolerance"]),
        flops=floor["flops"],
        bytes=floor["bytes"],
        peers=tuple(data.get("peers", ())),
    )


def _shapes(names: list[str], rows: list[list[int]]) -> tuple[Extents, ...]:
    for row in rows:
        if len(row) != len(names) or not all(isinstance(n, int) and n >= 1 for n in row):
            raise ValueError(f"shape {row} is not {len(names)} whole numbers from 1 up, for {', '.join(names)}")
    return tuple(dict(zip(names, row, strict=True)) for row in rows)
