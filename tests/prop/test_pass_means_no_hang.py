"""Verifier and simulator share nothing: what the one passes for every trip count, the other runs to its end."""

from __future__ import annotations

import random

import pytest

from cake.core.diagnostics import Verdict
from cake.core.edits import edits
from cake.core.ir import Program
from cake.core.printer import print_program
from cake.core.reader import read_program
from cake.core.sim import run_orders
from cake.core.verify import check
from tests.cases.verify.programs import RING

#: Two roles, two rings of barriers, a meeting and a peeled store: what small slips of the pen are made in.
PING = """\
@schedule(target="sm_90a")
def ping(A: Tensor[bf16, "M", "K"]):
    launch(ctas=2)
    s = smem(f32, (64,), at=1024, stages=2)
    full = mbarrier(arrivals=64, at=0, slots=2)
    empty = mbarrier(arrivals=64, at=16, slots=2)
    both = named_barrier(arrivals=64, at=1)
    one = role(warps=2)
    two = role(warps=2)

    with one:
        slot = 0
        phase = 1
        for i in range(K):
            mbarrier_wait(empty[slot], phase)
            if i > 0:
                st_shared(s[slot].tile((thread_id,), (1,)), 1.0)
            else:
                st_shared(s[slot].tile((thread_id,), (1,)), 2.0)
            mbarrier_arrive(full[slot])
            phase = phase ^ 1 if slot == 1 else phase
            slot = slot + 1 if slot < 1 else 0

    with two:
        slot = 0
        phase = 0
        for i in range(K + 5):
            if i == K:
                break
            mbarrier_wait(full[slot], phase)
            x = ld_shared(s[slot].tile((63 - thread_id,), (1,)))
            barrier_sync(both)
            mbarrier_arrive(empty[slot])
            phase = phase ^ 1 if slot == 1 else phase
            slot = slot + 1 if slot < 1 else 0
"""
PROBLEMS = ({"M": 3, "K": 200}, {"M": 1, "K": 64}, {"M": 5, "K": 8})


def _neighbour(program: Program, rng: random.Random) -> Program:
    for _ in range(rng.choice((1, 1, 2))):
        program = rng.choice([edit.program for edit in edits(program)])
    return program


@pytest.mark.parametrize("seed", range(8))
def test_what_passes_neither_hangs_nor_traps(seed: int) -> None:
    """One and two edits away from working programs, under every fixed and some random orders."""
    rng = random.Random(seed)
    base = read_program(rng.choice((RING, PING)))
    for _ in range(12):
        program = _neighbour(base, rng)
        if any(gate.verdict is not Verdict.PASS for gate in check(program, budget=1500).gates):
            continue
        for extents in PROBLEMS:
            for result in run_orders(program, {}, extents, seeds=range(1), max_steps=60_000):
                assert result.outcome == "ok", (result.order, extents, str(result.where), print_program(program))
