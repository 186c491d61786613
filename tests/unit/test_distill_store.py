"""The run directory: whole files, work done once, and one holder of the lock."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from distill.store import RunStore, digest, dump, exclusive, write_atomic

ROOT = Path(__file__).parents[2]
TRY = """
import sys
from pathlib import Path
from cake.core.errors import CakeError
from distill.store import exclusive
try:
    with exclusive(Path(sys.argv[1])):
        print("held")
except CakeError as error:
    print(int(error.exit_code), error)
"""


def attempt(folder: Path) -> str:
    """What another process says that tries to take the lock."""
    command = [sys.executable, "-c", TRY, str(folder)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


def test_write_atomic_replaces_and_leaves_no_scratch(tmp_path: Path) -> None:
    """The new contents stand in the file, and nothing else lies beside it."""
    path = tmp_path / "deep" / "x.json"
    write_atomic(path, b"old")
    write_atomic(path, b"new")
    assert path.read_bytes() == b"new"
    assert [p.name for p in path.parent.iterdir()] == ["x.json"]


def test_a_write_that_fails_leaves_the_old_contents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the last step fails, the old file is whole and the scratch file is gone."""
    path = tmp_path / "x.json"
    write_atomic(path, b"old")

    def fail(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("distill.store.os.replace", fail)
    with pytest.raises(OSError, match="disk full"):
        write_atomic(path, b"new")
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["x.json"]


def test_a_stage_computes_once_for_a_key(tmp_path: Path) -> None:
    """The same key reads back, another key computes again, and so does an artefact that was cut."""
    calls: list[str] = []

    def at(key: str) -> tuple[int, ...]:
        def compute() -> tuple[int, ...]:
            calls.append(key)
            return (len(calls), 7)

        return RunStore(tmp_path / "run").stage("study", "g1", key, compute, list, tuple)

    assert at("k") == at("k") == (1, 7)
    assert at("other") == (2, 7)
    artefact = tmp_path / "run" / "study" / "g1.json"
    artefact.write_bytes(artefact.read_bytes()[:9])
    assert at("other") == (3, 7)
    assert at("other") == (3, 7)
    assert calls == ["k", "other", "other"]


def test_dump_and_digest_are_canonical() -> None:
    """Key order does not matter to the text, and the split into parts does matter to the hash."""
    assert dump({"b": 1, "a": "ü"}) == dump({"a": "ü", "b": 1}) == '{\n  "a": "ü",\n  "b": 1\n}\n'.encode()
    assert digest("ab", "c") != digest("a", "bc")
    assert digest("ab") == digest(b"ab")


def test_save_writes_text_and_bytes(tmp_path: Path) -> None:
    """An artefact lies under the parts of its name."""
    store = RunStore(tmp_path)
    assert store.save("x", "rules", "a.py") == store.path("rules", "a.py")
    assert store.save(b"y", "b").read_text() == "y"
    assert store.path("rules", "a.py").read_text() == "x"


def test_the_lock_has_one_holder_among_processes(tmp_path: Path) -> None:
    """A second process is refused while the first holds the lock, and let in afterwards."""
    with exclusive(tmp_path / "distill"):
        said = attempt(tmp_path / "distill")
        assert said.startswith("3 another `cake distill`")
    assert attempt(tmp_path / "distill") == "held"
