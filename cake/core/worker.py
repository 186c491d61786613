"""The GPU worker: runs one self-contained request in its own process, or a folder of them.

    python -m cake.core.worker REQUEST_DIR
    python -m cake.core.worker --batch DIR --jobs 8 [--out results.jsonl] [--timeout 60]

A request folder holds `request.json` (see `Request`), the cubin, and input arrays if it names any. The worker writes
`result.json` beside it, and output arrays when asked. It needs NumPy, ml_dtypes and cuda-bindings, and exits 0 when
there is a result, whatever the outcome; 2 for a request that it cannot read; 3 when the machine cannot run it (no GPU,
an old driver, another architecture).
"""

from __future__ import annotations

import argparse
import ctypes
import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from cake.core import watchdog as dog
from cake.core.errors import CakeError, Exit
from cake.core.inputs import KINDS, NUMPY, generate
from cake.core.launch import Device, DriverError, HangError, Kernel, Watch, time_kernel
from cake.core.plan import LaunchPlan, PlanError, TensorPlan

SCHEMA: Final = 1
#: Outcomes of a request, a closed list.
OUTCOMES: Final = ("ok", "hang", "illegal_instruction", "illegal_address", "misaligned_address", "launch_failure")
#: Bytes on each side of every tensor that no kernel may touch, and what they hold.
GUARD: Final = 4096
_GUARD_BYTE: Final = 0xA5
_POISON_BYTE: Final = 0xFF
_PLACES: Final = 200

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Case:
    """One problem: extents, scalars, and for each tensor that the kernel reads `{"file": NAME.npy}` or
    `{"kind": DISTRIBUTION, "seed": N, ...parameters}` (see `cake.core.inputs`)."""

    name: str
    extents: Mapping[str, int]
    scalars: Mapping[str, float] = field(default_factory=dict)
    inputs: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Timing:
    """How to time each case after it ran: launches to warm up, launches to time, bytes written before each."""

    warmup: int = 10
    repeats: int = 50
    flush_bytes: int = 256 << 20


@dataclass(frozen=True, slots=True)
class Request:
    """What `request.json` holds. `runs` launches of each case are compared bit by bit; `watchdog_s` bounds waits in a
    watchdog cubin, `timeout_s` one launch on the host's clock; `keep_outputs` writes `<case>.<tensor>.npy`."""

    cubin: str
    plan: LaunchPlan
    cases: tuple[Case, ...]
    runs: int = 2
    watchdog_s: float = dog.DEFAULT_LIMIT_S
    timeout_s: float = 5.0
    keep_outputs: bool = False
    timing: Timing | None = None

    def to_json(self) -> str:
        """The text of `request.json`."""
        return json.dumps({"schema": SCHEMA, **asdict(self)}, sort_keys=True, indent=1)

    @staticmethod
    def from_json(text: str) -> Request:
        """Read `request.json`. Raises CakeError naming what is wrong."""
        try:
            data = json.loads(text)
            if data.pop("schema", None) != SCHEMA:
                raise CakeError(f"request.json is not of schema {SCHEMA}")
            cases = tuple(Case(**case) for case in data.pop("cases"))
            plan = LaunchPlan.from_json(json.dumps(data.pop("plan")))
            timing = data.pop("timing", None)
            request = Request(plan=plan, cases=cases, timing=Timing(**timing) if timing else None, **data)
        except (TypeError, KeyError, ValueError, AttributeError) as error:
            raise CakeError(f"request.json is no request: {error}") from None
        request.check()
        return request

    def check(self) -> None:
        """Raise CakeError for a case that names an unknown distribution or leaves an input out."""
        for case in self.cases:
            for tensor in self.plan.tensors:
                if not tensor.read:
                    continue
                spec = case.inputs.get(tensor.name)
                if spec is None:
                    raise CakeError(f"case {case.name}: input {tensor.name} is missing")
                if "file" not in spec and spec.get("kind") not in KINDS:
                    known = ", ".join(sorted(KINDS))
                    raise CakeError(f"case {case.name}: {tensor.name} has kind {spec.get('kind')!r}; known: {known}")


