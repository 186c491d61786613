"""Arithmetic on problem extents, as contracts write it: `2 * M * N * K`, `K % 8 == 0`. Parsed, never executed."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Any, Final

from cake.core.errors import CakeError

_BINARY: Final[dict[type[ast.operator], Callable[[Any, Any], Any]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_COMPARE: Final[dict[type[ast.cmpop], Callable[[Any, Any], bool]]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


def evaluate(text: str, names: Mapping[str, int | float]) -> int | float | bool:
    """The value of `text` with `names` bound. Raises CakeError for anything but numbers, names, + - * / // % ** by a
    whole number up to 1100, comparisons, `and`, `or`, for an unknown name, and where there is no value."""

    def fail(what: str) -> CakeError:
        return CakeError(f"{text!r}: {what}")

    def visit(node: ast.expr) -> Any:
        match node:
            case ast.Constant(value=int() | float() as value):
                return value
            case ast.Name(id=name):
                if name not in names:
                    raise fail(f"{name} is none of {', '.join(sorted(names))}")
                return names[name]
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -visit(operand)
            case ast.BinOp(left=left, op=ast.Pow(), right=right):
                exponent = visit(right)
                if not isinstance(exponent, int) or abs(exponent) > 1100:
                    raise fail(f"the exponent {exponent} is not a whole number up to 1100")
                return float(visit(left)) ** exponent
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
                return _BINARY[type(op)](visit(left), visit(right))
            case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _COMPARE:
                return _COMPARE[type(op)](visit(left), visit(right))
            case ast.BoolOp(op=op, values=values):
                results = [bool(visit(v)) for v in values]
                return all(results) if isinstance(op, ast.And) else any(results)
        raise fail(f"{ast.unparse(node)!r} is no arithmetic on extents")

    try:
        tree = ast.parse(text, mode="eval")
        result: int | float | bool = visit(tree.body)
    except (SyntaxError, ValueError, RecursionError, MemoryError, ArithmeticError) as error:
        raise fail(str(error) or type(error).__name__) from None
    return result
