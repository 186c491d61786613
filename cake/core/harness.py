"""The harness: one kernel configuration through every gate, into one report.

Static categories, then the simulator, the compiler, the GPU against the oracle, and the clock. A gate that fails stops
the ones behind it; what is not run is `unknown` and says why. Nothing here needs a GPU to start: without one, the
categories that need it are `unknown`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any, Final, TypeAlias

from cake.core import numerics
from cake.core.compile import Cubin, compile_program
from cake.core.corpus import CorpusKernel
from cake.core.cost import AbstainError, Prediction, features, predict
from cake.core.diagnostics import STATIC_CATEGORIES, Category, Finding, GateResult, Verdict
from cake.core.errors import CakeError, Exit
from cake.core.expression import evaluate
from cake.core.inputs import generate
from cake.core.ir import Program, Tensor
from cake.core.lower import lower
from cake.core.plan import LaunchPlan
from cake.core.printer import program_hash
from cake.core.registry import calibrations, rules, targets
from cake.core.report import Report, Step, not_run
from cake.core.rule import Rule
from cake.core.sim import run_orders

#: Orders that the simulator gate adds at random to its fixed ones.
SIMULATED_SEEDS: Final = range(2)
_BENCH_TIMEOUT_S: Final = 600.0

Built: TypeAlias = tuple[Cubin, LaunchPlan]


def run_kernel(
    kernel: CorpusKernel,
    configs: Sequence[str] | None = None,
    *,
    chosen: Sequence[Rule] | None = None,
    gpu: bool = True,
    seed: int | None = None,
    scratch: Path | None = None,
) -> tuple[Report, ...]:
    """Run configurations of a kernel (all by default) through every gate, one report each.

    `chosen` are the rules to check (all registered ones by default); `gpu=False` leaves the GPU alone; `seed` fixes the
    inputs of the numerical trials, which come from a secret seed otherwise; bundles for the GPU are written below
    `scratch` (a temporary folder by default). Raises CakeError for an unknown configuration.
    """
    names = list(configs) if configs is not None else list(kernel.configs)
    for name in names:
        kernel.program(name)
    with tempfile.TemporaryDirectory(prefix="cake-") as temporary:
        root = scratch or Path(temporary)
        return tuple(_Run(kernel, name, chosen, gpu, seed, root / f"{kernel.name}.{name}").report() for name in names)


class _Run:
    """One configuration on its way through the gates."""

    def __init__(
        self,
        kernel: CorpusKernel,
        config: str,
        chosen: Sequence[Rule] | None,
        gpu: bool,
        seed: int | None,
        folder: Path,
    ) -> None:
        self.kernel, self.config, self.gpu, self.seed, self.folder = kernel, config, gpu, seed, folder
        self.program = kernel.program(config)
        self.rules = list(rules().values()) if chosen is None else list(chosen)
        self.facts: dict[str, str] = {}
        self.timings: tuple[Mapping[str, Any], ...] = ()

    def report(self) -> Report:
        """Every gate in order; one that fails stops the ones behind it."""
        gates = list(static_gates(self.program, self.rules))
        stopped = next((f"{g.category.value} failed" for g in gates if g.verdict is Verdict.FAIL), "")
        simulation = Step("simulate", Verdict.UNKNOWN, "nothing", stopped)
        if not stopped:
            simulation = simulated(self.kernel, self.config)
            stopped = "the simulation failed" if simulation.verdict is Verdict.FAIL else ""
        compilation, built = Step("compile", Verdict.UNKNOWN, "nothing", stopped), None
        if not stopped:
            compilation, built = compiled(self.program)
            stopped = "" if built else compilation.reason
        gates += self.measured(built, stopped)
        return Report(
            self.kernel.name,
            self.config,
            program_hash(self.program),
            self.program.target,
            tuple(gates),
            (simulation, compilation),
            self.facts,
            self.timings,
        )

    def measured(self, built: Built | None, stopped: str) -> list[GateResult]:
        """Numerical validation, performance analysis, optimisation guidance."""
        later = tuple(Category)[4:]
        if built is None:
            return [not_run(category, stopped) for category in later]
        cubin, plan = built
        self.facts["nvrtc"] = cubin.version
        if self.gpu:
            numerical, facts = numerics.validate(
                self.kernel, self.config, cubin, plan, self.folder / "numerics", self.seed
            )
            self.facts |= facts
        else:
            numerical = not_run(Category.NUMERICAL_VALIDATION, "the GPU was left out")
        performance = not_run(Category.PERFORMANCE_ANALYSIS, numerical.reason or "numerical validation failed")
        if numerical.verdict is Verdict.PASS:
            performance = self.timed(cubin, plan)
        return [numerical, performance, guidance(self.program, self.kernel, cubin, performance)]

    def timed(self, cubin: Cubin, plan: LaunchPlan) -> GateResult:
        """Time the contract's performance problems beside the peers, and compare with the floor and the model."""
        category = Category.PERFORMANCE_ANALYSIS
        contract = self.kernel.contract
        shapes = [s for s in contract.performance if not contract.refusal(s, self.kernel.constants(self.config))]
        if not shapes:
            return not_run(category, "the contract has no problem to time")
        try:
            result = bench(self.folder / "bench", self.kernel, {self.config: (cubin, plan)}, shapes)
        except CakeError as error:
            return not_run(category, error.message)
        self.facts["torch"] = result["torch"]
        self.timings = tuple(result["problems"])
        findings: list[Finding] = []
        metrics: dict[str, float] = {}
        for problem in result["problems"]:
            extents = problem["extents"]
            label = ",".join(f"{n}={v}" for n, v in extents.items())
            times = {arm: median(samples) for arm, samples in problem["samples_s"].items()}
            own, floor = times[self.config], physical_floor(self.kernel, self.program.target, extents, result["device"])
            metrics |= {f"{label} us": own * 1e6, f"{label} of floor": floor / own}
            metrics |= {f"{label} vs {peer}": times[peer] / own for peer in contract.peers}
            if own < floor:
                text = f"{own * 1e6:.1f} us on {label} is below the physical floor of {floor * 1e6:.1f} us"
                findings.append(Finding("GPU-FLOOR", "faster-than-possible", category, text, (), source="gpu"))
            guess = prediction(self.program, extents, result["device"])
            if isinstance(guess, Prediction):
                metrics[f"{label} predicted us"] = guess.seconds * 1e6
        verdict = Verdict.FAIL if findings else Verdict.PASS
        domain = f"{len(shapes)} problems, cold L2, arms interleaved"
        return GateResult(category, verdict, domain, findings=tuple(findings), metrics=metrics)


