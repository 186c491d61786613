"""`cake distill` and `cake proposals` on the command line: what is printed, and which exit code says what."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from cake.cli.app import run
from cake.core import registry
from cake.core.errors import CakeError, Exit
from distill import pipeline
from distill.pipeline import Row, RunReport

Capture = pytest.CaptureFixture[str]

REPORT = RunReport(
    records=40,
    skipped={"not JSON": 1},
    outcomes={"ok": 10, "hang": 30},
    rows=(
        Row(
            "hang at wait",
            12,
            "SYN009 bytes-not-expected",
            "9/9",
            "cake/rule/syn009-bytes-not-expected",
            "proposed",
            "1",
        ),
        Row("hang at wait", 3, "SYN009", "", "", "proposed by this run", "2"),
        Row("hang", 10, "SYN002", "", "", "a shipped rule explains it"),
        Row("mismatch", 4, "", "", "", "nothing learnt: no clause"),
        Row("mismatch", 1, "", "", "", "nothing learnt: no clause"),
    ),
    proposed=1,
    base="0" * 40,
    work=".cake/distill/abc",
)


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A git repository that looks like Cake's from outside, and is the current directory."""
    (tmp_path / "corpus" / "kernels").mkdir(parents=True)
    (tmp_path / "corpus" / "kernels" / "README").write_text("kernels\n")
    who = ("-c", "user.name=A Person", "-c", "user.email=person@example.org")
    for argv in (("init", "-q", "-b", "main"), ("add", "."), (*who, "commit", "-q", "-m", "first")):
        subprocess.run(["git", *argv], cwd=tmp_path, check=True, capture_output=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def distilled(monkeypatch: pytest.MonkeyPatch, result: RunReport | Exception) -> list[dict[str, Any]]:
    """Replace the pipeline by one that gives `result`; returns the arguments of its calls."""
    calls: list[dict[str, Any]] = []

    def fake(repo: Path, log: Path, **options: Any) -> RunReport:
        calls.append({"repo": repo, "log": log, **options})
        if isinstance(result, Exception):
            raise result
        return result

    monkeypatch.setattr(pipeline, "run", fake)
    return calls


def test_the_table_says_what_became_of_every_failure(
    repository: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    """Proposals with branch and gates, what rules explain already, what is left and why, what could not be read."""
    calls = distilled(monkeypatch, REPORT)

    code = run(["distill", "run", "log", "--dry-run", "--max-open", "2"])

    out = capsys.readouterr().out
    assert code == Exit.CLEAN
    assert "40 records, 30 of them failures, 1 line skipped" in out
    assert "hang at wait (1)  12        SYN009 bytes-not-expected  9/9    cake/rule/syn009-bytes-not-expected" in out
    assert "3         SYN009" in out
    assert "10        SYN002" in out
    assert "5         nothing learnt: no clause" in out
    assert "1 new proposal" in out
    (call,) = calls
    assert (call["repo"], call["dry_run"], call["max_open"]) == (repository, True, 2)


def test_the_report_as_data(repository: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    """--json prints the same rows as one document."""
    distilled(monkeypatch, REPORT)

    assert run(["distill", "run", "log", "--json"]) == Exit.CLEAN

    document = json.loads(capsys.readouterr().out)
    assert [r["failures"] for r in document["rows"]] == [12, 3, 10, 4, 1]
    assert document["schema"] == 1


def test_plugins_that_do_not_load_are_named(repository: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    """The run goes on without them, and says so: what they would have explained may be proposed again."""
    problem = registry.PluginProblem("cake-pack-x", "pack x", "cake_rul is no hook of Cake; did you mean cake_rule?")
    monkeypatch.setattr(registry, "problems", lambda: (problem,))
    distilled(monkeypatch, REPORT)

    assert run(["distill", "run", "log"]) == Exit.CLEAN
    assert capsys.readouterr().err == f"not loaded, so a rule may be missing: {problem}\n"


def test_a_log_that_is_missing(repository: Path, capsys: Capture) -> None:
    """A log that does not exist is a usage error that names it."""
    assert run(["distill", "run", "no/such/log"]) == Exit.USAGE
    assert "no/such/log" in capsys.readouterr().err


def test_an_interrupted_run_exits_130(repository: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    """Ctrl-C in the pipeline is one sentence; a dirty checkout keeps its own message and code."""
    distilled(monkeypatch, CakeError("the checkout differs from HEAD", Exit.ENVIRONMENT))
    assert run(["distill", "run", "log"]) == Exit.ENVIRONMENT
    assert capsys.readouterr().err == "error: the checkout differs from HEAD\n"

    def interrupted(*_: object, **__: object) -> RunReport:
        raise KeyboardInterrupt

    monkeypatch.setattr(pipeline, "run", interrupted)
    assert run(["distill", "run", "log"]) == Exit.INTERRUPTED
    assert "Traceback" not in capsys.readouterr().err


def test_no_proposals(repository: Path, capsys: Capture) -> None:
    """A repository without proposals says how to get some; one that is named but not there is a usage error."""
    assert run(["proposals", "list"]) == Exit.CLEAN
    assert "cake distill run" in capsys.readouterr().out
    assert run(["proposals", "show", "syn014"]) == Exit.USAGE
    assert "names no open proposal" in capsys.readouterr().err


def test_a_rejection_needs_a_reason(repository: Path, capsys: Capture) -> None:
    """Without --reason, `reject` is a usage error: the ledger is for the next reader."""
    assert run(["proposals", "reject", "syn014"]) == Exit.USAGE
    assert "--reason" in capsys.readouterr().err


def test_repo_names_the_repository(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    """From anywhere, --repo names the repository to work on; a path that is none is refused with what is needed."""
    monkeypatch.chdir("/")

    assert run(["proposals", "list", "--repo", str(repository)]) == Exit.CLEAN
    assert run(["proposals", "list", "--repo", str(repository / "corpus")]) == Exit.ENVIRONMENT
    assert "is no Cake repository" in capsys.readouterr().err
