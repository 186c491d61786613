"""The cost model: how long a program should take, from the same primitives that lowering and the simulator read.

`features` adds up what a launch occupies: `Work` of each primitive times how often and by how many it is executed, for
the busiest multiprocessor (the first CTA's, which has the most tiles) and for the device. `predict` makes time of that
with a device's calibration: the launch, its CTAs one after the other, the slowest resource, the waits in sequence.

    time = launch + waves + max(tensor, smem, alu, issue, l2, dram) + sync

Trip counts that depend on data are not modelled: then the model abstains, with the reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from math import ceil, prod
from typing import Any, Final

import numpy as np

from cake.core.calibration import Calibration
from cake.core.errors import CakeError, Exit
from cake.core.events import Collective, GlobalBox, Read, Start, Write
from cake.core.ir import (
    Assign,
    Binary,
    Cast,
    Const,
    Expr,
    Extent,
    For,
    FragmentType,
    If,
    OneLane,
    OpStmt,
    Program,
    Reduce,
    Role,
    Select,
    Special,
    Stmt,
    Tensor,
    Unary,
    Var,
    bodies,
    walk,
)
from cake.core.op import Op, Work
from cake.core.registry import layouts
from cake.core.tree import nodes

#: What a launch occupies: 1; CTAs that follow each other on the busiest SM; that SM's tensor-core operations, bytes
#: through shared memory, operations and instructions of thread code; bytes between SMs and L2; bytes that must come
#: from or go to memory; waits in sequence.
FEATURES: Final = ("launch", "waves", "tensor", "smem", "alu", "issue", "l2", "dram", "sync")
#: Features of which only the slowest shows.
OVERLAPPED: Final = ("tensor", "smem", "alu", "issue", "l2", "dram")

#: Loop bodies that one CTA's count may visit one by one before the model abstains.
_VISITS: Final = 20_000
_SAMPLED_CTAS: Final = 5
_WARP: Final = 32
#: Bytes of a cache line and of the least that a row's start moves by (CUDA Driver API: strides are multiples of 16).
_LINE: Final = 128
_CHUNK: Final = 16
_ISSUERS: Final = {"warp": 32, "warpgroup": 128}


class AbstainError(CakeError):
    """The model cannot say; the message is the reason."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason, Exit.FINDINGS)


@dataclass(frozen=True, slots=True)
class Prediction:
    """`seconds`, with the relative half-width `interval` at the calibration's coverage; `parts` are its terms in
    seconds, `bottleneck` the largest overlapped one."""

    seconds: float
    interval: float
    parts: Mapping[str, float]
    bottleneck: str


def predict(features_of: Mapping[str, float], calibration: Calibration) -> Prediction:
    """The time of a launch with these features."""
    cost = dict(zip(calibration.features, calibration.coefficients, strict=True))
    parts = {name: cost[name] * features_of[name] for name in calibration.features}
    return Prediction(combine(parts), calibration.interval, parts, max(OVERLAPPED, key=lambda n: parts.get(n, 0.0)))


def combine(parts: Mapping[str, float]) -> float:
    """Seconds from the terms: what cannot overlap adds up, of what can the slowest counts."""
    slowest = max(parts.get(name, 0.0) for name in OVERLAPPED)
    return slowest + sum(value for name, value in parts.items() if name not in OVERLAPPED)


