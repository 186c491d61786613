"""From a role's body to the flat code of one strand: an act for each event, jumps for control.

Thread masks are resolved here. `one_lane`, and conditions on thread indices alone, decide which threads execute a
statement; threads of one warp that always execute the same statements form a knower. Conditions that are equal for all
threads branch: on kept values at run time, on extents and launch values through a choice that strands share.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from cake.core import explore_sync as sync
from cake.core import explore_touch as touches
from cake.core.events import (
    Arrive,
    Collective,
    Commit,
    Converge,
    Event,
    Expect,
    Fence,
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
from cake.core.explore_cells import Cells
from cake.core.explore_control import Control, Header, Scope
from cake.core.explore_forms import number
from cake.core.explore_machine import CHOICE, Act, Machine, Number, Site
from cake.core.explore_masks import lanes_of, splits_warp
from cake.core.explore_state import LoopInfo, State, Strand
from cake.core.explore_values import Unresolved, Values
from cake.core.explore_vars import Variables, fragment_parts, has_effect, statements
from cake.core.ir import (
    Assign,
    BarrierRef,
    Break,
    Declare,
    Expr,
    For,
    FragmentType,
    If,
    OneLane,
    OpStmt,
    Part,
    Stmt,
    Var,
    View,
    bodies,
)
from cake.core.op import Frag


@dataclass(frozen=True, slots=True)
class Context:
    """Where a statement stands: the executing threads (a mask), what scalars are, the loops around it, where the
    innermost one ends, who runs that, and whether lanes of one warp may differ in reaching the statement."""

    mask: int
    scope: Scope
    parents: tuple[Header, ...] = ()
    exits: list[int] | None = None
    looping: int = 0
    varying: bool = False


class Compiler:
    """Compiles the body of one strand's role."""

    def __init__(self, machine: Machine, strand: Strand, variables: Variables) -> None:
        self.m, self.strand = machine, strand
        self.values = Values(variables, strand.index, strand.instance, strand.role.warps)
        self.control = Control(machine, strand, self.values)
        self.code = strand.code
        self.cells = Cells(machine, strand, self.values)

    def compile(self, body: Sequence[Stmt]) -> None:
        """Fill the strand's code."""
        scope = {"instance": number(self.strand.instance)}
        self._block(body, f"{self.strand.role.name}:", 0, Context((1 << self.strand.role.threads) - 1, scope))

    # --------------------------------------------------------------------------------------------------- statements

    def _block(self, stmts: Sequence[Stmt], prefix: str, base: int, context: Context) -> Context:
        for i, stmt in enumerate(stmts) if context.mask else ():  # what no thread executes does nothing
            context = self._statement(stmt, f"{prefix}{base + i}", context)
        return context

    def _statement(self, stmt: Stmt, path: str, context: Context) -> Context:
        match stmt:
            case Assign():
                return self._assign(stmt, path, context)
            case Declare(target=target):
                site = self._site(path, context)
                whole = self.cells.registers(target)
                self._emit(lambda after: touches.declare(self.m, site, whole, after))
            case OpStmt():
                return self._primitive(stmt, path, context)
            case OneLane(body=body):
                inner = self._block(body, f"{path}.", 0, replace(context, mask=context.mask & 1))
                return replace(context, scope=inner.scope)
            case If():
                return self._if(stmt, path, context)
            case For():
                return self._for(stmt, path, context)
            case Break():
                exits, strand = context.exits, self.strand.index
                assert exits is not None  # `cake.core.scope` refuses a break outside a loop
                if context.mask != context.looping:
                    self._fail(f"the break at {path} is for some threads of its loop, and the others go on")

                def leave(st: State) -> int:
                    st.loops[strand] = st.loops[strand][:-1]
                    return exits[0]

                self.code.append(leave)
        return context

    def _assign(self, stmt: Assign, path: str, context: Context) -> Context:
        target = stmt.target
        if isinstance(target.type, FragmentType):
            site = self._site(path, context)
            self._touch_registers(site, fragment_parts(stmt.value), [target])
            return context
        parts = list(fragment_parts(stmt.value))
        if parts:
            self._touch_registers(self._site(path, context), parts, [])
        slot = self.values.index.get(target.name)
        if slot is not None:
            self._store(target.name, slot, stmt.value, path, context.mask)
        form = self.m.forms.of(stmt.value, context.scope) if target.type.kind in ("int", "uint", "bool") else None
        return replace(context, scope={**context.scope, target.name: form})

    def _store(self, name: str, slot: int, expr: Expr, path: str, mask: int) -> None:
        strand, variables = self.strand.index, self.values.variables
        value = self.values.value(expr, f"{name} at {path}")
        demand = variables.kept[name]
        fold = demand.fold if demand is not None else int
        if name in variables.varying:
            threads = range(self.strand.role.threads)

            def each(after: int) -> Act:
                def run(st: State) -> int:
                    env = st.env[strand]
                    old = env[slot]
                    env[slot] = tuple(
                        [fold(value(env, t)) if mask >> t & 1 else old[t] if old is not None else 0 for t in threads]
                    )
                    return after

                return run

            self._emit(each)
            return

        def one(after: int) -> Act:
            def run(st: State) -> int:
                env = st.env[strand]
                env[slot] = fold(value(env, 0))
                return after

            return run

        self._emit(one)

    def _if(self, stmt: If, path: str, context: Context) -> Context:
        variables = self.values.variables
        if id(stmt) not in variables.effective:
            return replace(context, scope=_without(context.scope, (*stmt.then, *stmt.other)))
        chosen = lanes_of(stmt.condition, self.values, self.strand.role.threads)
        if chosen is not None:
            inner = replace(context, mask=context.mask & chosen, varying=context.varying or splits_warp(chosen))
            self._block(stmt.then, f"{path}.", 0, inner)
            self._block(stmt.other, f"{path}.", len(stmt.then), replace(inner, mask=context.mask & ~chosen))
            return replace(context, scope=_without(context.scope, (*stmt.then, *stmt.other)))
        if variables.varies(stmt.condition):
            self._fail(f"the condition at {path} differs between threads and iterations")
            self._mark(stmt, path)
            return context
        at = LoopInfo(len(self.code), len(self.code) + 1)
        test = self.control.condition(stmt.condition, path, context.scope, context.parents, at)
        here = len(self.code)
        otherwise, end = [0], [0]

        def branch(st: State) -> int:
            holds = test(st)
            return CHOICE if holds is None else here + 1 if holds else otherwise[0]

        self.code.append(branch)
        self._block(stmt.then, f"{path}.", 0, context)
        if stmt.other:
            self.code.append(lambda st: end[0])
        otherwise[0] = len(self.code)
        self._block(stmt.other, f"{path}.", len(stmt.then), context)
        end[0] = len(self.code)
        return replace(context, scope=_without(context.scope, (*stmt.then, *stmt.other)))

    def _for(self, stmt: For, path: str, context: Context) -> Context:
        scope = _without(context.scope, stmt.body)
        after_loop = replace(context, scope={**scope, stmt.var.name: None})
        if not any(has_effect(s, self.values.variables) for s in stmt.body):
            return after_loop
        try:
            header = self.control.header(stmt, path, context.scope, context.parents)
        except Unresolved as reason:
            self._fail(str(reason))
            self._mark(stmt, path)
            return after_loop
        slot, strand = self.values.index.get(stmt.var.name), self.strand.index
        demand = self.values.variables.kept.get(stmt.var.name)

        def keep(st: State, counter: int) -> None:
            if slot is not None:
                st.env[strand][slot] = counter if demand is None else demand.fold(counter)

        def leave(st: State) -> None:
            if slot is not None:
                st.env[strand][slot] = None

        self.m.loops.setdefault(path, set()).add(header.way())
        self.strand.loop_paths[header.cls.index] = path
        header.info.first = len(self.code)
        self.strand.infos[header.cls.index] = header.info
        self._emit(lambda after: self.control.enter(header, keep, after))
        head, exits = len(self.code), [0]
        self.code.append(self.control.head(header, leave, head + 1, exits))
        parents = (*context.parents, header)
        scope = {**scope, stmt.var.name: header.index}
        inner = replace(context, scope=scope, parents=parents, exits=exits, looping=context.mask)
        self._block(stmt.body, f"{path}.", 0, inner)
        self.code.append(self.control.back(header, keep, head))
        exits[0] = header.info.last = len(self.code)
        return after_loop

    # ------------------------------------------------------------------------------------------------------- events

    def _primitive(self, stmt: OpStmt, path: str, context: Context) -> Context:
        site, target = self._site(path, context), self.m.program.target
        self.m.threads.setdefault(path, {})[self.strand.index] = site.threads
        if target not in stmt.op.targets:
            self.m.unknown(f"{stmt.op.opname} at {path} is no instruction of {target}")
        reads = [
            part
            for name, kind in stmt.op.kinds.items()
            if kind != Frag and isinstance(value := getattr(stmt.op, name), Expr)
            for part in fragment_parts(value)
        ]
        events = stmt.op.events()
        writes: list[Expr] = [e.cell for e in events if isinstance(e, Write) and isinstance(e.cell, Var | Part)]
        if stmt.out is not None and isinstance(stmt.out.type, FragmentType):
            writes.append(stmt.out)
        reads += [e.cell for e in events if isinstance(e, Read) and isinstance(e.cell, Var | Part)]
        if reads:
            self._touch_registers(site, reads, [])
        scope = next((e.scope for e in events if isinstance(e, Collective)), "")
        for event in events:
            self._event(event, site, stmt.op.opname if scope else "")
        if writes:
            self._touch_registers(site, [], writes)
        if stmt.out is not None:
            return replace(context, scope={**context.scope, stmt.out.name: None})
        return context

    def _event(self, event: Event, site: Site, collective: str) -> None:
        m = self.m
        match event:
            case Read(cell=View() as view):
                target = self.cells.view(view, site, False, event.by_warp)
                self._emit(lambda after: touches.touch(m, site, target, False, collective, after))
            case Write(cell=View() as view):
                target = self.cells.view(view, site, True, event.by_warp)
                self._emit(lambda after: touches.touch(m, site, target, True, collective, after))
            case Start():
                self._start(event, site)
            case Commit(timeline=timeline):
                self._emit(lambda after: touches.commit(m, site, timeline, after))
            case WaitGroup(timeline=timeline, pending=pending, sources_only=only):
                self._emit(lambda after: touches.wait_group(m, site, timeline, pending, only, after))
            case Arrive(barrier=ref):
                slot = self._slot(ref, site)
                self._arriver(ref, site)
                self._emit(lambda after: sync.arrive(m, site, ref.barrier, slot, after))
                if levels := sync.levels(m, site, arrived=ref.barrier):
                    self._emit(lambda after: sync.count_arrival(m, site, levels, after))
            case Expect(barrier=ref, bytes=amount):
                slot = self._slot(ref, site)
                self._emit(lambda after: sync.expect(m, site, ref.barrier, slot, amount, after))
            case Wait(barrier=ref, parity=parity):
                slot, bit = self._slot(ref, site), self.values.number(parity, f"the parity at {site.path}")
                self._blocks(site, lambda st: f"{ref.barrier.name}[{slot(st)}] parity {bit(st) & 1}")
                self._emit(lambda after: sync.wait(m, site, ref.barrier, slot, bit, after))
            case Sync(barrier=ref) | SyncArrive(barrier=ref):
                slot = self._slot(ref, site)
                self._arriver(ref, site)
                blocks = isinstance(event, Sync)
                act, arrival = sync.sync_arrive(m, site, ref.barrier, slot, blocks, len(self.code) + 1)
                self.code.append(act)
                if blocks:
                    self._blocks(site, lambda st: f"the threads of {ref.barrier.name}[{slot(st)}]")
                    self._emit(lambda after: sync.sync_wait(m, ref.barrier, slot, arrival, after))
            case Fence(proxy="async"):
                self._emit(lambda after: touches.fence(m, site, after))
            case RegisterFence(timeline=timeline):
                self._emit(lambda after: touches.register_fence(m, site, timeline, after))
            case Converge():
                self._emit(lambda after: touches.converge(m, site, after))
            case Registers(count=count, increase=increase):
                if m.registers is not None:
                    self._blocks(site, lambda st: f"{count} registers a thread, {st.pool} in the pool")
                    self._emit(lambda after: sync.set_registers(m, site, count, increase, after))
            case Opaque(reason=reason):
                m.unknown(f"{reason}, at {site.path}")

    def _start(self, event: Start, site: Site) -> None:
        m = self.m
        reads = [t for c in event.reads if (t := self.cells.cell(c, site, False)) is not None]
        writes = [t for c in event.writes if (t := self.cells.cell(c, site, True)) is not None]
        updates = None
        if event.updates is not None:
            updates = self.values.number(event.updates, f"whether {site.path} accumulates")
        done = None
        if event.done is not None:
            ref = event.done
            self._arriver(ref, site)
            done = touches.Done(self._slot(ref, site), ref.barrier.name, event.bytes)
            for target in writes:
                if target.stages == ref.barrier.slots > 1:
                    self.code.append(touches.completes_slot(m, site, target, done, len(self.code) + 1))
        self._emit(lambda after: touches.start(m, site, event.timeline, reads, writes, updates, done, after))

    def _touch_registers(self, site: Site, reads: Sequence[Expr] | Iterator[Expr], writes: Sequence[Expr]) -> None:
        sources = list(dict.fromkeys(reads))
        fragments = 0
        for cell in (*sources, *writes):
            fragments |= self.cells.fragment(cell)
        places = [self.cells.registers(c) for c in sources], [self.cells.registers(c) for c in writes]
        self._emit(lambda after: touches.registers(self.m, site, *places, fragments, after))

    # ------------------------------------------------------------------------------------------------------ plumbing

    def _slot(self, ref: BarrierRef, site: Site) -> Number:
        inner = self.values.number(ref.slot, f"the slot of {ref.barrier.name} at {site.path}")
        slots, what = ref.barrier.slots, f"{site} names a slot of {ref.barrier.name} outside its {ref.barrier.slots}"

        def checked(st: State) -> int:
            number = inner(st)
            if not 0 <= number < slots:
                raise Unresolved(what)
            return number

        return checked if ref.slot is not None else inner

    def _mark(self, stmt: Stmt, path: str) -> None:
        """Everything in `stmt` is reached by some lanes only."""
        offset = 0
        for body in bodies(stmt):
            for i, inner in enumerate(body):
                self.m.lane_varying.add(f"{path}.{offset + i}")
                self._mark(inner, f"{path}.{offset + i}")
            offset += len(body)

    def _arriver(self, ref: BarrierRef, site: Site) -> None:
        slot = 0 if ref.slot is None else self.values.constant(ref.slot)
        self.m.arriver(ref.barrier, slot if slot is None or 0 <= slot < ref.barrier.slots else None, site.execs)

    def _site(self, path: str, context: Context) -> Site:
        if context.varying:
            self.m.lane_varying.add(path)
        self.strand.paths.append(path)
        execs = tuple(k for k in self.strand.knowers if context.mask >> k.threads[0] & 1)
        return Site(self.strand, len(self.strand.paths) - 1, path, execs, context.mask.bit_count())

    def _blocks(self, site: Site, what: Callable[[State], str]) -> None:
        self.strand.waits[len(self.code)] = (site.path, what)

    def _emit(self, make: Callable[[int], Act]) -> None:
        self.code.append(make(len(self.code) + 1))

    def _fail(self, reason: str) -> None:
        def fail(st: State) -> int:
            raise Unresolved(reason)

        self.code.append(fail)


def _without(scope: Scope, stmts: Sequence[Stmt]) -> Scope:
    """What is still known about scalars behind statements that may or may not have run."""
    assigned = set()
    for stmt in statements(stmts):
        match stmt:
            case Assign(target=Var(name=name)) | OpStmt(out=Var(name=name)) | For(var=Var(name=name)):
                assigned.add(name)
    return {**scope, **dict.fromkeys(assigned)}
