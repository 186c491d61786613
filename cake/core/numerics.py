"""Numerical validation: a kernel on the GPU, in a worker process, against its oracle in this one.

This process owns the inputs (drawn from a secret seed), the reference and the judgement; the worker owns nothing but a
cubin, its launch plan and the names of distributions. Outputs start poisoned, lie between guards, and are produced
twice; inputs are compared with what they were.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from cake.core.compile import Cubin, compile_program
from cake.core.contract import Contract, Distribution, Extents
from cake.core.corpus import CorpusKernel, Oracle
from cake.core.diagnostics import Category, Finding, GateResult, Verdict
from cake.core.errors import CakeError, Exit
from cake.core.inputs import NUMPY, Array, generate
from cake.core.ir import Program
from cake.core.lower import lower
from cake.core.plan import LaunchPlan
from cake.core.report import not_run
from cake.core.worker import Case, Request, read_output, write_request
from cake.core.worker_batch import WorkerRun, run_worker

CATEGORY = Category.NUMERICAL_VALIDATION
#: Seconds for a worker: its start, inputs made on the host, and every problem twice.
_TIMEOUT_S = 600.0


@dataclass(frozen=True, slots=True)
class Trial:
    """One problem on one distribution, with its own part of the secret seed."""

    extents: Extents
    distribution: Distribution
    seed: int


def trials(contract: Contract, constants: Mapping[str, Any], seed: int, *, large: bool) -> list[Trial]:
    """Every correctness problem on every distribution; with `large` also the performance problems, on the first one."""
    found = [(s, d) for s in contract.correctness for d in contract.distributions]
    if large:
        found += [(s, contract.distributions[0]) for s in contract.performance]
    kept = [(s, d) for s, d in found if not contract.refusal(s, constants)]
    return [Trial(s, d, seed + i) for i, (s, d) in enumerate(kept)]


def validate(
    kernel: CorpusKernel, config: str, cubin: Cubin, plan: LaunchPlan, folder: Path, seed: int | None = None
) -> tuple[GateResult, dict[str, str]]:
    """Run every trial in a worker and judge it. Returns the category's result and facts about the device.

    Without a GPU, PyTorch or cuda-bindings the verdict is `unknown`, with the reason."""
    try:
        oracle = kernel.oracle()
    except CakeError as error:
        return not_run(CATEGORY, error.message), {}
    seed = secrets.randbits(40) if seed is None else seed
    todo = trials(kernel.contract, kernel.constants(config), seed, large=_cuda())
    if not todo:
        return not_run(CATEGORY, "the contract has no problem to validate"), {}
    run = run_worker(_request(folder, kernel.contract, cubin, plan, todo), _TIMEOUT_S)
    if run.exit_status == Exit.ENVIRONMENT:
        return not_run(CATEGORY, run.stderr.strip().removeprefix("error: ") or "this machine has no GPU"), {}
    if run.result is None and not run.killed:  # it says nothing about the kernel
        said = run.stderr.strip().splitlines()[-1:] or [f"exit status {run.exit_status}"]
        return not_run(CATEGORY, f"the worker left no result: {said[0]}"), {}
    domain = _domain(todo)
    facts = _facts(run)
    if run.result is None or run.result["outcome"] != "ok":
        failure = _failure(kernel.program(config), run, folder, todo)
        return GateResult(CATEGORY, Verdict.FAIL, domain, findings=(failure,)), facts
    findings: list[Finding] = []
    worst = 0.0
    for trial, case in zip(todo, run.result["cases"], strict=True):
        found, share = _judge(kernel, config, plan, oracle, folder, trial, case)
        findings += found
        worst = max(worst, share)
    verdict = Verdict.FAIL if findings else Verdict.PASS
    metrics = {"trials": float(len(todo)), "launches": 2.0 * len(todo), "worst_error_over_bound": worst}
    return GateResult(CATEGORY, verdict, domain, findings=tuple(findings[:20]), metrics=metrics), facts


def _cuda() -> bool:
    import torch

    return bool(torch.cuda.is_available())


def _request(folder: Path, contract: Contract, cubin: Cubin, plan: LaunchPlan, todo: Sequence[Trial]) -> Path:
    cases = []
    for i, trial in enumerate(todo):
        inputs = {}
        for tensor in plan.tensors:
            if tensor.read:
                kind, parameters = trial.distribution.of(tensor.name)
                inputs[tensor.name] = {"kind": kind, "seed": trial.seed, **parameters}
        cases.append(Case(str(i), trial.extents, contract.scalars, inputs))
    write_request(folder, Request("kernel.cubin", plan, tuple(cases), keep_outputs=True, timeout_s=20.0), cubin.data)
    return folder


def _domain(todo: Sequence[Trial]) -> str:
    shapes = {tuple(sorted(t.extents.items())) for t in todo}
    names = dict.fromkeys(t.distribution.name for t in todo)
    return f"{len(shapes)} problems, {', '.join(names)}: {len(todo)} trials of two launches"


def _facts(run: WorkerRun) -> dict[str, str]:
    device = (run.result or {}).get("device", {})
    return {"device": str(device.get("name", "")), "driver": str(device.get("nvidia_smi") or device.get("driver", ""))}


def to_torch(array: Array) -> Any:
    """A PyTorch tensor of the same values, on the GPU when there is one; bf16 keeps its bits."""
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    if array.dtype == NUMPY["bf16"]:
        return torch.from_numpy(np.ascontiguousarray(array).view(np.int16)).to(device).view(torch.bfloat16)
    return torch.from_numpy(np.ascontiguousarray(array)).to(device)


def error_over_bound(found: Any, want: Any, scale: Any, factors: tuple[float, float, float]) -> tuple[float, int]:
    """The largest error as a share of what the contract allows, and how many elements exceed it (NaNs do)."""
    relative, scaled, absolute = factors
    error = (found.double() - want).abs()
    share = (error / (relative * want.abs() + scaled * scale + absolute)).masked_fill(error == 0, 0.0)
    wrong = int((~(share <= 1)).sum())
    worst = float(share.nan_to_num(nan=float("inf"), posinf=float("inf")).max())
    return worst, wrong


def _judge(
    kernel: CorpusKernel,
    config: str,
    plan: LaunchPlan,
    oracle: Oracle,
    folder: Path,
    trial: Trial,
    case: Mapping[str, Any],
) -> tuple[list[Finding], float]:
    """Findings about one trial, and its worst error as a share of the bound."""
    where = f"{_shape(trial.extents)}, {trial.distribution.name}, seed {trial.seed}"
    findings = [_finding(code, f"{text} on {where}") for code, text in _hygiene(case)]
    inputs = {}
    for tensor in plan.tensors:
        if tensor.name in kernel.contract.inputs:
            kind, parameters = trial.distribution.of(tensor.name)
            shape = plan.shape(tensor, trial.extents)
            array = generate(kind, parameters, shape, tensor.dtype, seed=trial.seed, name=tensor.name)
            inputs[tensor.name] = to_torch(array)
    factors = kernel.contract.tolerance.bound({**_numbers(kernel.constants(config)), **trial.extents})
    worst = 0.0
    for name, (want, scale) in oracle.reference(inputs, kernel.contract.scalars).items():
        found = to_torch(read_output(folder, case["tensors"][name]))
        error, wrong = error_over_bound(found, want, scale, factors)
        (folder / case["tensors"][name]["file"]).unlink()
        worst = max(worst, error)
        if wrong:
            text = f"{wrong} elements of {name} are off by up to {error:.3g} times the bound on {where}"
            findings.append(_finding("GPU-MISMATCH", text))
    return findings, worst


def _hygiene(case: Mapping[str, Any]) -> list[tuple[str, str]]:
    found = []
    for name, tensor in sorted(case["tensors"].items()):
        if tensor["poisoned"]:
            found.append(("GPU-UNWRITTEN", f"{tensor['poisoned']} elements of {name} are never written"))
        if not tensor["guards"]:
            found.append(("GPU-OUTSIDE", f"bytes around {name} are overwritten"))
        if not tensor["input_kept"]:
            found.append(("GPU-INPUT", f"input {name} is changed"))
    if not case["deterministic"]:
        found.append(("GPU-NONDETERMINISM", "two launches differ"))
    return found


def _finding(code: str, text: str, **more: Any) -> Finding:
    paths = more.pop("paths", ())
    return Finding(code, code.lower(), CATEGORY, text, paths, source="gpu", **more)


def _failure(program: Program, run: WorkerRun, folder: Path, todo: Sequence[Trial]) -> Finding:
    """What ended the worker: a fault, or a hang, which is run again with a watchdog to say who waits for what."""
    result = run.result or {}
    outcome = str(result.get("outcome", run.outcome))
    failed = len(result.get("cases", ())) - 1
    where = f" on {_shape(todo[failed].extents)}" if 0 <= failed < len(todo) else ""
    error = result.get("error") or {"text": run.stderr.strip()[-300:]}
    if outcome == "hang" and 0 <= failed < len(todo):
        located = locate(program, folder, todo[failed])
        if located is not None:
            return located
    return _finding(f"GPU-{outcome.upper().replace('_', '-')}", f"{outcome}{where}: {error['text']}")


def locate(program: Program, folder: Path, trial: Trial) -> Finding | None:
    """Run one trial with a watchdog: the wait that gave up, as a finding at its statement. None where it does not hang
    again, or cannot be compiled with a watchdog."""
    request = Request.from_json((folder / "request.json").read_text(encoding="utf-8"))
    try:
        cubin, plan = compile_program(lower(program, watchdog=True))
    except CakeError:
        return None
    case = next(c for c in request.cases if dict(c.extents) == dict(trial.extents))
    again = folder / "watchdog"
    write_request(again, replace(request, plan=plan, cases=(case,), keep_outputs=False, timeout_s=5.0), cubin.data)
    result = run_worker(again, 60.0).result or {}
    stuck = result.get("stuck")
    if not stuck:
        return None
    place = stuck["place"]
    text = (
        f"{place['role']}[{place['instance']}] warp {place['warp']} waits in vain for parity {stuck['parity']} of "
        f"{place['barrier']}[{stuck['slot']}] ({', '.join(f'{n} = {v}' for n, v in place['loops'])})"
    )
    return _finding(
        "GPU-HANG", text, paths=(place["path"],), role=place["role"], barrier=place["barrier"], line=place["line"]
    )


def _shape(extents: Extents) -> str:
    return ", ".join(f"{name}={value}" for name, value in extents.items())


def _numbers(constants: Mapping[str, Any]) -> dict[str, int | float]:
    return {name: value for name, value in constants.items() if isinstance(value, int | float)}
