"""The example pack as a user meets it: built as a wheel, installed into a fresh environment, its rule beside ours."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "packs" / "cake-pack-descriptors"
Cake = Callable[..., tuple[int, Any]]

pytestmark = pytest.mark.xdist_group("packs")


def run(*command: str | Path, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a command outside of any checkout, with nothing of this process's Python paths."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")} | environment
    return subprocess.run([str(c) for c in command], cwd=cwd, env=clean, capture_output=True, text=True)


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh virtual environment with the wheels of Cake and of the example pack. What these depend on comes from the
    environment of this process, so that no network is needed."""
    root = tmp_path_factory.mktemp("installed")
    for project in (ROOT, EXAMPLE):
        done = run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", root / "wheels", cwd=project)
        assert done.returncode == 0, done.stderr
    assert run(sys.executable, "-m", "venv", "--without-pip", root / "venv", cwd=root).returncode == 0
    python = root / "venv" / "bin" / "python"
    wheels = sorted((root / "wheels").glob("*.whl"))
    done = run(
        sys.executable, "-m", "pip", "--python", python, "install", "-q", "--no-index", "--no-deps", *wheels, cwd=root
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    site = root / "venv" / "lib" / version / "site-packages"
    (site / "third_party.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return root


@pytest.fixture
def cake(environment: Path, tmp_path: Path) -> Cake:
    """Runs the installed `cake` with --json in an empty folder; gives exit code and document."""

    def call(*arguments: str | Path) -> tuple[int, Any]:
        command = environment / "venv" / "bin" / "cake"
        done = run(command, *arguments, "--json", cwd=tmp_path, XDG_CONFIG_HOME=str(tmp_path / "config"))
        assert done.stdout, done.stderr
        return done.returncode, json.loads(done.stdout)

    return call


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A program with two faults: a box row that the pack's rule is about, and a misaligned copy, which is ours."""
    text = (EXAMPLE / "cake_pack_descriptors" / "bad" / "DSC002" / "bad.cake").read_text()
    file = tmp_path / "two_faults.cake"
    file.write_text(text.replace("at=0)", "at=64)").replace("at=512)", "at=1024)"))
    return file


def codes(document: Any) -> set[str]:
    """Codes of the findings in a `cake check --json` document."""
    return {finding["code"] for finding in document["findings"]}


def test_the_packs_rule_runs_beside_ours_once_locked(cake: Cake, program: Path) -> None:
    """Installed, the pack is listed and silent; locked, its finding stands beside ours; nothing of it is imported."""
    _, listed = cake("packs", "list")
    assert [(p["name"], p["state"]) for p in listed["packs"]] == [("descriptors", "unlocked")]
    exit_code, before = cake("check", program)
    assert (exit_code, codes(before)) == (1, {"TMA002"})
    exit_code, locked = cake("packs", "lock", "descriptors")
    assert exit_code == 0
    assert list(locked["locked"][0]["codes"]) == ["descriptors:DSC001", "descriptors:DSC002"]
    exit_code, after = cake("check", program)
    assert exit_code == 1
    assert codes(after) >= {"TMA002", "descriptors:DSC002"}
    assert [f["message"] for f in after["findings"] if f["code"] == "descriptors:DSC002"] == [
        f"a row of {name}'s box has 8 bytes, no multiple of 16: it divides by 8 at most" for name in ("X_map", "Y_map")
    ]


def test_the_pack_is_explained_and_checked_outside_a_repository(cake: Cake) -> None:
    """The wheel carries the clean corpus, so the pack's gates run anywhere; its rules explain themselves."""
    exit_code, checked = cake("packs", "check", "descriptors")
    assert {g["name"]: (g["verdict"], g["details"]) for g in checked["gates"]} == {
        name: ("pass", []) for name in ("readable", "lint", "pair", "novelty", "clean corpus")
    }
    assert exit_code == 0
    cake("packs", "lock")
    _, explained = cake("explain", "descriptors:DSC002")
    assert "X_map = tensor_map(X, box=(64, 4))" in explained["text"]
    _, own = cake("explain", "TMA002")
    assert "rows = smem(" in own["text"]


def test_a_pack_without_code_can_still_be_trusted_only_by_its_hash(cake: Cake) -> None:
    """Trust takes the whole hash of what is installed, and says which it is when it is not given it."""
    _, listed = cake("packs", "list")
    digest = listed["packs"][0]["sha256"]
    exit_code, refused = cake("packs", "trust", "descriptors", "--sha256", digest[:12])
    assert exit_code == 2
    assert digest in refused["error"]["message"]
    exit_code, trusted = cake("packs", "trust", "descriptors", "--sha256", digest)
    assert (exit_code, trusted["locked"][0]["trusted"]) == (0, True)
