"""On a GPU: the corpus, the litmus tests and a small campaign, as one session would run them by hand."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cake.core.campaign import collect, prepare
from cake.core.corpus import CorpusKernel, good_programs, load_corpus
from cake.core.diagnostics import Category, Verdict
from cake.core.harness import run_kernel
from cake.core.mutate import SMS, Mutant, checksum, inputs_of, mutate, parents
from cake.core.printer import print_program
from cake.core.programs import text_hash
from cake.core.sim import Simulator
from cake.core.worker_batch import run_batch

ROOT = Path(__file__).parents[2]

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(shutil.which("nvidia-smi") is None, reason="this machine has no NVIDIA GPU"),
]


@pytest.mark.parametrize("kernel", load_corpus(), ids=lambda k: k.name)
def test_every_configuration_is_right_and_timed(kernel: CorpusKernel) -> None:
    """Numerical validation passes, and no time lies below the physical floor."""
    for report in run_kernel(kernel):
        assert report.gate(Category.NUMERICAL_VALIDATION).verdict is Verdict.PASS, report.text()
        assert report.gate(Category.PERFORMANCE_ANALYSIS).verdict is Verdict.PASS, report.text()


def test_litmus_refutes_nothing(tmp_path: Path) -> None:
    """Every outcome of every litmus test is one that the simulator allows."""
    script = str(ROOT / "tests" / "litmus" / "litmus.py")
    for verb in ("build", "run", "show"):
        done = subprocess.run(
            [sys.executable, script, verb, str(tmp_path)], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr


def test_good_programs_give_what_the_simulator_gives(tmp_path: Path) -> None:
    """Bit for bit, on the same whole numbers."""
    mutants, expected = [], {}
    for clean, extents in good_programs():
        program, text = clean.program, print_program(clean.program)
        result = Simulator(program).run(inputs_of(program, extents, {}, 0), extents, sms=SMS)
        outputs, name = tuple(sorted(result.outputs)), text_hash(text)
        about = (clean.family, clean.config, {}, extents, (extents,), {}, outputs)
        mutants.append(Mutant(*about, program, text, name, name))
        expected[name] = checksum(result.outputs, outputs)
    prepare(tmp_path, mutants, 0, lambda line: None)
    run_batch(tmp_path / "requests", tmp_path / "results.jsonl", 4, 60.0)
    records = [r for r, _ in collect(tmp_path, tmp_path / "results.jsonl", None)]
    assert {r.program: r.output_checksum for r in records} == expected


def test_a_small_campaign(tmp_path: Path) -> None:
    """Parents run well, and of a few mutants some fail, each with a record that says how."""
    kernels = load_corpus()
    prepare(tmp_path, [*parents(kernels), *mutate(kernels, 11, 16)], 11, lambda line: None)
    run_batch(tmp_path / "requests", tmp_path / "results.jsonl", 4, 60.0)
    records = [r for r, _ in collect(tmp_path, tmp_path / "results.jsonl", None)]
    assert {r.outcome for r in records if not r.operator} == {"ok"}
    assert any(r.outcome != "ok" for r in records)
    assert all(json.loads(r.to_json())["schema"] == 1 for r in records)
