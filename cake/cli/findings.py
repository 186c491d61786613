"""Findings as text with source lines and carets, as JSON, as SARIF 2.1.0 and as GitHub workflow commands."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from cake.cli.output import plain, style
from cake.core.diagnostics import Finding

#: Lines of a witness that text output shows; the rest is in `--format json`.
WITNESS_LINES = 12


@dataclass(frozen=True, slots=True)
class Located:
    """A finding where its reader looks for it: source `file` and `line` (1-based), `text` of that line, `column`
    (0-based) of the statement, and the configurations in which it occurs."""

    finding: Finding
    file: str
    line: int
    column: int
    text: str
    configs: tuple[str, ...] = ()


def locate(finding: Finding, file: str, sources: Mapping[str, Sequence[str]], config: str = "") -> Located:
    """Place `finding` in the file that its span names, or else in `file`. `sources` caches files' lines by name."""
    name = finding.span.file if finding.span.line else file
    line = finding.span.line or finding.line
    lines = sources.get(name) or sources.get(file, ())
    text = lines[line - 1] if 0 < line <= len(lines) else ""
    column = finding.span.column if finding.span.line else len(text) - len(text.lstrip())
    return Located(finding, name, line, column, text, (config,) if config else ())


def merge(found: Iterable[Located]) -> list[Located]:
    """Findings of several configurations, those that say the same about the same line joined, in order of place."""
    joined: dict[tuple[str, int, str, str], Located] = {}
    for item in found:
        key = (item.file, item.line, item.finding.code, item.finding.message)
        before = joined.get(key)
        if before is None:
            joined[key] = item
        else:
            configs = tuple(dict.fromkeys((*before.configs, *item.configs)))
            joined[key] = Located(before.finding, item.file, item.line, before.column, before.text, configs)
    return sorted(joined.values(), key=lambda i: (i.file, i.line, i.finding.code, i.finding.message))


def display(path: str) -> str:
    """`path` relative to the current directory when it lies below it, as compilers print it."""
    try:
        return str(Path(path).resolve().relative_to(Path.cwd()))
    except ValueError:
        return path


def write_text(item: Located, of_configs: int = 1) -> None:
    """Print one finding for a reader at a terminal: place, code, message, source line with a caret, help, witness."""
    f = item.finding
    head = style(f"{display(item.file)}:{item.line}:", bold=True)
    code = style(f.code, fg="red" if f.blocking else "yellow", bold=True)
    click.echo(f"{head} {code} {style(f.name, bold=True)} {style(f'[{f.category}]', dim=True)}")
    click.echo(f"  {f.message}")
    parts = [
        f"{label} {value}" for label, value in (("role", f.role), ("barrier", f.barrier), ("stage", f.stage)) if value
    ]
    if item.configs and len(item.configs) < of_configs:
        parts.append(f"in {', '.join(item.configs)}")
    if parts:
        click.echo(style(f"  {', '.join(parts)}", dim=True))
    if item.text.strip():
        gutter = len(str(item.line))
        bar = style(f"{'':{gutter}} |", fg="blue")
        indent = len(item.text) - len(item.text.lstrip())
        shown = item.text[indent:].rstrip()
        caret = max(0, item.column - indent)
        click.echo(bar)
        click.echo(f"{style(f'{item.line} |', fg='blue')} {shown}")
        click.echo(f"{bar} {' ' * caret}{style('^' * max(1, len(shown) - caret), fg='red')}")
    if f.help:
        click.echo(f"  {style('help:', fg='green')} {f.help}")
    if f.witness:
        click.echo(f"  {style('witness:', fg='cyan')}")
        for n, step in enumerate(f.witness[:WITNESS_LINES], 1):
            click.echo(f"    {n:>2}. {step}")
        if len(f.witness) > WITNESS_LINES:
            click.echo(f"        ... {len(f.witness) - WITNESS_LINES} more (--format json)")
    click.echo("")


def as_json(item: Located) -> dict[str, Any]:
    """One finding as a JSON object."""
    document: dict[str, Any] = plain(item.finding)
    document.pop("span")
    document["canonical_line"] = document.pop("line")
    return document | {
        "file": display(item.file),
        "line": item.line,
        "column": item.column,
        "configs": list(item.configs),
    }


def github(item: Located) -> str:
    """One finding as a GitHub workflow command, shown on the line of a pull request."""

    def escape(text: str) -> str:
        return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")

    f = item.finding
    title = escape(f"{f.code} {f.name}").replace(":", "%3A").replace(",", "%2C")
    level = "error" if f.blocking else "warning"
    body = escape(f"{f.message}\n{f.help}".strip())
    return f"::{level} file={display(item.file)},line={item.line},col={item.column + 1},title={title}::{body}"


def sarif(items: Sequence[Located], version: str) -> dict[str, Any]:
    """All findings as one SARIF 2.1.0 log (OASIS, Static Analysis Results Interchange Format)."""
    rules = {i.finding.code: i.finding for i in items}
    return {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "cake",
                        "version": version,
                        "rules": [
                            {"id": code, "name": f.name, "shortDescription": {"text": f.name}}
                            for code, f in sorted(rules.items())
                        ],
                    }
                },
                "results": [_result(item) for item in items],
            }
        ],
    }


def _result(item: Located) -> dict[str, Any]:
    f = item.finding
    region = {"startLine": max(1, item.line), "startColumn": item.column + 1}
    return {
        "ruleId": f.code,
        "level": "error" if f.blocking else "warning",
        "message": {"text": f"{f.message}. {f.help}".strip()},
        "locations": [
            {"physicalLocation": {"artifactLocation": {"uri": display(item.file)}, "region": region}},
        ],
        "properties": {"category": f.category.value, "paths": list(f.paths), "configs": list(item.configs)},
    }
