"""Kernels as authors keep them: a schedule's source, read on demand, and the decorator that takes it."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cake.core.ir import IRError, Program
from cake.core.reader import ConfigValue, defaults, find_schedule, read_schedule
from cake.core.reader_source import Source


@dataclass(frozen=True, slots=True)
class Kernel:
    """A schedule: its name, source text, the file and 1-based line where the text starts, and the configuration
    parameters with their defaults (None: a value must be given)."""

    name: str
    source: str
    file: str
    first_line: int = 1
    defaults: Mapping[str, ConfigValue | None] = field(default_factory=dict)

    def configure(self, **config: ConfigValue) -> Program:
        """The program of one configuration. Raises `IRError`."""
        return read_schedule(self.source, config, self.file, self.first_line)


def kernel_of(source: str, file: str, first_line: int = 1) -> Kernel:
    """The kernel in a text that holds one function decorated with `@schedule`. Raises `IRError`."""
    text = Source(source, file, first_line)
    function = find_schedule(text)
    return Kernel(function.name, source, file, first_line, defaults(text, function))


def schedule(*, target: str) -> Callable[[Callable[..., Any]], Kernel]:
    """Decorate a function whose source is a schedule. The function is read and never called.

    `target` is read from the source as well; it stands here for editors.
    """

    def wrap(function: Callable[..., Any]) -> Kernel:
        lines, first_line = inspect.getsourcelines(function)
        file = inspect.getsourcefile(function) or "<unknown>"
        return kernel_of(textwrap.dedent("".join(lines)), file, first_line)

    return wrap


def load_kernel(path: str | Path) -> Kernel:
    """Read the schedule in a Python file, without running the file. Raises `IRError`, or `OSError` for the file."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise IRError(f"{path} is not UTF-8 text: {error.reason} at byte {error.start}") from None
    return kernel_of(text, str(path))
