"""One fault at a time in a correct kernel: the simulator answers with a wrong output, a hang or a trap."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from cake.core.reader import read_program
from cake.core.sim import FIXED, Simulator, same_outputs, simulate

TEXT = (Path(__file__).parents[2] / "corpus" / "kernels" / "gemm_bf16" / "m128n256s4.cake").read_text()
EXTENTS = {"M": 72, "N": 520, "K": 328}  # three tiles on two SMs, six steps through four stages

LAST_RELEASE = "            with one_lane():\n                mbarrier_arrive(ring_empty[previous])\n"
RELEASE = f"                if i > 0:\n{LAST_RELEASE.replace('            ', '                    ', 2)}"
REUSE = "            with one_lane():\n                bulk_wait(1, read=True)\n"
STAGED = "            fence_proxy_async()\n            barrier_sync(staged[instance])\n"
IN_ONE_LANE = (
    "            fence_proxy_async()\n            with one_lane():\n                barrier_sync(staged[instance])\n"
)
FINISH = "        with one_lane():\n            bulk_wait(0)\n"

#: name -> (what to replace, with what, how it shows in some order)
FAULTS = {
    "map of A without swizzle": (
        "A_map = tensor_map(A, box=(128, 64), swizzle=128)",
        "A_map = tensor_map(A, box=(128, 64))",
        "wrong",
    ),
    "region b swizzled by 64": ("at=65536, stages=4, swizzle=128", "at=65536, stages=4, swizzle=64", "wrong"),
    "region b not swizzled": ("at=65536, stages=4, swizzle=128", "at=65536, stages=4", "wrong"),
    "staging swizzled by 32": ("at=196608, stages=4, swizzle=128", "at=196608, stages=4, swizzle=32", "wrong"),
    "map swizzle narrower than its rows": ("box=(256, 64), swizzle=128", "box=(256, 64), swizzle=64", "trap"),
    "box with half the rows": ("A_map = tensor_map(A, box=(128, 64)", "A_map = tensor_map(A, box=(64, 64)", "hang"),
    "box beyond the hardware's extent": ("box=(256, 64)", "box=(512, 64)", "trap"),
    "stored box too short": ("C_map = tensor_map(C, box=(64, 64)", "C_map = tensor_map(C, box=(32, 64)", "wrong"),
    "coordinate of a load": ("i * 64)", "i * 63)", "wrong"),
    "coordinate of a store": ("n * 256 + 64))", "n * 256 + 72))", "wrong"),
    "tile of the accumulator": ("acc.cols(64, 64)", "acc.cols(128, 64)", "wrong"),
    "phase of the producer": ("ring_phase = 1\n", "ring_phase = 0\n", "hang"),
    "phase of the consumer": ("ring_phase = 0\n", "ring_phase = 1\n", "hang"),
    "phase never flips": ("ring_phase ^ 1", "ring_phase", "hang"),
    "waits for the next slot": (
        "mbarrier_wait(ring_empty[ring_slot]",
        "mbarrier_wait(ring_empty[(ring_slot + 1) % 4]",
        "hang",
    ),
    "multiplication waited for too late": ("wgmma_wait(1)", "wgmma_wait(2)", "wrong"),
    "accumulator read too early": ("wgmma_wait(0)", "wgmma_wait(1)", "wrong"),
    "slot released too early": (
        "ring_empty[previous])\n                previous",
        "ring_empty[ring_slot])\n                previous",
        "hang",
    ),
    "staging reused too early": ("bulk_wait(1, read=True)", "bulk_wait(2, read=True)", "wrong"),
    "no wait before staging is reused": (REUSE, "", "wrong"),
    "no wait for the last store": (FINISH, "", "wrong"),
    "no wait for a full slot": ("                mbarrier_wait(ring_full[ring_slot], ring_phase)\n", "", "wrong"),
    "no wait for an empty slot": ("                    mbarrier_wait(ring_empty[ring_slot], ring_phase)\n", "", "hang"),
    "no proxy fence": ("            fence_proxy_async()\n", "", "wrong"),
    "no barrier before staging": (
        "            barrier_sync(staged[instance])\n            stmatrix",
        "            stmatrix",
        "wrong",
    ),
    "no barrier behind staging": (STAGED, "            fence_proxy_async()\n", "wrong"),
    "barrier in one lane": (STAGED, IN_ONE_LANE, "trap"),
    "no release": (RELEASE, "", "hang"),
    "no last release": (LAST_RELEASE, "", "hang"),
    "released by every thread": (LAST_RELEASE, "            mbarrier_arrive(ring_empty[previous])\n", "hang"),
    "no expected bytes": ("                    mbarrier_expect(ring_full[ring_slot], 49152)\n", "", "hang"),
    "too few expected bytes": ("49152", "32768", "hang"),
    "too many expected bytes": ("49152", "49168", "hang"),
    "too few arrivals": ("ring_empty = mbarrier(arrivals=2", "ring_empty = mbarrier(arrivals=1", "hang"),
    "too many arrivals": ("ring_empty = mbarrier(arrivals=2", "ring_empty = mbarrier(arrivals=3", "hang"),
    "too few threads at a barrier": ("named_barrier(arrivals=128", "named_barrier(arrivals=96", "hang"),
    "too many threads at a barrier": ("named_barrier(arrivals=128", "named_barrier(arrivals=256", "hang"),
    "one barrier for two instances": ("staged[instance]", "staged[0]", "hang"),
    "barrier number beyond the hardware": (
        "named_barrier(arrivals=128, at=1,",
        "named_barrier(arrivals=128, at=15,",
        "trap",
    ),
    "more registers than the launch has": ("setmaxnreg(232", "setmaxnreg(240", "hang"),
    "multiplications never committed": ("                wgmma_commit()\n", "", "wrong"),
    "stores never committed": ("                bulk_commit()\n", "", "wrong"),
    "regions overlap": ("at=196608", "at=188416", "wrong"),
    "barriers overlap data": ("at=229376", "at=229368", "trap"),
    "misaligned region": ("at=196608", "at=196624", "trap"),
    "slot beyond the ring": ("ring_slot < 3 else 0\n\n", "ring_slot < 4 else 0\n\n", "trap"),
}


@cache
def inputs():
    """Random operands, and what the unbroken kernel makes of them."""
    rng = np.random.default_rng(0)
    a = rng.standard_normal((EXTENTS["M"], EXTENTS["K"])).astype(ml_dtypes.bfloat16)
    b = rng.standard_normal((EXTENTS["N"], EXTENTS["K"])).astype(ml_dtypes.bfloat16)
    given = {"A": a, "B": b}
    return given, simulate(read_program(TEXT), given, EXTENTS)


def shows(text):
    """How a broken kernel shows in the first order in which it does (`wrong`, `hang`, `trap`; nothing in none), and
    where."""
    given, reference = inputs()
    simulator = Simulator(read_program(text))
    for order, seed in FIXED:
        result = simulator.run(given, EXTENTS, order=order, seed=seed, max_steps=50_000)
        if result.outcome != "ok":
            return result.outcome, result.where
        if not same_outputs(result, reference):
            return "wrong", None
    return "", None


def test_the_original_shows_nothing():
    """Every order of the unbroken kernel gives the same bytes."""
    assert shows(TEXT) == ("", None)


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_shows(name):
    """Some fixed order turns the fault into what it is."""
    old, new, how = FAULTS[name]
    assert old in TEXT

    kind, _ = shows(TEXT.replace(old, new))

    assert kind == how


#: fault -> (op path, role, barrier, slot, word of the reason) of the place to look at first
PLACES = {
    "too many expected bytes": ("math:4.5.0", "math", "ring_full", 0, "outstanding"),
    "no release": ("load:3.2.4.0", "load", "ring_empty", 0, "arrivals"),
    "too many threads at a barrier": ("math:4.9", "math", "staged", 0, "threads"),
    "more registers than the launch has": ("math:0", "math", "", None, "registers"),
    "barriers overlap data": ("math:4.5.0", "math", "ring_full", 0, "overwritten"),
    "misaligned region": ("math:4.13.0", "math", "", None, "misaligned"),
    "box beyond the hardware's extent": ("load:3.1", "load", "", None, "256"),
}


@pytest.mark.parametrize("name", PLACES)
def test_a_stop_names_its_place(name):
    """The statement, role, barrier and slot where somebody waits or traps, and why."""
    old, new, _ = FAULTS[name]

    _, where = shows(TEXT.replace(old, new))

    path, role, barrier, slot, word = PLACES[name]
    assert (where.path, where.role, where.barrier, where.slot) == (path, role, barrier, slot)
    assert word in where.reason
    assert str(where).startswith(f"{path}: cta 0, {role}[")


def test_a_hang_names_parity_and_iteration():
    """Which phase is waited for, in which round of which loops."""
    old, new, _ = FAULTS["no last release"]

    _, where = shows(TEXT.replace(old, new))

    assert (where.parity, where.iteration) == (1, (("tile", 2), ("i", 3)))
