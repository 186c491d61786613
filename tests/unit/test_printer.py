"""Canonical text: precedence, literals, operands, lines and hashes."""

from __future__ import annotations

import hashlib

import pytest

from cake.core.ir import (
    BF16,
    BOOL,
    F32,
    I32,
    I64,
    U32,
    Assign,
    Binary,
    Cast,
    Const,
    Expr,
    Extent,
    For,
    If,
    Launch,
    OneLane,
    OpStmt,
    Program,
    Role,
    RoleBody,
    Select,
    Stmt,
    Tensor,
    Unary,
    Var,
    walk,
)
from cake.core.printer import print_expr, print_program, program_hash, program_lines
from cake.core.reader import read_program
from cake.core.registry import primitives

M, N = Extent("M"), Extent("N")
ROLE = Role("r", 1)


def program(*stmts: Stmt, target: str = "sm_90a") -> Program:
    """A program of one role with these statements."""
    tensor = Tensor("X", F32, ("M", "N"))
    return Program("k", target, (tensor,), Launch(Const(1)), (ROLE,), (RoleBody(ROLE, stmts),))


def assign(value: Expr) -> Assign:
    """`x = value`, the first of its name."""
    return Assign(Var("x", value.type), value, True)


def add(a: Expr, b: Expr) -> Binary:
    """a + b."""
    return Binary("+", a, b)


def less(a: Expr, b: Expr) -> Binary:
    """a < b."""
    return Binary("<", a, b)


A, B, C = less(M, N), less(N, M), less(M, Const(1))


@pytest.mark.parametrize(
    ("expr", "text"),
    [
        (add(add(M, N), M), "M + N + M"),
        (add(M, add(N, M)), "M + (N + M)"),
        (Binary("-", M, Binary("-", N, M)), "M - (N - M)"),
        (Binary("*", add(M, N), M), "(M + N) * M"),
        (add(Binary("*", M, N), M), "M * N + M"),
        (Binary("*", M, Binary("//", N, M)), "M * (N // M)"),
        (Binary("//", Binary("*", M, N), M), "M * N // M"),
        (Binary("%", M, Binary("%", N, M)), "M % (N % M)"),
        (Binary("<<", M, add(N, Const(1))), "M << N + 1"),
        (Binary("&", Binary("|", M, N), M), "(M | N) & M"),
        (Binary("|", Binary("&", M, N), M), "M & N | M"),
        (Binary("^", Binary("^", M, N), M), "M ^ N ^ M"),
        (Binary("^", M, Binary("^", N, M)), "M ^ (N ^ M)"),
        (Binary("min", M, Binary("max", N, M)), "min(M, max(N, M))"),
        (Unary("-", M), "-M"),
        (Unary("-", Unary("-", M)), "--M"),
        (Unary("-", add(M, N)), "-(M + N)"),
        (Binary("*", Unary("-", M), N), "-M * N"),
        (Unary("-", Binary("*", M, N)), "-(M * N)"),
        (Binary("-", M, Unary("-", N)), "M - -N"),
        (add(M, Const(-1)), "M + -1"),
        (Binary("*", Const(-1), M), "-1 * M"),
        (Binary("and", Binary("and", A, B), C), "M < N and N < M and M < 1"),
        (Binary("and", A, Binary("and", B, C)), "M < N and (N < M and M < 1)"),
        (Binary("or", Binary("and", A, B), C), "M < N and N < M or M < 1"),
        (Binary("and", Binary("or", A, B), C), "(M < N or N < M) and M < 1"),
        (Binary("==", A, B), "(M < N) == (N < M)"),
        (Unary("not", A), "not M < N"),
        (Binary("and", Unary("not", A), B), "not M < N and N < M"),
        (Unary("not", Binary("and", A, B)), "not (M < N and N < M)"),
        (Binary("==", Unary("not", A), B), "(not M < N) == (N < M)"),
        (Unary("not", Unary("not", A)), "not not M < N"),
        (Select(A, M, N), "M if M < N else N"),
        (Select(A, Select(B, M, N), N), "(M if N < M else N) if M < N else N"),
        (Select(A, M, Select(B, M, N)), "M if M < N else (M if N < M else N)"),
        (Select(Select(A, B, C), M, N), "M if (N < M if M < N else M < 1) else N"),
        (add(Select(A, M, N), M), "(M if M < N else N) + M"),
        (Select(Binary("or", A, B), add(M, N), M), "M + N if M < N or N < M else M"),
        (Cast(Select(A, M, N), F32), "cast(M if M < N else N, f32)"),
        (Const(-3), "-3"),
        (Const(True, BOOL), "True"),
        (Const(0.1, F32), "0.1"),
        (Const(1e-30, F32), "1e-30"),
        (Const(1e22, F32), "1e+22"),
        (Const(-0.0, F32), "-0.0"),
        (Const(float("inf"), F32), "inf"),
        (Const(float("-inf"), F32), "-inf"),
        (Const(7, U32), "u32(7)"),
        (Const(-7, I64), "i64(-7)"),
        (Const(2**62, I64), "i64(4611686018427387904)"),
        (Const(0.5, BF16), "bf16(0.5)"),
        (Const(float("-inf"), BF16), "bf16(-inf)"),
        (add(Const(1), Const(2)), "1 + 2"),
    ],
)
def test_expressions(expr, text):
    """Parentheses stand exactly where Python's precedence needs them, and reading gives the expression back."""
    assert print_expr(expr) == text

    p = program(assign(expr))

    assert read_program(print_program(p)) == p