def write_request(folder: Path, request: Request, cubin: bytes) -> None:
    """Make `folder` a request: `request.json` and the cubin under the name that it gives."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / request.cubin).write_bytes(cubin)
    (folder / "request.json").write_text(request.to_json() + "\n", encoding="utf-8")


def read_output(folder: Path, output: Mapping[str, Any]) -> Array:
    """An output array that a worker kept: `output` is its entry in `result.json`."""
    raw: Array = np.load(folder / output["file"], allow_pickle=False)
    return raw.view(NUMPY[output["dtype"]])


# ------------------------------------------------------------------------------------------------------------- one case


class _Tensor:
    """A tensor in device memory between guards."""

    def __init__(self, device: Device, plan: TensorPlan, shape: tuple[int, ...], data: Array | None) -> None:
        self.device, self.plan, self.shape, self.data = device, plan, shape, data
        self.bytes = int(np.prod(shape, dtype=np.int64)) * NUMPY[plan.dtype].itemsize
        self._base = device.allocate(self.bytes + 2 * GUARD)
        self.address = self._base + GUARD

    def fill(self) -> None:
        """Guards, then the input's values or the poison."""
        self.device.call("cuMemsetD8", self._base, _GUARD_BYTE, self.bytes + 2 * GUARD)
        if self.data is None:
            self.device.call("cuMemsetD8", self.address, _POISON_BYTE, self.bytes)
        else:
            self.device.call("cuMemcpyHtoD", self.address, self.data.ctypes.data, self.bytes)

    def read(self) -> tuple[Array, bool]:
        """The values on the device, and whether the guards are intact."""
        raw = np.empty(self.bytes + 2 * GUARD, np.uint8)
        self.device.call("cuMemcpyDtoH", raw.ctypes.data, self._base, raw.nbytes)
        intact = bool((raw[:GUARD] == _GUARD_BYTE).all() and (raw[-GUARD:] == _GUARD_BYTE).all())
        return raw[GUARD : GUARD + self.bytes].view(NUMPY[self.plan.dtype]).reshape(self.shape), intact

    def free(self) -> None:
        self.device.free(self._base)


class _Watchdog:
    """Host-mapped report and device counters of a watchdog launch."""

    def __init__(self, device: Device, plan: LaunchPlan, ctas: int, limit_s: float) -> None:
        self.device, self.plan, self.ctas = device, plan, ctas
        self.words = dog.report_words(ctas, plan.threads)
        flags = device.cu.CU_MEMHOSTALLOC_DEVICEMAP
        self._host = int(device.call("cuMemHostAlloc", 4 * self.words, flags))
        self.report: Array = np.ctypeslib.as_array((ctypes.c_uint32 * self.words).from_address(self._host))
        self._finished = device.allocate(4 * ctas)
        report = int(device.call("cuMemHostGetDevicePointer", self._host, 0))
        self.watch = Watch(report, self._finished, int(limit_s * 1e9))

    def clear(self) -> None:
        self.report[:] = 0
        self.device.call("cuMemsetD32", self._finished, 0, self.ctas)

    def stuck(self) -> dog.Stuck | None:
        return dog.decode_stuck(self.report.tolist()[: dog.HEAD_WORDS], self.plan.roles, self.plan.statements)

    def places(self) -> tuple[dog.Place, ...]:
        words, warps = self.report.tolist(), self.plan.threads // 32
        return dog.decode_places(words, self.plan.roles, self.plan.statements, ctas=self.ctas, warps=warps)

    def free(self) -> None:
        self.device.call("cuMemFreeHost", self._host)
        self.device.free(self._finished)


class _Failed(Exception):
    """A case that ended badly, with what is known about it."""

    def __init__(self, outcome: str, error: CakeError, watchdog: _Watchdog | None) -> None:
        super().__init__(error.message)
        stuck = watchdog.stuck() if watchdog else None
        self.report: dict[str, Any] = {
            "outcome": "hang" if stuck else outcome,
            "error": {"status": getattr(error, "status", ""), "text": error.message},
            "stuck": asdict(stuck) if stuck else None,
            "places": [],
        }
        if watchdog and self.report["outcome"] == "hang":
            self.report["places"] = [{**asdict(p), "text": str(p)} for p in watchdog.places()[:_PLACES]]


