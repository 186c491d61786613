"""Packs: found without importing, loaded as the lock file admits, one broken pack alone in its trouble."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cake.core.errors import CakeError
from cake.core.lock import Locked, lock_path, read_lock, write_lock
from cake.core.packs import Pack, State, list_packs, load_packs, lock_packs, open_pack, trust_pack
from cake.core.registry import Registry

RULE = """Rule(
    code="{code}", name="never-{low}-here", category="program-safety", since="0.1", finding="finding(O) :- opaque(O).",
    message="{{O}}", help="-", why="-", evidence=("-",), bad=("bad.cake",), good=("good.cake",),
)
"""
MANIFEST = '[pack]\nname = "{name}"\nversion = "1.0"\nkind = "{kind}"\n'
Install = Callable[..., Path]


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    """A lock file that does not exist yet."""
    return tmp_path / "cake.lock"


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Puts a pack where importlib.metadata finds it, as pip would, and returns its package folder."""
    site = tmp_path / "site"
    site.mkdir()
    monkeypatch.syspath_prepend(str(site))
    packages: list[str] = []

    def put(name: str, kind: str = "declarative", dist: str = "", code: str = "SYN001", **files: str) -> Path:
        dist = dist or f"cake-pack-{name}"
        package = dist.replace("-", "_")
        packages.append(package)
        root = site / package
        contents = {
            "cake-pack.toml": MANIFEST.format(name=name, kind=kind),
            "__init__.py": "raise RuntimeError('imported')" if kind == "declarative" else "",
            f"rules/{code}_x.py": RULE.format(code=code, low=code.lower()),
        }
        for path, text in {**contents, **files}.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text)
        info = site / f"{package}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {dist}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[cake.packs]\n{name} = {package}\n")
        names = [p.relative_to(site).as_posix() for p in root.rglob("*") if p.is_file()]
        (info / "RECORD").write_text("".join(f"{n},,\n" for n in [*names, f"{info.name}/METADATA"]))
        return root

    yield put
    for package in packages:
        sys.modules.pop(package, None)


def state(lock: Path, name: str) -> tuple[State, str]:
    """State and problem of the one pack called `name`."""
    (pack,) = [p for p in list_packs(lock) if p.name == name]
    return pack.state, pack.problem


def loaded(lock: Path) -> tuple[list[str], list[str]]:
    """The pack rules that a fresh registry loads by this lock file, and its problems."""
    registry = Registry(packs=False)
    load_packs(registry, lock)
    return [p.name for p in registry.plugins() if p.owner != "cake"], [str(p) for p in registry.problems()]


def test_a_pack_is_listed_before_it_is_locked_and_loads_after(install: Install, lock: Path) -> None:
    """Listing imports nothing; locking by hash is what lets rules in, under the pack's own prefix."""
    install("ledger")
    assert state(lock, "ledger") == (State.UNLOCKED, "not locked: cake packs lock ledger")
    assert loaded(lock) == ([], [])
    (entry,) = lock_packs(["ledger"], lock)
    assert (entry.kind, entry.trusted, list(entry.codes)) == ("declarative", False, ["ledger:SYN001"])
    assert state(lock, "ledger") == (State.LOADED, "")
    assert loaded(lock) == (["ledger:SYN001"], [])
    assert "cake_pack_ledger" not in sys.modules


@pytest.mark.parametrize("path", ["rules/SYN001_x.py", "rules/SYN002_new.py", "cake-pack.toml"])
def test_a_changed_pack_is_listed_as_changed_and_stays_out(install: Install, lock: Path, path: str) -> None:
    """Any changed or added file of the pack changes its hash; that is a problem, not a silent absence."""
    root = install("ledger")
    lock_packs([], lock)
    with (root / path).open("a") as file:
        file.write("\n# changed\n")
    assert state(lock, "ledger")[0] is State.CHANGED
    rules, problems = loaded(lock)
    assert rules == []
    assert "changed since it was locked" in problems[0]


def test_caches_do_not_change_the_hash(install: Install, lock: Path) -> None:
    """Byte code that Python writes beside a pack is not part of it."""
    root = install("ledger")
    lock_packs([], lock)
    (root / "__pycache__").mkdir()
    (root / "__pycache__" / "x.cpython-311.pyc").write_bytes(b"x")
    assert state(lock, "ledger")[0] is State.LOADED


def test_code_needs_trust_of_the_exact_hash(install: Install, lock: Path) -> None:
    """A code pack is not imported until its whole hash is trusted, and again not once it changed."""
    target = "from cake.core.target import Target\nSM_X = Target('sm_x', 'sm_x', {}, {})\n"
    root = install("extra", "code", **{"__init__.py": target})
    (entry,) = lock_packs([], lock)
    assert state(lock, "extra")[0] is State.UNTRUSTED
    assert loaded(lock) == ([], [])
    with pytest.raises(CakeError, match=f"extra has hash {entry.sha256}, not {entry.sha256[:8]}:"):
        trust_pack("extra", entry.sha256[:8], lock)
    assert trust_pack("extra", entry.sha256, lock).trusted
    assert loaded(lock) == (["extra:SYN001", "sm_x"], [])
    assert lock_packs([], lock)[0].trusted, "locking what did not change keeps the trust"
    (root / "__init__.py").write_text(target + "\n")
    assert state(lock, "extra")[0] is State.CHANGED
    assert not lock_packs([], lock)[0].trusted, "new code is not trusted because the old was"


