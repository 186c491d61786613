"""The one front end: a closed reader of schedules and of `.cake` text, over Python's syntax tree. It executes nothing.

    read_program(text)            a `.cake` file: one configuration, every statement written out
    read_schedule(source, config) a schedule: configuration parameters, constants and sugar are expanded

Both accept the same statements and expressions; a schedule may also use the sugar of `cake.core.sugar`, name constants
above its roles, and compute with them. Whatever is outside the language is refused with `IRError`, which says what,
where and what to write instead.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping
from typing import Any, Final, NoReturn

from cake.core.ir import (
    DTYPES,
    SPECIALS,
    Barrier,
    Decl,
    DType,
    Extent,
    Launch,
    Param,
    Program,
    Role,
    RoleBody,
    Scalar,
    Smem,
    Special,
    Tensor,
    TensorMap,
    Var,
)
from cake.core.op import Op
from cake.core.reader_body import RoleReader
from cake.core.reader_call import REQUIRED
from cake.core.reader_expr import Expressions
from cake.core.reader_scope import Context, Fresh
from cake.core.reader_source import REFUSED, Source, check_free, suggest
from cake.core.reader_values import describe
from cake.core.scope import ORDER, RESERVED
from cake.core.sugar import SUGAR, declare_pipeline

ConfigValue = int | float | bool | str
_DECLARATIONS: Final = ("smem", "tensor_map", "mbarrier", "named_barrier", "role", "pipeline")


def read_program(text: str, file: str = "<text>") -> Program:
    """The program that a `.cake` text writes out. Raises `IRError`; never executes the text."""
    source = Source(text, file, canonical=True)
    module = source.parse()
    match module.body:
        case [ast.FunctionDef() as function]:
            return ProgramReader(source, function, {}).read()
        case []:
            raise source.error(module, "no program: a .cake file is one function decorated with @schedule")
    extra = [stmt for stmt in module.body if not isinstance(stmt, ast.FunctionDef)] or module.body[1:]
    if type(extra[0]) in REFUSED:
        raise source.unsupported(extra[0])
    raise source.error(extra[0], "a .cake file holds one function and nothing else")


def read_schedule(source: str, config: Mapping[str, ConfigValue], file: str = "<text>", first_line: int = 1) -> Program:
    """The program of one configuration of a schedule. `source` holds one function decorated with `@schedule`, which may
    stand in a file with other code; `config` overrides the defaults of its keyword parameters. Raises `IRError`."""
    text = Source(source, file, first_line)
    return ProgramReader(text, find_schedule(text), config).read()


def find_schedule(source: Source) -> ast.FunctionDef:
    """The one function decorated with `@schedule` in a text."""
    module = source.parse()
    found = [f for f in module.body if isinstance(f, ast.FunctionDef) and any(map(_is_schedule, f.decorator_list))]
    if len(found) != 1:
        raise source.error(found[1] if found else module, f"one function decorated with @schedule, not {len(found)}")
    return found[0]


def defaults(source: Source, function: ast.FunctionDef) -> dict[str, ConfigValue | None]:
    """The configuration parameters of a schedule with their defaults (None: it has none)."""
    values: dict[str, ConfigValue | None] = {}
    for arg, default in zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True):
        if default is None:
            values[arg.arg] = None
            continue
        value = Constants(source).value(default)
        if not isinstance(value, int | float | str):
            raise source.error(
                default, f"the default of {arg.arg} is {describe(value)}, not an int, float, bool or string"
            )
        values[arg.arg] = value
    return values


def _is_schedule(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "schedule"


class Constants(Expressions):
    """Expressions without names: defaults of parameters."""

    def lookup(self, node: ast.Name) -> NoReturn:
        """Nothing has a name here."""
        raise self.error(node, f"{node.id!r} is no literal")

    def lift(self, op: Op, node: ast.Call) -> NoReturn:
        """Nothing runs here."""
        raise self.error(node, f"{op.opname} runs in a role")


class ProgramReader(Expressions):
    """Reads a whole function: parameters, declarations, then each role's body."""

    def __init__(self, source: Source, function: ast.FunctionDef, config: Mapping[str, ConfigValue]) -> None:
        super().__init__(source)
        self.function = function
        self.config = config
        self.known: dict[str, object] = {**DTYPES, "inf": math.inf}
        self.registers: dict[str, int] = {}
        self.decls: list[Decl] = []
        self.launch: Launch | None = None
        self.extents: frozenset[str] = frozenset()
        self.in_launch = False
        # Only sugar makes names up, so `.cake` text need not be searched for those that it uses.
        nodes = () if source.canonical else ast.walk(function)
        names = {n.id if isinstance(n, ast.Name) else n.arg for n in nodes if isinstance(n, ast.Name | ast.arg)}
        self.fresh = Fresh(names | RESERVED)

    def read(self) -> Program:
        """The program."""
        function = self.function
        check_free(self.source, function, function.name)
        target = self.target()
        params = self.parameters()
        self.extents = frozenset(d for p in params if isinstance(p, Tensor) for d in p.dims if isinstance(d, str))
        self.fresh.taken |= self.extents
        for name in sorted(self.extents & set(self.known)):
            raise self.error(function, f"{name!r} is an extent and {describe(self.known[name])}; rename one")
        bodies = []
        for i, stmt in enumerate(function.body):
            if i == 0 and isinstance(stmt, ast.Expr) and isinstance(stmt.value, ast.Constant):
                continue  # the docstring
            if isinstance(stmt, ast.With):
                bodies.append((self.role_of(stmt), stmt))
            else:
                with self.placed(stmt):
                    self.declaration(stmt)
        if self.launch is None:
            raise self.error(function, "no launch: write `launch(ctas=...)` above the roles")
        threads = sum(d.threads * d.instances for d in self.decls if isinstance(d, Role))
        context = Context(self.source, self.known, self.extents, frozenset(self.fresh.taken))
        roles = []
        for role, stmt in bodies:
            budget = self.registers.get(role.name, 0)
            body = RoleReader(context, role).read(stmt, budget, threads, self.launch.ctas_per_sm)
            roles.append(RoleBody(role, body, self.source.span(stmt)))
        with self.placed(function):
            span = self.source.span(function)
            decls = sorted(self.decls, key=lambda d: ORDER.index(type(d)))
            order = [d.name for d in decls]
            roles.sort(key=lambda body: order.index(body.role.name))
            return Program(function.name, target, tuple(params), self.launch, tuple(decls), tuple(roles), span)

    # ------------------------------------------------------------------------------------------------------- signature

    def target(self) -> str:
        """The target named by `@schedule(target="...")`."""
        match self.function.decorator_list:
            case [ast.Call(func=ast.Name(id="schedule")) as call]:
                target = self.arguments(call, "schedule", (), {"target": REQUIRED})["target"]
                if not isinstance(target, str):
                    raise self.error(call, f"target is {describe(target)}, not a string")
                return target
            case [other, *_] if not _is_schedule(other):
                raise self.error(other, "the one decorator of a program is `@schedule(target=...)`")
            case [_, second, *_]:
                raise self.error(second, "the one decorator of a program is `@schedule(target=...)`")
        raise self.error(self.function, 'a program is decorated: `@schedule(target="sm_90a")`')

    def parameters(self) -> list[Param]:
        """Tensors and scalars; configuration parameters become constants."""
        args = self.function.args
        if args.vararg or args.kwarg:
            raise self.error(
                args.vararg or args.kwarg or self.function, "`*args` is not part of the language: name each parameter"
            )
        if args.posonlyargs:
            raise self.error(args.posonlyargs[0], "`/` is not part of the language: leave it out")
        if args.defaults:
            raise self.error(
                args.defaults[0], "a tensor or scalar has no default; configuration parameters stand behind `*`"
            )
        if getattr(self.function, "type_params", None):  # Python 3.12
            raise self.error(self.function, "type parameters are not part of the language: delete `[...]`")
        if self.function.returns is not None:
            raise self.error(self.function.returns, "a program returns nothing: delete the annotation")
        params: list[Param] = []
        for arg in args.args:
            self.new_name(arg, arg.arg)
            param = self.parameter(arg)
            params.append(param)
            self.known[arg.arg] = Var(arg.arg, param.dtype) if isinstance(param, Scalar) else param
        if args.kwonlyargs and self.source.canonical:
            raise self.error(args.kwonlyargs[0], "a .cake file has no configuration parameters: write their values")
        given = dict(self.config)
        for arg, (name, default) in zip(args.kwonlyargs, defaults(self.source, self.function).items(), strict=True):
            self.new_name(arg, name)
            value = given.pop(name, default)
            if value is None:
                raise self.error(arg, f"configuration parameter {name} has no value")
            if default is not None and type(value) is not type(default):
                raise self.error(arg, f"{name}={value!r}, but its default {default!r} is {describe(default)}")
            if not isinstance(value, int | float | str):
                raise self.error(arg, f"{name}={value!r} is not an int, float, bool or string")
            self.known[name] = value
        for name in given:
            close = suggest(name, [a.arg for a in args.kwonlyargs])
            raise self.error(self.function, f"{self.function.name} has no configuration parameter {name!r}{close}")
        return params

    def parameter(self, arg: ast.arg) -> Param:
        """One annotated parameter."""
        span = self.source.span(arg)
        match arg.annotation:
            case ast.Name(id=name) if name in DTYPES:
                return Scalar(arg.arg, DTYPES[name], span)
            case ast.Subscript(value=ast.Name(id="Tensor"), slice=ast.Tuple(elts=[ast.Name(id=name), *dims])) if (
                name in DTYPES
            ):
                with self.placed(arg):
                    return Tensor(arg.arg, DTYPES[name], tuple(self.dimension(d) for d in dims), span)
        raise self.error(arg, f'{arg.arg} needs a type: `{arg.arg}: Tensor[bf16, "M", "K"]` or `{arg.arg}: f32`')

    def dimension(self, node: ast.expr) -> str | int:
        """A symbolic extent or a constant one."""
        match node:
            case ast.Constant(value=str() as name):
                if not name.isidentifier():
                    raise self.error(node, f"extent {name!r} is no name")
                check_free(self.source, node, name)
                return name
            case ast.Constant(value=int() as extent) if not isinstance(extent, bool):
                if not 1 <= extent < 2**31:
                    raise self.error(node, f"extent {extent} is not from 1 to 2**31 - 1")
                return extent
        raise self.error(node, "a dimension is a name in quotes or an int")

    # ---------------------------------------------------------------------------------------------------- declarations

    def lookup(self, node: ast.Name) -> object:
        """What a name means above the roles."""
        name = node.id
        if self.in_launch and (name in self.extents or name == "sm_count"):
            return Special(name) if name == "sm_count" else Extent(name)
        if name in self.extents:
            raise self.error(
                node, f"extent {name!r} is known when the kernel runs; above the roles only the launch may use it"
            )
        if name in SPECIALS:
            raise self.error(node, f"{name!r} is known in a role only")
        if name in self.known:
            return self.known[name]
        raise self.error(node, f"unknown name {name!r}{suggest(name, (*self.known, *self.extents))}")

    def lift(self, op: Op, node: ast.Call) -> NoReturn:
        """Primitives run in roles."""
        raise self.error(node, f"{op.opname} runs in a role")

    def new_name(self, node: ast.AST, name: str) -> None:
        """Refuse a name that means something already."""
        check_free(self.source, node, name)
        if name in self.known or name in self.extents:
            raise self.error(node, f"{name!r} is declared twice")

    def declaration(self, node: ast.stmt) -> None:
        """One statement above the roles."""
        match node:
            case ast.Pass():
                return
            case ast.Expr(value=ast.Call(func=ast.Name(id="launch")) as call):
                self.read_launch(call)
            case ast.Assign(targets=[ast.Name(id=name) as target], value=value):
                self.new_name(target, name)
                match value:
                    case ast.Call(func=ast.Name(id=kind)) if kind in _DECLARATIONS:
                        self.known[name] = self.declare(value, kind, name)
                    case _:
                        self.known[name] = self.constant(value)
            case ast.Assign():
                raise self.error(node, "a declaration has one name on its left")
            case ast.Expr():
                raise self.error(node, "only declarations and `launch(...)` stand above the roles")
            case ast.If() | ast.For():
                raise self.error(node, "control flow belongs in a role; above the roles write `a if condition else b`")
            case _:
                raise self.source.unsupported(node)

    def constant(self, node: ast.expr) -> object:
        """A named constant of a schedule."""
        if self.source.canonical:
            raise self.error(node, "a .cake file names no constants: write the value where it is used")
        value = self.value(node)
        if not isinstance(value, int | float | str | tuple):
            raise self.error(node, f"{describe(value)} cannot be named here: only constants and declarations can")
        return value

    def read_launch(self, node: ast.Call) -> None:
        """`launch(ctas=..., ctas_per_sm=...)`."""
        if self.launch is not None:
            raise self.error(node, "a second launch")
        self.in_launch = True
        args = self.arguments(node, "launch", (), {"ctas": REQUIRED, "ctas_per_sm": 1})
        self.in_launch = False
        ctas = self.as_expr(node, args["ctas"])
        self.launch = Launch(ctas, self.as_int(node, args["ctas_per_sm"], "ctas_per_sm"), self.source.span(node))

    def declare(self, node: ast.Call, kind: str, name: str) -> object:
        """`name = kind(...)`."""
        span = self.source.span(node)
        if kind in SUGAR and self.source.canonical:
            raise self.error(node, f"`{kind}` belongs to schedules: {SUGAR[kind]}")
        decl: Decl
        match kind:
            case "smem":
                args = self.arguments(node, kind, ("dtype", "shape"), {"at": REQUIRED, "stages": 1, "swizzle": 0})
                shape = self.as_ints(node, args["shape"], "shape")
                dtype = self.of_kind(node, args, "dtype", DType)
                stages, at, swizzle = self.ints(node, args, "stages", "at", "swizzle")
                decl = Smem(name, dtype, shape, stages, at, swizzle, span)
            case "tensor_map":
                args = self.arguments(node, kind, ("tensor",), {"box": REQUIRED, "swizzle": 0})
                box = self.as_ints(node, args["box"], "box")
                tensor = self.of_kind(node, args, "tensor", Tensor)
                (swizzle,) = self.ints(node, args, "swizzle")
                decl = TensorMap(name, tensor, box, swizzle, span)
            case "mbarrier" | "named_barrier":
                args = self.arguments(node, kind, (), {"arrivals": REQUIRED, "at": REQUIRED, "slots": 1})
                slots, arrivals, at = self.ints(node, args, "slots", "arrivals", "at")
                decl = Barrier(name, kind.removesuffix("_barrier"), slots, arrivals, at, span)
            case "role":
                budget = {} if self.source.canonical else {"registers": 0}
                args = self.arguments(node, kind, (), {"warps": REQUIRED, "instances": 1, **budget})
                warps, instances = self.ints(node, args, "warps", "instances")
                decl = Role(name, warps, instances, span)
                if args.get("registers"):
                    (self.registers[name],) = self.ints(node, args, "registers")
            case _:
                required = dict.fromkeys(("stages", "producer", "consumer", "at"), REQUIRED)
                args = self.arguments(node, kind, (), required)
                stages, at = self.ints(node, args, "stages", "at")
                producer = self.of_kind(node, args, "producer", Role)
                consumer = self.of_kind(node, args, "consumer", Role)
                ring = declare_pipeline(name, stages, producer, consumer, at, self.fresh, span)
                self.decls += [ring.full, ring.empty]
                self.known |= {ring.full.name: ring.full, ring.empty.name: ring.empty}
                return ring
        self.decls.append(decl)
        return decl

    def ints(self, node: ast.Call, args: dict[str, Any], *names: str) -> tuple[int, ...]:
        """Constant arguments, in this order."""
        return tuple(self.as_int(node, args[name], name) for name in names)

    def of_kind(self, node: ast.Call, args: dict[str, Any], name: str, kind: type) -> Any:
        """An argument that must be of one kind."""
        if not isinstance(args[name], kind):
            noun = "type" if kind is DType else kind.__name__.lower()
            raise self.error(node, f"{name} is {describe(args[name])}, not a {noun}")
        return args[name]

    def role_of(self, node: ast.With) -> Role:
        """The role of `with role:` above the roles' bodies."""
        match node.items:
            case [ast.withitem(context_expr=ast.Name(id=name), optional_vars=None)]:
                role = self.known.get(name)
                if isinstance(role, Role):
                    return role
                raise self.error(node, f"{name!r} is no role; declare it above: `{name} = role(warps=4)`")
            case [ast.withitem(optional_vars=ast.expr() as alias)]:
                raise self.error(alias, "`as` is not part of the language: a role's index is `instance`")
        raise self.error(node, "write `with ROLE:`, one role a block")
