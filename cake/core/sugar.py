"""What schedules may write and `.cake` text may not: pipelines, persistent tile loops, register budgets of roles.

Each expands into plain statements, so that a rule or a mutation can point at every cursor, wait and arrival. Core names
no instruction: a primitive says with `sugar` which step it implements, and is found by that.

A pipeline `ring` of S stages keeps two scalars in each role that uses it, the cursor `ring_slot` and its parity
`ring_phase`; the producer starts with parity 1, for which a fresh barrier counts as complete. `advance` flips the
parity when the cursor wraps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from cake.core.ir import (
    I32,
    Assign,
    Barrier,
    BarrierRef,
    Binary,
    Const,
    Expr,
    IRError,
    OneLane,
    OpStmt,
    Role,
    Select,
    Span,
    Special,
    Stmt,
    Var,
)
from cake.core.op import Op
from cake.core.registry import primitives

#: What authors may write in a schedule, and what `.cake` text writes instead.
SUGAR: Final[dict[str, str]] = {
    "pipeline": "declare its two mbarriers and keep slot and phase in scalars",
    "tiles": "write `for tile in range(cta_id, count, cta_count)`",
    "static": "write the unrolled statements",
    "ceil_div": "write `(a + (b - 1)) // b` with the constants folded",
}


def step(name: str) -> type[Op]:
    """The primitive that implements a step of some sugar, such as `barrier.wait`."""
    found = [cls for cls in primitives().values() if cls.sugar == name]
    if len(found) != 1:
        raise IRError(f"the step {name!r} needs one primitive, not {sorted(cls.opname for cls in found)}")
    return found[0]


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A ring of `stages` slots from `producer` to `consumer`, with its barriers."""

    name: str
    stages: int
    producer: Role
    consumer: Role
    full: Barrier
    empty: Barrier


@dataclass(slots=True)
class Cursor:
    """One role's place in a pipeline. `generation` counts the advances read so far: older handles are stale."""

    ring: Pipeline
    role: Role
    slot: Expr
    phase: Var
    generation: int = 0

    def handle(self) -> Handle:
        """The slot where the cursor stands now."""
        return Handle(self, self.generation)

    def start(self, span: Span) -> tuple[Assign, ...]:
        """The scalars as the role's body begins."""
        phase = Assign(self.phase, Const(int(self.role == self.ring.producer)), True, span)
        return (Assign(self.slot, Const(0), True, span), phase) if isinstance(self.slot, Var) else (phase,)

    def wait(self, barrier: Barrier, span: Span) -> Stmt:
        """Block until the current slot of `barrier` has completed the cursor's phase."""
        return OpStmt(_build(step("barrier.wait"), self.ref(barrier), self.phase), span=span)

    def advance(self, span: Span) -> tuple[Stmt, ...]:
        """Move to the next slot."""
        self.generation += 1
        flipped = Binary("^", self.phase, Const(1))
        if not isinstance(self.slot, Var):
            return (Assign(self.phase, flipped, False, span),)
        last = Const(self.ring.stages - 1)
        wrap = Select(Binary("==", self.slot, last), flipped, self.phase)
        after = Select(Binary("<", self.slot, last), Binary("+", self.slot, Const(1)), Const(0))
        return (Assign(self.phase, wrap, False, span), Assign(self.slot, after, False, span))

    def ref(self, barrier: Barrier, slot: Expr | None = None) -> BarrierRef:
        """Slot `slot` of one of the pipeline's barriers, the cursor's own by default."""
        return BarrierRef(barrier, None if barrier.slots == 1 else slot or self.slot)


@dataclass(frozen=True, slots=True)
class Handle:
    """The slot that `acquire` or `wait` returned: usable until the cursor advances."""

    cursor: Cursor
    generation: int

    @property
    def slot(self) -> Expr:
        """The slot's index. Raises `IRError` when the cursor has moved on."""
        if self.generation != self.cursor.generation:
            name = self.cursor.ring.name
            raise IRError(
                f"this slot of {name} was taken before `{name}.advance()` moved on; keep its index in a scalar "
                f"(`previous = slot`) before advancing"
            )
        return self.cursor.slot

    def expect(self, nbytes: int, span: Span) -> Stmt:
        """Arrive on the slot's full barrier, expecting `nbytes`."""
        ref = self.cursor.ref(self.cursor.ring.full, self.slot)
        return OpStmt(_build(step("barrier.expect"), ref, nbytes), span=span)


def declare_pipeline(
    name: str, stages: int, producer: Role, consumer: Role, at: int, fresh: Callable[[str], str], span: Span
) -> Pipeline:
    """A pipeline and its barriers: `stages` full slots from byte `at`, the empty slots behind them."""
    full = Barrier(fresh(f"{name}_full"), "mbarrier", stages, 1, at, span)
    empty = Barrier(fresh(f"{name}_empty"), "mbarrier", stages, consumer.instances, at + 8 * stages, span)
    return Pipeline(name, stages, producer, consumer, full, empty)


def open_cursor(ring: Pipeline, role: Role, fresh: Callable[[str], str]) -> Cursor:
    """`role`'s cursor of `ring`; with one stage the slot is always 0 and needs no scalar."""
    slot: Expr = Var(fresh(f"{ring.name}_slot"), I32) if ring.stages > 1 else Const(0)
    return Cursor(ring, role, slot, Var(fresh(f"{ring.name}_phase"), I32))


def release(cursor: Cursor, slot: Expr, one_lane: bool, span: Span) -> Stmt:
    """One lane of the instance arrives on the empty barrier of `slot`; `one_lane` when one lane runs here anyway."""
    arrive = OpStmt(_build(step("barrier.arrive"), cursor.ref(cursor.ring.empty, slot)), span=span)
    return arrive if one_lane else OneLane((arrive,), span)


def set_registers(registers: int, threads: int, ctas_per_sm: int, span: Span) -> Stmt:
    """Give each thread of a role `registers` registers, in a CTA of `threads` threads, `ctas_per_sm` of them an SM."""
    make: Any = step("role.registers")
    return OpStmt(make.for_role(registers, threads, ctas_per_sm), span=span)


def tile_coordinates(
    tile: Var, rows: Expr, columns: Expr, group: int, fresh: Callable[[str], str]
) -> Sequence[tuple[str, Expr]]:
    """Scalars that turn a tile number into its row and column, the last two being those.

    `group` rows of tiles at a time are walked column by column, so that CTAs that run together share operands in L2;
    with a group of 1 the order is row by row.
    """
    if group == 1:
        return (("", Binary("//", tile, columns)), ("", Binary("%", tile, columns)))
    size = Binary("*", Const(group), columns)
    first = Var(fresh(f"{tile.name}_first"), I32)
    height = Var(fresh(f"{tile.name}_rows"), I32)
    inside = Binary("%", tile, size)
    return (
        (first.name, Binary("*", Binary("//", tile, size), Const(group))),
        (height.name, Binary("min", Binary("-", rows, first), Const(group))),
        ("", Binary("+", first, Binary("%", inside, height))),
        ("", Binary("//", inside, height)),
    )


def tile_range(rows: Expr, columns: Expr) -> tuple[Expr, Expr, Expr]:
    """Start, stop and step of a persistent loop over `rows * columns` tiles."""
    return Special("cta_id"), Binary("*", rows, columns), Special("cta_count")


def _build(cls: type[Op], *operands: object) -> Op:
    make: Callable[..., Op] = cls
    return make(*operands)