def test_two_owners_of_a_name_are_both_named_and_both_out(install: Install, lock: Path) -> None:
    """pluggy would drop one of them without a word."""
    install("ledger")
    install("ledger", dist="other-ledger")
    reason = "the name 'ledger' is claimed by cake-pack-ledger and other-ledger: uninstall one; neither is loaded"
    assert [(p.state, p.problem) for p in list_packs(lock)] == [(State.BROKEN, reason)] * 2
    with pytest.raises(CakeError, match="is claimed by"):
        lock_packs(["ledger"], lock)


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ({"cake-pack.toml": "[pack"}, "cannot be read"),
        ({"cake-pack.toml": "x = 1"}, "has no table [pack]"),
        ({"cake-pack.toml": '[pack]\nname = "bad"\nversion = "1.0"\n'}, "kind is missing"),
        ({"cake-pack.toml": MANIFEST.format(name="bad", kind="magic")}, "kind 'magic' is not declarative or code"),
        ({"cake-pack.toml": MANIFEST.format(name="other", kind="code")}, "name is 'other', and the distribution says"),
        ({"cake-pack.toml": MANIFEST.format(name="bad", kind="code") + 'rules = "../x"'}, "no folder inside"),
        ({"cake-pack.toml": MANIFEST.format(name="bad", kind="code") + "hooks = 1"}, "unknown key hooks"),
    ],
)
def test_one_broken_pack_is_alone(install: Install, lock: Path, files: dict[str, str], reason: str) -> None:
    """A bad manifest is reported with its reason, and the pack beside it still loads."""
    install("bad", **files)
    install("ledger")
    with pytest.raises(CakeError, match="is broken"):
        lock_packs([], lock)
    lock_packs(["ledger"], lock)
    rules, problems = loaded(lock)
    assert rules == ["ledger:SYN001"]
    assert len(problems) == 1
    assert reason in problems[0]


def test_one_broken_rule_is_alone(install: Install, lock: Path) -> None:
    """A rule file that cannot be read, and code that raises, leave the pack's other rules in."""
    install("ledger", **{"rules/SYN002_y.py": "import os"})
    install("extra", "code", code="SYN003", **{"__init__.py": "1 / 0"})
    for entry in lock_packs([], lock):
        trust_pack(entry.name, entry.sha256, lock)
    rules, problems = loaded(lock)
    assert rules == ["extra:SYN003", "ledger:SYN001"]
    assert problems[0] == "cake-pack-extra: pack extra: ZeroDivisionError: division by zero"
    assert "one call Rule" in problems[1]


def test_what_is_locked_must_be_there(install: Install, lock: Path) -> None:
    """A locked pack that is not installed, and a missing file, are problems."""
    root = install("ledger")
    lock_packs([], lock)
    write_lock(lock, read_lock(lock) | {"gone": Locked("gone", "cake-pack-gone", "2.0", "declarative", "0", {})})
    (root / "rules" / "SYN001_x.py").unlink()
    _, problems = loaded(lock)
    assert "a file cannot be read" in problems[0]
    assert problems[1].endswith("locked at version 2.0, but not installed: pip install cake-pack-gone")


@pytest.mark.parametrize("text", ["version = 2", "[[pack]]\nname = 3", "version = 1\n[[pack]]\nname = 'x'", "="])
def test_a_broken_lock_file_admits_nothing(install: Install, lock: Path, text: str) -> None:
    """A lock file that cannot be read is one problem; no pack loads by it."""
    install("ledger")
    lock.write_text(text)
    with pytest.raises(CakeError, match=r"cake\.lock"):
        read_lock(lock)
    rules, problems = loaded(lock)
    assert rules == []
    assert len(problems) == 1


def test_the_lock_file_reads_back(lock: Path) -> None:
    """Every text survives writing; a hand-written word is no trust."""
    entry = Locked('a"b\\', "d\x7f\u20ac\n", "1", "code", "0" * 64, {"a:SYN001": "x"}, True)
    write_lock(lock, {entry.name: entry})
    assert read_lock(lock) == {entry.name: entry}
    lock.write_text(lock.read_text().replace("trusted = true", 'trusted = "yes"'))
    assert not read_lock(lock)[entry.name].trusted


def test_where_the_lock_file_lies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the root of the repository around a folder, or in the user's configuration."""
    (tmp_path / "repo" / ".git").mkdir(parents=True)
    (tmp_path / "repo" / "a").mkdir()
    (tmp_path / "alone").mkdir()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    assert lock_path(tmp_path / "repo" / "a") == tmp_path / "repo" / "cake.lock"
    assert lock_path(tmp_path / "alone") == tmp_path / "config" / "cake" / "cake.lock"


def test_a_source_folder_opens_as_a_pack(install: Install, tmp_path: Path) -> None:
    """What is not installed yet can be looked at; a folder without a manifest is refused."""
    root = install("ledger")
    found: Pack = open_pack(root)
    assert (found.name, list(found.codes)) == ("ledger", ["ledger:SYN001"])
    with pytest.raises(CakeError, match=r"holds no cake-pack\.toml"):
        open_pack(tmp_path)
