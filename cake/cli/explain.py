"""`cake explain`: what a code or a name means, printed from the plugin's own file."""

from __future__ import annotations

from typing import Final

import click

from cake.cli.app import Verb
from cake.cli.output import json_option, print_json, table


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
    text = text_of(plugin)
    if as_json:
        print_json({"kind": plugin.kind, "name": plugin.name, "owner": plugin.owner, "file": plugin.file, "text": text})
    else:
        click.echo(text)


def _summary(value: object) -> str:
    """The first line of what a plugin says about itself."""
    name = getattr(value, "code", None) and getattr(value, "name", None)
    doc = type(value).__doc__ if not isinstance(value, type) else value.__doc__
    return str(name or (doc or "").strip().split("\n")[0])


COMMANDS: Final = {"explain": explain}
