"""Bounds and alignment of what threads access in global memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from cake.core.bounds import Bounds
from cake.core.corpus import load_corpus_kernel
from cake.core.edits import edits
from cake.core.ir import Program, walk
from cake.core.mutate import inputs_of
from cake.core.reader import read_program
from cake.core.sim import Simulator

ROOT = Path(__file__).parents[2]
COPY = """@schedule(target="sm_90a")
def copy(X: Tensor[bf16, "M", "N"], Y: Tensor[bf16, "M", "N"]):
    launch(ctas={ctas})
    rows = role(warps=4)

    with rows:
        x = fragment(bf16, (8,), layout="thread")
        {body}
"""


def accesses(program: Program) -> list[tuple[str, int, int, bool]]:
    """Tensor, bytes, alignment and whether it is in bounds, for each access in order."""
    bounds = Bounds(program)
    return [(b.tensor.name, *rest) for located in walk(program) for b, *rest in bounds.accesses(located)]


def loaded(body: str, ctas: str = "M") -> tuple[int, bool]:
    """Alignment and whether it is in bounds, of the first access of a body in the place of a copy's."""
    indented = body.replace("\n", "\n        ")
    return accesses(read_program(COPY.format(ctas=ctas, body=indented)))[0][2:]


GUARDED = [
    "ld_global(x, X[cta_id, thread_id * 8], when=thread_id * 8 < N)",
    "ld_global(x, X[cta_id, thread_id * 8], when=thread_id * 8 + 7 < N)",
    "ld_global(x, X[cta_id, thread_id * 8], when=thread_id * 9 < N)",
    "ld_global(x, X[cta_id, thread_id * 8], when=N - 8 >= thread_id * 8)",
    "ld_global(x, X[cta_id, thread_id * 8], when=not thread_id * 8 >= N)",
    "ld_global(x, X[cta_id, thread_id * 8], when=thread_id > 3 and N > thread_id * 8)",
    "ld_global(x, X[cta_id, thread_id * 8], when=False)",
    "ld_global(x, X[cta_id, thread_id * 8], when=thread_id * 8 < min(N, 512))",
    "if thread_id * 8 < N:\n    ld_global(x, X[cta_id, thread_id * 8])",
    "if thread_id * 8 >= N:\n    x = x\nelse:\n    ld_global(x, X[cta_id, thread_id * 8])",
    "for i in range(thread_id, N // 8, 128):\n    ld_global(x, X[cta_id, i * 8])",
    "for i in range(thread_id * 8, N, 1024):\n    ld_global(x, X[cta_id, i])",
    "n = thread_id * 8\nif n < N:\n    ld_global(x, X[cta_id, n])",
    "for c in range(0, N // 1024 * 1024, 1024):\n    ld_global(x, X[cta_id, c + thread_id * 8])",
    "for r in range(cta_id, min(M, cta_id + 2) - 1):\n    ld_global(x, X[r, 0])",
    "ld_global(x, X[min(cta_id, M - 1), 0])",
]


@pytest.mark.parametrize("body", GUARDED)
def test_a_guard_that_keeps_an_access_inside_is_understood(body: str) -> None:
    """Conditions, loops and minima, written in many ways, all with the room that rows in whole vectors give."""
    assert loaded(body)[1]


OPEN = [
    "ld_global(x, X[cta_id, thread_id * 8])",
    "ld_global(x, X[cta_id, thread_id * 8], when=thread_id * 8 <= N)",
    "ld_global(x, X[cta_id, thread_id * 8], when=thread_id * 7 < N)",
    "ld_global(x, X[cta_id, thread_id * 8 + 8], when=thread_id * 8 < N)",
    "ld_global(x, X[cta_id, thread_id * 8 - 8], when=thread_id * 8 < N)",
    "ld_global(x, X[cta_id + 1, thread_id * 8], when=thread_id * 8 < N)",
    "ld_global(x, X[thread_id * 8, cta_id], when=thread_id * 8 < N)",
    "if thread_id * 8 < N:\n    x = x\nelse:\n    ld_global(x, X[cta_id, thread_id * 8])",
    "n = thread_id * 8\nn = n + 8\nif thread_id * 8 < N:\n    ld_global(x, X[cta_id, n])",
    "for r in range(cta_id, min(M, cta_id + 2) + 1):\n    ld_global(x, X[r, 0])",
]


@pytest.mark.parametrize("body", OPEN)
def test_an_access_that_some_extents_let_outside_is_not(body: str) -> None:
    """Too weak a guard, another coordinate than the guarded one, or none."""
    assert not loaded(body)[1]


def test_the_grid_bounds_the_rows_of_a_cta() -> None:
    """A grid of rows divided by 4, rounded up, starts every CTA inside; its last rows need a guard."""
    assert loaded("ld_global(x, X[cta_id * 4, 0])", "(M + 3) // 4")[1]
    assert not loaded("ld_global(x, X[cta_id * 4 + 1, 0])", "(M + 3) // 4")[1]
    assert not loaded("ld_global(x, X[cta_id, 0])", "M + 1")[1]


@pytest.mark.parametrize(
    ("at", "alignment"),
    [("thread_id * 8", 16), ("thread_id * 4", 8), ("thread_id * 7", 2), ("thread_id * 8 + 2", 4), ("8 * N", 16)],
)
def test_the_alignment_of_an_address_is_what_divides_every_term(at: str, alignment: int) -> None:
    """In bytes of bf16; rows are a multiple of the widest access, here 16 bytes."""
    assert loaded(f"ld_global(x, X[cta_id, {at}])")[0] == alignment


def test_what_is_proved_is_so_in_the_simulator() -> None:
    """Edits of every access of a kernel: one that traps at an address is never said to be aligned and in bounds."""
    kernel = load_corpus_kernel(ROOT / "corpus" / "kernels" / "rmsnorm_bf16")
    extents, scalars = kernel.contract.simulator[-1], kernel.contract.scalars
    trapped = proved = 0
    for edit in edits(kernel.program("r4w8v8")):
        if edit.kind not in ("index", "bound", "predicate", "offset"):
            continue
        found = accesses(edit.program)
        safe = all(aligned >= size and inside for _, size, aligned, inside in found)
        result = Simulator(edit.program).run(inputs_of(edit.program, extents, scalars, 0), extents, sms=2)
        places = {located.path for located in walk(edit.program) for _ in Bounds(edit.program).accesses(located)}
        trap = result.where is not None and result.where.path in places and result.where.fault.endswith("_address")
        trapped += trap
        proved += safe
        assert not (safe and trap), edit.detail
    assert trapped >= 5
    assert proved >= 5