# ---------------------------------------------------------------------------------------------------------------- gates


def static_gates(program: Program, chosen: Sequence[Rule]) -> tuple[GateResult, ...]:
    """The four static categories; unknown where the clause solver is not installed."""
    try:
        from cake.core.verify import check

        return tuple(check(program, chosen).gates)
    except ImportError as error:
        return tuple(not_run(category, f"not installed: {error.name}") for category in STATIC_CATEGORIES)


def simulated(kernel: CorpusKernel, config: str) -> Step:
    """Simulate the contract's small problems under adversarial orders against the oracle."""
    contract, program, constants = kernel.contract, kernel.program(config), kernel.constants(config)
    shapes = [s for s in contract.simulator if not contract.refusal(s, constants)]
    domain = f"{len(shapes)} problems, {', '.join(d.name for d in contract.distributions[:2])}, adversarial orders"
    if not shapes:
        return Step("simulate", Verdict.UNKNOWN, "nothing", "the contract has no problem to simulate")
    try:
        oracle = kernel.oracle()
    except CakeError as error:
        return Step("simulate", Verdict.UNKNOWN, "nothing", error.message)
    numbers = {n: v for n, v in constants.items() if isinstance(v, int | float)}
    worst, runs = 0.0, 0
    for extents in shapes:
        for distribution in contract.distributions[:2]:
            inputs: dict[str, Any] = dict(contract.scalars)
            for tensor in program.of(Tensor):
                if tensor.name in contract.inputs:
                    shape = tuple(extents[d] if isinstance(d, str) else d for d in tensor.dims)
                    kind, parameters = distribution.of(tensor.name)
                    inputs[tensor.name] = generate(
                        kind, parameters, shape, tensor.dtype.name, seed=runs, name=tensor.name
                    )
            want = oracle.reference({n: numerics.to_torch(inputs[n]) for n in contract.inputs}, contract.scalars)
            factors = contract.tolerance.bound({**numbers, **extents})
            for result in run_orders(program, inputs, extents, seeds=SIMULATED_SEEDS):
                runs += 1
                if result.outcome != "ok":
                    verdict = Verdict.UNKNOWN if result.outcome == "unknown" else Verdict.FAIL
                    return Step("simulate", verdict, domain, f"{result.outcome}: {result.where}")
                for name, (value, scale) in want.items():
                    found = numerics.to_torch(result.outputs[name])
                    share, wrong = numerics.error_over_bound(found, value, scale, factors)
                    worst = max(worst, share)
                    if wrong:
                        text = f"{wrong} elements of {name} are off by up to {share:.3g} times the bound"
                        order = f"{dict(extents)}, {distribution.name}, order {result.order}/{result.seed}"
                        return Step("simulate", Verdict.FAIL, domain, f"{text} on {order}")
    metrics = {"runs": float(runs), "worst_error_over_bound": worst}
    return Step("simulate", Verdict.PASS, domain, metrics=metrics)


