"""The good programs: canonical, clean, and right under every order."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from cake.core.compile import compile_program
from cake.core.corpus import CleanProgram, clean_programs, good_programs, load_corpus
from cake.core.diagnostics import Verdict
from cake.core.lower import lower
from cake.core.printer import print_program
from cake.core.verify import check
from distill.oracle import Problem, reference

FOLDER = Path(__file__).parents[2] / "corpus" / "good"
GOOD = good_programs()


@pytest.mark.parametrize(("clean", "extents"), GOOD, ids=[c.family for c, _ in GOOD])
def test_a_good_program_is_right(clean: CleanProgram, extents: Mapping[str, int]) -> None:
    """Its text is canonical, no rule objects, it compiles, and every order gives the same."""
    program = clean.program
    assert print_program(program) == (FOLDER / f"{clean.family}.cake").read_text()
    assert {g.verdict for g in check(program).gates} == {Verdict.PASS}
    assert compile_program(lower(program))[0].findings == ()
    assert reference(program, Problem(extents, {})) is not None


def test_the_clean_corpus_is_the_kernels_and_the_good_programs() -> None:
    """Families are kernels and idioms."""
    configs = sum(len(k.configs) for k in load_corpus())
    assert len(clean_programs()) == configs + len(GOOD)
    assert {c.family for c in clean_programs()} == {k.name for k in load_corpus()} | {c.family for c, _ in GOOD}
