"""A mutation campaign on a GPU, in three steps, so that the GPU may be on another machine.

    python -m cake.core.campaign prepare FOLDER --seed 1 --count 420          here: mutants, watchdog cubins, requests
    python -m cake.core.worker --batch FOLDER/requests --jobs 8 --out RESULTS there: each in a process of its own
    python -m cake.core.campaign confirm FOLDER RESULTS ALONE                 there: every hang again, alone
    python -m cake.core.campaign collect FOLDER RESULTS ALONE --out LOG       here: evidence records

A mutant and its parent run on the same whole-number inputs on two SMs; their outputs are compared bit for bit. The grid
of a persistent kernel is bound to `cake.core.mutate.SMS`, as in the simulator, so that labels are comparable.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from cake.core.errors import CakeError, Exit
from cake.core.evidence import EvidenceWriter, Origin, Record

if TYPE_CHECKING:
    from cake.core.mutate import Mutant

#: Launches of each case; a mutant whose runs differ is nondeterministic.
RUNS: Final = 4
#: Characters of raw standard error that a record keeps, and stuck warps that it names.
_STDERR: Final = 2000
_PLACES: Final = 12


@dataclass(frozen=True, slots=True)
class Item:
    """One program of a campaign, as `campaign.json` lists it. `request` is its folder, empty when it did not compile;
    then `error` is the compiler's text."""

    request: str
    program: str
    text: str
    kernel: str
    config: Mapping[str, int | float | bool | str]
    outputs: tuple[str, ...]
    shapes: tuple[Mapping[str, int], ...]
    operator: str
    origin: Mapping[str, Any]
    cubin_sha256: str
    nvrtc: str
    error: str = ""
    wall_s: float = 0.0


# ------------------------------------------------------------------------------------------------------------- prepare


def prepare(folder: Path, mutants: Sequence[Mutant], seed: int, progress: Callable[[str], None]) -> list[Item]:
    """Compile every mutant with a watchdog into a worker request below `folder`; write `campaign.json`."""
    items: list[Item] = []
    for i, mutant in enumerate(mutants):
        items.append(_prepared(folder, f"{i:04d}", mutant, seed))
        progress(f"[{i + 1}/{len(mutants)}] {mutant.kernel} {mutant.kind or 'unedited'} {items[-1].error[:80]}")
    (folder / "campaign.json").write_text(json.dumps([asdict(item) for item in items], sort_keys=True) + "\n")
    return items


def _prepared(folder: Path, name: str, mutant: Mutant, seed: int) -> Item:
    from cake.core.compile import compile_program, nvrtc_version
    from cake.core.lower import lower
    from cake.core.mutate import input_spec
    from cake.core.worker import Case, Request, write_request

    began = time.monotonic()
    item = Item(
        "",
        mutant.name,
        mutant.text,
        mutant.kernel,
        mutant.config,
        mutant.outputs,
        mutant.shapes,
        mutant.kind,
        asdict(mutant.origin(seed, "gpu")),
        "",
        nvrtc_version(),
    )
    try:
        cubin, plan = compile_program(lower(mutant.program, watchdog=True))
    except CakeError as error:
        return replace(item, error=error.message, wall_s=time.monotonic() - began)
    read = [t.name for t in plan.tensors if t.read]
    cases = tuple(
        Case(str(i), shape, mutant.scalars, {tensor: input_spec(seed) for tensor in read})
        for i, shape in enumerate(mutant.shapes)
    )
    request = Request("kernel.cubin", replace(plan, grid=_bound(plan.grid)), cases, runs=RUNS, timeout_s=3.0)
    write_request(folder / "requests" / name, request, cubin.data)
    return replace(item, request=name, cubin_sha256=cubin.sha256, wall_s=time.monotonic() - began)


def _bound(grid: Any) -> Any:
    """A grid expression with the SMs that the simulator has."""
    from cake.core.mutate import SMS

    if isinstance(grid, list | tuple):
        return [grid[0], *map(_bound, grid[1:])]
    return SMS if grid == "sm_count" else grid


# ------------------------------------------------------------------------------------------------------------- confirm


