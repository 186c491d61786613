"""Pairs, their reduction, and programs that do the same in another way."""

from __future__ import annotations

from pathlib import Path

import pytest

from cake.core.corpus import load_corpus_kernel
from cake.core.edits import Edit, edits
from cake.core.explore import analyse
from cake.core.ir import OpStmt, Program, walk
from cake.core.printer import print_program
from cake.core.registry import targets
from distill.alternatives import alternatives
from distill.pair import Pair, pair, places
from distill.reduce import reduce_pair, weight
from distill.repair import touched
from distill.saturate import irregular
from distill.scale import correspondence, scaled
from distill.vary import independent, names_of, renamed, reordered, variants

KERNELS = Path(__file__).parents[2] / "corpus" / "kernels"


@pytest.fixture(scope="module")
def gemm() -> Program:
    """One configuration of the GEMM."""
    return load_corpus_kernel(KERNELS / "gemm_bf16").program("m128n256s4")


@pytest.fixture(scope="module")
def mutants(gemm: Program) -> list[Edit]:
    """All its one-edit neighbours."""
    return list(edits(gemm))


def edit(mutants: list[Edit], path: str, detail: str) -> Program:
    """The neighbour made by one edit."""
    return next(e.program for e in mutants if e.path == path and e.detail.startswith(detail))


def lines(program: Program) -> int:
    """Lines of the canonical text."""
    return print_program(program).count("\n")


# ---------------------------------------------------------------------------------------------------------------- pairs


def test_aligned_pair_gives_back_both_programs(gemm: Program, mutants: list[Edit]) -> None:
    """Reading both programs off the merged tree loses nothing, whatever the edit."""
    for e in mutants[::23]:
        merged = pair(e.program, gemm)

        again = merged.with_items(merged.items)

        assert (again.bad, again.good) == (e.program, gemm), e


def test_difference_of_a_declaration_is_no_difference_of_its_uses(gemm: Program, mutants: list[Edit]) -> None:
    """Where only a declaration differs, every statement is common."""
    merged = pair(edit(mutants, "ring_empty", "arrivals: 2 -> 3"), gemm)

    assert [old.name for old, _ in merged.declared] == ["ring_empty"]
    assert all(item.same for _, items in merged.items for _, item in places(items))


@pytest.mark.parametrize(
    ("path", "detail", "direct", "near"),
    [
        ("load:3.2.4.1", "mbarrier_expect.bytes", {"load:3.2.4.1"}, set()),
        ("ring_empty", "arrivals: 2 -> 3", {"load:3.2.4.0", "math:4.5.8.0.0", "math:4.7.0"}, set()),
        ("load:2", "ring_phase = 1 -> 0", {"load:3.2.4.0"}, {"load:0", "load:3.2.4.2"}),
        ("math:4.7.0", "dropped", set(), {"load:3.2.4.0", "math:4.5.8.0.0"}),
    ],
)
def test_repair_touches(
    gemm: Program, mutants: list[Edit], path: str, detail: str, direct: set[str], near: set[str]
) -> None:
    """A rule may point at the op that the repair changes, at those that it feeds, at those that a missing op serves."""
    found = touched(pair(edit(mutants, path, detail), gemm))

    assert direct <= set(found.direct)
    assert near <= found.all


# ------------------------------------------------------------------------------------------------------------ reduction


def drops_the_wait(p: Pair) -> bool:
    """A judge that needs no simulator: the repair waits for the multiplications, the failing program does not."""
    names = [[x.stmt.op.opname for x in walk(q) if isinstance(x.stmt, OpStmt)] for q in (p.bad, p.good)]
    return names[0].count("wgmma_wait") + 1 == names[1].count("wgmma_wait") and "wgmma" in names[0]


def test_reduction_keeps_only_what_the_judge_asks_for(gemm: Program, mutants: list[Edit]) -> None:
    """The smallest pair still has the difference, and little else."""
    start = pair(edit(mutants, "math:4.5.7", "dropped"), gemm)

    done = reduce_pair(start, drops_the_wait)

    assert drops_the_wait(done.pair)
    assert lines(done.pair.bad) <= 16 < lines(start.bad)
    assert lines(done.pair.good) == lines(done.pair.bad) + 1


def test_reduction_is_deterministic_and_final(gemm: Program, mutants: list[Edit]) -> None:
    """The same pair ends at the same minimum, which reduces no further; every kept step made it less."""
    start = pair(edit(mutants, "math:4.5.7", "dropped"), gemm)
    one, two = reduce_pair(start, drops_the_wait), reduce_pair(start, drops_the_wait)

    again = reduce_pair(one.pair, drops_the_wait)

    assert one == two
    assert weight(one.pair) < weight(start)
    assert again.steps == ()
    assert again.pair == one.pair