@pytest.mark.parametrize(
    "text", ["", "bar.sync 0;", 'a "quoted" \\ word', "two\nlines\t\r", "é \U0001f370 \0 \x7f", "\ud800"]
)
def test_strings(text):
    """Every string prints as one ASCII line and reads as itself."""
    p = program(OpStmt(primitives()["ptx"](text)))
    printed = print_program(p)

    assert printed.isascii()
    assert len(printed.splitlines()) == 7
    assert read_program(printed) == p


def test_empty_blocks():
    """An empty block prints as `pass`; an empty else is left out, an empty then is not."""
    x = Var("i", I32)
    p = program(For(x, Const(0), M, Const(2), ()), If(A, (), (OneLane(()),)), If(A, ()))

    assert print_program(p).split("with r:\n")[1] == (
        "        for i in range(0, M, 2):\n"
        "            pass\n"
        "        if M < N:\n"
        "            pass\n"
        "        else:\n"
        "            with one_lane():\n"
        "                pass\n"
        "        if M < N:\n"
        "            pass\n"
    )
    assert read_program(print_program(p)) == p


@pytest.mark.parametrize(
    ("bounds", "text"),
    [
        ((Const(0), M, Const(1)), "range(M)"),
        ((Const(1), M, Const(1)), "range(1, M)"),
        ((Const(0), M, Const(2)), "range(0, M, 2)"),
        ((N, M, N), "range(N, M, N)"),
    ],
)
def test_ranges(bounds, text):
    """A range leaves out what Python would supply."""
    p = program(For(Var("i", I32), *bounds, ()))

    assert f"for i in {text}:" in print_program(p)
    assert read_program(print_program(p)) == p


def test_lines_of_branches():
    """An else-branch's children count on from the then-branch's, and each has its own line."""
    first, second = assign(M), assign(N)
    p = program(If(A, (first,), (second,)), assign(M))
    lines = print_program(p).splitlines()
    places = program_lines(p)

    assert places == {"r:0": 7, "r:0.0": 8, "r:0.1": 10, "r:1": 11}
    assert [lines[n - 1].strip() for n in places.values()] == ["if M < N:", "x = M", "x = N", "x = M"]
    assert [located.path for located in walk(p)] == list(places)


def test_hash_is_of_the_text():
    """A program's identity is the SHA-256 of its canonical text: spans do not count, targets do."""
    p = program(assign(M))

    assert program_hash(p) == hashlib.sha256(print_program(p).encode()).hexdigest()
    assert program_hash(read_program(print_program(p), "elsewhere.cake")) == program_hash(p)
    assert program_hash(program(assign(M), target="sm_100a")) != program_hash(p)
