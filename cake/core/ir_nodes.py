"""The nodes of Cake IR: the whole grammar, in one place; nothing else defines node shape. Import from `cake.core.ir`.

A `Program` is one *configuration* of a kernel: tile sizes and stages are constants, problem extents stay symbolic. It
declares its resources (shared memory, tensor maps, barriers, warp roles; pipelines are sugar that the reader expands)
and gives each role a body of statements. Instructions are not listed here: `OpStmt` carries an instance of a primitive,
and a primitive is a plugin (see `cake.core.op`).

Every node is a frozen dataclass that holds tuples and rejects ill-typed contents when it is built. `span` names the
source line and never takes part in equality: a program's identity is the hash of its canonical text.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

from cake.core.ir_check import (
    BUILT,
    MAX_FRAGMENT,
    MAX_I32,
    MAX_OFFSET,
    MAX_SLOTS,
    MAX_WARPS,
    Span,
    require,
    swizzle_span,
    within,
)

if TYPE_CHECKING:
    from cake.core.op import Op

T = TypeVar("T")


# ---------------------------------------------------------------------------------------------------------------- types


@dataclass(frozen=True, slots=True)
class DType:
    """A scalar type. `kind` is one of int, uint, float, bool; `bytes` its size in memory; `ctype` its name in CUDA."""

    name: str
    kind: str
    bytes: int
    ctype: str

    def __str__(self) -> str:
        return self.name


BOOL: Final = DType("bool", "bool", 1, "bool")
I32: Final = DType("i32", "int", 4, "int32_t")
U32: Final = DType("u32", "uint", 4, "uint32_t")
I64: Final = DType("i64", "int", 8, "int64_t")
F32: Final = DType("f32", "float", 4, "float")
F16: Final = DType("f16", "float", 2, "cake::f16")
BF16: Final = DType("bf16", "float", 2, "cake::bf16")

_PYTHON: Final[dict[str, type]] = {"bool": bool, "float": float}  # the types of literals; int otherwise
DTYPES: Final[dict[str, DType]] = {d.name: d for d in (BOOL, I32, U32, I64, F32, F16, BF16)}


@dataclass(frozen=True, slots=True)
class FragmentType:
    """Values held in registers across a role's threads.

    `shape` is the logical shape; `layout` names who holds what: `thread` (each thread holds the whole shape privately)
    or the name of a layout that a plugin registers, such as `wgmma` (rows and columns spread over a warpgroup).
    """

    dtype: DType
    shape: tuple[int, ...]
    layout: str

    def __post_init__(self) -> None:
        require(bool(self.shape), "a fragment needs a shape: at least one extent")
        require(all(n > 0 for n in self.shape), f"fragment shape {self.shape} has an extent below 1")
        within(f"fragment shape {self.shape}: elements", math.prod(self.shape), 1, MAX_FRAGMENT)

    def __str__(self) -> str:
        return f'fragment({self.dtype}, {self.shape}, layout="{self.layout}")'


Type: TypeAlias = DType | FragmentType


# --------------------------------------------------------------------------------------------------------- declarations


@dataclass(frozen=True, slots=True)
class Tensor:
    """A kernel parameter in global memory, row-major and dense. A dimension is a symbolic extent or a constant."""

    name: str
    dtype: DType
    dims: tuple[str | int, ...]
    span: Span = field(default=BUILT, compare=False)

    def __post_init__(self) -> None:
        require(1 <= len(self.dims) <= 5, f"tensor {self.name} has {len(self.dims)} dimensions, not 1 to 5", self.span)
        for dim in self.dims:
            if isinstance(dim, int):
                within(f"tensor {self.name}: dimension", dim, 1, MAX_I32, self.span)


@dataclass(frozen=True, slots=True)
class Scalar:
    """A kernel parameter passed by value, such as `eps: f32`."""

    name: str
    dtype: DType
    span: Span = field(default=BUILT, compare=False)


Param: TypeAlias = Tensor | Scalar


@dataclass(frozen=True, slots=True)
class Smem:
    """A shared-memory region: `stages` copies of a row-major `shape`, from byte offset `at`.

    `swizzle` is the span in bytes (0, 32, 64, 128) over which 16-byte chunks of a row are XORed with the row number,
    as TMA and wgmma define it (PTX ISA, "Shared memory swizzling modes").
    """

    name: str
    dtype: DType
    shape: tuple[int, ...]
    stages: int
    at: int
    swizzle: int = 0
    span: Span = field(default=BUILT, compare=False)

    def __post_init__(self) -> None:
        what = f"smem {self.name}"
        within(f"{what}: stages", self.stages, 1, MAX_SLOTS, self.span)
        within(f"{what}: at", self.at, 0, MAX_OFFSET, self.span)
        require(bool(self.shape), f"{what}: shape=() has no extent", self.span)
        require(all(n >= 1 for n in self.shape), f"{what}: shape={self.shape} has an extent below 1", self.span)
        within(f"{what}: end", self.end, 1, MAX_OFFSET, self.span)
        swizzle_span(what, self.swizzle, self.span)

    @property
    def stage_bytes(self) -> int:
        """Bytes of one stage."""
        return self.dtype.bytes * math.prod(self.shape)

    @property
    def bytes(self) -> int:
        """Bytes of all stages."""
        return self.stage_bytes * self.stages

    @property
    def end(self) -> int:
        """First byte offset behind the region."""
        return self.at + self.bytes


@dataclass(frozen=True, slots=True)
class TensorMap:
    """A TMA descriptor of `tensor`: boxes of `box` elements, written to or read from shared memory with `swizzle`."""

    name: str
    tensor: Tensor
    box: tuple[int, ...]
    swizzle: int = 0
    span: Span = field(default=BUILT, compare=False)

    def __post_init__(self) -> None:
        require(
            len(self.box) == len(self.tensor.dims),
            f"tensor_map {self.name}: box={self.box} has {len(self.box)} dimensions, tensor {self.tensor.name} has "
            f"{len(self.tensor.dims)}",
            self.span,
        )
        for extent in self.box:
            within(f"tensor_map {self.name}: box extent", extent, 1, MAX_OFFSET, self.span)
        swizzle_span(f"tensor_map {self.name}", self.swizzle, self.span)

    @property
    def bytes(self) -> int:
        """Bytes that one box delivers, out-of-bounds elements included (TMA fills them with zero)."""
        return self.tensor.dtype.bytes * math.prod(self.box)


@dataclass(frozen=True, slots=True)
class Barrier:
    """A synchronisation object: `slots` copies of a barrier that `arrivals` arrivals complete.

    `kind` is `mbarrier` (in shared memory at byte offset `at`, 8 bytes a slot; arrivals are counted) or `named` (the
    hardware's CTA barriers `at` to `at + slots - 1`, 1 to 15; arrivals are threads, a multiple of 32).
    """

    name: str
    kind: str
    slots: int
    arrivals: int
    at: int
    span: Span = field(default=BUILT, compare=False)

    def __post_init__(self) -> None:
        what = f"barrier {self.name}"
        require(self.kind in ("mbarrier", "named"), f"{what}: kind={self.kind!r}", self.span)
        within(f"{what}: slots", self.slots, 1, MAX_SLOTS, self.span)
        within(f"{what}: arrivals", self.arrivals, 1, MAX_I32, self.span)
        within(f"{what}: at", self.at, 0, MAX_OFFSET, self.span)


@dataclass(frozen=True, slots=True)
class Role:
    """A group of `warps` consecutive warps with one body; `instances` such groups run it, each with its own index.

    Warps are numbered in declaration order: the first role's first instance starts at warp 0 of the CTA.
    """

    name: str
    warps: int
    instances: int = 1
    span: Span = field(default=BUILT, compare=False)

    def __post_init__(self) -> None:
        within(f"role {self.name}: warps", self.warps, 1, MAX_WARPS, self.span)
        within(f"role {self.name}: instances", self.instances, 1, MAX_WARPS, self.span)

    @property
    def threads(self) -> int:
        """Threads of one instance."""
        return 32 * self.warps


@dataclass(frozen=True, slots=True)
class Launch:
    """The grid: `ctas` is an expression over extents and `sm_count`; `ctas_per_sm` is the occupancy asked of ptxas."""

    ctas: Expr
    ctas_per_sm: int = 1
    span: Span = field(default=BUILT, compare=False)

    def __post_init__(self) -> None:
        require(self.ctas.type == I32, f"launch: ctas has type {self.ctas.type}, not i32", self.span)
        within("launch: ctas_per_sm", self.ctas_per_sm, 1, MAX_WARPS, self.span)


Decl: TypeAlias = Smem | TensorMap | Barrier | Role


# ---------------------------------------------------------------------------------------------------------- expressions

ARITHMETIC: Final = ("+", "-", "*", "/", "//", "%", "&", "|", "^", "<<", ">>", "min", "max")
INTEGER: Final = ("//", "%", "&", "|", "^", "<<", ">>")  # of ARITHMETIC, those for integers only
COMPARISONS: Final = ("==", "!=", "<", "<=", ">", ">=")
LOGIC: Final = ("and", "or")

#: Values that the machine or the launch supplies. `lane_id` and `thread_id` differ within a warp; the rest do not.
SPECIALS: Final[dict[str, str]] = {
    "cta_id": "index of this CTA in the grid",
    "cta_count": "number of CTAs in the grid",
    "instance": "index of this role instance",
    "warp_id": "index of this warp in its role instance",
    "lane_id": "index of this thread in its warp",
    "thread_id": "index of this thread in its role instance",
    "sm_count": "number of SMs of the device (launch expressions only)",
}


@dataclass(frozen=True, slots=True)
class Const:
    """A literal of a scalar type: a Python bool, an int in the type's range, or a float that is a number."""

    value: int | float | bool
    type: DType = I32

    def __post_init__(self) -> None:
        value, t = self.value, self.type
        kind = _PYTHON.get(t.kind, int)
        require(type(value) is kind, f"{value!r} is no literal of type {t}")
        if kind is int:
            low, high = (
                (-(2 ** (8 * t.bytes - 1)), 2 ** (8 * t.bytes - 1)) if t.kind == "int" else (0, 2 ** (8 * t.bytes))
            )
            require(low <= value < high, f"{value} is outside {t}, {low} to {high - 1}")
        require(value == value, "nan is no literal")


@dataclass(frozen=True, slots=True)
class Var:
    """A name bound by an assignment, a loop, a fragment declaration, or a `Scalar` parameter."""

    name: str
    type: Type


@dataclass(frozen=True, slots=True)
class Extent:
    """A symbolic problem extent: a dimension name of some tensor, from 1 to 2**31 - 1."""

    name: str

    @property
    def type(self) -> DType:
        """Extents are i32."""
        return I32


@dataclass(frozen=True, slots=True)
class Special:
    """A value supplied by the machine or the launch; see `SPECIALS`."""

    name: str

    def __post_init__(self) -> None:
        require(self.name in SPECIALS, f"{self.name!r} is no special value; known: {', '.join(SPECIALS)}")

    @property
    def type(self) -> DType:
        """All special values are i32."""
        return I32


@dataclass(frozen=True, slots=True)
class Binary:
    """`left op right`. `//` rounds towards zero and `%` has the sign of `left`, as in C++. A fragment operand makes the
    result elementwise; a scalar beside it is broadcast."""

    op: str
    left: Expr
    right: Expr

    def __post_init__(self) -> None:
        require(self.op in ARITHMETIC + COMPARISONS + LOGIC, f"unknown operator {self.op!r}")
        left, right = element_type(self.left), element_type(self.right)
        require(left == right, f"operator {self.op!r} joins {left} and {right}; write a cast")
        if self.op in LOGIC:
            require(left == BOOL, f"operator {self.op!r} joins {left}, not bool")
        elif self.op in ARITHMETIC:
            require(left != BOOL, f"operator {self.op!r} joins bool; write a cast or a condition")
            whole = left.kind != "float"
            require(not (whole and self.op == "/"), f"operator '/' joins {left}; write '//' for integers")
            require(whole or self.op not in INTEGER, f"operator {self.op!r} joins {left}, not integers")
        if isinstance(self.left.type, FragmentType) and isinstance(self.right.type, FragmentType):
            a, b = self.left.type, self.right.type
            require(a.shape == b.shape and a.layout == b.layout, f"operator {self.op!r} joins {a} and {b}")

    @property
    def type(self) -> Type:
        """bool for comparisons and logic, the operands' type otherwise; a fragment if either operand is one."""
        left, right = self.left.type, self.right.type  # once each: a chain of operators would double the work at each
        whole = left if isinstance(left, FragmentType) else right
        truth = self.op in COMPARISONS + LOGIC
        if isinstance(whole, FragmentType):
            return FragmentType(BOOL if truth else whole.dtype, whole.shape, whole.layout)
        return BOOL if truth else whole


@dataclass(frozen=True, slots=True)
class Unary:
    """`-x` or `not x`."""

    op: str
    operand: Expr

    def __post_init__(self) -> None:
        require(self.op in ("-", "not"), f"unknown operator {self.op!r}")
        t = element_type(self.operand)
        require((t == BOOL) == (self.op == "not"), f"operator {self.op!r} of {t}")
        require(self.op == "not" or not isinstance(self.operand, Const), "'-' of a literal; write a negative one")

    @property
    def type(self) -> Type:
        """The operand's type."""
        return self.operand.type


@dataclass(frozen=True, slots=True)
class Select:
    """`then if condition else other`."""

    condition: Expr
    then: Expr
    other: Expr

    def __post_init__(self) -> None:
        require(element_type(self.condition) == BOOL, f"condition has type {self.condition.type}, not bool")
        require(self.then.type == self.other.type, f"branches have types {self.then.type} and {self.other.type}")
        a, b = self.condition.type, self.then.type
        if isinstance(a, FragmentType):
            alike = isinstance(b, FragmentType) and (a.shape, a.layout) == (b.shape, b.layout)
            require(alike, f"condition has type {a}, the branches {b}")

    @property
    def type(self) -> Type:
        """The branches' type."""
        return self.then.type


@dataclass(frozen=True, slots=True)
class Cast:
    """`cast(x, dtype)`: value conversion, rounding to nearest even; elementwise on fragments."""

    operand: Expr
    dtype: DType

    @property
    def type(self) -> Type:
        """`dtype`, with the operand's shape and layout when that is a fragment."""
        t = self.operand.type
        return FragmentType(self.dtype, t.shape, t.layout) if isinstance(t, FragmentType) else self.dtype


@dataclass(frozen=True, slots=True)
class Part:
    """Part of a fragment: `x[i]` picks row `i` of a `thread` fragment (an element when it has one dimension), and
    `x.cols(start, count)` picks columns of any fragment. Indices are constants: registers cannot be addressed."""

    fragment: Var
    start: int
    count: int | None = None  # None: an index into the first dimension

    def __post_init__(self) -> None:
        t = self.fragment.type
        require(isinstance(t, FragmentType), f"{self.fragment.name} is no fragment")
        assert isinstance(t, FragmentType)
        if self.count is None:
            require(t.layout == "thread", f"{self.fragment.name}: layout {t.layout!r} has no row index")
            require(0 <= self.start < t.shape[0], f"{self.fragment.name}[{self.start}] is outside shape {t.shape}")
        else:
            require(
                self.start >= 0 and self.count >= 1 and self.start + self.count <= t.shape[-1],
                f"{self.fragment.name}.cols({self.start}, {self.count}) is outside shape {t.shape}",
            )

    @property
    def type(self) -> Type:
        """An element's dtype, or a fragment of the remaining shape."""
        t = self.fragment.type
        assert isinstance(t, FragmentType)
        if self.count is None:
            return t.dtype if len(t.shape) == 1 else FragmentType(t.dtype, t.shape[1:], t.layout)
        return FragmentType(t.dtype, (*t.shape[:-1], self.count), t.layout)


@dataclass(frozen=True, slots=True)
class Reduce:
    """`sum(x)` or `max(x)` of a `thread` fragment: each thread reduces its own elements, in index order."""

    op: str
    operand: Expr

    def __post_init__(self) -> None:
        t = self.operand.type
        require(self.op in ("sum", "max"), f"unknown reduction {self.op!r}")
        require(isinstance(t, FragmentType) and t.layout == "thread", f"{self.op} needs a thread fragment, not {t}")
        require(element_type(self.operand) != BOOL, f"{self.op} of bool")

    @property
    def type(self) -> DType:
        """The element type."""
        return element_type(self.operand)


Expr: TypeAlias = Const | Var | Extent | Special | Binary | Unary | Select | Cast | Part | Reduce


def element_type(expr: Expr) -> DType:
    """The scalar type of `expr`'s elements."""
    t = expr.type
    return t.dtype if isinstance(t, FragmentType) else t


def _index(what: str, index: Expr | None, count: int) -> None:
    """A stage or slot index: present iff there are several to choose from, and in range where it is a constant."""
    require(index is not None or count == 1, f"{what} needs an index from 0 to {count - 1}")
    require(index is None or count > 1, f"{what} has an index, but there is only one")
    if index is not None:
        require(index.type == I32, f"{what}: the index has type {index.type}, not i32")
        if isinstance(index, Const):
            within(f"{what}: index", int(index.value), 0, count - 1)


def _coordinates(what: str, at: Iterable[Expr]) -> None:
    for expr in at:
        require(expr.type == I32, f"a coordinate of {what} has type {expr.type}, not i32")


# ----------------------------------------------------------------------------------------------------------- references


@dataclass(frozen=True, slots=True)
class View:
    """A box of one stage of a shared-memory region: `shape` elements from `at`. `stage` is None when there is one."""

    buffer: Smem
    stage: Expr | None
    at: tuple[Expr, ...]
    shape: tuple[int, ...]

    def __post_init__(self) -> None:
        n = len(self.buffer.shape)
        require(len(self.at) == n and len(self.shape) == n, f"view of {self.buffer.name}: not {n} dimensions")
        _index(f"stage of {self.buffer.name}", self.stage, self.buffer.stages)
        _coordinates(f"a view of {self.buffer.name}", self.at)
        fits = all(1 <= n <= whole for n, whole in zip(self.shape, self.buffer.shape, strict=True))
        require(fits, f"view of {self.buffer.name}: shape {self.shape} exceeds {self.buffer.shape}")

    @property
    def bytes(self) -> int:
        """Bytes of the box."""
        return self.buffer.dtype.bytes * math.prod(self.shape)

    @property
    def whole(self) -> bool:
        """Whether the box is the whole stage."""
        return self.shape == self.buffer.shape and all(c == Const(0) for c in self.at)


@dataclass(frozen=True, slots=True)
class BarrierRef:
    """One slot of a barrier. `slot` is None when there is one."""

    barrier: Barrier
    slot: Expr | None

    def __post_init__(self) -> None:
        _index(f"slot of {self.barrier.name}", self.slot, self.barrier.slots)


@dataclass(frozen=True, slots=True)
class GlobalRef:
    """An element of a tensor, by row-major coordinates: where a vector access starts."""

    tensor: Tensor
    at: tuple[Expr, ...]

    def __post_init__(self) -> None:
        require(
            len(self.at) == len(self.tensor.dims),
            f"{self.tensor.name}: {len(self.at)} coordinates, not {len(self.tensor.dims)}",
        )
        _coordinates(self.tensor.name, self.at)


# ----------------------------------------------------------------------------------------------------------- statements


@dataclass(frozen=True, slots=True)
class Assign:
    """`name = value`. `declare` marks the first assignment in scope, which fixes the type; later ones must agree."""

    target: Var
    value: Expr
    declare: bool
    span: Span = field(default=BUILT, compare=False)

    def __post_init__(self) -> None:
        require(
            self.target.type == self.value.type,
            f"{self.target.name} has type {self.target.type}, the value {self.value.type}",
            self.span,
        )


@dataclass(frozen=True, slots=True)
class Declare:
    """`name = fragment(dtype, shape, layout)`: registers whose values are undefined until written."""

    target: Var
    span: Span = field(default=BUILT, compare=False)

    def __post_init__(self) -> None:
        require(isinstance(self.target.type, FragmentType), f"{self.target.name} is no fragment", self.span)


@dataclass(frozen=True, slots=True)
class For:
    """`for var in range(start, stop, step)`, not unrolled (the reader unrolls `static` loops). `step` is positive."""

    var: Var
    start: Expr
    stop: Expr
    step: Expr
    body: tuple[Stmt, ...]
    span: Span = field(default=BUILT, compare=False)

    def __post_init__(self) -> None:
        for bound in (self.start, self.stop, self.step):
            require(bound.type == I32, f"loop bound of {self.var.name} has type {bound.type}, not i32", self.span)
        require(self.var.type == I32, f"loop variable {self.var.name} has type {self.var.type}, not i32", self.span)
        if isinstance(self.step, Const):
            within(f"loop over {self.var.name}: step", int(self.step.value), 1, MAX_I32, self.span)


@dataclass(frozen=True, slots=True)
class If:
    """`if condition: ... else: ...`. A condition that differs between lanes masks lanes."""

    condition: Expr
    then: tuple[Stmt, ...]
    other: tuple[Stmt, ...] = ()
    span: Span = field(default=BUILT, compare=False)

    def __post_init__(self) -> None:
        require(self.condition.type == BOOL, f"condition has type {self.condition.type}, not bool", self.span)


@dataclass(frozen=True, slots=True)
class Break:
    """Leave the innermost loop."""

    span: Span = field(default=BUILT, compare=False)


@dataclass(frozen=True, slots=True)
class OneLane:
    """`with one_lane():` one thread of the role instance (lane 0 of its warp 0) runs the body; the others pass by."""

    body: tuple[Stmt, ...]
    span: Span = field(default=BUILT, compare=False)


@dataclass(frozen=True, slots=True)
class OpStmt:
    """One primitive; `out` receives its value when it has one. `declare` as in `Assign`."""

    op: Op
    out: Var | None = None
    declare: bool = False
    span: Span = field(default=BUILT, compare=False)

    def __post_init__(self) -> None:
        result = self.op.result_type()
        if self.out is not None:
            require(
                result == self.out.type,
                f"{self.op.opname} gives {result}, {self.out.name} has type {self.out.type}",
                self.span,
            )


Stmt: TypeAlias = Assign | Declare | For | If | Break | OneLane | OpStmt


# -------------------------------------------------------------------------------------------------------------- program


@dataclass(frozen=True, slots=True)
class RoleBody:
    """What one role runs, once, from launch to exit."""

    role: Role
    body: tuple[Stmt, ...]
    span: Span = field(default=BUILT, compare=False)


@dataclass(frozen=True, slots=True)
class Program:
    """One configuration of a kernel, for exactly one target."""

    name: str
    target: str
    params: tuple[Param, ...]
    launch: Launch
    decls: tuple[Decl, ...]
    roles: tuple[RoleBody, ...]
    span: Span = field(default=BUILT, compare=False)

    def __post_init__(self) -> None:
        from cake.core.scope import check  # what needs all of the grammar stands behind it

        check(self)

    def of(self, kind: type[T]) -> tuple[T, ...]:
        """The declarations (or parameters) of one kind, in order."""
        return tuple(x for x in (*self.params, *self.decls) if isinstance(x, kind))

    @property
    def extents(self) -> tuple[str, ...]:
        """Names of the symbolic problem extents, in order of first use."""
        return tuple(dict.fromkeys(d for t in self.of(Tensor) for d in t.dims if isinstance(d, str)))

    @property
    def threads(self) -> int:
        """Threads of a CTA."""
        return sum(r.threads * r.instances for r in self.of(Role))

    @property
    def smem_bytes(self) -> int:
        """Bytes of shared memory, mbarriers included."""
        ends = [s.end for s in self.of(Smem)] + [b.at + 8 * b.slots for b in self.of(Barrier) if b.kind == "mbarrier"]
        return max(ends, default=0)

    def first_warp(self, role: Role) -> int:
        """The CTA's warp index where instance 0 of `role` starts."""
        warp = 0
        for r in self.of(Role):
            if r == role:
                return warp
            warp += r.warps * r.instances
        raise KeyError(role.name)
