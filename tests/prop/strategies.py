"""Hypothesis strategies for Cake IR: well-typed programs over every primitive in the registry.

    programs()        whole programs, as `Program` accepts them
    expressions(...)  expressions of one type over given names

A program declares a few resources of each kind, shaped so that every primitive finds operands that it accepts. Operands
of a primitive are tried from small pools, so that a primitive added to the registry takes part without a word here.
"""

from __future__ import annotations

import itertools
import operator
import types
import typing
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from cake.core.ir import (
    ARITHMETIC,
    BF16,
    BOOL,
    COMPARISONS,
    DTYPES,
    F16,
    F32,
    I32,
    INTEGER,
    LOGIC,
    SPECIALS,
    Assign,
    Barrier,
    BarrierRef,
    Binary,
    Break,
    Cast,
    Const,
    Declare,
    DType,
    Expr,
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
    Special,
    Stmt,
    Tensor,
    TensorMap,
    Type,
    Unary,
    Var,
    View,
)
from cake.core.op import Op
from cake.core.registry import primitives
from cake.core.scope import RESERVED

SCALARS = tuple(DTYPES.values())
FRAGMENTS = (
    FragmentType(F32, (64, 16), "wgmma"),
    FragmentType(BF16, (64, 16), "wgmma"),
    FragmentType(BF16, (2, 8), "thread"),
    FragmentType(F32, (4,), "thread"),
)
#: Tries at a primitive's operands before another statement is drawn instead.
TRIES = 300

#: Names to draw from: plain ones, and some that mean something to Python, C++ or Cake where they stand as functions.
NAMES = (*(f"{letter}{n}" for n in ("", 1, 2) for letter in "abcdefgxyz_"), "sum", "range", "float", "smem", "wgmma")


def unused(taken: Collection[str]) -> SearchStrategy[str]:
    """A name that is not `taken`."""
    return st.sampled_from([n for n in NAMES if n not in taken])


def literals(dtype: DType) -> SearchStrategy[Const]:
    """Constants of one scalar type, its extremes included."""
    values: SearchStrategy[Any]
    match dtype.kind:
        case "bool":
            values = st.booleans()
        case "float":
            values = st.floats(allow_nan=False, width=32)
        case "int":
            values = st.integers(0, 64) | st.integers(-(2 ** (8 * dtype.bytes - 1)), 2 ** (8 * dtype.bytes - 1) - 1)
        case _:
            values = st.integers(0, 2 ** (8 * dtype.bytes) - 1)
    return values.map(lambda v: Const(v, dtype))


@dataclass
class Names:
    """What an expression may use."""

    scalars: dict[str, Type] = field(default_factory=dict)
    extents: tuple[str, ...] = ()
    specials: tuple[str, ...] = ()

    def of(self, wanted: Type) -> list[Expr]:
        """The names of one type, and the parts of fragments that have it."""
        found: list[Expr] = []
        for name, t in self.scalars.items():
            if t == wanted:
                found.append(Var(name, t))
            if isinstance(t, FragmentType):
                found += [p for p in parts(Var(name, t)) if p.type == wanted]
        if wanted == I32:
            found += [*map(Extent, self.extents), *map(Special, self.specials)]
        return found


