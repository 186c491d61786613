"""`cake sim`: run a schedule in the CPU simulator, under friendly and hostile orders of its asynchronous effects."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from cake.cli.app import Verb
from cake.cli.output import json_option, plain, print_json, progress, style, table
from cake.cli.programs import Subject, number_option, shape_option, subjects
from cake.core.errors import CakeError, Exit
from cake.core.ir import Scalar, Tensor

if TYPE_CHECKING:
    from cake.core.sim import OrderName

#: Seeds of the random orders that `--order all` runs beside the simulator's fixed ones.
RANDOM_SEEDS: Final = (1, 2)
SHOWN: Final = {"ok": "green", "hang": "red", "trap": "red", "unknown": "yellow"}


@dataclass(frozen=True, slots=True)
class Problem:
    """What to simulate: extents, and the tensors that the program reads and its scalars by name."""

    extents: Mapping[str, int]
    values: Mapping[str, Any]


@click.command(
    cls=Verb,
    examples={
        "cake sim corpus/kernels/rmsnorm_bf16": "the contract's first simulator shape, in eight orders",
        "cake sim my_kernel.cake --shape M=64,N=128 --order lazy/3": "one order, on a shape of your own",
        "cake sim my_kernel.cake --shape M=2,N=32 --out run.npz": "keep inputs and outputs, to look at with NumPy",
    },
)
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--config", default="", metavar="NAME", help="Configuration to run (default: the first).")
@click.option("--shape", metavar="M=..,N=..", help="Extents (default: the contract's first simulator shape).")
@click.option("--scalar", metavar="eps=..", help="Values of scalar parameters (default: the contract's, or 1).")
@click.option(
    "--order",
    default="all",
    metavar="all|eager|lazy[/N]|random[/N]",
    show_default=True,
    help="When asynchronous effects land, and who goes first.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the inputs.")
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
    from cake.core.sim import Simulator

    subject = subjects(path, config or "all")[0]
    problem = problem_of(subject, shape_option(shape), number_option(scalar), seed)
    orders = order_option(order)
    simulator = Simulator(subject.program)
    results = []
    with progress("simulating", len(orders)) as step:
        for kind, variant in orders:
            results.append(simulator.run(problem.values, problem.extents, order=kind, seed=variant, sms=sms))
            step(kind)
    if out is not None:
        _save(out, problem.values, results[0].outputs)
    digests = [digest(done.outputs) for done in results]
    differ = len({d for d, done in zip(digests, results, strict=True) if done.outcome == "ok"}) > 1
    if as_json:
        runs = [
            {
                "order": f"{done.order}/{done.seed}",
                "outcome": done.outcome,
                "where": plain(done.where),
                "steps": done.steps,
                "outputs_sha256": d,
                "notes": done.notes,
            }
            for d, done in zip(digests, results, strict=True)
        ]
        document = {"kernel": subject.name, "config": subject.config, "extents": dict(problem.extents), "sms": sms}
        print_json(document | {"runs": runs, "orders_differ": differ})
    else:
        at = ", ".join(f"{name}={value}" for name, value in problem.extents.items())
        click.echo(f"{subject.label}, {at}, {sms} SMs")
        rows = [
            (
                f"{done.order}/{done.seed}",
                style(done.outcome, fg=SHOWN[done.outcome]),
                str(done.steps),
                d[:16] if done.outcome == "ok" else "",
            )
            for d, done in zip(digests, results, strict=True)
        ]
        click.echo(table(("order", "outcome", "steps", "outputs (sha256)"), rows))
        stops = {(done.where.path, done.where.barrier): done.where for done in reversed(results) if done.where}
        for stop in reversed(stops.values()):
            click.echo(f"{style('stopped at', fg='red')} {stop}")
        for note in dict.fromkeys(note for done in results for note in done.notes):
            click.echo(f"{style('note:', fg='yellow')} {note}")
        if differ:
            text = "outputs depend on the order in which effects land: something does not wait for something"
            click.echo(style(text, fg="red"))
    if differ or any(done.outcome != "ok" for done in results):
        raise click.exceptions.Exit(Exit.FINDINGS)


def order_option(text: str) -> list[tuple[OrderName, int]]:
    """`--order` as (name, variant) pairs. Raises CakeError (usage) for anything else."""
    from cake.core.sim import FIXED

    if text == "all":
        return [*FIXED, *(("random", seed) for seed in RANDOM_SEEDS)]
    name, _, variant = text.partition("/")
    if variant and not variant.isdecimal():
        raise CakeError(f"--order: {variant!r} is no number; write lazy/3 or random/7")
    match name:
        case "eager" | "lazy" | "random":
            return [(name, int(variant or 0))]
    raise CakeError(f"--order: {text!r} is not all, eager, lazy/N or random/N")


def problem_of(subject: Subject, shape: Mapping[str, int], scalars: Mapping[str, float], seed: int) -> Problem:
    """Extents and seeded inputs for one simulation: what the user gave, else the contract's, else standard normal.

    Raises CakeError (usage) that lists the extents still missing, or names one that the kernel does not have.
    """
    from cake.core.contract import read_contract
    from cake.core.inputs import generate
    from cake.core.mutate import tensors_read

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
    read = tensors_read(program)
    for tensor in (t for t in program.of(Tensor) if t.name in read):
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
