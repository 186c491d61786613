"""The fact vocabulary: the relations that exploration derives from a program, with typed columns and units.

It is the stable interface for rules, packs and the distiller. A fact says what a program does (writes, orders, counts,
compares), never that something is wrong. What needs an algorithm (order, congruence, intervals, dataflow) is computed
here once; a clause only selects and compares.

Two kinds of relation matter for negation. An *existential* one ("some explored execution did this") is complete only
when exploration closed. A *universal* one ("every explored execution did this") lacks a tuple only because an explored
execution refuted it, so its negation is always sound. `complete_when` says which: `closed` or `always`.

Loops and ops are named by their path (`cake.core.ir.walk`), other things by their declared name. Every relation is
linear in the size of the program but for the loop pairs and overlaps, which count declarations.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

VOCABULARY_VERSION: Final = 2

#: Column types: what a value names. `op` and `loop` are paths, `int` a number with a unit, `symbol` a closed word.
TYPES: Final = ("op", "loop", "role", "buffer", "barrier", "map", "tensor", "cell", "object", "name", "symbol", "int")
UNITS: Final = (
    "", "bytes", "elements", "threads", "warps", "lanes", "arrivals", "registers", "phases", "groups", "slots",
    "stages", "id", "depth", "dimension", "count", "bit",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its variable-like name, one of `TYPES`, and for `int` one of `UNITS`."""

    name: str
    type: str
    unit: str = ""


@dataclass(frozen=True, slots=True)
class Relation:
    """One relation. `complete_when` is `always` or `closed` (see the module's text)."""

    name: str
    columns: tuple[Column, ...]
    doc: str
    complete_when: str = "always"

    @property
    def arity(self) -> int:
        """Number of columns."""
        return len(self.columns)


def _relation(signature: str, doc: str, complete_when: str = "always") -> Relation:
    """A relation from `name(Column:type, Column:int/unit, ...)`."""
    name, _, rest = signature.partition("(")
    columns = []
    for item in rest.rstrip(")").split(", "):
        column, _, kind = item.partition(":")
        kind, _, unit = kind.partition("/")
        columns.append(Column(column, kind, unit))
    return Relation(name, tuple(columns), doc, complete_when)


_PROGRAM = (
    _relation(
        "role(Role:role, Warps:int/warps, Instances:int/count, FirstWarp:int/warps)",
        "A role, the warps of one instance, its instances, and the CTA's warp index where instance 0 starts.",
    ),
    _relation(
        "op(Op:op, Kind:name, Role:role)",
        "A statement that is a primitive called Kind, in the body of Role.",
    ),
    _relation(
        "opaque(Op:op)",
        "What Op does is declared only in part (`ptx`).",
    ),
    _relation(
        "one_lane(Op:op)",
        "Op stands inside `one_lane()`: one thread of the role instance executes it.",
    ),
    _relation(
        "conditional(Op:op)",
        "Op stands inside an `if`.",
    ),
    _relation(
        "varying(Op:op)",
        "Op stands under a condition or a loop bound that may differ between lanes of a warp.",
    ),
    _relation(
        "collective(Op:op, Scope:symbol)",
        "All threads of the Scope (warp, warpgroup) must execute Op together.",
    ),
    _relation(
        "loop(Op:op, Loop:loop, Depth:int/depth)",
        "Op stands inside Loop, which stands inside Depth other loops.",
    ),
    _relation(
        "next(A:op, B:op)",
        "B may be the next primitive after A in their role, without passing a loop's back edge.",
    ),
    _relation(
        "back(A:op, B:op)",
        "B may be the next primitive after A in their role, over a loop's back edge.",
    ),
    _relation(
        "same_trip(L:loop, M:loop)",
        "L and M have provably the same trip count in corresponding iterations of the loops around them. Symmetric.",
    ),
    _relation(
        "may_skip(L:loop)",
        "The trip count of L is not provably at least 1 (extents are at least 1).",
    ),
    _relation(
        "const(Op:op, Field:name, Value:int)",
        "Operand Field of Op is this integer.",
    ),
    _relation(
        "flag(Op:op, Field:name, Value:symbol)",
        "Operand Field of Op is this word, or true or false.",
    ),
    _relation(
        "index(Op:op, Field:name, Dim:int/dimension, Var:name, Factor:int/elements)",
        "Coordinate Dim of operand Field is a sum in which Var has this factor; Var is a scalar's or special"
        " value's name, or `one` for the constant part. A coordinate that is not such a sum has no tuple.",
    ),
)

