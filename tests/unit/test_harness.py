"""The harness without a GPU: a worker that is played by the oracle, right and wrong, and what the report says."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cake.core import harness, numerics
from cake.core.corpus import CorpusKernel, load_corpus
from cake.core.diagnostics import STATIC_CATEGORIES, Category, GateResult, Verdict
from cake.core.errors import CakeError, Exit
from cake.core.harness import physical_floor, run_kernel
from cake.core.inputs import generate
from cake.core.report import Report
from cake.core.results import failure_records, store
from cake.core.worker import Request
from cake.core.worker_batch import WorkerRun

torch = pytest.importorskip("torch")

DEVICE = {
    "name": "NVIDIA H200",
    "sm_count": 132,
    "clock_khz": 1_980_000,
    "memory_clock_khz": 3_201_000,
    "memory_bus_bits": 6144,
    "l2_bytes": 60 << 20,
}


@pytest.fixture
def kernel() -> CorpusKernel:
    """rmsnorm_bf16 with few and small problems."""
    found = next(k for k in load_corpus() if k.name == "rmsnorm_bf16")
    small = {"correctness": ({"M": 3, "N": 136},), "simulator": ({"M": 2, "N": 64},)}
    contract = replace(found.contract, **small, performance=({"M": 16384, "N": 8192},))
    return replace(found, contract=contract)


@pytest.fixture(scope="module")
def once() -> Callable[..., Callable[..., Any]]:
    """Wraps a gate so that this module runs it once: its one program does not change."""
    results: dict[str, Any] = {}

    def wrap(gate: Callable[..., Any]) -> Callable[..., Any]:
        def cached(*args: Any) -> Any:
            if gate.__name__ not in results:
                results[gate.__name__] = gate(*args)
            return results[gate.__name__]

        return cached

    return wrap


@pytest.fixture
def gates(monkeypatch: pytest.MonkeyPatch, once: Callable[..., Any]) -> Callable[[Verdict], None]:
    """Sets the verdict of all static categories."""
    monkeypatch.setattr(harness, "simulated", once(harness.simulated))
    monkeypatch.setattr(harness, "compiled", once(harness.compiled))

    def choose(verdict: Verdict) -> None:
        results = tuple(GateResult(c, verdict, "all trip counts") for c in STATIC_CATEGORIES)
        monkeypatch.setattr(harness, "static_gates", lambda program, rules: results)

    choose(Verdict.PASS)
    return choose


Play = Callable[..., None]


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch, kernel: CorpusKernel, gates: object) -> Play:
    """Plays the GPU worker: the oracle's values rounded to bf16, with changes to values, cases or the result."""

    def play(
        change: Callable[[Any], Any] = lambda value: value, case: dict[str, Any] | None = None, **result: Any
    ) -> None:
        def run(folder: Path, timeout: float) -> WorkerRun:
            request = Request.from_json((folder / "request.json").read_text())
            cases = []
            for c in request.cases:
                inputs = {}
                for t in request.plan.tensors:
                    if t.read:
                        spec = dict(c.inputs[t.name])
                        kind, seed = spec.pop("kind"), spec.pop("seed")
                        shape = request.plan.shape(t, c.extents)
                        array = generate(kind, spec, shape, t.dtype, seed=seed, name=t.name)
                        inputs[t.name] = numerics.to_torch(array)
                value = kernel.oracle().reference(inputs, c.scalars)["Y"][0].bfloat16()
                file = f"{c.name}.Y.npy"
                np.save(folder / file, change(value).view(torch.int16).numpy().view(np.uint16))
                tensor = {"dtype": "bf16", "file": file, "poisoned": 0, "guards": True, "input_kept": True}
                done = {"tensors": {"Y": tensor}, "deterministic": True, "outcome": "ok"}
                cases.append({**done, **(case or {})})
            found = {"outcome": "ok", "cases": cases, "device": DEVICE, "error": None, "stuck": None, **result}
            return WorkerRun(folder.name, found, 0, False, "", 1.0)

        monkeypatch.setattr(numerics, "run_worker", run)
        samples = {"r4w8v8": [1.5e-4] * 5, "torch.nn.functional.rms_norm": [2e-4] * 5}
        problem = {"extents": {"M": 16384, "N": 8192}, "samples_s": samples}
        timed = {"device": DEVICE, "torch": "2", "problems": [problem]}
        monkeypatch.setattr(harness, "bench", lambda *args: timed)

    play()
    return play


