"""Every shipped rule has a program that fails, that this rule alone flags, and a repaired one that runs.

A case is a folder `corpus/bad/<CODE>`: the programs that the rule names, and `case.toml`, which says what the bad ones
do in the simulator. All programs and rules are examined; nothing is sampled.
"""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from cake.core.clauses import Evaluation, evaluate
from cake.core.corpus import load_corpus
from cake.core.events import Start, Write
from cake.core.explore import analyse
from cake.core.ir import OpStmt, Program, Tensor, walk
from cake.core.printer import print_program
from cake.core.reader import read_program
from cake.core.registry import rules, targets
from cake.core.rules_render import Renderer
from cake.core.sim import SimResult, run_orders, same_outputs
from cake.core.verify import check

BAD = Path(__file__).parents[3] / "corpus" / "bad"
CODES = sorted(rules())
CONFIGS = [(k.name, c) for k in load_corpus() for c in k.configs]


@cache
def program(code: str, name: str) -> Program:
    """One program of a rule's folder."""
    return read_program((BAD / code / name).read_text(), name)


def found(subject: Program) -> Evaluation:
    """What all shipped rules say about a program."""
    analysis = analyse(subject, targets()[subject.target])
    return evaluate(list(rules().values()), analysis.facts, analysis.complete)


def flagged(subject: Program) -> set[str]:
    """The codes that flag a program, but for a general rule where a specific one says more."""
    return {f.code for f in check(subject).findings}


def written(subject: Program) -> set[str]:
    """Names of the tensors that a program writes."""
    cells = set()
    for at in walk(subject):
        if isinstance(at.stmt, OpStmt):
            for event in at.stmt.op.events():
                if isinstance(event, Write):
                    cells.add(event.cell)
                elif isinstance(event, Start):
                    cells.update(event.writes)
    return {c.tensor.name for c in cells if hasattr(c, "tensor")}


@cache
def simulated(code: str, name: str) -> tuple[SimResult, ...]:
    """A program's runs under every order of the simulator, on one fixed input."""
    case, subject = tomllib.loads((BAD / code / "case.toml").read_text()), program(code, name)
    values = np.random.default_rng(0)
    inputs: dict[str, Any] = {}
    for tensor in subject.of(Tensor):
        shape = tuple(case["extents"][d] if isinstance(d, str) else d for d in tensor.dims)
        value = values.standard_normal(shape).astype(np.float32)
        if tensor.name not in written(subject):
            inputs[tensor.name] = value.astype(ml_dtypes.bfloat16) if tensor.dtype.name == "bf16" else value
    return tuple(run_orders(subject, inputs, {e: case["extents"][e] for e in subject.extents}))


@pytest.mark.parametrize("code", CODES)
def test_bad_programs_are_flagged_by_their_rule_alone(code: str) -> None:
    """Each bad program has the one fault, at an op or declaration that the message names; a good one has none."""
    rule = rules()[code]
    for name in rule.bad:
        assert flagged(program(code, name)) == {code}, name
        for finding in Renderer(program(code, name)).findings(rule, found(program(code, name)).hits[code]):
            assert finding.line > 0
            assert "{" not in finding.message + finding.help
    for name in rule.good:
        assert flagged(program(code, name)) == set(), name
        assert found(program(code, name)).unknown == {}, name


@pytest.mark.parametrize("code", CODES)
def test_bad_programs_fail_and_good_ones_run(code: str) -> None:
    """In the simulator each bad program hangs, traps or differs from the good one in some order, as its case says; the
    good one runs and gives the same in every order."""
    rule = rules()[code]
    good = simulated(code, rule.good[0])
    assert {r.outcome for r in good} == {"ok"}
    assert all(same_outputs(r, good[0]) for r in good)
    expected = tomllib.loads((BAD / code / "case.toml").read_text())["outcome"]
    assert set(expected) == set(rule.bad)
    for name, outcome in expected.items():
        runs = simulated(code, name)
        seen = {r.outcome if r.outcome != "ok" or same_outputs(r, good[0]) else "mismatch" for r in runs}
        assert outcome in seen, name


@pytest.mark.parametrize("code", CODES)
def test_case_programs_are_canonical_and_used(code: str) -> None:
    """The folder holds exactly the rule's programs, each in canonical text."""
    rule = rules()[code]
    assert {p.name for p in (BAD / code).iterdir()} == {*rule.bad, *rule.good, "case.toml"}
    for name in (*rule.bad, *rule.good):
        assert print_program(program(code, name)) == (BAD / code / name).read_text()


@pytest.mark.parametrize(("kernel", "config"), CONFIGS)
def test_the_corpus_is_clean(kernel: str, config: str) -> None:
    """No shipped rule flags, or is undecided on, any configuration of the corpus."""
    (subject,) = [k.program(config) for k in load_corpus() if k.name == kernel]
    result = found(subject)
    assert {code for code, hits in result.hits.items() if hits} == set()
    assert result.unknown == {}
