"""Loops and conditions of one strand: trip counts as choices that strands share.

A loop's trip count is a *choice class*: the canonical form of its bounds, within the classes of the loops around it.
Strands whose loops have the same class replay one another's choices, iteration by iteration. A loop from a constant
with stop `N + c` asks whether element `i - c` of `N` exists, so that a peeled or shortened loop shares the class of
the whole one; so does a condition `i + d < N + c` in its body.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from cake.core.explore_forms import INFINITE, Form, add, multiply
from cake.core.explore_machine import CHOICE, Act, Machine, Number
from cake.core.explore_state import ChoiceClass, LoopInfo, State, Strand
from cake.core.explore_values import Unresolved, Values
from cake.core.explore_vars import Kind
from cake.core.ir import Binary, Expr, For, Unary

Scope: TypeAlias = Mapping[str, Form | None]
Condition: TypeAlias = Callable[[State], bool | None]  #: None: an undecided choice stands in the way


@dataclass(frozen=True, slots=True)
class Header:
    """A loop being compiled: its class, how this strand runs it, its counter's form, and, where only the run
    knows them, its start and (unless that is a choice) its stop."""

    cls: ChoiceClass
    info: LoopInfo
    path: str
    index: Form | None
    bounds: tuple[Number, Number | None] | None = None

    def way(self) -> tuple[tuple[int, ...], bool]:
        """What makes two loops run equally often (their class, less first counter, step), and whether that may be 0."""
        first = self.info.origin - self.info.offset
        skips = self.cls.least <= first if self.cls.exact is None else self.cls.exact <= first
        return (*self.cls.chain, first, self.info.step), skips


class Control:
    """Makes choice classes for one strand."""

    def __init__(self, machine: Machine, strand: Strand, values: Values) -> None:
        self.m, self.strand, self.values = machine, strand, values
        self.seen: dict[tuple[Any, ...], int] = {}

    def _class(self, parents: tuple[Header, ...], key: str, least: int, exact: int | None = None) -> ChoiceClass:
        chain = tuple(h.cls.index for h in parents)
        for cls in self.m.classes:
            if cls.chain[:-1] == chain and cls.key == key:
                return cls
        cls = ChoiceClass(len(self.m.classes), (*chain, len(self.m.classes)), key, least, exact)
        self.m.classes.append(cls)
        return cls

    def header(self, stmt: For, path: str, scope: Scope, parents: tuple[Header, ...]) -> Header:
        """The class of a loop. Loops of one strand with the same key are told apart by their order."""
        forms = self.m.forms
        start, stop, step = (forms.of(e, scope) for e in (stmt.start, stmt.stop, stmt.step))
        values = self.values
        if any(values.variables.varies(e) for e in (stmt.start, stmt.stop, stmt.step)):
            raise Unresolved(f"the trip count of the loop at {path} differs between threads")
        if start is None or stop is None or step is None or forms.least(step) < 1:
            return self._private(stmt, path, step, parents)
        first, last, by = start.number, stop.number, step.number
        if first is not None and last is not None and by is not None:
            key, least, exact, info = f"from {first} to {last} by {by}", 0, last, LoopInfo(0, 0, first, by)
        elif first is not None and by is not None:
            offset = stop.constant
            least, exact = forms.least(stop) - offset, None
            key, info = f"below {stop.symbolic}", LoopInfo(0, 0, first, by, offset)
        else:
            key, info, exact = f"from {start} to {stop} by {step}", LoopInfo(0, 0), None
            least = 1 if forms.least(add(stop, start, -1)) > 0 else 0
        ordinal = self.seen.setdefault((tuple(h.cls.index for h in parents), key), 0)
        self.seen[tuple(h.cls.index for h in parents), key] += 1
        cls = self._class(parents, f"{key} #{ordinal}", least, exact)
        counter = forms.atom(f"@{cls.index}", first if first is not None and first >= 0 else 0)
        index = counter if first is not None and by is not None else add(start, multiply(counter, step))
        return Header(cls, info, path, index)

    def _private(self, stmt: For, path: str, step: Form | None, parents: tuple[Header, ...]) -> Header:
        """A loop whose bounds have no form: it shares its class with no other strand."""
        values = self.values
        cls = self._class(parents, f"only {self.strand.index} {path}", INFINITE)
        concrete = [values.variables.kind(e) == Kind.CONCRETE for e in (stmt.start, stmt.stop)]
        by = step.number if step is not None else None
        if not concrete[0] or by is None or by < 1:
            return Header(cls, LoopInfo(0, 0), path, None)
        stop = values.number(stmt.stop, path) if concrete[1] else None
        return Header(cls, LoopInfo(0, 0, 0, by), path, None, (values.number(stmt.start, path), stop))

    def exists(self, st: State, cls: ChoiceClass, vector: tuple[int, ...], element: int) -> bool | None:
        """Whether `element` of a choice exists; None, with the machine's `choice` set, when that is undecided."""
        if cls.exact is not None:
            return element < cls.exact
        low, high = st.tapes.get((cls.index, vector), (cls.least, None))
        if element < low:
            return True
        if high is not None and element >= high:
            return False
        self.m.choice = (cls.index, vector, element)
        return None

    # --------------------------------------------------------------------------------------------------- conditions

    def condition(self, expr: Expr, path: str, scope: Scope, parents: tuple[Header, ...], at: LoopInfo) -> Condition:
        """A condition that is the same for all threads. `at` is the code range of the statement that asks."""
        if isinstance(expr, Binary) and expr.op in ("and", "or"):
            a = self.condition(expr.left, path, scope, parents, at)
            b = self.condition(expr.right, path, scope, parents, at)
            settles = expr.op == "or"

            def both(st: State) -> bool | None:
                left = a(st)
                return left if left is None or left is settles else b(st)

            return both
        if isinstance(expr, Unary) and expr.op == "not":
            inner = self.condition(expr.operand, path, scope, parents, at)

            def negated(st: State) -> bool | None:
                value = inner(st)
                return None if value is None else not value

            return negated
        if self.values.variables.kind(expr) == Kind.CONCRETE:
            value = self.values.number(expr, f"the condition at {path}")
            return lambda st: bool(value(st))
        form = self.m.forms.of(expr, scope)
        if form is None:
            why = f"the condition at {path} depends on values from memory or on scalars that change"

            def unresolved(st: State) -> bool | None:
                raise Unresolved(why)

            return unresolved
        if form.number is not None:
            known = bool(form.number)
            return lambda st: known
        return self._on_trip(expr, scope, parents) or self._decision(form, parents, at)

    def _on_trip(self, expr: Expr, scope: Scope, parents: tuple[Header, ...]) -> Condition | None:
        """`expr` as the question whether an iteration of an enclosing loop exists, if it is one."""
        if not isinstance(expr, Binary) or expr.op not in ("<", "<=", ">", ">=", "==", "!="):
            return None
        left, right = self.m.forms.of(expr.left, scope), self.m.forms.of(expr.right, scope)
        assert left is not None
        assert right is not None
        for depth, header in enumerate(parents):
            if header.index is None or not header.cls.key.startswith("below "):
                continue
            bound = header.cls.key.removeprefix("below ").rpartition(" #")[0]
            for a, b, op in ((left, right, expr.op), (right, left, _MIRROR[expr.op])):
                rest = add(add(b, a, -1), header.index)  # `a op b` is `counter op rest`
                if str(rest.symbolic) == bound:
                    return self._ask(depth, header, op, rest.constant)
        return None

    def _ask(self, depth: int, header: Header, op: str, offset: int) -> Condition | None:
        shift, negate = {"<": (0, False), "<=": (-1, False), ">=": (0, True), ">": (-1, True)}.get(op, (None, False))
        if shift is None:
            if (
                offset != header.info.offset - 1 or header.info.step != 1
            ):  # only the last iteration is a question about the next one
                return None
            shift, negate, offset = 1, op == "==", header.info.offset
        strand, cls = self.strand.index, header.cls
        delta = shift - offset

        def ask(st: State) -> bool | None:
            loops = st.loops[strand]
            vector = tuple([counter for _, counter, _ in loops[:depth]])
            found = self.exists(st, cls, vector, loops[depth][1] + delta)
            return None if found is None else found is not negate

        return ask

    def _decision(self, form: Form, parents: tuple[Header, ...], at: LoopInfo) -> Condition:
        """A choice of its own, made once for each iteration of the loops whose counters the form mentions."""
        text = str(form)
        depth = max((d + 1 for d, h in enumerate(parents) if f"@{h.cls.index}" in text.replace("*", " ")), default=0)
        cls = self._class(parents[:depth], f"if {text}", 0)
        old = self.strand.infos.get(cls.index)
        if old is None:
            self.strand.infos[cls.index] = at
        else:
            self.strand.infos[cls.index] = LoopInfo(min(old.first, at.first), max(old.last, at.last))
        strand = self.strand.index

        def ask(st: State) -> bool | None:
            vector = tuple([counter for _, counter, _ in st.loops[strand][:depth]])
            return self.exists(st, cls, vector, 0)

        return ask

    # --------------------------------------------------------------------------------------------------------- acts

    def enter(self, header: Header, keep: Callable[[State, int], None], after: int) -> Act:
        """Start the loop."""
        strand, cls, origin = self.strand.index, header.cls, header.info.origin
        zeros = (0,) * len(self.m.net_pairs[strand])
        bounds = header.bounds

        def run(st: State) -> int:
            first = origin
            if bounds is not None:
                first = bounds[0](st)
                if bounds[1] is not None:
                    vector = tuple([counter for _, counter, _ in st.loops[strand]])
                    stop = bounds[1](st)
                    st.tapes[cls.index, vector] = (stop, stop)
            st.loops[strand] = (*st.loops[strand], (cls.index, first, zeros))
            keep(st, first)
            return after

        return run

    def head(self, header: Header, leave: Callable[[State], None], body: int, exits: list[int]) -> Act:
        """Run another iteration or leave."""
        strand, cls, offset = self.strand.index, header.cls, header.info.offset

        def run(st: State) -> int:
            loops = st.loops[strand]
            vector = tuple([counter for _, counter, _ in loops[:-1]])
            found = self.exists(st, cls, vector, loops[-1][1] - offset)
            if found is None:
                return CHOICE
            if found:
                return body
            st.loops[strand] = loops[:-1]
            leave(st)
            return exits[0]

        return run

    def back(self, header: Header, keep: Callable[[State, int], None], head: int) -> Act:
        """Finish an iteration."""
        strand, step = self.strand.index, header.info.step
        pairs = self.m.net_pairs[strand]
        zeros = (0,) * len(pairs)

        def run(st: State) -> int:
            cls, counter, net = st.loops[strand][-1]
            if pairs and self.m.once("net", strand, header.path, net):
                for (waited, arrived), n in zip(pairs, net, strict=True):
                    self.m.fact("net", header.path, waited, arrived, n)
            st.loops[strand] = (*st.loops[strand][:-1], (cls, counter + step, zeros))
            keep(st, counter + step)
            return head

        return run


_MIRROR = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "==": "==", "!=": "!="}
