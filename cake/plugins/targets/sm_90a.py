"""Hopper (H100, H200): compute capability 9.0 with its architecture-specific instructions (wgmma, setmaxnreg)."""

from __future__ import annotations

from typing import Final

from cake.core.target import Target

_TABLE: Final = "CUDA C++ Programming Guide, Technical Specifications per Compute Capability"
_TENSOR_MAP: Final = "CUDA Driver API, cuTensorMapEncodeTiled"

SM_90A: Final = Target(
    name="sm_90a",
    nvrtc_arch="sm_90a",
    limits={
        "smem_bytes": 232448,
        "threads": 1024,
        "registers": 65536,
        "registers_launch": 255,
        "registers_granule": 8,
        "registers_pool_thread_minimum": 24,
        "registers_pool_thread_maximum": 256,
        "named_barriers": 15,
        "mbarrier_arrivals": 2**20 - 1,
        "mbarrier_bytes": 2**20 - 1,
        "box_extent": 256,
        "box_dimensions": 5,
        "box_inner_multiple": 16,
        "tensor_flops_per_clock": 4096,
    },
    sources={
        "smem_bytes": f"{_TABLE}: 227 KiB a thread block, opted in",
        "threads": f"{_TABLE}: threads a block",
        "registers": f"{_TABLE}: 32-bit registers a block",
        "registers_launch": f"{_TABLE}: registers a thread",
        "registers_granule": "PTX ISA, setmaxnreg: counts are multiples of 8; launch counts are allocated so too",
        "registers_pool_thread_minimum": "PTX ISA, setmaxnreg: 24 to 256",
        "registers_pool_thread_maximum": "PTX ISA, setmaxnreg: 24 to 256",
        "named_barriers": "PTX ISA, barrier: ids 0 to 15; 0 is left to the launch prologue",
        "mbarrier_arrivals": "PTX ISA, Contents of the mbarrier object: expected arrivals 1 to 2**20 - 1",
        "mbarrier_bytes": "PTX ISA, Contents of the mbarrier object: tx-count up to 2**20 - 1",
        "box_extent": f"{_TENSOR_MAP}: boxDim[i] from 1 to 256",
        "box_dimensions": f"{_TENSOR_MAP}: tensorRank from 1 to 5",
        "box_inner_multiple": f"{_TENSOR_MAP}: boxDim[0] times the element size is a multiple of 16 bytes",
        "tensor_flops_per_clock": "NVIDIA H100 Tensor Core GPU Architecture: 4 x 512 dense bf16 FMA a clock and SM",
    },
)