def confirm(folder: Path, results: Path, alone: Path, deadline_s: float) -> int:
    """Run every hang in `results` again, one at a time, and append what came of it to `alone`; stops when `deadline_s`
    seconds are over. Returns the number of hangs left unconfirmed."""
    from cake.core.worker_batch import run_worker

    done = {line["request"] for line in _lines(alone)} if alone.exists() else set()
    hangs = [line["request"] for line in _lines(results) if line["outcome"] == "hang" and line["request"] not in done]
    end = time.monotonic() + deadline_s
    counts: Counter[str] = Counter()
    with alone.open("a", encoding="utf-8") as out:
        for request in sorted(hangs):
            if time.monotonic() > end:
                break
            run = run_worker(folder / "requests" / request, 40.0)
            if run.exit_status == Exit.ENVIRONMENT:  # nothing ran: the hang stands as it was
                raise CakeError(run.stderr.strip().removeprefix("error: ") or "no GPU", Exit.ENVIRONMENT)
            counts[run.outcome] += 1
            out.write(json.dumps({**asdict(run), "outcome": run.outcome}, sort_keys=True) + "\n")
            out.flush()
    left = len(hangs) - sum(counts.values())
    print(f"alone: {dict(counts)}, {left} left")
    return left


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            data = json.loads(line)
        except ValueError:
            continue  # torn by a crash; the batch runs that request again
        if isinstance(data, dict) and "request" in data:
            yield data


# ------------------------------------------------------------------------------------------------------------- collect


def collect(folder: Path, results: Path, alone: Path | None) -> Iterator[tuple[Record, str]]:
    """The records of a campaign, one for each problem that a program ran on, each with its program's text.

    Raises CakeError when an unedited parent did not run well: then nothing has a reference."""
    items = [_item(data) for data in json.loads((folder / "campaign.json").read_text())]
    runs = {line["request"]: line for line in _lines(results)}
    confirmed = {line["request"]: line for line in _lines(alone)} if alone and alone.exists() else {}
    reference = _references(items, runs)
    for item in items:
        if item.error:
            yield _compile_record(item), item.text
        elif item.request in runs:
            run = confirmed.get(item.request, runs[item.request])
            for record in _run_records(item, run, reference, item.request in confirmed):
                yield record, item.text


def _item(data: dict[str, Any]) -> Item:
    return Item(**{**data, "outputs": tuple(data["outputs"]), "shapes": tuple(data["shapes"])})


def _references(items: Sequence[Item], runs: Mapping[str, Any]) -> dict[tuple[str, int], str]:
    """Checksums of the parents' outputs, by program and case."""
    found: dict[tuple[str, int], str] = {}
    for item in items:
        if item.operator or item.request not in runs:
            continue
        result = runs[item.request]["result"] or {"outcome": runs[item.request]["outcome"], "cases": []}
        for i, case in enumerate(result["cases"]):
            if case["outcome"] != "ok" or not case["deterministic"] or not case["intact"]:
                raise CakeError(f"{item.kernel} {dict(item.config)} is no reference: {case}")
            found[item.program, i] = _checksum(item, case)
        if result["outcome"] != "ok":
            raise CakeError(f"{item.kernel} {dict(item.config)} is no reference: {result['outcome']}")
    return found


def _checksum(item: Item, case: Mapping[str, Any]) -> str:
    from cake.core.mutate import sum_of

    return sum_of({name: case["tensors"][name]["sha256"] for name in item.outputs})


def _compile_record(item: Item) -> Record:
    from cake.core.foreign import parse_foreign

    return Record(
        program=item.program,
        outcome="compile_error",
        stage="compile",
        kernel=item.kernel,
        operator=item.operator,
        config=item.config,
        nvrtc=item.nvrtc,
        stderr=item.error[:_STDERR],
        wall_s=round(item.wall_s, 3),
        diagnostics=tuple(f.diagnostic() for f in parse_foreign(item.error))[:_PLACES],
        origin=Origin(**{**item.origin, "labeller": "compiler"}),
    )


def _run_records(
    item: Item, run: Mapping[str, Any], reference: Mapping[tuple[str, int], str], alone: bool
) -> Iterator[Record]:
    if run["result"] is None and run["exit_status"] > 0 and not run["killed"]:
        return  # the worker gave up by itself: that says something of the machine, nothing of the program
    result = run["result"] or {}
    device = result.get("device", {})
    base = Record(
        program=item.program,
        outcome="launch_failure",
        stage="run",
        kernel=item.kernel,
        operator=item.operator,
        device=device.get("name", ""),
        cubin_sha256=item.cubin_sha256,
        config=item.config,
        extents=item.shapes[0],
        nvrtc=item.nvrtc,
        driver=_driver(device),
        exit_status=run["exit_status"],
        stderr=run["stderr"][-_STDERR:],
        wall_s=round(run["wall_s"], 3),
        origin=Origin(**item.origin),
    )
    if not result or not result["cases"]:
        # Killed, or refused before a launch: the worker, the plan or the driver says why.
        error = result.get("error") or {}
        said: tuple[Mapping[str, Any], ...] = ({"kind": "driver", **error},) if error else ()
        yield replace(base, outcome="hang" if run["killed"] else base.outcome, diagnostics=said)
        return
    for i, case in enumerate(result["cases"]):
        outcome, checksum, said = _case(item, case, reference.get((item.origin["parent"], i), ""))
        if outcome == "hang":
            said += ({"kind": "confirmed", "alone": alone},)
        if case["outcome"] != "ok":
            said = _failure(result) + said
        wall = case.get("wall_s", run["wall_s"])
        yield replace(
            base,
            outcome=outcome,
            extents=case["extents"],
            output_checksum=checksum,
            wall_s=round(wall, 3),
            diagnostics=said,
            metrics={"runs": RUNS, "ctas": case["ctas"]} if "ctas" in case else {},
        )