def report(kernel: CorpusKernel, tmp_path: Path, **options: Any) -> Report:
    """The report of the first configuration."""
    (found,) = run_kernel(kernel, ["r4w8v8"], scratch=tmp_path, chosen=(), **options)
    return found


def test_a_right_kernel_passes(kernel: CorpusKernel, worker: Play, tmp_path: Path) -> None:
    """All seven categories pass, each with its domain; measurements, floor and peer are there."""
    found = report(kernel, tmp_path)
    assert [g.category for g in found.gates] == list(Category)
    assert {g.verdict for g in found.gates} == {Verdict.PASS}
    assert found.verdict is Verdict.PASS
    assert all(g.domain for g in found.gates)
    numerical = found.gate(Category.NUMERICAL_VALIDATION)
    assert numerical.metrics["trials"] == len(kernel.contract.distributions)
    assert 0 < numerical.metrics["worst_error_over_bound"] <= 1
    performance = found.gate(Category.PERFORMANCE_ANALYSIS)
    label = "M=16384,N=8192"
    assert performance.metrics[f"{label} vs torch.nn.functional.rms_norm"] == pytest.approx(4 / 3)
    assert 0.5 < performance.metrics[f"{label} of floor"] < 1
    assert found.timings[0]["samples_s"]["r4w8v8"] == [1.5e-4] * 5


def test_the_seed_is_secret_unless_given(kernel: CorpusKernel, worker: Play, tmp_path: Path) -> None:
    """Two runs draw different inputs; a given seed fixes them."""

    def seeds(folder: str, **options: Any) -> list[int]:
        report(kernel, tmp_path / folder, **options)
        data = json.loads((tmp_path / folder / "rmsnorm_bf16.r4w8v8" / "numerics" / "request.json").read_text())
        return [case["inputs"]["X"]["seed"] for case in data["cases"]]

    assert seeds("a") != seeds("b")
    assert seeds("c", seed=5) == list(range(5, 5 + len(kernel.contract.distributions)))


def off_by_two_ulp(value: Any) -> Any:
    """The values with their bf16 patterns moved by two."""
    return (value.view(torch.int16) + 2).view(torch.bfloat16)


@pytest.mark.parametrize(
    ("change", "case", "code", "text"),
    [
        (off_by_two_ulp, {}, "GPU-MISMATCH", "elements of Y are off by up to"),
        (lambda v: v * float("nan"), {}, "GPU-MISMATCH", "off by up to inf"),
        (lambda v: v, {"deterministic": False}, "GPU-NONDETERMINISM", "two launches differ"),
    ],
)
def test_wrong_outputs_fail(
    kernel: CorpusKernel, worker: Play, tmp_path: Path, change: Any, case: Any, code: str, text: str
) -> None:
    """Wrong, NaN or varying outputs fail numerical validation with the problem named; performance is then not run."""
    worker(change, case)
    found = report(kernel, tmp_path)
    numerical = found.gate(Category.NUMERICAL_VALIDATION)
    assert numerical.verdict is found.verdict is Verdict.FAIL
    assert any(f.code == code and text in f.message and "M=3, N=136" in f.message for f in numerical.findings)
    performance = found.gate(Category.PERFORMANCE_ANALYSIS)
    assert (performance.verdict, performance.reason) == (Verdict.UNKNOWN, "numerical validation failed")


def test_a_fault_names_the_problem(kernel: CorpusKernel, worker: Play, tmp_path: Path) -> None:
    """A kernel that the machine stops fails with the driver's words."""
    worker(
        outcome="illegal_address", error={"text": "an illegal memory access"}, cases=[{"outcome": "illegal_address"}]
    )
    (finding,) = report(kernel, tmp_path).gate(Category.NUMERICAL_VALIDATION).findings
    assert finding.code == "GPU-ILLEGAL-ADDRESS"
    assert "M=3, N=136: an illegal memory access" in finding.message


