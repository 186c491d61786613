"""Data-centre Blackwell (B200): compute capability 10.0 with its architecture-specific instructions (tcgen05)."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from cake.core.target import Target
from cake.plugins.targets import sm_90a

#: What Hopper limits, Blackwell limits alike, as the same documents say.
SM_100A: Final[Target] = replace(
    sm_90a.SM_90A,
    name="sm_100a",
    nvrtc_arch="sm_100a",
    limits={**sm_90a.SM_90A.limits, "tensor_memory_columns": 512, "tensor_flops_per_clock": 8192},
    sources={
        **sm_90a.SM_90A.sources,
        "tensor_memory_columns": "PTX ISA, Tensor Memory: 512 columns of 128 lanes a CTA",
        "tensor_flops_per_clock": "NVIDIA Blackwell Architecture: twice Hopper's dense bf16 FMA a clock and SM",
    },
)
