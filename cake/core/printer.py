"""Canonical text: the one way to write a program. `read_program(print_program(p)) == p`, and one statement a line.

A program's identity is the SHA-256 of this text.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import MISSING
from typing import Any, Final, cast

from cake.core.ir import (
    BOOL,
    F32,
    I32,
    Assign,
    Barrier,
    BarrierRef,
    Binary,
    Break,
    Cast,
    Const,
    Decl,
    Declare,
    Expr,
    Extent,
    For,
    FragmentType,
    GlobalRef,
    If,
    OneLane,
    OpStmt,
    Param,
    Part,
    Program,
    Reduce,
    Role,
    Scalar,
    Select,
    Smem,
    Special,
    Stmt,
    TensorMap,
    Unary,
    Var,
    View,
)
from cake.core.op import Op

_SELECT, _NOT, _COMPARE, _UNARY, _ATOM = 1, 4, 5, 12, 13
#: Python's binding strength of each binary operator.
_STRENGTH: Final[dict[str, int]] = (
    {"or": 2, "and": 3, "|": 6, "^": 7, "&": 8, "<<": 9, ">>": 9, "+": 10, "-": 10}
    | dict.fromkeys(("*", "/", "//", "%"), 11)
    | dict.fromkeys(("==", "!=", "<", "<=", ">", ">="), _COMPARE)
)
_INDENT: Final = "    "


def print_program(program: Program) -> str:
    """The canonical text of `program`, with a final newline."""
    return "\n".join(_Printer(program).lines) + "\n"


def program_lines(program: Program) -> dict[str, int]:
    """The 1-based line of canonical text of every op path (see `cake.core.ir.walk`)."""
    return _Printer(program).places


def program_hash(program: Program) -> str:
    """The program's identity: SHA-256 of its canonical text, in hex."""
    return hashlib.sha256(print_program(program).encode()).hexdigest()


def print_stmt(stmt: Stmt) -> str:
    """The first line of a statement's canonical text, without indentation."""
    match stmt:
        case Assign(target, value, _):
            return f"{target.name} = {print_expr(value)}"
        case Declare(target):
            return f"{target.name} = {_fragment(target)}"
        case For(var, start, stop, step, _):
            bounds: tuple[Expr, ...] = (start, stop, step)
            if step == Const(1):
                bounds = (stop,) if start == Const(0) else (start, stop)
            return f"for {var.name} in range({', '.join(map(print_expr, bounds))}):"
        case If(condition, _, _):
            return f"if {print_expr(condition)}:"
        case Break():
            return "break"
        case OneLane():
            return "with one_lane():"
        case OpStmt(op, out, _):
            return f"{out.name} = {print_op(op)}" if out is not None else print_op(op)


def print_op(op: Op) -> str:
    """A primitive's call, defaults left out."""
    parts = []
    keyword = False
    for param in op.operands:
        value = getattr(op, param.name)
        if param.default is not MISSING and value == param.default:
            keyword = True  # what follows a left-out operand needs its name
            continue
        keyword = keyword or param.kw_only is True
        parts.append(f"{param.name}={print_operand(value)}" if keyword else print_operand(value))
    return f"{op.opname}({', '.join(parts)})"


def print_operand(value: object) -> str:
    """An operand of a primitive."""
    match value:
        case View(buffer, stage, at, shape):
            text = buffer.name if stage is None else f"{buffer.name}[{print_expr(stage)}]"
            return text if value.whole else f"{text}.tile({_tuple(map(print_expr, at))}, {_tuple(map(str, shape))})"
        case BarrierRef(barrier, slot):
            return barrier.name if slot is None else f"{barrier.name}[{print_expr(slot)}]"
        case GlobalRef(tensor, at):
            return f"{tensor.name}[{', '.join(map(print_expr, at))}]"
        case TensorMap(name=name):
            return name
        case bool() | int():
            return str(value)
        case str():
            return _string(value)
        case tuple():
            return _tuple(map(print_operand, value))
    return print_expr(cast(Expr, value))  # nothing else is left


def print_expr(expr: Expr, strength: int = 0) -> str:
    """An expression, in parentheses where it binds less than `strength`."""
    text, own = _expr(expr)
    return f"({text})" if own < strength else text


