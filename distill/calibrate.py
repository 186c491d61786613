"""Calibrations from measurements: what a unit of each cost feature takes on one device.

    python -m distill.calibrate prepare FOLDER                                  here: cubins and timing requests
    python -m cake.core.worker --batch FOLDER/requests --jobs 1 --out RESULTS   there: one at a time
    python -m distill.calibrate collect FOLDER RESULTS --out LOG                here: evidence records (stage measure)
    python -m distill.calibrate fit LOG --name h200 --out FILE                  here: the calibration, as a plugin file

The fit minimises a robust loss of the relative error over non-negative coefficients. Its held-out error comes from
leaving out each configuration of each kernel in turn; the conformal interval from those errors.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from cake.core.calibration import Calibration
from cake.core.cost import FEATURES, OVERLAPPED, features
from cake.core.errors import CakeError, Exit
from cake.core.evidence import EvidenceWriter, Log, Origin, Record, read_log

Vector = npt.NDArray[np.float64]

COVERAGE: Final = 0.9
#: Relative error beyond which a point counts as an outlier and pulls only linearly.
SOFT: Final = 0.1
#: Factors by which the search moves a coefficient, coarse to fine.
_STEPS: Final = (4.0, 1.5, 1.15, 1.04, 1.01, 1.002)
#: Least points for a fit: fewer would be remembered, not fitted.
LEAST: Final = 20


@dataclass(frozen=True, slots=True)
class Point:
    """One timed launch: `group` names its kernel and configuration, `seconds` is the median of its samples."""

    group: str
    features: Mapping[str, float]
    seconds: float


@dataclass(frozen=True, slots=True)
class Fit:
    """Coefficients (seconds a unit, in the order of `FEATURES`) with held-out relative errors, one a point, and the
    Spearman rank correlation of held-out predictions with the measurements."""

    coefficients: tuple[float, ...]
    errors: tuple[float, ...]
    rank_correlation: float


_SLOWEST: Final = np.array([name in OVERLAPPED for name in FEATURES])


def matrix(points: Sequence[Point]) -> Vector:
    """The points' features, a row each."""
    return np.array([[p.features[name] for name in FEATURES] for p in points])


def predicted(points: Sequence[Point], coefficients: Sequence[float]) -> Vector:
    """The model's seconds for each point (see `cake.core.cost.combine`)."""
    return _model(matrix(points), np.array(coefficients))


def _model(x: Vector, coefficients: Vector) -> Vector:
    parts = x * coefficients
    seconds: Vector = parts[:, _SLOWEST].max(axis=1) + parts[:, ~_SLOWEST].sum(axis=1)
    return seconds


def _loss(x: Vector, truth: Vector, coefficients: Sequence[float]) -> float:
    """Mean soft-L1 loss of the relative error: quadratic below `SOFT`, linear beyond."""
    relative = (_model(x, np.array(coefficients)) - truth) / truth / SOFT
    return float(np.mean(2 * (np.sqrt(1 + relative**2) - 1)))


def fit(points: Sequence[Point]) -> tuple[float, ...]:
    """Non-negative coefficients by cyclic multiplicative search: deterministic, and without gradients, which a maximum
    does not have everywhere. Starts where each feature alone explains at most half of any point."""
    x, truth = matrix(points), np.array([p.seconds for p in points])
    start = [0.5 * float(min(truth[c > 0] / c[c > 0], default=0.0)) for c in x.T]
    best = list(start)
    lowest = _loss(x, truth, best)
    for step in _STEPS:
        improved = True
        while improved:
            improved = False
            for i in range(len(best)):
                base = best[i] or start[i]
                for value in (base * step, base / step, 0.0):
                    trial = [*best[:i], value, *best[i + 1 :]]
                    found = _loss(x, truth, trial)
                    if found < lowest - 1e-9:
                        best, lowest, improved = trial, found, True
    return tuple(float(f"{c:.4g}") for c in best)