def compiled(program: Program) -> tuple[Step, Built | None]:
    """Lower and compile; the cubin with its plan when that succeeds."""
    domain = f"NVRTC to a cubin for {program.target}"
    try:
        cubin, plan = compile_program(lower(program))
    except CakeError as error:
        missing = error.exit_code is Exit.ENVIRONMENT
        verdict = Verdict.UNKNOWN if missing else Verdict.FAIL
        return Step("compile", verdict, domain, error.message, getattr(error, "findings", ())), None
    usage = cubin.usage
    metrics = {"registers": float(usage.registers), "spill_bytes": float(usage.spill_store_bytes)}
    return Step("compile", Verdict.PASS, domain, metrics=metrics), (cubin, plan)


def bench(
    folder: Path,
    kernel: CorpusKernel,
    arms: Mapping[str, tuple[Cubin, LaunchPlan]],
    shapes: Sequence[Mapping[str, int]],
) -> dict[str, Any]:
    """Time arms of a kernel and its peers in a process of its own (see `cake.core.bench`). Raises CakeError."""
    folder.mkdir(parents=True, exist_ok=True)
    for arm, (cubin, _) in arms.items():
        (folder / f"{arm}.cubin").write_bytes(cubin.data)
    request = {
        "kernel": str(kernel.folder.resolve()),
        "plans": {arm: json.loads(plan.to_json()) for arm, (_, plan) in arms.items()},
        "problems": [{"extents": dict(s), "arms": list(arms)} for s in shapes],
    }
    (folder / "bench.json").write_text(json.dumps(request))
    call = [sys.executable, "-m", "cake.core.bench", str(folder)]
    path = os.pathsep.join([str(Path(__file__).resolve().parents[2]), *filter(None, [os.environ.get("PYTHONPATH")])])
    env = {**os.environ, "PYTHONPATH": path}
    try:
        done = subprocess.run(call, capture_output=True, text=True, timeout=_BENCH_TIMEOUT_S, env=env, check=False)
    except subprocess.TimeoutExpired:
        raise CakeError(f"timing was not done after {_BENCH_TIMEOUT_S:.0f} s", Exit.ENVIRONMENT) from None
    if done.returncode:
        text = done.stderr.strip().splitlines()[-1:] or ["timing failed"]
        raise CakeError(text[0].removeprefix("error: "), Exit.ENVIRONMENT)
    found: dict[str, Any] = json.loads((folder / "bench_result.json").read_text())
    return found


def physical_floor(kernel: CorpusKernel, target: str, extents: Mapping[str, int], device: Mapping[str, Any]) -> float:
    """Seconds below which no kernel can solve the problem: its operations at the tensor cores' rate, its bytes at the
    memory's. Bytes that may still lie in L2 when the clock stops do not count."""
    flops = float(evaluate(kernel.contract.flops, extents))
    moved = float(evaluate(kernel.contract.bytes, extents))
    per_clock = targets()[target].limits["tensor_flops_per_clock"]
    peak = float(device["sm_count"] * per_clock * device["clock_khz"] * 1e3)
    bandwidth = float(2 * device["memory_clock_khz"] * 1e3 * device["memory_bus_bits"] / 8)
    return max(flops / peak, max(0.0, moved - float(device["l2_bytes"])) / bandwidth)


def prediction(program: Program, extents: Mapping[str, int], device: Mapping[str, Any]) -> Prediction | str:
    """What the cost model says, with the calibration of this device; else why it says nothing."""
    fitted = [c for c in calibrations().values() if c.device == device["name"]]
    if not fitted:
        return f"no calibration for {device['name']}"
    try:
        return predict(features(program, extents, device["sm_count"]), fitted[0])
    except AbstainError as error:
        return error.message


def guidance(program: Program, kernel: CorpusKernel, cubin: Cubin, performance: GateResult) -> GateResult:
    """Hints: the compiler's remarks, and where a calibrated model sees the time go."""
    category = Category.OPTIMISATION_GUIDANCE
    hints = [replace(f, blocking=False) for f in cubin.findings]
    domain = "compiler remarks"
    fitted = [c for c in calibrations().values() if c.target == program.target]
    if fitted:
        domain += f", cost model of {fitted[0].device}"
        for extents in kernel.contract.performance[:2]:
            try:
                guess = predict(features(program, extents, fitted[0].sm_count), fitted[0])
            except AbstainError:
                continue
            share = guess.parts[guess.bottleneck] / guess.seconds
            label = ", ".join(f"{n}={v}" for n, v in extents.items())
            text = f"{share:.0%} of the predicted time on {label} is {guess.bottleneck}"
            hints.append(Finding("COST", "bottleneck", category, text, (), source="cost", blocking=False))
    verdict = Verdict.UNKNOWN if performance.verdict is Verdict.UNKNOWN and not hints else Verdict.PASS
    reason = performance.reason if verdict is Verdict.UNKNOWN else ""
    return GateResult(category, verdict, domain, reason, tuple(hints))