def _inputs(folder: Path, plan: LaunchPlan, case: Case) -> dict[str, Array | None]:
    """For each tensor the values to load, or None for one that the kernel only writes."""
    found: dict[str, Array | None] = {}
    for tensor in plan.tensors:
        shape = plan.shape(tensor, case.extents)
        if not tensor.read:
            found[tensor.name] = None
            continue
        spec = dict(case.inputs[tensor.name])
        try:
            if "file" in spec:
                data = read_output(folder, {"file": spec["file"], "dtype": tensor.dtype})
            else:
                kind, seed = str(spec.pop("kind")), int(spec.pop("seed", 0))
                data = generate(kind, spec, shape, tensor.dtype, seed=seed, name=tensor.name)
        except (OSError, TypeError, ValueError) as error:
            raise CakeError(f"case {case.name}: {tensor.name} cannot be made of {dict(spec)}: {error}") from None
        if data.shape != shape:
            raise PlanError(f"{plan.name}: {tensor.name} in {spec['file']} has shape {data.shape}, not {shape}")
        found[tensor.name] = np.ascontiguousarray(data)
    return found


def _run_case(folder: Path, request: Request, kernel: Kernel, case: Case) -> dict[str, Any]:
    plan, device = kernel.plan, kernel.device
    began = time.monotonic()
    ctas = plan.check(case.extents, device.sm_count)
    inputs = _inputs(folder, plan, case)
    tensors = {t.name: _Tensor(device, t, plan.shape(t, case.extents), inputs[t.name]) for t in plan.tensors}
    watchdog = _Watchdog(device, plan, ctas, request.watchdog_s) if plan.watchdog else None
    launch = kernel.bind(
        {name: t.address for name, t in tensors.items()},
        case.extents,
        case.scalars,
        watchdog.watch if watchdog else None,
    )
    found: list[dict[str, dict[str, Any]]] = []
    for _ in range(max(request.runs, 1)):
        for tensor in tensors.values():
            tensor.fill()
        if watchdog:
            watchdog.clear()
        with _judged(watchdog):
            launch()
            device.wait(request.timeout_s)
        found.append({name: _examine(t) for name, t in tensors.items()})
    report = {
        "name": case.name,
        "extents": dict(case.extents),
        "ctas": ctas,
        "outcome": "ok",
        "tensors": found[0],
        "deterministic": all(run == found[0] for run in found),
        "intact": all(t["guards"] and t["input_kept"] for run in found for t in run.values()),
        "samples_s": [],
    }
    if request.timing is not None:
        with _judged(watchdog):
            report["samples_s"] = time_kernel(launch, **asdict(request.timing))
    if request.keep_outputs:
        for name, t in tensors.items():
            if t.plan.written:
                file = f"{case.name}.{name}.npy"
                np.save(folder / file, t.read()[0].view(np.dtype(f"u{NUMPY[t.plan.dtype].itemsize}")))
                found[0][name]["file"] = file
    for tensor in tensors.values():
        tensor.free()
    if watchdog:
        watchdog.free()
    return {**report, "wall_s": time.monotonic() - began}


@contextmanager
def _judged(watchdog: _Watchdog | None) -> Iterator[None]:
    """What goes wrong inside is how the case ended."""
    try:
        yield
    except HangError as error:
        raise _Failed("hang", error, watchdog) from None
    except DriverError as error:
        raise _Failed(error.outcome, error, watchdog) from None


def _examine(tensor: _Tensor) -> dict[str, Any]:
    """What a launch left in a tensor: its checksum, elements still poisoned (for one that is only written), whether the
    guards and, for one that is only read, the values are as they were."""
    values, guards = tensor.read()
    raw = values.reshape(-1).view(np.uint8)
    plan = tensor.plan
    kept = tensor.data is None or plan.written or bool((raw == tensor.data.reshape(-1).view(np.uint8)).all())
    poisoned = 0
    if tensor.data is None:
        poisoned = int((raw.reshape(-1, values.itemsize) == _POISON_BYTE).all(axis=1).sum())
    return {
        "sha256": hashlib.sha256(raw.tobytes()).hexdigest(),
        "dtype": plan.dtype,
        "shape": list(tensor.shape),
        "poisoned": poisoned,
        "guards": guards,
        "input_kept": kept,
    }


