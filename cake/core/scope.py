"""What a whole program must satisfy beyond its nodes: every name is bound where it is used, every resource is its own.

A name is visible from its first assignment to the end of the block that holds it, and has one type there. `Program`
calls `check` when it is built, so that analyses, lowering and the simulator never meet a program that breaks this.
"""

from __future__ import annotations

import keyword
from collections.abc import Mapping
from typing import Any, Final

from cake.core.ir import (
    DTYPES,
    SPECIALS,
    Assign,
    Barrier,
    BarrierRef,
    Binary,
    Break,
    Cast,
    Const,
    Declare,
    Extent,
    For,
    GlobalRef,
    If,
    IRError,
    OneLane,
    OpStmt,
    Part,
    Program,
    Reduce,
    Role,
    Scalar,
    Select,
    Smem,
    Span,
    Special,
    Stmt,
    Tensor,
    TensorMap,
    Type,
    Unary,
    Var,
    View,
    walk_expr,
)

#: Declarations stand in this order.
ORDER: Final = (Smem, TensorMap, Barrier, Role)
#: Names that mean something as values everywhere.
RESERVED: Final = frozenset((*DTYPES, *SPECIALS, "inf"))
#: Special values that the launch knows, and those that roles know.
LAUNCH_SPECIALS: Final = ("sm_count",)
ROLE_SPECIALS: Final = tuple(name for name in SPECIALS if name not in LAUNCH_SPECIALS)
#: Bounds on a program's size, so that whatever can be built can be printed and read back.
MAX_STATEMENTS: Final = 5_000
MAX_NESTING: Final = 32  # statements
MAX_DEPTH: Final = 48  # operators


def name_fault(name: str) -> str:
    """Why `name` cannot name anything in a program; empty when it can. Names go into CUDA C++ as they are."""
    if not (name.isascii() and name.isidentifier()) or keyword.iskeyword(name):
        return f"{name!r} is no name: a name has ASCII letters, digits and `_`, and is no keyword"
    return f"{name!r} is a name of the language; choose another" if name in RESERVED else ""


def check(program: Program) -> None:
    """Raise `IRError`, naming the value and its place, when `program` is not well formed."""
    _Checker(program).run()


