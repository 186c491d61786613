"""`cake doctor`: what is there, what is missing, what each missing piece disables, and how to get it."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import platform
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import click

from cake.cli.app import Verb
from cake.cli.output import json_option, print_json, style, table
from cake.core.errors import CakeError, Exit

#: How each status is shown, and in which colour.
SHOWN: Final = {"ok": "green", "missing": "yellow", "broken": "red"}


@dataclass(frozen=True, slots=True)
class Item:
    """One thing that Cake uses. `status` is ok, missing or broken; `disables` and `remedy` are empty when it is ok.

    Without a `required` item nothing works; a missing optional one disables what `disables` says.
    """

    name: str
    status: str
    detail: str
    disables: str = ""
    remedy: str = ""
    required: bool = False


def _python() -> Item:
    version = platform.python_version()
    where = f"{version}, {platform.system()} {platform.machine()}"
    tested = platform.system() == "Linux" and platform.machine() == "x86_64"
    return Item("python", "ok", where if tested else f"{where} (Linux x86_64 is what we test)", required=True)


def _git() -> Item:
    path = shutil.which("git")
    disables = "distill and proposals, which keep their results on git branches"
    if path is None:
        return Item("git", "missing", "not on PATH", disables, "install git 2.30 or newer")
    done = subprocess.run([path, "--version"], capture_output=True, text=True, check=False)
    if done.returncode:
        return Item("git", "broken", done.stderr.strip(), disables, "repair the git installation")
    return Item("git", "ok", done.stdout.strip().removeprefix("git version "))


def _clingo() -> Item:
    disables, remedy = "every rule (check, run, distill, packs)", "pip install 'clingo>=5.8'"
    try:
        import clingo
    except ImportError as error:
        return Item("clingo", "missing", str(error), disables, remedy, required=True)
    return Item("clingo", "ok", clingo.__version__, required=True)


def _nvrtc() -> Item:
    from cake.core.compile import nvrtc_version

    try:
        return Item("nvrtc", "ok", nvrtc_version())
    except CakeError as error:
        problem, _, remedy = error.message.partition(": ")
        return Item(
            "nvrtc", "missing", problem, "compile, run and the compile gate (check, sim and lower work)", remedy
        )


def _gpu() -> Item:
    from cake.core.launch import Device

    disables = "GPU runs on this machine (`cake run` says unknown for what needs one)"
    try:
        device = Device()
    except CakeError as error:
        remedy = "a machine with an NVIDIA GPU and its driver, 580 or newer"
        return Item("gpu", "missing", error.message.partition(";")[0], disables, remedy)
    capability, driver = (".".join(map(str, pair)) for pair in (device.capability, device.driver))
    return Item("gpu", "ok", f"{device.name}, compute capability {capability}, driver for CUDA {driver}")


def _torch() -> Item:
    disables = "the numerical oracle of `cake run` (numerical-validation is `unknown`)"
    if importlib.util.find_spec("torch") is None:
        return Item("torch", "missing", "not installed", disables, "pip install 'cake-compiler[oracle]'")
    return Item("torch", "ok", _version("torch"))


def _plugins() -> list[Item]:
    from cake.core import registry

    counts = ", ".join(f"{len(table)} {kind}" for kind, table in registry.counts().items())
    problems = registry.problems()
    items = [Item("plugins", "ok", counts)]
    for problem in problems:
        items.append(
            Item("plugins", "broken", str(problem), "the gates it belongs to are `unknown`", "mend or uninstall it")
        )
    return items


def _version(distribution: str) -> str:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return "unknown version"


CHECKS: Final[tuple[Callable[[], Item | list[Item]], ...]] = (_python, _git, _clingo, _plugins, _nvrtc, _gpu, _torch)


def examine() -> list[Item]:
    """Look at everything; never raises for what is merely missing."""
    items: list[Item] = []
    for check in CHECKS:
        found = check()
        items += found if isinstance(found, list) else [found]
    return items


@click.command(
    cls=Verb,
    examples={
        "cake doctor": "list what is installed and what is missing",
        "cake doctor --json | jq '.items[] | select(.status != \"ok\")'": "only what needs attention",
    },
)
@json_option
def doctor(as_json: bool) -> None:
    """Say what is installed, what is missing, what each missing piece disables, and how to get it.

    Exits 3 when something that every verb needs is missing or broken, 0 otherwise: a machine without a GPU is healthy.
    """
    items = examine()
    if as_json:
        print_json({"items": items})
    else:
        click.echo(
            table(("", "status", "found"), [(i.name, style(i.status, fg=SHOWN[i.status]), i.detail) for i in items])
        )
        for item in items:
            if item.status != "ok":
                click.echo(f"\n{style(f'{item.name} is {item.status}', bold=True)}: {item.detail}")
                click.echo(f"  disables  {item.disables}")
                click.echo(f"  remedy    {item.remedy}")
    if any(i.required and i.status != "ok" for i in items):
        raise click.exceptions.Exit(Exit.ENVIRONMENT)


COMMANDS: Final = {"doctor": doctor}
