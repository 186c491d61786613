"""The ledger of decisions: what is written reads back, and nothing that cannot be read is passed over."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from cake.core.errors import CakeError, Exit
from distill.ledger import LEDGER, Decision, append, index, latest, parse

ONE = Decision("a-1", "rule", "rejected", "Ada <ada@x>", "too | wide\nby far", "0123456789abcdef", "cake/rule/a", "")
TWO = replace(ONE, slug="b-2", decision="merged", reason="", report_sha256="ff")


def test_what_is_appended_reads_back_in_order() -> None:
    """Append, then parse, gives the same decisions; a missing last line end costs nothing."""
    text = append(append("", [ONE]).rstrip("\n"), [TWO])
    assert text.count("\n") == 2
    assert parse(text) == (ONE, TWO)


def test_blank_lines_and_later_keys_are_read_over() -> None:
    """A key that a later version writes is dropped, and an empty line is no decision."""
    row = {**json.loads(ONE.line()), "mood": "good"}
    assert parse(f"\n{json.dumps(row)}\n\n") == (ONE,)
    assert parse("") == ()


@pytest.mark.parametrize("broken", ["{", "[1]", "null", '{"slug": "x"}', ONE.line().replace("rejected", "lost")])
def test_a_broken_line_is_named_by_its_number(broken: str) -> None:
    """A line that cannot be read is an error that names it: its decision would be lost otherwise."""
    with pytest.raises(CakeError, match=f"{LEDGER}:2 cannot be read") as caught:
        parse(TWO.line() + broken.strip() + "\n")
    assert caught.value.exit_code == Exit.ENVIRONMENT


def test_an_unknown_decision_is_refused() -> None:
    """Only the known decisions can be written."""
    with pytest.raises(ValueError, match="'maybe' is not one of merged, rejected, superseded"):
        replace(ONE, decision="maybe")


def test_the_last_decision_about_a_slug_stands() -> None:
    """A later line about the same slug wins."""
    again = replace(ONE, decision="merged")
    assert latest([ONE, TWO, again]) == {"a-1": again, "b-2": TWO}


def test_the_index_links_merged_proposals_and_keeps_its_table_whole() -> None:
    """Only a merged proposal has a page to link to; bars and line ends in a reason do not break the table."""
    text = index([ONE, TWO])
    assert "2 decisions: 1 merged, 1 rejected, 0 superseded." in text
    assert "| [b-2](b-2/PROPOSAL.md) | rule | merged |" in text
    assert "| a-1 | rule | rejected | Ada <ada@x> | too \\| wide by far | `cake/rule/a` | `0123456789ab` |" in text
    assert text == index(parse(ONE.line() + TWO.line()))


def test_an_empty_ledger_has_an_index_without_a_table() -> None:
    """Before the first decision the index says so."""
    assert "No decision yet." in index([])
    assert "|" not in index([])
