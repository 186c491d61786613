"""The registry: one plugin a thing, and one bad plugin never takes another down."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from cake.core import registry
from cake.core.diagnostics import STATIC_CATEGORIES, Category
from cake.core.errors import CakeError
from cake.core.registry import Plugin, Registry
from cake.core.target import Target
from cake.plugins.primitives.tma import TmaLoad

HERE = Path(__file__)


@pytest.fixture
def fresh() -> Registry:
    """A registry of the built-in plugins alone."""
    return Registry(packs=False)


@pytest.fixture
def builtin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package that stands in for the built-in plugins; returns its folder."""
    root = tmp_path / "stand_in"
    for folder in ("primitives", "targets", "calibrations", "rules/syn"):
        (root / folder).mkdir(parents=True)
    for folder in (".", "primitives", "targets"):
        (root / folder / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(registry, "BUILTIN", "stand_in")
    yield root
    for name in [n for n in sys.modules if n.partition(".")[0] == "stand_in"]:
        del sys.modules[name]


TARGET = "from cake.core.target import Target\n{name} = Target('{value}', '{value}', {{}}, {{}})\n"


def test_everything_is_a_plugin_under_its_own_name(fresh: Registry) -> None:
    """pluggy knows each thing as kind:name; tables are sorted by name; nothing failed."""
    keys = [p.key for p in fresh.plugins()]
    assert keys == sorted(keys)
    assert {"primitive:tma_load", "layout:wgmma", "layout:thread", "target:sm_90a"} <= set(keys)
    assert {name for name, _ in fresh.manager.list_name_plugin()} == set(keys)
    assert fresh.table("primitive")["tma_load"] is TmaLoad
    assert fresh.problems() == ()


def test_the_hook_of_a_plugin_gives_its_thing(fresh: Registry) -> None:
    """pluggy's own collection gives what the tables hold."""
    fresh.plugins()
    targets = fresh.manager.hook.cake_target()
    assert {t.name: t for t in targets} == fresh.table("target")


def test_a_plugin_is_blocked_and_replaced_by_name(fresh: Registry) -> None:
    """Blocking takes one thing out, from the start or later; replacing swaps one for another."""
    mine = Target("sm_90a", "sm_90a", {"threads": 1}, {})
    fresh.replace("target:sm_90a", mine, "me", HERE)
    assert fresh.table("target")["sm_90a"] is mine
    assert fresh.find("target:sm_90a").owner == "me"
    fresh.block("target:sm_90a")
    assert "sm_90a" not in fresh.table("target")
    assert "sm_90a" not in Registry(blocked=["target:sm_90a"], packs=False).table("target")
    with pytest.raises(CakeError, match="no plugin is called"):
        fresh.replace("target:sm_90a", mine, "me", HERE)


def test_a_clash_names_both_owners(fresh: Registry) -> None:
    """Two plugins of one name: the first stays, and the problem names both."""
    before = fresh.table("target")["sm_90a"]
    assert not fresh.add(Plugin("target", "sm_90a", "rival", HERE, Target("sm_90a", "x", {}, {})))
    (problem,) = fresh.problems()
    assert str(problem) == (
        "rival: target:sm_90a: target:sm_90a is defined by cake (sm_90a.py) and by rival (test_registry.py); "
        "the first stays"
    )
    assert fresh.table("target")["sm_90a"] is before


def test_what_fails_to_import_is_reported_alone(builtin: Path) -> None:
    """A module that raises, exits or does not parse, and a broken rule, leave the rest standing."""
    (builtin / "targets" / "a.py").write_text(TARGET.format(name="A", value="sm_a"))
    (builtin / "targets" / "b.py").write_text("raise RuntimeError('no such thing\\nsecond line')")
    (builtin / "targets" / "c.py").write_text("import sys; sys.exit(3)")
    (builtin / "targets" / "d.py").write_text("def (")
    (builtin / "calibrations" / "e.json").write_text("{")
    (builtin / "rules" / "syn" / "f.py").write_text("Rule()")
    found = Registry(packs=False)
    assert list(found.table("target")) == ["sm_a"]
    assert [(p.plugin, p.error.partition(":")[0]) for p in found.problems()] == [
        ("targets/b.py", "RuntimeError"),
        ("targets/c.py", "SystemExit"),
        ("targets/d.py", "SyntaxError"),
        ("calibrations/e.json", "JSONDecodeError"),
        ("syn/f.py", str(builtin / "rules" / "syn" / "f.py")),
    ]
    assert found.problems()[0].gates == STATIC_CATEGORIES
    assert found.problems()[3].gates == (Category.PERFORMANCE_ANALYSIS,)


def test_calibrations_are_data(builtin: Path) -> None:
    """A calibration may be a JSON file."""
    (builtin / "calibrations" / "h200.json").write_text(
        '{"name": "h200", "device": "H200", "target": "sm_90a", "features": ["dram_bytes"], "coefficients": [2e-13],'
        ' "fitted_on": "a", "n": 9, "held_out_error": 0.1, "held_out_n": 3, "interval": 0.2, "coverage": 0.9,'
        ' "provenance": "p"}'
    )
    found = Registry(packs=False)
    assert found.problems() == ()
    assert found.table("calibration")["h200"].coefficients == (2e-13,)


def test_explicit_hooks_work_and_misspelt_ones_are_named(builtin: Path) -> None:
    """A module may implement a hook; a hook that does not exist is named with what it is close to."""
    head = "from cake.core.hooks import hookimpl\nfrom cake.core.target import Target\n@hookimpl\n"
    body = "(): return Target('sm_x', 'sm_x', {}, {})\n"
    (builtin / "targets" / "good.py").write_text(f"{head}def cake_target{body}")
    (builtin / "targets" / "kind.py").write_text(f"{head}def cake_rule{body}")
    (builtin / "targets" / "misspelt.py").write_text(f"{head}def cake_taget{body}")
    found = Registry(packs=False)
    assert list(found.table("target")) == ["sm_x"]
    assert [p.error for p in found.problems()] == [
        "cake_rule returned Target, not a rule",
        "cake_taget is no hook of Cake; did you mean cake_target?",
    ]


def test_an_imported_layout_is_no_clash(fresh: Registry) -> None:
    """A module that imports another's layout does not define it again."""
    module = ModuleType("elsewhere")
    module.LAYOUT = fresh.table("layout")["wgmma"]  # type: ignore[attr-defined]
    fresh.load_module(module, "elsewhere")
    assert fresh.problems() == ()


def test_every_limit_has_its_source() -> None:
    """No target states a number without saying where it is from."""
    for target in registry.targets().values():
        assert target.limits.keys() == target.sources.keys()
        assert all(target.sources.values())


def test_a_thing_belongs_to_the_file_that_defines_it(fresh: Registry) -> None:
    """Primitives import layouts and targets; those stay plugins of their own files."""
    files = {
        p.name: p.file.parent.name for p in fresh.plugins() if p.kind in ("layout", "target") and p.name != "thread"
    }
    assert files == {"wgmma": "layouts", "sm_80": "targets", "sm_90a": "targets", "sm_100a": "targets"}
