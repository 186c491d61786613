"""The reference pages say what the registry says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cake.cli import reference
from cake.core import registry

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "reference"


@pytest.mark.parametrize("name", ["README.md", "primitives.md", "facts.md"])
def test_page_is_up_to_date(name: str) -> None:
    """The committed page is what `make docs` writes."""
    assert (FOLDER / name).read_text() == reference.pages()[name], "run: make docs"


def test_rules_page_is_up_to_date() -> None:
    """Every rule on the page is as the registry has it. A rule merged since `make docs` last ran may be missing: a
    proposal adds rules, and may not touch pages that exist."""
    text = (FOLDER / "rules.md").read_text()
    codes = re.findall(r"^## ([A-Z]{3}\d{3}) ", text, flags=re.MULTILINE)

    assert len(codes) >= 12
    assert text == reference.rules_page(registry.rules()[code] for code in codes), "run: make docs"
