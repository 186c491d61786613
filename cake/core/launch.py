"""Running a cubin through the CUDA driver: device, memory, tensor maps, launches, bounded waits, timing.

Needs `cuda-bindings` and NumPy, nothing else of Cake but the plan. No call here blocks without a limit: a launch is
waited for by polling, so that a kernel that hangs leaves the host able to say so.
"""

from __future__ import annotations

import ctypes
import struct
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Final

from cake.core.errors import CakeError, Exit
from cake.core.plan import SIZES, LaunchPlan, MapPlan, PlanError

#: The oldest driver interface that loads cubins of CUDA 13.0.
DRIVER: Final = (13, 0)
#: How errors of the driver (CUDA Driver API, CUresult) are recorded; all others are launch failures.
OUTCOMES: Final = {
    "CUDA_ERROR_ILLEGAL_ADDRESS": "illegal_address",
    "CUDA_ERROR_ILLEGAL_INSTRUCTION": "illegal_instruction",
    "CUDA_ERROR_MISALIGNED_ADDRESS": "misaligned_address",
    "CUDA_ERROR_INVALID_ADDRESS_SPACE": "illegal_address",
    "CUDA_ERROR_INVALID_PC": "illegal_instruction",
    "CUDA_ERROR_LAUNCH_TIMEOUT": "hang",
}
_MAP_TYPES: Final = {
    "i32": "INT32",
    "u32": "UINT32",
    "i64": "INT64",
    "f32": "FLOAT32",
    "f16": "FLOAT16",
    "bf16": "BFLOAT16",
    "bool": "UINT8",
}
_SCALARS: Final = {"bool": "?", "i32": "i", "u32": "I", "i64": "q", "f32": "f"}


def cuda_outcome(error: str) -> str:
    """The outcome that a CUDA driver error means."""
    return OUTCOMES.get(error, "launch_failure")


class DriverError(CakeError):
    """A driver call that failed. `status` is the driver's name for it, `outcome` how evidence records it."""

    def __init__(self, what: str, status: str, text: str) -> None:
        super().__init__(f"{what}: {status}: {text}", Exit.FINDINGS)
        self.status = status
        self.outcome = cuda_outcome(status)


