"""Litmus tests: one claim about the machine each, in hand-written PTX (`ptx/`) and as a Cake program (`cake/`).

    python tests/litmus/litmus.py build FOLDER     compile every kernel with NVRTC (no GPU)
    python tests/litmus/litmus.py run FOLDER       run them on the GPU, each in a process of its own
    python tests/litmus/litmus.py show FOLDER      what was seen, beside what the simulator allows

The simulator must allow every outcome that the GPU shows: one that it does not refutes the model. An outcome that only
the simulator shows proves nothing. `results/` holds what was seen on real devices; `test_litmus.py` compares.

An outcome is `hang`, `trap`, or what the outputs are: the name of the input they equal, names joined by `|` where each
element is one of them, else the start of a hash.
"""

from __future__ import annotations

import argparse
import ctypes
import hashlib
import json
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parents[1])]

from cake.core.inputs import NUMPY, generate  # noqa: E402 - on a GPU machine Cake is the checkout, not a package

DELAYS = (0, 300, 3000, 30000)  #: nanoseconds before the step that each kernel delays
REPEATS = 16
LIMIT_S = 10  #: for one test's process; a hang that the kernel cannot see itself ends so
UNTOUCHED = 99.0  #: what outputs hold before
GUARD = 256  #: bytes behind each output


def names() -> list[str]:
    """Every test, by name."""
    return sorted(p.stem for p in (HERE / "ptx").glob("*.cu"))


def claim(name: str) -> str:
    """What the test is about: the first line of its kernel."""
    return (HERE / "ptx" / f"{name}.cu").read_text().splitlines()[0].removeprefix("// ")


# ------------------------------------------------------------------------------------------------- inputs and outcomes


def arrays(tensors: dict[str, Any]) -> dict[str, Any]:
    """Initial contents: small whole numbers, zeros for Z, `UNTOUCHED` for the outputs O and P."""
    made = {}
    for name, (dtype, shape) in tensors.items():
        kind, parameters = "integers", {"low": -8, "high": 8} if dtype == "f32" else {"low": -2, "high": 2}
        if name in "OPZ":
            kind, parameters = "constant", {"value": 0.0 if name == "Z" else UNTOUCHED}
        made[name] = generate(kind, parameters, tuple(shape), dtype, seed=1, name=name)
    return made


def outcome(outputs: dict[str, Any], inputs: dict[str, Any]) -> str:
    """What `outputs` are, in terms of `inputs`."""
    return ", ".join(_one(outputs[name], inputs) for name in sorted(outputs))


def _one(array: Any, inputs: dict[str, Any]) -> str:
    like = {n: x.reshape(array.shape) if x.size == array.size else x for n, x in sorted(inputs.items())}
    same = {n: array == x for n, x in like.items() if array.shape[-x.ndim :] == x.shape}
    for name, equal in same.items():
        if equal.all():
            return name
    if same and np.logical_or.reduce(list(same.values())).all():
        return "|".join(n for n, equal in same.items() if equal.any())
    return hashlib.sha256(array.tobytes()).hexdigest()[:12]


def allowed(name: str, seeds: int = 24) -> set[str]:
    """The outcomes that the simulator shows over its orders."""
    from cake.core.ir import Tensor
    from cake.core.reader import read_program
    from cake.core.sim import run_orders

    path = HERE / "cake" / f"{name}.cake"
    program = read_program(path.read_text(), str(path))
    start = arrays({t.name: (t.dtype.name, t.dims) for t in program.of(Tensor)})
    inputs = {n: x for n, x in start.items() if n not in "OP"}
    results = run_orders(program, start, {}, seeds=range(seeds))
    return {outcome(r.outputs, inputs) if r.outcome == "ok" else r.outcome for r in results}


# --------------------------------------------------------------------------------------------------------------- build


def build(folder: Path) -> None:
    """Compile every kernel into `folder`, with what a GPU machine needs to run it."""
    from cake.core.ir import Tensor, TensorMap
    from cake.core.reader import read_program

    folder.mkdir(parents=True, exist_ok=True)
    for name in names():
        path = HERE / "cake" / f"{name}.cake"
        program = read_program(path.read_text(), str(path))
        declared = [m.name for m in program.of(TensorMap)] + [t.name for t in program.of(Tensor)]
        if parameters(name) != declared:
            raise SystemExit(f"{name}: the kernel takes {parameters(name)}, the program {declared}")
        request = {
            "threads": program.threads,
            "smem": max(program.smem_bytes, 16),
            "tensors": {t.name: (t.dtype.name, t.dims) for t in program.of(Tensor)},
            "maps": [(m.tensor.name, m.box, m.swizzle) for m in program.of(TensorMap)],
        }
        (folder / f"{name}.json").write_text(json.dumps(request))
        (folder / f"{name}.cubin").write_bytes(compile_kernel(name))
        print(f"{name}: built")


