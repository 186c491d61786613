"""Expressions: one evaluator for schedules and `.cake` text, over the values of `cake.core.reader_values`."""

from __future__ import annotations

import ast
import math
from abc import abstractmethod
from typing import Final

from cake.core.ir import (
    DTYPES,
    Barrier,
    BarrierRef,
    Binary,
    Cast,
    Const,
    DType,
    Expr,
    FragmentType,
    GlobalRef,
    IRError,
    Part,
    Reduce,
    Select,
    Smem,
    Tensor,
    TensorMap,
    Unary,
    Var,
    View,
)
from cake.core.op import Op
from cake.core.reader_call import REQUIRED, Calls
from cake.core.reader_source import MAX_DEPTH, MAX_OPERANDS, Source, suggest
from cake.core.reader_values import (
    describe,
    fold_binary,
    fold_unary,
    literal,
    whole_view,
)
from cake.core.registry import primitives
from cake.core.sugar import SUGAR, Handle, Pipeline

_OPERATORS: Final[dict[type[ast.AST], str]] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.FloorDiv: "//",
    ast.Mod: "%",
    ast.BitAnd: "&",
    ast.BitOr: "|",
    ast.BitXor: "^",
    ast.LShift: "<<",
    ast.RShift: ">>",
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.And: "and",
    ast.Or: "or",
}

#: Functions of expressions, with what they give.
FUNCTIONS: Final[dict[str, str]] = {
    "cast": "`cast(x, dtype)`: convert, rounding to nearest even; element by element for a fragment",
    "ceil_div": "`ceil_div(a, b)`: a / b rounded up, for non-negative a and positive b",
    "min": "`min(a, b)`: the smaller of two values",
    "max": "`max(a, b)`: the larger of two values; `max(x)`: the largest element of a thread fragment",
    "sum": "`sum(x)`: the sum of a thread fragment's elements, in index order",
}
#: Names that only mean something in one place, and where.
PLACED: Final[dict[str, str]] = {
    "smem": "declare it above the roles: `x = smem(bf16, (64, 64), stages=4, at=0, swizzle=128)`",
    "tensor_map": "declare it above the roles: `x = tensor_map(X, box=(64, 64), swizzle=128)`",
    "mbarrier": "declare it above the roles: `x = mbarrier(arrivals=1, at=1024, slots=4)`",
    "named_barrier": "declare it above the roles: `x = named_barrier(arrivals=128, at=1)`",
    "role": "declare it above the roles: `x = role(warps=4, instances=2)`",
    "pipeline": "declare it above the roles: `x = pipeline(stages=4, producer=load, consumer=math, at=1024)`",
    "launch": "write it once above the roles: `launch(ctas=sm_count, ctas_per_sm=1)`",
    "fragment": 'declare it in a statement of a role: `x = fragment(f32, (64, 128), layout="wgmma")`',
    "one_lane": "write `with one_lane():` in a role",
    "tiles": "write `for m, n in tiles(rows, columns, group=8):` in a role",
    "static": "write `for x in static(range(4)):` in a role",
    "range": "write `for x in range(start, stop, step):` in a role",
    "schedule": "write it as the decorator of the function",
}


