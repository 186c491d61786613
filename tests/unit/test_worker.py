"""The GPU worker without a GPU: requests, refusals, outcomes, the parent's side."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from cake.core import launch, worker_batch
from cake.core.corpus import load_corpus
from cake.core.errors import CakeError, Exit
from cake.core.inputs import NUMPY
from cake.core.launch import Device, DriverError, HangError, Kernel, check_driver, time_arms
from cake.core.lower import lower
from cake.core.plan import LaunchPlan
from cake.core.worker import OUTCOMES, Case, Request, Timing, main, read_output, write_request
from cake.core.worker_batch import WorkerRun, run_batch, run_worker


@cache
def plan() -> LaunchPlan:
    """The plan of rmsnorm's first configuration, with a watchdog."""
    (kernel,) = [k for k in load_corpus() if k.name == "rmsnorm_bf16"]
    return lower(kernel.program(next(iter(kernel.configs))), watchdog=True).plan


def request(**changes: Any) -> Request:
    """A good request, changed."""
    inputs = {"X": {"kind": "normal", "seed": 1}, "W": {"kind": "uniform", "seed": 2, "low": 0.9, "high": 1.1}}
    case = Case("first", {"M": 3, "N": 64}, {"eps": 1e-6}, inputs)
    fields = {"cubin": "kernel.cubin", "plan": plan(), "cases": (case,), "timing": Timing(repeats=3), **changes}
    return Request(**fields)


def test_json_round_trip() -> None:
    """A request travels as JSON and comes back equal."""
    assert Request.from_json(request().to_json()) == request()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"schema": 2}, "request.json is not of schema 1"),
        ({"cases": [{"name": "x"}]}, "request.json is no request: .*extents"),
        ({"cases": [{"name": "x", "extents": {"M": 1, "N": 8}}]}, "case x: input X is missing"),
        (
            {"cases": [{"name": "x", "extents": {"M": 1, "N": 8}, "inputs": {"X": {"kind": "odd"}}}]},
            "case x: X has kind 'odd'; known: constant, integers",
        ),
        ({"plan": {}}, "this is no launch plan"),
        ({"colour": "red"}, "request.json is no request: .*colour"),
    ],
)
def test_a_bad_request_says_what_is_wrong(change: dict[str, Any], reason: str) -> None:
    """Requests come from files; the message names the key or the tensor."""
    data = {**json.loads(request().to_json()), **change}
    with pytest.raises(CakeError, match=reason):
        Request.from_json(json.dumps(data))


def test_a_folder_without_a_request_is_a_usage_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit 2, one line."""
    assert main([str(tmp_path)]) == Exit.USAGE
    assert "holds no readable request.json" in capsys.readouterr().err


def test_bad_extents_are_found_before_the_gpu(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The plan's checks run first, so that they do not depend on the machine."""
    case = Case("odd", {"M": 3, "N": 63}, {"eps": 1e-6}, {"X": {"kind": "normal"}, "W": {"kind": "normal"}})
    write_request(tmp_path, request(cases=(case,)), b"")

    assert main([str(tmp_path)]) == Exit.USAGE
    assert "rows of 126 bytes; the kernel accesses 16 bytes at once" in capsys.readouterr().err


@pytest.fixture
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """A driver binding that finds no library, as on a machine without a GPU."""

    def no_library(_: int) -> None:
        raise RuntimeError("Failed to dlopen libcuda.so.1")

    monkeypatch.setattr(launch, "_driver", lambda: SimpleNamespace(cuInit=no_library))


@pytest.mark.usefixtures("no_gpu")
def test_no_gpu_is_an_environment_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit 3 and a sentence, no traceback and no result."""
    write_request(tmp_path, request(), b"")

    assert main([str(tmp_path)]) == Exit.ENVIRONMENT
    assert "error: no NVIDIA driver on this machine" in capsys.readouterr().err
    assert not (tmp_path / "result.json").exists()


def test_a_driver_without_a_gpu_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """cuInit fails with the driver's own name for it."""

    class NoDevice(int):
        name = "CUDA_ERROR_NO_DEVICE"

    monkeypatch.setattr(launch, "_driver", lambda: SimpleNamespace(cuInit=lambda _: (NoDevice(100),)))
    with pytest.raises(CakeError, match=r"finds no GPU \(CUDA_ERROR_NO_DEVICE\)") as error:
        Device()

    assert error.value.exit_code == Exit.ENVIRONMENT


