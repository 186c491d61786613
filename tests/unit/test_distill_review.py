"""Review: the two decisions, and everything that stands in their way."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from cake.core.diagnostics import Verdict
from cake.core.errors import CakeError, Exit
from distill import ledger, review
from distill.gates import GateLine
from distill.gitrepo import BOT_NAME, GitRepo
from distill.proposals import Outcome, Proposal, decisions, propose

SLUG = "never-1-abc"
RULE = "cake/plugins/rules/syn/SYN901_never.py"
GATES = (GateLine("pair", Verdict.PASS, 2, "flags it"), GateLine("suite", Verdict.UNKNOWN, 0, "not run"))
GREEN = (GATES[0], GateLine("suite", Verdict.PASS, 9, "9 passed"))


def git(folder: Path, *args: str) -> str:
    """What the user's own git prints."""
    return subprocess.run(["git", *args], cwd=folder, capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository of a person, with one commit."""
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "gitconfig"))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    (tmp_path / "gitconfig").write_text(
        "[user]\n\tname = Ada\n\temail = ada@example.org\n[init]\n\tdefaultBranch = main\n"
    )
    folder = tmp_path / "repo"
    folder.mkdir()
    git(folder, "init", "-q")
    (folder / ".gitignore").write_text(".cake/\n")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "first")
    return folder


@pytest.fixture
def opened(repo: Path) -> Outcome:
    """One open proposal."""
    files = {
        RULE: b"Rule()\n",
        f"proposals/{SLUG}/PROPOSAL.md": b"# SYN901\n",
        f"proposals/{SLUG}/gates.jsonl": "".join(g.line() + "\n" for g in GATES).encode(),
    }
    g = GitRepo(repo)
    (done,) = propose(
        g, g.head(), [Proposal(SLUG, "SYN901", "never-1", "SYN901: never", "Learnt.", files, "ee", "1/1", "ff")], 3
    )
    return done


def report(repo: Path, opened: Outcome, gates: tuple[GateLine, ...] = GREEN) -> None:
    """Leave a merge-tier report for the proposal, as `gate` does."""
    g = GitRepo(repo)
    path = g.root / review.WORK / "proposals" / SLUG / review.REPORT
    path.parent.mkdir(parents=True)
    path.write_text(review.Report(SLUG, opened.branch, opened.tip, g.head(), gates).text())


def refused(repo: Path, words: str, code: Exit) -> None:
    """A merge fails with these words and this exit code, and HEAD and the branches stay."""
    g = GitRepo(repo)
    before = g.head(), g.branches()
    with pytest.raises(CakeError, match=words) as caught:
        review.merge(repo, SLUG)
    assert caught.value.exit_code == code
    assert (g.head(), g.branches()) == before


def test_a_merge_needs_a_report_of_this_tip(repo: Path, opened: Outcome) -> None:
    """Without a report, or with one of another tip, nothing is merged."""
    refused(repo, "has no gate report for its tip", Exit.USAGE)
    report(repo, Outcome(opened.proposal, opened.state, opened.branch, "0" * 40))
    refused(repo, "has no gate report for its tip", Exit.USAGE)


@pytest.mark.parametrize("verdict", [Verdict.FAIL, Verdict.UNKNOWN])
def test_a_red_report_does_not_merge(repo: Path, opened: Outcome, verdict: Verdict) -> None:
    """A failed gate refuses the merge and is named; `unknown` is no pass."""
    report(repo, opened, (GREEN[0], GateLine("suite", verdict, 3, "2 failed")))
    refused(repo, f"gate suite is {verdict}: 2 failed", Exit.USAGE)


def _move(repo: Path) -> None:
    git(repo, "commit", "-q", "--allow-empty", "-m", "second")


def _bot(repo: Path) -> None:
    git(repo, "config", "user.name", BOT_NAME)


def _dirty(repo: Path) -> None:
    (repo / "new.txt").write_text("x")


def _detach(repo: Path) -> None:
    git(repo, "checkout", "-q", "--detach")


def _on_proposal(repo: Path) -> None:
    git(repo, "checkout", "-q", "cake/rule/syn901-never-1")


@pytest.mark.parametrize(
    ("disturb", "words", "code"),
    [
        (_move, "the base has moved", Exit.USAGE),
        (_bot, "is the bot", Exit.USAGE),
        (_dirty, r"the checkout has changes \(new\.txt\)", Exit.ENVIRONMENT),
        (_detach, "HEAD is detached", Exit.ENVIRONMENT),
        (_on_proposal, "is a proposal itself", Exit.USAGE),
    ],
)
def test_what_stands_in_the_way_of_a_merge(
    repo: Path, opened: Outcome, disturb: Callable[[Path], None], words: str, code: Exit
) -> None:
    """A green report does not help when the base, the person or the checkout is not as it must be."""
    report(repo, opened)
    disturb(repo)
    refused(repo, words, code)


def test_a_green_proposal_merges_as_the_person(repo: Path, opened: Outcome) -> None:
    """The merge commit is the person's, holds rule, report, ledger and index, and the checkout follows."""
    report(repo, opened)
    g = GitRepo(repo)
    base = g.head()
    row = review.merge(repo, "syn901", "good")
    info = g.info(g.head())
    assert info.parents == (base, opened.tip)
    assert info.author_email == "ada@example.org"
    assert info.trailer("Cake-Report") == row.report_sha256
    assert review.read_report((repo / "proposals" / SLUG / review.REPORT).read_bytes()).sha256 == row.report_sha256
    assert decisions(g, g.head()) == (row,)
    assert (row.decision, row.reviewer, row.base) == ("merged", "Ada <ada@example.org>", base)
    assert (repo / RULE).read_text() == "Rule()\n"
    assert (repo / ledger.INDEX).read_text() == ledger.index([row])
    assert g.dirty() == ()
    assert [r.state for r in review.list_proposals(repo)] == ["merged"]


def test_a_rejection_needs_a_reason(repo: Path, opened: Outcome) -> None:
    """Blank words are none, and nothing happens."""
    with pytest.raises(CakeError, match="needs a reason") as caught:
        review.reject(repo, SLUG, "  ")
    assert caught.value.exit_code == Exit.USAGE
    assert GitRepo(repo).branches() == {opened.branch: opened.tip}


def test_a_rejection_is_written_down_and_its_branch_goes(repo: Path, opened: Outcome) -> None:
    """Ledger and index say why, in a commit of the person; the branch is deleted and the rule is not there."""
    g = GitRepo(repo)
    base = g.head()
    row = review.reject(repo, SLUG, "too wide")
    assert g.branches() == {}
    assert g.info(g.head()).parents == (base,)
    assert set(g.changed(base, g.head())) == {ledger.LEDGER, ledger.INDEX}
    assert ledger.parse((repo / ledger.LEDGER).read_text()) == (row,)
    assert (row.decision, row.reason, row.report_sha256) == ("rejected", "too wide", "")
    assert "| too wide |" in (repo / ledger.INDEX).read_text()
    assert not (repo / RULE).exists()
    with pytest.raises(CakeError, match=r"was rejected by Ada <ada@example\.org>: too wide"):
        review.reject(repo, SLUG, "again")


def test_an_open_proposal_is_listed_and_shown(repo: Path, opened: Outcome) -> None:
    """The list counts its gates; the view holds its text and files; a wrong name says what is open."""
    (row,) = review.list_proposals(repo)
    assert (row.slug, row.code, row.state, row.gates, row.report) == (SLUG, "SYN901", "open", "1/2", "propose")
    view = review.show(repo, "never-1")
    assert (view.text, view.rule, view.gates) == ("# SYN901\n", "Rule()\n", GATES)
    assert set(view.files) == set(opened.proposal.files)
    with pytest.raises(CakeError, match=f"'nope' names no open proposals; open are: {SLUG}"):
        review.show(repo, "nope")
    _move(repo)
    assert [r.state for r in review.list_proposals(repo)] == ["stale"]
