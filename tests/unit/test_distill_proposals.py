"""Proposal branches: commits by plumbing, the same every time, and never over a person's work."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from cake.core.errors import CakeError, Exit
from distill.gitrepo import BOT_EMAIL, BOT_NAME, GitRepo, bot
from distill.proposals import (
    TRAILER,
    Proposal,
    State,
    build,
    check_paths,
    ledger_codes,
    next_code,
    open_branches,
    propose,
)

DATE = "1700000000 +0000"
CONFIG = "[user]\n\tname = Ada\n\temail = ada@example.org\n[init]\n\tdefaultBranch = main\n"
HOSTILE = """
[commit]
\tgpgSign = true
[gpg]
\tprogram = false
[core]
\tautocrlf = true
\thooksPath = {hooks}
"""


def git(folder: Path, *args: str) -> str:
    """What the user's own git prints."""
    return subprocess.run(["git", *args], cwd=folder, capture_output=True, text=True, check=True).stdout.strip()


def proposal(n: int, body: str = "Learnt.") -> Proposal:
    """A tiny proposal; its rule file has line ends that a conversion would change."""
    slug = f"never-{n}-abc"
    rule = f"cake/plugins/rules/syn/SYN90{n}_never.py"
    files = {rule: b"Rule(\r\n)\n", f"proposals/{slug}/PROPOSAL.md": f"# {n}\n".encode()}
    return Proposal(slug, f"SYN90{n}", f"never-{n}", f"SYN90{n}: never", body, files, "ee", "9/9", "ff")


