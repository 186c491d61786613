"""Whether the simulator and the GPU say the same of the same program on the same problem."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from cake.core.evidence import OUTCOMES, Record

#: Failures that the two may well tell apart differently: a race shows as wrong outputs, or as differing ones.
_VALUES: Final = ("mismatch", "nondeterminism")
_FAULTS: Final = ("illegal_instruction", "illegal_address", "misaligned_address", "launch_failure")


def family(outcome: str) -> str:
    """`ok`, `hang`, `values` (wrong or varying outputs), `fault` (stopped by the machine) or the outcome itself."""
    return "values" if outcome in _VALUES else "fault" if outcome in _FAULTS else outcome


@dataclass(frozen=True, slots=True)
class Pair:
    """One program on one problem, labelled by both."""

    program: str
    kernel: str
    operator: str
    path: str
    detail: str
    gpu: str
    simulator: str


@dataclass(frozen=True, slots=True)
class Agreement:
    """All pairs. `exact` have the same outcome, `alike` one of the same family, `verdicts` the same verdict (both ok or
    both not). `missed` fail on the GPU and not in the simulator: each is a hole in the model. `only_simulated` fail in
    the simulator alone: an adversarial order that the GPU did not take, or a hole."""

    pairs: tuple[Pair, ...]

    def count(self, gpu: str, simulator: str) -> int:
        """Pairs with these two outcomes."""
        return sum(p.gpu == gpu and p.simulator == simulator for p in self.pairs)

    @property
    def exact(self) -> int:
        """Pairs with equal outcomes."""
        return sum(p.gpu == p.simulator for p in self.pairs)

    @property
    def alike(self) -> int:
        """Pairs whose outcomes are of one family."""
        return sum(family(p.gpu) == family(p.simulator) for p in self.pairs)

    @property
    def verdicts(self) -> int:
        """Pairs that are both ok, or both not."""
        return sum((p.gpu == "ok") == (p.simulator == "ok") for p in self.pairs)

    @property
    def missed(self) -> tuple[Pair, ...]:
        """Pairs that fail on the GPU and are ok in the simulator."""
        return tuple(p for p in self.pairs if p.gpu != "ok" and p.simulator == "ok")

    @property
    def only_simulated(self) -> tuple[Pair, ...]:
        """Pairs that fail in the simulator and are ok on the GPU."""
        return tuple(p for p in self.pairs if p.gpu == "ok" and p.simulator != "ok")

    def text(self) -> str:
        """The table, GPU outcomes down, simulator outcomes across, and the counts below it."""
        rows = [o for o in OUTCOMES if any(p.gpu == o for p in self.pairs)]
        columns = [o for o in OUTCOMES if any(p.simulator == o for p in self.pairs)]
        width = max((len(o) for o in rows), default=3) + 2
        lines = ["GPU \\ simulator".ljust(width) + "  ".join(columns)]
        for row in rows:
            cells = [str(self.count(row, column) or ".").rjust(len(column)) for column in columns]
            lines.append(row.ljust(width) + "  ".join(cells))
        n = len(self.pairs)
        lines.append(
            f"{n} programs on one problem each: {self.verdicts} same verdict, {self.alike} alike, {self.exact} exact; "
            f"{len(self.missed)} fail on the GPU only, {len(self.only_simulated)} in the simulator only"
        )
        return "\n".join(lines)


def agreement(records: Iterable[Record]) -> Agreement:
    """Pair the GPU's records with the simulator's by program and extents."""
    labels: dict[str, dict[tuple[str, tuple[tuple[str, int], ...]], Record]] = {"gpu": {}, "simulator": {}}
    for record in records:
        if record.origin.labeller in labels:
            labels[record.origin.labeller][record.program, _key(record.extents)] = record
    pairs = [
        Pair(r.program, r.kernel, r.operator, r.origin.path, r.origin.detail, r.outcome, s.outcome)
        for key, r in sorted(labels["gpu"].items())
        if (s := labels["simulator"].get(key)) is not None
    ]
    return Agreement(tuple(pairs))


def _key(extents: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(extents.items()))
