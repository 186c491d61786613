"""Witnesses: how an execution gets to where a finding shows, a step a line.

A finding rests on facts. For a universal fact that exploration refuted, or an existential one that it saw, the first
such execution is known: the choices that lead to it, and what happened there. Where a run ends with strands that wait
for ever, the wait-for chain is the witness.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Final

from cake.core.diagnostics import Finding
from cake.core.explore import Analysis
from cake.core.explore_machine import Occurrence
from cake.core.explore_state import Trace
from cake.core.rule import Rule

LONGEST: Final = 12  # choices printed; the earlier ones are counted


def witness(analysis: Analysis, rule: Rule, finding: Finding) -> tuple[str, ...]:
    """The steps that lead to `finding`, empty where facts of the program's text alone decide it."""
    named = {*finding.paths, finding.barrier}
    found: list[Occurrence] = []
    for (relation, row), occurrence in analysis.occurrences.items():
        ops = [value for value in row if ":" in str(value)]
        if relation in rule.finding and ops and all(op in named for op in ops):
            found.append(occurrence)
    if found:
        shortest = min(found, key=lambda o: o.trace.depth if o.trace else 0)
        return (*_choices(shortest.trace), shortest.text)
    if analysis.stuck and any(relation in rule.finding for relation in analysis.incomplete):
        return tuple(s.text for s in analysis.stuck)
    return ()


def _choices(trace: Trace | None) -> Iterator[str]:
    steps: list[str] = []
    while trace is not None:
        steps.append(trace.text)
        trace = trace.before
    steps.reverse()
    runs = [(text, len(list(same))) for text, same in groupby(steps)]
    if len(runs) > LONGEST:
        yield f"after {len(runs) - LONGEST} other choices"
    for text, n in runs[-LONGEST:]:
        yield text if n == 1 else f"{text}, {n} times"
