"""`cake explain`: every plugin can be printed, from its own file."""

from __future__ import annotations

import pytest

from cake.core import registry
from cake.core.calibration import Calibration
from cake.core.errors import CakeError
from cake.core.explain import explain
from cake.core.registry import Plugin, Registry


@pytest.mark.parametrize("key", [p.key for p in registry.default().plugins() if p.owner == "cake"])
def test_every_plugin_explains_itself(key: str) -> None:
    """The text starts with the name and ends with the file, given from its package on."""
    text = explain(key)
    assert text.startswith(key.partition(":")[2])
    last = text.splitlines()[-1]
    assert last.startswith("from cake: cake/")
    assert "(the program is not part" not in text
    assert max(map(len, text.splitlines())) < 250


def test_a_rule_is_explained_in_full() -> None:
    """Words, clauses, both programs and evidence are there, by code or by name, in any case."""
    text = explain("SYN002")
    assert text == explain("barrier-count-unreachable") == explain("rule:SYN002") == explain("syn002")
    for part in (
        "What helps",
        "It fires when",
        "Flagged: bad.cake",
        "Clean: good.cake",
        "Evidence",
        "barrier_sync(meet)",
    ):
        assert part in text


def test_a_primitive_shows_its_events() -> None:
    """Operands with their types, events as written, the PTX family."""
    text = explain("mbarrier_wait")
    assert "phase: Value" in text
    assert "return (Wait(self.barrier, self.phase),)" in text
    assert "PTX mbarrier.try_wait.parity" in text


def test_a_calibration_says_how_good_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Coefficients, held-out error and provenance."""
    fresh = Registry(packs=False)
    value = Calibration("x100", "X100", "sm_90a", ("dram_bytes",), (2.5e-13,), "logs", 9, 0.081, 4, 0.2, 0.9, "A run.")
    fresh.add(Plugin("calibration", "x100", "cake", fresh.find("sm_90a").file, value))
    monkeypatch.setattr(registry, "default", lambda: fresh)
    text = explain("x100")
    assert "dram_bytes  2.5e-13 s" in text
    assert "median relative error 8.1% on 4 held-out launches; 90% interval +-20.0%" in text


def test_an_unknown_name_is_refused() -> None:
    """Nothing close: the error says only that there is none."""
    with pytest.raises(CakeError, match=r"no plugin is called .qqqq.$"):
        explain("qqqq")
