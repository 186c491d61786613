"""How wgmma spreads accumulators over a warpgroup's registers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class WgmmaLayout:
    """Accumulators of m64nN over a warpgroup's 128 threads (PTX ISA, "Register Fragments for wgmma.mma_async.m64n8k*",
    matrix D): warp w holds rows 16 w to 16 w + 15; shapes are (64, N), N a multiple of 8."""

    name: str = "wgmma"
    threads: int = 128

    def registers(self, shape: tuple[int, ...]) -> int:
        """Elements a thread: N / 2."""
        if len(shape) != 2 or shape[0] != 64 or shape[1] % 8:
            raise ValueError(f"layout {self.name!r} holds (64, N), N a multiple of 8, not {shape}")
        return shape[0] * shape[1] // self.threads

    def coords(self, shape: tuple[int, ...]) -> npt.NDArray[np.int64]:
        """(row, column) of register r of thread t."""
        t, r = np.arange(self.threads)[:, None], np.arange(self.registers(shape))[None]
        row = 16 * (t // 32) + (t % 32) // 4 + 8 * (r // 2 % 2)
        column = 8 * (r // 4) + 2 * (t % 4) + r % 2
        return np.stack(np.broadcast_arrays(row, column), axis=-1).astype(np.int64)


LAYOUT = WgmmaLayout()
