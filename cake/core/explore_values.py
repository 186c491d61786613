"""Kept values of one strand: expressions as closures over its environment, one slot for each kept scalar.

A slot holds a number, or a tuple with one number for each thread where the scalar varies between threads.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from cake.core.explore_forms import OPERATORS
from cake.core.explore_machine import Number
from cake.core.explore_state import State
from cake.core.explore_vars import Kind, Variables, names_in
from cake.core.ir import BOOL, Binary, Cast, Const, Expr, Select, Special, Unary, Var, element_type, walk_expr
from cake.core.printer import print_expr

Value: TypeAlias = Callable[[list[Any], int], int]  #: of the environment and a thread's number


class Unresolved(Exception):
    """A value that an effect depends on is not known: it comes from memory, from an extent where only constants serve,
    or from arithmetic that the machine leaves undefined."""


class Values:
    """Compiles expressions for one strand."""

    def __init__(self, variables: Variables, strand: int, instance: int, warps: int) -> None:
        self.variables, self.strand, self.instance, self.warps = variables, strand, instance, warps
        self.index = {name: i for i, name in enumerate(variables.kept)}

    def uses(self, *exprs: Expr) -> tuple[int, ...]:
        """Slots of the kept scalars in `exprs`."""
        return tuple(sorted({self.index[n] for e in exprs for n in names_in(e) if n in self.index}))

    def value(self, expr: Expr, what: str) -> Value:
        """`expr` as a closure; where it is not made of kept values alone, one that raises Unresolved about `what`."""
        if self.variables.kind(expr) != Kind.CONCRETE:
            culprits = sorted(
                {e.name for e in walk_expr(expr) if isinstance(e, Special | Var) and self.variables.kind(e) > 0}
            )
            why = f"{what} depends on {', '.join(culprits) or 'a problem extent'}"

            def unresolved(env: list[Any], t: int) -> int:
                raise Unresolved(why)

            return unresolved
        constant = self.constant(expr)
        return self._compile(expr) if constant is None else lambda env, t: constant

    def constant(self, expr: Expr | None) -> int | None:
        """The value of an expression of constants and the instance alone; None for any other, or where it has none."""
        if expr is None or names_in(expr) or self.variables.varies(expr) or self.variables.kind(expr) != Kind.CONCRETE:
            return None
        try:
            return self._compile(expr)([], 0)
        except Unresolved:
            return None

    def number(self, expr: Expr | None, what: str) -> Number:
        """A value that is the same for all threads, as a function of the state; None is 0."""
        if expr is None:
            return lambda st: 0
        value, strand = self.value(expr, what), self.strand
        if self.variables.varies(expr):
            why = f"{what} differs between threads"

            def varying(st: State) -> int:
                env = st.env[strand]
                first = value(env, 0)
                if any(value(env, t) != first for t in range(1, 32 * self.warps)):
                    raise Unresolved(why)
                return first

            return varying
        if isinstance(expr, Var) and expr.name in self.index:
            i = self.index[expr.name]
            return lambda st: st.env[strand][i]
        if isinstance(expr, Const):
            constant = int(expr.value)
            return lambda st: constant
        return lambda st: value(st.env[strand], 0)

    def _compile(self, expr: Expr) -> Value:
        match expr:
            case Const(value=value):
                constant = int(value)
                return lambda env, t: constant
            case Special(name="instance"):
                instance = self.instance
                return lambda env, t: instance
            case Special(name="lane_id"):
                return lambda env, t: t % 32
            case Special(name="warp_id"):
                return lambda env, t: t // 32
            case Special(name="thread_id"):
                return lambda env, t: t
            case Var(name=name):
                i = self.index[name]
                if name in self.variables.varying:
                    return lambda env, t: env[i][t]
                return lambda env, t: env[i]
            case Binary(op=op, left=left, right=right):
                f, a, b = OPERATORS[op], self._compile(left), self._compile(right)
                if op in ("+", "-", "*", "<<"):
                    return _bounded(expr, lambda env, t: f(a(env, t), b(env, t)))
                return _divided(expr, f, a, b) if op in ("//", "%") else lambda env, t: f(a(env, t), b(env, t))
            case Unary(op=op, operand=operand):
                a = self._compile(operand)
                return _bounded(expr, lambda env, t: -a(env, t)) if op == "-" else lambda env, t: int(not a(env, t))
            case Select(condition=condition, then=then, other=other):
                c, a, b = self._compile(condition), self._compile(then), self._compile(other)
                return lambda env, t: a(env, t) if c(env, t) else b(env, t)
            case Cast(operand=operand, dtype=dtype):
                a = self._compile(operand)
                return (lambda env, t: int(bool(a(env, t)))) if dtype == BOOL else _bounded(expr, a)
        raise Unresolved(f"{expr} is no scalar")


def _bounded(expr: Expr, value: Value) -> Value:
    """`value` within the type of `expr`: unsigned numbers and conversions wrap around, signed arithmetic must not."""
    dtype = element_type(expr)
    size = 1 << 8 * dtype.bytes
    low = -(size // 2) if dtype.kind == "int" else 0

    def run(env: list[Any], t: int) -> int:
        result = value(env, t)
        if low <= result < low + size:
            return result
        if dtype.kind == "int" and not isinstance(expr, Cast):
            raise Unresolved(f"{print_expr(expr)} overflows {dtype}")
        return (result - low) % size + low

    return run


def _divided(expr: Expr, divide: Callable[[int, int], int], left: Value, right: Value) -> Value:
    def run(env: list[Any], t: int) -> int:
        divisor = right(env, t)
        if divisor == 0:
            raise Unresolved(f"{print_expr(expr)} divides by zero")
        return divide(left(env, t), divisor)

    return run
