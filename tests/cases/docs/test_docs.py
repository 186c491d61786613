"""The pages for newcomers are true: every file is written, every command is run, every output is compared.

In a page, a fenced block whose info string has `file=PATH` is a file (of kind `diff`: an edit of it), and a `console`
block is a session: lines that start with `$ ` are commands, the lines below them are their output, where `...` stands
for any text.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
FENCE = re.compile(r"^```(\w+)?(?: +file=(\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """One fenced block of a page."""

    language: str
    file: str
    text: str


def blocks(page: Path) -> Iterator[Block]:
    """The fenced blocks of `page`, in order."""
    for match in FENCE.finditer(page.read_text()):
        yield Block(match[1] or "", match[2] or "", match[3])


def patch(old: str, diff: str) -> str:
    """Apply one hunk without a header: its context and removed lines must occur exactly once."""
    lines = diff.splitlines()
    before = "".join(line[1:] + "\n" for line in lines if line[:1] != "+")
    after = "".join(line[1:] + "\n" for line in lines if line[:1] != "-")
    assert old.count(before) == 1, f"the hunk does not fit:\n{diff}"
    return old.replace(before, after)


def session(text: str) -> Iterator[tuple[str, str]]:
    """Commands of a console block with their expected output."""
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, _, output = part.partition("\n")
        yield command, output


def same(expected: str, actual: str) -> bool:
    """Whether `actual` is `expected`, `...` matching anything; blank space at line ends does not count."""

    def trim(text: str) -> str:
        return "\n".join(line.rstrip() for line in text.strip().splitlines())

    pattern = re.escape(trim(expected)).replace(re.escape("..."), "(?:.|\n)*?")
    return re.fullmatch(pattern, trim(actual)) is not None


def needs_extras(command: str) -> bool:
    """Whether `command` compiles or asks the oracle, and cannot here."""
    extras = {"compile": "cuda", "run": "torch"}
    wanted = [extras[word] for word in shlex.split(command)[:2] if word in extras]
    return any(importlib.util.find_spec(name) is None for name in wanted)


@pytest.mark.parametrize("page", ["docs/first-kernel.md", "docs/tour.md"])
def test_page_is_true(page: str, tmp_path: Path) -> None:
    """Following the page from its first block to its last gives exactly what it shows."""
    for folder in ("cake", "corpus", "proposals"):
        (tmp_path / folder).symlink_to(ROOT / folder)
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "COLUMNS": "100"}
    ran = 0
    for block in blocks(ROOT / page):
        path = tmp_path / block.file
        if block.file and block.language == "diff":
            path.write_text(patch(path.read_text(), block.text))
        elif block.file:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text)
        elif block.language == "console":
            for command, expected in session(block.text):
                if needs_extras(command):
                    continue
                done = subprocess.run(
                    ["bash", "-c", command], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
                )
                ran += 1
                assert same(expected, done.stdout + done.stderr), f"$ {command}\n{done.stdout}{done.stderr}"

    assert ran > 0
