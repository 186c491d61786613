"""What the nodes of the IR check themselves with: where a node stands, the error that says so, bounds on contents."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from cake.core.errors import CakeError, Exit


@dataclass(frozen=True, slots=True)
class Span:
    """Where a node was written: `file`, 1-based `line`, 0-based `column`."""

    file: str = "<built>"
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


BUILT: Final = Span()


class IRError(CakeError, ValueError):
    """A program that cannot be built. `message` names the offending value; `span` says where it stands."""

    def __init__(self, message: str, span: Span = BUILT) -> None:
        super().__init__(f"{span}: {message}" if span.line else message, Exit.FINDINGS)
        self.message = message
        self.span = span


def require(condition: bool, message: str, span: Span = BUILT) -> None:
    """Raise IRError with `message` unless `condition` holds."""
    if not condition:
        raise IRError(message, span)


#: Bounds on what a program may declare, so that text from strangers cannot ask for unbounded work.
MAX_FRAGMENT: Final = 1 << 16  # elements
MAX_SLOTS: Final = 1 << 10  # stages of a region, slots of a barrier
MAX_OFFSET: Final = 1 << 30  # bytes of shared memory
MAX_WARPS: Final = 32  # of a CTA
MAX_I32: Final = 2**31 - 1


def within(what: str, value: int, low: int, high: int, span: Span = BUILT) -> None:
    """`value` lies between `low` and `high`, both included."""
    require(low <= value <= high, f"{what}={value}, not {low} to {high}", span)


def swizzle_span(what: str, value: int, span: Span) -> None:
    """`value` is a span in bytes over which TMA and wgmma swizzle, or 0 (PTX ISA, "Shared memory swizzling modes")."""
    require(value in (0, 32, 64, 128), f"{what}: swizzle={value}, not 0, 32, 64 or 128", span)
