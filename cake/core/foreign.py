"""Foreign text, parsed once at the border: compilers, the CUDA driver, compute-sanitizer, pytest.

`parse_foreign` turns lines it knows into `Foreign` diagnostics and leaves the rest alone; `mask` takes out of a text
what differs from run to run, so that two messages of one cause compare equal.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from cake.core.compiler_log import Message, read_log
from cake.core.launch import cuda_outcome


@dataclass(frozen=True, slots=True)
class Foreign:
    """One message of another tool. `code` is the tool's own name for it (`C7512`, `CUDA_ERROR_ILLEGAL_ADDRESS`), `text`
    is masked, `details` hold what was taken out of it."""

    tool: str
    severity: str
    code: str
    text: str
    file: str = ""
    line: int = 0
    details: dict[str, Any] = field(default_factory=dict)

    def diagnostic(self) -> dict[str, Any]:
        """The same as a plain object for an evidence record."""
        return {"kind": "foreign", **asdict(self)}


_MASKS: Final = (
    (re.compile(r"0x[0-9a-fA-F]+"), "0x_"),
    (re.compile(r"\b_Z\w+"), "_Z_"),
    (re.compile(r"(?:/[\w.+-]+)+/([\w.+-]+)"), r"\1"),
    (re.compile(r"\b\d+(?:\.\d+)?\b"), "#"),
)


def mask(text: str) -> str:
    """`text` with addresses, mangled names, folders and numbers replaced, and spaces squeezed."""
    for pattern, replacement in _MASKS:
        text = pattern.sub(replacement, text)
    return " ".join(text.split())


def _compiler(message: Message) -> Foreign:
    details: dict[str, Any] = {}
    if message.function:
        details["function"] = message.function
    if message.ptx_line:
        details["ptx_line"] = message.ptx_line
    severity = "performance" if "Performance Loss" in message.text else message.severity
    tool = "nvrtc" if message.file else "ptxas"
    return Foreign(tool, severity, message.code, mask(message.text), message.file, message.line, details)


def _driver(m: re.Match[str]) -> Foreign:
    return Foreign("cuda", "error", m["code"], mask(m["text"]), details={"outcome": cuda_outcome(m["code"])})


def _sanitizer(m: re.Match[str]) -> Foreign:
    details = {"bytes": int(m["bytes"])} if m["bytes"] else {}
    return Foreign("compute-sanitizer", "error", _slug(m["what"]), mask(m["text"]), details=details)


def _sanitizer_place(m: re.Match[str]) -> Foreign:
    details = {"function": m["function"], "offset": m["offset"]}
    line = int(m["line"] or 0)
    return Foreign("compute-sanitizer", "note", "at", mask(m["text"]), m["file"] or "", line, details)


def _pytest(m: re.Match[str]) -> Foreign:
    return Foreign("pytest", m["kind"].lower(), m["test"], mask(m["text"] or ""), m["file"])


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


_READERS: Final[tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], Foreign]], ...]] = (
    (
        re.compile(
            r"={3,} (?:Error: )?(?P<text>(?P<what>Invalid __\w+__ \w+|Race reported|Barrier error|Uninitialized __\w+__"
            r" \w+)(?: of size (?P<bytes>\d+) bytes)?.*)"
        ),
        _sanitizer,
    ),
    (
        re.compile(
            r"={3,}\s+(?P<text>at (?P<function>[^+]+)\+(?P<offset>0x[0-9a-f]+)(?: in (?P<file>[^:]+):(?P<line>\d+))?.*)"
        ),
        _sanitizer_place,
    ),
    (re.compile(r"(?P<text>.*?(?P<code>CUDA_ERROR_[A-Z_]+).*)"), _driver),
    (re.compile(r"(?P<kind>FAILED|ERROR) (?P<file>[^\s:]+)::(?P<test>\S+)(?: - (?P<text>.*))?"), _pytest),
)

#: Characters of one foreign line that are looked at; tools print no longer ones that matter.
_LINE: Final = 4000


def parse_foreign(text: str) -> Iterator[Foreign]:
    """The messages in `text` that a known tool prints, in order. Unknown lines are passed over."""
    for line in (whole[:_LINE].strip() for whole in text.splitlines()):
        if messages := read_log(line).messages:
            yield _compiler(messages[0])
            continue
        for pattern, read in _READERS:
            if match := pattern.match(line):
                yield read(match)
                break