def parameters(name: str) -> list[str]:
    """Names of a hand-written kernel's parameters but for the last two, in order."""
    signature = (HERE / "ptx" / f"{name}.cu").read_text().partition("litmus(")[2].partition(", TAIL)")[0]
    return [p.replace("*", " ").split()[-1] for p in signature.split(",")]


def compile_kernel(name: str) -> bytes:
    """The cubin of one hand-written kernel."""
    from cuda.bindings import nvrtc

    source = (HERE / "ptx" / f"{name}.cu").read_bytes()
    header = (HERE / "ptx" / "litmus.h").read_bytes()
    handle = _ok(nvrtc.nvrtcCreateProgram(source, f"{name}.cu".encode(), 1, [header], [b"litmus.h"]))
    options = [b"--gpu-architecture=sm_90a", b"--std=c++17"]
    (error,) = nvrtc.nvrtcCompileProgram(handle, len(options), options)
    if error.value:
        log = b" " * _ok(nvrtc.nvrtcGetProgramLogSize(handle))
        nvrtc.nvrtcGetProgramLog(handle, log)
        raise SystemExit(f"{name}: {log.decode()}")
    cubin = b" " * _ok(nvrtc.nvrtcGetCUBINSize(handle))
    nvrtc.nvrtcGetCUBIN(handle, cubin)
    return cubin


def _ok(result: Any) -> Any:
    error, *values = result
    if error.value:
        raise RuntimeError(f"{type(error).__name__}.{error.name}")
    return values[0] if len(values) == 1 else values


# ----------------------------------------------------------------------------------------------------------------- run


def run(folder: Path, jobs: int) -> None:
    """Run every test in `folder`, `jobs` at once; those that hang once more, alone. Writes `results.json`."""
    todo = sorted(p.stem for p in folder.glob("*.cubin"))
    with ThreadPoolExecutor(jobs) as pool:
        results = dict(zip(todo, pool.map(lambda name: _process(folder, name), todo), strict=True))
    for name in todo:
        _write(folder, results)  # after each hang, so that a run that is cut off keeps what it has
        if "hang" in results[name]["observed"]:
            results[name] = {**_process(folder, name), "alone": True}
        print(f"{name}: {results[name]['observed']}", flush=True)
    _write(folder, results)


def _write(folder: Path, results: dict[str, Any]) -> None:
    (folder / "results.json").write_text(json.dumps(results, indent=1, sort_keys=True) + "\n")