def cross_validate(points: Sequence[Point]) -> Fit:
    """Fit all points; predict each group by a fit of the others."""
    if len(points) < LEAST:
        raise CakeError(f"{len(points)} timed launches, not {LEAST} or more: measure more", Exit.FINDINGS)
    guesses = np.zeros(len(points))
    for group in sorted({p.group for p in points}):
        rest = [p for p in points if p.group != group]
        held = [i for i, p in enumerate(points) if p.group == group]
        guesses[held] = predicted([points[i] for i in held], fit(rest))
    truth = np.array([p.seconds for p in points])
    errors = np.abs(guesses - truth) / truth
    return Fit(fit(points), tuple(map(float, errors)), spearman(guesses, truth))


def spearman(a: Vector, b: Vector) -> float:
    """The rank correlation of two samples without ties of weight."""
    first, second = (np.argsort(np.argsort(x)).astype(np.float64) for x in (a, b))
    return float(np.corrcoef(first, second)[0, 1])


def conformal(errors: Sequence[float], coverage: float) -> float:
    """The half-width that held-out errors stay within, with split conformal prediction's finite-sample correction."""
    rank = int(np.ceil((len(errors) + 1) * coverage))
    return float(sorted(errors)[min(rank, len(errors)) - 1])


# ------------------------------------------------------------------------------------------------------ measurements


def prepare(folder: Path) -> int:
    """Compile every corpus configuration into a request that times all its calibration problems. Returns how many."""
    from cake.core.compile import compile_program
    from cake.core.corpus import load_corpus
    from cake.core.lower import lower
    from cake.core.worker import Case, Request, Timing, write_request

    entries = []
    for kernel in load_corpus():
        for config in kernel.configs:
            constants = kernel.constants(config)
            shapes = [s for s in kernel.contract.calibration if not kernel.contract.refusal(s, constants)]
            cubin, plan = compile_program(lower(kernel.program(config)))
            inputs = {t.name: {"kind": "normal", "seed": 1} for t in plan.tensors if t.read}
            cases = tuple(Case(str(i), shape, kernel.contract.scalars, inputs) for i, shape in enumerate(shapes))
            name = f"{kernel.name}.{config}"
            write_request(
                folder / "requests" / name,
                Request("kernel.cubin", plan, cases, runs=1, timeout_s=20.0, timing=Timing()),
                cubin.data,
            )
            about = {"kernel": kernel.name, "config": config}
            entries.append({**about, "request": name, "cubin_sha256": cubin.sha256, "nvrtc": cubin.version})
    (folder / "calibrate.json").write_text(json.dumps(entries, sort_keys=True) + "\n")
    return len(entries)


def collect(folder: Path, results: Path, writer: EvidenceWriter) -> int:
    """Write a record for every timed problem in a batch's results. Returns how many."""
    from cake.core.corpus import load_corpus
    from cake.core.printer import print_program
    from cake.core.programs import text_hash

    kernels = {k.name: k for k in load_corpus()}
    entries = {e["request"]: e for e in json.loads((folder / "calibrate.json").read_text())}
    count = 0
    for line in map(json.loads, results.read_text().splitlines()):
        entry, result = entries[line["request"]], line["result"]
        kernel = kernels[entry["kernel"]]
        text = print_program(kernel.program(entry["config"]))
        for case in result["cases"] if result else ():
            if case["outcome"] != "ok":
                continue
            samples = np.array(case["samples_s"])
            low, median, high = (float(q) for q in np.quantile(samples, (0.25, 0.5, 0.75)))
            record = Record(
                program=text_hash(text),
                outcome="ok",
                stage="measure",
                kernel=kernel.name,
                device=result["device"]["name"],
                cubin_sha256=entry["cubin_sha256"],
                config=kernel.constants(entry["config"]),
                extents=case["extents"],
                nvrtc=entry["nvrtc"],
                driver=str(result["device"].get("nvidia_smi", "")).split(",")[0] or result["device"]["driver"],
                exit_status=line["exit_status"],
                wall_s=round(case["wall_s"], 3),
                diagnostics=({"kind": "samples", "seconds": [round(s, 9) for s in case["samples_s"]]},),
                metrics={"median_s": median, "q25_s": low, "q75_s": high, "sm_count": result["device"]["sm_count"]},
                origin=Origin(parent=text_hash(text), labeller="gpu"),
            )
            writer.append(record, text)
            count += 1
    return count