def features(program: Program, extents: Mapping[str, int], sm_count: int) -> dict[str, float]:
    """What a launch on a device with `sm_count` multiprocessors occupies, by `FEATURES`. Raises AbstainError."""
    host = {**extents, "sm_count": sm_count}
    ctas = int(_known(evaluate(program.launch.ctas, host), "the grid"))
    sampled = sorted({i * (ctas - 1) // max(_SAMPLED_CTAS - 1, 1) for i in range(_SAMPLED_CTAS)})
    counts = {i: _count_cta(program, {**extents, "cta_id": i, "cta_count": ctas}) for i in sampled}
    first = counts[0]
    share = ceil(ctas / sm_count)
    waves = ceil(share / program.launch.ctas_per_sm)
    traffic = sum(c.total.dram_bytes for c in counts.values()) / len(counts) * ctas
    return {
        "launch": 1.0,
        "waves": float(waves),
        "tensor": first.total.tensor_flops * share,
        "smem": first.total.smem_bytes * share,
        "alu": first.total.alu_flops * share,
        "issue": first.total.issue * share,
        "l2": traffic,
        "dram": float(compulsory_bytes(program, extents)),
        "sync": first.waits * waves,
    }


def compulsory_bytes(program: Program, extents: Mapping[str, int]) -> int:
    """Bytes of the tensors that the program reads, and of those that it writes."""
    touched: set[tuple[str, bool]] = set()
    for at in walk(program):
        for event in at.stmt.op.events() if isinstance(at.stmt, OpStmt) else ():
            match event:
                case Read(cell=GlobalBox(tensor=t)):
                    touched.add((t.name, False))
                case Write(cell=GlobalBox(tensor=t)):
                    touched.add((t.name, True))
                case Start(reads=reads, writes=writes):
                    touched |= {(c.tensor.name, False) for c in reads if isinstance(c, GlobalBox)}
                    touched |= {(c.tensor.name, True) for c in writes if isinstance(c, GlobalBox)}
    size = {
        t.name: t.dtype.bytes * prod(extents[d] if isinstance(d, str) else d for d in t.dims)
        for t in program.of(Tensor)
    }
    return sum(size[name] for name, _ in touched)


# ------------------------------------------------------------------------------------------------------- counting a CTA


def plus(a: Work, b: Work, times: float = 1.0) -> Work:
    """`a` and `times` times `b`."""
    return Work(**{f.name: getattr(a, f.name) + times * getattr(b, f.name) for f in fields(Work)})


@dataclass(frozen=True, slots=True)
class _CtaCount:
    """What one CTA occupies, and the waits in sequence of its role that waits most."""

    total: Work
    waits: float


def _count_cta(program: Program, specials: Mapping[str, int]) -> _CtaCount:
    total, waits = Work(), 0.0
    for body in program.roles:
        work = _Counter(program, body.role, specials).run(body.body)
        total = plus(total, work, body.role.instances)
        waits = max(waits, work.sync / body.role.warps)
    return _CtaCount(total, waits)


#: A variable's value: a number, one for each thread, or None when the count does not know it.
Value = Any


class _Counter:
    """Counts one role instance's work. Values that change from iteration to iteration are unknown, so that a loop body
    is counted once and multiplied, unless a bound in it depends on the loop: then iteration by iteration."""

    def __init__(self, program: Program, role: Role, specials: Mapping[str, int]) -> None:
        self.role = role
        threads = np.arange(role.threads)
        lanes = {"thread_id": threads, "lane_id": threads % _WARP, "warp_id": threads // _WARP, "instance": 0}
        self.specials: dict[str, Value] = {**lanes, **specials}
        self.visits = 0

    def run(self, body: tuple[Stmt, ...]) -> Work:
        """The role's whole body."""
        return self.block(body, {}, self.role.threads)

    def block(self, stmts: tuple[Stmt, ...], env: dict[str, Value], threads: float) -> Work:
        """A statement list executed once by `threads` threads. Bindings go into `env`."""
        total = Work()
        self.visits += 1
        if self.visits > _VISITS:
            raise AbstainError(f"role {self.role.name}: more than {_VISITS} different loop bodies")
        for stmt in stmts:
            match stmt:
                case Assign(target=target, value=value):
                    total = plus(total, self.arithmetic(value, threads))
                    env[target.name] = self.value(value, env)
                case OpStmt(op=op, out=out):
                    total = plus(total, self.primitive(op, env, threads))
                    if out is not None:
                        env[out.name] = None
                case OneLane(body=body):
                    total = plus(total, self.block(body, env, 1))
                case If(condition=condition, then=then, other=other):
                    share = _share(self.value(condition, env))
                    for branch, part in ((then, share), (other, 1 - share)):
                        if part:
                            total = plus(total, self.block(branch, env, threads), part)
                    _forget(env, stmt)
                case For():
                    total = plus(total, self.loop(stmt, env, threads))
        return total

    def loop(self, stmt: For, env: dict[str, Value], threads: float) -> Work:
        """A loop: its body once times the trip count when the body does not depend on the iteration."""
        bounds = [self.value(b, env) for b in (stmt.start, stmt.stop, stmt.step)]
        start, stop, step = (int(_known(b, f"a bound of {stmt.var.name}")) for b in bounds)
        trips = len(range(start, stop, max(step, 1)))
        _forget(env, stmt)
        if not trips:
            return Work()
        try:
            once = self.block(stmt.body, {**env, stmt.var.name: None}, threads)
        except AbstainError:
            total = Work()
            for i in range(start, stop, max(step, 1)):
                total = plus(total, self.block(stmt.body, {**env, stmt.var.name: i}, threads))
            return total
        return plus(Work(), once, trips)

    def primitive(self, op: Op, env: Mapping[str, Value], threads: float) -> Work:
        """One primitive, by everyone who executes it: instructions and waits count a warp, amounts an issuer."""
        scope = next((e.scope for e in op.events() if isinstance(e, Collective)), "")
        when = getattr(op, "when", None)
        share = _share(self.value(when, env)) if when is not None else 1.0
        warps, issuers = ceil(threads / _WARP), threads / _ISSUERS.get(scope, 1)
        work = op.cost()
        amounts = {f.name: getattr(work, f.name) * max(issuers, 1) * share for f in fields(Work)}
        amounts["dram_bytes"] *= self.straddling(op)
        counted = Work(**{**amounts, "issue": work.issue * warps, "sync": work.sync * warps})
        for name in op.kinds:
            operand = getattr(op, name)
            if isinstance(operand, Binary | Unary | Select | Cast | Reduce):
                counted = plus(counted, self.arithmetic(operand, threads * share))
        return counted

    def straddling(self, op: Op) -> float:
        """Lines that the rows of an asynchronously moved box touch, over those that aligned rows would: where the rows
        of a tensor do not start at a line, neither do the box's."""
        for event in op.events():
            for cell in (*event.reads, *event.writes) if isinstance(event, Start) else ():
                if isinstance(cell, GlobalBox):
                    dim, size = cell.tensor.dims[-1], cell.tensor.dtype.bytes
                    pitch = size * (self.specials[dim] if isinstance(dim, str) else dim)
                    width = size * cell.shape[-1]
                    lines = ceil(width / _LINE)
                    return (width + _LINE - _CHUNK) / _LINE / lines if pitch % _LINE else 1.0
        return 1.0

    def arithmetic(self, expr: Expr, threads: float) -> Work:
        """The operations of an expression, an element each."""
        operations = 0.0
        for node in nodes(expr):
            if isinstance(node, Binary | Unary | Select | Cast | Reduce):
                wide = node.operand if isinstance(node, Reduce) else node
                operations += _elements(wide)
        return Work(issue=operations * ceil(threads / _WARP), alu_flops=operations * threads)

    def value(self, expr: Expr, env: Mapping[str, Value]) -> Value:
        """A number, one a thread, or None."""
        return evaluate(expr, {**self.specials, **env})


def _elements(expr: Expr) -> int:
    """Elements of a value that one thread holds."""
    t = expr.type
    if not isinstance(t, FragmentType):
        return 1
    try:
        return layouts()[t.layout].registers(t.shape)
    except (KeyError, ValueError) as error:
        raise AbstainError(f"no layout holds {t}: {error}") from None


def _share(value: Value) -> float:
    """The part of the threads for which a condition holds; of one that is unknown, all."""
    return 1.0 if value is None else float(np.mean(value))


def _forget(env: dict[str, Value], stmt: Stmt) -> None:
    """What a block assigns is unknown from iteration to iteration, and behind it."""
    for node in (n for body in bodies(stmt) for n in nodes(body)):
        if isinstance(node, Assign) and node.target.name in env:
            env[node.target.name] = None


def _known(value: Value, what: str) -> Any:
    if value is None or np.ndim(value):
        raise AbstainError(f"{what} depends on data, on the thread, or on the iteration")
    return value


_OPERATORS: Final[dict[str, Any]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "//": np.floor_divide,
    "%": np.mod,
    "&": np.bitwise_and,
    "|": np.bitwise_or,
    "^": np.bitwise_xor,
    "<<": np.left_shift,
    ">>": np.right_shift,
    "min": np.minimum,
    "max": np.maximum,
    "==": np.equal,
    "!=": np.not_equal,
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
    "and": np.logical_and,
    "or": np.logical_or,
}


def evaluate(expr: Expr, names: Mapping[str, Value]) -> Value:
    """The value of an integer or bool expression with `names` bound; None when it needs an unknown or a float."""
    match expr:
        case Const(value=value):
            return None if isinstance(value, float) else value
        case Var(name=name) | Extent(name=name) | Special(name=name):
            return names.get(name)
        case Binary(op=op, left=left, right=right) if op in _OPERATORS:
            a, b = evaluate(left, names), evaluate(right, names)
            if a is None or b is None or (op in ("//", "%") and not np.all(b)):
                return None
            return _OPERATORS[op](a, b)
        case Unary(op="not", operand=operand):
            value = evaluate(operand, names)
            return None if value is None else np.logical_not(value)
        case Unary(op="-", operand=operand):
            value = evaluate(operand, names)
            return None if value is None else -value
        case Select(condition=condition, then=then, other=other):
            test, a, b = (evaluate(e, names) for e in (condition, then, other))
            chosen: Any = None if test is None or a is None or b is None else np.where(test, a, b)
            return chosen if chosen is None or chosen.ndim else chosen.item()
    return None
