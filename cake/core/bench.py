"""Timing on the GPU: configurations of a kernel and its peers, interleaved, in a process of its own.

    python -m cake.core.bench FOLDER

`FOLDER/bench.json` names the kernel's corpus folder, the problems, and cubins with their plans; what was measured goes
to `FOLDER/bench_result.json`. Needs PyTorch with CUDA. Every arm runs once a round, in rotated order, with a cold L2;
all raw samples are kept. Which route ran is known: the only code that an arm of ours can launch is its cubin.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from cake.core.errors import CakeError, Exit
from cake.core.launch import Device, Kernel, time_arms
from cake.core.plan import LaunchPlan

WARMUP: Final = 10
ROUNDS: Final = 60


def torch_dtype(torch: Any, name: str) -> Any:
    """PyTorch's type for an IR type."""
    known = {"bf16": "bfloat16", "f16": "float16", "f32": "float32", "i32": "int32", "i64": "int64", "bool": "bool"}
    return getattr(torch, known[name])


def run(folder: Path) -> dict[str, Any]:
    """Measure what `bench.json` asks for. Raises CakeError when this machine cannot."""
    try:
        import torch
    except ImportError:
        raise CakeError("PyTorch is not installed: pip install 'cake-compiler[oracle]'", Exit.ENVIRONMENT) from None
    from cake.core.corpus import load_corpus_kernel

    request = json.loads((folder / "bench.json").read_text())
    if not torch.cuda.is_available():
        raise CakeError("PyTorch finds no GPU", Exit.ENVIRONMENT)
    torch.zeros(1, device="cuda")
    device = Device()
    kernel = load_corpus_kernel(Path(request["kernel"]))
    oracle = kernel.oracle()
    loaded = {
        arm: Kernel(device, (folder / f"{arm}.cubin").read_bytes(), LaunchPlan.from_json(json.dumps(plan)))
        for arm, plan in request["plans"].items()
    }
    results = []
    for problem in request["problems"]:
        torch.manual_seed(time.time_ns())
        tensors = _inputs(torch, loaded, kernel.contract.inputs, problem["extents"])
        inputs = {name: tensors[name] for name in kernel.contract.inputs}
        arms: dict[str, Callable[[int], None]] = {
            name: _peer(call) for name, call in oracle.peers(inputs, kernel.contract.scalars).items()
        }
        kept = []  # a launch holds addresses only: its output must live as long
        for arm in problem["arms"]:
            plan = loaded[arm].plan
            outputs = {
                t.name: torch.empty(plan.shape(t, problem["extents"]), dtype=torch_dtype(torch, t.dtype), device="cuda")
                for t in plan.tensors
                if t.name not in inputs
            }
            kept.append(outputs)
            pointers = {name: t.data_ptr() for name, t in {**inputs, **outputs}.items()}
            arms[arm] = loaded[arm].bind(pointers, problem["extents"], kernel.contract.scalars)
        began = time.perf_counter()
        samples = time_arms(device, arms, warmup=WARMUP, rounds=ROUNDS)
        wall = time.perf_counter() - began
        spent = sum(map(sum, samples.values()))
        if spent > wall:
            raise CakeError(f"events say {spent:.3f} s, the clock {wall:.3f} s: the timing is broken", Exit.ENVIRONMENT)
        results.append({"extents": problem["extents"], "samples_s": samples, "wall_s": wall})
    return {"device": device.describe(), "torch": str(torch.__version__), "problems": results}


def _peer(call: Callable[[], Any]) -> Callable[[int], None]:
    def arm(stream: int) -> None:
        call()

    return arm


def _inputs(torch: Any, loaded: Mapping[str, Kernel], names: Any, extents: Mapping[str, int]) -> dict[str, Any]:
    plan = next(iter(loaded.values())).plan
    return {
        t.name: torch.randn(plan.shape(t, extents), device="cuda").to(torch_dtype(torch, t.dtype))
        for t in plan.tensors
        if t.name in names
    }


def main() -> int:
    """Entry of `python -m cake.core.bench`."""
    folder = Path(sys.argv[1])
    try:
        result = run(folder)
    except CakeError as error:
        print(f"error: {error.message}", file=sys.stderr)
        return int(error.exit_code)
    (folder / "bench_result.json").write_text(json.dumps(result, sort_keys=True) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
