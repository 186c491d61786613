"""One-place edits of working programs: each yields the facts that tell it from the program that it came from.

A row is an edit and what becomes of the analysis: the relation, and the statements (by a part of their text) of the
tuple that an execution refuted or added. Rows marked stuck end with strands that wait for ever.
"""

from __future__ import annotations

import pytest

from tests.cases.verify.programs import RING, at, edited, explored, gemm, refuted, rmsnorm

READ = "                x = ld_shared(a[it % 3].tile((lane_id, 0), (1, 1)))\n"
RELEASE = "                mbarrier_arrive(empty[it % 3])\n"
TAIL_RELEASE = "            with one_lane():\n                mbarrier_arrive(ring_empty[previous])\n"
LOAD_SECOND = "            ld_global(x[1], X[r, (256 + thread_id) * 8], when=(256 + thread_id) * 8 < N)\n"
LOAD_FIRST = "            ld_global(x[0]"
ONE_LANE_LOADS = "            with one_lane():\n                ld_global(x[0]"
FIRST, LAST = "acc.cols(0, 64)", "0, 48)"
SYNC_THEN_STORE = "            barrier_sync(staged[instance])\n            stmatrix"
SYNC_THEN_LANE = "            barrier_sync(staged[instance])\n            with"
READ_WAIT = "            with one_lane():\n                bulk_wait(1, read=True)\n"

#: name, program, edit, relation, the refuted tuple's statements
REFUTED = [
    ("accumulator read in flight", "gemm", ("            wgmma_wait(0)\n", ""), "ordered", (LAST, FIRST)),
    ("stage released in flight", "gemm", ("                wgmma_wait(1)\n", ""), "ordered", (LAST, "tma_load(b")),
    ("proxy fence dropped", "gemm", ("            fence_proxy_async()\n", ""), "visible", (FIRST, "tma_store")),
    ("staging reused in flight", "gemm", (READ_WAIT, ""), "ordered", ("tma_store", FIRST)),
    ("sync before writing dropped", "gemm", (SYNC_THEN_STORE, "            stmatrix"), "ordered", ("tma_store", FIRST)),
    ("sync before storing dropped", "gemm", (SYNC_THEN_LANE, "            with"), "ordered", (FIRST, "tma_store")),
    ("first sync dropped", "rmsnorm", ("            barrier_sync(done)\n            p", "            p"), "ordered",
     ("st_shared", "ld_shared")),
    ("last sync dropped", "rmsnorm", ("* 8 < N)\n            barrier_sync(done)\n", "* 8 < N)\n"), "ordered",
     ("ld_shared", "st_shared")),
    ("stage read from another slot", "gemm", ("a[ring_slot].tile((64 * instance, 0)", "a[0].tile((64 * instance, 0)"),
     "same_slot", ("mbarrier_wait(ring_full", "a[0].tile")),
    ("released before the read", "ring", (READ + RELEASE, RELEASE + READ), "ordered", ("ld_shared", "tma_load")),
    ("wait dropped", "ring", ("                mbarrier_wait(full[it % 3], it // 3 % 2)\n", ""), "ordered",
     ("tma_load", "ld_shared")),
    ("one lane waits", "ring", ("                mbarrier_wait(full[it % 3], it // 3 % 2)\n",
     "                with one_lane():\n                    mbarrier_wait(full[it % 3], it // 3 % 2)\n"), "ordered",
     ("tma_load", "ld_shared")),
    ("arrivals too few", "ring", ("arrivals=32", "arrivals=16"), "paced", ("mbarrier_arrive(empty", "empty")),
    ("constant parity", "ring", ("full[it % 3], it // 3 % 2)", "full[it % 3], 0)"), "lasting",
     ("mbarrier_wait(full", "full")),
    ("starts on the fresh phase", "ring", ("full[it % 3], it // 3 % 2)", "full[it % 3], it // 3 % 2 ^ 1)"), "lasting",
     ("mbarrier_wait(full", "full")),
]  # fmt: skip

