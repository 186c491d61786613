"""Exploration says something about every well-typed program: it never fails itself, and says it twice the same."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings

from cake.core.explore import analyse
from cake.core.ir import Program
from cake.core.registry import targets
from cake.core.vocabulary import ALWAYS_COMPLETE, RELATIONS
from tests.prop.strategies import programs


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(programs())
def test_every_program_has_an_analysis(program: Program) -> None:
    """An analysis is closed, or gives a reason; its facts fit the vocabulary and do not depend on the run."""
    target = targets().get(program.target)
    analysis = analyse(program, target, budget=100)

    assert analysis.closed == (not analysis.reason)
    assert analysis.complete | {"limit", "uses"} >= (set(RELATIONS) if analysis.closed else ALWAYS_COMPLETE)
    assert all(len(row) == RELATIONS[name].arity for name, rows in analysis.facts.items() for row in rows)
    assert analyse(program, target, budget=100).facts == analysis.facts
