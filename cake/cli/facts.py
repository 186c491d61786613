"""`cake facts`: what exploration knows of a program, in the vocabulary that rules are written in."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from cake.cli.app import Verb
from cake.cli.output import json_option, print_json, style
from cake.core.errors import CakeError


@click.command(
    cls=Verb,
    examples={
        "cake facts corpus/kernels/gemm_bf16 --about load:3.2.4.2": "everything about one statement",
        "cake facts corpus/kernels/gemm_bf16 --about ring_full": "everything about one barrier",
        "cake facts my_kernel.cake --relation conflict --relation ordered": "two relations, whole",
    },
)
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--config", default="", metavar="NAME", help="Configuration to explore (default: the first).")
@click.option("--about", metavar="NAME", help="Only facts that name this op path, barrier, region, role or tensor.")
@click.option("--relation", "relations", multiple=True, metavar="NAME", help="Only this relation; may be repeated.")
@json_option
def facts(path: Path, config: str, about: str | None, relations: tuple[str, ...], as_json: bool) -> None:
    """Print the facts of a program: what a rule's clauses select from.

    A fact says what the program does, never that something is wrong. docs/reference/facts.md says what each relation
    means. A relation marked `incomplete` may lack facts, so that its absence proves nothing.
    """
    from cake.cli.programs import subjects
    from cake.core.explore import analyse
    from cake.core.registry import targets
    from cake.core.vocabulary import RELATIONS, VOCABULARY_VERSION

    for name in relations:
        if name not in RELATIONS:
            raise CakeError(f"--relation: {name!r} is no relation; docs/reference/facts.md lists them")
    subject = subjects(path, config or "all")[0]
    analysis = analyse(subject.program, targets().get(subject.program.target))
    found = {
        name: sorted((row for row in rows if about is None or about in map(str, row)), key=lambda r: tuple(map(str, r)))
        for name, rows in analysis.facts.items()
        if not relations or name in relations
    }
    found = {name: rows for name, rows in found.items() if rows}
    incomplete = [name for name in RELATIONS if name not in analysis.complete and (not relations or name in relations)]
    if as_json:
        print_json(
            {
                "kernel": subject.name,
                "config": subject.config,
                "vocabulary": VOCABULARY_VERSION,
                "domain": analysis.domain,
                "facts": found,
                "incomplete": incomplete,
            }
        )
        return
    click.echo(style(f"% {subject.label}, vocabulary {VOCABULARY_VERSION}: {analysis.domain}", dim=True))
    for name, rows in found.items():
        for row in rows:
            cells = (str(cell) if isinstance(cell, int) else f'"{cell}"' for cell in row)
            click.echo(f"{name}({', '.join(cells)}).")
    if incomplete:
        click.echo(style(f"% incomplete: {', '.join(incomplete)} ({analysis.reason})", fg="yellow"))


COMMANDS: Final = {"facts": facts}
