"""Construction: what is ill-typed cannot be built, and the error names the value."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from cake.core.ir import (
    BF16,
    BOOL,
    F32,
    I32,
    I64,
    U32,
    Assign,
    Barrier,
    BarrierRef,
    Binary,
    Break,
    Cast,
    Const,
    Declare,
    Extent,
    For,
    FragmentType,
    GlobalRef,
    If,
    IRError,
    Launch,
    OneLane,
    OpStmt,
    Part,
    Program,
    Reduce,
    Role,
    RoleBody,
    Scalar,
    Select,
    Smem,
    Span,
    Special,
    Stmt,
    Tensor,
    TensorMap,
    Unary,
    Var,
    View,
)
from cake.core.op import Op
from cake.core.registry import primitives

SPAN = Span("k.py", 7, 4)
X = Tensor("X", F32, ("M", "N"))
EPS = Scalar("eps", F32)
S = Smem("s", F32, (8, 4), 2, 0)
B = Barrier("b", "mbarrier", 2, 1, 0)
R = Role("r", 1)
ROWS = FragmentType(F32, (4, 2), "thread")
WIDE = FragmentType(F32, (64, 16), "wgmma")
ZERO = Const(0)
ONE = Const(1.0, F32)
TRUE = Const(True, BOOL)
COUNT, F = Var("i", I32), Var("f", ROWS)


def op(name: str, *args: object, **kwargs: object) -> Op:
    """A primitive by name."""
    make: Callable[..., Op] = primitives()[name]
    return make(*args, **kwargs)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: FragmentType(F32, (), "thread"), "a fragment needs a shape: at least one extent"),
        (lambda: FragmentType(F32, (4, 0), "thread"), "fragment shape (4, 0) has an extent below 1"),
        (
            lambda: FragmentType(F32, (1 << 20,), "thread"),
            "fragment shape (1048576,): elements=1048576, not 1 to 65536",
        ),
        (lambda: Tensor("X", F32, ()), "tensor X has 0 dimensions, not 1 to 5"),
        (lambda: Tensor("X", F32, ("M", 0)), "tensor X: dimension=0, not 1 to 2147483647"),
        (lambda: Smem("s", F32, (8,), 0, 0), "smem s: stages=0, not 1 to 1024"),
        (lambda: Smem("s", F32, (8,), 1, -16), "smem s: at=-16, not 0 to 1073741824"),
        (lambda: Smem("s", F32, (), 1, 0), "smem s: shape=() has no extent"),
        (lambda: Smem("s", F32, (8, 0), 1, 0), "smem s: shape=(8, 0) has an extent below 1"),
        (lambda: Smem("s", F32, (1 << 30,), 1, 0), "smem s: end=4294967296, not 1 to 1073741824"),
        (lambda: Smem("s", F32, (8,), 1, 0, 48), "smem s: swizzle=48, not 0, 32, 64 or 128"),
        (lambda: TensorMap("t", X, (8,)), "tensor_map t: box=(8,) has 1 dimensions, tensor X has 2"),
        (lambda: TensorMap("t", X, (8, 0)), "tensor_map t: box extent=0, not 1 to 1073741824"),
        (lambda: TensorMap("t", X, (8, 8), 16), "tensor_map t: swizzle=16, not 0, 32, 64 or 128"),
        (lambda: Barrier("b", "spin", 1, 1, 0), "barrier b: kind='spin'"),
        (lambda: Barrier("b", "named", 0, 1, 0), "barrier b: slots=0, not 1 to 1024"),
        (lambda: Barrier("b", "named", 1, 0, 0), "barrier b: arrivals=0, not 1 to 2147483647"),
        (lambda: Barrier("b", "named", 1, 1, -8), "barrier b: at=-8, not 0 to 1073741824"),
        (lambda: Role("r", 33), "role r: warps=33, not 1 to 32"),
        (lambda: Role("r", 1, 0), "role r: instances=0, not 1 to 32"),
        (lambda: Launch(ONE), "launch: ctas has type f32, not i32"),
        (lambda: Launch(ZERO, 0), "launch: ctas_per_sm=0, not 1 to 32"),
        (lambda: Const(2**31), "2147483648 is outside i32, -2147483648 to 2147483647"),
        (lambda: Const(-1, U32), "-1 is outside u32, 0 to 4294967295"),
        (lambda: Const(2**63, I64), f"{2**63} is outside i64, {-(2**63)} to {2**63 - 1}"),
        (lambda: Const(1, F32), "1 is no literal of type f32"),
        (lambda: Const(1.0), "1.0 is no literal of type i32"),
        (lambda: Const(True), "True is no literal of type i32"),
        (lambda: Const(1, BOOL), "1 is no literal of type bool"),
        (lambda: Const(float("nan"), F32), "nan is no literal"),
        (lambda: Special("warp"), "'warp' is no special value; known: cta_id, cta_count, instance, "),
        (lambda: Binary("**", ZERO, ZERO), "unknown operator '**'"),
        (lambda: Binary("+", ZERO, ONE), "operator '+' joins i32 and f32; write a cast"),
        (lambda: Binary("+", TRUE, TRUE), "operator '+' joins bool; write a cast or a condition"),
        (lambda: Binary("/", ZERO, ZERO), "operator '/' joins i32; write '//' for integers"),
        (lambda: Binary("%", ONE, ONE), "operator '%' joins f32, not integers"),
        (lambda: Binary("and", ZERO, ZERO), "operator 'and' joins i32, not bool"),
        (lambda: Binary("+", F, Var("w", WIDE)), "operator '+' joins fragment(f32, (4, 2), layout=\"thread\") and "),
        (lambda: Unary("+", ZERO), "unknown operator '+'"),
        (lambda: Unary("not", COUNT), "operator 'not' of i32"),
        (lambda: Unary("-", Var("p", BOOL)), "operator '-' of bool"),
        (lambda: Unary("-", ZERO), "'-' of a literal; write a negative one"),
        (lambda: Select(COUNT, ZERO, ZERO), "condition has type i32, not bool"),
        (lambda: Select(TRUE, ZERO, ONE), "branches have types i32 and f32"),
        (lambda: Select(Binary("<", F, F), ZERO, ZERO), 'condition has type fragment(bool, (4, 2), layout="thread"), '),
        (lambda: Part(COUNT, 0), "i is no fragment"),
        (lambda: Part(Var("w", WIDE), 0), "w: layout 'wgmma' has no row index"),
        (lambda: Part(F, 4), "f[4] is outside shape (4, 2)"),
        (lambda: Part(F, 1, 2), "f.cols(1, 2) is outside shape (4, 2)"),
        (lambda: Reduce("min", F), "unknown reduction 'min'"),
        (lambda: Reduce("sum", ONE), "sum needs a thread fragment, not f32"),
        (
            lambda: Reduce("sum", Var("w", WIDE)),
            'sum needs a thread fragment, not fragment(f32, (64, 16), layout="wgmma")',
        ),
        (lambda: Reduce("max", Binary("<", F, F)), "max of bool"),
        (lambda: View(S, ZERO, (ZERO,), (8, 4)), "view of s: not 2 dimensions"),
        (lambda: View(S, None, (ZERO, ZERO), (8, 4)), "stage of s needs an index from 0 to 1"),
        (lambda: View(S, Const(2), (ZERO, ZERO), (8, 4)), "stage of s: index=2, not 0 to 1"),
        (lambda: View(S, ONE, (ZERO, ZERO), (8, 4)), "stage of s: the index has type f32, not i32"),
        (lambda: View(S, ZERO, (ZERO, ONE), (8, 4)), "a coordinate of a view of s has type f32, not i32"),
        (lambda: View(S, ZERO, (ZERO, ZERO), (8, 5)), "view of s: shape (8, 5) exceeds (8, 4)"),
        (lambda: BarrierRef(B, None), "slot of b needs an index from 0 to 1"),
        (lambda: BarrierRef(B, Const(-1)), "slot of b: index=-1, not 0 to 1"),
        (lambda: BarrierRef(Barrier("c", "named", 1, 32, 1), ZERO), "slot of c has an index, but there is only one"),
        (lambda: GlobalRef(X, (ZERO,)), "X: 1 coordinates, not 2"),
        (lambda: GlobalRef(X, (ZERO, ONE)), "a coordinate of X has type f32, not i32"),
        (lambda: op("mbarrier_wait", BarrierRef(B, ZERO), ONE), "mbarrier_wait: phase has type f32, not i32"),
    ],
)
def test_nodes_name_the_value(build, message):
    """Each ill-typed node is refused, and the message names what is wrong with which value."""
    with pytest.raises(IRError) as caught:
        build()

    assert caught.value.message.startswith(message)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Assign(COUNT, ONE, True, SPAN), "i has type i32, the value f32"),
        (lambda: Declare(COUNT, SPAN), "i is no fragment"),
        (lambda: For(COUNT, ZERO, ONE, Const(1), (), SPAN), "loop bound of i has type f32, not i32"),
        (lambda: For(COUNT, ZERO, ZERO, ZERO, (), SPAN), "loop over i: step=0, not 1 to 2147483647"),
        (lambda: For(F, ZERO, ZERO, Const(1), (), SPAN), "loop variable f has type fragment"),
        (lambda: If(ZERO, (), (), SPAN), "condition has type i32, not bool"),
        (lambda: OpStmt(op("shfl", ONE, "bfly", 1), COUNT, True, SPAN), "shfl gives f32, i has type i32"),
        (lambda: OpStmt(op("warp_sync"), COUNT, True, SPAN), "warp_sync gives None, i has type i32"),
    ],
)
def test_statements_name_the_line(build, message):
    """A statement's error carries its place."""
    with pytest.raises(IRError) as caught:
        build()

    assert caught.value.message.startswith(message)
    assert caught.value.span == SPAN
    assert str(caught.value).startswith("k.py:7: ")


