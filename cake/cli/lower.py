"""`cake lower` and `cake compile`: the CUDA C++ of a schedule, and the cubin that NVRTC makes of it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from cake.cli.app import Verb
from cake.cli.output import json_option, plural, print_json, progress, table
from cake.core.errors import CakeError


@click.command(
    cls=Verb,
    examples={
        "cake lower corpus/kernels/gemm_bf16 --config m128n128s6 | less": "read the CUDA of one configuration",
        "cake lower my_kernel.cake --watchdog --out my_kernel.cu": "with bounded waits that report who waited for what",
    },
)
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--config", default="", metavar="NAME", help="Configuration to lower (default: the first).")
@click.option("--watchdog", is_flag=True, help="Bound every wait; a wait that gives up reports itself and traps.")
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), help="Write to this file instead of stdout.")
@json_option
def lower(path: Path, config: str, watchdog: bool, out: Path | None, as_json: bool) -> None:
    """Print the CUDA C++ that PATH becomes, one readable file for one configuration.

    Names are kept, and #line directives lead from every statement back to the schedule.
    """
    from cake.cli.programs import subjects
    from cake.core.lower import lower as lower_program

    subject = subjects(path, config or "all")[0]
    lowered = lower_program(subject.program, watchdog=watchdog)
    if out is not None:
        write(out, lowered.source.encode())
    if as_json:
        document = {
            "kernel": subject.name,
            "config": subject.config,
            "symbol": lowered.symbol,
            "source": lowered.source,
        }
        print_json(document)
    elif out is None:
        click.echo(lowered.source, nl=False)
    else:
        click.echo(f"{out}: {subject.label}, {plural(lowered.source.count(chr(10)), 'line')}")


@click.command(
    cls=Verb,
    examples={
        "cake compile corpus/kernels/gemm_bf16": "compile every configuration; say registers, spills and sizes",
        "cake compile my_kernel.cake --out build": "keep build/<kernel>.cubin",
    },
)
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--config", default="all", metavar="NAME|all", help="Configuration to compile.", show_default=True)
@click.option("--watchdog", is_flag=True, help="Compile the watchdog lowering.")
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), help="Folder to write the cubins to.")
@json_option
def compile_(path: Path, config: str, watchdog: bool, out: Path | None, as_json: bool) -> None:
    """Compile PATH to a cubin for the schedule's own target. Needs NVRTC, but neither a GPU nor nvcc.

    Exits 1 when the compiler refuses the program, 3 when NVRTC is missing.
    """
    from cake.cli.programs import subjects
    from cake.core.compile import compile_cuda
    from cake.core.lower import lower as lower_program

    chosen = subjects(path, config)
    rows = []
    with progress("compiling", len(chosen)) as step:
        for subject in chosen:
            lowered = lower_program(subject.program, watchdog=watchdog)
            cubin = compile_cuda(lowered.source, subject.program.target, lowered.symbol)
            file = None
            if out is not None:
                file = out / f"{subject.name}{'-' + subject.config if subject.config else ''}.cubin"
                write(file, cubin.data)
            rows.append((subject, cubin, file))
            step(subject.label)
    if as_json:
        print_json(
            {
                "cubins": [
                    {
                        "kernel": s.name,
                        "config": s.config,
                        "target": s.program.target,
                        "bytes": len(c.data),
                        "sha256": c.sha256,
                        "nvrtc": c.version,
                        "file": f,
                    }
                    for s, c, f in rows
                ]
            }
        )
    else:
        header = ("program", "target", "bytes", "sha256")
        click.echo(table(header, [(s.label, s.program.target, str(len(c.data)), c.sha256[:16]) for s, c, _ in rows]))


def write(path: Path, data: bytes) -> None:
    """Write `data`, making the folder. Raises CakeError (usage) with the system's reason when that fails."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    except OSError as error:
        raise CakeError(f"{path} cannot be written: {error.strerror}") from error


COMMANDS: Final = {"lower": lower, "compile": compile_}
