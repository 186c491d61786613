"""Options and fixtures that all tests share."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

import pytest

ROOT = Path(__file__).parents[1]


class Golden(Protocol):
    """Compares a text with the golden file that holds it."""

    def __call__(self, path: Path, text: str) -> None: ...


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--update-golden` rewrites golden files instead of comparing with them."""
    parser.addoption("--update-golden", action="store_true", help="rewrite golden files with what the tests produce")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    """Compare with a golden file, or rewrite it under `--update-golden`. A missing one is a failure."""

    def compare(path: Path, text: str) -> None:
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            return
        name = path.relative_to(ROOT)
        assert path.is_file(), f"{name} is missing; write it with: pytest {request.node.nodeid} --update-golden"
        assert path.read_text(encoding="utf-8") == text, (
            f"{name} is stale; pytest {request.node.nodeid} --update-golden"
        )

    return compare
