"""`cake distill`: from a failure log to proposal branches."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from cake.cli.app import Group
from cake.cli.findings import display
from cake.cli.output import json_option, plain, plural, print_json, progress, repo_option, style, table
from cake.cli.programs import cake_repo

if TYPE_CHECKING:
    from distill.pipeline import RunReport


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
@click.option("--max-studies", type=click.IntRange(1), help="Groups of failures to study; all, if not given.")
@repo_option
@json_option
def run(log: Path, dry_run: bool, max_open: int, max_studies: int | None, repo: Path | None, as_json: bool) -> None:
    """Distil LOG, a records file or the folder that holds one.

    Every stage's result stays on disk: an interrupted run continues where it was, and a second run of the same log
    proposes nothing new. The same log and base commit give the same branches, commit for commit. Only a person merges.
    """
    root = cake_repo(repo, "cake distill")
    from cake.core.registry import problems
    from distill.pipeline import run as run_pipeline

    for problem in problems():
        click.echo(f"not loaded, so a rule may be missing: {problem}", err=True)
    bounds = {"max_open": max_open, "max_studies": max_studies}
    with progress("distilling") as step:
        report = run_pipeline(root, log, dry_run=dry_run, **bounds, progress=step)
    if as_json:
        print_json(plain(report))
    else:
        _text(report)


def _text(report: RunReport) -> None:
    """The table of proposals, then the rules that explain failures already, by cluster, then what is left and why."""
    skipped = sum(report.skipped.values())
    unread = f", {plural(skipped, 'line')} skipped" if skipped else ""
    failures = sum(n for outcome, n in report.outcomes.items() if outcome != "ok")
    click.echo(f"{plural(report.records, 'record')}, {failures} of them failures{unread}")
    for reason, n in report.skipped.items():
        click.echo(f"  {style('skipped', fg='yellow')} {n}: {reason}")
    proposals = [r for r in report.rows if r.green]
    known = [r for r in report.rows if r.rule and not r.gates]
    left = [r for r in report.rows if not r.green and r not in known]
    if proposals:
        click.echo(f"\n{style('Proposals', bold=True)}")
        header = ("cluster", "failures", "rule", "gates", "branch", "")
        cells = [(r.title, str(r.failures), r.rule, r.gates, style(r.branch, fg="green"), r.note) for r in proposals]
        click.echo(table(header, cells))
    if known:
        by_cluster: dict[str, Counter[str]] = {}
        for r in known:
            by_cluster.setdefault(r.cluster, Counter())[r.rule] += r.failures
        explained = [
            (cluster, str(found.total()), "; ".join(f"{rule} ({n})" for rule, n in found.most_common()))
            for cluster, found in by_cluster.items()
        ]
        click.echo(f"\n{style('Explained already', bold=True)}")
        click.echo(table(("cluster", "failures", "rules"), explained))
    if left:
        counts: Counter[str] = Counter()
        for r in left:
            counts[f"{r.rule}: {r.note}" if r.rule else r.note] += r.failures
        click.echo(f"\n{style('Not explained', bold=True)}")
        click.echo(table(("failures", ""), [(str(n), what) for what, n in counts.most_common()]))
    new = plural(report.proposed, "new proposal") if report.proposed else "nothing new to propose"
    click.echo(f"\n{new}; what led to each result is in {display(report.work)}")
    if proposals:
        click.echo("read them with `cake proposals list` and `cake proposals show NAME`")


COMMANDS: Final = {"distill": distill}