_MEMORY = (
    _relation(
        "smem(Buf:buffer, Offset:int/bytes, StageBytes:int/bytes, Stages:int/stages, Swizzle:int/bytes)",
        "A shared-memory region; Offset is that of its first byte, Swizzle the span of its swizzle or 0.",
    ),
    _relation(
        "alignment(Object:object, Factor:int)",
        "The largest power of two, up to 1024, that divides a region's or an mbarrier's offset and stage size"
        " (bytes), a tensor map's inner box bytes, a named barrier's arrivals (threads), or a role's first warp"
        " (warps).",
    ),
    _relation(
        "overlap(A:object, B:object)",
        "Two distinct regions or mbarriers share bytes of shared memory. Symmetric.",
    ),
    _relation(
        "tensor_map(Map:map, Tensor:tensor, BoxBytes:int/bytes, InnerBytes:int/bytes, Swizzle:int/bytes)",
        "A descriptor: the bytes of one box, of the box's innermost dimension, and the span of its swizzle or 0.",
    ),
    _relation(
        "box_extent(Map:map, Dim:int/dimension, N:int/elements)",
        "Extent Dim (0 is outermost) of a map's box.",
    ),
    _relation(
        "uses_map(Op:op, Map:map)",
        "Op moves or prefetches through Map.",
    ),
    _relation(
        "view(Op:op, Field:name, Buf:buffer, Bytes:int/bytes, Alignment:int/bytes)",
        "Operand Field of Op is a box of one stage of Buf: its bytes, and the largest power of two up to 1024"
        " that divides its first byte's offset for every stage and coordinate.",
    ),
    _relation(
        "view_extent(Op:op, Field:name, Dim:int/dimension, N:int/elements)",
        "Extent Dim (0 is outermost) of the box that operand Field names.",
    ),
    _relation(
        "touches(Op:op, Cell:cell, Mode:symbol, Proxy:symbol)",
        "Op reads or writes (Mode) the region, tensor or fragment Cell through the generic or async Proxy.",
    ),
    _relation(
        "outside(Op:op, Buf:buffer)",
        "In some explored execution Op's stage or box lies outside Buf.",
        "closed",
    ),
    _relation(
        "covered(Buf:buffer, Mode:symbol, Bytes:int/bytes)",
        "Distinct bytes of a stage of Buf that any op reads, or writes (Mode), over all explored executions.",
        "closed",
    ),
)

_GLOBAL = (
    _relation(
        "global_access(Op:op, Tensor:tensor, Bytes:int/bytes, Alignment:int/bytes)",
        "Each thread that executes Op accesses Bytes of Tensor in one piece. Alignment is the largest power of two, up"
        " to Bytes, that divides the address whatever the coordinates are, given what the host checks: the tensor and"
        " its rows are aligned to the widest access that threads make to it.",
    ),
    _relation(
        "in_bounds(Op:op, Tensor:tensor)",
        "The `if`s, loop bounds and `when` around Op keep every element that a thread accesses inside Tensor, as"
        " linear arithmetic shows.",
    ),
)

