"""What NVRTC, nvcc and ptxas say, as messages and as findings on the IR.

Front-end diagnostics cite a file and line, which `#line` made a line of the program's canonical text. ptxas cites
lines of PTX, which `.loc` leads back. A message about a whole function (serialised wgmma, spills) names no statement.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from cake.core.diagnostics import Category, Finding


@dataclass(frozen=True, slots=True)
class Message:
    """One diagnostic. `code` is the compiler's own (`C7512`, `177-D`) or ours (`spill`); `file` and `line` are the
    source position, or `ptx_line` the PTX line where only that is known; 0 and empty when absent."""

    severity: str  # error, warning, info
    code: str
    text: str
    file: str = ""
    line: int = 0
    ptx_line: int = 0
    function: str = ""


@dataclass(frozen=True, slots=True)
class Usage:
    """ptxas's resource report for one kernel; bytes are per thread."""

    function: str
    registers: int
    barriers: int
    stack_bytes: int
    spill_store_bytes: int
    spill_load_bytes: int


@dataclass(frozen=True, slots=True)
class CompilerLog:
    """A compiler's output, read."""

    messages: tuple[Message, ...]
    usages: tuple[Usage, ...]

    @property
    def errors(self) -> tuple[Message, ...]:
        """The messages that stopped it."""
        return tuple(m for m in self.messages if m.severity == "error")


_FRONT = re.compile(
    r"^(?P<file>[^\s(][^(\n]*)\((?P<line>\d+)\): "
    r"(?P<sev>error|warning|catastrophic error)(?: #(?P<code>[\w-]+))?: (?P<text>.*)$"
)
_PTX_INPUT = re.compile(r"^ptxas (?P<file>.*?), line (?P<line>\d+); (?P<sev>\w+)\s*: (?P<text>.*)$")
_PTXAS = re.compile(r"^ptxas (?P<sev>info|warning|error|fatal)\s*: (?:\((?P<code>C\d+)\) )?(?P<text>.*)$")
_AROUND = re.compile(r"around line (\d+)")
_FUNCTION = re.compile(r"function '([^']+)'")
_COMPILING = re.compile(r"Compiling entry function '([^']+)'")
_SPILL = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"Used (\d+) registers(?:, used (\d+) barriers)?")
_STACK = re.compile(r"(\d+) bytes cumulative stack size")
_NOISE = ("Compiling entry function", "Function properties", "Used ", "Compile time", "bytes gmem", "Overriding")


def read_log(text: str) -> CompilerLog:
    """Read a compiler's output. Lines that are no diagnostic (source excerpts, carets, totals) are passed over."""
    messages: list[Message] = []
    usages: list[Usage] = []
    function, frame = "", (0, 0, 0)
    for line in text.splitlines():
        if (found := _COMPILING.search(line)) is not None:
            function, frame = found[1], (0, 0, 0)
        elif (found := _SPILL.search(line)) is not None:
            frame = (int(found[1]), int(found[2]), int(found[3]))
        elif (found := _USED.search(line)) is not None:
            stack = _STACK.search(line)
            used = (int(found[1]), int(found[2] or 0), int(stack[1]) if stack else frame[0])
            usages.append(Usage(function, *used, frame[1], frame[2]))
        elif (message := _message(line)) is not None:
            messages.append(message)
    return CompilerLog(tuple(messages), tuple(usages))


def _message(line: str) -> Message | None:
    if (found := _FRONT.match(line)) is not None:
        severity = "warning" if found["sev"] == "warning" else "error"
        return Message(severity, found["code"] or "", found["text"], found["file"], int(found["line"]))
    if (found := _PTX_INPUT.match(line)) is not None:
        severity = "error" if found["sev"] in ("error", "fatal") else "warning"
        return Message(severity, "", found["text"], ptx_line=int(found["line"]))
    if (found := _PTXAS.match(line)) is None or any(noise in found["text"] for noise in _NOISE):
        return None
    severity = {"fatal": "error"}.get(found["sev"], found["sev"])
    around, function = _AROUND.search(found["text"]), _FUNCTION.search(found["text"])
    return Message(
        severity,
        found["code"] or "",
        found["text"],
        ptx_line=int(around[1]) if around else 0,
        function=function[1] if function else "",
    )


# -------------------------------------------------------------------------------------------------------- PTX to source

_FILE = re.compile(r'^\s*\.file\s+(\d+)\s+"([^"]*)"', re.MULTILINE)
_LOC = re.compile(r"^\s*\.loc\s+(\d+)\s+(\d+)\s+\d+(?:.*inlined_at\s+(\d+)\s+(\d+)\s+\d+)?")


