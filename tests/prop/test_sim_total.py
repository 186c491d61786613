"""The simulator says something about every well-typed program: it never fails itself."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from hypothesis import HealthCheck, assume, given, settings

from cake.core.ir import Barrier, Const, Launch, Program, Scalar, Tensor
from cake.core.sim import simulate
from cake.core.sim.values import numpy_type
from cake.core.tree import rebuild
from tests.prop.strategies import programs


def launchable(node):
    """What to put in a node's place so that a random program gets past its launch more often."""
    match node:
        case Launch():
            return Launch(Const(2))
        case Barrier(kind="mbarrier"):
            return replace(node, at=min(node.at, 4096) * 8)
        case Barrier():
            return replace(node, at=node.at % 16)
    return None


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(programs())
def test_every_program_has_an_outcome(program: Program):
    """Whatever the program does, each order ends in one of the four outcomes."""
    program = rebuild(program, launchable)
    shapes = {t: [8 if isinstance(d, str) else d for d in t.dims] for t in program.of(Tensor)}
    assume(all(math.prod(shape) < 1e6 for shape in shapes.values()))
    rng = np.random.default_rng(0)
    inputs = {t.name: rng.standard_normal(shape).astype(numpy_type(t.dtype)) for t, shape in shapes.items()}
    inputs |= {s.name: 1 for s in program.of(Scalar)}

    for order, seed in (("eager", 0), ("lazy", 2), ("random", 1)):
        result = simulate(program, inputs, dict.fromkeys(program.extents, 8), order=order, seed=seed, max_steps=1000)

        assert result.outcome in ("ok", "hang", "trap", "unknown")
        assert (result.outcome == "ok") == (result.where is None)