_BARRIERS = (
    _relation(
        "barrier(Bar:barrier, Kind:symbol, Slots:int/slots, Arrivals:int/arrivals, First:int/id, Last:int/id)",
        "A barrier as declared. Kind is mbarrier or named; First and Last are its first and last slot's byte"
        " offset (mbarrier) or hardware id (named). A named barrier's Arrivals are threads.",
    ),
    _relation(
        "id_overlap(A:barrier, B:barrier)",
        "Two distinct named barriers share a hardware id. Symmetric.",
    ),
    _relation(
        "waits(Op:op, Bar:barrier)",
        "Op waits for a phase of a slot of the mbarrier Bar.",
    ),
    _relation(
        "arrives(Op:op, Bar:barrier, Arrivals:int/arrivals)",
        "Op arrives on Bar; Arrivals is how many arrivals one execution makes over all instances of the role.",
    ),
    _relation(
        "expects(Op:op, Bar:barrier, Bytes:int/bytes)",
        "Op raises the bytes that a phase of Bar awaits by Bytes.",
    ),
    _relation(
        "completes(Op:op, Bar:barrier, Bytes:int/bytes)",
        "The copy that Op starts delivers Bytes to Bar.",
    ),
    _relation(
        "syncs(Op:op, Bar:barrier, Threads:int/arrivals, Blocks:symbol)",
        "Op arrives on the named barrier Bar with the Threads of one instance that execute it, an arrival each, and"
        " waits there (Blocks is true) or goes on (false).",
    ),
    _relation(
        "phase(Bar:barrier, State:symbol, Arrivals:int/arrivals, Expected:int/bytes, Delivered:int/bytes)",
        "How a phase of some slot of Bar stood in some explored execution when it completed (State is completed),"
        " or at the end of a run when somebody had arrived on it or bytes were awaited or delivered (State is"
        " standing).",
        "closed",
    ),
    _relation(
        "phase_role(Bar:barrier, Role:role, Arrivals:int/arrivals)",
        "In some explored execution a completed phase of Bar counted this many arrivals from Role.",
        "closed",
    ),
    _relation(
        "net(Loop:loop, Waited:barrier, Arrived:barrier, N:int/phases)",
        "One iteration of Loop by one instance waited N more times on the mbarrier Waited than it arrived on the"
        " mbarrier Arrived, in some explored execution. Values stop at -8 and 8.",
        "closed",
    ),
    _relation(
        "parity(Op:op, Source:symbol)",
        "The parity that Op waits for is a constant (constant) or a value that the program updates (tracked).",
    ),
    _relation(
        "first_parity(Op:op, Value:int/bit)",
        "The parity that Op waits for in its first execution.",
        "closed",
    ),
    _relation(
        "lead(Op:op, N:int/phases)",
        "When Op's wait passed in some explored execution, its slot had completed N more phases than the"
        " executing warp had waited for on that slot before. Values stop at -2 and 3.",
        "closed",
    ),
    _relation(
        "paced(Op:op, Bar:barrier)",
        "Whenever Op arrives, expects or delivers on Bar, the previous phase of that slot is known to be complete.",
    ),
    _relation(
        "lasting(Op:op, Bar:barrier)",
        "Whenever Op waits on Bar, the next phase of that slot completes only after the wait has passed.",
    ),
    _relation(
        "guards(Wait:op, Access:op)",
        "Wait is the latest wait on its mbarrier by the role before Access, in some explored execution, and"
        " Access touches a region with as many stages as that mbarrier has slots, more than one.",
        "closed",
    ),
    _relation(
        "same_slot(Wait:op, Access:op)",
        "Whenever Wait guards Access, the slot waited for is the stage accessed.",
    ),
    _relation(
        "completes_slot(Op:op)",
        "Whenever Op starts a copy into a region with as many stages as its mbarrier has slots, both indices agree.",
    ),
)