def ptx_positions(ptx: str) -> list[tuple[str, int]]:
    """For every line of PTX (index 0 is line 1) the source file and line that it came from. An inlined helper counts as
    the place that called it. ("", 0) before the first `.loc`."""
    files = {int(number): name for number, name in _FILE.findall(ptx)}
    positions: list[tuple[str, int]] = []
    here = ("", 0)
    inlined: dict[tuple[str, int], tuple[str, int]] = {}
    for line in ptx.splitlines():
        if (found := _LOC.match(line)) is not None:
            here = (files.get(int(found[1]), ""), int(found[2]))
            if found[3]:
                caller = (files.get(int(found[3]), ""), int(found[4]))
                inlined[here] = caller
                here = inlined.get(caller, caller) if caller != here else caller
        positions.append(here)
    return positions


# ------------------------------------------------------------------------------------------------------------- findings

#: Why ptxas says what it says, and what an author can do about it; by code. Causes as met on H200 kernels.
_ADVICE: Final = {
    "C7508": "Give the launch a register cap: a thread count and ctas_per_sm fix the registers at entry.",
    "C7510": "Keep calls out of the function: every helper must be inlined.",
    "C7512": "Registers do not suffice, so each wgmma waits for the one before. Keep loops rolled, tiles smaller.",
    "C7514": "Accumulators are read while a wgmma of the same stage is in flight: wait for the group first.",
    "C7515": "Accumulators are written otherwise while a wgmma is in flight: clear them by accumulate=False.",
    "C7517": "Wait for the group before the accumulators are used, so that the compiler need not.",
    "C7518": "A wgmma stands where the compiler sees lanes diverge: keep its conditions uniform over the warpgroup.",
    "C7519": "Put wgmma_fence before the first wgmma that uses registers changed since.",
    "spill": "The kernel needs more registers than it may have: shrink fragments or ask for more with setmaxnreg.",
}
_NAMES: Final = {
    "C7508": "setmaxnreg-ignored",
    "C7510": "wgmma-serialised-call",
    "C7512": "wgmma-serialised-registers",
    "C7514": "wgmma-serialised-reading",
    "C7515": "wgmma-serialised-defining",
    "C7517": "wgmma-wait-injected",
    "C7518": "wgmma-serialised-divergence",
    "C7519": "wgmma-arrive-injected",
    "spill": "registers-spilled",
}


def findings(
    log: CompilerLog, lines: Mapping[str, int], text_file: str, positions: list[tuple[str, int]]
) -> tuple[Finding, ...]:
    """The messages that matter, as findings on the program whose canonical lines are `lines` (op path to line).

    `text_file` is the name that `#line` gave the canonical text, `positions` what `ptx_positions` found. Errors are
    faults of hardware conformance; losses are performance; an instruction that ptxas injected is guidance. Notes
    without a code and front-end warnings are left out.
    """
    found: list[Finding] = []
    for message in log.messages:
        if message.severity != "error" and not message.code.startswith("C"):
            continue
        found.append(_finding(_located(message, positions), lines, text_file))
    for usage in log.usages:
        if usage.spill_store_bytes or usage.spill_load_bytes:
            text = (
                f"{usage.function}: {usage.spill_store_bytes} bytes of spill stores and {usage.spill_load_bytes} bytes "
                f"of spill loads a thread at {usage.registers} registers"
            )
            found.append(_finding(Message("info", "spill", text, function=usage.function), lines, text_file))
    return tuple(dict.fromkeys(found))


def _located(message: Message, positions: list[tuple[str, int]]) -> Message:
    if 0 < message.ptx_line <= len(positions):
        file, line = positions[message.ptx_line - 1]
        return replace(message, file=file, line=line)
    return message


def _finding(message: Message, lines: Mapping[str, int], text_file: str) -> Finding:
    line = message.line if message.file == text_file else 0
    paths = innermost(line, lines)
    if message.severity == "error":
        category = Category.HARDWARE_CONFORMANCE
    elif "injected" in message.text:
        category = Category.OPTIMISATION_GUIDANCE
    else:
        category = Category.PERFORMANCE_ANALYSIS
    where = "" if line or not message.file else f"{message.file}({message.line}): "
    return Finding(
        code=message.code or "NVCC",
        name=_NAMES.get(message.code, "compile-error" if message.severity == "error" else "compiler-note"),
        category=category,
        message=where + message.text,
        paths=paths,
        role=paths[0].partition(":")[0] if paths else "",
        line=line,
        help=_ADVICE.get(message.code, ""),
        source="compiler",
        blocking=message.severity == "error",
    )


def innermost(line: int, lines: Mapping[str, int]) -> tuple[str, ...]:
    """The op path that canonical line `line` belongs to: the last statement that starts at or before it."""
    before = [(start, path) for path, start in lines.items() if 0 < start <= line]
    return (max(before)[1],) if before and line else ()
