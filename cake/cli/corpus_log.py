"""`cake corpus stats`, `show`, `agreement`, `recall`, `results`: what logs and stored results say."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cake.cli.app import Verb
from cake.cli.output import json_option, plain, plural, print_json, progress, repo_option, style, table
from cake.core.errors import CakeError

if TYPE_CHECKING:
    from cake.core.corpus import CorpusKernel
    from cake.core.evidence import Record


@click.command(
    cls=Verb, examples={"cake corpus stats corpus/failures": "the committed log", "cake corpus stats fresh": "yours"}
)
@click.argument("log", type=click.Path(path_type=Path))
@json_option
def stats(log: Path, as_json: bool) -> None:
    """Count a log's records: outcomes, programs, kernels, kinds of edit, and what could not be read.

    LOG is a records file, or the folder that holds one. Outcomes that did not occur are reported as zero.
    """
    from cake.core.evidence import OUTCOMES, read_log

    read = read_log(log)
    groups = {
        f"{labeller}{f' ({device})' if device else ''}": [r for r in read.records if _source(r) == (labeller, device)]
        for labeller, device in sorted({_source(r) for r in read.records})
    }
    if as_json:
        print_json(
            {
                "records": len(read.records),
                "programs": len({r.program for r in read.records}),
                "skipped": dict(read.skipped),
                "outcomes": {name: _count(records, OUTCOMES) for name, records in groups.items()},
                "operators": dict(sorted(Counter(r.operator for r in read.records).items())),
                "kernels": dict(sorted(Counter(r.kernel for r in read.records).items())),
            }
        )
        return
    programs = len({r.program for r in read.records})
    click.echo(f"{read.path}: {plural(len(read.records), 'record')} of {plural(programs, 'program')}")
    rows = [(o, *(str(_count(records, OUTCOMES)[o]) for records in groups.values())) for o in OUTCOMES]
    click.echo(table(("outcome", *groups), rows))
    for what, many in (("operator", "edits"), ("kernel", "kernels")):
        counts = Counter(getattr(r, what) or "unedited" for r in read.records)
        click.echo(f"{many}: " + ", ".join(f"{name} {n}" for name, n in sorted(counts.items())))
    for reason, n in read.skipped.items():
        click.echo(f"{style('skipped', fg='yellow')} {plural(n, 'line')}: {reason}")


@click.command(
    cls=Verb,
    examples={
        "cake corpus show corpus/failures f6aa4279": "every record of a program, by the start of its hash",
        "cake corpus show corpus/failures f6aa4279 --text > broken.cake": "the program itself",
    },
)
@click.argument("log", type=click.Path(path_type=Path))
@click.argument("program")
@click.option("--text", is_flag=True, help="Print the program's canonical text instead.")
@json_option
def show(log: Path, program: str, text: bool, as_json: bool) -> None:
    """Print what LOG holds of one PROGRAM: who said what of it, and where it stopped."""
    from cake.core.evidence import read_log

    read = read_log(log)
    records = [r for r in read.records if r.program.startswith(program)]
    names = sorted({r.program for r in records})
    if len(names) != 1:
        raise CakeError(f"{len(names) or 'no'} programs in {log} start with {program!r}")
    if text:
        click.echo(read.text(records[0]), nl=False)
    elif as_json:
        print_json({"program": names[0], "records": [json.loads(r.to_json()) for r in records]})
    else:
        for r in records:
            at = ", ".join(f"{n}={v}" for n, v in r.extents.items())
            who = r.device or r.origin.labeller
            click.echo(f"{style(r.outcome, bold=True)}  {who}, {r.kernel} {at}")
            click.echo(
                f"  {r.operator or 'unedited'} at {r.origin.path}: {r.origin.detail}" if r.operator else "  unedited"
            )
            for place in _places(r):
                click.echo(f"  {place}")


@click.command(
    cls=Verb,
    examples={
        "cake corpus agreement corpus/failures": "a folder with both kinds of records",
        "cake corpus agreement gpu.jsonl simulator.jsonl": "records of each kind in a log of its own",
    },
)
@click.argument("logs", type=click.Path(path_type=Path), nargs=-1, required=True)
@json_option
def agreement(logs: tuple[Path, ...], as_json: bool) -> None:
    """Compare the simulator's labels with the GPU's, for every program that both ran on the same problem.

    A program that fails on the GPU alone is a hole in the simulator's model, and is listed. One that fails in the
    simulator alone met an order of effects that the GPU did not take.
    """
    from cake.core.agreement import agreement as compare
    from cake.core.evidence import read_log

    found = compare(record for log in logs for record in read_log(log).records)
    if as_json:
        counts = {"programs": len(found.pairs), "verdict": found.verdicts, "alike": found.alike, "exact": found.exact}
        table_ = Counter((p.gpu, p.simulator) for p in found.pairs)
        rows = [{"gpu": gpu, "simulator": sim, "programs": n} for (gpu, sim), n in sorted(table_.items())]
        print_json(
            counts | {"table": rows, "missed": plain(found.missed), "only_simulated": plain(found.only_simulated)}
        )
    elif not found.pairs:
        raise CakeError(f"no program in {', '.join(map(str, logs))} has both a GPU's and a simulator's record")
    else:
        click.echo(found.text())
        for p in found.missed:
            click.echo(
                f"{style('missed', fg='red')} {p.kernel} {p.operator} {p.path} {p.detail}: {p.gpu}, simulated ok"
            )


@click.command(
    cls=Verb, examples={"cake corpus recall corpus/failures": "every program that ran on a GPU, through `cake check`"}
)
@click.argument("log", type=click.Path(path_type=Path))
@click.option("--misses", is_flag=True, help="List the programs that fail on the GPU and pass here, and the alarms.")
@json_option
def recall(log: Path, misses: bool, as_json: bool) -> None:
    """Check every program of LOG whose fate on a GPU is known, and count what the verifier flags, leaves open, passes.

    A failing program that passes is a miss. A program that ran right and is flagged is an alarm: a false one, or a true
    one of an order of effects that the GPU did not take.
    """
    from cake.core.evidence import OUTCOMES, read_log
    from cake.core.recall import SAID, measure

    read = read_log(log)
    programs = {r.program for r in read.records if r.origin.labeller == "gpu"}
    if not programs:
        raise CakeError(f"{log} has no record of a GPU run")
    with progress("checking", len(programs)) as step:
        found = measure(read, step=step)
    if as_json:
        print_json({"cases": plain(found.cases), "median_seconds": found.median_seconds})
        return
    devices = ", ".join(sorted({r.device for r in read.records if r.device and r.origin.labeller == "gpu"}))
    click.echo(
        f"{plural(len(found.cases), 'program')} that ran on {devices}; a check takes {_ms(found.median_seconds)}"
    )
    rows = [
        (o, *(str(found.count(s, outcome=o)) for s in SAID))
        for o in OUTCOMES
        if any(c.outcome == o for c in found.cases)
    ]
    rows.append(("fails, in all", *(str(found.count(s, failing=True)) for s in SAID)))
    click.echo(table(("on the GPU", *SAID), rows))
    for word, cases in (("missed", found.missed), ("alarm", found.alarms)) if misses else ():
        for c in cases:
            click.echo(f"{word} {c.program[:12]} {c.kernel} {c.path} {c.detail}: {c.outcome} {' '.join(c.codes)}")


def _ms(seconds: float) -> str:
    return f"{1000 * seconds:.0f} ms (median)"


@click.command(cls=Verb, examples={"cake corpus results": "times on each device, beside the library's and the floor"})
@repo_option
@json_option
def results(repo: Path | None, as_json: bool) -> None:
    """Print the stored results of every kernel: for each device and problem the fastest configuration.

    `floor` is the share of the physical floor: operations at the tensor cores' rate, or bytes at the memory's. `speed`
    is how many times a peer's speed the kernel has, both timed in the same run.
    """
    from cake.core.corpus import load_corpus

    rows = [row for kernel in load_corpus(repo) for row in stored_times(kernel)]
    if as_json:
        print_json({"times": rows})
        return
    if not rows:
        click.echo("no stored results: `cake run KERNEL --store` on a machine with a GPU writes them")
        return
    header = ("kernel", "device", "problem", "configuration", "us", "TFLOP/s", "TB/s", "floor", "speed")
    cells = []
    for r in rows:
        numbers = (f"{r['us']:.1f}", f"{r['tflops']:.0f}", f"{r['tbytes']:.2f}", f"{r['floor']:.0%}")
        speed = ", ".join(f"{ratio:.2f} x {peer}" for peer, ratio in r["vs"].items())
        cells.append((r["kernel"], r["device"], r["problem"], r["config"], *numbers, speed))
    click.echo(table(header, cells))


def stored_times(kernel: CorpusKernel) -> list[dict[str, Any]]:
    """For each device and problem in the kernel's results the fastest configuration: microseconds, the contract's work
    over that time, the share of the floor, and the ratio to each peer."""
    from cake.core.expression import evaluate

    best: dict[tuple[str, str], dict[str, Any]] = {}
    for path in sorted((kernel.folder / "results").glob("*.json")):
        for report in json.loads(path.read_text())["reports"]:
            metrics = next(g["metrics"] for g in report["gates"] if g["category"] == "performance-analysis")
            for extents in kernel.contract.performance:
                key = ",".join(f"{n}={extents[n]}" for n in sorted(extents))
                if f"{key} us" not in metrics:
                    continue
                us, device = metrics[f"{key} us"], report["facts"]["device"]
                row = {
                    "kernel": kernel.name,
                    "device": device,
                    "problem": ", ".join(f"{n}={v}" for n, v in extents.items()),
                    "config": report["config"],
                    "us": us,
                    "tflops": float(evaluate(kernel.contract.flops, extents)) / us / 1e6,
                    "tbytes": float(evaluate(kernel.contract.bytes, extents)) / us / 1e6,
                    "floor": metrics[f"{key} of floor"],
                    "vs": {peer: metrics[f"{key} vs {peer}"] for peer in kernel.contract.peers},
                    "verdict": report["verdict"],
                }
                if (device, key) not in best or us < best[device, key]["us"]:
                    best[device, key] = row
    return list(best.values())


def _places(record: Record) -> list[str]:
    """Where the program stopped: a line for each statement, the first warp there standing for the others."""
    found: dict[str, str] = {}
    for diagnostic in record.diagnostics:
        if diagnostic.get("kind") == "places":
            for place in diagnostic["places"]:
                found.setdefault(place["path"], place["text"])
        elif diagnostic.get("kind") == "stuck":
            who = f"{diagnostic['role']}[{diagnostic['instance']}] warp {diagnostic['warp']}"
            found.setdefault(diagnostic["path"], f"{who} at {diagnostic['path']}: {diagnostic['reason']}")
    return list(found.values())


def _source(record: Record) -> tuple[str, str]:
    """Who labelled the record, and on which device when that says more."""
    device = record.device if record.device != record.origin.labeller else ""
    return record.origin.labeller, device


def _count(records: Iterable[Record], outcomes: Iterable[str]) -> dict[str, int]:
    counts = Counter(r.outcome for r in records)
    return {o: counts[o] for o in outcomes}