def _process(folder: Path, name: str) -> dict[str, Any]:
    """Run one test in a process of its own, for at most `LIMIT_S`."""
    call = [sys.executable, __file__, "one", str(folder), "--name", name]
    child = subprocess.Popen(call, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        out, err = child.communicate(timeout=LIMIT_S)
        if child.returncode == 0:
            return dict(json.loads(out.splitlines()[-1]))
        return {"observed": {"broken": 1}, "stderr": err[-2000:]}
    except subprocess.TimeoutExpired:
        child.kill()
        child.communicate()
        return {"observed": {"hang": 1}, "killed_after_s": LIMIT_S}


def one(folder: Path, name: str) -> None:
    """Run one test over all delays and print what was seen. A hang or a trap ends it: the context is lost."""
    from cuda.bindings import driver as cu

    request = json.loads((folder / f"{name}.json").read_text())
    _ok(cu.cuInit(0))
    device = _ok(cu.cuDeviceGet(0))
    _ok(cu.cuCtxSetCurrent(_ok(cu.cuDevicePrimaryCtxRetain(device))))
    module = _ok(cu.cuModuleLoadData((folder / f"{name}.cubin").read_bytes()))
    kernel = _ok(cu.cuModuleGetFunction(module, b"litmus"))
    attribute = cu.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    _ok(cu.cuFuncSetAttribute(kernel, attribute, request["smem"]))

    start = arrays(request["tensors"])
    inputs = {n: x for n, x in start.items() if n not in "OP"}
    pointers = {n: _ok(cu.cuMemAlloc(x.nbytes + GUARD)) for n, x in start.items()}
    flag = _ok(cu.cuMemHostAlloc(64, cu.CU_MEMHOSTALLOC_DEVICEMAP))
    gave_up = ctypes.c_uint32.from_address(int(flag))
    delay = ctypes.c_uint32(0)
    maps = [_tensor_map(cu, request["tensors"][t], pointers[t], box, swizzle) for t, box, swizzle in request["maps"]]
    values = [ctypes.c_uint64(int(p)) for p in pointers.values()]
    values += [ctypes.c_uint64(int(_ok(cu.cuMemHostGetDevicePointer(flag, 0)))), delay]
    addresses = [int(m.getPtr()) for m in maps] + [ctypes.addressof(v) for v in values]
    parameters = (ctypes.c_void_p * len(addresses))(*addresses)

    seen: Counter[str] = Counter()
    for delay.value in DELAYS:
        for _ in range(REPEATS):
            gave_up.value = 0
            for n, x in start.items():
                _ok(cu.cuMemsetD8(pointers[n], 0xA5, x.nbytes + GUARD))
                _ok(cu.cuMemcpyHtoD(pointers[n], x.ctypes.data, x.nbytes))
            launch = (1, 1, 1, request["threads"], 1, 1, request["smem"], 0, ctypes.addressof(parameters), 0)
            _ok(cu.cuLaunchKernel(kernel, *launch))
            (error,) = cu.cuCtxSynchronize()
            if gave_up.value or error.value:
                seen["hang" if gave_up.value else "trap"] += 1
                return _report(cu, device, seen)
            outputs, outside = {}, ""
            for n, x in start.items():
                back = np.empty(x.nbytes + GUARD, np.uint8)
                _ok(cu.cuMemcpyDtoH(back.ctypes.data, pointers[n], back.nbytes))
                outside += "" if (back[x.nbytes :] == 0xA5).all() else f" and bytes behind {n}"
                if n in "OP":
                    outputs[n] = back[: x.nbytes].view(NUMPY[request["tensors"][n][0]]).reshape(x.shape)
            seen[outcome(outputs, inputs) + outside] += 1
    return _report(cu, device, seen)


def _report(cu: Any, device: Any, seen: Counter[str]) -> None:
    name = _ok(cu.cuDeviceGetName(128, device)).split(b"\0")[0].decode()
    print(json.dumps({"observed": dict(sorted(seen.items())), "device": name, "driver": _ok(cu.cuDriverGetVersion())}))


def _tensor_map(cu: Any, tensor: Any, pointer: Any, box: list[int], swizzle: int) -> Any:
    dtype, dims = tensor
    size = NUMPY[dtype].itemsize
    rank = len(dims)
    strides, stride = [], size
    for extent in dims[:0:-1]:
        stride *= extent
        strides.append(cu.cuuint64_t(stride))
    types = cu.CUtensorMapDataType
    kind = types.CU_TENSOR_MAP_DATA_TYPE_FLOAT32 if dtype == "f32" else types.CU_TENSOR_MAP_DATA_TYPE_BFLOAT16
    return _ok(
        cu.cuTensorMapEncodeTiled(
            kind,
            rank,
            int(pointer),
            [cu.cuuint64_t(n) for n in reversed(dims)],
            strides or [cu.cuuint64_t(16)],  # unread for one dimension, but not to be null
            [cu.cuuint32_t(n) for n in reversed(box)],
            [cu.cuuint32_t(1)] * rank,
            cu.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
            getattr(cu.CUtensorMapSwizzle, f"CU_TENSOR_MAP_SWIZZLE_{f'{swizzle}B' if swizzle else 'NONE'}"),
            cu.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_NONE,
            cu.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
        )
    )


def show(folder: Path) -> int:
    """Print what was seen beside what the simulator allows; the number of refutations."""
    results = json.loads((folder / "results.json").read_text())
    refuted = 0
    for name in names():
        seen, may = results.get(name, {}).get("observed", {}), allowed(name)
        wrong = set(seen) - may
        refuted += bool(wrong)
        print(
            f"{'REFUTED' if wrong else 'agrees' if seen else 'not run':8} {name:22} GPU {seen} simulator {sorted(may)}"
        )
    return refuted


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("verb", choices=("build", "run", "one", "show"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--name", default="")
    parser.add_argument("--jobs", type=int, default=4)
    options = parser.parse_args()
    match options.verb:
        case "build":
            build(options.folder)
        case "run":
            run(options.folder, options.jobs)
        case "one":
            one(options.folder, options.name)
        case "show":
            return show(options.folder)
    return 0


if __name__ == "__main__":
    started = time.perf_counter()
    code = main()
    print(f"{time.perf_counter() - started:.1f} s", file=sys.stderr)
    sys.exit(code)