_ASYNC = (
    _relation(
        "async(Op:op, Timeline:name, Completion:symbol)",
        "Op starts an asynchronous operation on Timeline, whose end is reached through a barrier or a group"
        " (Completion).",
    ),
    _relation(
        "commits(Commit:op, Start:op)",
        "In some explored execution Commit closes a group that holds Start.",
        "closed",
    ),
    _relation(
        "group_wait(Op:op, Timeline:name, Pending:int/groups, Ends:symbol)",
        "Op waits until at most Pending groups of Timeline are unfinished, for their sources or their results (Ends).",
    ),
    _relation(
        "covers(Wait:op, Start:op, Ends:symbol)",
        "In some explored execution Wait is the first to learn that Start's sources or results (Ends) are done.",
        "closed",
    ),
    _relation(
        "outstanding(Op:op, Timeline:name, N:int/groups)",
        "N groups of Timeline by one issuer were unfinished behind the group wait Op in some explored execution.",
        "closed",
    ),
    _relation(
        "retired(Start:op, Ends:symbol)",
        "Whenever the issuer of Start ends its role, it knows that Start's sources or results (Ends) are done; Start"
        " completes by group.",
    ),
    _relation(
        "register_fenced(Start:op)",
        "Whenever Start begins, its issuer has fenced its timeline's registers since it last touched the"
        " registers that Start uses, other than through the same timeline.",
    ),
    _relation(
        "fences(Op:op, Proxy:symbol)",
        "Op orders the executing threads' accesses before later ones of the proxy, or timeline, Proxy.",
    ),
)

_ORDER = (
    _relation(
        "conflict(A:op, B:op, Cell:cell)",
        "In some explored execution A and later B, adjacent in that order, touch common bytes of the region or"
        " registers of the fragment Cell, and at least one of them writes.",
        "closed",
    ),
    _relation(
        "conflict_kind(A:op, B:op, Kind:symbol)",
        "How A and B of a conflict touch: raw (write, then read), war (read, then write) or waw (both write).",
        "closed",
    ),
    _relation(
        "ordered(A:op, B:op)",
        "Whenever A and B conflict, A has finished, and the threads of B know it, before B begins: the source of"
        " A was consumed if A reads, its result complete if A writes. Only on pairs in `conflict`.",
    ),
    _relation(
        "visible(A:op, B:op)",
        "Whenever A and B conflict, A's generic accesses precede B's in B's proxy: same proxy, or a proxy fence"
        " between. Only on pairs in `conflict`.",
    ),
    _relation(
        "reads_unwritten(Op:op, Cell:cell)",
        "In some explored execution Op reads bytes or registers of Cell that nothing had written.",
        "closed",
    ),
    _relation(
        "supersedes(B:op, A:op, Cell:cell)",
        "In some explored execution B overwrites what A had written to Cell before anything read any of it.",
        "closed",
    ),
)

_RESOURCES = (
    _relation(
        "limit(Name:name, N:int)",
        "A limit of the target (bytes, threads, registers or ids, as Name says).",
    ),
    _relation(
        "uses(Name:name, N:int)",
        "What the program uses of a named limit: smem_bytes, threads, registers (at launch, a CTA),"
        " registers_launch (at launch, a thread), named_barriers (highest id), mbarrier_bytes.",
    ),
    _relation(
        "registers(Op:op, Role:role, Count:int/registers, Action:symbol)",
        "Op sets the registers of each thread of Role to Count, giving some back (dec) or taking some (inc).",
    ),
    _relation(
        "register_total(N:int/registers)",
        "Registers of the CTA when every role holds what its last change asks for, or the launch's where it has none.",
    ),
)

#: Every relation by name, in the order of the documentation.
RELATIONS: Final[dict[str, Relation]] = {
    r.name: r for r in (*_PROGRAM, *_MEMORY, *_GLOBAL, *_BARRIERS, *_ASYNC, *_ORDER, *_RESOURCES)
}

#: Relations whose absent tuples mean "no" even when exploration did not close.
ALWAYS_COMPLETE: Final = frozenset(r.name for r in RELATIONS.values() if r.complete_when == "always")
