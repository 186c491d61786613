"""`cake proposals`: read what the distiller proposed, run its gates, and take the decisions that are a person's."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import click

from cake.cli.app import Group
from cake.cli.output import json_option, plain, plural, print_json, progress, repo_option, style, table, verdict
from cake.cli.programs import cake_repo
from cake.core.errors import Exit

STATE_COLOUR: Final = {"open": "green", "edited": "cyan", "stale": "yellow", "merged": "blue"}


@click.group(
    cls=Group,
    examples={
        "cake proposals list": "what is open, and what was decided",
        "cake proposals show syn014": "read one: its words, its rule, its gates, its files",
        "cake proposals gate syn014": "run the gates that stand before a merge",
        "cake proposals merge syn014": "merge it, as you",
    },
)
def proposals() -> None:
    """Review what the distiller proposed. NAME is a slug, a branch or a code, or the start of one.

    A proposal is a git branch with a rule, a failing and a repaired program, a test and PROPOSAL.md. Only a person
    merges.
    """


def name_argument(command: Any) -> Any:
    """Add the argument NAME."""
    return click.argument("name")(command)


@proposals.command("list", examples={"cake proposals list --json | jq -r '.proposals[].slug'": "the slugs alone"})
@repo_option
@json_option
def list_(repo: Path | None, as_json: bool) -> None:
    """List open proposals, then decided ones."""
    from distill.review import as_rows, list_proposals

    rows = list_proposals(cake_repo(repo, "cake proposals"))
    if as_json:
        print_json({"proposals": as_rows(rows)})
        return
    if not rows:
        click.echo("no proposals: `cake distill run LOG` makes them")
        return
    cells = [
        (r.code, style(r.state, fg=STATE_COLOUR.get(r.state)), f"{r.gates} {r.report}".strip(), r.branch, r.reason)
        for r in rows
    ]
    click.echo(table(("code", "state", "gates", "branch", ""), cells))


@proposals.command(
    examples={"cake proposals show syn014": "by its code", "cake proposals show syn014 --json": "as data"}
)
@name_argument
@repo_option
@json_option
def show(name: str, repo: Path | None, as_json: bool) -> None:
    """Print one open proposal: PROPOSAL.md, the rule's file, the gates, the files that it adds."""
    from distill.review import show as read

    view = read(cake_repo(repo, "cake proposals"), name)
    if as_json:
        print_json(plain(view))
        return
    click.echo(f"{style(view.row.branch, bold=True)}  {view.row.state}, on {view.row.base[:12]}\n")
    click.echo(f"{view.text.rstrip()}\n\n{style(view.rule.rstrip(), fg='cyan')}\n")
    if view.row.report == "merge":  # PROPOSAL.md holds those of the other tier
        click.echo(f"{_gates(view.gates)}\n")
    click.echo(f"adds {plural(len(view.files), 'file')}:")
    for file in view.files:
        click.echo(f"  {file}")


@proposals.command(examples={"cake proposals gate syn014": "all gates, the whole test suite among them (minutes)"})
@name_argument
@repo_option
@json_option
def gate(name: str, repo: Path | None, as_json: bool) -> None:
    """Run the merge tier of gates on an open proposal and keep the report, without which it cannot be merged.

    Exits 1 when a gate is not `pass`.
    """
    from distill.review import gate as run_gates

    with progress("gate") as step:
        report = run_gates(cake_repo(repo, "cake proposals"), name, step)
    if as_json:
        print_json(plain(report))
    else:
        click.echo(_gates(report.gates))
        click.echo(f"report {report.sha256[:16]} for {report.branch} at {report.tip[:12]}")
    if report.red:
        raise click.exceptions.Exit(Exit.FINDINGS)


@proposals.command(
    examples={"cake proposals merge syn014 --reason 'hangs on the GPU, 12 records'": "merge, and say why"}
)
@name_argument
@click.option("--reason", default="", help="A sentence for the ledger.")
@repo_option
@json_option
def merge(name: str, reason: str, repo: Path | None, as_json: bool) -> None:
    """Merge an open proposal into the branch that is checked out, as the git identity of whoever asks.

    Refused when a gate is red or was not run, when the base has moved, and when the reviewer is the bot.
    """
    from distill.review import merge as decide

    _decided(decide(cake_repo(repo, "cake proposals"), name, reason), as_json)


@proposals.command(examples={"cake proposals reject syn014 --reason 'SYN012 says it better'": "it will not come back"})
@name_argument
@click.option("--reason", required=True, help="Why: the next reader learns from it.")
@repo_option
@json_option
def reject(name: str, reason: str, repo: Path | None, as_json: bool) -> None:
    """Turn an open proposal down. It stays so until new evidence changes the rule."""
    from distill.review import reject as decide

    _decided(decide(cake_repo(repo, "cake proposals"), name, reason), as_json)


def _decided(row: Any, as_json: bool) -> None:
    if as_json:
        print_json(plain(row))
    else:
        why = f": {row.reason}" if row.reason else ""
        click.echo(f"{row.decision} {row.branch} as {row.reviewer}{why}")


def _gates(gates: Any) -> str:
    return table(("gate", "verdict", ""), [(g.gate, verdict(g.verdict), g.detail) for g in gates])


COMMANDS: Final = {"proposals": proposals}
