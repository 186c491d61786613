"""IR expressions as C++ text: exactly typed, with the fewest brackets that keep the evaluation order.

The generated file includes no header: the runtime compiler's own declarations and a few lines of Cake suffice.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from cake.core.ir import (
    ARITHMETIC,
    BF16,
    BOOL,
    F16,
    F32,
    I64,
    U32,
    Binary,
    Cast,
    Const,
    DType,
    Expr,
    Extent,
    FragmentType,
    Part,
    Reduce,
    Select,
    Special,
    Unary,
    Var,
    element_type,
)

#: 16-bit floats are structs of bits in the generated file, so that no arithmetic happens by accident.
HALVES: Final = (F16, BF16)

#: Types and conversions that expressions use; every generated file starts with them.
PREAMBLE: Final = """\
using int32_t = int;
using int64_t = long long;
using uint16_t = unsigned short;
using uint32_t = unsigned int;
using uint64_t = unsigned long long;

namespace cake {
struct bf16 { uint16_t bits; };
struct f16 { uint16_t bits; };
struct alignas(64) tensor_map { char opaque[128]; };
"""

CONVERSIONS: Final[dict[str, str]] = {
    "to_float": """\
__device__ __forceinline__ float to_float(bf16 x) { return __uint_as_float(uint32_t(x.bits) << 16); }
__device__ __forceinline__ float to_float(f16 x) {
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
  return y;
}""",
    "to_bf16": """\
__device__ __forceinline__ bf16 to_bf16(float x) {
  bf16 y;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
  return y;
}""",
    "to_f16": """\
__device__ __forceinline__ f16 to_f16(float x) {
  f16 y;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
  return y;
}""",
    "round_bf16": """\
__device__ __forceinline__ void round_bf16(bf16 *y0, bf16 *y1, float x0, float x1) {  // two at once
  uint32_t pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(x1), "f"(x0));
  y0->bits = uint16_t(pair), y1->bits = uint16_t(pair >> 16);
}""",
    "round_f16": """\
