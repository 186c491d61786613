"""What an event touches, as places: views of shared memory evaluated for each group of threads, and registers."""

from __future__ import annotations

from collections.abc import Sequence

from cake.core.events import Cell, GlobalBox
from cake.core.explore_machine import Machine, Number, Site
from cake.core.explore_state import Knower, State, Strand
from cake.core.explore_touch import Target
from cake.core.explore_values import Unresolved, Values
from cake.core.explore_vars import view_exprs
from cake.core.ir import Expr, FragmentType, Part, Var, View
from cake.core.order import Box, Place


class Cells:
    """Resolves the cells of one strand's events."""

    def __init__(self, machine: Machine, strand: Strand, values: Values) -> None:
        self.m, self.strand, self.values = machine, strand, values
        self.fragments: dict[str, int] = {}

    def cell(self, cell: Cell, site: Site, write: bool) -> Target | None:
        """What an asynchronous operation touches. Global boxes are not compared; writing one is still an end to
        reach."""
        if isinstance(cell, View):
            return self.view(cell, site, write, False)
        if isinstance(cell, GlobalBox):
            if not write:
                return None
            place = self.m.memory.token_place(cell.tensor.name)
            return Target((), lambda st: [(place, site.execs)])
        place = self.registers(cell)
        return Target((), lambda st: [(place, site.execs)], fragment=self.fragment(cell))

    def view(self, view: View, site: Site, write: bool, by_warp: bool) -> Target:
        """A view of shared memory, for each group of threads; with `by_warp`, each warp's share of its rows."""
        exprs = view_exprs(view)
        uses = self.values.uses(*exprs)
        what = f"the view of {view.buffer.name} at {site.path}"
        functions = [self.values.value(e, what) for e in exprs]
        has_stage, strand, warps = view.stage is not None, self.strand.index, self.strand.role.warps
        varies = any(self.values.variables.varies(e) for e in exprs)
        memory = self.m.memory

        def corner(st: State, thread: int) -> tuple[int, Box]:
            numbers = [f(st.env[strand], thread) for f in functions]
            stage = numbers.pop(0) if has_stage else 0
            return stage, tuple([(c, c + n) for c, n in zip(numbers, view.shape, strict=True)])

        def place_of(st: State, k: Knower) -> Place:
            if varies:
                corners = [corner(st, t) for t in k.threads]
                stages = {s for s, _ in corners}
                if len(stages) > 1:
                    raise Unresolved(f"{what} has a stage that differs between threads")
                lanes = tuple([box for _, box in corners])
                boxes = tuple(sorted(set(lanes)))
                return memory.shared_place(view.buffer, stages.pop(), boxes, lanes if len(boxes) > 1 else None)
            stage, box = corner(st, k.threads[0])
            if by_warp:
                low, rows = box[0][0], view.shape[0]
                box = ((low + rows * k.warp // warps, low + rows * (k.warp + 1) // warps), *box[1:])
            return memory.shared_place(view.buffer, stage, (box,), None)

        def places(st: State) -> Sequence[tuple[Place, tuple[Knower, ...]]]:
            found: dict[int, tuple[Place, list[Knower]]] = {}
            for k in site.execs:
                place = place_of(st, k)
                if place.loose:
                    text = f"{site} touches {view.buffer.name} outside its stages or its shape"
                    self.m.first("outside", (site.path, view.buffer.name), st, text)
                found.setdefault(id(place), (place, []))[1].append(k)
            return [(place, tuple(ks)) for place, ks in found.values()]

        stage_number: Number | None = None
        at: int | None = 0
        if has_stage:
            stage_number = self.values.number(view.stage, what)
            at = self.values.constant(view.stage)
        for k in site.execs:
            self.m.touched_by[k.index].add((view.buffer.name, at, write))
        return Target(uses, places, view.buffer.name, view.buffer.stages, stage_number)

    def registers(self, cell: Expr) -> Place:
        """The place of a fragment, or of a part of one."""
        fragment = cell.fragment if isinstance(cell, Part) else cell
        assert isinstance(fragment, Var)
        assert isinstance(fragment.type, FragmentType)
        box = [(0, n) for n in fragment.type.shape]
        if isinstance(cell, Part):
            if cell.count is None:
                box[0] = (cell.start, cell.start + 1)
            else:
                box[-1] = (cell.start, cell.start + cell.count)
        place = self.m.memory.register_place(fragment.name, fragment.type.shape, self.strand.index, tuple(box))
        for k in self.strand.knowers:
            self.m.touched_by[k.index].add((*place.space, True))
        return place

    def fragment(self, cell: Expr) -> int:
        """The bit of the fragment that `cell` is or is part of."""
        name = cell.fragment.name if isinstance(cell, Part) else cell.name if isinstance(cell, Var) else ""
        return 1 << self.fragments.setdefault(name, len(self.fragments))
