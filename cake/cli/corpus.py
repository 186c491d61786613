"""`cake corpus`: the good kernels, broken variants of them, and what the logs of failures hold."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from cake.cli.app import Group
from cake.cli.corpus_log import agreement, recall, results, show, stats
from cake.cli.output import json_option, print_json, progress, repo_option, table
from cake.core.errors import CakeError

if TYPE_CHECKING:
    from cake.core.corpus import CorpusKernel


@click.group(
    cls=Group,
    examples={
        "cake corpus list": "the kernels and their configurations",
        "cake corpus mutate --seed 7 --count 60 --labels simulator --out fresh/records.jsonl": "a fresh failure log",
        "cake corpus stats fresh/records.jsonl": "outcomes by kind of edit",
        "cake corpus show corpus/failures f6aa4279": "what became of one program",
        "cake corpus agreement corpus/failures": "the simulator's labels against the GPU's",
        "cake corpus recall corpus/failures": "the verifier's verdicts against the GPU's",
        "cake corpus results": "times on each device, beside the library's and the floor",
    },
)
def corpus() -> None:
    """List kernels, derive broken variants, report on logs."""


@corpus.command("list", examples={"cake corpus list": "names, configurations, shapes"})
@repo_option
@json_option
def list_(repo: Path | None, as_json: bool) -> None:
    """List the kernels of the corpus: the repository's, or outside one those that this installation carries."""
    kernels = _kernels(repo)
    if as_json:
        print_json(
            {
                "kernels": [
                    {"name": k.name, "folder": k.folder, "summary": k.contract.summary, "configs": k.configs}
                    for k in kernels
                ]
            }
        )
        return
    rows = [
        (k.name if n == 0 else "", name, " ".join(f"{key}={value}" for key, value in config.items()))
        for k in kernels
        for n, (name, config) in enumerate(k.configs.items())
    ]
    click.echo(table(("kernel", "configuration", "constants"), rows))
    for k in kernels:
        click.echo(f"{k.name}: {k.contract.summary}")


@corpus.command(
    examples={
        "cake corpus mutate --seed 7 --count 60 --labels simulator --out fresh/records.jsonl": "labelled on the CPU",
        "cake distill run fresh/records.jsonl --dry-run": "what the distiller would make of them",
        "cake corpus mutate --seed 7 --count 300 --labels none --out mutants.jsonl": "programs alone, to run elsewhere",
    },
)
@click.option("--seed", type=int, required=True, help="The same seed gives the same variants.")
@click.option("--count", type=click.IntRange(1), required=True, help="How many distinct variants.")
@click.option(
    "--labels",
    type=click.Choice(["simulator", "none"]),
    default="simulator",
    show_default=True,
    help="Who says what each variant does.",
)
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), required=True, help="The log to write.")
@repo_option
@json_option
def mutate(seed: int, count: int, labels: str, out: Path, repo: Path | None, as_json: bool) -> None:
    """Derive broken variants of the corpus, one edit each, and write them as an evidence log.

    An edit drops, duplicates, moves or retargets a statement, or changes a count, phase, byte size, offset, swizzle,
    box, role, fence, depth, index or bound. With simulator labels each variant runs on the CPU against its parent's
    output; its program is stored beside the log under its hash.
    """
    from cake.core.evidence import EvidenceWriter
    from cake.core.mutate import mutate as draw
    from cake.core.mutate import parents, write_simulator_log

    kernels = _kernels(repo)
    if out.exists():
        raise CakeError(f"{out} exists already: name a new file, or remove it")
    if labels == "none":
        mutants = draw(kernels, seed, count)
        lines = [
            {"program": m.name, "kernel": m.kernel, "config": dict(m.config), "extents": dict(m.extents)}
            | {"operator": m.kind, "path": m.path, "detail": m.detail, "parent": m.parent, "text": m.text}
            for m in mutants
        ]
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text("".join(json.dumps(line, sort_keys=True) + "\n" for line in lines))
        outcomes = Counter({"unlabelled": len(mutants)})
    else:
        with progress("simulating", count + len(parents(kernels))) as step, EvidenceWriter(out) as writer:
            outcomes = write_simulator_log(kernels, seed, count, writer, lambda line: step(line.split(" ")[0]))
    if as_json:
        print_json({"out": out, "outcomes": dict(sorted(outcomes.items()))})
    else:
        click.echo(table(("outcome", "variants"), [(o, str(n)) for o, n in sorted(outcomes.items())]))
        click.echo(f"wrote {out}")


def _kernels(repo: Path | None) -> tuple[CorpusKernel, ...]:
    from cake.core.corpus import load_corpus

    return load_corpus(repo)


for _command in (stats, show, agreement, recall, results):
    corpus.add_command(_command)

COMMANDS: Final[dict[str, Any]] = {"corpus": corpus}
