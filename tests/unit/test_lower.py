"""Lowering: every statement is in the CUDA, lines lead back, and the same program gives the same file."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import cache

import pytest

from cake.core.corpus import load_corpus
from cake.core.cpp import cpp_name, half_bits, linear, literal
from cake.core.edits import edits
from cake.core.ir import (
    BF16,
    BOOL,
    F16,
    F32,
    I32,
    I64,
    U32,
    Binary,
    Const,
    Declare,
    DType,
    Expr,
    Extent,
    For,
    IRError,
    OpStmt,
    Program,
    Select,
    Special,
    Var,
    walk,
)
from cake.core.layout import ThreadLayout
from cake.core.lower import Lowered, lower
from cake.core.printer import print_program, program_lines
from cake.core.reader import read_program
from cake.core.tree import replace_statement

KERNELS = ("gemm_bf16", "rmsnorm_bf16")


@cache
def corpus_program(kernel: str) -> Program:
    """The first configuration of a corpus kernel."""
    (found,) = [k for k in load_corpus() if k.name == kernel]
    return found.program(next(iter(found.configs)))


def code(program: Program, *, watchdog: bool = False) -> str:
    """The CUDA without what follows from line numbers and names in comments."""
    source = re.sub(r"^#line.*\n", "", lower(program, watchdog=watchdog).source, flags=re.MULTILINE)
    return re.sub(r"//.*", "", source)


@pytest.mark.parametrize("kernel", KERNELS)
def test_changing_any_one_statement_changes_the_cuda(kernel: str) -> None:
    """Every statement has an edit, and none leaves the generated code as it was."""
    program = corpus_program(kernel)
    before = code(program)
    edited: dict[str, Program] = {}
    for edit in edits(program):
        edited.setdefault(edit.path, edit.program)
    for located in walk(program):
        if located.path not in edited:
            assert isinstance(located.stmt, Declare), located.path
            renamed = renamed_code(program, located.path)
            assert renamed != before, located.path
            continue
        assert code(edited[located.path]) != before, located.path


def renamed_code(program: Program, path: str) -> str:
    """The code with one declared fragment under another name, for declarations that no edit can change."""
    (stmt,) = [located.stmt for located in walk(program) if located.path == path]
    assert isinstance(stmt, Declare)
    name = stmt.target.name
    return code(read_program(re.sub(rf"\b{name}\b", f"{name}_2", print_program(program))))


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("watchdog", [False, True])
def test_lowering_is_deterministic(kernel: str, watchdog: bool) -> None:
    """The same text gives the same file, from another object too."""
    program = corpus_program(kernel)
    again = read_program(print_program(program))

    assert lower(program, watchdog=watchdog) == lower(again, watchdog=watchdog)


def test_lowering_does_not_depend_on_the_hash_seed() -> None:
    """Another process, with another seed for hashes, writes the same file."""
    script = (
        "import hashlib; from cake.core.corpus import load_corpus; from cake.core.lower import lower; "
        "print(hashlib.sha256(''.join(lower(k.program(c), watchdog=True).source "
        "for k in load_corpus() for c in list(k.configs)[:1]).encode()).hexdigest())"
    )
    runs = {
        subprocess.run(
            [sys.executable, "-c", script], env={"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True
        ).stdout
        for seed in ("1", "2")
    }

    assert len(runs) == 1


def physical(lowered: Lowered) -> Iterator[tuple[int, str]]:
    """(canonical line, C++ text) of every line that `#line` attributes to the canonical text."""
    file, line = "", 0
    for text in lowered.source.splitlines():
        found = re.fullmatch(r'#line (\d+) "([^"]*)"', text)
        if found:
            line, file = int(found[1]), found[2]
            continue
        if file == lowered.text_file:
            yield line, text.strip()
        line += 1


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("watchdog", [False, True])
def test_line_directives_lead_to_the_statement(kernel: str, watchdog: bool) -> None:
    """Every statement's line has C++ of that statement: the loop head, the primitive's call, the variable's name."""
    program = corpus_program(kernel)
    lowered = lower(program, watchdog=watchdog)
    by_line: dict[int, str] = {}
    for line, text in physical(lowered):
        by_line[line] = f"{by_line.get(line, '')}\n{text}"
    assert lowered.lines == program_lines(program)
    for located in walk(program):
        text = by_line[lowered.lines[located.path]]
        stmt = located.stmt
        if isinstance(stmt, For):
            assert f"for (int32_t {stmt.var.name} =" in text
        elif isinstance(stmt, OpStmt) and stmt.op.opname in ("tma_load", "tma_store", "mbarrier_wait", "barrier_sync"):
            assert f"cake::{stmt.op.opname}" in text
        elif isinstance(stmt, OpStmt) and stmt.out is not None:
            assert f"{stmt.out.name} = " in text
        else:
            assert text.strip("\n {}")


