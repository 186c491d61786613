"""Role bodies: statements, unrolling, and the expansion of tile loops and of a pipeline's verbs."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Final

from cake.core.ir import (
    BOOL,
    I32,
    Assign,
    Break,
    Declare,
    Expr,
    For,
    If,
    OneLane,
    OpStmt,
    Role,
    Span,
    Stmt,
    Var,
)
from cake.core.reader_scope import Binding, Context, Scopes
from cake.core.reader_source import MAX_READ, REFUSED, suggest
from cake.core.reader_values import describe, expression
from cake.core.registry import primitives
from cake.core.scope import MAX_STATEMENTS
from cake.core.sugar import (
    SUGAR,
    Cursor,
    Handle,
    Pipeline,
    open_cursor,
    release,
    set_registers,
    tile_coordinates,
    tile_range,
)

_VERBS: Final = ("acquire", "wait", "release", "advance")


class RoleReader(Scopes):
    """Reads one role's body."""

    def __init__(self, context: Context, role: Role) -> None:
        super().__init__(context, role)
        self.cursors: dict[str, Cursor] = {}
        self.loops: list[str] = []  # the kinds of the loops around, `range` or `static`
        self.lane = 0  # how many `one_lane` blocks are around

    def read(self, node: ast.With, registers: int, threads: int, ctas_per_sm: int) -> tuple[Stmt, ...]:
        """The body of `with role:`; `registers` per thread as its declaration asks (0: as launched), of a CTA of
        `threads` threads, `ctas_per_sm` of them an SM."""
        span = self.source.span(node)
        if registers:
            with self.placed(node):
                self.emit(set_registers(registers, threads, ctas_per_sm, span))
        rings = {name: ring for name, ring in self.known.items() if isinstance(ring, Pipeline)}
        used = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)} if rings else frozenset()
        for name, ring in rings.items():
            if name in used:
                if self.role not in (ring.producer, ring.consumer):
                    raise self.error(node, f"role {self.role.name} is neither producer nor consumer of {name}")
                cursor = self.cursors[name] = open_cursor(ring, self.role, self.fresh)
                for stmt in cursor.start(span):
                    self.introduce(stmt.target)
                    self.emit(stmt)
        self.block(node.body)
        return tuple(self.out[0])

    # ------------------------------------------------------------------------------------------------------ statements

    def block(self, stmts: Sequence[ast.stmt]) -> None:
        """Read statements into the current block."""
        for stmt in stmts:
            self.context.read += 1
            if self.context.read > MAX_READ:
                raise self.error(stmt, f"unrolling reads more than {MAX_READ} statements")
            for spare in self.spare:
                spare.busy = False
            with self.placed(stmt):
                self.statement(stmt)

    def statement(self, node: ast.stmt) -> None:
        """Read one statement."""
        span = self.source.span(node)
        match node:
            case ast.Pass():
                return
            case ast.Break():
                if not self.loops:
                    raise self.error(node, "`break` outside a loop")
                if self.loops[-1] == "static":
                    raise self.error(node, "`break` in a static loop: put the rest of the body under `if`")
                self.emit(Break(span))
            case ast.Assign(targets=[ast.Name() as target], value=value):
                self.assign(target, value, span)
            case ast.Assign():
                raise self.error(node, "an assignment has one name on its left; elements and tuples cannot be assigned")
            case ast.Expr(value=ast.Call() as call):
                self.call(call, span)
            case ast.Expr(value=value) if type(value) in REFUSED:
                raise self.source.unsupported(value)
            case ast.Expr():
                raise self.error(node, "an expression alone does nothing; assign it or delete the line")
            case ast.If(test=test, body=body, orelse=orelse):
                self.branch(node, test, body, orelse, span)
            case ast.With():
                self.one_lane(node, span)
            case ast.For():
                self.loop(node, span)
            case _:
                raise self.source.unsupported(node)

    def assign(self, target: ast.Name, value: ast.expr, span: Span) -> None:
        """`name = value`."""
        match value:
            case ast.Call(func=ast.Name(id="fragment")):
                type_ = self.fragment_type(value)
                var, _ = self.target(target, type_, redeclare=True)
                self.emit(Declare(var, span))
                return
            case ast.Call(func=ast.Name(id=name)) if name in primitives():
                op = self.operation(value, primitives()[name])
                result = op.result_type()
                if result is None:
                    raise self.error(value, f"{name} gives no value; write it as a statement")
                var, declare = self.target(target, result)
                self.emit(OpStmt(op, var, declare, span))
                return
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="acquire" | "wait" as verb)) if isinstance(
                self.known.get(name), Pipeline
            ):
                bound = self.binding(target.id)
                if bound is not None and not isinstance(bound.value, Handle):
                    raise self.error(target, f"{target.id!r} is in use here; choose another name for the slot")
                if bound is None:
                    self.check_name(target)
                self.verb(value, name, verb, span)
                self.names[-1][target.id] = Binding(self.cursors[name].handle(), "is a slot of a pipeline")
                return
        result_value = self.value(value)
        expr = expression(result_value)
        if expr is None:
            hint = "; name it above the roles" if isinstance(result_value, str | tuple) else ""
            raise self.error(value, f"{describe(result_value)} cannot be kept in a scalar{hint}")
        var, declare = self.target(target, expr.type)
        self.emit(Assign(var, expr, declare, span))

    def call(self, node: ast.Call, span: Span) -> None:
        """A primitive or a pipeline's verb as a statement."""
        match node.func:
            case ast.Name(id=name) if name in primitives():
                self.emit(OpStmt(self.operation(node, primitives()[name]), span=span))
            case ast.Attribute(value=ast.Name(id=name), attr=verb) if isinstance(self.known.get(name), Pipeline):
                self.verb(node, name, verb, span)
            case ast.Attribute(value=ast.Name(), attr="expect"):
                handle = self.value(node.func.value)
                if not isinstance(handle, Handle):
                    raise self.error(node, f"{describe(handle)} has no method 'expect'")
                nbytes = self.arguments(node, "expect", ("bytes",))["bytes"]
                self.emit(handle.expect(self.as_int(node, nbytes, "bytes"), span))
            case _:
                value = self.value(node)
                raise self.error(node, f"{describe(value)} alone does nothing; assign it or delete the line")

    def verb(self, node: ast.Call, name: str, verb: str, span: Span) -> None:
        """`ring.acquire()`, `ring.wait()`, `ring.release(slot)`, `ring.advance()`."""
        cursor = self.cursors[name]
        ring = cursor.ring
        if verb not in _VERBS:
            raise self.error(
                node, f"a pipeline has no method {verb!r}{suggest(verb, _VERBS)}; it has {', '.join(_VERBS)}"
            )
        args = self.arguments(node, verb, ("slot",) if verb == "release" else ())
        user = {"acquire": ring.producer, "wait": ring.consumer, "release": ring.consumer}.get(verb, self.role)
        if self.role != user:
            raise self.error(node, f"{name}.{verb}() belongs to role {user.name}, not {self.role.name}")
        match verb:
            case "acquire":
                self.emit(cursor.wait(ring.empty, span))
            case "wait":
                self.emit(cursor.wait(ring.full, span))
            case "release":
                self.emit(release(cursor, self.as_expr(node, args["slot"]), self.lane > 0, span))
            case "advance":
                for stmt in cursor.advance(span):
                    self.emit(stmt)

    def branch(
        self, node: ast.If, test: ast.expr, body: Sequence[ast.stmt], orelse: Sequence[ast.stmt], span: Span
    ) -> None:
        """`if`: a constant condition picks its branch while reading, in schedules."""
        condition = self.value(test)
        if self.fold and isinstance(condition, bool):
            with self.scope(node, unrolled=True):
                self.block(body if condition else orelse)
            return
        expr = self.as_expr(test, condition)
        if expr.type != BOOL:
            raise self.error(test, f"the condition has type {expr.type}, not bool; write a comparison")
        with self.scope(node) as then:
            self.block(body)
        with self.scope(node) as other:
            self.block(orelse)
        self.emit(If(expr, tuple(then), tuple(other), span))

    def one_lane(self, node: ast.With, span: Span) -> None:
        """`with one_lane():`."""
        match node.items:
            case [
                ast.withitem(
                    context_expr=ast.Call(func=ast.Name(id="one_lane"), args=[], keywords=[]), optional_vars=None
                )
            ]:
                pass
            case _:
                raise self.error(node, "a role has one kind of `with`: `with one_lane():`")
        self.lane += 1
        with self.scope(node) as body:
            self.block(node.body)
        self.lane -= 1
        self.emit(OneLane(tuple(body), span))

    # ----------------------------------------------------------------------------------------------------------- loops

    def loop(self, node: ast.For, span: Span) -> None:
        """`for` over `range`, `static` or `tiles`."""
        if node.orelse:
            raise self.error(node, "`else` of a loop is not part of the language: write it behind the loop")
        match node.iter:
            case ast.Call(func=ast.Name(id="range")):
                start, stop, step = (self.as_expr(node.iter, v) for v in self.range_values(node.iter))
                self.emit_loop(node, self.single(node), (start, stop, step), span)
            case ast.Call(func=ast.Name(id="static" | "tiles" as name)) if self.source.canonical:
                raise self.error(node.iter, f"`{name}` belongs to schedules: {SUGAR[name]}")
            case ast.Call(func=ast.Name(id="static")):
                self.unroll(node, node.iter)
            case ast.Call(func=ast.Name(id="tiles")):
                self.tiles(node, node.iter, span)
            case _:
                raise self.error(node.iter, "a loop runs over range(...), static(...) or tiles(...)")

    def single(self, node: ast.For) -> ast.Name:
        """The loop's one variable, a new name."""
        if not isinstance(node.target, ast.Name):
            raise self.error(node.target, "this loop has one variable")
        return self.new(node.target)

    def range_values(self, node: ast.Call) -> tuple[object, object, object]:
        """Start, stop and step of `range(...)`."""
        if node.keywords or not 1 <= len(node.args) <= 3:
            raise self.error(
                node, "range takes one to three bounds: range(stop), range(start, stop) or range(start, stop, step)"
            )
        values = [self.value(arg) for arg in node.args]
        if len(values) == 1:
            return 0, values[0], 1
        return values[0], values[1], values[2] if len(values) == 3 else 1

    def emit_loop(
        self,
        node: ast.For,
        variable: ast.Name | str,
        bounds: tuple[Expr, Expr, Expr],
        span: Span,
        prologue: Callable[[Var], None] | None = None,
    ) -> None:
        """A `For` around the loop's body, with `prologue` first in it."""
        for cursor in self.advanced_in(node):
            cursor.generation += 1  # a slot taken before the loop is stale from the second iteration on
        name = variable if isinstance(variable, str) else variable.id
        if any(name in scope for scope in self.emitted):
            name = self.fresh(name)
        var = Var(name, I32)
        self.loops.append("range")
        with self.scope(node) as body:
            self.introduce(var)
            if isinstance(variable, ast.Name):
                self.names[-1][variable.id] = Binding(var, "is a loop variable")
            if prologue is not None:
                prologue(var)
            self.block(node.body)
        self.loops.pop()
        self.emit(For(var, *bounds, tuple(body), span))

    def advanced_in(self, node: ast.For) -> list[Cursor]:
        """Cursors that the loop's body advances."""
        if not self.cursors:
            return []
        verbs = [n for n in ast.walk(node) if isinstance(n, ast.Attribute) and n.attr == "advance"]
        names = {verb.value.id for verb in verbs if isinstance(verb.value, ast.Name)}
        return [cursor for name, cursor in self.cursors.items() if name in names]

    def unroll(self, node: ast.For, call: ast.Call) -> None:
        """`for x in static(...)`: the body once for each value, which is a constant in it."""
        if len(call.args) != 1 or call.keywords:
            raise self.error(call, "static takes one argument: a range(...) or a tuple")
        argument = call.args[0]
        values: Sequence[object]
        match argument:
            case ast.Call(func=ast.Name(id="range")):
                start, stop, step = (self.as_int(argument, v, "a bound") for v in self.range_values(argument))
                if step == 0:
                    raise self.error(argument, "the step is 0")
                values = range(start, stop, step)
            case _:
                result = self.value(argument)
                if not isinstance(result, tuple) or not all(isinstance(v, int | float | str) for v in result):
                    what = describe(result) + " with expressions in it" * isinstance(result, tuple)
                    raise self.error(argument, f"static takes a range(...) or a tuple of constants, not {what}")
                values = result
        if len(values) > MAX_STATEMENTS:
            raise self.error(call, f"{len(values)} iterations to unroll, more than {MAX_STATEMENTS}")
        variable = self.single(node)
        self.loops.append("static")
        for value in values:
            with self.scope(node, unrolled=True):
                self.names[-1][variable.id] = Binding(value, "is the variable of a static loop")
                self.block(node.body)
        self.loops.pop()

    def tiles(self, node: ast.For, call: ast.Call, span: Span) -> None:
        """`for m, n in tiles(rows, columns, group=...)`: this CTA's share of the tiles."""
        if not isinstance(node.target, ast.Tuple) or len(node.target.elts) != 2:
            raise self.error(node.target, "tiles gives two variables: `for m, n in tiles(...)`")
        row, column = (self.new(t) for t in node.target.elts)
        args = self.arguments(call, "tiles", ("rows", "columns"), {"group": 1})
        rows, columns = self.as_expr(call, args["rows"]), self.as_expr(call, args["columns"])
        group = self.as_int(call, args["group"], "group")
        if group < 1:
            raise self.error(call, f"group={group} is below 1")

        def coordinates(tile: Var) -> None:
            parts = tile_coordinates(tile, rows, columns, group, self.fresh)
            authored = (*(None for _ in parts[:-2]), row, column)
            for (name, value), author in zip(parts, authored, strict=True):
                if author is not None:
                    name = author.id if not any(author.id in s for s in self.emitted) else self.fresh(author.id)
                    self.names[-1][author.id] = Binding(Var(name, I32), "is a loop variable")
                self.introduce(Var(name, I32))
                self.emit(Assign(Var(name, I32), value, True, span))

        self.emit_loop(node, self.fresh("tile"), tile_range(rows, columns), span, coordinates)
