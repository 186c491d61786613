"""Calls: matching arguments to parameters, and turning values into the operand kinds that primitives declare."""

from __future__ import annotations

import ast
import types
import typing
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import MISSING
from typing import Any, Final, Literal

from cake.core.ir import BarrierRef, Expr, GlobalRef, IRError, TensorMap, View
from cake.core.op import Op
from cake.core.reader_source import Source, suggest
from cake.core.reader_values import EXPR, barrier_slot, describe, expression, whole_view

REQUIRED: Final = object()  #: the default of an argument that has none
_NO_KEYWORDS: Final[Mapping[str, object]] = types.MappingProxyType({})
_NOUNS: Final[dict[Any, str]] = {
    View: "a view of shared memory",
    BarrierRef: "a barrier slot",
    TensorMap: "a tensor map",
    GlobalRef: "an element of a tensor",
    int: "a constant of type i32",
    bool: "True or False",
    str: "a string",
}


class Calls(ABC):
    """Reads calls. `value` evaluates an argument."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.fold = not source.canonical  # schedules are computed with; `.cake` text is read as it stands

    @abstractmethod
    def value(self, node: ast.expr) -> object:
        """Evaluate `node`."""

    def error(self, node: ast.AST, message: str) -> IRError:
        """The error to raise at `node`."""
        return self.source.error(node, message)

    @contextmanager
    def placed(self, node: ast.AST) -> Iterator[None]:
        """Give construction errors that have no place the place of `node`."""
        try:
            yield
        except IRError as error:
            raise self.placed_error(error, node) from None

    def placed_error(self, error: IRError, node: ast.AST) -> IRError:
        """`error` at `node`, unless it has a place already."""
        return error if error.span.line else self.error(node, error.message)

    # ------------------------------------------------------------------------------------------------------- arguments

    def arguments(
        self,
        node: ast.Call,
        name: str,
        positional: tuple[str, ...],
        keywords: Mapping[str, object] = _NO_KEYWORDS,
    ) -> dict[str, Any]:
        """The evaluated arguments of a call, by parameter; `keywords` maps keyword-only ones to defaults."""
        return {key: self.value(arg) for key, arg in self.bind(node, name, positional, positional, keywords)} | {
            key: default
            for key, default in keywords.items()
            if default is not REQUIRED and key not in {k.arg for k in node.keywords}
        }

    def bind(
        self,
        node: ast.Call,
        name: str,
        positional: tuple[str, ...],
        required: tuple[str, ...],
        keywords: Mapping[str, object],
    ) -> list[tuple[str, ast.expr]]:
        """Match a call's arguments to parameters, in the order written. Refuses unknown, doubled and missing ones."""
        if len(node.args) > len(positional):
            raise self.error(
                node.args[len(positional)],
                f"{name} takes {len(positional)} positional arguments, not {len(node.args)}"
                + (f"; the rest are keywords: {', '.join(keywords)}" if keywords else ""),
            )
        for arg in node.args:
            if isinstance(arg, ast.Starred):
                raise self.source.unsupported(arg)
        bound: list[tuple[str, ast.expr]] = list(zip(positional, node.args, strict=False))
        for keyword in node.keywords:
            if keyword.arg is None:
                raise self.error(keyword.value, "`**` is not part of the language: write the keywords out")
            known = (*positional, *keywords)
            if keyword.arg not in known:
                expected = f"it takes {', '.join(known)}" if known else "it takes no arguments"
                raise self.error(
                    keyword, f"{name} has no argument {keyword.arg!r}{suggest(keyword.arg, known)}; {expected}"
                )
            if keyword.arg in (key for key, _ in bound):
                raise self.error(keyword, f"{name} gets {keyword.arg!r} twice")
            bound.append((keyword.arg, keyword.value))
        given = {key for key, _ in bound}
        missing = [key for key in (*required, *(k for k, d in keywords.items() if d is REQUIRED)) if key not in given]
        if missing:
            raise self.error(node, f"{name} lacks {' and '.join(missing)}")
        return bound

    def operation(self, node: ast.Call, cls: type[Op]) -> Op:
        """A primitive's call as an op."""
        with self.placed(node):
            params = cls.operands
            positional = tuple(f.name for f in params if not f.kw_only)
            required = tuple(f.name for f in params if not f.kw_only and f.default is MISSING)
            keywords = {f.name: REQUIRED if f.default is MISSING else f.default for f in params if f.kw_only}
            operands = {
                key: self.operand(arg, cls.kinds[key], f"{cls.opname}: {key}")
                for key, arg in self.bind(node, cls.opname, positional, required, keywords)
            }
            make: Callable[..., Op] = cls
            return make(**operands)

    # -------------------------------------------------------------------------------------------------------- coercion

    def operand(self, node: ast.expr, kind: Any, what: str) -> object:
        """Evaluate `node` as an operand annotated `kind`."""
        return self.coerce(node, self.value(node), kind, what)

    def coerce(self, node: ast.expr, value: object, kind: Any, what: str) -> object:
        """`value` as the operand kind of an annotation in a primitive; see `cake.core.op`."""
        origin, arms = typing.get_origin(kind), typing.get_args(kind)
        if origin in (typing.Union, types.UnionType):
            arms = tuple(a for a in arms if a is not type(None))
            if len(arms) == 1:
                return self.coerce(node, value, arms[0], what)
            if isinstance(value, arms):
                return value
            expr = expression(value)
            if expr is not None and isinstance(expr, arms):
                return expr
            wanted = "a value" if set(arms) >= set(EXPR) else "a fragment or a part of one"
            raise self.error(node, f"{what} is {describe(value)}, not {wanted}")
        if origin is tuple:
            if not isinstance(value, tuple):
                raise self.error(node, f"{what} is {describe(value)}, not a tuple")
            return tuple(self.coerce(node, item, arms[0], what) for item in value)
        if origin is Literal:
            if not any(type(value) is type(arm) and value == arm for arm in arms):  # True is not 1, nor 1.0
                given = repr(value) if isinstance(value, int | float | str) else describe(value)
                raise self.error(node, f"{what} is {given}, not {' or '.join(map(repr, arms))}")
            return value
        if kind is View:
            result: object = whole_view(value)
        elif kind is BarrierRef:
            result = barrier_slot(value)
        else:
            result = value if type(value) is kind else None
        if result is None:
            raise self.error(node, f"{what} is {describe(value)}, not {_NOUNS.get(kind, kind.__name__)}")
        return result

    def as_expr(self, node: ast.AST, value: object) -> Expr:
        """`value` as an IR expression."""
        expr = expression(value)
        if expr is None:
            raise self.error(node, f"{describe(value)} is no value to compute with")
        return expr

    def as_int(self, node: ast.AST, value: object, what: str = "this") -> int:
        """`value` as a constant int."""
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.error(node, f"{what} is {describe(value)}, not a constant of type i32")
        return value

    def as_ints(self, node: ast.AST, value: object, what: str = "this") -> tuple[int, ...]:
        """`value` as a tuple of constant ints."""
        if not isinstance(value, tuple):
            raise self.error(node, f"{what} is {describe(value)}, not a tuple of ints; a single one is written `(n,)`")
        return tuple(self.as_int(node, item, what) for item in value)

    def as_coords(self, node: ast.AST, value: object) -> tuple[Expr, ...]:
        """`value` as a tuple of expressions."""
        if not isinstance(value, tuple):
            raise self.error(node, f"coordinates are {describe(value)}, not a tuple; a single one is written `(i,)`")
        return tuple(self.as_expr(node, item) for item in value)
