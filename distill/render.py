"""What a proposal adds to the tree: rule file, before/after pair, PROPOSAL.md, gate lines and evidence, by path.

A rule's folder in `corpus/bad/` is its test: `tests/cases/rules/test_bad_programs.py` runs every one, so that a
new rule brings new cases and no new test code.
"""

from __future__ import annotations

import difflib
import json
import textwrap
from collections.abc import Sequence
from typing import Any, Final

from cake.core.reader import read_program
from cake.core.rule import Rule
from distill.gates import GateLine
from distill.store import dump
from distill.study import Study, as_json

#: Columns of a rule file's text, within the house's line length.
WIDTH: Final = 108
_INDENT: Final = " " * 8


def rule_file(rule: Rule) -> str:
    """The rule as one literal `Rule(...)` call, in the house format."""
    lines = ["Rule("]
    for name in ("code", "name"):
        lines.append(f"    {name}={_quoted(getattr(rule, name))},")
    lines.append(f"    category={_quoted(rule.category.value)},")
    lines.append(f"    since={_quoted(rule.since)},")
    for name in ("finding", "message", "help", "why"):
        lines.append(f"    {name}={_text(getattr(rule, name))},")
    lines.append(f"    evidence=({_text(rule.evidence[0])},),")
    lines.append(f"    bad=({', '.join(map(_quoted, rule.bad))},),")
    lines.append(f"    good=({', '.join(map(_quoted, rule.good))},),")
    lines.append(f"    status={_quoted(rule.status)},")
    return "\n".join([*lines, ")"]) + "\n"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _text(text: str) -> str:
    """A string literal: on its line when it is short and plain, wrapped between triple quotes otherwise."""
    if len(text) <= 90 and '"' not in text and "\\" not in text:
        return _quoted(text)
    wrapped = textwrap.wrap(text, WIDTH - len(_INDENT), break_long_words=False, break_on_hyphens=False)
    return '"""\n' + "\n".join(_INDENT + line for line in wrapped) + '\n    """'


def case_file(found: Study, outcome: str) -> str:
    """`case.toml`: what the failing program does in the simulator, and at which extents."""
    lines = ["# What the bad program does in the simulator, at these extents. The good one runs to its end.", ""]
    extents = set(read_program(found.bad).extents) | set(read_program(found.good).extents)
    lines.append("[extents]")
    lines += [f"{name} = {value}" for name, value in sorted(found.problem.extents.items()) if name in extents]
    lines += ["", "[outcome]", f'"bad.cake" = "{outcome}"']
    return "\n".join(lines) + "\n"


def evidence_file(found: Study) -> bytes:
    """The failing programs behind the rule, one JSON object a line, least hash first."""
    rows = []
    for case, explained in zip(found.group.cases, _explained(found), strict=True):
        f = case.failure
        rows.append(
            {
                "program": f.program,
                "outcome": f.outcome,
                "kernel": f.kernel,
                "extents": dict(f.extents),
                "records": dict(f.devices),
                "where": f.where,
                "explained": explained,
            }
        )
    rows.sort(key=lambda r: str(r["program"]))
    return "".join(json.dumps(r, sort_keys=True) + "\n" for r in rows).encode()


def _explained(found: Study) -> list[bool]:
    """For each case of the group, whether the clause flags it; the studied one it does by construction."""
    rest = iter(found.explains)
    return [True if case is found.studied else next(rest, False) for case in found.group.cases]


def proposal_text(rule: Rule, found: Study, gates: Sequence[GateLine], outcome: str) -> str:
    """PROPOSAL.md: what a reviewer reads first."""
    explained = _explained(found)
    diff = "".join(
        difflib.unified_diff(
            found.bad.splitlines(keepends=True), found.good.splitlines(keepends=True), "bad.cake", "good.cake", n=2
        )
    )
    lines = [
        f"# {rule.code} {rule.name}",
        "",
        f"{sum(explained)} of {len(explained)} failing programs that look and behave alike are explained by one rule.",
        "",
        "```prolog",
        rule.finding,
        "```",
        "",
        f"Message: {rule.message}",
        "",
        f"Help: {rule.help}",
        "",
        f"Why: {rule.why}",
        "",
        "## Failure and repair",
        "",
        f"Reduced with the simulator as judge in {found.questions} questions; the failing one ends in `{outcome}` on",
        f"`{json.dumps(dict(sorted(found.problem.extents.items())))}`. It may be flagged at {', '.join(found.heads)}.",
        "",
        "```diff",
        diff.rstrip("\n"),
        "```",
        "",
        "## Gates",
        "",
        "| Gate | Verdict | n | |",
        "|---|---|---|---|",
        *(f"| {g.gate} | {g.verdict} | {g.n} | {_cell(g.detail)} |" for g in gates),
        "",
        "## How it was learnt",
        "",
        f"{found.lesson.considered} demands from passing programs; {len(found.near_misses)} near misses put to the",
        f"simulator; {len(found.lesson.alive)} clauses of least cost were left:",
        "",
        "```prolog",
        *(c.text for c in found.lesson.alive[:12]),
        "```",
    ]
    if found.near_misses:
        lines += ["", "| Near miss | Answer |", "|---|---|"]
        lines += [f"| {_cell(how)} | {answer} |" for how, _, answer in found.near_misses]
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())


def files(rule: Rule, slug: str, found: Study, gates: Sequence[GateLine], outcome: str) -> dict[str, bytes]:
    """Every file that the proposal adds, by path in the repository."""
    family = rule.code[:3].lower()
    bad = f"corpus/bad/{rule.code}"
    made: dict[str, str | bytes] = {
        f"cake/plugins/rules/{family}/{rule.code}_{rule.name.replace('-', '_')}.py": rule_file(rule),
        f"{bad}/bad.cake": found.bad,
        f"{bad}/good.cake": found.good,
        f"{bad}/case.toml": case_file(found, outcome),
        f"proposals/{slug}/PROPOSAL.md": proposal_text(rule, found, gates, outcome),
        f"proposals/{slug}/gates.jsonl": "".join(g.line() + "\n" for g in gates),
        f"proposals/{slug}/evidence.jsonl": evidence_file(found),
        f"proposals/{slug}/study.json": dump(_study(found)),
    }
    return {path: data.encode() if isinstance(data, str) else data for path, data in made.items()}


def _study(found: Study) -> dict[str, Any]:
    return as_json(found)
