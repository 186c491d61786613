"""`cake explain`: what a code or a name means, printed from the plugin's own file."""

from __future__ import annotations

import inspect
import re
import textwrap
from typing import Any, Final

import click

from cake.cli.app import Verb
from cake.cli.output import json_option, print_json, table
from cake.core.calibration import Calibration
from cake.core.rule import Rule
from cake.core.target import Target


@click.command(
    cls=Verb,
    examples={
        "cake explain SYN001": "a rule: what happens on the machine, its clauses, its evidence, bad and good",
        "cake explain tma_load": "a primitive: operands, events, PTX family, targets",
        "cake explain": "list everything there is to explain",
    },
)
@click.argument("name", required=False)
@json_option
def explain(name: str | None, as_json: bool) -> None:
    """Print any plugin from its own file: a rule, a primitive, a layout, a target or a calibration.

    NAME is what findings print (SYN001, or a rule's long name), or a plugin's name, with or without its kind
    (primitive:tma_load).
    """
    from cake.core import registry

    if name is None:
        rows = [(p.kind, p.name, p.owner, _summary(p.value)) for p in registry.default().plugins()]
        if as_json:
            print_json({"plugins": [dict(zip(("kind", "name", "owner", "summary"), row, strict=True)) for row in rows]})
        else:
            click.echo(table(("kind", "name", "owner", ""), rows))
        return
    from cake.core.explain import explain as text_of

    plugin = registry.default().find(name)
    text = text_of(name)
    if as_json:
        print_json({"kind": plugin.kind, "name": plugin.name, "owner": plugin.owner, "file": plugin.file, "text": text})
    else:
        click.echo(text, nl=False)


def _summary(value: Any) -> str:
    """What a plugin is, in at most a line."""
    match value:
        case Rule():
            return value.name
        case Target():
            return f"limits of a CTA, compiled for {value.nvrtc_arch}"
        case Calibration():
            return value.device
    doc = inspect.getdoc(value if isinstance(value, type) else type(value)) or ""
    return textwrap.shorten(re.split(r"\.\s|\n\n", doc)[0].rstrip("."), 100, placeholder=" ...")


COMMANDS: Final = {"explain": explain}
