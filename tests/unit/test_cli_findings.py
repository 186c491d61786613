"""Findings as text, JSON, SARIF and GitHub commands: the same fault, for four kinds of reader."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cake.cli import findings
from cake.core.diagnostics import Category, Finding
from cake.core.ir import Span

SOURCE = ["def k():", "    with load:", "        tma_load(a[slot], A, at=(0, 0), done=full[slot])"]
FAULT = Finding(
    code="SYN012",
    name="slot-overwritten-before-release",
    category=Category.PROGRAM_SAFETY,
    message="tma_load refills a[slot] while math may still be reading it",
    paths=("load:0.1",),
    role="load",
    barrier="empty",
    stage="slot",
    line=7,
    span=Span("k.py", 3, 8),
    help="Wait for math to arrive on the slot's empty barrier.",
    witness=("math:0 wgmma reads a[0]", "load:0.1 tma_load writes a[0]"),
)


def located(**changes: object) -> findings.Located:
    """The fault above, placed in its source."""
    from dataclasses import replace

    return findings.locate(replace(FAULT, **changes), "k.py", {"k.py": SOURCE}, "m128")


def test_text_reads_like_a_compiler(capsys: pytest.CaptureFixture[str]) -> None:
    """Place, code, message, who, the source line underlined, help, witness; no colour off a terminal."""
    findings.write_text(located())

    assert capsys.readouterr().out == (
        "k.py:3: SYN012 slot-overwritten-before-release [program-safety]\n"
        "  tma_load refills a[slot] while math may still be reading it\n"
        "  role load, barrier empty, stage slot\n"
        "  |\n"
        "3 | tma_load(a[slot], A, at=(0, 0), done=full[slot])\n"
        "  | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n"
        "  help: Wait for math to arrive on the slot's empty barrier.\n"
        "  witness:\n"
        "     1. math:0 wgmma reads a[0]\n"
        "     2. load:0.1 tma_load writes a[0]\n"
        "\n"
    )


def test_long_witnesses_are_cut(capsys: pytest.CaptureFixture[str]) -> None:
    """A witness of forty steps shows the first dozen and says how many more there are."""
    findings.write_text(located(witness=tuple(f"step {n}" for n in range(40))))

    out = capsys.readouterr().out
    assert "step 11" in out
    assert "step 12" not in out
    assert "28 more" in out


def test_configurations_are_joined() -> None:
    """The same fault in two configurations is one finding that names both; another message stays apart."""
    items = [
        findings.locate(FAULT, "k.py", {"k.py": SOURCE}, "m128"),
        findings.locate(FAULT, "k.py", {"k.py": SOURCE}, "m64"),
        located(message="another"),
    ]

    merged = findings.merge(items)

    assert [(i.finding.message.split()[0], i.configs) for i in merged] == [
        ("another", ("m128",)),
        ("tma_load", ("m128", "m64")),
    ]


def test_a_finding_without_a_span_points_at_canonical_text() -> None:
    """What was read from a canonical file is placed by its line there, the caret at the first word."""
    item = findings.locate(
        Finding("X", "x", Category.PROGRAM_SAFETY, "m", (), line=2), "a.cake", {"a.cake": ["one", "   two"]}
    )

    assert (item.file, item.line, item.column, item.text) == ("a.cake", 2, 3, "   two")


def test_github_commands_are_escaped() -> None:
    """Newlines, colons and commas do not break a workflow command; an advisory finding is a warning."""
    line = findings.github(located(message="a,b: 100%\nnext", blocking=False))

    assert line == (
        "::warning file=k.py,line=3,col=9,title=SYN012 slot-overwritten-before-release"
        "::a,b: 100%25%0Anext%0AWait for math to arrive on the slot's empty barrier."
    )


def test_sarif_has_what_its_readers_need() -> None:
    """One run, the rule declared once, each result with level, message, place."""
    log = findings.sarif([located(), located()], "0.1")

    (run,) = log["runs"]
    assert log["version"] == "2.1.0"
    assert [r["id"] for r in run["tool"]["driver"]["rules"]] == ["SYN012"]
    assert [r["level"] for r in run["results"]] == ["error", "error"]
    place = run["results"][0]["locations"][0]["physicalLocation"]
    assert place == {"artifactLocation": {"uri": "k.py"}, "region": {"startLine": 3, "startColumn": 9}}


def test_json_keeps_everything() -> None:
    """The JSON form has place, canonical line and witness, and only JSON types."""
    document = findings.as_json(located())

    assert (document["file"], document["line"], document["column"], document["canonical_line"]) == ("k.py", 3, 8, 7)
    assert document["category"] == "program-safety"
    assert document["witness"] == list(FAULT.witness)
    assert document["configs"] == ["m128"]


def test_paths_are_shown_from_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A file below the current directory is shown relative to it, another in full."""
    monkeypatch.chdir(tmp_path)

    assert findings.display(str(tmp_path / "k" / "schedule.py")) == "k/schedule.py"
    assert re.fullmatch(r"/.*k\.py", findings.display("/somewhere/else/k.py"))