def parts(var: Var) -> list[Part]:
    """Some parts of a fragment."""
    assert isinstance(var.type, FragmentType)
    width = var.type.shape[-1]
    found = [Part(var, 0, width), Part(var, width // 2, width // 2)]
    if var.type.layout == "thread":
        found += [Part(var, 0), Part(var, var.type.shape[0] - 1)]
    return found


@st.composite
def expressions(draw: DrawFn, wanted: Type, known: Names, depth: int = 3) -> Expr:
    """Expressions of type `wanted` over `known`, at most `depth` operators deep."""
    scalar = wanted.dtype if isinstance(wanted, FragmentType) else wanted
    leaves = known.of(wanted)
    if depth == 0 or draw(st.integers(0, 3)) == 0:
        if leaves and (isinstance(wanted, FragmentType) or draw(st.booleans())):
            return draw(st.sampled_from(leaves))
        if not isinstance(wanted, FragmentType):
            return draw(literals(scalar))

    def of(t: Type) -> Expr:
        return draw(expressions(t, known, max(depth - 1, 0)))

    def like(t: DType) -> Type:
        return FragmentType(t, wanted.shape, wanted.layout) if isinstance(wanted, FragmentType) else t

    if isinstance(wanted, FragmentType) and depth == 0:
        same = [x for t in SCALARS for x in known.of(like(t))]
        return Cast(draw(st.sampled_from(same)), scalar)
    kind = draw(st.sampled_from(("binary", "select", "unary", "cast", "reduce")))
    if kind == "unary":
        operand = of(wanted)
        plain = scalar != BOOL and isinstance(operand, Const)
        return operand if plain else Unary("not" if scalar == BOOL else "-", operand)
    if kind == "select":
        return Select(of(BOOL), of(wanted), of(wanted))
    if kind == "cast":
        return Cast(of(like(draw(st.sampled_from(SCALARS)))), scalar)
    if kind == "reduce" and not isinstance(wanted, FragmentType) and scalar != BOOL:
        fragments = [x for t in FRAGMENTS if t.layout == "thread" and t.dtype == scalar for x in known.of(t)]
        if fragments:
            return Reduce(draw(st.sampled_from(("sum", "max"))), draw(st.sampled_from(fragments)))
    if scalar == BOOL:
        op = draw(st.sampled_from((*COMPARISONS, *LOGIC)))
        operands = like(BOOL if op in LOGIC else draw(st.sampled_from(SCALARS)))
    else:
        fitting = [op for op in ARITHMETIC if (op != "/" if scalar.kind != "float" else op not in INTEGER)]
        op, operands = draw(st.sampled_from(fitting)), wanted
    left = of(operands)
    narrow = operands.dtype if isinstance(operands, FragmentType) and draw(st.booleans()) else operands
    return Binary(op, left, of(narrow))


class Body:
    """Draws one role's statements."""

    def __init__(self, draw: DrawFn, program: Header, specials: tuple[str, ...], ops: Sequence[type[Op]]) -> None:
        self.draw = draw
        self.program = program
        self.specials = specials
        self.ops = ops

    def names(self, env: dict[str, Type]) -> Names:
        """What is visible."""
        return Names(env, self.program.extents, self.specials)

    def expr(self, t: Type, env: dict[str, Type], depth: int = 2) -> Expr:
        """An expression."""
        return self.draw(expressions(t, self.names(env), depth))

    def whole(self, outer: dict[str, Type]) -> tuple[Stmt, ...]:
        """A role's body: some fragments, so that primitives find registers, then statements."""
        env = dict(outer)
        chosen = [t for t in FRAGMENTS if self.draw(st.booleans())]
        for t in chosen:
            env[self.fresh(env)] = t
        declared = tuple(Declare(Var(n, t)) for n, t in env.items() if n not in outer)
        return declared + self.block(env, frozenset(outer), False, 0)

    def block(self, outer: dict[str, Type], fixed: frozenset[str], loop: bool, depth: int) -> tuple[Stmt, ...]:
        """A block of statements."""
        env = dict(outer)
        return tuple(self.statement(env, fixed, loop, depth) for _ in range(self.draw(st.integers(0, 4))))

    def statement(self, env: dict[str, Type], fixed: frozenset[str], loop: bool, depth: int) -> Stmt:
        """One statement; a name that it binds is added to `env`."""
        draw = self.draw
        kinds = ["assign", "declare", "op", "op", "op"]
        kinds += ["for", "if", "one_lane"] if depth < 3 else []
        kinds += ["break"] if loop else []
        match draw(st.sampled_from(kinds)):
            case "for":
                bounds = (self.expr(I32, env), self.expr(I32, env), draw(st.integers(1, 4)))
                name = self.fresh(env)
                held = {v for b in bounds[:2] for v in _vars(b)}  # type: ignore[arg-type]
                body = self.block({**env, name: I32}, fixed | held | {name}, True, depth + 1)
                return For(Var(name, I32), bounds[0], bounds[1], Const(bounds[2]), body)
            case "if":
                condition = self.expr(BOOL, env)
                other = self.block(env, fixed, loop, depth + 1) if draw(st.booleans()) else ()
                return If(condition, self.block(env, fixed, loop, depth + 1), other)
            case "one_lane":
                return OneLane(self.block(env, fixed, loop, depth + 1))
            case "break":
                return Break()
            case "declare":
                var = Var(self.fresh(env), draw(st.sampled_from(FRAGMENTS)))
                env[var.name] = var.type
                return Declare(var)
            case "op":
                made = self.op(env, fixed)
                if made is not None:
                    return made
        fragments = [t for t in env.values() if isinstance(t, FragmentType)]
        wanted = draw(st.sampled_from((*SCALARS, *fragments)))
        value = self.expr(wanted, env)
        var, declare = self.target(wanted, env, fixed)
        return Assign(var, value, declare)

    def target(self, t: Type, env: dict[str, Type], fixed: frozenset[str]) -> tuple[Var, bool]:
        """A name to assign a value of type `t` to, and whether it is new."""
        same = [name for name, held in env.items() if held == t and name not in fixed]
        if same and self.draw(st.booleans()):
            return Var(self.draw(st.sampled_from(same)), t), False
        name = self.fresh(env)
        env[name] = t
        return Var(name, t), True

    def fresh(self, env: dict[str, Type]) -> str:
        """A name that means nothing yet."""
        return self.draw(unused(self.program.taken | set(env)))

    def op(self, env: dict[str, Type], fixed: frozenset[str]) -> OpStmt | None:
        """A primitive with operands that it accepts; None when a few tries find none."""
        cls = self.draw(st.sampled_from(self.ops))
        params: tuple[Any, ...] = fields(cls)  # type: ignore[arg-type]
        pools = [self.rotated(self.pool(cls.kinds[p.name], env)) for p in params]
        for operands in itertools.islice(itertools.product(*pools), TRIES):
            try:
                made: Op = cls(**{p.name: v for p, v in zip(params, operands, strict=True)})
            except IRError:
                continue
            result = made.result_type()
            if result is None or self.draw(st.integers(0, 4)) == 0:
                return OpStmt(made)
            var, declare = self.target(result, env, fixed)
            return OpStmt(made, var, declare)
        return None

    def rotated(self, pool: list[Any]) -> list[Any]:
        """`pool` from another start."""
        start = self.draw(st.integers(0, max(len(pool) - 1, 0)))
        return pool[start:] + pool[:start]

    def pool(self, kind: Any, env: dict[str, Type]) -> list[Any]:
        """A few operands of one kind."""
        draw, header = self.draw, self.program
        origin, arms = typing.get_origin(kind), typing.get_args(kind)
        if origin in (typing.Union, types.UnionType):
            arms = tuple(a for a in arms if a is not type(None))
            none = [None] if len(arms) < len(typing.get_args(kind)) else []
            known = self.names(env)
            if set(arms) == {Var, Part}:
                found = [x for t in env.values() if isinstance(t, FragmentType) for x in known.of(t)]
                rows = [p for n, t in env.items() if isinstance(t, FragmentType) for p in parts(Var(n, t))]
                return [*found, *rows, *none]
            values = [self.expr(t, env, 1) for t in (I32, F32, BOOL)]
            values += [Cast(x, BF16) for t in FRAGMENTS for x in known.of(t)][:6]
            return [*values, *none]
        if origin is tuple:
            items = self.pool(arms[0], env)
            return [(), *((a, b) for a, b in itertools.pairwise(items)), *((a,) for a in items)][:6]
        if origin is Literal:
            return list(arms)
        if kind is View:
            coordinate = self.expr(I32, env, 1)
            return [v for region in header.regions for v in self.views(region, coordinate)]
        if kind is BarrierRef:
            slot = self.expr(I32, env, 1)
            return [BarrierRef(b, self.index(b.slots, slot)) for b in header.barriers]
        if kind is TensorMap:
            return list(header.maps)
        if kind is GlobalRef:
            coordinate = self.expr(I32, env, 1)
            return [GlobalRef(t, (coordinate,) * len(t.dims)) for t in header.tensors]
        pools = {int: [0, 1, 7, 24, 32, 256, 49152], bool: [False, True], str: [draw(st.text(max_size=8))]}
        return list(pools[kind])

    def index(self, count: int, expr: Expr) -> Expr | None:
        """A stage or slot index: a constant in range, or an expression."""
        if count == 1:
            return None
        return self.draw(st.integers(0, count - 1).map(Const)) if isinstance(expr, Const) else expr

    def views(self, region: Smem, coordinate: Expr) -> list[View]:
        """The whole of a region, and boxes of it."""
        zero = (Const(0),) * len(region.shape)
        stage = self.index(region.stages, coordinate)
        found = [View(region, stage, zero, region.shape)]
        for shape in ((64, 16), (16, 16), (1,) * len(region.shape)):
            if len(shape) == len(region.shape) and all(map(operator.le, shape, region.shape)):
                found.append(View(region, stage, (coordinate, *zero[1:]), shape))
        return found


def _vars(expr: Expr) -> list[str]:
    from cake.core.ir import walk_expr

    return [e.name for e in walk_expr(expr) if isinstance(e, Var)]


@dataclass
class Header:
    """What stands above the roles of a program."""

    tensors: list[Tensor]
    scalars: list[Scalar]
    regions: list[Smem]
    maps: list[TensorMap]
    barriers: list[Barrier]
    roles: list[Role]
    extents: tuple[str, ...]
    taken: set[str]


@st.composite
def headers(draw: DrawFn) -> Header:
    """Parameters and declarations."""
    taken = set(RESERVED)

    def name() -> str:
        new = draw(unused(taken))
        taken.add(new)
        return new

    extents = [draw(st.sampled_from(("M", "N", "K", "SEQ"))) for _ in range(3)]
    taken |= set(extents)
    dims = st.lists(st.sampled_from(extents) | st.integers(1, 2**31 - 1), min_size=1, max_size=3)
    tensors = [Tensor(name(), t, tuple(draw(dims))) for t in (BF16, draw(st.sampled_from(SCALARS)))]
    tensors.append(Tensor(name(), BF16, (extents[0], extents[1])))
    scalars = [Scalar(name(), draw(st.sampled_from(SCALARS))) for _ in range(draw(st.integers(0, 2)))]
    swizzle = st.sampled_from((0, 32, 64, 128))
    regions = [
        Smem(name(), BF16, (64, 64), draw(st.integers(1, 3)), draw(st.integers(0, 4096)), draw(swizzle)),
        Smem(name(), BF16, (64, 16), draw(st.integers(1, 3)), 0),
        Smem(name(), draw(st.sampled_from((F32, F16))), (draw(st.integers(1, 8)),), 1, 0),
    ]
    boxes = st.integers(1, 256)
    maps = [TensorMap(name(), t, tuple(draw(boxes) for _ in t.dims), draw(swizzle)) for t in tensors]
    barriers = [
        Barrier(name(), kind, draw(st.integers(1, 3)), draw(st.integers(1, 256)), draw(st.integers(0, 15)))
        for kind in ("mbarrier", "named")
    ]
    roles = [Role(name(), draw(st.integers(1, 4)), draw(st.integers(1, 2))) for _ in range(draw(st.integers(1, 2)))]
    used = tuple(dict.fromkeys(d for t in tensors for d in t.dims if isinstance(d, str)))
    return Header(tensors, scalars, regions, maps, barriers, roles, used, taken)


@st.composite
def programs(draw: DrawFn, ops: Sequence[type[Op]] | None = None) -> Program:
    """Well-typed programs of the primitives `ops` (default: all). They need not make sense: a barrier may never end."""
    header = draw(headers())
    specials = tuple(s for s in SPECIALS if s != "sm_count")
    ctas = draw(expressions(I32, Names({}, header.extents, ("sm_count",)), 2))
    launch = Launch(ctas, draw(st.integers(1, 3)))
    outer: dict[str, Type] = {s.name: s.dtype for s in header.scalars}
    body = Body(draw, header, specials, ops or sorted(primitives().values(), key=lambda c: c.opname))
    roles = tuple(RoleBody(role, body.whole(outer)) for role in header.roles)
    decls = (*header.regions, *header.maps, *header.barriers, *header.roles)
    name = draw(unused(RESERVED))
    target = draw(st.sampled_from(("sm_80", "sm_90a", "sm_100a")))
    return Program(name, target, (*header.tensors, *header.scalars), launch, decls, roles)