class HangError(CakeError):
    """A launch that was not done in time."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"the kernel was not done after {seconds:g} s", Exit.FINDINGS)


def _driver() -> Any:
    try:
        from cuda.bindings import driver
    except ImportError as error:
        raise CakeError(
            f"cuda-bindings is missing ({error}): pip install 'cake-compiler[cuda]'", Exit.ENVIRONMENT
        ) from None
    return driver


class Device:
    """GPU number `index`, its primary context current in this thread. Raises CakeError (environment) when there is no
    driver, it is too old, or there is no such GPU."""

    def __init__(self, index: int = 0) -> None:
        self.cu = _driver()
        try:
            (status,) = self.cu.cuInit(0)
        except RuntimeError as error:  # the binding found no libcuda
            raise CakeError(
                f"no NVIDIA driver on this machine ({error}); a GPU run needs one", Exit.ENVIRONMENT
            ) from None
        if int(status):
            raise CakeError(f"the NVIDIA driver finds no GPU ({status.name}); a GPU run needs one", Exit.ENVIRONMENT)
        version = int(self.call("cuDriverGetVersion"))
        self.driver = (version // 1000, version % 1000 // 10)
        check_driver(self.driver)
        self._device = self.call("cuDeviceGet", index)
        self.name = self.call("cuDeviceGetName", 128, self._device).split(b"\0")[0].decode()
        self.capability = (
            self._attribute("COMPUTE_CAPABILITY_MAJOR"),
            self._attribute("COMPUTE_CAPABILITY_MINOR"),
        )
        self.sm_count = self._attribute("MULTIPROCESSOR_COUNT")
        self.l2_bytes = self._attribute("L2_CACHE_SIZE")
        self.clock_khz = self._attribute("CLOCK_RATE")
        self.memory_clock_khz = self._attribute("MEMORY_CLOCK_RATE")
        self.memory_bus_bits = self._attribute("GLOBAL_MEMORY_BUS_WIDTH")
        self.call("cuCtxSetCurrent", self.call("cuDevicePrimaryCtxRetain", self._device))

    def call(self, name: str, *args: Any) -> Any:
        """The value of driver function `name`. Raises DriverError with the driver's own words."""
        status, *values = getattr(self.cu, name)(*args)
        if int(status):
            _, text = self.cu.cuGetErrorString(status)
            raise DriverError(name, status.name, text.decode() if text else "no text")
        return values[0] if len(values) == 1 else tuple(values) if values else None

    def describe(self) -> dict[str, Any]:
        """The device as a record: name, capability, SMs, clocks in kHz, memory bus, L2 bytes, driver interface."""
        return {
            "name": self.name,
            "capability": list(self.capability),
            "sm_count": self.sm_count,
            "l2_bytes": self.l2_bytes,
            "clock_khz": self.clock_khz,
            "memory_clock_khz": self.memory_clock_khz,
            "memory_bus_bits": self.memory_bus_bits,
            "driver": ".".join(map(str, self.driver)),
        }

    def _attribute(self, name: str) -> int:
        # getattr, here and below: the enums of newer bindings have no subscript.
        attribute = getattr(self.cu.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")
        return int(self.call("cuDeviceGetAttribute", attribute, self._device))

    def allocate(self, size: int) -> int:
        """Device memory of `size` bytes; returns its address."""
        return int(self.call("cuMemAlloc", max(size, 1)))

    def free(self, address: int) -> None:
        """Give device memory back."""
        self.call("cuMemFree", address)

    def wait(self, seconds: float, stream: int = 0) -> None:
        """Poll until the stream is done. Raises HangError after `seconds`, DriverError when a launch failed."""
        end = time.monotonic() + seconds
        pause = 0.0
        while True:
            (status,) = self.cu.cuStreamQuery(stream)
            if int(status) == 0:
                return
            if status.name != "CUDA_ERROR_NOT_READY":
                _, text = self.cu.cuGetErrorString(status)
                raise DriverError("kernel", status.name, text.decode() if text else "no text")
            if time.monotonic() > end:
                raise HangError(seconds)
            time.sleep(pause)
            pause = min(pause + 2e-5, 1e-3)


def check_driver(version: tuple[int, int]) -> None:
    """Raise CakeError (environment) for a driver that cannot load CUDA 13.0 cubins."""
    if version < DRIVER:
        have, want = (".".join(map(str, v)) for v in (version, DRIVER))
        raise CakeError(
            f"the NVIDIA driver supports CUDA {have}, cubins of Cake need {want} (driver 580 or newer)",
            Exit.ENVIRONMENT,
        )


@dataclass(frozen=True, slots=True)
class Watch:
    """Watchdog memory for one launch: the report's device address, the counters' address, the limit in nanoseconds."""

    report: int
    finished: int
    limit_ns: int


class Kernel:
    """A loaded cubin. Raises CakeError (environment) when the device is not of the plan's capability, and DriverError
    when the driver refuses the cubin."""

    def __init__(self, device: Device, cubin: bytes, plan: LaunchPlan) -> None:
        if device.capability != plan.capability:
            have = ".".join(map(str, device.capability))
            raise CakeError(
                f"{device.name} has compute capability {have}, {plan.name} is for {plan.target}", Exit.ENVIRONMENT
            )
        self.device, self.plan = device, plan
        self._module = device.call("cuModuleLoadData", cubin)
        self._function = device.call("cuModuleGetFunction", self._module, plan.symbol.encode())
        limit = device.cu.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        device.call("cuFuncSetAttribute", self._function, limit, plan.smem_bytes)

    def bind(
        self,
        pointers: Mapping[str, int],
        extents: Mapping[str, int],
        scalars: Mapping[str, float],
        watch: Watch | None = None,
    ) -> Launch:
        """Arguments for one problem, checked. `pointers` are device addresses of dense row-major tensors.

        Raises PlanError for what the kernel cannot take, DriverError for a tensor map that the driver refuses.
        """
        plan = self.plan
        ctas = plan.check(extents, self.device.sm_count)
        for tensor in plan.tensors:
            shape = plan.shape(tensor, extents)
            dense = [prod(shape[i + 1 :]) for i in range(len(shape))]
            plan.check_layout(tensor, shape, dense, pointers[tensor.name])
        args = [self._map(m, pointers, extents) for m in plan.maps]
        args += [struct.pack("<Q", pointers[t.name]) for t in plan.tensors]
        args += [struct.pack("<i", extents[e]) for e in plan.extents]
        for scalar in plan.scalars:
            if scalar.name not in scalars:
                raise PlanError(f"{plan.name}: scalar {scalar.name} is missing")
            if scalar.dtype not in _SCALARS:
                raise PlanError(f"{plan.name}: scalar {scalar.name} is {scalar.dtype}; pass it as f32 and cast")
            args.append(struct.pack(f"<{_SCALARS[scalar.dtype]}", scalars[scalar.name]))
        if plan.watchdog:
            if watch is None:
                raise PlanError(f"{plan.name}: this cubin has a watchdog and needs its memory")
            args.append(struct.pack("<QQQ", watch.report, watch.finished, watch.limit_ns))
        return Launch(self, self._function, ctas, args)

    def _map(self, m: MapPlan, pointers: Mapping[str, int], extents: Mapping[str, int]) -> bytes:
        cu, plan = self.device.cu, self.plan
        tensor = next(t for t in plan.tensors if t.name == m.tensor)
        shape, size = plan.shape(tensor, extents), SIZES[tensor.dtype]
        strides = [prod(shape[i:]) * size for i in range(len(shape) - 1, 0, -1)]
        encoded = self.device.call(
            "cuTensorMapEncodeTiled",
            getattr(cu.CUtensorMapDataType, f"CU_TENSOR_MAP_DATA_TYPE_{_MAP_TYPES[tensor.dtype]}"),
            len(shape),
            pointers[m.tensor],
            [cu.cuuint64_t(n) for n in reversed(shape)],
            [cu.cuuint64_t(n) for n in strides or (16,)],  # unread for one dimension, but not to be null
            [cu.cuuint32_t(n) for n in reversed(m.box)],
            [cu.cuuint32_t(1)] * len(shape),
            cu.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
            getattr(cu.CUtensorMapSwizzle, f"CU_TENSOR_MAP_SWIZZLE_{f'{m.swizzle}B' if m.swizzle else 'NONE'}"),
            cu.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
            cu.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
        )
        return ctypes.string_at(encoded.getPtr(), 128)


class Launch:
    """A kernel with its arguments; calling it launches on a stream and does not wait."""

    def __init__(self, kernel: Kernel, function: Any, ctas: int, args: Sequence[bytes]) -> None:
        self.kernel, self.ctas = kernel, ctas
        self._function = function
        self._buffers = [ctypes.create_string_buffer(a, len(a)) for a in args]
        self._pointers = (ctypes.c_void_p * len(args))(*(ctypes.addressof(b) for b in self._buffers))

    def __call__(self, stream: int = 0) -> None:
        """Launch. Raises DriverError when the driver refuses, such as for too much shared memory."""
        plan = self.kernel.plan
        self.kernel.device.call(
            "cuLaunchKernel",
            self._function,
            *(self.ctas, 1, 1),
            *(plan.threads, 1, 1),
            plan.smem_bytes,
            stream,
            ctypes.addressof(self._pointers),
            0,
        )


# --------------------------------------------------------------------------------------------------------------- timing


def time_kernel(
    launch: Launch, *, warmup: int = 10, repeats: int = 50, flush_bytes: int = 256 << 20, limit_s: float = 60.0
) -> list[float]:
    """Seconds of each of `repeats` launches with a cold L2, all raw samples in order. See `time_arms`."""
    device = launch.kernel.device
    return time_arms(
        device, {"kernel": launch}, warmup=warmup, rounds=repeats, flush_bytes=flush_bytes, limit_s=limit_s
    )["kernel"]


def time_arms(
    device: Device,
    arms: Mapping[str, Callable[[int], None]],
    *,
    warmup: int = 10,
    rounds: int = 50,
    flush_bytes: int = 256 << 20,
    limit_s: float = 60.0,
    stream: int = 0,
) -> dict[str, list[float]]:
    """Seconds of each arm in each round, by events on `stream`, all raw samples in order of rounds.

    An arm is called with the stream and enqueues its work there. Every round runs every arm once, in rotated order, so
    that clocks and neighbours drift over all of them alike. Before each, `flush_bytes` are written, which leaves
    nothing of the operands in L2 (keep it over twice the device's L2). Raises HangError after `limit_s`, DriverError;
    then the context is of no use, and nothing is freed: the driver would wait for the kernel first.
    """
    names = list(arms)
    flush = device.allocate(flush_bytes)
    events: dict[str, list[tuple[Any, Any]]] = {name: [] for name in names}
    for i in range(warmup + rounds):
        for name in names[i % len(names) :] + names[: i % len(names)]:
            device.call("cuMemsetD8Async", flush, i & 0xFF, flush_bytes, stream)
            start, stop = device.call("cuEventCreate", 0), device.call("cuEventCreate", 0)
            device.call("cuEventRecord", start, stream)
            arms[name](stream)
            device.call("cuEventRecord", stop, stream)
            events[name].append((start, stop))
        device.wait(limit_s, stream)
    times = {name: [float(device.call("cuEventElapsedTime", *pair)) * 1e-3 for pair in events[name]] for name in names}
    for event in (event for pairs in events.values() for pair in pairs for event in pair):
        device.call("cuEventDestroy", event)
    device.free(flush)
    return {name: samples[warmup:] for name, samples in times.items()}
