"""Print and read are inverse; the reader answers any text with a program or a reason."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from cake.core.ir import IRError, OpStmt, Program, walk
from cake.core.printer import print_program, print_stmt, program_lines
from cake.core.reader import read_program, read_schedule
from cake.core.registry import primitives
from tests.prop.strategies import programs

SLOW = settings(
    max_examples=100,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
    phases=(Phase.explicit, Phase.generate),
)


def accepted(text: str) -> Program | None:
    """The program that `text` reads as, or None when it is refused at a place with a reason."""
    try:
        return read_program(text, "a.cake")
    except IRError as error:
        placed = error.span.file == "a.cake" and error.span.line >= 1
    assert placed
    return None


@SLOW
@given(programs())
def test_reading_inverts_printing(program: Program):
    """read(print(p)) is p, and print(read(text)) is the text; paths, lines and spans agree about every statement."""
    text = print_program(program)
    again = read_program(text, "a.cake")

    assert again == program
    assert print_program(again) == text
    assert text.isascii()

    lines, places = text.splitlines(), program_lines(program)

    assert list(places) == [located.path for located in walk(program)]
    for located in walk(again):
        assert located.stmt.span.line == places[located.path]
        assert lines[places[located.path] - 1].strip() == print_stmt(located.stmt)


@SLOW
@given(programs())
def test_canonical_text_is_a_schedule(program: Program):
    """Read as a schedule, canonical text is folded once: folding again changes nothing."""
    try:
        folded = read_schedule(print_program(program), {})
    except IRError:
        return  # a constant expression without a value, such as a division by zero

    assert read_schedule(print_program(folded), {}) == folded


@pytest.mark.parametrize("name", sorted(primitives()))
def test_strategies_reach_every_primitive(name: str):
    """Every primitive in the registry finds operands in the programs that the strategies draw."""
    seen: set[str] = set()

    @settings(SLOW, max_examples=20)
    @given(programs(ops=[primitives()[name]]))
    def collect(program: Program) -> None:
        seen.update(located.stmt.op.opname for located in walk(program) if isinstance(located.stmt, OpStmt))

    collect()

    assert seen == {name}


SOUP = (*"()[]:=,.-1\n", "    ", "if", "else", "for", "in", "range", "with", "one_lane()")


@SLOW
@given(programs(), st.data())
def test_damaged_text_is_refused_or_read(program: Program, data: st.DataObject):
    """Text damaged anywhere reads as some program or is refused at a line: nothing else escapes."""
    text = print_program(program)
    at = data.draw(st.integers(0, len(text)))
    gone = data.draw(st.integers(0, 12))
    put = data.draw(st.lists(st.sampled_from(SOUP), max_size=3).map("".join))
    again = accepted(text[:at] + put + text[at + gone :])

    assert again is None or read_program(print_program(again)) == again


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.text())
@example("\0")
@example("\ud800")
@example("def f(): pass")
def test_any_text_is_refused_with_a_reason(text: str):
    """No text crashes the reader."""
    assert accepted(text) is None or text.startswith("@schedule")
