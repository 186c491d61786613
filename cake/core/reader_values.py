"""Values while a program is read: constants of the configuration, IR expressions, resources and references to them.

A constant is a Python int (i32), float (f32), bool, str or a tuple of such. It becomes an IR `Const` where an
expression is needed. `fold_binary` and `fold_unary` compute on constants and drop neutral operands; `.cake` text is
never folded, so that what was printed is what is read.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Final, TypeAlias

from cake.core.ir import (
    BOOL,
    F32,
    I32,
    Barrier,
    BarrierRef,
    Binary,
    Cast,
    Const,
    DType,
    Expr,
    Extent,
    GlobalRef,
    IRError,
    Part,
    Reduce,
    Role,
    Select,
    Smem,
    Special,
    Tensor,
    TensorMap,
    Unary,
    Var,
    View,
)
from cake.core.sugar import Handle, Pipeline

Constant: TypeAlias = int | float | bool | str | tuple["Constant", ...]
EXPR: Final = (Const, Var, Extent, Special, Binary, Unary, Select, Cast, Part, Reduce)

_NOUNS: Final[tuple[tuple[type | tuple[type, ...], str], ...]] = (
    (bool, "a constant of type bool"),
    (int, "a constant of type i32"),
    (float, "a constant of type f32"),
    (str, "a string"),
    (tuple, "a tuple"),
    (DType, "a type"),
    (Smem, "a shared-memory region"),
    (View, "a view of shared memory"),
    (Tensor, "a tensor"),
    (GlobalRef, "an element of a tensor"),
    (TensorMap, "a tensor map"),
    (Barrier, "a barrier"),
    (BarrierRef, "a barrier slot"),
    (Role, "a role"),
    (Pipeline, "a pipeline"),
    (Handle, "a pipeline slot"),
)


def describe(value: object) -> str:
    """What kind of thing `value` is, for messages."""
    for kind, noun in _NOUNS:
        if isinstance(value, kind):
            return noun
    return f"an expression of type {value.type}" if isinstance(value, EXPR) else f"{value!r}"


def literal(value: object) -> Const | None:
    """The IR constant of a Python int, float or bool; None for anything else. Raises `IRError` outside i32."""
    match value:
        case bool():
            return Const(value, BOOL)
        case int():
            return Const(value, I32)
        case float():
            return Const(value, F32)
    return None


def expression(value: object) -> Expr | None:
    """`value` as an IR expression, or None when it is none."""
    if isinstance(value, EXPR):
        return value
    if isinstance(value, Handle):
        return value.slot
    return literal(value)


def whole_view(value: object) -> View | None:
    """`value` as a view: a view, or a region of one stage taken whole."""
    if isinstance(value, View):
        return value
    if isinstance(value, Smem):
        return View(value, None, (Const(0),) * len(value.shape), value.shape)
    return None


def barrier_slot(value: object) -> BarrierRef | None:
    """`value` as a barrier slot: a slot, or a barrier of one slot."""
    if isinstance(value, BarrierRef):
        return value
    return BarrierRef(value, None) if isinstance(value, Barrier) else None


# -------------------------------------------------------------------------------------------------------------- folding


def _checked(compute: Callable[[int, int], int], word: str) -> Callable[[int, int], int]:
    def run(left: int, right: int) -> int:
        if right == 0:
            raise IRError(f"{word} by zero")
        if left < 0 or right < 0:
            raise IRError(f"{word} of {left} by {right}: operands of `//` and `%` are non-negative")
        return compute(left, right)

    return run


def _shift(compute: Callable[[int, int], int]) -> Callable[[int, int], int]:
    def run(left: int, right: int) -> int:
        if not 0 <= right < 32:
            raise IRError(f"shift by {right}, not 0 to 31")
        return compute(left, right)

    return run


def _divide(left: float, right: float) -> float:
    if right == 0:
        raise IRError("division by zero")
    return left / right


_COMPUTE: Final[dict[str, Callable[..., object]]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": _divide,
    "//": _checked(operator.floordiv, "division"),
    "%": _checked(operator.mod, "remainder"),
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
    "<<": _shift(operator.lshift),
    ">>": _shift(operator.rshift),
    "min": min,
    "max": max,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "and": lambda a, b: a and b,
    "or": lambda a, b: a or b,
}

#: Operators that a neutral right operand leaves alone, and those that a neutral left operand does.
_RIGHT_NEUTRAL: Final = {"+": 0, "-": 0, "*": 1, "//": 1, "<<": 0, ">>": 0, "|": 0, "^": 0, "and": True, "or": False}
_LEFT_NEUTRAL: Final = {"+": 0, "*": 1, "|": 0, "^": 0, "and": True, "or": False}
#: Operators that this operand, on either side, decides.
_ABSORBING: Final = {"*": 0, "&": 0, "and": False, "or": True}


def fold_binary(op: str, left: object, right: object) -> object:
    """`left op right` on scalars, computed where both are constants, without neutral operands otherwise.

    Floats are only computed with, never dropped: `x + 0.0` is not `x` for a negative zero.
    """
    node = Binary(op, _required(left), _required(right))
    a, b = _number(left), _number(right)
    if a is not None and b is not None:
        result = _COMPUTE[op](a, b)
        literal(result)  # range check
        return result
    if node.type not in (I32, BOOL):
        return node
    if b is not None:
        if _same(b, _RIGHT_NEUTRAL.get(op)):
            return left
        if _same(b, _ABSORBING.get(op)):
            return b
        if op == "%" and _same(b, 1):
            return 0
    if a is not None:
        if _same(a, _LEFT_NEUTRAL.get(op)):
            return right
        if _same(a, _ABSORBING.get(op)):
            return a
    return node


def fold_unary(op: str, operand: object) -> object:
    """`-x` or `not x`, computed where `x` is a constant."""
    value = _number(operand)
    if value is None:
        return Unary(op, _required(operand))
    if isinstance(value, bool) != (op == "not"):
        raise IRError(f"operator {op!r} of {describe(operand)}")
    result = (not value) if op == "not" else -value
    literal(result)
    return result


def _required(value: object) -> Expr:
    expr = expression(value)
    if expr is None:
        raise IRError(f"{describe(value)} is no value to compute with")
    return expr


def _number(value: object) -> int | float | bool | None:
    return value if isinstance(value, int | float) else None


def _same(value: object, other: object) -> bool:
    return type(value) is type(other) and value == other
