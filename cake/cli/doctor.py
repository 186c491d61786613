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


def _driver() -> list[Item]:
    disables = "runs on this machine (`cake run --gpu OUT` still writes a bundle to run elsewhere)"
    try:
        from cuda.bindings import driver
    except ImportError:
        remedy = "pip install 'cake-compiler[cuda]'"
        return [Item("driver", "missing", "the package cuda-bindings is not installed", disables, remedy)]
    try:
        (status,) = driver.cuInit(0)
    except RuntimeError as error:
        remedy = "install the NVIDIA driver, 580 or newer"
        return [Item("driver", "missing", str(error).splitlines()[0], disables, remedy)]
    if status != driver.CUresult.CUDA_SUCCESS:
        remedy = "look at nvidia-smi: no GPU, or a driver that does not load"
        return [Item("driver", "broken", f"cuInit: {status.name}", disables, remedy)]
    _, version = driver.cuDriverGetVersion()
    shown = f"CUDA {version // 1000}.{version % 1000 // 10}"
    if version < 13000:
        remedy = "install driver 580 or newer: older ones do not load cubins of CUDA 13.0"
        return [Item("driver", "broken", shown, disables, remedy)]
    items = [Item("driver", "ok", shown)]
    _, count = driver.cuDeviceGetCount()
    for n in range(count):
        _, device = driver.cuDeviceGet(n)
        _, name = driver.cuDeviceGetName(100, device)
        attribute = driver.CUdevice_attribute
        _, major = driver.cuDeviceGetAttribute(attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device)
        _, minor = driver.cuDeviceGetAttribute(attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device)
        capability = f"compute capability {major}.{minor}"
        items.append(Item(f"gpu {n}", "ok", f"{name.decode().strip(chr(0))}, {capability}"))
    return items or [Item("gpu", "missing", "the driver sees none", disables, "run on a machine with an NVIDIA GPU")]


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


CHECKS: Final[tuple[Callable[[], Item | list[Item]], ...]] = (_python, _git, _clingo, _plugins, _nvrtc, _driver, _torch)


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