def test_file_lines_of_the_mechanical_part_are_right() -> None:
    """Behind a role, `#line` returns to the file's own numbering."""
    lowered = lower(corpus_program("gemm_bf16"))
    lines = lowered.source.splitlines()
    own = [(i, line) for i, line in enumerate(lines, 1) if line.endswith(f'"{lowered.file}"')]

    assert len(own) == 2
    for i, line in own:
        assert line == f'#line {i + 1} "{lowered.file}"'


def test_gemm_is_one_chain_of_roles() -> None:
    """setmaxnreg needs each role to be one branch of a single if/else chain, and loops must stay rolled."""
    source = lower(corpus_program("gemm_bf16")).source

    assert source.count("if (warp < 4) {") == 1
    assert source.count("} else if (warp < 12) {") == 1
    assert "__launch_bounds__(384, 1)" in source
    assert source.count("#pragma unroll 1") == 4
    assert "cluster" not in source.replace("fence.mbarrier_init.release.cluster", "")


def test_watchdog_marks_every_blocking_statement() -> None:
    """Each wait, named barrier, group wait and register increase is announced; mbarrier waits are bounded."""
    program = corpus_program("gemm_bf16")
    lowered = lower(program, watchdog=True)
    blocking = [
        located
        for located in walk(program)
        if isinstance(located.stmt, OpStmt)
        and located.stmt.op.opname in ("mbarrier_wait", "barrier_sync", "bulk_wait", "wgmma_wait", "setmaxnreg")
    ]
    index = {statement.path: i for i, statement in enumerate(lowered.plan.statements, 1)}
    for located in blocking:
        increase = located.path != "load:0"  # the producer gives registers back, which does not block
        assert (f"cake::here(cake_watch, {index[located.path]}u" in lowered.source) == increase, located.path
    assert "give_up" not in lower(program).source
    assert lowered.source.count("cake::finish(cake_watch);") == 2


def body_of(statements: str, **tensors: str) -> str:
    """A canonical text with one role of one warp that runs `statements`."""
    params = ", ".join(f"{name}: {t}" for name, t in tensors.items())
    lines = "\n".join(f"        {line}" for line in statements.strip("\n").splitlines())
    return (
        f'@schedule(target="sm_90a")\ndef small({params}):\n    launch(ctas=1)\n'
        f"    only = role(warps=1)\n\n    with only:\n{lines}\n"
    )


def test_columns_that_no_register_holds_alone_are_refused() -> None:
    """A wgmma fragment splits into columns in steps of 8: registers cannot be addressed."""
    text = body_of(
        """
acc = fragment(f32, (64, 32), layout="wgmma")
part = acc.cols(4, 8)
warp_sync()
""",
        X='Tensor[f32, "M"]',
    )
    with pytest.raises(IRError, match=r"acc.cols\(4, 8\): layout 'wgmma' does not keep these columns"):
        lower(read_program(text))


def test_shapes_that_a_layout_cannot_hold_are_refused() -> None:
    """The layout says what it holds."""
    text = body_of('x = fragment(f32, (32, 8), layout="wgmma")\nwarp_sync()', X='Tensor[f32, "M"]')
    with pytest.raises(IRError, match=r"layout 'wgmma' holds \(64, N\), N a multiple of 8, not \(32, 8\)"):
        lower(read_program(text))


def test_a_grid_that_the_host_cannot_compute_is_refused() -> None:
    """The launch uses extents and the SM count only."""
    program = corpus_program("rmsnorm_bf16")
    grid = Select(Binary("<", Extent("M"), Const(3)), Extent("M"), Const(3))
    with pytest.raises(IRError, match=r"the host cannot compute"):
        lower(replace(program, launch=replace(program.launch, ctas=grid)))