def _driver(device: Mapping[str, Any]) -> str:
    """The driver's version: the product's, as nvidia-smi prints it first, else that of its interface."""
    return str(device.get("nvidia_smi") or "").split(",")[0].strip() or str(device.get("driver", ""))


def _case(item: Item, case: Mapping[str, Any], reference: str) -> tuple[str, str, tuple[Mapping[str, Any], ...]]:
    """Outcome, checksum of the outputs, and diagnostics of one problem."""
    if case["outcome"] != "ok":
        return case["outcome"], "", ()
    checksum = _checksum(item, case)
    said: list[Mapping[str, Any]] = []
    for name, tensor in sorted(case["tensors"].items()):
        if tensor["poisoned"]:
            said.append({"kind": "unwritten", "tensor": name, "elements": tensor["poisoned"]})
        if not tensor["guards"]:
            said.append({"kind": "outside", "tensor": name})
        if not tensor["input_kept"]:
            said.append({"kind": "input changed", "tensor": name})
    if not case["deterministic"]:
        return "nondeterminism", checksum, tuple(said)
    right = checksum == reference and case["intact"]
    return "ok" if right else "mismatch", checksum, tuple(said)


def _failure(result: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...]:
    """What the worker knows about the case that ended its request: who waited for what, where the others stood."""
    said: list[Mapping[str, Any]] = []
    if stuck := result.get("stuck"):
        place = stuck["place"]
        said.append(
            {
                "kind": "watchdog",
                "wait": stuck["kind"],
                "path": place["path"],
                "role": place["role"],
                "instance": place["instance"],
                "warp": place["warp"],
                "barrier": place["barrier"],
                "slot": stuck["slot"],
                "parity": stuck["parity"],
                "iteration": dict(place["loops"]),
            }
        )
    if places := result.get("places"):
        said.append({"kind": "places", "places": places[:_PLACES]})
    if error := result.get("error"):
        said.append({"kind": "driver", **error})
    return tuple(said)


# ---------------------------------------------------------------------------------------------------------------- main


def main(argv: list[str] | None = None) -> int:
    """Entry of `python -m cake.core.campaign`."""
    parser = argparse.ArgumentParser(prog="python -m cake.core.campaign", description="A mutation campaign on a GPU.")
    verbs = parser.add_subparsers(dest="verb", required=True)
    verb = verbs.add_parser("prepare", help="here: mutants, watchdog cubins, worker requests")
    verb.add_argument("folder", type=Path)
    verb.add_argument("--seed", type=int, required=True)
    verb.add_argument("--count", type=int, required=True)
    verb = verbs.add_parser("confirm", help="there: run every hang again, alone")
    for name in ("folder", "results", "alone"):
        verb.add_argument(name, type=Path)
    verb.add_argument("--deadline", type=float, default=300.0, help="seconds (default 300)")
    verb = verbs.add_parser("collect", help="here: write evidence records")
    for name in ("folder", "results", "alone"):
        verb.add_argument(name, type=Path)
    verb.add_argument("--out", type=Path, required=True, help="the log, a new or an existing records.jsonl")
    args = parser.parse_args(argv)
    try:
        return _run(args)
    except CakeError as error:
        print(f"error: {error.message}", file=sys.stderr)
        return int(error.exit_code)


def _run(args: argparse.Namespace) -> int:
    if args.verb == "confirm":
        return 1 if confirm(args.folder, args.results, args.alone, args.deadline) else 0
    if args.verb == "prepare":
        from cake.core.corpus import load_corpus
        from cake.core.mutate import mutate, parents

        kernels = load_corpus()
        mutants = [*parents(kernels), *mutate(kernels, args.seed, args.count)]
        items = prepare(args.folder, mutants, args.seed, lambda line: print(line, file=sys.stderr))
        print(f"{len(items)} programs, {sum(bool(i.error) for i in items)} of them do not compile")
        return 0
    counts: Counter[str] = Counter()
    with EvidenceWriter(args.out) as writer:
        for record, text in collect(args.folder, args.results, args.alone):
            writer.append(record, text)
            counts[record.outcome] += 1
    print(dict(counts))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
