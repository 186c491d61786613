"""The corpus kernels: their generated text is up to date, and their configurations fit the machine."""

from __future__ import annotations

import ast
import itertools
import tomllib
from pathlib import Path

import pytest

from cake.core.ir import OneLane, Program, Smem, walk
from cake.core.printer import print_program
from cake.core.reader import read_program
from cake.core.schedule import load_kernel

KERNELS = Path(__file__).parents[2] / "corpus" / "kernels"
CASES = [
    (folder.parent.name, name, values)
    for folder in sorted(KERNELS.glob("*/configs.toml"))
    for name, values in tomllib.loads(folder.read_text()).items()
]
IDS = [f"{kernel}-{config}" for kernel, config, _ in CASES]


def program(kernel: str, values: dict[str, int]) -> Program:
    """One configuration of a corpus kernel."""
    return load_kernel(KERNELS / kernel / "schedule.py").configure(**values)


@pytest.mark.parametrize(("kernel", "config", "values"), CASES, ids=IDS)
def test_canonical_text_is_up_to_date(kernel, config, values, golden):
    """Each configuration's .cake file is what its schedule prints; --update-golden regenerates it."""
    golden(KERNELS / kernel / f"{config}.cake", print_program(program(kernel, values)))


@pytest.mark.parametrize(("kernel", "config", "values"), CASES, ids=IDS)
def test_canonical_text_reads_as_the_program(kernel, config, values):
    """The committed text alone gives the program that the schedule gives."""
    text = (KERNELS / kernel / f"{config}.cake").read_text()

    assert read_program(text, config) == program(kernel, values)


def test_no_text_without_a_configuration():
    """No .cake file lies in a kernel's folder that configs.toml does not name."""
    expected = {KERNELS / kernel / f"{config}.cake" for kernel, config, _ in CASES}

    assert set(KERNELS.glob("*/*.cake")) == expected


@pytest.mark.parametrize("kernel", ["gemm_bf16", "rmsnorm_bf16"])
def test_four_configurations_that_differ(kernel):
    """Each kernel has four configurations, and each is another program."""
    texts = {print_program(program(k, values)) for k, _, values in CASES if k == kernel}

    assert len(texts) == 4


@pytest.mark.parametrize(("kernel", "config", "values"), CASES, ids=IDS)
def test_fits_shared_memory(kernel, config, values):
    """Regions and barriers of every configuration end within the 227 KiB that a CTA may have, and do not overlap."""
    p = program(kernel, values)
    regions = sorted((s.at, s.end) for s in p.of(Smem))

    assert p.smem_bytes <= 232448
    assert all(end <= at for (_, end), (at, _) in itertools.pairwise(regions))


@pytest.mark.parametrize(("kernel", "config", "values"), [c for c in CASES if c[0] == "gemm_bf16"])
def test_register_budget(kernel, config, values):
    """setmaxnreg asks for no more registers than the launch gives the CTA."""
    p = program(kernel, values)
    asked = sum(
        located.stmt.op.count * located.role.threads * located.role.instances
        for located in walk(p)
        if getattr(getattr(located.stmt, "op", None), "opname", "") == "setmaxnreg"
    )

    assert asked <= 65536 // p.threads // 8 * 8 * p.threads


def test_every_row_of_8192_fits():
    """Every configuration of rmsnorm_bf16 holds a row of 8192 elements."""
    for kernel, _, v in CASES:
        if kernel == "rmsnorm_bf16":
            assert 32 * v["WARPS"] * v["VEC"] * v["CHUNKS"] >= 8192


@pytest.mark.parametrize("kernel", ["gemm_bf16", "rmsnorm_bf16"])
def test_spans_name_the_source_line(kernel):
    """Each statement's span points at the source line that wrote it."""
    path = KERNELS / kernel / "schedule.py"
    lines = path.read_text().splitlines()
    tree = ast.parse(path.read_text())
    starts = {node.lineno for node in ast.walk(tree) if isinstance(node, ast.stmt)}
    for located in walk(load_kernel(path).configure()):
        span = located.stmt.span

        assert span.file == str(path)
        assert span.line in starts or "shfl" in lines[span.line - 1]
        if isinstance(located.stmt, OneLane):
            assert "one_lane" in lines[span.line - 1] or "release" in lines[span.line - 1]
