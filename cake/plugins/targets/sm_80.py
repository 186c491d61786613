"""Ampere (A100): compute capability 8.0. No TMA, no mbarrier transactions, no register pools."""

from __future__ import annotations

from typing import Final

from cake.core.target import Target

_TABLE: Final = "CUDA C++ Programming Guide, Technical Specifications per Compute Capability, 8.0"

SM_80: Final = Target(
    name="sm_80",
    nvrtc_arch="sm_80",
    limits={
        "smem_bytes": 166912,
        "threads": 1024,
        "registers": 65536,
        "registers_launch": 255,
        "registers_granule": 8,
        "named_barriers": 15,
        "mbarrier_arrivals": 2**20 - 1,
        "tensor_flops_per_clock": 2048,
    },
    sources={
        "smem_bytes": f"{_TABLE}: 163 KiB a thread block, opted in",
        "threads": f"{_TABLE}: threads a block",
        "registers": f"{_TABLE}: 32-bit registers a block",
        "registers_launch": f"{_TABLE}: registers a thread",
        "registers_granule": "CUDA Occupancy Calculator: a warp's registers are allocated by 256, 8 a thread",
        "named_barriers": "PTX ISA, barrier: ids 0 to 15; 0 is left to the launch prologue",
        "mbarrier_arrivals": "PTX ISA, Contents of the mbarrier object: expected arrivals 1 to 2**20 - 1",
        "tensor_flops_per_clock": "NVIDIA A100 Tensor Core GPU Architecture: 4 x 256 dense bf16 FMA a clock and SM",
    },
)
