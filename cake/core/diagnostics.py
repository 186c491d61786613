"""Findings and verdicts: what Cake says about a program, in the same shape from every gate."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from cake.core.ir import BUILT, Span


class Category(StrEnum):
    """The seven categories, in the order in which they are reported."""

    PROGRAM_SAFETY = "program-safety"
    HARDWARE_CONFORMANCE = "hardware-conformance"
    DATA_CONSISTENCY = "data-consistency"
    SCHEDULE_SEMANTICS = "schedule-semantics"
    NUMERICAL_VALIDATION = "numerical-validation"
    PERFORMANCE_ANALYSIS = "performance-analysis"
    OPTIMISATION_GUIDANCE = "optimisation-guidance"


STATIC_CATEGORIES = tuple(Category)[:4]


class Verdict(StrEnum):
    """`pass` is earned; what was not run, not modelled or crashed is `unknown`."""

    PASS = "pass"
    FAIL = "fail"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Finding:
    """One fault. `paths` are op paths (see `cake.core.ir.walk`), the op to change first; `line` is a line of the
    canonical text; `span` the source line. `witness` is a linear order or wait-for chain, a step a line."""

    code: str
    name: str
    category: Category
    message: str
    paths: tuple[str, ...]
    role: str = ""
    barrier: str = ""
    stage: str = ""
    line: int = 0
    span: Span = BUILT
    help: str = ""
    witness: tuple[str, ...] = ()
    source: str = "rule"  # rule, compiler, simulator, gpu
    blocking: bool = True  # False: advisory, never fails a gate


@dataclass(frozen=True, slots=True)
class GateResult:
    """One category's verdict, the domain that was examined, and why when it is `unknown`."""

    category: Category
    verdict: Verdict
    domain: str
    reason: str = ""
    findings: tuple[Finding, ...] = ()
    metrics: dict[str, float] = field(default_factory=dict)
