"""First run on a GPU: every corpus configuration against its oracle and its peers, and hangs through the watchdog.

    python tests/device/smoke.py build FOLDER    here, no GPU: compiles cubins and requests into FOLDER
    python3 tests/device/smoke.py run FOLDER     on the GPU machine: PyTorch, NumPy, ml_dtypes, cuda-bindings

`run` prints a table and, when OUT is set, writes everything it measured to $OUT/smoke.json.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

EXTENTS = {"gemm_bf16": ({"M": 200, "N": 520, "K": 256},), "rmsnorm_bf16": ({"M": 33, "N": 2056},)}


def build(folder: Path) -> None:
    """Compile everything that `run` needs."""
    from cake.core.compile import compile_program, nvrtc_version
    from cake.core.corpus import load_corpus
    from cake.core.lower import lower

    folder.mkdir(parents=True, exist_ok=True)
    for kernel in load_corpus(ROOT):
        for config in kernel.configs:
            cubin, plan = compile_program(lower(kernel.program(config)))
            (folder / f"{kernel.name}.{config}.cubin").write_bytes(cubin.data)
            (folder / f"{kernel.name}.{config}.json").write_text(plan.to_json())
            print(f"{kernel.name} {config}: {cubin.usage.registers} registers, {len(cubin.findings)} remarks")
        _requests(folder, kernel)
    print(f"built with NVRTC {nvrtc_version()}")


def _requests(folder: Path, kernel: Any) -> None:
    """Worker requests: each configuration as it is with a watchdog, and the first one broken in ways that hang."""
    from dataclasses import replace

    from cake.core.compile import compile_program
    from cake.core.ir import OpStmt, walk
    from cake.core.lower import lower
    from cake.core.tree import replace_statement
    from cake.core.worker import Case, Request, write_request

    first = kernel.program(next(iter(kernel.configs)))
    programs = {config: kernel.program(config) for config in kernel.configs}
    for located in walk(first):
        stmt = located.stmt
        if isinstance(stmt, OpStmt) and stmt.op.opname in (
            "mbarrier_arrive",
            "mbarrier_expect",
            "barrier_sync",
            "tma_load",
        ):
            name = f"drop-{stmt.op.opname}-{located.path.replace(':', '-')}"
            programs[name] = replace_statement(first, located.path, ())
        if isinstance(stmt, OpStmt) and stmt.op.opname == "setmaxnreg" and stmt.op.action == "inc":
            more = replace(stmt, op=replace(stmt.op, count=stmt.op.count + 8))
            programs["more-registers"] = replace_statement(first, located.path, (more,))
    for name, program in programs.items():
        cubin, plan = compile_program(lower(program, watchdog=True))
        inputs = {t.name: {"kind": "normal", "seed": 7} for t in plan.tensors if t.read}
        cases = tuple(Case(f"c{i}", e, kernel.contract.scalars, inputs) for i, e in enumerate(EXTENTS[kernel.name]))
        write_request(folder / "requests" / f"{kernel.name}.{name}", Request("kernel.cubin", plan, cases), cubin.data)


def run(folder: Path) -> None:
    """Check, time, and hang."""
    import torch

    from cake.core.corpus import load_corpus
    from cake.core.launch import Device, Kernel
    from cake.core.plan import LaunchPlan

    torch.cuda.init()
    torch.zeros(1, device="cuda")
    device = Device()
    report: dict[str, Any] = {"device": device.describe(), "torch": torch.__version__, "correct": [], "times": []}
    table = []
    for kernel in load_corpus(ROOT):
        oracle = kernel.oracle()
        loaded = {}
        for config in kernel.configs:
            plan = LaunchPlan.from_json((folder / f"{kernel.name}.{config}.json").read_text())
            loaded[config] = Kernel(device, (folder / f"{kernel.name}.{config}.cubin").read_bytes(), plan)
        table += _correct(torch, kernel, oracle, loaded, report)
        table += _times(torch, kernel, oracle, loaded, device, report)
    table += _hangs(folder, report)
    report["table"] = table
    if out := os.environ.get("OUT"):
        (Path(out) / "smoke.json").write_text(json.dumps(report))
    print("\n".join(table))


def _bound(torch: Any, kernel: Any, loaded: Any, extents: Any, inputs: Any) -> tuple[Any, Any]:
    """A launch on these inputs, and its output filled with NaN."""
    plan = loaded.plan
    tensors = dict(inputs)
    for t in plan.tensors:
        if t.name not in tensors:
            raw = torch.full(plan.shape(t, extents), -1, dtype=torch.int16, device="cuda")
            tensors[t.name] = raw.view(torch.bfloat16)
    launch = loaded.bind({n: t.data_ptr() for n, t in tensors.items()}, extents, kernel.contract.scalars)
    return launch, tensors


def _correct(torch: Any, kernel: Any, oracle: Any, loaded: Any, report: Any) -> list[str]:
    from cake.core.inputs import generate

    worst: dict[str, list[float]] = {config: [0.0, 0, 0] for config in loaded}
    plan = next(iter(loaded.values())).plan
    for extents in kernel.contract.correctness:
        for distribution in kernel.contract.distributions:
            inputs = {}
            for t in plan.tensors:
                if t.name in kernel.contract.inputs:
                    kind, parameters = distribution.of(t.name)
                    array = generate(
                        kind, parameters, plan.shape(t, extents), t.dtype, seed=time.time_ns(), name=t.name
                    )
                    inputs[t.name] = torch.from_numpy(array.view("int16")).cuda().view(torch.bfloat16)
            ((name, (want, scale)),) = oracle.reference(inputs, kernel.contract.scalars).items()
            for config, k in loaded.items():
                constants = kernel.constants(config)
                if kernel.contract.refusal(extents, constants):
                    continue
                relative, scaled, absolute = kernel.contract.tolerance.bound({**constants, **extents})
                launch, tensors = _bound(torch, kernel, k, extents, inputs)
                launch()
                k.device.wait(10)
                first = tensors[name].clone()
                launch()
                k.device.wait(10)
                error = (first.double() - want).abs() / (relative * want.abs() + scaled * scale + absolute)
                bad = int((~(error <= 1)).sum())
                same = bool((first.view(torch.int16) == tensors[name].view(torch.int16)).all())
                ratio = float(error.max())
                w = worst[config]
                worst[config] = [max(w[0], ratio), w[1] + (bad > 0 or not same), w[2] + 1]
                report["correct"].append([kernel.name, config, dict(extents), distribution.name, ratio, bad, same])
    return [
        f"{kernel.name:13} {config:11} {n:3d} runs, {wrong} wrong, worst error / bound {ratio:.3f}"
        for config, (ratio, wrong, n) in worst.items()
    ]


def _times(torch: Any, kernel: Any, oracle: Any, loaded: Any, device: Any, report: Any) -> list[str]:
    from statistics import median

    from cake.core.expression import evaluate
    from cake.core.launch import time_arms

    rows = []
    for extents in kernel.contract.performance:
        plan = next(iter(loaded.values())).plan
        inputs = {
            t.name: torch.randn(plan.shape(t, extents), device="cuda").bfloat16()
            for t in plan.tensors
            if t.name in kernel.contract.inputs
        }
        arms = {
            name: (lambda _, call=call: call()) for name, call in oracle.peers(inputs, kernel.contract.scalars).items()
        }
        kept = []
        for config, k in loaded.items():
            if not kernel.contract.refusal(extents, kernel.constants(config)):
                arms[config], tensors = _bound(torch, kernel, k, extents, inputs)
                kept.append(tensors)
        samples = time_arms(device, arms, warmup=10, rounds=40)
        report["times"].append([kernel.name, dict(extents), samples])
        work = float(evaluate(kernel.contract.flops, extents)), float(evaluate(kernel.contract.bytes, extents))
        peer = median(samples[next(iter(samples))])
        for name, times in samples.items():
            t = median(times)
            rows.append(
                f"{kernel.name:13} {name[:28]:28} {tuple(extents.values())!s:20} {t * 1e6:9.1f} us  "
                f"{work[0] / t / 1e12:7.1f} TFLOP/s {work[1] / t / 1e9:7.0f} GB/s  {peer / t:6.3f} of peer"
            )
    return rows


def _hangs(folder: Path, report: Any) -> list[str]:
    from cake.core.worker_batch import run_batch

    out = folder / "results.jsonl"
    out.unlink(missing_ok=True)
    began = time.monotonic()
    run_batch(folder / "requests", out, jobs=4, timeout=60)
    runs = [json.loads(line) for line in out.read_text().splitlines()]
    report["requests"] = runs
    rows = [f"{len(runs)} worker requests in {time.monotonic() - began:.0f} s"]
    for r in sorted(runs, key=lambda r: r["request"]):
        result = r["result"] or {}
        stuck = result.get("stuck")
        where = ""
        if stuck:
            p = stuck["place"]
            at = f"{p['role']}[{p['instance']}] {p['op']}({p['barrier']}[{stuck['slot']}], {stuck['parity']})"
            where = f"{stuck['kind']}: {at} {p['path']} {p['loops']}"
        elif result.get("places"):
            where = result["places"][0]["text"]
        elif result.get("error"):
            where = result["error"]["text"]
        elif result:
            case = result["cases"][0]
            where = f"deterministic {case['deterministic']}, intact {case['intact']}"
        else:
            where = r["stderr"][-200:]
        rows.append(f"{r['request']:48} {r['outcome']:12} {r['wall_s']:5.1f} s  {where}")
    return rows


if __name__ == "__main__":
    {"build": build, "run": run}[sys.argv[1]](Path(sys.argv[2]))