def test_reduction_asks_no_more_than_it_may(gemm: Program, mutants: list[Edit]) -> None:
    """A spent budget ends the work with what was reached."""
    start = pair(edit(mutants, "math:4.5.7", "dropped"), gemm)
    asked = []

    done = reduce_pair(start, lambda p: bool(asked.append(p)) or drops_the_wait(p), budget=5)

    assert done.exhausted
    assert len(asked) == done.questions == 5
    assert drops_the_wait(done.pair)


def test_judge_that_accepts_nothing_leaves_the_pair(gemm: Program, mutants: list[Edit]) -> None:
    """Without an accepted step the pair stays as it came."""
    start = pair(edit(mutants, "load:3.2.4.1", "mbarrier_expect.bytes"), gemm)

    assert reduce_pair(start, lambda p: False).pair == start


# ------------------------------------------------------------------------------------------------------ configurations


def test_same_edit_in_another_configuration(gemm: Program, mutants: list[Edit]) -> None:
    """The corresponding statement is edited in the corresponding way."""
    small = load_corpus_kernel(KERNELS / "gemm_bf16").program("m64n256s5")
    bad = edit(mutants, "load:3.2.4.1", "mbarrier_expect.bytes: 49152 -> 49168")

    ((other, good),) = scaled([small], bad, gemm)

    assert good == small
    assert "mbarrier_expect(ring_full[ring_slot], 40976)" in print_program(other)
    assert list(scaled([small], small, gemm)) == []


def test_correspondence_pairs_like_with_like(gemm: Program) -> None:
    """Counterparts are statements of one kind, in order; the last stands for what is unrolled more often here."""
    small = load_corpus_kernel(KERNELS / "gemm_bf16").program("m192n128s4")
    by_path = {x.path: x.stmt for x in walk(small)}

    found = correspondence(gemm, small)

    for x in walk(gemm):
        if isinstance(x.stmt, OpStmt):
            other = by_path[found[x.path]]
            assert isinstance(other, OpStmt)
            assert other.op.opname == x.stmt.op.opname
    assert found["math:4.20.0"] == found["math:4.26.0"] == found["math:4.14.0"]  # two staged stores, not four


# ----------------------------------------------------------------------------------------------------- equal programs


def test_alternatives_are_clean_or_not_explored(gemm: Program) -> None:
    """Every other way to write the kernel that exploration closes refutes nothing that holds of the kernel."""
    target = targets()[gemm.target]
    before = irregular_names(gemm)
    found = {}
    for how, program in alternatives(gemm):
        if analyse(program, target, afterwards=0).closed:
            found[how] = irregular_names(program) - before

    assert found == {
        "load:3.2.4.1: announced in two parts": set(),
        "ring_empty: every thread arrives": set(),
        "load waits once for math": set(),
    }


def irregular_names(program: Program) -> set[str]:
    """Relations that exploration refuted somewhere."""
    from distill.join import Example

    analysis = analyse(program, targets()[program.target])
    return set(irregular(Example("", analysis.facts, analysis.complete)))


def test_variants_keep_every_op_and_are_the_same_every_time(gemm: Program) -> None:
    """Renaming and reordering change the text, not what is done; hypothesis draws the same ones again."""
    before = sorted(x.stmt.op.opname for x in walk(gemm) if isinstance(x.stmt, OpStmt))
    found = list(variants(gemm, 6))

    assert [what for what, _ in found] == [what for what, _ in variants(gemm, 6)]
    assert {what for what, _ in found} == {"renaming", "reordering"}
    for _, program in found:
        assert sorted(x.stmt.op.opname for x in walk(program) if isinstance(x.stmt, OpStmt)) == before
        assert program != gemm


def test_renaming_is_undone_by_renaming_back(gemm: Program) -> None:
    """Names carry no meaning: there and back again is the identity."""
    there = {name: f"x{i}" for i, name in enumerate(names_of(gemm))}
    back = {new: old for old, new in there.items()}

    assert renamed(renamed(gemm, there), back) == gemm


def test_only_independent_statements_change_places(gemm: Program) -> None:
    """Two primitives never swap; an assignment does not pass what reads it."""
    body = gemm.roles[0].body

    assert not independent(body[0], body[0])
    assert independent(body[1], body[2])
    assert reordered(gemm, [0, 0, 0, 0]) == gemm
