"""`cake lower` and `cake compile`: the CUDA C++ of a schedule, and the cubin that NVRTC makes of it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from cake.cli.app import Verb
from cake.cli.output import json_option, plain, plural, print_json, progress, style, table
from cake.core.errors import CakeError, Exit


@click.command(
    cls=Verb,
    examples={
        "cake lower corpus/kernels/gemm_bf16 --config m128n128s6 | less": "read the CUDA of one configuration",
        "cake lower corpus/kernels/gemm_bf16 --ir > gemm.cake": "its canonical text, which is a .cake file",
        "cake lower my_kernel.cake --watchdog --out my_kernel.cu": "with bounded waits that report who waited for what",
    },
)
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--config", default="", metavar="NAME", help="Configuration to lower (default: the first).")
@click.option("--watchdog", is_flag=True, help="Bound every wait; a wait that gives up reports itself and traps.")
@click.option("--ir", is_flag=True, help="Print the canonical Cake text instead: one configuration, no sugar.")
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), help="Write to this file instead of stdout.")
@json_option
def lower(path: Path, config: str, watchdog: bool, ir: bool, out: Path | None, as_json: bool) -> None:
    """Print the CUDA C++ that PATH becomes, one readable file for one configuration.

    Names are kept, and #line directives lead from every statement back to the canonical text, which --ir prints.
    """
    from cake.cli.programs import subjects
    from cake.core.lower import lower as lower_program
    from cake.core.printer import print_program

    subject = subjects(path, config or "all")[0]
    text = print_program(subject.program) if ir else lower_program(subject.program, watchdog=watchdog).source
    if out is not None:
        write(out, text.encode())
    if as_json:
        print_json({"kernel": subject.name, "config": subject.config, "form": "ir" if ir else "cuda", "text": text})
    elif out is None:
        click.echo(text, nl=False)
    else:
        click.echo(f"{out}: {subject.label}, {plural(text.count(chr(10)), 'line')}")


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
    from cake.cli.findings import as_json as finding_json
    from cake.cli.findings import locate, merge, write_text
    from cake.cli.programs import read_text, subjects
    from cake.core.compile import CompileError, compile_program
    from cake.core.lower import lower as lower_program

    chosen = subjects(path, config)
    rows = []
    remarks = []
    failed: list[str] = []
    with progress("compiling", len(chosen)) as step:
        for subject in chosen:
            sources = {str(subject.file): read_text(subject.file).splitlines()}
            try:
                cubin, _ = compile_program(lower_program(subject.program, watchdog=watchdog))
            except CompileError as error:
                failed.append(error.message)
                remarks += [locate(f, str(subject.file), sources, subject.config) for f in error.findings]
                continue
            remarks += [locate(f, str(subject.file), sources, subject.config) for f in cubin.findings]
            file = None
            if out is not None:
                file = out / f"{subject.name}{'-' + subject.config if subject.config else ''}.cubin"
                write(file, cubin.data)
            rows.append((subject, cubin, file))
            step(subject.label)
    found = merge(remarks)
    if as_json:
        cubins = [
            {"kernel": s.name, "config": s.config, "target": s.program.target, "bytes": len(c.data), "sha256": c.sha256}
            | {"nvrtc": c.version, "usage": plain(c.usage), "file": f}
            for s, c, f in rows
        ]
        print_json({"cubins": cubins, "findings": [finding_json(item) for item in found], "errors": failed})
    else:
        for item in found:
            write_text(item, len(chosen))
        header = ("program", "target", "registers", "spilled", "bytes", "sha256")
        cells = []
        for s, c, _ in rows:
            spilled = c.usage.spill_store_bytes + c.usage.spill_load_bytes
            size = str(len(c.data))
            cells.append((s.label, s.program.target, str(c.usage.registers), f"{spilled} B", size, c.sha256[:16]))
        if cells:
            click.echo(table(header, cells))
        for message in failed:
            click.echo(f"{style('does not compile:', fg='red')} {message}")
    if failed:
        raise click.exceptions.Exit(Exit.FINDINGS)


def write(path: Path, data: bytes) -> None:
    """Write `data`, making the folder. Raises CakeError (usage) with the system's reason when that fails."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    except OSError as error:
        raise CakeError(f"{path} cannot be written: {error.strerror}") from error


COMMANDS: Final = {"lower": lower, "compile": compile_}
