"""The static gates: explore a program, evaluate rules over its facts, and say pass, fail or unknown for each
category."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from cake.core import registry
from cake.core.clauses import Evaluation, evaluate
from cake.core.clauses_subsume import subsumes
from cake.core.diagnostics import STATIC_CATEGORIES, Category, Finding, GateResult, Verdict
from cake.core.explore import STATE_BUDGET, Analysis, analyse
from cake.core.ir import Program
from cake.core.registry import PluginProblem
from cake.core.rule import Rule
from cake.core.rules_render import Renderer
from cake.core.target import Target
from cake.core.witness import witness


@dataclass(frozen=True, slots=True)
class Checked:
    """What the static gates say of one program: findings in order of category and place, a result for each of the four
    static categories, the analysis behind them, the rules' evaluation, and seconds spent by stage."""

    findings: tuple[Finding, ...]
    gates: tuple[GateResult, ...]
    analysis: Analysis
    evaluation: Evaluation
    timings: dict[str, float] = field(default_factory=dict)


def check(
    program: Program,
    rules: Sequence[Rule] | None = None,
    *,
    target: Target | None = None,
    problems: Sequence[PluginProblem] | None = None,
    budget: int = STATE_BUDGET,
) -> Checked:
    """Check `program` with `rules` (all registered ones by default).

    `target` and `problems` (plugins that could not be loaded) come from the registry unless given. A rule that
    contradicts what the program declares never raises; what cannot be decided is `unknown`.
    """
    chosen = list(registry.rules().values()) if rules is None else rules
    broken = registry.problems() if problems is None else problems
    start = time.perf_counter()
    targets = registry.targets()
    analysis = analyse(program, target or targets.get(program.target), budget=budget)
    if target is None and program.target not in targets:
        reason = f"no target is called {program.target!r}; known are {', '.join(targets)}"
        analysis = replace(analysis, closed=False, reason=reason)
    explored = time.perf_counter()
    evaluation = evaluate(chosen, analysis.facts, analysis.complete)
    evaluated = time.perf_counter()
    findings = _findings(program, chosen, analysis, evaluation)
    gates = tuple(_gate(c, chosen, analysis, evaluation, findings, broken) for c in STATIC_CATEGORIES)
    timings = {
        "explore": explored - start,
        "rules": evaluated - explored,
        "render": time.perf_counter() - evaluated,
    }
    return Checked(findings, gates, analysis, evaluation, timings)


def _findings(
    program: Program, rules: Sequence[Rule], analysis: Analysis, evaluation: Evaluation
) -> tuple[Finding, ...]:
    """Every hit as a finding, one for each rule and set of ops, with its witness."""
    renderer = Renderer(program)
    found: list[Finding] = []
    for rule in rules:
        hits = evaluation.hits.get(rule.code)
        for finding in renderer.findings(rule, hits) if hits else ():
            found.append(replace(finding, witness=witness(analysis, rule, finding)))
    found = _telling(found, {r.code: r.finding for r in rules})
    order = list(Category)
    return tuple(sorted(found, key=lambda f: (order.index(f.category), f.line, f.code, f.paths)))


def _telling(found: Sequence[Finding], clauses: Mapping[str, str]) -> list[Finding]:
    """The findings without those about ops of which a more specific rule says more."""

    def says_more(one: Finding, other: Finding) -> bool:
        about = one.code != other.code and one.blocking and bool(other.paths) and {*other.paths} <= {*one.paths}
        return about and subsumes(clauses[other.code], clauses[one.code])

    return [f for f in found if not any(says_more(one, f) for one in found)]


def _gate(
    category: Category,
    rules: Sequence[Rule],
    analysis: Analysis,
    evaluation: Evaluation,
    findings: tuple[Finding, ...],
    problems: Sequence[PluginProblem],
) -> GateResult:
    mine = tuple(f for f in findings if f.category == category)
    blocking = [r for r in rules if r.category == category and r.blocking]
    domain = f"{analysis.domain}; {len(blocking)} rules"
    metrics = {"states": float(analysis.states), "events": float(analysis.steps)}
    if any(f.blocking for f in mine):
        return GateResult(category, Verdict.FAIL, domain, findings=mine, metrics=metrics)
    undecided = [f"{r.code}: {evaluation.unknown[r.code]}" for r in blocking if r.code in evaluation.unknown]
    broken = [str(p) for p in problems if category in p.gates]
    reason = "; ".join([*([] if analysis.closed else [analysis.reason]), *broken, *undecided[:1]])
    verdict = Verdict.UNKNOWN if reason else Verdict.PASS
    return GateResult(category, verdict, domain, reason, mine, metrics)
