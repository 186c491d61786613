"""The simulator against real devices: it must allow every outcome that a litmus test has shown on a GPU."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

from cake.core.ir import Tensor, TensorMap
from cake.core.reader import read_program

HERE = Path(__file__).parent


def _litmus() -> ModuleType:
    spec = importlib.util.spec_from_file_location("litmus", HERE / "litmus.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


litmus = _litmus()
RESULTS = {p.stem: json.loads(p.read_text()) for p in sorted((HERE / "results").glob("*.json"))}
SEEN = [(device, name) for device, results in RESULTS.items() for name in results]

#: What the simulator allows where synchronisation leaves one outcome; a `?` stands for bytes that are some input moved.
ONE = {
    "arrive_publishes": "A",
    "expect_then_load": "A",
    "load_then_expect": "A",
    "expect_too_much": "hang",
    "fresh_parity_one": "A",
    "fresh_parity_zero": "hang",
    "over_arrival": "hang",
    "named_barrier_counts": "A",
    "named_barrier_over": "hang",
    "named_barrier_short": "hang",
    "proxy_fence": "B",
    "setmaxnreg_exchange": "A",
    "setmaxnreg_over": "hang",
    "stmatrix_swizzle": "?",
    "store_depth": "A, A",
    "store_outside": "A",
    "store_wait_read": "A",
    "swizzle_128": "?",
    "swizzle_64": "?",
    "swizzle_32": "?",
    "wgmma_layout": "?",
    "zero_fill": "?",
}
#: Where it does not: outcomes that the simulator must find among others.
SEVERAL = {
    "proxy_fence_missing": {"A", "B"},
    "store_no_wait": {"A", "A|B"},
    "unordered_read": {"A", "B"},
    "wgmma_no_wait": set(),
}


def test_each_claim_is_made_twice() -> None:
    """Every hand-written kernel has a Cake program of its name, and the other way round; there are at least ten."""
    programs = sorted(p.stem for p in (HERE / "cake").glob("*.cake"))
    assert litmus.names() == programs
    assert len(programs) >= 10
    assert all(len(litmus.claim(name)) > 20 for name in programs)


def test_kernel_and_program_take_the_same_parameters() -> None:
    """Tensor maps, then tensors, by the same names in the same order: what one is given the other can be given."""
    for name in litmus.names():
        program = read_program((HERE / "cake" / f"{name}.cake").read_text())
        declared = [m.name for m in program.of(TensorMap)] + [t.name for t in program.of(Tensor)]
        assert litmus.parameters(name) == declared, name


@pytest.mark.parametrize("name", sorted(ONE))
def test_synchronised_programs_have_one_outcome(name: str) -> None:
    """Under every order that is tried, the simulator gives the one outcome that the machine documents."""
    (found,) = litmus.allowed(name, seeds=8)
    assert found == ONE[name] or (ONE[name] == "?" and len(found) == 12)


@pytest.mark.parametrize("name", sorted(SEVERAL))
def test_races_have_several(name: str) -> None:
    """Where something is missing, some order shows it."""
    found = litmus.allowed(name, seeds=16)
    assert len(found) > 1
    assert found >= SEVERAL[name]


@pytest.mark.parametrize(("device", "name"), SEEN)
def test_the_simulator_allows_what_the_gpu_shows(device: str, name: str) -> None:
    """No stored outcome of a real device is outside of what the simulator shows over its orders."""
    seen = set(RESULTS[device][name]["observed"])
    assert seen
    for seeds in (8, 64, 256):
        missing = seen - litmus.allowed(name, seeds)
        if not missing:
            return
    pytest.fail(f"{device} shows {sorted(missing)}, which the simulator does not: {litmus.claim(name)}")


@pytest.mark.parametrize("device", sorted(RESULTS))
def test_stored_results_are_complete(device: str) -> None:
    """A device's results cover every test, name the device, and hangs were confirmed alone."""
    results = RESULTS[device]
    assert sorted(results) == litmus.names()
    assert any("device" in r for r in results.values())
    assert all(r.get("alone") for r in results.values() if "hang" in r["observed"])
