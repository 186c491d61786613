"""Compiling: errors lead back to the program; what is missing is said with its cure."""

from __future__ import annotations

import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest

from cake.core import compile as gate
from cake.core.compile import CompileError, compile_cuda, compile_program
from cake.core.diagnostics import Category
from cake.core.errors import CakeError, Exit
from cake.core.lower import lower
from cake.core.reader import read_program

TEXT = """@schedule(target="sm_90a")
def small(X: Tensor[f32, "M"]):
    launch(ctas=1)
    only = role(warps=1)

    with only:
        a = M
        ptx("{ptx}", inputs=(a,))
        warp_sync()
"""


def test_a_ptxas_error_leads_to_the_statement() -> None:
    """ptxas cites PTX lines; the finding names the op path and the canonical line."""
    with pytest.raises(CompileError, match=r"small does not compile for sm_90a: .*(and \d+ more)") as error:
        compile_program(lower(read_program(TEXT.format(ptx="no.such.instruction %0;"))))

    first = error.value.findings[0]
    assert (first.paths, first.line, first.role, first.source) == (("only:1",), 8, "only", "compiler")
    assert (first.category, first.blocking) == (Category.HARDWARE_CONFORMANCE, True)
    assert error.value.exit_code == Exit.FINDINGS
    assert "ptxas" in error.value.log


def test_a_front_end_error_leads_to_the_statement() -> None:
    """`#line` makes the front end cite the canonical text."""
    lowered = lower(read_program(TEXT.format(ptx="mov.b32 %0, %0;")))
    broken = replace(lowered, source=lowered.source.replace("int32_t a = M;", "int32_t a = missing;"))
    with pytest.raises(CompileError, match=r'identifier "missing" is undefined') as error:
        compile_program(broken)

    assert [(f.paths, f.line) for f in error.value.findings] == [(("only:0",), 7)]


def test_an_error_outside_the_text_names_the_file() -> None:
    """The mechanical part has no line of canonical text; the message says where it is."""
    with pytest.raises(CompileError) as error:
        compile_cuda("this is no C++", "sm_90a", "thing")

    assert error.value.findings[0].paths == ()
    assert error.value.findings[0].message.startswith("/cake/thing.cu(1): ")


def test_an_unknown_target_is_an_error_that_says_so() -> None:
    """No step down to another architecture."""
    with pytest.raises(CakeError, match="sm_12345"):
        compile_cuda("", "sm_12345", "thing")


def test_a_lost_setmaxnreg_is_a_finding() -> None:
    """ptxas ignores setmaxnreg without a register cap at entry (C7508): performance, not a fault."""
    source = 'extern "C" __global__ void f(int *x) { asm volatile("setmaxnreg.inc.sync.aligned.u32 240;"); *x = 1; }'
    cubin = compile_cuda(source, "sm_90a", "f")

    assert [(f.code, f.category, f.blocking) for f in cubin.findings] == [
        ("C7508", Category.PERFORMANCE_ANALYSIS, False)
    ]


def test_the_log_holds_no_timings() -> None:
    """A log that is evidence must be the same twice."""
    source = 'extern "C" __global__ void f(int *x) { *x = 1; }'

    assert compile_cuda(source, "sm_80", "f") == compile_cuda(source, "sm_80", "f")
    assert "Compile time" not in compile_cuda(source, "sm_80", "f").log


@pytest.fixture
def fresh_gate() -> object:
    """The gate as in a new process, before and after."""
    gate._nvrtc.cache_clear()
    yield gate
    gate._nvrtc.cache_clear()


def test_missing_bindings_name_the_cure(fresh_gate: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without cuda-bindings the error is the environment's and says what to install."""
    monkeypatch.setitem(sys.modules, "cuda.bindings", None)
    with pytest.raises(CakeError, match=r"cuda-bindings is missing .*pip install 'cake-compiler\[cuda\]'") as error:
        gate.nvrtc_version()

    assert error.value.exit_code == Exit.ENVIRONMENT


def test_a_missing_library_names_the_cure(fresh_gate: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """The binding raises RuntimeError when it finds no libnvrtc."""

    def version() -> None:
        raise RuntimeError("Failure finding libnvrtc.so\nlong details")

    monkeypatch.setitem(sys.modules, "cuda.bindings", SimpleNamespace(nvrtc=SimpleNamespace(nvrtcVersion=version)))
    with pytest.raises(CakeError, match=r"the NVRTC library is missing \(Failure finding libnvrtc.so\): pip install"):
        gate.nvrtc_version()


def test_another_release_is_refused(fresh_gate: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cubins come from CUDA 13.0 and no other."""
    stub = SimpleNamespace(nvrtc=SimpleNamespace(nvrtcVersion=lambda: (0, 12, 8)))
    monkeypatch.setitem(sys.modules, "cuda.bindings", stub)
    with pytest.raises(CakeError, match=r"NVRTC is 12\.8, Cake compiles with 13\.0"):
        gate.nvrtc_version()
