"""`cake sim`: run a schedule in the CPU simulator, under friendly and hostile orders of its asynchronous effects."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click

from cake.cli.app import Verb
from cake.cli.output import json_option, print_json, progress, style, table
from cake.cli.programs import Subject, number_option, shape_option, subjects
from cake.core.errors import CakeError, Exit
from cake.core.ir import Scalar, Tensor

#: What `--order all` runs: effects as early as they can be, as late as they can be, and at two seeded random times.
ORDERS: Final = (("eager", 0), ("lazy", 0), ("random", 1), ("random", 2))
SHOWN: Final = {"ok": "green", "hang": "red", "trap": "red", "unknown": "yellow"}


@dataclass(frozen=True, slots=True)
class Problem:
    """What to simulate: extents, tensors and scalars by name."""

    extents: Mapping[str, int]
    values: Mapping[str, Any]


@click.command(
    cls=Verb,
    examples={
        "cake sim corpus/kernels/rmsnorm_bf16": "the contract's first simulator shape, in four orders",
        "cake sim my_kernel.cake --shape M=64,N=128 --order lazy": "one order, on a shape of your own",
        "cake sim my_kernel.cake --shape M=2,N=32 --out run.npz": "keep inputs and outputs, to look at with NumPy",
    },
)
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--config", default="", metavar="NAME", help="Configuration to run (default: the first).")
@click.option("--shape", metavar="M=..,N=..", help="Extents (default: the contract's first simulator shape).")
@click.option("--scalar", metavar="eps=..", help="Values of scalar parameters (default: the contract's, or 1).")
@click.option(
    "--order",
    type=click.Choice(["all", "eager", "lazy", "random"]),
    default="all",
    show_default=True,
    help="When asynchronous effects land.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the inputs and of a random order.")
@click.option("--sms", type=click.IntRange(1), default=2, show_default=True, help="SMs of the simulated device.")
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), help="Write inputs and outputs to this .npz.")
@json_option
def sim(
    path: Path,
    config: str,
    shape: str | None,
    scalar: str | None,
    order: str,
    seed: int,
    sms: int,
    out: Path | None,
    as_json: bool,
) -> None:
    """Run PATH on the CPU, byte by byte: outputs come only from the bytes that its primitives moved.

    Asynchronous copies and matrix multiplications land as early, as late or as oddly as the machine may let them, so a
    missing wait shows as a wrong output. A hang names the barrier that everyone waits for. Exits 1 unless every order
    ends, and all orders give the same bytes.
    """
    from cake.core.sim import simulate

    subject = subjects(path, config or "all")[0]
    problem = problem_of(subject, shape_option(shape), number_option(scalar), seed)
    runs = ORDERS if order == "all" else ((order, seed),)
    results = []
    with progress("simulating", len(runs)) as step:
        for kind, run_seed in runs:
            done = simulate(subject.program, problem.values, problem.extents, order=kind, seed=run_seed, sms=sms)
            results.append((kind, run_seed, done))
            step(kind)
    if out is not None:
        _save(out, problem.values, results[0][2].outputs)
    digests = [digest(done.outputs) for _, _, done in results]
    finished = [d for d, (_, _, done) in zip(digests, results, strict=True) if done.outcome == "ok"]
    differ = len(set(finished)) > 1
    if as_json:
        rows = [
            {
                "order": kind,
                "seed": run_seed,
                "outcome": done.outcome,
                "where": str(done.where) if done.where else None,
                "path": done.where.path if done.where else None,
                "barrier": done.where.barrier if done.where else None,
                "steps": done.steps,
                "outputs_sha256": d,
                "notes": done.notes,
            }
            for d, (kind, run_seed, done) in zip(digests, results, strict=True)
        ]
        document = {"kernel": subject.name, "config": subject.config, "extents": dict(problem.extents), "sms": sms}
        print_json(document | {"runs": rows, "orders_differ": differ})
    else:
        at = ", ".join(f"{name}={value}" for name, value in problem.extents.items())
        click.echo(f"{subject.label}, {at}, {sms} SMs")
        rows_ = [
            (
                kind if kind != "random" else f"random {run_seed}",
                style(done.outcome, fg=SHOWN[done.outcome]),
                str(done.steps),
                d[:16],
            )
            for d, (kind, run_seed, done) in zip(digests, results, strict=True)
        ]
        click.echo(table(("order", "outcome", "steps", "outputs (sha256)"), rows_))
        for text in dict.fromkeys(str(done.where) for _, _, done in results if done.where):
            click.echo(f"{style('stopped at', fg='red')} {text}")
        for note in dict.fromkeys(note for _, _, done in results for note in done.notes):
            click.echo(f"{style('note:', fg='yellow')} {note}")
        if differ:
            click.echo(
                style(
                    "outputs depend on the order in which effects land: something does not wait for something", fg="red"
                )
            )
    if differ or len(finished) < len(results):
        raise click.exceptions.Exit(Exit.FINDINGS)


def problem_of(subject: Subject, shape: Mapping[str, int], scalars: Mapping[str, float], seed: int) -> Problem:
    """Extents and seeded inputs for one simulation: what the user gave, else the contract's, else standard normal.

    Raises CakeError (usage) that lists the extents still missing, or names one that the kernel does not have.
    """
    from cake.core.contract import read_contract
    from cake.core.inputs import generate

    program = subject.program
    contract_file = subject.folder / "contract.toml" if subject.folder else None
    contract = read_contract(contract_file) if contract_file and contract_file.is_file() else None
    extents = dict(shape)
    if not extents and contract and contract.simulator:
        extents = dict(contract.simulator[0])
    missing = [name for name in program.extents if name not in extents]
    unknown = [name for name in extents if name not in program.extents]
    if missing or unknown:
        what = f"needs {', '.join(missing)}" if missing else f"has no extent {', '.join(unknown)}"
        example = ",".join(f"{name}=64" for name in program.extents)
        raise CakeError(f"{subject.name} {what}: give its extents as --shape {example}")
    values: dict[str, Any] = {}
    for tensor in program.of(Tensor):
        kind, parameters = contract.distributions[0].of(tensor.name) if contract else ("normal", {})
        dims = tuple(extents[d] if isinstance(d, str) else d for d in tensor.dims)
        if math.prod(dims) > 1 << 26:
            raise CakeError(f"tensor {tensor.name} has {math.prod(dims)} elements: the simulator is for small shapes")
        values[tensor.name] = generate(kind, parameters, dims, tensor.dtype.name, seed=seed, name=tensor.name)
    for parameter in program.of(Scalar):
        known = contract.scalars.get(parameter.name, 1.0) if contract else 1.0
        values[parameter.name] = scalars.get(parameter.name, known)
    return Problem(extents, values)


def digest(outputs: Mapping[str, Any]) -> str:
    """sha256 of all outputs' bytes, in order of name."""
    h = hashlib.sha256()
    for name in sorted(outputs):
        h.update(name.encode() + b"\0" + outputs[name].tobytes())
    return h.hexdigest()


def _save(path: Path, values: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
    import numpy as np

    def portable(array: Any) -> Any:  # .npz knows no bf16; f32 holds every bf16 exactly
        return array.astype(np.float32) if array.dtype.kind == "V" or array.dtype.name == "bfloat16" else array

    arrays = {name: portable(np.asarray(value)) for name, value in {**values, **outputs}.items()}
    try:
        np.savez(path, **arrays)
    except OSError as error:
        raise CakeError(f"{path} cannot be written: {error.strerror}") from error


COMMANDS: Final = {"sim": sim}
