"""`cake run`: one kernel through all seven categories, on the GPU when there is one."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from cake.cli.app import Verb
from cake.cli.output import json_option, print_json, progress, style, table, verdict
from cake.core.diagnostics import Category, Verdict
from cake.core.errors import CakeError, Exit


@click.command(
    cls=Verb,
    examples={
        "cake run corpus/kernels/gemm_bf16": "every configuration, all seven categories",
        "cake run corpus/kernels/rmsnorm_bf16 --config r4w8v8 --no-gpu": "one, without a GPU",
        "cake run corpus/kernels/gemm_bf16 --seed 7 --keep bundles": "known inputs; keep what went to the GPU worker",
    },
)
@click.argument("kernel", type=click.Path(path_type=Path))
@click.option("--config", default="all", metavar="NAME|all", help="Configuration to run.", show_default=True)
@click.option("--no-gpu", is_flag=True, help="Leave the GPU alone; what needs it is unknown.")
@click.option("--seed", type=int, help="Seed of the inputs (default: a secret one, printed with any mismatch).")
@click.option(
    "--keep",
    type=click.Path(path_type=Path, file_okay=False),
    help="Keep the bundles for the GPU worker here: cubin, launch plan, problems, results.",
)
@click.option("--store", is_flag=True, help="Store the results in the kernel's folder, under the device's name.")
@click.option(
    "--log",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Append a record of each failure to this evidence log.",
)
@json_option
def run(
    kernel: Path,
    config: str,
    no_gpu: bool,
    seed: int | None,
    keep: Path | None,
    store: bool,
    log: Path | None,
    as_json: bool,
) -> None:
    """Take KERNEL, a kernel folder, through every gate and report on all seven categories.

    First the four static categories, then the simulator against the oracle, the compiler, the GPU against the oracle,
    and the clock beside the contract's peers. A gate that fails stops those behind it; what did not run is `unknown`
    and says why. Exits 1 when a blocking gate fails, 3 when one could not run here.
    """
    from cake.core import results
    from cake.core.corpus import load_corpus_kernel
    from cake.core.evidence import EvidenceWriter
    from cake.core.harness import run_kernel
    from cake.core.printer import print_program
    from cake.core.report import BLOCKING

    if not (kernel / "schedule.py").is_file():
        raise CakeError(
            f"{kernel} is no kernel folder: one holds schedule.py, configs.toml, contract.toml and oracle.py"
        )
    loaded = load_corpus_kernel(kernel)
    names = list(loaded.configs) if config == "all" else [config]
    reports = []
    with progress("running", len(names)) as step:
        for name in names:
            reports += run_kernel(loaded, [name], gpu=not no_gpu, seed=seed, scratch=keep)
            step(name)
    stored = results.store(loaded, reports) if store else None
    if log is not None:
        with EvidenceWriter(log) as writer:
            for report in reports:
                text = print_program(loaded.program(report.config))
                for record in results.failure_records(loaded, report):
                    writer.append(record, text)
    if as_json:
        print_json({"kernel": loaded.name, "reports": [r.as_json() for r in reports]})
    else:
        for report in reports:
            click.echo(report.text() + "\n")
        rows = [(r.config, *(verdict(r.gate(c).verdict) for c in Category), verdict(r.verdict)) for r in reports]
        click.echo(table(("configuration", *(_short(c) for c in Category), "verdict"), rows))
        click.echo(style(f"blocking: {', '.join(BLOCKING)}, simulate, compile", dim=True))
        if stored is not None:
            click.echo(f"stored in {stored}")
    verdicts = {r.verdict for r in reports}
    if Verdict.FAIL in verdicts:
        raise click.exceptions.Exit(Exit.FINDINGS)
    if Verdict.UNKNOWN in verdicts:
        raise click.exceptions.Exit(Exit.ENVIRONMENT)


def _short(category: Category) -> str:
    """A column's heading: the category's first word."""
    return category.value.split("-")[0]


COMMANDS: Final = {"run": run}
