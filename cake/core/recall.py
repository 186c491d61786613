"""How the verifier does against programs whose fate on the GPU is known: what it flags, what it leaves open, what it
passes.

A program that failed on the GPU and passes every blocking static category is a miss; one that ran right on every
problem and is flagged is an alarm to look at: false, or true of an order of effects that the GPU did not take.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from cake.core.diagnostics import Verdict
from cake.core.evidence import OUTCOMES, Log
from cake.core.ir import IRError
from cake.core.reader import read_program
from cake.core.rule import Rule
from cake.core.verify import check

#: What the verifier says of a program: some category fails, none fails but some is unknown, all pass.
SAID = ("flagged", "unknown", "passed")


@dataclass(frozen=True, slots=True)
class Case:
    """One program: its worst outcome on the GPU, what the verifier says, the codes that flag it, seconds spent."""

    program: str
    kernel: str
    operator: str
    path: str
    detail: str
    outcome: str
    said: str
    codes: tuple[str, ...]
    seconds: float


@dataclass(frozen=True, slots=True)
class Recall:
    """All cases of one log."""

    cases: tuple[Case, ...]

    def count(self, said: str, *, outcome: str = "", failing: bool | None = None) -> int:
        """Cases of which the verifier says `said`, with this outcome, or failing or not."""
        return sum(
            c.said == said
            and (not outcome or c.outcome == outcome)
            and (failing is None or failing == (c.outcome != "ok"))
            for c in self.cases
        )

    @property
    def missed(self) -> tuple[Case, ...]:
        """Programs that fail on the GPU and pass here."""
        return tuple(c for c in self.cases if c.outcome != "ok" and c.said == "passed")

    @property
    def alarms(self) -> tuple[Case, ...]:
        """Programs that run right on the GPU and are flagged here."""
        return tuple(c for c in self.cases if c.outcome == "ok" and c.said == "flagged")

    @property
    def median_seconds(self) -> float:
        """Median time of a check: exploration, rules, rendering."""
        return median(c.seconds for c in self.cases) if self.cases else 0.0


def measure(log: Log, rules: Sequence[Rule] | None = None, step: Callable[[str], None] = lambda _: None) -> Recall:
    """Check every program of `log` that ran on a GPU with `rules` (all registered ones by default)."""
    worst: dict[str, int] = {}
    records = {}
    for record in log.records:
        if record.origin.labeller == "gpu":
            rank = OUTCOMES.index(record.outcome)
            if rank >= worst.get(record.program, -1):
                worst[record.program], records[record.program] = rank, record
    cases = []
    for name, record in sorted(records.items()):
        where = (record.kernel, record.operator, record.origin.path, record.origin.detail)
        try:
            checked = check(read_program(log.text(record), name), rules)
        except IRError:  # construction refuses today what could be built when the log was written
            cases.append(Case(name, *where, record.outcome, "flagged", ("construction",), 0.0))
            continue
        said = _said(g.verdict for g in checked.gates)
        codes = tuple(sorted({f.code for f in checked.findings if f.blocking}))
        cases.append(Case(name, *where, record.outcome, said, codes, sum(checked.timings.values())))
        step(said)
    return Recall(tuple(cases))


def _said(verdicts: Iterable[Verdict]) -> str:
    found = set(verdicts)
    return "flagged" if Verdict.FAIL in found else "unknown" if Verdict.UNKNOWN in found else "passed"