def _expr(expr: Expr) -> tuple[str, int]:
    match expr:
        case Const(value, type_):
            text = repr(value)
            if type_ not in (I32, F32, BOOL):
                return f"{type_}({text})", _ATOM
            return text, _UNARY if text.startswith("-") else _ATOM
        case Var(name, _) | Extent(name) | Special(name):
            return name, _ATOM
        case Binary("min" | "max" as op, left, right):
            return f"{op}({print_expr(left)}, {print_expr(right)})", _ATOM
        case Binary(op, left, right):
            own = _STRENGTH[op]
            first = own + 1 if own == _COMPARE else own
            return f"{print_expr(left, first)} {op} {print_expr(right, own + 1)}", own
        case Unary("not", operand):
            return f"not {print_expr(operand, _NOT)}", _NOT
        case Unary(op, operand):
            return f"{op}{print_expr(operand, _UNARY)}", _UNARY
        case Select(condition, then, other):
            parts = (print_expr(e, _SELECT + 1) for e in (then, condition, other))
            return "{} if {} else {}".format(*parts), _SELECT
        case Cast(operand, dtype):
            return f"cast({print_expr(operand)}, {dtype})", _ATOM
        case Part(fragment, start, None):
            return f"{fragment.name}[{start}]", _ATOM
        case Part(fragment, start, count):
            return f"{fragment.name}.cols({start}, {count})", _ATOM
        case Reduce(op, operand):
            return f"{op}({print_expr(operand)})", _ATOM


def print_decl(decl: Decl) -> str:
    """A declaration, defaults left out."""
    match decl:
        case Smem(name, dtype, shape, stages, at, swizzle):
            options = _options((("stages", stages, 1), ("swizzle", swizzle, 0)))
            return f"{name} = smem({dtype}, {_tuple(map(str, shape))}, at={at}{options})"
        case TensorMap(name, tensor, box, swizzle):
            options = _options((("swizzle", swizzle, 0),))
            return f"{name} = tensor_map({tensor.name}, box={_tuple(map(str, box))}{options})"
        case Barrier(name, kind, slots, arrivals, at):
            function = "mbarrier" if kind == "mbarrier" else "named_barrier"
            return f"{name} = {function}(arrivals={arrivals}, at={at}{_options((('slots', slots, 1),))})"
        case Role(name, warps, instances):
            return f"{name} = role(warps={warps}{_options((('instances', instances, 1),))})"


def _options(options: Sequence[tuple[str, int, int]]) -> str:
    return "".join(f", {name}={value}" for name, value, default in options if value != default)


def _param(param: Param) -> str:
    if isinstance(param, Scalar):
        return f"{param.name}: {param.dtype}"
    dims = (f'"{d}"' if isinstance(d, str) else str(d) for d in param.dims)
    return f"{param.name}: Tensor[{', '.join((param.dtype.name, *dims))}]"


def _fragment(var: Var) -> str:
    assert isinstance(var.type, FragmentType)
    return f"fragment({var.type.dtype}, {_tuple(map(str, var.type.shape))}, layout={_string(var.type.layout)})"


def _tuple(parts: Any) -> str:
    items = list(parts)
    return f"({items[0]},)" if len(items) == 1 else f"({', '.join(items)})"


def _string(text: str) -> str:
    return '"' + text.encode("unicode_escape").decode("ascii").replace('"', '\\"') + '"'


class _Printer:
    """The lines of a program, and the line where each statement stands."""

    def __init__(self, program: Program) -> None:
        self.lines: list[str] = []
        self.places: dict[str, int] = {}
        params = ", ".join(map(_param, program.params))
        launch = f"ctas={print_expr(program.launch.ctas)}"
        launch += _options((("ctas_per_sm", program.launch.ctas_per_sm, 1),))
        self.lines += [f"@schedule(target={_string(program.target)})", f"def {program.name}({params}):"]
        self.lines += [f"{_INDENT}launch({launch})", *(_INDENT + print_decl(d) for d in program.decls)]
        for body in program.roles:
            self.lines += ["", f"{_INDENT}with {body.role.name}:"]
            self.block(body.body, 2, f"{body.role.name}:", 0)

    def block(self, stmts: tuple[Stmt, ...], depth: int, prefix: str, first: int) -> None:
        """The statements of one block; paths count from `first`."""
        indent = _INDENT * depth
        if not stmts:
            self.lines.append(f"{indent}pass")
        for i, stmt in enumerate(stmts, first):
            path = f"{prefix}{i}"
            self.lines.append(indent + print_stmt(stmt))
            self.places[path] = len(self.lines)
            match stmt:
                case For(body=body) | OneLane(body=body):
                    self.block(body, depth + 1, path + ".", 0)
                case If(then=then, other=other):
                    self.block(then, depth + 1, path + ".", 0)
                    if other:
                        self.lines.append(f"{indent}else:")
                        self.block(other, depth + 1, path + ".", len(then))