class _Checker:
    def __init__(self, program: Program) -> None:
        self.program = program
        self.resources: dict[str, object] = {item.name: item for item in (*program.params, *program.decls)}
        self.extents = frozenset(program.extents)
        self.statements = 0
        self.specials = ROLE_SPECIALS

    def run(self) -> None:
        """All checks."""
        program = self.program
        self.name(program.name, program.span)
        seen: set[str] = set()
        for item in (*program.params, *program.decls):
            self.name(item.name, item.span)
            if item.name in seen:
                raise IRError(f"{item.name!r} is declared twice", item.span)
            seen.add(item.name)
        for extent in program.extents:
            self.name(extent, program.span)
            if extent in self.resources:
                raise IRError(f"{extent!r} is an extent and a declaration", program.span)
        ranks = [ORDER.index(type(d)) for d in program.decls]
        for before, after, decl in zip(ranks, ranks[1:], program.decls[1:], strict=False):
            if after < before:
                raise IRError(f"{decl.name} stands too late: regions, tensor maps, barriers, roles", decl.span)
        for tensor_map in program.of(TensorMap):
            self.resource(tensor_map.tensor, tensor_map.span)
        self.specials = LAUNCH_SPECIALS
        self.use(program.launch.ctas, {}, program.launch.span)
        self.specials = ROLE_SPECIALS
        for role in program.of(Role):
            count = sum(body.role == role for body in program.roles)
            if count != 1:
                raise IRError(f"role {role.name} has {count or 'no'} bod{'ies' if count else 'y'}", role.span)
        if [b.role for b in program.roles] != list(program.of(Role)):
            raise IRError("bodies stand in the order of the roles, and each has its role declared", program.span)
        if not program.roles:
            raise IRError(f"{program.name} has no role: declare `x = role(warps=4)` and write its body", program.span)
        outer: dict[str, Type] = {s.name: s.dtype for s in program.of(Scalar)}
        for body in program.roles:
            self.block(body.body, outer, frozenset(outer), False, 1)

    def name(self, name: str, span: Span) -> None:
        """Refuse what cannot be a name."""
        fault = name_fault(name)
        if fault:
            raise IRError(fault, span)

    def block(
        self, stmts: tuple[Stmt, ...], outer: Mapping[str, Type], fixed: frozenset[str], loop: bool, depth: int
    ) -> None:
        """One block, `depth` deep: `outer` is visible before it, `fixed` may not be assigned in it."""
        env = dict(outer)
        self.statements += len(stmts)
        if stmts and depth > MAX_NESTING:
            raise IRError(f"blocks are nested more than {MAX_NESTING} deep", stmts[0].span)
        if self.statements > MAX_STATEMENTS:
            raise IRError(f"the program has more than {MAX_STATEMENTS} statements", stmts[0].span)
        for stmt in stmts:
            span = stmt.span
            match stmt:
                case Assign(target, value, declare):
                    self.use(value, env, span)
                    self.bind(target, declare, env, fixed, span)
                case OpStmt(op, out, declare):
                    for operand in op.operands:
                        self.use(getattr(op, operand.name), env, span)
                    if out is not None:
                        self.bind(out, declare, env, fixed, span)
                case Declare(target):
                    if target.name in env:
                        raise IRError(f"{target.name!r} is declared already", span)
                    self.bind(target, True, env, fixed, span)
                case For(var, start, stop, step, body):
                    bounds = (start, stop, step)
                    self.use(bounds, env, span)
                    if var.name in env:
                        raise IRError(f"loop variable {var.name!r} is in use already", span)
                    inner = dict(env)
                    self.bind(var, True, inner, fixed, span)
                    held = {e.name for bound in bounds for e in walk_expr(bound) if isinstance(e, Var)}
                    self.block(body, inner, fixed | held | {var.name}, True, depth + 1)
                case If(condition, then, other):
                    self.use(condition, env, span)
                    self.block(then, env, fixed, loop, depth + 1)
                    self.block(other, env, fixed, loop, depth + 1)
                case OneLane(body):
                    self.block(body, env, fixed, loop, depth + 1)
                case Break():
                    if not loop:
                        raise IRError("`break` outside a loop", span)

    def bind(self, var: Var, declare: bool, env: dict[str, Type], fixed: frozenset[str], span: Span) -> None:
        """Bind a name, or assign to a bound one."""
        known = env.get(var.name)
        if known is None:
            self.name(var.name, span)
            if var.name in self.resources or var.name in self.extents:
                raise IRError(f"{var.name!r} is a declaration or an extent; it cannot be assigned", span)
        elif known != var.type:
            raise IRError(f"{var.name!r} has type {known}, not {var.type}", span)
        if var.name in fixed:
            raise IRError(f"{var.name!r} is a parameter, or counts or bounds a loop: it cannot be assigned here", span)
        if declare != (known is None):
            raise IRError(f"{var.name!r}: `declare` marks the first assignment in scope, and only that", span)
        env[var.name] = var.type

    def use(self, node: Any, env: Mapping[str, Type], span: Span, depth: int = 0) -> None:
        """Everything that an operand refers to exists here."""
        if depth > MAX_DEPTH:
            raise IRError(f"an expression is nested more than {MAX_DEPTH} deep; name its parts", span)
        match node:
            case Const():
                pass
            case Var(name, type_):
                if name not in env:
                    raise IRError(f"{name!r} is used where no assignment to it is in scope", span)
                if env[name] != type_:
                    raise IRError(f"{name!r} has type {env[name]}, not {type_}", span)
            case Binary(_, left, right):
                self.use(left, env, span, depth + 1)
                self.use(right, env, span, depth + 1)
            case View(buffer, stage, at, _):
                self.resource(buffer, span)
                if stage is not None:
                    self.use(stage, env, span, depth + 1)
                self.use(at, env, span, depth + 1)
            case BarrierRef(barrier, slot):
                self.resource(barrier, span)
                if slot is not None:
                    self.use(slot, env, span, depth + 1)
            case tuple():
                for item in node:
                    self.use(item, env, span, depth + 1)
            case GlobalRef(tensor, at):
                self.resource(tensor, span)
                self.use(at, env, span, depth + 1)
            case Unary(_, operand) | Cast(operand, _) | Reduce(_, operand) | Part(operand, _, _):
                self.use(operand, env, span, depth + 1)
            case Select(condition, then, other):
                self.use((condition, then, other), env, span, depth + 1)
            case Extent(name):
                if name not in self.extents:
                    raise IRError(f"{name!r} is no extent of a tensor", span)
            case Special(name):
                if name not in self.specials:
                    raise IRError(f"{name!r} has no value here: roles know {', '.join(ROLE_SPECIALS)}", span)
            case Tensor() | Smem() | TensorMap() | Barrier():
                self.resource(node, span)

    def resource(self, item: Tensor | Smem | TensorMap | Barrier, span: Span) -> None:
        """A reference names a resource of this program, as it is declared."""
        declared = self.resources.get(item.name)
        if declared is not item and declared != item:
            raise IRError(f"{item.name!r} is not declared so in this program", span)
