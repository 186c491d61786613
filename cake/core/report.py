"""The report of a run: seven categories, what was examined for each, and everything that was measured."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from cake.core.diagnostics import Category, Finding, GateResult, Verdict

#: Categories whose failure stops a kernel; the others report and hint.
BLOCKING: Final = tuple(Category)[:5]


@dataclass(frozen=True, slots=True)
class Step:
    """A gate on the way that is no category of its own: `simulate` and `compile`."""

    name: str
    verdict: Verdict
    domain: str
    reason: str = ""
    findings: tuple[Finding, ...] = ()
    metrics: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Report:
    """One configuration of a kernel through every gate. `gates` are the seven categories in order; `facts` names what
    it ran on (device, driver, NVRTC, PyTorch), `timings` every raw sample in seconds by problem and arm."""

    kernel: str
    config: str
    program: str
    target: str
    gates: tuple[GateResult, ...]
    steps: tuple[Step, ...]
    facts: Mapping[str, str] = field(default_factory=dict)
    timings: tuple[Mapping[str, Any], ...] = ()

    @property
    def verdict(self) -> Verdict:
        """`fail` if a blocking category or step fails, `pass` if all pass, `unknown` otherwise."""
        verdicts = [g.verdict for g in self.gates if g.category in BLOCKING] + [s.verdict for s in self.steps]
        if Verdict.FAIL in verdicts:
            return Verdict.FAIL
        return Verdict.PASS if all(v is Verdict.PASS for v in verdicts) else Verdict.UNKNOWN

    def gate(self, category: Category) -> GateResult:
        """The result of one category."""
        return next(g for g in self.gates if g.category is category)

    def as_json(self) -> dict[str, Any]:
        """Plain data: `schema` 1, enums as their words."""
        plain: dict[str, Any] = json.loads(json.dumps(asdict(self)))
        return {"schema": 1, "verdict": str(self.verdict), **plain}

    def text(self) -> str:
        """The report as lines: a table of verdicts, then findings, then measurements."""
        lines = [f"{self.kernel} {self.config}: {self.verdict}  ({self.program[:12]}, {self.target})"]
        rows: Sequence[GateResult | Step] = (*self.gates[:4], *self.steps, *self.gates[4:])
        for row in rows:
            name = row.category.value if isinstance(row, GateResult) else row.name
            lines.append(f"  {name:22} {row.verdict:8} {row.domain}{f' ({row.reason})' if row.reason else ''}")
            lines += [f"    {f.code} {f.message}" for f in row.findings]
            for key, value in row.metrics.items():
                lines.append(f"    {key} = {value:.6g}")
        lines += [f"  {key}: {value}" for key, value in self.facts.items()]
        return "\n".join(lines)


def not_run(category: Category, reason: str) -> GateResult:
    """A category that nothing looked at: unknown, never a pass."""
    return GateResult(category, Verdict.UNKNOWN, "nothing", reason)