__device__ __forceinline__ void round_f16(f16 *y0, f16 *y1, float x0, float x1) {  // two at once
  uint32_t pair;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(x1), "f"(x0));
  y0->bits = uint16_t(pair), y1->bits = uint16_t(pair >> 16);
}""",
}


def swizzle_function(span: int) -> str:
    """The device function `swizzle_<span>`: 16-byte chunks of each `span` bytes are XORed with the number of their
    128-byte row in shared memory (PTX ISA, "Shared memory swizzling modes")."""
    body = f"return address ^ (address >> 7 & {span // 16 - 1}) << 4;"
    return f"__device__ __forceinline__ uint32_t swizzle_{span}(uint32_t address) {{ {body} }}"


_KEYWORDS = """
alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t char32_t class compl concept const
consteval constexpr constinit const_cast continue co_await co_return co_yield decltype default delete do double
dynamic_cast else enum explicit export extern false float for friend goto if inline int long mutable namespace new
noexcept not not_eq nullptr operator or or_eq private protected public register reinterpret_cast requires return short
signed sizeof static static_assert static_cast struct switch template this thread_local throw true try typedef typeid
typename union unsigned using virtual void volatile wchar_t while xor xor_eq
int32_t int64_t uint16_t uint32_t uint64_t threadIdx blockIdx blockDim gridDim warpSize min max fminf fmaxf
smem_base smem barrier arrivals stage_bytes warp
"""
#: Identifiers that mean something else in the generated file.
RESERVED: Final = frozenset(_KEYWORDS.split())


def cpp_name(name: str) -> str:
    """`name`, with `_` behind it where C++ or the generated file uses that word itself. Injective."""
    stem = name.rstrip("_")
    return name + "_" if stem in RESERVED or stem == "cake" or stem.startswith("cake_") else name


# --------------------------------------------------------------------------------------------------------- expressions

#: Binding strengths of C++ operators, higher binds tighter.
_LEVEL: Final = {
    "*": 13, "/": 13, "//": 13, "%": 13, "+": 12, "-": 12, "<<": 11, ">>": 11, "<": 9, "<=": 9, ">": 9, ">=": 9,
    "==": 8, "!=": 8, "&": 7, "^": 6, "|": 5, "and": 4, "or": 3,
}  # fmt: skip
_SPELLING: Final = {"//": "/", "and": "&&", "or": "||"}
_UNARY, _TERNARY, _ATOM = 14, 2, 20
#: Operators that C++ compilers warn about, or readers stumble over, when mixed without brackets.
_BRACKETED: Final = frozenset({"<<", ">>", "&", "^", "|", "and", "or"})


def literal(value: int | float | bool, dtype: DType) -> str:
    """A C++ literal of exactly `dtype`."""
    if dtype == BOOL:
        return "true" if value else "false"
    if dtype.kind == "float":
        if dtype in HALVES:
            return f"{dtype.ctype}{{{half_bits(float(value), dtype):#06x}}}"
        return _float(float(value))
    suffix = {U32: "u", I64: "ll"}.get(dtype, "")
    if dtype.kind == "int" and value == -(1 << 8 * dtype.bytes - 1):  # `-` applies to a literal of a wider type
        return f"({int(value) + 1}{suffix} - 1)"
    return f"{int(value)}{suffix}"


def _float(value: float) -> str:
    if math.isnan(value):
        return "__uint_as_float(0x7fc00000u)"
    if math.isinf(_f32(value)):
        return f"__uint_as_float({'0x7f800000u' if value > 0 else '0xff800000u'})"
    text = str(_f32(value))
    return f"{text if '.' in text or 'e' in text else text + '.0'}f"


def _f32(value: float) -> np.float32:
    """`value` rounded to f32; what is too large is infinite."""
    with np.errstate(over="ignore"):
        return np.float32(value)


def half_bits(value: float, dtype: DType) -> int:
    """The bits of `value` rounded to the nearest `f16` or `bf16`, ties to even."""
    if dtype == F16:
        with np.errstate(over="ignore"):
            return int(np.float16(value).view(np.uint16))
    bits = int(_f32(value).view(np.uint32))
    if math.isnan(value):
        return (bits >> 16) | 0x40
    return (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16 & 0xFFFF


@dataclass(frozen=True)
class Printer:
    """Prints expressions. `leaf` gives the text of a fragment's current element, `reduce` the name of a variable that
    holds a reduction, `use` is told each conversion that the text needs."""

    leaf: Callable[[Var | Part], str]
    reduce: Callable[[Reduce], str]
    use: Callable[[str], None]

    def text(self, expr: Expr, level: int = 0) -> str:
        """`expr` as C++, in brackets when it binds less tightly than `level`."""
        text, own = self._print(expr)
        return f"({text})" if own < level else text

    def _print(self, expr: Expr) -> tuple[str, int]:
        match expr:
            case Const(value, dtype):
                return literal(value, dtype), _UNARY if value < 0 else _ATOM
            case Var(name, dtype):
                return (self.leaf(expr) if isinstance(dtype, FragmentType) else cpp_name(name)), _ATOM
            case Extent(name) | Special(name):
                return cpp_name(name), _ATOM
            case Part():
                return self.leaf(expr), _ATOM
            case Reduce():
                return self.reduce(expr), _ATOM
            case Cast(operand, dtype):
                return self._cast(operand, dtype), _ATOM
            case Select(condition, then, other):
                text = f"{self.text(condition, 3)} ? {self.text(then, 3)} : {self.text(other, 3)}"
                return text, _TERNARY
            case Unary(op, operand):
                return self._unary(op, operand)
            case Binary():
                return self._binary(expr)

    def _cast(self, operand: Expr, dtype: DType) -> str:
        source = element_type(operand)
        if source == dtype:
            return self.text(operand, _ATOM)
        if source in HALVES:
            self.use("to_float")
            inner = f"cake::to_float({self.text(operand)})"
            return inner if dtype == F32 else self._from_float(inner, dtype)
        if dtype in HALVES:
            return self._from_float(self.text(operand), dtype)
        return f"{dtype.ctype}({self.text(operand)})"

    def _from_float(self, text: str, dtype: DType) -> str:
        if dtype not in HALVES:
            return f"{dtype.ctype}({text})"
        self.use(f"to_{dtype.name}")
        return f"cake::to_{dtype.name}({text})"

    def _unary(self, op: str, operand: Expr) -> tuple[str, int]:
        dtype = element_type(operand)
        if op == "not":
            return f"!{self.text(operand, _UNARY)}", _UNARY
        if dtype in HALVES:
            self.use("to_float")
            return self._from_float(f"-cake::to_float({self.text(operand)})", dtype), _ATOM
        return f"-{self.text(operand, _UNARY + 1)}", _UNARY

    def _binary(self, expr: Binary) -> tuple[str, int]:
        op, dtype = expr.op, element_type(expr.left)
        if op in ("min", "max"):
            return self.fold(op, dtype, self.text(expr.left), self.text(expr.right)), _ATOM
        # Left-associative: the right operand needs brackets at equal strength, since float addition is no group.
        level = _LEVEL[op]
        left, right = (
            self.text(e, self._inner(e, op, level + extra)) for e, extra in ((expr.left, 0), (expr.right, 1))
        )
        return self.fold(op, dtype, left, right), _ATOM if dtype in HALVES else level

    def fold(self, op: str, dtype: DType, left: str, right: str) -> str:
        """`left op right` of two texts of type `dtype`. 16-bit floats are computed in f32 and rounded once, which is
        exact rounding: f32 has more than twice their bits."""
        if dtype in HALVES:
            self.use("to_float")
            text = self.fold(op, F32, f"cake::to_float({left})", f"cake::to_float({right})")
            return self._from_float(text, dtype) if op in ARITHMETIC else text
        if op in ("min", "max"):
            return f"{f'f{op}f' if dtype == F32 else op}({left}, {right})"
        return f"{left} {_SPELLING.get(op, op)} {right}"

    @staticmethod
    def _inner(operand: Expr, op: str, level: int) -> int:
        if isinstance(operand, Binary) and operand.op not in ("min", "max") and operand.op != op:
            mixed = op in _BRACKETED or operand.op in _BRACKETED
            return _UNARY if mixed and (op not in ("and", "or") or operand.op in ("and", "or")) else level
        return level


# -------------------------------------------------------------------------------------------------------- linear forms


@dataclass(frozen=True, slots=True)
class Linear:
    """`constant + sum(coefficient * expression)`: how addresses are kept until they are printed."""

    constant: int
    terms: tuple[tuple[Expr, int], ...] = ()

    def __add__(self, other: Linear) -> Linear:
        merged = dict(self.terms)
        for expr, coefficient in other.terms:
            merged[expr] = merged.get(expr, 0) + coefficient
        return Linear(self.constant + other.constant, tuple((e, k) for e, k in merged.items() if k))

    def __mul__(self, factor: int) -> Linear:
        return Linear(self.constant * factor, tuple((e, k * factor) for e, k in self.terms if factor))


def linear(expr: Expr) -> Linear:
    """`expr`, an i32, as a linear form; what is not linear stays one opaque expression."""
    match expr:
        case Const(value, _):
            return Linear(int(value))
        case Binary("+", left, right):
            return linear(left) + linear(right)
        case Binary("-", left, right):
            return linear(left) + linear(right) * -1
        case Binary("*", left, Const(value, _)):
            return linear(left) * int(value)
        case Binary("*", Const(value, _), right):
            return linear(right) * int(value)
    return Linear(0, ((expr, 1),))
