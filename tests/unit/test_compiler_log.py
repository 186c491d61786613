"""Reading what nvcc, NVRTC and ptxas print. The fixtures are shaped like real output, shortened."""

from __future__ import annotations

import pytest

from cake.core.compiler_log import Message, Usage, findings, innermost, ptx_positions, read_log
from cake.core.diagnostics import Category

SERIALISED = """\
ptxas info    : (C7512) Potential Performance Loss: wgmma.mma_async instructions are serialized due to insufficient \
register resources for the function 'mm'
ptxas info    : (C7517) warpgroup.wait is injected in around line 4 by compiler to allow use of registers defined by \
GMMA in function 'mm'
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'mm' for 'sm_90a'
ptxas info    : Function properties for mm
    336 bytes stack frame, 352 bytes spill stores, 1600 bytes spill loads
ptxas info    : Used 168 registers, used 16 barriers, 336 bytes cumulative stack size
ptxas info    : Compiling entry function 'other' for 'sm_90a'
ptxas info    : Used 32 registers
"""

FRONT = """\
k.h(76): error: calling a constexpr __host__ function("n") from a __global__ function("k") is not allowed.
/cake/mm.cake(12): warning #177-D: variable "unused" was declared but never referenced
    int unused = 3;
        ^

Remark: The warnings can be suppressed with "-diag-suppress <warning-number>"

common.h(74): error: an asm operand must be an integral constant expression.

2 errors detected in the compilation of "main.cu".
"""

PTX = """\
.version 9.0
.loc 1 3 1
.loc 2 41 7, function_name $L__info_string0, inlined_at 1 9 5
wgmma.mma_async;
.loc 1 10 2
bar.sync 0;
.file 1 "/cake/mm.cake"
.file 2 "/cake/mm.cu"
"""


def test_ptxas_output_is_messages_and_usage() -> None:
    """Remarks with code, function and PTX line; resources for each kernel, with or without spills."""
    log = read_log(SERIALISED)

    assert [(m.severity, m.code, m.function, m.ptx_line) for m in log.messages] == [
        ("info", "C7512", "mm", 0),
        ("info", "C7517", "mm", 4),
    ]
    assert log.usages == (Usage("mm", 168, 16, 336, 352, 1600), Usage("other", 32, 0, 0, 0, 0))


def test_front_end_output_is_messages() -> None:
    """Errors and warnings with file, line and number; excerpts, carets and totals are no messages."""
    log = read_log(FRONT)

    assert [(m.severity, m.code, m.file, m.line) for m in log.messages] == [
        ("error", "", "k.h", 76),
        ("warning", "177-D", "/cake/mm.cake", 12),
        ("error", "", "common.h", 74),
    ]
    assert [m.line for m in log.errors] == [76, 74]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "ptxas application ptx input, line 27; error   : Unknown modifier '.foo'",
            Message("error", "", "Unknown modifier '.foo'", ptx_line=27),
        ),
        (
            "ptxas fatal   : Ptx assembly aborted due to errors",
            Message("error", "", "Ptx assembly aborted due to errors"),
        ),
        (
            "ptxas warning : Value of threads per SM is out of range",
            Message("warning", "", "Value of threads per SM is out of range"),
        ),
    ],
)
def test_ptxas_lines(line: str, message: Message) -> None:
    """The three forms that ptxas uses."""
    assert read_log(line).messages == (message,)


def test_text_that_is_no_log_gives_nothing() -> None:
    """Other people's output passes through."""
    log = read_log("Traceback (most recent call last):\n  File x, line 3\n\0\x1b[0m\n")

    assert (log.messages, log.usages) == ((), ())


def test_ptx_lines_lead_to_the_caller_of_a_helper() -> None:
    """`.loc ... inlined_at` means the place of the call, which is a line of the program."""
    positions = ptx_positions(PTX)

    assert positions[0] == ("", 0)
    assert positions[3] == ("/cake/mm.cake", 9)
    assert positions[5] == ("/cake/mm.cake", 10)


def test_findings_stand_on_the_program() -> None:
    """A located remark names its op; a remark about the function names none; a spill is one of ours."""
    lines = {"math:0": 3, "math:1": 8, "math:1.0": 9, "math:2": 10}
    found = findings(read_log(SERIALISED), lines, "/cake/mm.cake", ptx_positions(PTX))

    assert [(f.code, f.name, f.paths, f.line) for f in found] == [
        ("C7512", "wgmma-serialised-registers", (), 0),
        ("C7517", "wgmma-wait-injected", ("math:1.0",), 9),
        ("spill", "registers-spilled", (), 0),
    ]
    assert [f.category for f in found] == [
        Category.PERFORMANCE_ANALYSIS,
        Category.OPTIMISATION_GUIDANCE,
        Category.PERFORMANCE_ANALYSIS,
    ]
    assert all(f.help and not f.blocking for f in found)


def test_the_innermost_statement_has_the_line() -> None:
    """A line inside a statement that spans several belongs to the last that starts at or before it."""
    lines = {"a:0": 5, "a:0.0": 6, "a:1": 9}

    assert innermost(8, lines) == ("a:0.0",)
    assert innermost(4, lines) == ()