def points_of(log: Log) -> tuple[list[Point], str, int]:
    """The timed launches of a log, the one device that they ran on, and its multiprocessors."""
    from cake.core.reader import read_program

    timed = [r for r in log.records if r.stage == "measure" and "median_s" in r.metrics]
    devices = sorted({r.device for r in timed})
    if len(devices) != 1:
        raise CakeError(f"{log.path} has timed launches of {len(devices)} devices, not of one", Exit.FINDINGS)
    points = []
    for r in timed:
        program = read_program(log.text(r))
        counted = features(program, r.extents, int(r.metrics["sm_count"]))
        points.append(Point(f"{r.kernel} {r.program[:12]}", counted, r.metrics["median_s"]))
    return points, devices[0], int(timed[0].metrics["sm_count"])


def calibrate(log: Log, name: str, target: str) -> tuple[Calibration, Fit]:
    """The calibration of a log's timed launches, and the fit behind it."""
    points, device, sm_count = points_of(log)
    found = cross_validate(points)
    groups = sorted({p.group.split()[0] for p in points})
    return (
        Calibration(
            name=name,
            device=device,
            target=target,
            features=FEATURES,
            coefficients=found.coefficients,
            fitted_on=", ".join(groups),
            n=len(points),
            held_out_error=round(float(np.median(found.errors)), 4),
            held_out_n=len(found.errors),
            interval=round(conformal(found.errors, COVERAGE), 4),
            coverage=COVERAGE,
            provenance=(
                f"{len(points)} launches, {len({p.group for p in points})} configurations each held out in turn; "
                f"rank correlation of held-out predictions {found.rank_correlation:.3f}"
            ),
            sm_count=sm_count,
        ),
        found,
    )


def render(calibration: Calibration) -> str:
    """The plugin file of a calibration: one literal."""
    lines = [_line(key, value) for key, value in asdict(calibration).items()]
    head = f'"""What work costs on {calibration.device}, fitted by `python -m distill.calibrate fit`."""'
    body = "\n".join(lines)
    name = calibration.name.upper()
    return f"{head}\n\nfrom cake.core.calibration import Calibration\n\n{name} = Calibration(\n{body}\n)\n"


def _line(key: str, value: Any) -> str:
    line = f"    {key}={_literal(value)},"
    if len(line) <= 120 or not isinstance(value, tuple | list):
        return line
    return "\n".join((f"    {key}=(", *(f"        {_literal(v)}," for v in value), "    ),"))


def _literal(value: Any) -> str:
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, tuple | list):
        return f"({', '.join(map(_literal, value))})"
    return repr(value)


def main(argv: list[str] | None = None) -> int:
    """Entry of `python -m distill.calibrate`."""
    parser = argparse.ArgumentParser(prog="python -m distill.calibrate", description="Fit a calibration.")
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("prepare").add_argument("folder", type=Path)
    verb = verbs.add_parser("collect")
    verb.add_argument("folder", type=Path)
    verb.add_argument("results", type=Path)
    verb.add_argument("--out", type=Path, required=True, help="the log's records.jsonl")
    verb = verbs.add_parser("fit")
    verb.add_argument("log", type=Path)
    verb.add_argument("--name", default="h200")
    verb.add_argument("--target", default="sm_90a")
    verb.add_argument("--out", type=Path, required=True, help="the plugin file")
    args = parser.parse_args(argv)
    try:
        if args.verb == "prepare":
            print(f"{prepare(args.folder)} requests")
        elif args.verb == "collect":
            with EvidenceWriter(args.out) as writer:
                print(f"{collect(args.folder, args.results, writer)} timed launches")
        else:
            calibration, _ = calibrate(read_log(args.log), args.name, args.target)
            args.out.write_text(render(calibration))
            print(f"held-out error {calibration.held_out_error:.1%}, {calibration.provenance}")
    except CakeError as error:
        print(f"error: {error.message}", file=sys.stderr)
        return int(error.exit_code)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