def test_a_hang_is_located(kernel: CorpusKernel, worker: Play, tmp_path: Path) -> None:
    """A hang is run again with a watchdog, and the finding stands at the wait that gave up."""
    place = {
        "role": "rows",
        "instance": 0,
        "warp": 1,
        "barrier": "done",
        "path": "rows:3",
        "line": 9,
        "loops": [["r", 2]],
    }
    stuck = {"kind": "mbarrier_wait", "place": place, "slot": 0, "parity": 1}
    worker(outcome="hang", error={"text": "not done"}, stuck=stuck, cases=[{"outcome": "hang"}])
    (finding,) = report(kernel, tmp_path).gate(Category.NUMERICAL_VALIDATION).findings
    assert (finding.code, finding.paths, finding.barrier) == ("GPU-HANG", ("rows:3",), "done")
    assert "parity 1 of done[0] (r = 2)" in finding.message


def test_without_a_gpu_nothing_passes_for_it(
    kernel: CorpusKernel, gates: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a machine without a GPU the last categories are unknown, with the worker's reason, and so is the kernel."""
    gone = WorkerRun("x", None, int(Exit.ENVIRONMENT), False, "error: no NVIDIA driver on this machine\n", 0.1)
    monkeypatch.setattr(numerics, "run_worker", lambda folder, timeout: gone)
    found = report(kernel, tmp_path)
    assert found.verdict is Verdict.UNKNOWN
    assert [s.verdict for s in found.steps] == [Verdict.PASS, Verdict.PASS]
    for category in (Category.NUMERICAL_VALIDATION, Category.PERFORMANCE_ANALYSIS):
        assert found.gate(category).verdict is Verdict.UNKNOWN
        assert found.gate(category).reason == "no NVIDIA driver on this machine"
    skipped = report(kernel, tmp_path, gpu=False)
    assert skipped.gate(Category.NUMERICAL_VALIDATION).reason == "the GPU was left out"


def test_a_static_failure_stops_the_rest(
    kernel: CorpusKernel, gates: Callable[[Verdict], None], tmp_path: Path
) -> None:
    """What the verifier refuses is neither simulated nor compiled nor run."""
    gates(Verdict.FAIL)
    found = report(kernel, tmp_path)
    assert found.verdict is Verdict.FAIL
    assert {s.verdict for s in found.steps} == {Verdict.UNKNOWN}
    assert {s.reason for s in found.steps} == {"program-safety failed"}
    assert found.gate(Category.NUMERICAL_VALIDATION).reason == "program-safety failed"


def test_unknown_is_no_pass(kernel: CorpusKernel, worker: Play, gates: Any, tmp_path: Path) -> None:
    """A kernel whose static categories are unknown is unknown, however well it runs."""
    gates(Verdict.UNKNOWN)
    assert report(kernel, tmp_path).verdict is Verdict.UNKNOWN


def test_faster_than_possible_fails(
    kernel: CorpusKernel, worker: Play, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A time below the physical floor is an error of the measurement, not a result."""
    samples = {"r4w8v8": [1e-6], "torch.nn.functional.rms_norm": [1e-4]}
    problem = {"extents": {"M": 16384, "N": 8192}, "samples_s": samples}
    monkeypatch.setattr(harness, "bench", lambda *args: {"device": DEVICE, "torch": "2", "problems": [problem]})
    performance = report(kernel, tmp_path).gate(Category.PERFORMANCE_ANALYSIS)
    assert performance.verdict is Verdict.FAIL
    assert performance.findings[0].code == "GPU-FLOOR"


def test_physical_floor() -> None:
    """The floor is the slower of tensor cores and memory at their peaks: 1.03 ms for 8192 cubed, 0.1 ms for rmsnorm."""
    kernels = {k.name: k for k in load_corpus()}
    gemm = physical_floor(kernels["gemm_bf16"], "sm_90a", {"M": 8192, "N": 8192, "K": 8192}, DEVICE)
    norm = physical_floor(kernels["rmsnorm_bf16"], "sm_90a", {"M": 16384, "N": 8192}, DEVICE)
    assert gemm == pytest.approx(2 * 8192**3 / (132 * 4096 * 1.98e9))
    assert norm == pytest.approx((2 * (2 * 16384 * 8192 + 8192) - (60 << 20)) / (2 * 3.201e9 * 768))


def test_report_forms(kernel: CorpusKernel, worker: Play, tmp_path: Path) -> None:
    """JSON is plain data with a schema; text names every category once; an unknown configuration is refused."""
    found = report(kernel, tmp_path)
    data = json.loads(json.dumps(found.as_json()))
    assert data["schema"] == 1
    assert data["verdict"] == "pass"
    assert [g["category"] for g in data["gates"]] == [c.value for c in Category]
    assert all(found.text().count(f"  {c.value} ") == 1 for c in Category)
    with pytest.raises(CakeError, match="no configuration 'fast'"):
        run_kernel(kernel, ["fast"])


def test_failures_become_evidence(kernel: CorpusKernel, worker: Play, tmp_path: Path) -> None:
    """Each way of failing is one record with an outcome of the closed list; a kernel that passes leaves none."""
    assert failure_records(kernel, report(kernel, tmp_path)) == ()
    worker(off_by_two_ulp, {"deterministic": False})
    records = failure_records(kernel, report(kernel, tmp_path))
    assert [(r.outcome, r.stage, r.device) for r in records] == [
        ("mismatch", "run", "NVIDIA H200"),
        ("nondeterminism", "run", "NVIDIA H200"),
    ]
    assert all(r.diagnostics[0]["kind"] == "finding" for r in records)


def test_results_are_stored_by_device(kernel: CorpusKernel, worker: Play, tmp_path: Path) -> None:
    """Results lie in the kernel's folder under the device's name; without a device there is nothing to store."""
    there = replace(kernel, folder=tmp_path)
    found = report(kernel, tmp_path / "scratch")
    path = store(there, [found])
    assert path.name == "nvidia-h200.json"
    assert json.loads(path.read_text())["reports"][0]["config"] == "r4w8v8"
    with pytest.raises(CakeError, match="one device"):
        store(there, [report(kernel, tmp_path / "scratch", gpu=False)])


def test_a_worker_that_dies_says_nothing_about_the_kernel(
    kernel: CorpusKernel, gates: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What crashed is unknown, with the worker's last words; one that was killed for its time is a hang."""
    died = WorkerRun("x", None, 1, False, "Traceback (most recent call last):\nMemoryError: no room\n", 0.1)
    monkeypatch.setattr(numerics, "run_worker", lambda folder, timeout: died)
    found = report(kernel, tmp_path).gate(Category.NUMERICAL_VALIDATION)
    assert (found.verdict, found.reason) == (Verdict.UNKNOWN, "the worker left no result: MemoryError: no room")
    monkeypatch.setattr(numerics, "run_worker", lambda folder, timeout: replace(died, killed=True))
    assert report(kernel, tmp_path).gate(Category.NUMERICAL_VALIDATION).verdict is Verdict.FAIL


def test_a_contract_without_problems_passes_nothing(
    kernel: CorpusKernel, worker: Play, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A gate that has nothing to look at is unknown, not clean."""
    contract = kernel.contract
    timeless = report(replace(kernel, contract=replace(contract, performance=())), tmp_path)
    assert timeless.gate(Category.NUMERICAL_VALIDATION).verdict is Verdict.PASS
    assert timeless.gate(Category.PERFORMANCE_ANALYSIS).reason == "the contract has no problem to time"
    nothing = report(replace(kernel, contract=replace(contract, correctness=(), performance=())), tmp_path)
    assert nothing.gate(Category.NUMERICAL_VALIDATION).reason == "the contract has no problem to validate"
    monkeypatch.undo()
    step = harness.simulated(replace(kernel, contract=replace(contract, simulator=())), "r4w8v8")
    assert (step.verdict, step.reason) == (Verdict.UNKNOWN, "the contract has no problem to simulate")


def test_an_exact_zero_is_within_any_bound() -> None:
    """Where the contract allows no error and there is none, nothing is wrong; where there is one, it is."""
    zero, factors = torch.zeros(3, dtype=torch.float64), (1.0, 1.0, 0.0)
    assert numerics.error_over_bound(zero, zero, zero, factors) == (0.0, 0)
    assert numerics.error_over_bound(zero + 1, zero, zero, factors) == (float("inf"), 3)
