"""Which threads execute a statement, and which of them always act together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cake.core.explore_state import Knower, Strand
from cake.core.explore_values import Unresolved, Values
from cake.core.explore_vars import Kind, names_in
from cake.core.ir import Expr, For, If, OneLane, Stmt


def thread_masks(stmts: Sequence[Stmt], values: Values, threads: int, mask: int) -> Iterator[int]:
    """The masks of executing threads that occur in a body, as far as thread indices alone decide them."""
    for stmt in stmts:
        match stmt:
            case OneLane(body=body):
                yield mask & 1
                yield from thread_masks(body, values, threads, mask & 1)
            case If(condition=condition, then=then, other=other):
                chosen = lanes_of(condition, values, threads)
                inner = mask if chosen is None else mask & chosen
                outer = mask if chosen is None else mask & ~chosen
                yield inner
                yield from thread_masks(then, values, threads, inner)
                yield from thread_masks(other, values, threads, outer)
            case For(body=body):
                yield from thread_masks(body, values, threads, mask)


def lanes_of(condition: Expr, values: Values, threads: int) -> int | None:
    """The threads for which a condition on thread indices holds; None when something else decides."""
    v = values.variables
    if not v.varies(condition) or names_in(condition) or v.kind(condition) != Kind.CONCRETE:
        return None
    holds = values.value(condition, "")
    try:
        return sum(1 << t for t in range(threads) if holds([], t))
    except Unresolved:
        return None


def knowers_of(strand: Strand, masks: Sequence[int], first: int) -> tuple[Knower, ...]:
    """The coarsest groups of threads of one warp that every mask takes whole or not at all."""
    found: dict[tuple[int, ...], list[int]] = {}
    for t in range(strand.role.threads):
        found.setdefault((t // 32, *(mask >> t & 1 for mask in masks)), []).append(t)
    return tuple(Knower(first + i, strand.index, key[0], tuple(ts)) for i, (key, ts) in enumerate(found.items()))


def splits_warp(mask: int) -> bool:
    """Whether a mask takes some lanes of a warp and not others."""
    while mask:
        if mask & 0xFFFFFFFF not in (0, 0xFFFFFFFF):
            return True
        mask >>= 32
    return False
