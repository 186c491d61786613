"""CUDA C++ to a cubin, by NVRTC 13.0 and nothing else: no nvcc, no headers, no GPU.

The library comes from the wheel `nvidia-cuda-nvrtc`, through `cuda-bindings`. One source gives one cubin, bit for bit:
file names are virtual and no option depends on the machine.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import re
from dataclasses import dataclass, replace
from functools import cache
from types import ModuleType
from typing import Any, Final

from cake.core.compiler_log import CompilerLog, Usage, findings, ptx_positions, read_log
from cake.core.diagnostics import Finding
from cake.core.errors import CakeError, Exit
from cake.core.lower import ROOT, Lowered
from cake.core.plan import LaunchPlan

#: The release of CUDA whose NVRTC every cubin comes from.
RELEASE: Final = (13, 0)
_INSTALL: Final = "pip install 'cake-compiler[cuda]'"
_OPTIONS: Final = ("--std=c++17", "--generate-line-info", "--ptxas-options=-v", "--diag-suppress=177,550")


class CompileError(CakeError):
    """A source that does not compile. `findings` lead the errors back to the program; `log` is the raw text."""

    def __init__(self, message: str, found: tuple[Finding, ...], log: str) -> None:
        super().__init__(message, Exit.FINDINGS)
        self.findings = found
        self.log = log


@dataclass(frozen=True, slots=True)
class Cubin:
    """Machine code of one kernel. `sha256` is of `data`; `log` is the compiler's text without its timings; `version` is
    NVRTC's; `usage` is ptxas's report; `findings` are its remarks (serialised wgmma, spills) on the program."""

    data: bytes
    sha256: str
    log: str
    version: str
    usage: Usage
    findings: tuple[Finding, ...]


def compile_program(lowered: Lowered) -> tuple[Cubin, LaunchPlan]:
    """Compile a lowered program; the plan comes back with ptxas's register count. Raises CompileError."""
    cubin = compile_cuda(lowered.source, lowered.target, lowered.name, lines=lowered.lines)
    return cubin, replace(lowered.plan, registers=cubin.usage.registers)


def compile_cuda(source: str, target: str, name: str, *, lines: dict[str, int] | None = None) -> Cubin:
    """Compile `source`, one kernel, for `target` (such as sm_90a). `lines` maps op paths to canonical lines.

    Raises CompileError with findings when the source is at fault, CakeError when NVRTC is missing or of another
    release.
    """
    nvrtc, version = _nvrtc()
    text, file = f"{ROOT}{name}.cake", f"{ROOT}{name}.cu"
    code, raw, ptx = _run(nvrtc, source, file, (f"--gpu-architecture={target}", *_OPTIONS), "CUBIN")
    log = _stable(raw)
    read = read_log(log)
    if any(m.ptx_line for m in read.messages) and not ptx:
        virtual = target.replace("sm_", "compute_", 1)
        _, _, ptx = _run(nvrtc, source, file, (f"--gpu-architecture={virtual}", *_OPTIONS[:2], _OPTIONS[3]), "PTX")
    found = findings(read, lines or {}, text, ptx_positions(ptx))
    if code is None:
        raise CompileError(_summary(name, target, read, log), tuple(f for f in found if f.source), log)
    usage = read.usages[-1] if read.usages else Usage(name, 0, 0, 0, 0, 0)
    return Cubin(code, hashlib.sha256(code).hexdigest(), log, version, usage, found)


def nvrtc_version() -> str:
    """The version of NVRTC that compiles here, such as `13.0.88`. Raises CakeError when there is none that can."""
    return _nvrtc()[1]


@cache
def _nvrtc() -> tuple[ModuleType, str]:
    try:
        from cuda.bindings import nvrtc
    except ImportError as error:
        raise CakeError(f"cuda-bindings is missing ({error}): {_INSTALL}", Exit.ENVIRONMENT) from None
    try:
        status, major, minor = nvrtc.nvrtcVersion()
    except RuntimeError as error:  # the loader found no library
        reason = str(error).strip().splitlines()[0]
        raise CakeError(f"the NVRTC library is missing ({reason}): {_INSTALL}", Exit.ENVIRONMENT) from None
    if int(status) or (major, minor) != RELEASE:
        wanted = ".".join(map(str, RELEASE))
        raise CakeError(f"NVRTC is {major}.{minor}, Cake compiles with {wanted}: {_INSTALL}", Exit.ENVIRONMENT)
    try:
        version = importlib.metadata.version("nvidia-cuda-nvrtc")
    except importlib.metadata.PackageNotFoundError:
        version = f"{major}.{minor}"
    return nvrtc, version if version.startswith(f"{major}.{minor}") else f"{major}.{minor}"


def _run(nvrtc: Any, source: str, file: str, options: tuple[str, ...], kind: str) -> tuple[bytes | None, str, str]:
    """Compile; the result (None when the source is at fault), the log, and the PTX if there is any."""
    program = _call(nvrtc.nvrtcCreateProgram(source.encode(), file.encode(), 0, [], []))
    try:
        status = nvrtc.nvrtcCompileProgram(program, len(options), [o.encode() for o in options])[0]
        log = _text(nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog, program)
        if int(status) == int(nvrtc.nvrtcResult.NVRTC_ERROR_COMPILATION):
            return None, log, ""
        if int(status) == int(nvrtc.nvrtcResult.NVRTC_ERROR_INVALID_OPTION):
            raise CakeError(f"NVRTC does not know a target of this program: {options[0]} ({log.strip()})")
        _call((status,))
        ptx = _text(nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX, program)
        if kind == "PTX":
            return b"", log, ptx
        size = _call(nvrtc.nvrtcGetCUBINSize(program))
        data = b" " * size
        _call(nvrtc.nvrtcGetCUBIN(program, data))
        return data, log, ptx
    finally:
        nvrtc.nvrtcDestroyProgram(program)


def _text(size: Any, get: Any, program: Any) -> str:
    buffer = b" " * int(_call(size(program)))
    _call(get(program, buffer))
    return buffer.rstrip(b"\0 ").decode(errors="replace")


def _call(result: tuple[Any, ...]) -> Any:
    """The value of a binding's result; an error status here means a broken installation."""
    status, *values = result
    if int(status):
        raise CakeError(f"NVRTC failed: {status!r}: {_INSTALL}", Exit.ENVIRONMENT)
    return values[0] if values else None


def _stable(log: str) -> str:
    """The log without what changes from run to run."""
    kept = [line.rstrip() for line in log.splitlines() if "Compile time" not in line]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(kept)).strip("\n")


def _summary(name: str, target: str, read: CompilerLog, log: str) -> str:
    errors = read.errors
    first = errors[0].text if errors else (log.splitlines() or ["no message"])[0]
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    return f"{name} does not compile for {target}: {first}{more}"