def test_an_old_driver_is_refused() -> None:
    """Cubins of CUDA 13.0 need a driver that knows it."""
    check_driver((13, 0))
    check_driver((13, 2))
    with pytest.raises(
        CakeError, match=r"supports CUDA 12\.8, cubins of Cake need 13\.0 \(driver 580 or newer\)"
    ) as error:
        check_driver((12, 8))

    assert error.value.exit_code == Exit.ENVIRONMENT


def test_a_worker_with_an_old_driver_exits_3(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its exit code says that the machine is at fault, and the sentence what to install."""
    stub = SimpleNamespace(cuInit=lambda _: (0,), cuDriverGetVersion=lambda: (0, 12080))
    monkeypatch.setattr(launch, "_driver", lambda: stub)
    write_request(tmp_path, request(), b"")

    assert main([str(tmp_path)]) == Exit.ENVIRONMENT
    assert "supports CUDA 12.8, cubins of Cake need 13.0 (driver 580 or newer)" in capsys.readouterr().err


def test_another_architecture_is_refused() -> None:
    """A plan is exact about its target."""
    device: Any = SimpleNamespace(capability=(8, 0), name="NVIDIA A100")
    with pytest.raises(CakeError, match=r"NVIDIA A100 has compute capability 8\.0, rmsnorm_bf16 is for sm_90a"):
        Kernel(device, b"", plan())


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        ("CUDA_ERROR_ILLEGAL_INSTRUCTION", "illegal_instruction"),
        ("CUDA_ERROR_ILLEGAL_ADDRESS", "illegal_address"),
        ("CUDA_ERROR_MISALIGNED_ADDRESS", "misaligned_address"),
        ("CUDA_ERROR_LAUNCH_TIMEOUT", "hang"),
        ("CUDA_ERROR_LAUNCH_FAILED", "launch_failure"),
        ("CUDA_ERROR_INVALID_VALUE", "launch_failure"),
    ],
)
def test_driver_errors_have_outcomes(status: str, outcome: str) -> None:
    """The closed list of outcomes covers every status; the driver's own text is kept."""
    error = DriverError("kernel", status, "its text")

    assert error.outcome == outcome in OUTCOMES
    assert error.message == f"kernel: {status}: its text"


def test_outputs_come_back_in_their_type(tmp_path: Path) -> None:
    """npy files hold plain bits: NumPy has no bf16."""
    values = np.arange(4, dtype=np.float32).astype(NUMPY["bf16"])
    np.save(tmp_path / "c.Y.npy", values.view(np.uint16))
    back = read_output(tmp_path, {"file": "c.Y.npy", "dtype": "bf16"})

    assert back.dtype == NUMPY["bf16"]
    assert (back == values).all()


def test_the_worker_imports_little() -> None:
    """A GPU machine has NumPy, ml_dtypes and cuda-bindings, not Cake's other requirements."""
    script = (
        "import sys, cake.core.worker, cake.core.worker_batch; "
        "print(sorted({'git', 'clingo', 'click', 'torch', 'pluggy', 'rich', 'hypothesis'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"


# --------------------------------------------------------------------------------------------------- the parent's side


def stub(path: Path, body: str) -> str:
    """An executable that stands in for Python."""
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return str(path)


def test_a_worker_that_hangs_is_killed(tmp_path: Path) -> None:
    """By its own id, within the limit; a stale result is not taken for its own."""
    write_request(tmp_path / "r", request(), b"")
    (tmp_path / "r" / "result.json").write_text('{"outcome": "ok"}')
    run = run_worker(tmp_path / "r", 0.2, python=stub(tmp_path / "python", "echo started >&2; exec sleep 60"))

    assert (run.killed, run.result, run.outcome, run.exit_status) == (True, None, "hang", -9)
    assert run.stderr == "started\n"
    assert run.wall_s < 10


def test_a_result_that_was_written_before_the_kill_counts(tmp_path: Path) -> None:
    """A worker may hang in the driver's teardown after it told what it knows."""
    write_request(tmp_path / "r", request(), b"")
    body = f"""echo '{{"outcome": "hang"}}' > {tmp_path}/r/result.json; exec sleep 60"""
    run = run_worker(tmp_path / "r", 0.5, python=stub(tmp_path / "python", body))

    assert (run.killed, run.result) == (True, {"outcome": "hang"})


def test_a_worker_that_dies_is_an_error(tmp_path: Path) -> None:
    """Its exit status and its last words are kept."""
    write_request(tmp_path / "r", request(), b"")
    run = run_worker(tmp_path / "r", 5, python=stub(tmp_path / "python", "echo broken >&2; exit 7"))

    assert (run.outcome, run.exit_status, run.stderr) == ("error", 7, "broken\n")


def folders(root: Path, *names: str) -> None:
    """Request folders of these names."""
    for name in names:
        write_request(root / name, request(), b"")


def test_a_batch_appends_results_and_continues(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What has a line is not run again; a line that was cut off does not count and costs nothing else."""
    folders(tmp_path, "a", "b", "c")
    out = tmp_path / "results.jsonl"
    out.write_text(json.dumps({"request": "a"}) + "\n" + '{"request": "b", "resu')
    ran: list[str] = []

    def fake(folder: Path, timeout: float) -> WorkerRun:
        ran.append(folder.name)
        return WorkerRun(folder.name, {"outcome": "ok"}, 0, False, "", 0.1)

    monkeypatch.setattr(worker_batch, "run_worker", fake)

    assert run_batch(tmp_path, out, jobs=1, timeout=1) == Exit.CLEAN
    assert ran == ["b", "c"]
    lines = out.read_text().splitlines()
    assert [json.loads(line)["request"] for line in (lines[0], *lines[2:])] == ["a", "b", "c"]
    assert run_batch(tmp_path, out, jobs=1, timeout=1) == Exit.CLEAN
    assert ran == ["b", "c"]


def test_a_batch_on_a_machine_without_a_gpu_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit 3, the worker's own sentence, and no lines that would pass for results."""
    folders(tmp_path, "a", "b")

    def fake(folder: Path, timeout: float) -> WorkerRun:
        (folder / "worker.stderr").write_text("error: no NVIDIA driver on this machine\n")
        return WorkerRun(folder.name, None, int(Exit.ENVIRONMENT), False, "", 0.1)

    monkeypatch.setattr(worker_batch, "run_worker", fake)

    assert run_batch(tmp_path, tmp_path / "out.jsonl", jobs=2, timeout=1) == Exit.ENVIRONMENT
    assert (tmp_path / "out.jsonl").read_text() == ""
    assert "error: no NVIDIA driver on this machine" in capsys.readouterr().err


def test_an_empty_batch_is_a_usage_error(tmp_path: Path) -> None:
    """Nothing to run is most likely a wrong folder."""
    assert main([str(tmp_path), "--batch"]) == Exit.USAGE


def test_the_environment_reaches_the_worker(tmp_path: Path) -> None:
    """The child finds this Cake, whatever folder it starts in."""
    write_request(tmp_path / "r", request(), b"")
    run = run_worker(tmp_path / "r", 5, python=stub(tmp_path / "python", 'echo "$PYTHONPATH" >&2'))

    assert run.stderr.strip().split(os.pathsep)[0] == str(Path(launch.__file__).resolve().parents[2])


class Clock:
    """Stands in for a device: counts what it is asked for; `hangs` makes the first wait give up."""

    def __init__(self, hangs: bool = False) -> None:
        self.hangs = hangs
        self.calls: Counter[str] = Counter()

    def allocate(self, size: int) -> int:
        """An address."""
        return 4096

    def free(self, address: int) -> None:
        """Count it."""
        self.calls["free"] += 1

    def wait(self, seconds: float, stream: int = 0) -> None:
        """Done at once, or never."""
        if self.hangs:
            raise HangError(seconds)

    def call(self, name: str, *args: Any) -> Any:
        """Count it; the count stands for a value."""
        self.calls[name] += 1
        return float(self.calls[name])


@pytest.mark.parametrize("hangs", [False, True])
def test_timing_frees_nothing_while_a_kernel_hangs(hangs: bool) -> None:
    """To free memory the driver waits for the kernel; samples are those behind the warm-up, in order."""
    device, launches = Clock(hangs), []
    arms = {"a": launches.append, "b": launches.append}
    if hangs:
        with pytest.raises(HangError):
            time_arms(device, arms, warmup=2, rounds=3)  # type: ignore[arg-type]
        assert not device.calls["free"]
        return
    samples = time_arms(device, arms, warmup=2, rounds=3)  # type: ignore[arg-type]
    assert {name: len(s) for name, s in samples.items()} == {"a": 3, "b": 3}
    assert samples["a"] == pytest.approx([3e-3, 4e-3, 5e-3])
    assert len(launches) == 10
    assert device.calls["free"] == 1
    assert device.calls["cuEventDestroy"] == device.calls["cuEventCreate"] == 20
