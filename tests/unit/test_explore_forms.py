"""Canonical forms, reductions of counters, and boxes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cake.core.explore_forms import INFINITE, Forms, number
from cake.core.explore_vars import Kind, Reduction, study
from cake.core.ir import I32, Binary, Const, Expr, Extent, Special, Var
from cake.core.order import Memory, Record, inside, meet, remainder, volume
from cake.core.reader import read_program
from tests.cases.verify.programs import RING, edited

K, M = Extent("K"), Extent("M")


def _const(n: int) -> Const:
    return Const(n)


EQUAL = [
    (Binary("+", K, _const(1)), Binary("+", _const(1), K)),
    (Binary("-", Binary("+", K, M), M), K),
    (Binary("*", Binary("+", K, _const(1)), _const(4)), Binary("+", Binary("*", _const(4), K), _const(4))),
    (Binary("//", Binary("*", K, _const(64)), _const(64)), K),
    (Binary("%", Binary("*", K, _const(64)), _const(64)), _const(0)),
    (Binary("min", K, M), Binary("min", M, K)),
]


@pytest.mark.parametrize(("a", "b"), EQUAL)
def test_equal_numbers_have_equal_forms(a: Expr, b: Expr) -> None:
    """Sums and products commute, and exact quotients cancel."""
    forms = Forms()
    assert forms.of(a, {}) == forms.of(b, {})


LEAST = [
    (K, 1),
    (Binary("//", Binary("+", K, _const(63)), _const(64)), 1),
    (Binary("//", K, _const(64)), 0),
    (Binary("*", K, M), 1),
    (Binary("-", K, _const(2)), -1),
    (Binary("-", K, M), INFINITE),
    (Binary("max", Special("cta_id"), K), 1),
    (Binary("min", Special("cta_id"), K), 0),
]


@pytest.mark.parametrize(("expr", "least"), LEAST)
def test_lower_bounds(expr: Expr, least: int) -> None:
    """Extents are at least 1; a difference of unknowns has no bound."""
    forms = Forms()
    form = forms.of(expr, {})
    assert form is not None
    assert forms.least(form) == least


def test_a_scalar_that_changes_has_no_form() -> None:
    """What the scope does not know is not guessed."""
    assert Forms().of(Binary("+", Var("x", I32), _const(1)), {"x": None}) is None
    assert Forms().of(Var("x", I32), {"x": number(3)}) == number(3)


def test_a_fold_keeps_comparisons_and_residues() -> None:
    """Folded values agree with the value on every comparison below `after` and every residue."""
    reduction = Reduction(after=5, period=6)
    for value in range(60):
        folded = reduction.fold(value)
        assert folded < 11
        assert folded % 6 == value % 6
        assert all((folded < c) == (value < c) for c in range(6))


def test_counters_are_reduced_by_their_uses() -> None:
    """Slot and parity of a three-stage ring need the use counter modulo 6; a comparison adds a threshold."""
    use = read_program(RING).roles[1].body
    assert study(use).kept["it"] == Reduction(0, 6)
    threshold = "                if it > 3:\n                    warp_sync()\n                x = ld"
    compared = edited(RING, ("                x = ld", threshold))
    assert study(read_program(compared).roles[1].body).kept["it"] == Reduction(4, 6)
    masked = edited(RING, ("                it = it + 1\n", "                it = it + 1 & 255\n"))
    assert study(read_program(masked).roles[0].body).kept["it"] == Reduction(0, 768)
    exact = edited(RING, ("                it = it + 1\n", "                it = it ^ 5\n"))
    assert study(read_program(exact).roles[0].body).kept["it"] is None


def test_scalars_that_reach_no_effect_are_not_kept() -> None:
    """Coordinates in global memory are not part of a state."""
    load = study(read_program(RING).roles[0].body)
    assert set(load.kept) == {"it"}
    assert load.kinds["t"] is Kind.SYMBOLIC
    assert load.kinds["i"] is Kind.CONCRETE
    assert not load.varying


BOXES = st.tuples(*[st.tuples(st.integers(0, 6), st.integers(1, 4)).map(lambda p: (p[0], p[0] + p[1]))] * 2)


@given(BOXES, st.lists(BOXES, max_size=4))
def test_remainder_partitions(box: tuple[tuple[int, int], ...], covers: list[tuple[tuple[int, int], ...]]) -> None:
    """What is left of a box is disjoint, inside it, outside the covers, and complete."""

    def cells(b: tuple[tuple[int, int], ...]) -> set[tuple[int, int]]:
        return {(x, y) for x in range(*b[0]) for y in range(*b[1])}

    rest = remainder(box, covers)
    union = set().union(*map(cells, rest)) if rest else set()
    assert union == cells(box) - set().union(set(), *map(cells, covers))
    assert len(union) == sum(map(volume, rest))
    assert all(inside(r, box) for r in rest)
    assert all(meet(box, c) == bool(cells(box) & cells(c)) for c in covers)


def test_places_meet_by_box_within_a_region_and_by_byte_across() -> None:
    """Stages of one region are apart, boxes meet when they share an element, aliased regions when they share bytes."""
    program = read_program(edited(RING, ("    A_map", "    b = smem(bf16, (64, 64), at=8192, swizzle=128)\n    A_map")))
    a, b = program.decls[0], program.decls[1]
    memory = Memory()
    whole = [memory.shared_place(a, s, (((0, 64), (0, 64)),), None) for s in range(3)]
    left = memory.shared_place(a, 1, (((0, 64), (0, 16)),), None)
    right = memory.shared_place(a, 1, (((0, 64), (16, 32)),), None)
    alias = memory.shared_place(b, 0, (((0, 64), (0, 64)),), None)
    assert not whole[0].meets(whole[1])
    assert whole[1].covers(left)
    assert not left.meets(right)
    assert alias.meets(whole[1])
    assert not alias.meets(whole[0])
    bit, new = memory.bit(Record(0, left, True, False, 0, ("knower", 0)))
    assert new
    assert whole[1].covered == bit == whole[1].writes == alias.writes
    assert not right.writes
    assert memory.unwritten(whole[1], bit)
    assert not memory.unwritten(left, bit)
