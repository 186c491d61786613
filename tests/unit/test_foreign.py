"""Foreign text: each tool's lines become structured diagnostics, masked; the rest is passed over."""

from __future__ import annotations

import pytest

from cake.core.evidence import OUTCOMES
from cake.core.foreign import mask, parse_foreign
from cake.core.launch import OUTCOMES as CUDA_OUTCOMES
from cake.core.launch import cuda_outcome

C7512 = (
    "ptxas info    : (C7512) Potential Performance Loss: wgmma.mma_async instructions are serialized due to "
    "insufficient register resources for the function '_Z8assign_sILi2EEv14CUtensorMap_st'"
)


def test_ptxas_performance_loss() -> None:
    """A C75xx note carries its code, counts as performance, and names its function aside."""
    (found,) = parse_foreign(C7512)
    assert (found.tool, found.severity, found.code) == ("ptxas", "performance", "C7512")
    assert found.details == {"function": "_Z8assign_sILi2EEv14CUtensorMap_st"}
    assert "assign_s" not in found.text


def test_ptxas_line() -> None:
    """The PTX line that ptxas cites is kept as a number."""
    (found,) = parse_foreign("ptxas info    : (C7517) warpgroup.wait is injected in around line 44288 by compiler")
    assert found.details == {"ptx_line": 44288}


def test_nvrtc_error() -> None:
    """A front-end error has file, line and text."""
    (found,) = parse_foreign("gemm.cu(74): error: an asm operand must be an integral constant expression.")
    assert (found.tool, found.file, found.line) == ("nvrtc", "gemm.cu", 74)
    assert found.text == "an asm operand must be an integral constant expression."
    (warning,) = parse_foreign('k.cu(3): warning #177-D: variable "x" was declared but never referenced')
    assert (warning.severity, warning.code) == ("warning", "177-D")


def test_driver_error() -> None:
    """A driver error says which outcome it means."""
    (found,) = parse_foreign("cuCtxSynchronize: CUDA_ERROR_ILLEGAL_INSTRUCTION (715): an illegal instruction")
    assert found.code == "CUDA_ERROR_ILLEGAL_INSTRUCTION"
    assert found.details == {"outcome": "illegal_instruction"}


def test_sanitizer_report() -> None:
    """An access report and the place below it."""
    text = (
        "========= Invalid __global__ write of size 4 bytes\n"
        "=========     at kernel(int *)+0x70 in /home/x/file.cu:12\n"
        "=========     by thread (0,0,0) in block (0,0,0)\n"
    )
    access, place = parse_foreign(text)
    assert (access.code, access.details) == ("invalid-global-write", {"bytes": 4})
    assert (place.file, place.line, place.details["offset"]) == ("/home/x/file.cu", 12, "0x70")


def test_pytest_line() -> None:
    """A summary line names file and test."""
    (found,) = parse_foreign("FAILED tests/unit/test_x.py::test_a[3] - AssertionError: assert 1 == 2")
    assert (found.tool, found.file, found.code) == ("pytest", "tests/unit/test_x.py", "test_a[3]")
    assert found.text == "AssertionError: assert # == #"


def test_noise_is_passed_over() -> None:
    """Unknown, empty and binary-looking lines give nothing."""
    assert list(parse_foreign("\nhello\n\x00\x01\nptxas\n" + "x" * 10_000)) == []


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("at 0x7f00 in 12 steps", "at 0xabc1 in 7  steps"),
        ("/a/b/kernel.cu(12)", "/c/kernel.cu(99)"),
        ("in _Z3fooi", "in _Z9bar_bazIiE"),
    ],
)
def test_mask(a: str, b: str) -> None:
    """What differs from run to run masks to the same text."""
    assert mask(a) == mask(b)


def test_outcomes_are_known() -> None:
    """Every driver error means an outcome of the closed list; unknown ones are launch failures."""
    assert set(CUDA_OUTCOMES.values()) < set(OUTCOMES)
    assert cuda_outcome("CUDA_ERROR_SOMETHING_NEW") == "launch_failure"


def test_diagnostic_is_plain() -> None:
    """A diagnostic for a record says that it is foreign."""
    (found,) = parse_foreign(C7512)
    assert found.diagnostic()["kind"] == "foreign"
    assert found.diagnostic()["code"] == "C7512"
