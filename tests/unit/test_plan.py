"""The launch plan: round trip, and every check that a host makes before it launches."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache

import pytest

from cake.core.corpus import load_corpus
from cake.core.lower import lower
from cake.core.plan import LaunchPlan, PlanError, TensorPlan, evaluate, render


@cache
def plan(kernel: str) -> LaunchPlan:
    """The plan of a corpus kernel's first configuration."""
    (found,) = [k for k in load_corpus() if k.name == kernel]
    return lower(found.program(next(iter(found.configs)))).plan


@pytest.mark.parametrize("kernel", ["gemm_bf16", "rmsnorm_bf16"])
def test_json_round_trip(kernel: str) -> None:
    """A plan travels as JSON and comes back equal."""
    assert LaunchPlan.from_json(plan(kernel).to_json()) == plan(kernel)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"name": 1}', "null"])
def test_what_is_no_plan_is_refused(text: str) -> None:
    """Plans come from files; anything may be in one."""
    with pytest.raises(PlanError, match="this is no launch plan"):
        LaunchPlan.from_json(text)


def test_unknown_keys_are_refused() -> None:
    """A plan of a later version is not half understood."""
    data = {**json.loads(plan("gemm_bf16").to_json()), "cluster": 2}
    with pytest.raises(PlanError, match="unknown keys: cluster"):
        LaunchPlan.from_json(json.dumps(data))


def test_the_plan_says_what_the_program_does() -> None:
    """Parameters in order, what is read and written, the widest access of threads, the capability."""
    gemm, norm = plan("gemm_bf16"), plan("rmsnorm_bf16")

    assert (gemm.capability, gemm.threads, gemm.smem_bytes, gemm.grid) == ((9, 0), 384, 229440, "sm_count")
    assert [(m.name, m.tensor, m.box, m.swizzle) for m in gemm.maps] == [
        ("A_map", "A", (128, 64), 128),
        ("B_map", "B", (256, 64), 128),
        ("C_map", "C", (64, 64), 128),
    ]
    assert [(t.name, t.vector, t.read, t.written) for t in gemm.tensors] == [
        ("A", 1, True, False),
        ("B", 1, True, False),
        ("C", 1, False, True),
    ]
    assert [(t.name, t.vector, t.read, t.written) for t in norm.tensors] == [
        ("X", 16, True, False),
        ("W", 16, True, False),
        ("Y", 16, False, True),
    ]
    assert [(s.name, s.dtype) for s in norm.scalars] == [("eps", "f32")]
    assert replace(gemm, target="sm_100a").capability == (10, 0)


def test_a_good_problem_gives_the_grid() -> None:
    """One CTA an SM for the persistent kernel, one for each four rows for the other."""
    assert plan("gemm_bf16").check({"M": 4096, "N": 4096, "K": 4096}, sm_count=132) == 132
    assert plan("rmsnorm_bf16").check({"M": 9, "N": 8192}, sm_count=132) == 3


@pytest.mark.parametrize(
    ("kernel", "extents", "reason"),
    [
        ("gemm_bf16", {"M": 64, "N": 64}, "extent K is missing"),
        ("gemm_bf16", {"M": 0, "N": 64, "K": 64}, "M = 0, not from 1"),
        ("gemm_bf16", {"M": 2**31, "N": 64, "K": 64}, "M = 2147483648, not from 1"),
        (
            "gemm_bf16",
            {"M": 64, "N": 64, "K": 68},
            r"A of shape \(64, 68\): dimension 0 has a stride of 136 bytes; TMA",
        ),
        ("gemm_bf16", {"M": 64, "N": 60, "K": 64}, r"C of shape \(64, 60\): dimension 0 has a stride of 120 bytes"),
        ("gemm_bf16", {"M": 2**31 - 1, "N": 64, "K": 64}, r"\(M \+ 127\) is 2147483774 for M = 2147483647, beyond"),
        ("gemm_bf16", {"M": 2**30, "N": 2**30, "K": 64}, r"is 35184372088832 for M = 1073741824, N = 1073741824"),
        (
            "rmsnorm_bf16",
            {"M": 8, "N": 4},
            r"X of shape \(8, 4\): rows of 8 bytes; the kernel accesses 16 bytes at once",
        ),
    ],
)
def test_a_bad_problem_is_refused_with_its_value(kernel: str, extents: dict[str, int], reason: str) -> None:
    """Extents, strides, vector widths and 32-bit arithmetic, each with the value that is wrong."""
    with pytest.raises(PlanError, match=reason):
        plan(kernel).check(extents, sm_count=132)


def test_addresses_beyond_64_bits_are_refused() -> None:
    """The product of the extents is computed exactly."""
    huge = replace(
        plan("rmsnorm_bf16"), tensors=(TensorPlan("X", "bf16", ("M", "N", "N"), 1, True, False),), arithmetic=()
    )
    with pytest.raises(PlanError, match="more than 64-bit addresses hold"):
        huge.check({"M": 2**22, "N": 2**30}, sm_count=1)


def test_memory_must_be_dense_and_aligned() -> None:
    """Strides and addresses of real arguments; a dimension of one element may have any stride."""
    gemm, norm = plan("gemm_bf16"), plan("rmsnorm_bf16")
    a, x = gemm.tensors[0], norm.tensors[0]
    gemm.check_layout(a, (1, 16), (999, 1), 0x1000)
    with pytest.raises(PlanError, match="A has stride 1 in dimension 0, not 16; it must be dense"):
        gemm.check_layout(a, (8, 16), (1, 8), 0x1000)
    with pytest.raises(PlanError, match="A starts at 0x1008, not at a multiple of 16 bytes"):
        gemm.check_layout(a, (8, 16), (16, 1), 0x1008)
    with pytest.raises(PlanError, match="X starts at 0x1004, not at a multiple of 16 bytes"):
        norm.check_layout(x, (8, 16), (16, 1), 0x1004)


def test_host_expressions() -> None:
    """Every operator of the host, its text, and division by zero."""
    values = {"M": 7, "N": 3}

    assert evaluate(["-", ["*", "M", "N"], ["//", "M", 2]], values, "k") == 18
    assert evaluate(["max", ["min", "M", "N"], ["%", "M", 4]], values, "k") == 3
    assert evaluate(["|", ["^", "M", 1], ["<<", ["&", "N", 1], 3]], values, "k") == 14
    assert render(["max", ["+", "M", 1], ["//", "N", 2]]) == "max((M + 1), (N // 2))"
    assert evaluate(["//", ["-", 0, "M"], 2], values, "k") == -3  # as on the device
    assert evaluate(["%", ["-", 0, "M"], 2], values, "k") == -1
    with pytest.raises(PlanError, match=r"k: \(M // \(N - 3\)\) divides by zero"):
        evaluate(["//", "M", ["-", "N", 3]], values, "k")
    with pytest.raises(PlanError, match=r"k: \(1 << M\) shifts by 2000000000, not by 0 to 31"):
        evaluate(["<<", 1, "M"], {"M": 2_000_000_000}, "k")
