"""What the distiller makes of a failure, to the letter: one mutant, no rule that knows the fault, exactly this clause.

The rules that were learnt from such failures are hidden, so that each has to be found again.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from cake.core.corpus import load_corpus_kernel
from cake.core.edits import edits
from cake.core.printer import print_program
from cake.core.programs import text_hash
from cake.core.registry import rules
from distill.compose import tidy
from distill.ingest import Failure
from distill.lab import Lab
from distill.oracle import Problem
from distill.scale import smallest
from distill.study import Known, Study, study
from distill.survey import Group, examine

ROOT = Path(__file__).parents[2]
#: Rules that were distilled, by the families of their clauses: what is to be found again.
LEARNT = tuple(r.code for r in rules().values() if (ROOT / "proposals").is_dir() and "records from" in r.evidence[0])


@pytest.fixture(scope="module")
def lab() -> Lab:
    """A laboratory that knows the rules which people wrote."""
    return Lab(tuple(r for r in rules().values() if r.code not in LEARNT))


@pytest.fixture(scope="module")
def known(lab: Lab) -> Known:
    """The corpus: every configuration passes, and one small configuration of the GEMM."""
    passing: dict[str, str] = {}
    for name in ("gemm_bf16", "rmsnorm_bf16"):
        kernel = load_corpus_kernel(ROOT / "corpus" / "kernels" / name)
        for config in kernel.configs:
            text = print_program(kernel.program(config))
            passing[text_hash(text)] = text
    gemm = load_corpus_kernel(ROOT / "corpus" / "kernels" / "gemm_bf16")
    small = smallest(gemm, Problem(dict(gemm.contract.simulator[-1]), {}), lab)
    assert small is not None
    scalars = {"rmsnorm_bf16": {"eps": 1e-6}}
    return Known(passing, passing, scalars, {"gemm_bf16": (print_program(small),)})


def studied(place: str, detail: str, outcome: str, lab: Lab, known: Known) -> Study:
    """The study of one mutant, at `configuration/path`, that the simulator labelled."""
    config, _, path = place.partition("/")
    name = "rmsnorm_bf16" if config.startswith("r") else "gemm_bf16"
    kernel = load_corpus_kernel(ROOT / "corpus" / "kernels" / name)
    good = kernel.program(config)
    bad = print_program(next(e.program for e in edits(good) if e.path == path and e.detail == detail))
    parent = print_program(good)
    failure = Failure(
        program=text_hash(bad),
        text=bad,
        kernel=name,
        outcome=outcome,
        stage="simulate",
        where="",
        barrier="",
        parent=text_hash(parent),
        config=kernel.constants(config),
        extents=dict(kernel.contract.simulator[-1]),
        devices={"simulator": 1},
        gpu=False,
    )
    case = examine(failure, parent, lab)
    assert case.codes == ()
    found = study(Group("g", "c", (outcome,), (case,)), known, lab)
    assert isinstance(found, Study), found
    return found


@pytest.mark.parametrize(
    ("path", "detail", "outcome", "clause"),
    [
        (
            "m128n256s4/load:3.2.4.1",
            "mbarrier_expect.bytes: 49152 -> 49168",
            "hang",
            "finding(Op, Bar, Expected, Delivered) :- "
            "expects(Op, Bar, _), phase(Bar, _, _, Expected, Delivered), Expected != Delivered.",
        ),
        (
            "m128n256s4/math:4.5.0",
            "mbarrier_wait.phase: ring_phase -> 0",
            "hang",
            "finding(Op, Bar) :- waits(Op, Bar), not lasting(Op, Bar).",
        ),
        (
            "m128n256s4/math:4.20.0",
            "bulk_wait.pending: 1 -> 2",
            "mismatch",
            "finding(A, B) :- conflict(A, B, _), not ordered(A, B).",
        ),
        (
            "r4w8v8/rows",
            "instances: 1 -> 2",
            "hang",
            "finding(Op, Bar) :- syncs(Op, Bar, _, _), not paced(Op, Bar).",
        ),
        (
            "r4w8v8/rows:6.0",
            "ld_global.src at[0]: r -> r + 1",
            "illegal_address",
            "finding(Op, Tensor) :- global_access(Op, Tensor, _, _), not in_bounds(Op, Tensor).",
        ),
        (
            "r4w8v8/rows:6.33",
            "st_global.dst at[1]: thread_id * 8 -> thread_id * 4",
            "misaligned_address",
            "finding(Op, Bytes, Alignment) :- global_access(Op, _, Bytes, Alignment), Bytes != Alignment.",
        ),
    ],
    ids=["bytes", "parity", "reuse", "instances", "bounds", "alignment"],
)
def test_failure_distils_to_this_clause(
    path: str, detail: str, outcome: str, clause: str, lab: Lab, known: Known
) -> None:
    """A hang or a wrong result becomes the clause that an engineer would have written."""
    found = studied(path, detail, outcome, lab, known)

    assert found.clause is not None, found.lesson.reason
    assert str(tidy(found.clause)) == clause
    assert found.bad.count("\n") < print_program(lab.read(next(iter(known.passing.values())))).count("\n")