@pytest.fixture
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with one commit, and no configuration but its own."""
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "gitconfig"))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    for who in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{who}_DATE", DATE)
    (tmp_path / "gitconfig").write_text(CONFIG)
    folder = tmp_path / "repo"
    folder.mkdir()
    git(folder, "init", "-q")
    (folder / "README.md").write_text("x\n")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "first")
    return folder


def test_a_proposal_is_the_same_commit_every_time(repo: Path) -> None:
    """Two builds give one hash; author, committer and date are the bot's and the base's; the bytes are the bytes."""
    g = GitRepo(repo)
    base = g.head()
    commit = build(g, base, proposal(1))
    assert build(GitRepo(repo), base, proposal(1)) == commit
    info = g.info(commit)
    assert (info.by_bot, info.parents, info.date) == (True, (base,), DATE)
    assert info.trailer(TRAILER) == "never-1-abc"
    assert info.trailer("Nothing") == ""
    assert g.file(commit, "cake/plugins/rules/syn/SYN901_never.py") == b"Rule(\r\n)\n"
    assert g.file(commit, "missing") is None
    assert set(g.listing(commit)) == {"README.md", *proposal(1).files}
    assert g.branches() == {}
    assert g.dirty() == ()


def test_the_users_configuration_does_not_touch_it(repo: Path, tmp_path: Path) -> None:
    """Signing, hooks and line-ending conversion of the user change no hash and do not run."""
    g = GitRepo(repo)
    plain = build(g, g.head(), proposal(1))
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    for name in ("pre-commit", "commit-msg", "reference-transaction", "post-index-change"):
        (hooks / name).write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\nexit 1\n")
        (hooks / name).chmod(0o755)
    (tmp_path / "gitconfig").write_text(CONFIG + HOSTILE.format(hooks=hooks))
    (done,) = propose(GitRepo(repo), g.head(), [proposal(1)], 3)
    assert (done.state, done.tip) == (State.PROPOSED, plain)
    assert not (tmp_path / "ran").exists()


def test_a_branch_is_left_rebuilt_or_unchanged(repo: Path) -> None:
    """The same finding on the same base changes nothing; on a later base, or with other words, it is rebuilt."""
    g = GitRepo(repo)
    first = g.head()
    (one,) = propose(g, first, [proposal(1)], 1)
    assert (one.state, one.branch) == (State.PROPOSED, "cake/rule/syn901-never-1")
    assert propose(g, first, [proposal(1)], 1)[0].state == State.UNCHANGED
    git(repo, "commit", "-q", "--allow-empty", "-m", "second")
    (again,) = propose(g, g.head(), [proposal(1)], 1)
    assert again.state == State.REBUILT
    assert g.info(again.tip).parents == (g.head(),)
    assert g.branches() == {one.branch: again.tip}


def test_a_persons_commit_is_left_alone(repo: Path) -> None:
    """A branch on which a person has committed stays where it is, and so does one that is checked out."""
    g = GitRepo(repo)
    one, two = propose(g, g.head(), [proposal(1), proposal(2)], 5)
    tree = g.tree_with(one.tip, {"proposals/never-1-abc/note.md": b"hm\n"})
    mine = g.commit(tree, [one.tip], "A note\n", replace(bot(DATE), name="Ada", email="ada@example.org"))
    g.set_branch(one.branch, mine, one.tip)
    git(repo, "worktree", "add", "-q", str(repo.parent / "other"), two.branch)
    done = propose(g, g.head(), [proposal(1, "Other words."), proposal(2, "Other words.")], 5)
    assert [d.state for d in done] == [State.EDITED, State.CHECKED_OUT]
    assert [d.tip for d in done] == [mine, two.tip] == [g.branches()[d.branch] for d in done]
    assert open_branches(g)[one.branch].edited
    assert open_branches(g)[one.branch].first.commit == one.tip


def test_no_more_are_open_than_allowed(repo: Path) -> None:
    """The third proposal waits while two are open; those that are open already are brought up to date."""
    g = GitRepo(repo)
    done = propose(g, g.head(), [proposal(n) for n in (1, 2, 3)], 2)
    assert [d.state for d in done] == [State.PROPOSED, State.PROPOSED, State.LIMIT]
    assert done[2].branch == done[2].tip == ""
    assert len(g.branches()) == 2
    assert propose(g, g.head(), [proposal(2, "Other.")], 0)[0].state == State.REBUILT


def test_a_branch_that_is_something_else_is_not_taken(repo: Path) -> None:
    """A branch of the right name that the distiller did not make is occupied."""
    g = GitRepo(repo)
    git(repo, "branch", proposal(1).branch)
    assert propose(g, g.head(), [proposal(1)], 2)[0].state == State.OCCUPIED
    assert g.branches()[proposal(1).branch] == g.head()


def test_a_bot_only_adds_and_only_in_its_places(repo: Path) -> None:
    """Paths elsewhere and files that exist are refused, before any branch is made."""
    assert check_paths({"corpus/bad/X/a.cake": "A", "proposals/x": "A"}) == ()
    outside, changed = check_paths({".github/x.yml": "A", "cake/plugins/rules/a.py": "M"})
    assert outside.startswith(".github/x.yml is outside cake/plugins/")
    assert changed == "cake/plugins/rules/a.py exists already: a bot only adds files"
    g = GitRepo(repo)
    with pytest.raises(CakeError, match=r"README\.md is outside") as caught:
        propose(g, g.head(), [replace(proposal(1), files={"README.md": b"y"})], 2)
    assert caught.value.exit_code == Exit.ENVIRONMENT
    assert g.branches() == {}


def test_codes_are_never_used_twice() -> None:
    """The smallest free code is next, whatever case the used ones are in; when none is left it is an error."""
    assert next_code("SYN", []) == "SYN001"
    assert next_code("SYN", ["syn001", "SYN003", "MMA002"]) == "SYN002"
    with pytest.raises(CakeError, match="family SYN are taken"):
        next_code("SYN", [f"SYN{n:03d}" for n in range(1, 1000)])
    assert ledger_codes([]) == frozenset()


def test_there_must_be_a_repository_with_a_checkout_and_a_commit(repo: Path, tmp_path: Path) -> None:
    """No repository, a bare one, and one without a commit: each is an error of the environment that says so."""
    for name, args, words in (
        ("plain", (), "is no git repository"),
        ("bare", ("init", "-q", "--bare"), "is a bare repository"),
        ("empty", ("init", "-q"), "has no commit yet"),
    ):
        folder = tmp_path / name
        folder.mkdir()
        if args:
            git(folder, *args)
        with pytest.raises(CakeError, match=words) as caught:
            GitRepo(folder).head()
        assert caught.value.exit_code == Exit.ENVIRONMENT
    assert GitRepo(repo).current_branch() == "main"


def test_a_person_is_needed_and_the_bot_is_none(repo: Path, tmp_path: Path) -> None:
    """The configured user is the person; the bot's name, or no name, is refused."""
    assert GitRepo(repo).person().email == "ada@example.org"
    git(repo, "config", "user.name", BOT_NAME)
    with pytest.raises(CakeError, match="is the bot") as caught:
        GitRepo(repo).person()
    assert caught.value.exit_code == Exit.USAGE
    git(repo, "config", "--unset", "user.name")
    git(repo, "config", "user.email", BOT_EMAIL.upper())
    with pytest.raises(CakeError, match="is the bot"):
        GitRepo(repo).person()
    git(repo, "config", "--unset", "user.email")
    (tmp_path / "gitconfig").write_text("")
    with pytest.raises(CakeError, match="does not know who you are") as caught:
        GitRepo(repo).person()
    assert caught.value.exit_code == Exit.ENVIRONMENT
