"""What a run leaves behind: stored results of a kernel for each device, and evidence of whatever went wrong."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from cake.core.corpus import CorpusKernel
from cake.core.diagnostics import Category, Finding, Verdict
from cake.core.errors import CakeError
from cake.core.evidence import OUTCOMES, Origin, Record
from cake.core.report import Report

#: Findings of numerical validation that are not named after an outcome.
_VALUES: Final = {"GPU-UNWRITTEN": "mismatch", "GPU-OUTSIDE": "mismatch", "GPU-INPUT": "mismatch"}


def store(kernel: CorpusKernel, reports: Sequence[Report]) -> Path:
    """Write the reports of one device to `results/<device>.json` in the kernel's folder; returns the file.

    Raises CakeError when they ran on no device, or on several."""
    devices = {r.facts.get("device", "") for r in reports}
    if len(devices) != 1 or "" in devices:
        raise CakeError(f"results are stored for one device, not for {sorted(devices)}")
    path = kernel.folder / "results" / f"{_slug(devices.pop())}.json"
    path.parent.mkdir(exist_ok=True)
    document = {"schema": 1, "kernel": kernel.name, "reports": [r.as_json() for r in reports]}
    path.write_text(json.dumps(document, indent=1, sort_keys=True) + "\n")
    return path


def _slug(device: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", device.lower()).strip("-")


def failure_records(kernel: CorpusKernel, report: Report) -> tuple[Record, ...]:
    """One record for each way in which the configuration failed; none for what passed or was not run."""
    records = []
    for gate in report.gates:
        if gate.verdict is Verdict.FAIL:
            stage = {Category.NUMERICAL_VALIDATION: "run", Category.PERFORMANCE_ANALYSIS: "measure"}.get(
                gate.category, "check"
            )
            by_outcome: dict[str, list[Finding]] = {}
            for finding in gate.findings:
                by_outcome.setdefault(_outcome(stage, finding), []).append(finding)
            records += [_record(kernel, report, stage, o, found) for o, found in sorted(by_outcome.items())]
    for step in report.steps:
        if step.verdict is Verdict.FAIL:
            stage = step.name
            outcome = "compile_error" if stage == "compile" else step.reason.partition(":")[0]
            outcome = outcome if outcome in OUTCOMES else "mismatch"
            records.append(_record(kernel, report, stage, outcome, step.findings, step.reason))
    return tuple(records)


def _outcome(stage: str, finding: Finding) -> str:
    if stage == "check":
        return "finding"
    if stage == "measure":
        return "misprediction"
    named = finding.code.removeprefix("GPU-").lower().replace("-", "_")
    return named if named in OUTCOMES else _VALUES.get(finding.code, "launch_failure")


def _record(
    kernel: CorpusKernel, report: Report, stage: str, outcome: str, findings: Sequence[Finding], said: str = ""
) -> Record:
    labeller = {"check": "check", "simulate": "simulator", "compile": "compiler"}.get(stage, "gpu")
    diagnostics: list[dict[str, Any]] = [{"kind": "finding", **_plain(f)} for f in findings]
    return Record(
        program=report.program,
        outcome=outcome,
        stage=stage,
        kernel=kernel.name,
        device=report.facts.get("device", "") if labeller == "gpu" else "",
        config=kernel.constants(report.config),
        nvrtc=report.facts.get("nvrtc", ""),
        driver=report.facts.get("driver", "").partition(",")[0],
        stderr=said,
        diagnostics=tuple(diagnostics),
        origin=Origin(parent=report.program, labeller=labeller),
    )


def _plain(finding: Finding) -> dict[str, Any]:
    keep = ("code", "name", "message", "paths", "role", "barrier", "stage", "line")
    return {key: value for key, value in asdict(finding).items() if key in keep}
