"""Programs under test: the corpus kernels as canonical text, a small ring, and one-place edits of them."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from cake.core.explore import Analysis, analyse
from cake.core.printer import print_program
from cake.core.reader import read_program
from cake.core.registry import targets
from cake.core.schedule import load_kernel

KERNELS = Path(__file__).parents[3] / "corpus" / "kernels"

#: A producer fills three stages, a warp reads them. `it` counts uses and is never reset.
RING = """\
@schedule(target="sm_90a")
def ring(A: Tensor[bf16, "M", "K"]):
    launch(ctas=sm_count)
    a = smem(bf16, (64, 64), at=0, stages=3, swizzle=128)
    A_map = tensor_map(A, box=(64, 64), swizzle=128)
    load = role(warps=1)
    use = role(warps=1)
    full = mbarrier(arrivals=1, at=24576, slots=3)
    empty = mbarrier(arrivals=32, at=24600, slots=3)

    with load:
        it = 0
        with one_lane():
            for t in range(cta_id, M, cta_count):
                for i in range((K + 63) // 64):
                    mbarrier_wait(empty[it % 3], it // 3 % 2 ^ 1)
                    mbarrier_expect(full[it % 3], 8192)
                    tma_load(a[it % 3], A_map, at=(0, i * 64), done=full[it % 3])
                    it = it + 1

    with use:
        it = 0
        for t in range(cta_id, M, cta_count):
            for i in range((K + 63) // 64):
                mbarrier_wait(full[it % 3], it // 3 % 2)
                x = ld_shared(a[it % 3].tile((lane_id, 0), (1, 1)))
                mbarrier_arrive(empty[it % 3])
                it = it + 1
"""


@cache
def gemm() -> str:
    """A small configuration of the GEMM: three stages, two consumers, two stores a tile."""
    kernel = load_kernel(KERNELS / "gemm_bf16" / "schedule.py")
    return print_program(kernel.configure(BN=128, STAGES=3, CONSUMERS=2))


@cache
def rmsnorm() -> str:
    """The RMS norm's default configuration."""
    return print_program(load_kernel(KERNELS / "rmsnorm_bf16" / "schedule.py").configure())


def edited(text: str, *edits: tuple[str, str]) -> str:
    """`text` with the first occurrence of each (old, new) replaced."""
    for old, new in edits:
        assert old in text, f"{old!r} is not in the program"
        text = text.replace(old, new, 1)
    return text


def explored(text: str) -> Analysis:
    """The exploration of a program on sm_90a."""
    return analyse(read_program(text), targets()["sm_90a"])


def refuted(analysis: Analysis, relation: str) -> set[tuple[object, ...]]:
    """The candidates of a universal relation that some execution refuted."""
    facts = analysis.facts
    candidates: dict[str, set[tuple[object, ...]]] = {
        "ordered": {row[:2] for row in facts["conflict"]},
        "visible": {row[:2] for row in facts["conflict_kind"] if row[2] == "raw"},
        "same_slot": set(facts["guards"]),
        "paced": {row[:2] for r in ("arrives", "expects", "completes", "syncs") for row in facts[r]},
        "lasting": set(facts["waits"]),
    }
    return candidates[relation] - facts[relation]


def at(text: str, statement: str, nth: int = 0) -> str:
    """The path of the nth statement whose canonical line contains `statement`."""
    from cake.core.printer import program_lines

    lines = text.splitlines()
    paths = {line: path for path, line in program_lines(read_program(text)).items()}
    found = [paths[i] for i, line in enumerate(lines, 1) if statement in line and i in paths]
    return found[nth]
