"""Canonical forms of integer expressions: when two roles compute the same number, and what it is at least.

A `Form` is a sum of products of *atoms* with integer factors. Atoms are extents, launch values, loop counters and
whatever is not a sum or product (a quotient, a minimum), named by its own canonical text. Equal forms are equal
numbers; different forms may be. The arithmetic is that of the mathematical integers: wrap-around beyond the largest
number of a type is outside the domain, and what may fall below 0 in an unsigned one has no form.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import reduce
from typing import Final

from cake.core.ir import Binary, Cast, Const, Expr, Extent, Select, Special, Unary, Var, element_type

#: What a value that the launch supplies is at least.
SPECIAL_LOWER: Final = {
    "cta_id": 0,
    "cta_count": 1,
    "sm_count": 1,
    "instance": 0,
    "warp_id": 0,
    "lane_id": 0,
    "thread_id": 0,
}
INFINITE: Final = -(2**62)
#: Size of the largest form that is kept: text from strangers cannot ask for unbounded algebra.
LARGEST: Final = 2_000


def _quotient(a: int, b: int) -> int:
    """`a // b` as the IR means it: towards zero. Raises ZeroDivisionError."""
    return a // b if a >= 0 < b else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _remainder(a: int, b: int) -> int:
    return a % b if a >= 0 < b else a - b * _quotient(a, b)


#: Every integer and boolean operator on numbers, none of which wraps around.
OPERATORS: Final[dict[str, Callable[[int, int], int]]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "//": _quotient,
    "%": _remainder,
    "&": lambda a, b: a & b,
    "|": lambda a, b: a | b,
    "^": lambda a, b: a ^ b,
    "<<": lambda a, b: a << max(0, min(b, 63)),
    ">>": lambda a, b: a >> max(0, min(b, 63)),
    "min": min,
    "max": max,
    "==": lambda a, b: int(a == b),
    "!=": lambda a, b: int(a != b),
    "<": lambda a, b: int(a < b),
    "<=": lambda a, b: int(a <= b),
    ">": lambda a, b: int(a > b),
    ">=": lambda a, b: int(a >= b),
    "and": lambda a, b: int(bool(a) and bool(b)),
    "or": lambda a, b: int(bool(a) or bool(b)),
}

Product = tuple[str, ...]  #: names of atoms, sorted; the empty product is 1


@dataclass(frozen=True, slots=True)
class Form:
    """A sum of products: `terms` are (product, factor) pairs, sorted, without zero factors."""

    terms: tuple[tuple[Product, int], ...]

    @property
    def constant(self) -> int:
        """The constant part."""
        return next((factor for product, factor in self.terms if not product), 0)

    @property
    def number(self) -> int | None:
        """The value, if the form has no atom."""
        return self.constant if all(not product for product, _ in self.terms) else None

    @property
    def symbolic(self) -> Form:
        """The form without its constant part."""
        return Form(tuple(t for t in self.terms if t[0]))

    @property
    def size(self) -> int:
        """Bits of its factors and letters of its atoms."""
        return sum(factor.bit_length() + sum(map(len, product)) for product, factor in self.terms)

    def __str__(self) -> str:
        return " + ".join("*".join((str(factor), *product)) for product, factor in self.terms) or "0"


def number(n: int) -> Form:
    """The form of a constant."""
    return Form((((), n),) if n else ())


def _collect(terms: list[tuple[Product, int]]) -> Form:
    total: dict[Product, int] = {}
    for product, factor in terms:
        total[product] = total.get(product, 0) + factor
    return Form(tuple(sorted((p, f) for p, f in total.items() if f)))


def add(a: Form, b: Form, factor: int = 1) -> Form:
    """`a + factor * b`."""
    return _collect([*a.terms, *((p, f * factor) for p, f in b.terms)])


def multiply(a: Form, b: Form) -> Form:
    """`a * b`."""
    return _collect([(tuple(sorted((*p, *q))), f * g) for p, f in a.terms for q, g in b.terms])


@dataclass(slots=True)
class Forms:
    """Makes forms, and remembers what each atom is at least."""

    lower: dict[str, int] = field(default_factory=dict)

    def atom(self, name: str, lower: int = INFINITE) -> Form:
        """The atom `name`, which is at least `lower`."""
        self.lower.setdefault(name, lower)
        return Form((((name,), 1),))

    def least(self, form: Form) -> int:
        """A lower bound of `form`; very negative when none is known."""
        total = 0
        for product, factor in form.terms:
            bounds = [self.lower[name] for name in product]
            if (factor < 0 and product) or any(b < 0 for b in bounds):
                return INFINITE
            total += factor * reduce(lambda a, b: a * b, bounds, 1)
        return total

    def of(self, expr: Expr, env: Mapping[str, Form | None]) -> Form | None:
        """The form of an integer or boolean expression, where `env` maps scalars to theirs. None when a part of it
        has none: a scalar that changes, a value from memory, a division by zero, or something too large to keep."""
        form = self._of(expr, env)
        return form if form is None or form.size <= LARGEST else None

    def _of(self, expr: Expr, env: Mapping[str, Form | None]) -> Form | None:
        match expr:
            case Const(value=int() as value):
                return number(int(value))
            case Extent(name=name):
                return self.atom(name, 1)
            case Special(name=name):
                known = env.get(name)
                return known if known is not None else self.atom(name, SPECIAL_LOWER[name])
            case Var(name=name):
                return env.get(name)
            case Cast(operand=operand, dtype=dtype) if dtype.kind in ("int", "uint"):
                inner = self.of(operand, env)
                return None if inner is None or (dtype.kind == "uint" and self.least(inner) < 0) else inner
            case Binary(op="-") | Unary(op="-") if element_type(expr).kind == "uint":
                return None
            case Unary(op=op, operand=operand):
                inner = self.of(operand, env)
                if inner is None:
                    return None
                return add(number(0), inner, -1) if op == "-" else self._opaque("not", (inner,))
            case Binary(op=op, left=left, right=right):
                a, b = self.of(left, env), self.of(right, env)
                divided = op in ("//", "%")
                return None if a is None or b is None or (divided and b.number == 0) else self._binary(op, a, b)
            case Select(condition=condition, then=then, other=other):
                parts = [self.of(e, env) for e in (condition, then, other)]
                c, x, y = parts
                if c is None or x is None or y is None:
                    return None
                if c.number is not None:
                    return x if c.number else y
                return self._opaque("select", (c, x, y), min(self.least(x), self.least(y)))
        return None

    def _binary(self, op: str, a: Form, b: Form) -> Form:
        if a.number is not None and b.number is not None:
            return number(OPERATORS[op](a.number, b.number))
        if op in ("+", "-"):
            return add(a, b, 1 if op == "+" else -1)
        if op == "*":
            return multiply(a, b)
        divisor = b.number
        if op in ("//", "%") and divisor is not None and divisor > 0:
            if divisor == 1:
                return a if op == "//" else number(0)
            if all(factor % divisor == 0 for _, factor in a.terms):
                return Form(tuple((p, f // divisor) for p, f in a.terms)) if op == "//" else number(0)
        if op in ("min", "max", "==", "!=", "and", "or", "&", "|", "^") and str(b) < str(a):
            a, b = b, a
        least_a, least_b = self.least(a), self.least(b)
        lower = INFINITE
        if op == "//" and divisor is not None and divisor > 0 and least_a >= 0:
            lower = least_a // divisor
        elif op == "min":
            lower = min(least_a, least_b)
        elif op == "max":
            lower = max(least_a, least_b)
        elif least_a >= 0 and least_b >= 0:
            lower = 0
        return self._opaque(op, (a, b), lower)

    def _opaque(self, op: str, parts: tuple[Form, ...], lower: int = 0) -> Form:
        return self.atom(f"{op}({', '.join(map(str, parts))})", lower)
