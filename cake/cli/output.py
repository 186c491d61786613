"""What verbs print: JSON documents, tables, styled text; colour only on a terminal, progress only on stderr."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Final, TypeVar

import click

SCHEMA: Final = 1  #: version of every JSON document that the command line prints
F = TypeVar("F", bound=Callable[..., Any])

#: What each verdict looks like, in a terminal.
VERDICT_COLOUR: Final = {"pass": "green", "fail": "red", "unknown": "yellow"}


def json_option(command: F) -> F:
    """Add `--json`, passed on as `as_json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of text.")(command)


def repo_option(command: F) -> F:
    """Add `--repo PATH`, passed on as `repo`."""
    return click.option(
        "--repo",
        type=click.Path(path_type=Path, file_okay=False),
        help="The Cake repository to work on (default: the one around the current directory).",
    )(command)


def plain(value: Any) -> Any:
    """`value` as JSON data: dataclasses become objects, enums their values, tuples lists, sets sorted lists."""
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, (set, frozenset)):
        return sorted((plain(v) for v in value), key=repr)
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if isinstance(value, Path):
        return str(value)
    return value


def print_json(document: dict[str, Any]) -> None:
    """Print one JSON document, with the schema version first."""
    click.echo(json.dumps({"schema": SCHEMA} | plain(document), indent=2, allow_nan=False, default=str))


def colour(stream: Any) -> bool:
    """Whether `stream` is a terminal that wants colour (https://no-color.org)."""
    return bool(stream.isatty()) and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"


def style(text: str, **how: Any) -> str:
    """`text` in a style of `click.style` when stdout is a terminal, else as it is."""
    return click.style(text, **how) if colour(sys.stdout) else text


def stderr_style(text: str, **how: Any) -> str:
    """`style`, for stderr."""
    return click.style(text, **how) if colour(sys.stderr) else text


def verdict(word: str, width: int = 0) -> str:
    """A verdict in its colour, padded to `width`."""
    return style(f"{word:<{width}}", fg=VERDICT_COLOUR.get(word), bold=word == "fail")


def table(header: Sequence[str], rows: Iterable[Sequence[str]], indent: str = "") -> str:
    """Left-aligned columns two spaces apart; the last column is not padded. Cells may be styled."""
    cells = [list(header), *[list(row) for row in rows]]
    widths = [max(len(click.unstyle(row[i])) for row in cells) for i in range(len(header))]
    lines = []
    for n, row in enumerate(cells):
        padded = [cell + " " * (width - len(click.unstyle(cell))) for cell, width in zip(row, widths, strict=True)]
        line = indent + "  ".join(padded).rstrip()
        lines.append(style(line, dim=True) if n == 0 else line)
    return "\n".join(lines)


def plural(n: int, noun: str, many: str | None = None) -> str:
    """`1 finding`, `2 findings`; `many` names an irregular plural."""
    return f"{n} {noun}" if n == 1 else f"{n} {many or noun + 's'}"


@contextmanager
def progress(what: str, total: int | None = None) -> Iterator[Callable[[str], None]]:
    """A bar on stderr while the body runs: call the yielded function with a word on each step done.

    `total` is the number of steps, None when it is not known. Off a terminal nothing is drawn and rich not imported.
    """
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = [SpinnerColumn(), TextColumn("{task.description}")]
    columns += [] if total is None else [BarColumn(bar_width=24), MofNCompleteColumn()]
    with Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield lambda word: bar.update(task, advance=1, description=f"{what} {word}".rstrip())
