"""`cake packs`: rule packs of other teams, found without importing them and loaded only as the lock file admits."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import click

from cake.cli.app import Group
from cake.cli.output import json_option, plain, print_json, repo_option, style, table, verdict
from cake.core.diagnostics import Verdict
from cake.core.errors import Exit

STATE_COLOUR: Final = {
    "loaded": "green",
    "unlocked": "yellow",
    "changed": "red",
    "untrusted": "yellow",
    "broken": "red",
}


@click.group(
    cls=Group,
    examples={
        "cake packs list": "what is installed, importing none of it",
        "cake packs check descriptors": "run our gates on its rules before locking it",
        "cake packs lock descriptors": "admit exactly what is installed now",
        "cake packs trust descriptors --sha256 HASH": "also let its code run (packs with code only)",
    },
)
def packs() -> None:
    """List, check, lock and trust rule packs.

    A pack is an ordinary distribution: install it with pip. A declarative pack is data and loads once its hash is
    locked; a pack with code loads once that exact hash is trusted. What changed since then stays out, and is reported.
    """


lock_option = click.option(
    "--lock",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The lock file (default: cake.lock in the git repository around, or the user's).",
)


@packs.command("list", examples={"cake packs list --json": "as data, hashes included"})
@lock_option
@json_option
def list_(lock: Path | None, as_json: bool) -> None:
    """List installed packs and whether they load. Imports none of them."""
    from cake.core.packs import list_packs

    found = list_packs(lock)
    if as_json:
        print_json({"packs": plain(found)})
    elif not found:
        click.echo("no packs are installed")
    else:
        rows = [
            (
                p.name,
                p.version,
                style(p.state, fg=STATE_COLOUR.get(p.state)),
                p.kind,
                f"{len(p.codes)}",
                p.sha256[:16],
                p.problem,
            )
            for p in found
        ]
        click.echo(table(("pack", "version", "state", "kind", "rules", "sha256", ""), rows))


@packs.command(
    examples={
        "cake packs check descriptors": "an installed pack, by name",
        "cake packs check examples/packs/cake-pack-descriptors": "a pack's source folder, before it is built",
    }
)
@click.argument("pack")
@repo_option
@json_option
def check(pack: str, repo: Path | None, as_json: bool) -> None:
    """Run our gates on every rule of PACK: it flags its own bad programs and no good one, and our corpus stays clean.

    PACK is an installed pack's name or a pack's source folder; none of its code is imported. Exits 1 when a gate is
    not `pass`.
    """
    from cake.core.packs_check import check_pack, find_pack

    gates = check_pack(find_pack(pack), repo)
    if as_json:
        print_json({"pack": pack, "gates": plain(gates)})
    else:
        click.echo(table(("gate", "verdict", "domain"), [(g.name, verdict(g.verdict), g.domain) for g in gates]))
        for g in gates:
            for detail in g.details:
                click.echo(f"{g.name}: {detail}")
    if any(g.verdict is not Verdict.PASS for g in gates):
        raise click.exceptions.Exit(Exit.FINDINGS)


@packs.command(
    examples={"cake packs lock": "all installed packs", "cake packs lock descriptors": "one; the rest stay as they are"}
)
@click.argument("names", nargs=-1)
@lock_option
@json_option
def lock(names: tuple[str, ...], lock: Path | None, as_json: bool) -> None:
    """Write down the hash of each named pack (default: of every installed one), so that it loads from now on."""
    from cake.core.packs import lock_packs

    _locked(lock_packs(names, lock), as_json)


@packs.command(
    examples={"cake packs trust descriptors --sha256 $(cake packs list --json | jq -r ...)": "after reading its code"}
)
@click.argument("name")
@click.option("--sha256", required=True, help="The whole hash of what you read, as `cake packs list --json` prints it.")
@lock_option
@json_option
def trust(name: str, sha256: str, lock: Path | None, as_json: bool) -> None:
    """Lock NAME and let its code run, for exactly this hash."""
    from cake.core.packs import trust_pack

    _locked((trust_pack(name, sha256, lock),), as_json)


def _locked(entries: Any, as_json: bool) -> None:
    if as_json:
        print_json({"locked": plain(entries)})
    else:
        for entry in entries:
            how = "locked and trusted" if entry.trusted else "locked"
            click.echo(f"{how} {entry.name} {entry.version} {entry.sha256}")


COMMANDS: Final = {"packs": packs}