# ---------------------------------------------------------------------------------------------------------- one request


def run_request(folder: Path) -> dict[str, Any]:
    """Run the request in `folder` on this process's GPU; the result as written to `result.json`.

    A failed case ends the request: after it the context is of no use. Raises CakeError for a request that cannot be
    read or a machine that cannot run it.
    """
    began = time.monotonic()
    try:
        text = (folder / "request.json").read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CakeError(f"{folder} holds no readable request.json: {error}") from None
    request = Request.from_json(text)
    try:
        cubin = (folder / request.cubin).read_bytes()
    except OSError as error:
        raise CakeError(f"the cubin cannot be read: {error}") from None
    for case in request.cases:  # arguments first: a bad request must not depend on whether there is a GPU
        request.plan.check(case.extents, sm_count=1)
    device = Device()
    result: dict[str, Any] = {
        "schema": SCHEMA,
        "outcome": "ok",
        "cubin_sha256": hashlib.sha256(cubin).hexdigest(),
        "device": {**device.describe(), "nvidia_smi": _smi()},
        "cases": [],
        "error": None,
        "stuck": None,
        "places": [],
    }
    try:
        kernel = Kernel(device, cubin, request.plan)
        for case in request.cases:
            try:
                result["cases"].append(_run_case(folder, request, kernel, case))
            except _Failed as failed:
                result.update(failed.report)
                result["cases"].append({"name": case.name, "extents": dict(case.extents), "outcome": result["outcome"]})
                break
    except DriverError as error:  # refused before anything ran: a cubin, a tensor map, memory
        result.update(outcome=error.outcome, error={"status": error.status, "text": error.message})
    result["wall_s"] = time.monotonic() - began
    return result


def _smi() -> str:
    """What nvidia-smi says about clocks, power and temperature; empty where there is none."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return ""
    fields = "driver_version,clocks.sm,clocks.mem,power.draw,power.limit,temperature.gpu,clocks_throttle_reasons.active"
    try:
        done = subprocess.run(
            [tool, f"--query-gpu={fields}", "--format=csv,noheader"],
            capture_output=True,
            text=True,
            timeout=10,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def _write_result(folder: Path, result: Mapping[str, Any]) -> None:
    """Write `result.json` in one step, so that a killed worker leaves a whole one or none."""
    part = folder / "result.json.part"
    part.write_text(json.dumps(result, sort_keys=True) + "\n", encoding="utf-8")
    part.replace(folder / "result.json")


def main(argv: list[str] | None = None) -> int:
    """Entry of `python -m cake.core.worker`."""
    parser = argparse.ArgumentParser(
        prog="python -m cake.core.worker", description="Run requests on this machine's GPU."
    )
    parser.add_argument("folder", type=Path, help="a request folder, or with --batch a folder of them")
    parser.add_argument("--batch", action="store_true", help="run every request folder below FOLDER")
    parser.add_argument("--jobs", type=int, default=8, help="workers at once (default 8; 1 to confirm a hang alone)")
    parser.add_argument("--timeout", type=float, default=60.0, help="seconds before a worker is killed (default 60)")
    parser.add_argument("--out", type=Path, help="JSONL of results (default FOLDER/results.jsonl)")
    args = parser.parse_args(argv)
    try:
        if args.batch:
            from cake.core.worker_batch import run_batch

            return run_batch(args.folder, args.out or args.folder / "results.jsonl", args.jobs, args.timeout)
        result = run_request(args.folder)
    except CakeError as error:
        print(f"error: {error.message}", file=sys.stderr)
        return int(error.exit_code)
    _write_result(args.folder, result)
    print(json.dumps({"outcome": result["outcome"], "wall_s": round(result["wall_s"], 3)}))
    if result["outcome"] != "ok":
        sys.stdout.flush()
        os._exit(Exit.CLEAN)  # the context may be hung or broken: no tidy end to wait for
    return int(Exit.CLEAN)


if __name__ == "__main__":
    raise SystemExit(main())
