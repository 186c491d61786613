"""The house rules that a machine can see: sizes, lengths, docstrings, layout, and what may not be in the tree."""

from __future__ import annotations

import ast
import re
import subprocess
import tomllib
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MEBIBYTE = 1 << 20
PACKAGES = ("cake/core", "cake/plugins", "cake/cli", "distill")
TEST_FOLDERS = {"unit", "cases", "prop", "quality", "corpus", "litmus", "packs", "device"}
NEWS = {"new_rule", "removed_rule", "false_positive", "false_negative", "calibration", "feature", "fix", "breaking"}


@cache
def tracked() -> tuple[Path, ...]:
    """Files that git tracks and that exist, relative to the root."""
    out = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return tuple(Path(name) for name in out.split("\0") if name and (ROOT / name).is_file())


def sources(*folders: str) -> list[Path]:
    """Tracked Python files below `folders`."""
    return [p for p in tracked() if p.suffix == ".py" and p.as_posix().startswith(tuple(f + "/" for f in folders))]


def test_tree_is_small() -> None:
    """A clone stays cheap: the tracked tree is below 25 MiB, and no one file is above 8."""
    sizes = {p: (ROOT / p).stat().st_size for p in tracked()}

    assert sum(sizes.values()) < 25 * MEBIBYTE
    assert {str(p): n for p, n in sizes.items() if n > 8 * MEBIBYTE} == {}


def test_files_are_short() -> None:
    """No source file passes 800 lines."""
    lengths = {str(p): len((ROOT / p).read_text().splitlines()) for p in sources(*PACKAGES, "tests", "corpus/kernels")}

    assert {p: n for p, n in lengths.items() if n > 800} == {}


def test_a_primitive_fits_its_file() -> None:
    """A primitive file is a screen or two: at most 250 lines."""
    lengths = {str(p): len((ROOT / p).read_text().splitlines()) for p in sources("cake/plugins/primitives")}

    assert {p: n for p, n in lengths.items() if n > 250} == {}


def undocumented(path: Path) -> list[str]:
    """Public classes, functions and methods of `path` that have no docstring. Overrides of hooks named in the base
    classes (`events`, `compute`, `emit`, `cost`, `check`, ...) inherit theirs, and so need none."""
    tree = ast.parse((ROOT / path).read_text())
    missing = [] if ast.get_docstring(tree) or not tree.body else [f"{path}: module"]
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and not node.name.startswith("_"):
            if not ast.get_docstring(node):
                missing.append(f"{path}:{node.lineno} {node.name}")
            if isinstance(node, ast.ClassDef) and not node.bases:
                missing += [
                    f"{path}:{m.lineno} {node.name}.{m.name}"
                    for m in node.body
                    if isinstance(m, ast.FunctionDef) and not m.name.startswith("_") and not ast.get_docstring(m)
                ]
    return missing


def test_public_symbols_have_docstrings() -> None:
    """Every public symbol of the packages says what it is. (A rule file is one call, and is its own document.)"""
    code = [path for path in sources(*PACKAGES) if "rules" not in path.parts]

    assert [line for path in code for line in undocumented(path)] == []


def test_tests_have_docstrings() -> None:
    """Every test says in a line what it holds true."""
    missing = [
        f"{path}:{node.lineno} {node.name}"
        for path in sources("tests")
        for node in ast.walk(ast.parse((ROOT / path).read_text()))
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_") and not ast.get_docstring(node)
    ]

    assert missing == []


def test_tests_stand_where_their_promise_is() -> None:
    """Tests lie in the folders that say what is needed to run them."""
    stray = [str(p) for p in sources("tests") if p.name.startswith("test_") and p.parts[1] not in TEST_FOLDERS]

    assert stray == []


FORBIDDEN = {
    "machine path": re.compile(r"(?<![\w.~])/(?:work|root|tmp/team)/\w"),
    "unfinished": re.compile(r"\b(?:TODO|FIXME|XXX)\b"),
    "swallowed error": re.compile(r"except(?: Exception)?:\s*\n\s*pass\b"),
    "sleep in a test": re.compile(r"(?<!\w)time\.sleep\("),
}


@pytest.mark.parametrize("what", FORBIDDEN)
def test_tree_is_free_of(what: str) -> None:
    """No machine paths, nothing unfinished, no error that is swallowed, no sleep in a test."""
    folders = ("tests",) if what == "sleep in a test" else (*PACKAGES, "tests", "corpus", "docs", "examples")
    hits = []
    for path in tracked():
        text = path.suffix in (".py", ".md", ".toml", ".cake") and path != Path("tests/quality/test_house.py")
        if text and path.parts[0] in {f.split("/")[0] for f in folders}:
            for match in FORBIDDEN[what].finditer((ROOT / path).read_text()):
                hits.append(f"{path}: {match.group()!r}")

    assert hits == []


def test_news_fragments_are_named_well() -> None:
    """A news fragment is `<slug>.<type>.md` with a type that the release notes know."""
    names = [p.name for p in tracked() if p.parts[0] == "changelog.d" and p.name != "README.md"]

    assert [n for n in names if not re.fullmatch(rf"[a-z0-9-]+\.({'|'.join(sorted(NEWS))})\.md", n)] == []


def test_contributing_is_short() -> None:
    """CONTRIBUTING has fifteen bullets at most: more are not read."""
    bullets = re.findall(r"^(?:\d+\.|[-*]) ", (ROOT / "CONTRIBUTING.md").read_text(), flags=re.MULTILINE)

    assert 0 < len(bullets) <= 15


def test_decision_records_are_numbered() -> None:
    """Decision records are `NNNN-slug.md`, numbered from 1 without a gap, each with a status and a date."""
    records = sorted(p for p in tracked() if p.parts[:2] == ("docs", "adr"))

    assert [p.name[:4] for p in records] == [f"{n:04}" for n in range(1, len(records) + 1)]
    assert [str(p) for p in records if "\nStatus: " not in (ROOT / p).read_text()] == []


def test_simulator_contract_names_the_whole_verifier() -> None:
    """The import contract that keeps the simulator independent lists every module of the verifier."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (contract,) = [c for c in contracts if c["source_modules"] == ["cake.core.sim"]]
    parts = ("bounds", "clauses", "explore", "facts", "order", "rules", "verify", "vocabulary", "witness")
    verifier = [f"cake.core.{p.stem}" for p in sources("cake/core") if len(p.parts) == 3 and p.stem.startswith(parts)]

    assert contract["forbidden_modules"] == sorted(verifier)


def test_links_lead_somewhere() -> None:
    """Every relative link of a page leads to a file or folder of the repository."""
    dead = [
        f"{page}: {target}"
        for page in tracked()
        if page.suffix == ".md" and page.parts[0] != "proposals"
        for target in re.findall(r"\]\(([^)#\s]+)", (ROOT / page).read_text())
        if "://" not in target and not (ROOT / page.parent / target).exists()
    ]

    assert dead == []
