"""The compile gate: every configuration of every corpus kernel becomes a cubin, without a loss that ptxas reports."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cake.core.compile import compile_program, nvrtc_version
from cake.core.corpus import CorpusKernel, load_corpus
from cake.core.lower import lower

CONFIGS = [(k, c) for k in load_corpus() for c in k.configs]


@pytest.mark.parametrize("watchdog", [False, True], ids=["plain", "watchdog"])
@pytest.mark.parametrize(("kernel", "config"), CONFIGS, ids=[f"{k.name}-{c}" for k, c in CONFIGS])
def test_compiles_without_serialised_wgmma_or_spills(kernel: CorpusKernel, config: str, watchdog: bool) -> None:
    """No C75xx remark, no spill, no stack, and no more registers than the launch can give."""
    program = kernel.program(config)
    cubin, plan = compile_program(lower(program, watchdog=watchdog))

    assert cubin.findings == ()
    assert (cubin.usage.spill_store_bytes, cubin.usage.spill_load_bytes, cubin.usage.stack_bytes) == (0, 0, 0)
    assert 0 < plan.registers <= 65536 // program.threads // program.launch.ctas_per_sm
    assert cubin.version == nvrtc_version()


def test_a_cubin_does_not_depend_on_the_process(tmp_path: Path) -> None:
    """Another process in another folder makes the same bits: no path and no time reaches a cubin."""
    kernel, config = CONFIGS[0]
    cubin, _ = compile_program(lower(kernel.program(config)))
    script = (
        "from cake.core.corpus import load_corpus; from cake.core.compile import compile_program; "
        "from cake.core.lower import lower; k = load_corpus()[0]; "
        f"print(compile_program(lower(k.program({config!r})))[0].sha256)"
    )
    env = {**os.environ, "PYTHONHASHSEED": "3"}
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, env=env, capture_output=True, text=True, check=True
    )

    assert done.stdout.strip() == cubin.sha256
    assert str(Path.cwd()).encode() not in cubin.data
