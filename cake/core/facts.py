"""Facts that a program's text alone gives, and those that hold unless exploration refuted them.

See `cake.core.vocabulary` for what each relation means. Exploration adds the rest (`cake.core.explore`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from math import gcd
from typing import Any, Final, TypeAlias

from cake.core.bounds import Bounds
from cake.core.events import (
    Arrive,
    Collective,
    Commit,
    Event,
    Expect,
    Fence,
    GlobalBox,
    Opaque,
    Read,
    RegisterFence,
    Registers,
    Start,
    Sync,
    SyncArrive,
    Wait,
    WaitGroup,
    Write,
)
from cake.core.explore_forms import Form, Forms
from cake.core.explore_machine import Machine
from cake.core.explore_vars import fragment_parts, names_in, statements
from cake.core.facts_flow import Flow
from cake.core.ir import (
    BOOL,
    SPECIALS,
    Assign,
    Barrier,
    Const,
    Expr,
    For,
    FragmentType,
    GlobalRef,
    If,
    Located,
    OneLane,
    OpStmt,
    Part,
    Program,
    Role,
    Smem,
    Stmt,
    Tensor,
    TensorMap,
    Var,
    View,
    walk,
)
from cake.core.op import Frag
from cake.core.target import Target

FactBase: TypeAlias = dict[str, set[tuple[str | int, ...]]]
HIGHEST_ALIGNMENT: Final = 1024


def power(*numbers: int) -> int:
    """The largest power of two, up to 1024, that divides all `numbers`."""
    return gcd(HIGHEST_ALIGNMENT, *numbers)


def static_facts(program: Program, target: Target | None, m: Machine) -> FactBase:
    """Every fact that needs no execution. `m` supplies thread counts and loop classes."""
    return _Static(program, target, m).facts


class _Static:
    def __init__(self, program: Program, target: Target | None, m: Machine) -> None:
        self.program, self.target, self.m = program, target, m
        self.facts: FactBase = {}
        self.forms = Forms()
        self.bounds = Bounds(program)
        names = {e.name for s in walk(program) for e in _scalars(s.stmt)}
        self.scope: dict[str, Form | None] = {n: self.forms.atom(n) for n in sorted(names)}
        self.sums = {*self.scope, *SPECIALS, *program.extents}
        self._declarations()
        self._resources()
        outside: set[tuple[str, str]] = set()
        for located in walk(program):
            if isinstance(located.stmt, OpStmt):
                self._op(located, located.stmt)
                for box, size, aligned, inside in self.bounds.accesses(located):
                    self.add("global_access", located.path, box.tensor.name, size, aligned)
                    if not inside:
                        outside.add((located.path, box.tensor.name))
            elif isinstance(located.stmt, Assign):
                self._assign(located, located.stmt)
        self.facts["in_bounds"] = {row[:2] for row in self.facts.get("global_access", ())} - outside
        for body in program.roles:
            Flow(self.facts).block(body.body, f"{body.role.name}:", 0, frozenset())
        self._loops()

    def add(self, relation: str, *row: str | int) -> None:
        self.facts.setdefault(relation, set()).add(row)

    # -------------------------------------------------------------------------------------------------- declarations

    def _declarations(self) -> None:
        p = self.program
        for role in p.of(Role):
            first = p.first_warp(role)
            self.add("role", role.name, role.warps, role.instances, first)
            self.add("alignment", role.name, power(first, role.warps if role.instances > 1 else 0))
        spans: list[tuple[str, int, int]] = []
        for s in p.of(Smem):
            self.add("smem", s.name, s.at, s.stage_bytes, s.stages, s.swizzle)
            self.add("alignment", s.name, power(s.at, s.stage_bytes if s.stages > 1 else 0))
            spans.append((s.name, s.at, s.end))
        for t in p.of(TensorMap):
            inner = t.box[-1] * t.tensor.dtype.bytes
            self.add("tensor_map", t.name, t.tensor.name, t.bytes, inner, t.swizzle)
            self.add("alignment", t.name, power(inner))
            for d, n in enumerate(t.box):
                self.add("box_extent", t.name, d, n)
        ids: list[tuple[str, int, int]] = []
        for b in p.of(Barrier):
            size = 8 if b.kind == "mbarrier" else 1
            self.add("barrier", b.name, b.kind, b.slots, b.arrivals, b.at, b.at + size * (b.slots - 1))
            self.add("alignment", b.name, power(b.at if b.kind == "mbarrier" else b.arrivals))
            (spans if b.kind == "mbarrier" else ids).append((b.name, b.at, b.at + size * b.slots))
        for relation, intervals in (("overlap", spans), ("id_overlap", ids)):
            for one, lo, hi in intervals:
                for other, low, high in intervals:
                    if one != other and lo < high and low < hi:
                        self.add(relation, one, other)

    def _resources(self) -> None:
        p, launch = self.program, self.m.registers
        self.facts["limit"] = set(self.target.limits.items()) if self.target is not None else set()
        self.add("uses", "smem_bytes", p.smem_bytes)
        self.add("uses", "threads", p.threads)
        named = [b.at + b.slots - 1 for b in p.of(Barrier) if b.kind == "named"]
        self.add("uses", "named_barriers", max(named, default=0))
        if launch is not None:
            self.add("uses", "registers_launch", launch)
            self.add("uses", "registers", launch * p.threads)
        last: dict[str, int | None] = {r.name: launch for r in p.of(Role)}
        most = 0
        for located in walk(p):
            for event in located.stmt.op.events() if isinstance(located.stmt, OpStmt) else ():
                if isinstance(event, Registers):
                    last[located.role.name] = event.count
                if isinstance(event, Expect):
                    most = max(most, event.bytes)
        self.add("uses", "mbarrier_bytes", most)
        total = [n * r.threads * r.instances for r in p.of(Role) if (n := last[r.name]) is not None]
        if len(total) == len(p.of(Role)):
            self.add("register_total", sum(total))

    # ---------------------------------------------------------------------------------------------------- statements

    def _op(self, located: Located, stmt: OpStmt) -> None:
        path, op = located.path, stmt.op
        self._place(located, op.opname)
        for name, kind in op.kinds.items():
            self._field(path, name, getattr(op, name))
            value = getattr(op, name)
            if kind != Frag and isinstance(value, Expr):
                for part in fragment_parts(value):
                    self.add("touches", path, _cell_name(part), "read", "generic")
        for event in op.events():
            self._event(located, event)

    def _assign(self, located: Located, stmt: Assign) -> None:
        """An assignment that reads or writes fragments takes part in conflicts: it counts as an op of kind assign."""
        parts = list(fragment_parts(stmt.value))
        written = isinstance(stmt.target.type, FragmentType)
        if not parts and not written:
            return
        self._place(located, "assign")
        for part in parts:
            self.add("touches", located.path, _cell_name(part), "read", "generic")
        if written:
            self.add("touches", located.path, stmt.target.name, "write", "generic")

    def _place(self, located: Located, kind: str) -> None:
        path = located.path
        self.add("op", path, kind, located.role.name)
        prefix, colon, steps = path.partition(":")
        positions = steps.split(".")
        depth = 0
        for i, parent in enumerate(located.parents):
            match parent:
                case OneLane():
                    self.add("one_lane", path)
                case If():
                    self.add("conditional", path)
                case For():
                    self.add("loop", path, prefix + colon + ".".join(positions[: i + 1]), depth)
                    depth += 1
        if path in self.m.lane_varying:
            self.add("varying", path)

    def _field(self, path: str, name: str, value: Any) -> None:
        match value:
            case bool() | Const(value=bool()):
                self.add("flag", path, name, str(bool(value.value if isinstance(value, Const) else value)).lower())
            case int() | Const(value=int()):
                self.add("const", path, name, int(value.value if isinstance(value, Const) else value))
            case str():
                if value.isidentifier():
                    self.add("flag", path, name, value)
            case TensorMap():
                self.add("uses_map", path, value.name)
            case View():
                self._view(path, name, value)
            case GlobalRef():
                self._coordinates(path, name, value.at)
            case tuple() if value and all(isinstance(v, Expr) for v in value):
                self._coordinates(path, name, value)

    def _view(self, path: str, name: str, view: View) -> None:
        b = view.buffer
        strides = [b.dtype.bytes]
        for extent in reversed(b.shape[1:]):
            strides.insert(0, strides[0] * extent)
        terms = [b.at]
        stage = Const(0) if view.stage is None else view.stage
        for expr, stride in ((stage, b.stage_bytes), *zip(view.at, strides, strict=True)):
            form = self.forms.of(expr, self.scope)
            terms += [stride] if form is None else [factor * stride for _, factor in form.terms]
        self.add("view", path, name, b.name, view.bytes, power(*terms))
        for d, n in enumerate(view.shape):
            self.add("view_extent", path, name, d, n)
        self._coordinates(path, name, view.at)

    def _coordinates(self, path: str, name: str, at: Iterable[Expr]) -> None:
        for d, expr in enumerate(at):
            form = self.forms.of(expr, self.scope)
            if form is None or any(len(p) > 1 or (p and p[0] not in self.sums) for p, _ in form.terms):
                continue
            for product, factor in form.terms:
                if abs(factor) < 2**31:
                    self.add("index", path, name, d, product[0] if product else "one", factor)

    # -------------------------------------------------------------------------------------------------------- events

    def _event(self, located: Located, event: Event) -> None:
        path = located.path
        threads = self.m.threads.get(path, {})
        match event:
            case Read(cell=cell, proxy=proxy):
                self.add("touches", path, _cell_name(cell), "read", proxy)
            case Write(cell=cell, proxy=proxy):
                self.add("touches", path, _cell_name(cell), "write", proxy)
            case Start():
                self._start(path, event)
            case WaitGroup(timeline=timeline, pending=pending, sources_only=only):
                self.add("group_wait", path, timeline.name, pending, "sources" if only else "results")
            case Arrive(barrier=ref):
                self.add("arrives", path, ref.barrier.name, sum(threads.values()))
            case Expect(barrier=ref, bytes=amount):
                self.add("expects", path, ref.barrier.name, amount)
            case Wait(barrier=ref, parity=parity):
                self.add("waits", path, ref.barrier.name)
                self.add("parity", path, "tracked" if self._updated(located.role, parity) else "constant")
            case Sync(barrier=ref) | SyncArrive(barrier=ref):
                blocks = "true" if isinstance(event, Sync) else "false"
                self.add("syncs", path, ref.barrier.name, max(threads.values(), default=0), blocks)
            case Fence(proxy=proxy):
                self.add("fences", path, proxy)
            case RegisterFence(timeline=timeline):
                self.add("fences", path, timeline.name)
            case Collective(scope=scope):
                self.add("collective", path, scope)
            case Registers(count=count, increase=increase):
                self.add("registers", path, located.role.name, count, "inc" if increase else "dec")
            case Opaque():
                self.add("opaque", path)
            case Commit():
                pass

    def _start(self, path: str, event: Start) -> None:
        self.add("async", path, event.timeline.name, event.timeline.completion)
        for mode, cells in (("read", event.reads), ("write", event.writes)):
            for cell in cells:
                self.add("touches", path, _cell_name(cell), mode, event.timeline.proxy)
        if event.updates is not None and event.updates != Const(False, BOOL):
            for cell in event.writes:
                self.add("touches", path, _cell_name(cell), "read", event.timeline.proxy)
        if event.done is not None:
            self.add("completes", path, event.done.barrier.name, event.bytes)

    def _updated(self, role: Role, expr: Expr) -> bool:
        """Whether a value may differ between executions: a scalar that is assigned more than once, or a counter."""
        body = next(b for b in self.program.roles if b.role == role)
        assigned: dict[str, list[Expr]] = {}
        counters = set()
        for stmt in statements(body.body):
            match stmt:
                case Assign(target=Var(name=name), value=value):
                    assigned.setdefault(name, []).append(value)
                case For(var=Var(name=name)):
                    counters.add(name)
                case OpStmt(out=Var(name=name)):
                    counters.add(name)

        seen: set[str] = set()
        todo = [expr]
        while todo:
            for name in names_in(todo.pop()) - seen:
                seen.add(name)
                values = assigned.get(name, [])
                if name in counters or len(values) > 1:
                    return True
                todo += values
        return False

    def _loops(self) -> None:
        loops = self.m.loops
        for a, ways in loops.items():
            if any(skips for _, skips in ways):
                self.add("may_skip", a)
            for b, others in loops.items():
                if a != b and len({w for w, _ in (*ways, *others)}) == 1:
                    self.add("same_trip", a, b)


def universal(facts: FactBase, refuted: Mapping[str, set[tuple[Any, ...]]], program: Program) -> None:
    """Add what holds for every explored execution: the candidates that none refuted."""
    tensors = {t.name for t in program.of(Tensor)}
    declared = tensors | {s.name for s in program.of(Smem)}
    conflicts = {row[:2] for row in facts.get("conflict", ())}
    on_barrier = {row[:2] for r in ("arrives", "expects", "completes", "syncs") for row in facts.get(r, ())}
    started = {row[0] for row in facts.get("async", ())}
    grouped = {row[0] for row in facts.get("async", ()) if row[2] == "group"}
    touched = [row for row in facts.get("touches", ()) if row[0] in started]
    stages = {s.name: s.stages for s in program.of(Smem)}
    slots = {b.name: b.slots for b in program.of(Barrier)}
    candidates: dict[str, set[tuple[Any, ...]]] = {
        "ordered": conflicts,
        "visible": conflicts,
        "same_slot": set(facts.get("guards", ())),
        "paced": on_barrier,
        "lasting": set(facts.get("waits", ())),
        "retired": {
            (op, "results" if mode == "write" else "sources")
            for op, cell, mode, _ in touched
            if op in grouped and (mode == "write" or cell not in tensors)
        },
        "register_fenced": {(op,) for op, cell, _, _ in touched if cell not in declared},
        "completes_slot": {
            (op,)
            for op, barrier, _ in facts.get("completes", ())
            for at, _, buffer, *_ in facts.get("view", ())
            if at == op and stages[str(buffer)] == slots[str(barrier)] > 1
        },
    }
    for relation, rows in candidates.items():
        facts[relation] = rows - refuted.get(relation, set())


def _cell_name(cell: object) -> str:
    match cell:
        case View(buffer=buffer):
            return buffer.name
        case GlobalBox(tensor=tensor):
            return tensor.name
        case Part(fragment=fragment):
            return fragment.name
        case Var(name=name):
            return name
    raise TypeError(cell)


def _scalars(stmt: Stmt) -> Iterator[Var]:
    match stmt:
        case Assign(target=target) if not isinstance(target.type, FragmentType):
            yield target
        case For(var=var):
            yield var
        case OpStmt(out=Var() as out):
            yield out
