"""The committed log of failures: real, readable, repeatable."""

from __future__ import annotations

from pathlib import Path

import pytest

from cake.core.agreement import agreement
from cake.core.compile import compile_program
from cake.core.evidence import Log, read_log
from cake.core.lower import lower
from cake.core.printer import program_hash
from cake.core.reader import read_program

FOLDER = Path(__file__).parents[2] / "corpus" / "failures"


@pytest.fixture(scope="module")
def log() -> Log:
    """The whole log."""
    return read_log(FOLDER)


def test_nothing_in_it_is_unreadable(log: Log) -> None:
    """Every line is a record, and every program is there under its hash."""
    assert log.skipped == {}


def test_it_is_what_it_claims(log: Log) -> None:
    """At least 300 records from an H200, of at least 250 distinct programs, with device, versions and cubins."""
    ran = [r for r in log.records if r.origin.labeller == "gpu" and "H200" in r.device]
    assert len(ran) >= 300
    assert len({r.program for r in ran}) >= 250
    assert all(r.cubin_sha256 and r.nvrtc and r.driver and r.origin.parent for r in ran)
    assert len({r.outcome for r in ran}) >= 4
    assert {"gemm_bf16", "rmsnorm_bf16"} <= {r.kernel for r in ran}


def test_hangs_name_their_barrier_and_were_confirmed_alone(log: Log) -> None:
    """Nearly all hangs carry the watchdog's record or the places of stuck warps, and were run again alone."""
    hangs = [r for r in log.records if r.origin.labeller == "gpu" and r.outcome == "hang"]
    located = [r for r in hangs if {"watchdog", "places"} & {str(d["kind"]) for d in r.diagnostics}]
    assert hangs
    assert len(located) >= 0.9 * len(hangs)
    assert sum(any(d.get("alone") for d in r.diagnostics) for r in hangs) >= 0.9 * len(hangs)


def test_programs_read_back(log: Log) -> None:
    """Each stored text is canonical: it reads to a program with the hash that names it."""
    for name in sorted({r.program for r in log.records})[::20]:
        assert program_hash(read_program(log.programs.text(name))) == name


def test_thirty_programs_compile_to_the_same_cubins(log: Log) -> None:
    """Recompiled here, programs give the very cubins that failed or passed on the GPU."""
    ran = {r.program: r for r in log.records if r.origin.labeller == "gpu" and r.cubin_sha256}
    names = sorted(ran)
    step = max(len(names) // 30, 1)
    chosen = names[::step][:30]
    assert len(chosen) == 30
    for name in chosen:
        cubin, _ = compile_program(lower(read_program(log.programs.text(name)), watchdog=True))
        assert cubin.sha256 == ran[name].cubin_sha256, ran[name].origin.detail


def test_the_simulator_agrees(log: Log) -> None:
    """On programs that both labelled, the simulator's verdict is the GPU's in nearly all cases."""
    found = agreement(log.records)
    assert len(found.pairs) >= 250
    assert found.verdicts >= 0.9 * len(found.pairs), found.text()
