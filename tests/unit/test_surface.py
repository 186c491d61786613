"""The words of the language: what `from cake import *` brings, and what importing costs."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

import cake
from cake.core.errors import CakeError
from cake.core.ir import DTYPES, IRError
from cake.core.printer import print_program
from cake.core.registry import primitives
from cake.core.schedule import Kernel, load_kernel
from cake.core.surface import stub, words

ROOT = Path(__file__).parents[2]
GEMM = ROOT / "corpus" / "kernels" / "gemm_bf16" / "schedule.py"


def test_the_stub_is_up_to_date(golden):
    """cake/__init__.pyi lists every word; --update-golden regenerates it."""
    golden(ROOT / "cake" / "__init__.pyi", stub())


def test_import_loads_nothing():
    """`import cake` alone loads neither the core nor numpy."""
    code = "import sys, json, cake; print(json.dumps([m for m in sys.modules if m.startswith(('cake', 'numpy'))]))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)

    assert json.loads(done.stdout) == ["cake"]


def test_words():
    """Every primitive, type and form is a word; Python's own functions are not shadowed."""
    found = set(words())

    assert (
        set(primitives()) | set(DTYPES) - {"bool"} | {"schedule", "smem", "tiles", "lane_id", "Tensor", "inf"} <= found
    )
    assert found.isdisjoint({"bool", "min", "max", "sum", "range"})
    assert set(cake.__all__) == found
    assert set(dir(cake)) == found


def test_words_are_not_run():
    """Outside a schedule a word that looks like a function says that it is read, not run."""
    with pytest.raises(CakeError) as caught:
        cake.tma_load("a", "b")

    assert caught.value.message == (
        "tma_load(...) is read from the source of a schedule, not run; write it in a function decorated with @schedule"
    )
    with pytest.raises(AttributeError, match="cake has no word 'tma_lode'"):
        _ = cake.tma_lode


def test_a_schedule_file_may_be_imported():
    """Running a schedule.py gives the kernel that reading it gives, lines included."""
    spec = importlib.util.spec_from_file_location("gemm_schedule", GEMM)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    ran, loaded = module.gemm_bf16, load_kernel(GEMM)

    assert isinstance(ran, Kernel)
    assert ran.defaults == loaded.defaults
    assert print_program(ran.configure(BN=128)) == print_program(loaded.configure(BN=128))
    assert [b.span for b in ran.configure().roles] == [b.span for b in loaded.configure().roles]


def test_load_kernel_does_not_run_the_file(tmp_path):
    """A file is read as text: what it would do when run does not happen."""
    path = tmp_path / "schedule.py"
    path.write_text(f"raise SystemExit('ran')\n{GEMM.read_text()}")

    assert load_kernel(path).name == "gemm_bf16"


def test_load_kernel_refuses_what_is_not_text(tmp_path):
    """Bytes that are no UTF-8 are an error that names the file."""
    path = tmp_path / "schedule.py"
    path.write_bytes(b"\xff\xfe")

    with pytest.raises(IRError, match="is not UTF-8 text: invalid start byte at byte 0"):
        load_kernel(path)