class Expressions(Calls):
    """Evaluates expressions. Subclasses say what names mean and where a nested primitive's statement goes."""

    def __init__(self, source: Source) -> None:
        super().__init__(source)
        self.depth = 0
        self.operands = 0
        self.conditional = 0  # inside a branch of `and`, `or` or `... if ...`, where a primitive may not be lifted out

    @abstractmethod
    def lookup(self, node: ast.Name) -> object:
        """What the name means here, or refuse."""

    @abstractmethod
    def lift(self, op: Op, node: ast.Call) -> Var:
        """Emit a statement that computes a nested primitive, and return its value's name."""

    # ------------------------------------------------------------------------------------------------------ evaluation

    def value(self, node: ast.expr) -> object:
        """Evaluate `node`."""
        self.operands += 1
        if self.operands > MAX_OPERANDS:
            raise self.error(node, f"the program has more than {MAX_OPERANDS} operands once unrolled")
        if self.depth >= MAX_DEPTH:
            raise self.error(node, f"the expression is nested more than {MAX_DEPTH} deep; name its parts")
        self.depth += 1
        try:
            return self._value(node)
        except IRError as error:
            raise self.placed_error(error, node) from None
        finally:
            self.depth -= 1

    def _value(self, node: ast.expr) -> object:
        match node:
            case ast.Constant(value=bool() | int() | float() | str()):
                literal(node.value)
                return node.value
            case ast.Constant():
                raise self.error(
                    node, f"{node.value!r} is no constant of the language: write an int, float, bool or string"
                )
            case ast.Name():
                return self.lookup(node)
            case ast.Tuple(elts=elements):
                return tuple(self.value(e) for e in elements)
            case ast.BinOp(left, op, right):
                return self._binary(node, self._operator(node, op), self.value(left), self.value(right))
            case ast.BoolOp(op, values):
                return self._logic(node, self._operator(node, op), values)
            case ast.UnaryOp(op, operand):
                return self._unary(node, op, operand)
            case ast.Compare(left, ops, comparators):
                if len(ops) > 1:
                    raise self.error(node, "a chain of comparisons is not part of the language: join two with `and`")
                return self._binary(node, self._operator(node, ops[0]), self.value(left), self.value(comparators[0]))
            case ast.IfExp(test, body, orelse):
                return self._select(node, test, body, orelse)
            case ast.Attribute(value, name):
                return self._attribute(node, self.value(value), name)
            case ast.Subscript(value, index):
                return self._subscript(node, self.value(value), index)
            case ast.Call():
                return self._call(node)
        raise self.source.unsupported(node)

    def _operator(self, node: ast.expr, op: ast.AST) -> str:
        if type(op) not in _OPERATORS:
            raise self.source.unsupported(op, node)
        return _OPERATORS[type(op)]

    def _binary(self, node: ast.expr, op: str, left: object, right: object) -> object:
        if self.fold:
            return fold_binary(op, left, right)
        return Binary(op, self.as_expr(node, left), self.as_expr(node, right))

    def _logic(self, node: ast.expr, op: str, values: list[ast.expr]) -> object:
        result = self.value(values[0])
        for value in values[1:]:
            result = self._binary(node, op, result, self._branch(value))
        return result

    def _branch(self, node: ast.expr) -> object:
        self.conditional += 1
        try:
            return self.value(node)
        finally:
            self.conditional -= 1

    def _unary(self, node: ast.expr, op: ast.AST, operand: ast.expr) -> object:
        if isinstance(op, ast.USub):
            if isinstance(operand, ast.Constant) and type(operand.value) in (int, float):
                negative = self._number(node, "the language")  # the one way to write it, in both forms
                literal(negative)
                return negative
            value = self.value(operand)
            if isinstance(value, float) and math.isinf(value):
                return -value
            return fold_unary("-", value) if self.fold else Unary("-", self.as_expr(node, value))
        if isinstance(op, ast.Not):
            value = self.value(operand)
            return fold_unary("not", value) if self.fold else Unary("not", self.as_expr(node, value))
        raise self.source.unsupported(op, node)

    def _select(self, node: ast.expr, test: ast.expr, body: ast.expr, orelse: ast.expr) -> object:
        condition = self.value(test)
        if self.fold and isinstance(condition, bool):
            return self.value(body if condition else orelse)
        then, other = self._branch(body), self._branch(orelse)
        return Select(self.as_expr(test, condition), self.as_expr(body, then), self.as_expr(orelse, other))

    def _attribute(self, node: ast.expr, value: object, name: str) -> object:
        match value, name:
            case ((Smem() | TensorMap() | View()), "bytes"):
                return value.bytes
            case Smem(), "stage_bytes" | "end":
                return getattr(value, name)
            case Handle(cursor=cursor), "full" | "empty":
                return cursor.ref(getattr(cursor.ring, name), value.slot)
        known = {
            Smem: "bytes, stage_bytes, end, tile",
            View: "bytes, tile",
            TensorMap: "bytes",
            Handle: "full, empty, expect",
            Pipeline: "acquire, wait, release, advance",
        }.get(type(value), "nothing")
        raise self.error(node, f"{describe(value)} has no attribute {name!r}; it has {known}")

    def _subscript(self, node: ast.expr, value: object, index: ast.expr) -> object:
        if isinstance(index, ast.Slice):
            raise self.source.unsupported(index)
        at = self.value(index)
        match value:
            case Smem():
                stage = self._index(index, at, value.stages)
                return View(value, stage, (Const(0),) * len(value.shape), value.shape)
            case Barrier():
                return BarrierRef(value, self._index(index, at, value.slots))
            case Tensor():
                return GlobalRef(value, self.as_coords(index, at if isinstance(at, tuple) else (at,)))
            case Var():
                return Part(value, self.as_int(index, at, f"the index of {value.name}"))
        raise self.error(node, f"{describe(value)} has no elements to index")

    def _index(self, node: ast.expr, value: object, count: int) -> Expr | None:
        """A stage or slot index; of one there is only 0, which is left out."""
        expr = self.as_expr(node, value)
        return None if count == 1 and expr == Const(0) else expr

    # ----------------------------------------------------------------------------------------------------------- calls

    def _call(self, node: ast.Call) -> object:
        match node.func:
            case ast.Attribute(value, name):
                return self._method(node, self.value(value), name)
            case ast.Name(id=name) if name in FUNCTIONS:
                return self._function(node, name)
            case ast.Name(id=name) if name in DTYPES:
                ((_, argument),) = self.bind(node, name, ("value",), ("value",), {})
                return Const(self._number(argument, name), DTYPES[name])
            case ast.Name(id=name) if name in primitives():
                op = self.operation(node, primitives()[name])
                if op.result_type() is None:
                    raise self.error(node, f"{name} gives no value; write it as a statement")
                if self.conditional:
                    raise self.error(node, f"{name} in one branch of an expression: give it a statement of its own")
                return self.lift(op, node)
            case ast.Name(id=name) if name in PLACED:
                raise self.error(node, f"`{name}(...)` stands in the wrong place: {PLACED[name]}")
            case ast.Name(id=name):
                raise self.error(
                    node, f"unknown function {name!r}{suggest(name, (*FUNCTIONS, *primitives(), *PLACED))}"
                )
        raise self.error(node, "only a name or a method can be called")

    def _number(self, node: ast.expr, dtype: str) -> int | float:
        """A literal with its sign, of any width."""
        match node:
            case ast.Constant(value=int() | float() as number):
                return number
            case ast.Name(id="inf"):
                return math.inf
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -self._number(operand, dtype)
        raise self.error(node, f"{dtype}(...) takes a literal; write cast(..., {dtype})")

    def _function(self, node: ast.Call, name: str) -> object:
        if name in SUGAR and not self.fold:
            raise self.error(node, f"`{name}` belongs to schedules: {SUGAR[name]}")
        if name == "cast":
            args = self.arguments(node, name, ("value", "dtype"))
            if not isinstance(args["dtype"], DType):
                raise self.error(node, f"cast takes a type, not {describe(args['dtype'])}")
            return Cast(self.as_expr(node, args["value"]), args["dtype"])
        if name == "sum" or (name == "max" and len(node.args) == 1):
            return Reduce(name, self.as_expr(node, self.arguments(node, name, ("value",))["value"]))
        args = self.arguments(node, name, ("a", "b"))
        a, b = args["a"], args["b"]
        if name == "ceil_div":
            return fold_binary("//", fold_binary("+", a, fold_binary("-", b, 1)), b)
        return self._binary(node, name, a, b)

    def _method(self, node: ast.Call, value: object, name: str) -> object:
        match value, name:
            case ((Smem() | View()), "tile"):
                base = whole_view(value)
                assert base is not None
                if not base.whole:
                    raise self.error(node, "a tile of a tile: give the outer region's coordinates")
                args = self.arguments(node, name, ("at", "shape"))
                at, shape = self.as_coords(node, args["at"]), self.as_ints(node, args["shape"])
                return View(base.buffer, base.stage, at, shape)
            case Var(), "cols":
                args = self.arguments(node, name, ("start", "count"))
                return Part(value, self.as_int(node, args["start"]), self.as_int(node, args["count"]))
            case ((Pipeline() | Handle()), "acquire" | "wait" | "release" | "advance" | "expect"):
                raise self.error(node, f"`.{name}()` inside an expression: write it as a statement")
        methods = {Smem: "tile", View: "tile", Var: "cols"}
        raise self.error(
            node, f"{describe(value)} has no method {name!r}{suggest(name, [methods.get(type(value), '')])}"
        )

    def fragment_type(self, node: ast.Call) -> FragmentType:
        """The type that `fragment(dtype, shape, layout=...)` declares."""
        args = self.arguments(node, "fragment", ("dtype", "shape"), {"layout": REQUIRED})
        if not isinstance(args["dtype"], DType) or not isinstance(args["layout"], str):
            raise self.error(
                node, 'fragment takes a type, a shape and a layout: `fragment(f32, (64, 64), layout="wgmma")`'
            )
        return FragmentType(args["dtype"], self.as_ints(node, args["shape"], "shape"), args["layout"])