def program(*stmts: Stmt, **changes: object) -> Program:
    """A program of one role; `changes` replace its parts."""
    parts: dict[str, object] = {
        "name": "k",
        "target": "sm_90a",
        "params": (X, EPS),
        "launch": Launch(ZERO),
        "decls": (S, B, R),
        "roles": (RoleBody(R, stmts),),
    }
    make: Callable[..., Program] = Program
    return make(**{**parts, **changes})


def let(name: str, value: int = 0, declare: bool = True) -> Assign:
    """`name = value`."""
    return Assign(Var(name, I32), Const(value), declare, SPAN)


def use(name: str) -> Assign:
    """A use of an i32 name."""
    return Assign(Var("used", I32), Var(name, I32), True, SPAN)


def loop(*body: Stmt, stop: object = ZERO) -> For:
    """A loop over `i`."""
    return For(COUNT, ZERO, stop, Const(1), body, SPAN)  # type: ignore[arg-type]


OTHER = Smem("s", F32, (8, 4), 3, 0)
QUEUE = Role("q", 1)
DEEP: Binary | Extent = Extent("M")
for _ in range(60):
    DEEP = Binary("+", DEEP, ZERO)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: program(use("x")), "'x' is used where no assignment to it is in scope"),
        (
            lambda: program(let("x"), If(TRUE, (let("y"),)), use("y")),
            "'y' is used where no assignment to it is in scope",
        ),
        (lambda: program(loop(), use("i")), "'i' is used where no assignment to it is in scope"),
        (lambda: program(let("x"), let("x")), "'x': `declare` marks the first assignment in scope, and only that"),
        (lambda: program(let("x", declare=False)), "'x': `declare` marks the first assignment in scope, and only that"),
        (lambda: program(let("x"), Assign(Var("x", F32), ONE, False, SPAN)), "'x' has type i32, not f32"),
        (lambda: program(let("x"), Assign(Var("y", F32), Var("x", F32), True, SPAN)), "'x' has type i32, not f32"),
        (lambda: program(Declare(F, SPAN), Declare(F, SPAN)), "'f' is declared already"),
        (
            lambda: program(loop(let("i", declare=False))),
            "'i' is a parameter, or counts or bounds a loop: it cannot be",
        ),
        (lambda: program(let("n"), loop(let("n", declare=False), stop=Var("n", I32))), "'n' is a parameter, or counts"),
        (lambda: program(let("i"), loop()), "loop variable 'i' is in use already"),
        (lambda: program(let("s")), "'s' is a declaration or an extent; it cannot be assigned"),
        (lambda: program(let("M")), "'M' is a declaration or an extent; it cannot be assigned"),
        (lambda: program(let("lane_id")), "'lane_id' is a name of the language; choose another"),
        (lambda: program(let("if")), "'if' is no name: a name has ASCII letters, digits and `_`, and is no keyword"),
        (lambda: program(let("ä")), "'ä' is no name: a name has ASCII letters, digits and `_`, and is no keyword"),
        (lambda: program(Break(SPAN)), "`break` outside a loop"),
        (lambda: program(Assign(COUNT, Extent("K"), True, SPAN)), "'K' is no extent of a tensor"),
        (
            lambda: program(Assign(COUNT, Special("sm_count"), True, SPAN)),
            "'sm_count' has no value here: roles know cta_id, ",
        ),
        (
            lambda: program(OpStmt(op("ptx", "", reads=(View(OTHER, ZERO, (ZERO, ZERO), (8, 4)),)), span=SPAN)),
            "'s' is not declared so in this program",
        ),
        (
            lambda: program(Assign(Var("x", I32), DEEP, True, SPAN)),
            "an expression is nested more than 48 deep; name its",
        ),
        (lambda: program(*[let(f"x{i}") for i in range(5001)]), "the program has more than 5000 statements"),
    ],
)
def test_programs_name_the_statement(build, message):
    """What a whole program must satisfy is refused at the statement that breaks it."""
    with pytest.raises(IRError) as caught:
        build()

    assert caught.value.message.startswith(message)
    assert caught.value.span == SPAN


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: program(name="a b"), "'a b' is no name: a name has ASCII letters, digits and `_`, and is no keyword"),
        (lambda: program(params=(X, X)), "'X' is declared twice"),
        (lambda: program(params=(Tensor("M", F32, ("M",)),)), "'M' is an extent and a declaration"),
        (lambda: program(params=(Tensor("X", F32, ("M N",)),)), "'M N' is no name: a name has ASCII letters, digits"),
        (lambda: program(decls=(R, S)), "s stands too late: regions, tensor maps, barriers, roles"),
        (lambda: program(decls=(TensorMap("t", Tensor("Y", F32, ("M",)), (1,)), R)), "'Y' is not declared so in this"),
        (lambda: program(decls=(R, QUEUE)), "role q has no body"),
        (lambda: program(roles=(RoleBody(R, ()), RoleBody(R, ()))), "role r has 2 bodies"),
        (lambda: program(roles=(RoleBody(R, ()), RoleBody(QUEUE, ()))), "bodies stand in the order of the roles"),
        (lambda: program(launch=Launch(Special("cta_id"))), "'cta_id' has no value here: "),
        (lambda: program(launch=Launch(Cast(Var("eps", F32), I32))), "'eps' is used where no assignment to it is in"),
        (lambda: program(launch=Launch(Extent("K"))), "'K' is no extent of a tensor"),
    ],
)
def test_programs_name_the_declaration(build, message):
    """Names, declarations, bodies and the launch of a program agree with each other."""
    with pytest.raises(IRError) as caught:
        build()

    assert caught.value.message.startswith(message)


def test_nesting_is_bounded():
    """Blocks deeper than the reader reads cannot be built."""
    stmt: Stmt = let("x")
    for _ in range(31):
        stmt = OneLane((stmt,), SPAN)

    assert program(stmt)
    with pytest.raises(IRError, match="blocks are nested more than 32 deep"):
        program(OneLane((stmt,), SPAN))


def test_what_a_program_derives():
    """Extents, threads, shared memory and warp numbers follow from the declarations."""
    p = program(
        decls=(S, Barrier("b", "mbarrier", 2, 1, 256), R, Role("q", 4, 2)),
        roles=(RoleBody(R, ()), RoleBody(Role("q", 4, 2), ())),
        params=(X, Tensor("W", BF16, ("N", 8, "K")), EPS),
    )

    assert p.extents == ("M", "N", "K")
    assert p.threads == 32 + 2 * 128
    assert p.smem_bytes == 272
    assert p.first_warp(Role("q", 4, 2)) == 1
    assert p.of(Smem) == (S,)
