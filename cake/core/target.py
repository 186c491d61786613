"""A compilation target: the limits that the machine model needs, supplied by a plugin."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Target:
    """Per-CTA limits of one target. `limits` maps a documented name to a number: `smem_bytes`, `threads`,
    `registers` (a CTA), `registers_granule`, `named_barriers`, `box_extent`, ... Each has its source in `sources`."""

    name: str
    nvrtc_arch: str
    limits: dict[str, int]
    sources: dict[str, str]

    def registers_at_launch(self, threads: int, ctas_per_sm: int) -> int:
        """Registers a thread at launch: an even share of the SM's, in whole granules, at most a thread's limit."""
        granule = self.limits["registers_granule"]
        share = self.limits["registers"] // (threads * ctas_per_sm) // granule * granule
        return min(share, self.limits["registers_launch"])