#: name, program, edit, relation, row added ("@text" stands for the path of a statement)
ADDED = [
    ("release dropped", "gemm", (TAIL_RELEASE, ""), "net", ("@for tile:math", "ring_full", "ring_empty", 1)),
    ("expects less", "gemm", ("32768)", "16384)"), "phase", ("ring_full", "standing", 0, 0, 16384)),
    ("expects more", "gemm", ("32768)", "49152)"), "phase", ("ring_full", "standing", 1, 49152, 32768)),
    ("arrivals too many", "gemm", ("ring_empty = mbarrier(arrivals=2", "ring_empty = mbarrier(arrivals=3"), "phase",
     ("ring_empty", "standing", 2, 0, 0)),
    ("producer waits for phase 0", "gemm", ("ring_phase = 1", "ring_phase = 0"), "first_parity",
     ("@mbarrier_wait(ring_empty", 0)),
    ("consumer skips an iteration", "gemm", ("for i in range((K + 63) // 64):\n                mbarrier_wait(ring_full",
     "for i in range(1, (K + 63) // 64):\n                mbarrier_wait(ring_full"), "net",
     ("@for tile:math", "ring_full", "ring_empty", -1)),
    ("accumulates from the start", "gemm", ("accumulate=i > 0", "accumulate=True"), "reads_unwritten",
     ("@tile((64 * instance, 0)", "acc")),
    ("starts anew once more", "gemm", ("accumulate=i > 0", "accumulate=i > 1"), "supersedes",
     ("@tile((64 * instance, 0)", "@tile((64 * instance, 48)", "acc")),
    ("part of a stage unread", "gemm", ("(0, 48), (128, 16))", "(0, 32), (128, 16))"), "covered", ("b", "read", 12288)),
    ("load dropped", "rmsnorm", (LOAD_SECOND, ""), "reads_unwritten", ("@st_global(Y[r, (256 + thread_id)", "x")),
    ("one lane loads", "rmsnorm", (LOAD_FIRST, ONE_LANE_LOADS), "reads_unwritten",
     ("@st_global(Y[r, thread_id", "x")),
    ("two loads of an iteration", "ring", ("                    it = it + 1\n\n",
     "                    it = it + 1\n                    mbarrier_wait(empty[it % 3], it // 3 % 2 ^ 1)\n"
     "                    mbarrier_expect(full[it % 3], 8192)\n"
     "                    tma_load(a[it % 3], A_map, at=(0, i * 64), done=full[it % 3])\n"
     "                    it = it + 1\n\n"), "net", ("@for i:load", "empty", "full", 0)),
]  # fmt: skip

PROGRAMS = {"gemm": gemm, "rmsnorm": rmsnorm, "ring": lambda: RING}


def _resolve(text: str, value: object) -> object:
    """A row's value: `@part` is the path of the statement with that part, `@for x:role` of a role's loop over x."""
    if not isinstance(value, str) or not value.startswith("@"):
        return value
    if value.startswith("@for "):
        name, _, role = value[5:].partition(":")
        found = [at(text, f"for {name} in", i) for i in range(2)]
        return next(path for path in found if path.startswith(f"{role}:"))
    return at(text, value[1:])


@pytest.mark.parametrize(("name", "program", "edit", "relation", "row"), REFUTED, ids=[r[0] for r in REFUTED])
def test_an_edit_refutes(name: str, program: str, edit: tuple[str, str], relation: str, row: tuple[str, str]) -> None:
    """The universal fact held before the edit, and an execution refutes it after."""
    before, text = PROGRAMS[program](), edited(PROGRAMS[program](), edit)
    analysis = explored(text)
    expected = (at(text, row[0]), row[1] if relation in ("paced", "lasting") else at(text, row[1]))
    assert expected in refuted(analysis, relation)
    assert not refuted(explored(before), relation)
    assert analysis.occurrences[relation, expected].text


@pytest.mark.parametrize(("name", "program", "edit", "relation", "row"), ADDED, ids=[r[0] for r in ADDED])
def test_an_edit_adds(name: str, program: str, edit: tuple[str, str], relation: str, row: tuple[object, ...]) -> None:
    """An execution shows what none did before the edit."""
    text = edited(PROGRAMS[program](), edit)
    expected = tuple(_resolve(text, value) for value in row)
    assert expected in explored(text).facts[relation]
