"""Fragment layouts: which thread of a role instance holds which elements, in which register."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt


@runtime_checkable
class Layout(Protocol):
    """A named layout. `threads` take part; thread `t` holds `registers(shape)` elements. Both methods raise ValueError
    for a shape that the layout cannot hold."""

    name: str
    threads: int

    def registers(self, shape: tuple[int, ...]) -> int:
        """Elements a thread holds."""

    def coords(self, shape: tuple[int, ...]) -> npt.NDArray[np.int64]:
        """Array of shape (threads, registers, len(shape)): the logical coordinates of each element."""


@dataclass(frozen=True, slots=True)
class ThreadLayout:
    """Each thread holds the whole shape privately, row-major."""

    name: str = "thread"
    threads: int = 1

    def registers(self, shape: tuple[int, ...]) -> int:
        """The number of elements."""
        return prod(shape)

    def coords(self, shape: tuple[int, ...]) -> npt.NDArray[np.int64]:
        """Row-major coordinates, for the one thread."""
        return np.indices(shape).reshape(1, len(shape), -1).transpose(0, 2, 1).astype(np.int64)
