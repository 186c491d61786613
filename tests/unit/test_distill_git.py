"""Git by plumbing: what a bot commit is made of, and what it leaves alone."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from cake.core.errors import CakeError, Exit
from distill.gitrepo import BOT_EMAIL, GitRepo, bot

DATE = "1700000000 +0000"
Make = Callable[..., Path]


def git(folder: Path, *args: str) -> str:
    """Run git in `folder` and return what it prints."""
    done = subprocess.run(["git", *args], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with one commit, a person's identity, and no configuration from outside."""
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "gitconfig"))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    repo = tmp_path / "repo"
    repo.mkdir()
    git(repo, "init", "-q", "-b", "main")
    git(repo, "config", "user.name", "A Person")
    git(repo, "config", "user.email", "person@example.org")
    (repo / "a.txt").write_text("a\n")
    git(repo, "add", ".")
    git(repo, "commit", "-q", "-m", "first")
    return repo


def made(repo: GitRepo, files: dict[str, bytes], base: str = "HEAD") -> str:
    """A bot commit that adds `files`."""
    return repo.commit(repo.tree_with(base, files), [repo.resolve(base) or ""], "message\n\nKey: value\n", bot(DATE))


def test_commit_is_a_function_of_its_contents(folder: Path) -> None:
    """The same files on the same base give the same hash, and other files another."""
    repo = GitRepo(folder)

    assert made(repo, {"x/b": b"1"}) == made(repo, {"x/b": b"1"})
    assert made(repo, {"x/b": b"1"}) != made(repo, {"x/b": b"2"})


def test_commit_touches_neither_checkout_nor_index(folder: Path) -> None:
    """Files being edited, staged and untracked stay as they are while a commit is made and a branch set."""
    (folder / "a.txt").write_text("edited\n")
    (folder / "staged.txt").write_text("staged\n")
    git(folder, "add", "staged.txt")
    before = git(folder, "status", "--porcelain")
    repo = GitRepo(folder)

    repo.set_branch("cake/rule/x", made(repo, {"b": b"b\n"}), None)

    assert git(folder, "status", "--porcelain") == before
    assert git(folder, "show", "cake/rule/x:b") == "b"


def test_users_settings_change_nothing(folder: Path) -> None:
    """Signing, hooks, line endings and encodings of the user have no part in a bot commit."""
    plain = made(GitRepo(folder), {"b": b"one\r\ntwo\n"})
    hooks = folder / ".git" / "hooks"
    hooks.mkdir(exist_ok=True)
    for name in ("pre-commit", "commit-msg", "reference-transaction", "post-commit"):
        (hooks / name).write_text(f"#!/bin/sh\ntouch {folder}/ran-{name}\nexit 1\n")
        (hooks / name).chmod(0o755)
    for key, value in {
        "commit.gpgSign": "true",
        "gpg.program": "/nowhere/gpg",
        "core.autocrlf": "true",
        "i18n.commitEncoding": "latin-1",
    }.items():
        git(folder, "config", key, value)
    repo = GitRepo(folder)

    again = made(repo, {"b": b"one\r\ntwo\n"})
    repo.set_branch("cake/rule/x", again, None)

    assert again == plain
    assert repo.file(again, "b") == b"one\r\ntwo\n"
    assert not list(folder.glob("ran-*"))


def test_bot_is_told_from_person(folder: Path) -> None:
    """Commit information says who wrote a commit, and trailers are read from its message."""
    repo = GitRepo(folder)
    info = repo.info(made(repo, {"b": b"b"}))

    assert info.by_bot
    assert info.author_email == BOT_EMAIL
    assert info.trailer("Key") == "value"
    assert not repo.info("HEAD").by_bot


def test_branch_moves_only_from_where_it_was(folder: Path) -> None:
    """A branch that somebody moved meanwhile is not overwritten."""
    repo = GitRepo(folder)
    one, two = made(repo, {"b": b"1"}), made(repo, {"b": b"2"})
    repo.set_branch("cake/rule/x", one, None)

    with pytest.raises(CakeError) as error:
        repo.set_branch("cake/rule/x", two, None)

    assert error.value.exit_code is Exit.ENVIRONMENT
    assert repo.branches() == {"cake/rule/x": one}


def test_fast_forward_brings_the_checkout_along(folder: Path) -> None:
    """A commit on top of HEAD arrives in branch, index and checkout."""
    repo = GitRepo(folder)
    commit = made(repo, {"b": b"b\n"})

    repo.fast_forward(commit)

    assert repo.head() == commit
    assert (folder / "b").read_text() == "b\n"
    assert repo.dirty() == ()


def test_export_is_a_clean_clone(folder: Path, tmp_path: Path) -> None:
    """An exported commit is checked out byte for byte, whatever the user's line endings."""
    git(folder, "config", "--global", "core.autocrlf", "true")
    repo = GitRepo(folder)

    repo.export(made(repo, {"b": b"one\n"}), tmp_path / "clone")

    assert (tmp_path / "clone" / "b").read_bytes() == b"one\n"


@pytest.mark.parametrize(
    ("prepare", "says"),
    [
        (lambda p: p.mkdir(), "no git repository"),
        (lambda p: git(p.parent, "init", "-q", "--bare", str(p)), "bare"),
    ],
)
def test_places_that_are_no_checkout(tmp_path: Path, prepare: Callable[[Path], object], says: str) -> None:
    """A folder without a repository and a bare one are refused with the reason."""
    prepare(tmp_path / "place")

    with pytest.raises(CakeError, match=says) as error:
        GitRepo(tmp_path / "place")

    assert error.value.exit_code is Exit.ENVIRONMENT


def test_repository_without_a_commit(tmp_path: Path) -> None:
    """There is no base to build on before the first commit."""
    git(tmp_path, "init", "-q")

    with pytest.raises(CakeError, match="no commit yet"):
        GitRepo(tmp_path).head()


def test_person_needs_an_identity_that_is_not_the_bots(folder: Path) -> None:
    """Nobody, and the bot, are refused as reviewers."""
    assert GitRepo(folder).person().email == "person@example.org"
    git(folder, "config", "user.email", BOT_EMAIL.upper())
    with pytest.raises(CakeError, match="is the bot") as error:
        GitRepo(folder).person()
    assert error.value.exit_code is Exit.USAGE
    git(folder, "config", "--unset", "user.email")
    git(folder, "config", "--unset", "user.name")
    with pytest.raises(CakeError, match="does not know who you are"):
        GitRepo(folder).person()


def test_variables_of_a_calling_hook_lead_nowhere(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GIT_DIR and GIT_INDEX_FILE of a caller do not redirect what is read and written."""
    head = GitRepo(folder).head()
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "index"))

    assert GitRepo(folder).head() == head
    assert not (tmp_path / "index").exists()


def test_shallow_clone_can_be_built_on(folder: Path, tmp_path: Path) -> None:
    """A shallow clone has a base commit, and takes a branch."""
    (folder / "c").write_text("c")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "second")
    git(tmp_path, "clone", "-q", "--depth", "1", f"file://{folder}", "shallow")
    repo = GitRepo(tmp_path / "shallow")

    repo.set_branch("cake/rule/x", made(repo, {"b": b"b"}), None)

    assert repo.is_shallow()
    assert len(repo.commits_between("HEAD", "cake/rule/x")) == 1