def test_dropping_a_wait_drops_it_from_the_plan() -> None:
    """Statement numbers in watchdog records count the statements of this program."""
    program = corpus_program("gemm_bf16")
    fewer = replace_statement(program, "load:3.2.4.0", ())

    assert len(lower(fewer).plan.statements) == len(lower(program).plan.statements) - 1


# ------------------------------------------------------------------------------------------------------------ C++ text


@pytest.mark.parametrize(
    ("value", "dtype", "text"),
    [
        (1, F32, "1.0f"),
        (1e-6, F32, "1e-06f"),
        (0.1, F32, "0.1f"),
        (float("inf"), F32, "__uint_as_float(0x7f800000u)"),
        (-float("inf"), F32, "__uint_as_float(0xff800000u)"),
        (float("nan"), F32, "__uint_as_float(0x7fc00000u)"),
        (7, I32, "7"),
        (7, U32, "7u"),
        (7, I64, "7ll"),
        (-(2**31), I32, "(-2147483647 - 1)"),
        (-(2**63), I64, "(-9223372036854775807ll - 1)"),
        (True, BOOL, "true"),
        (1.0, BF16, "cake::bf16{0x3f80}"),
        (1.0, F16, "cake::f16{0x3c00}"),
    ],
)
def test_literals_have_exactly_their_type(value: float, dtype: DType, text: str) -> None:
    """A literal never leaves its type to conversion."""
    assert literal(value, dtype) == text


@pytest.mark.parametrize("value", [1.0, 1.00390625, 1.01171875, -3.4e38, 1e-40, float("inf")])
def test_bf16_literals_round_to_nearest_even(value: float) -> None:
    """As ml_dtypes does, subnormals and infinities included."""
    import ml_dtypes
    import numpy as np

    assert half_bits(value, BF16) == int(np.asarray(np.float32(value)).astype(ml_dtypes.bfloat16).view(np.uint16))


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("a - (b - c)", "a - (b - c)"),
        ("(a - b) - c", "a - b - c"),
        ("a * (b + c) // 2 % 3", "a * (b + c) / 2 % 3"),
        ("a + b * c", "a + b * c"),
        ("(a + b) * c", "(a + b) * c"),
        ("(a << 1) + b", "(a << 1) + b"),
        ("a & b | c", "(a & b) | c"),
        ("min(a + 1, max(b, c))", "min(a + 1, max(b, c))"),
        ("-(a + b) - -c", "-(a + b) - -c"),
        ("a ^ 1 if b == 3 else a", "b == 3 ? a ^ 1 : a"),
    ],
)
def test_brackets_keep_the_evaluation_order(expression: str, text: str) -> None:
    """As few brackets as C++ needs; the reader's precedence is Python's."""
    source = body_of(f"a = M\nb = M\nc = M\nx = {expression}\nwarp_sync()", X='Tensor[f32, "M"]')

    assert f"int32_t x = {text};" in lower(read_program(source)).source


def test_conditions_are_bracketed_for_cpp() -> None:
    """C++ compares before it masks; Python, and so the text, the other way round."""
    source = body_of("a = M\nx = a & 3 == a and a < 4 or not a > 5\nwarp_sync()", X='Tensor[f32, "M"]')

    assert "bool x = ((a & 3) == a && a < 4) || !(a > 5);" in lower(read_program(source)).source


def test_reserved_words_are_kept_apart() -> None:
    """A name that C++ or the file uses gets `_`, and so does what it would clash with."""
    assert [cpp_name(n) for n in ("tile", "new", "new_", "warp", "arrivals", "cake_1", "cake")] == [
        "tile",
        "new_",
        "new__",
        "warp_",
        "arrivals_",
        "cake_1_",
        "cake_",
    ]


def test_linear_forms_gather_terms() -> None:
    """Addresses fold what is constant and keep the rest as it was written."""
    x: Expr = Var("x", I32)
    form = linear(Binary("+", Binary("*", Const(4), Binary("-", x, Const(3))), Binary("+", x, Special("lane_id"))))

    assert form.constant == -12
    assert dict(form.terms) == {x: 5, Special("lane_id"): 1}


def test_thread_fragments_lie_row_by_row() -> None:
    """Row j of a (4, 8) fragment is registers 8 j to 8 j + 7."""
    assert ThreadLayout().coords((4, 8))[0, 11].tolist() == [1, 3]
