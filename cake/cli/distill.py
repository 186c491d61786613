"""`cake distill`: from a failure log to proposal branches."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import click

from cake.cli.app import Group
from cake.cli.output import json_option, plain, print_json, progress, repo_option, style, table
from cake.cli.programs import cake_repo


@click.group(
    cls=Group,
    examples={
        "cake distill run corpus/failures": "the committed log: proposals on branches, and a table of them",
        "cake distill run fresh/records.jsonl --dry-run": "what it would propose; no branch is made",
        "cake proposals list": "what is open afterwards",
    },
)
def distill() -> None:
    """Turn failures into rules: cluster, reduce, near misses, learn, gate, propose."""


@distill.command(
    examples={
        "cake distill run corpus/failures": "propose at most five open branches",
        "cake distill run fresh/records.jsonl --dry-run --json": "the same table as data, without touching git",
    }
)
@click.argument("log", type=click.Path(path_type=Path))
@click.option("--dry-run", is_flag=True, help="Learn and gate, but make no branch.")
@click.option("--max-open", type=click.IntRange(0), default=5, show_default=True, help="Proposals open at one time.")
@repo_option
@json_option
def run(log: Path, dry_run: bool, max_open: int, repo: Path | None, as_json: bool) -> None:
    """Distil LOG, a records file or the folder that holds one.

    Every stage's result stays on disk: an interrupted run continues where it was, and a second run of the same log
    proposes nothing new. The same log and base commit give the same branches, commit for commit. Only a person merges.
    """
    root = cake_repo(repo, "cake distill")
    from distill.pipeline import run as run_pipeline

    with progress("distilling") as step:
        report = run_pipeline(root, log, dry_run=dry_run, max_open=max_open, progress=step)
    if as_json:
        print_json(plain(report))
    else:
        _text(report)


def _text(report: Any) -> None:
    rows = [(r.cluster, str(r.failures), r.rule, r.gates, style(r.branch, bold=True)) for r in report.rows]
    click.echo(table(("cluster", "failures", "rule", "gates", "branch"), rows))


COMMANDS: Final = {"distill": distill}
