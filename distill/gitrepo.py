"""Git by plumbing: commits and branches without touching anybody's checkout, index, hooks, signing or line endings.

A bot commit is built from blobs, a tree in a scratch index and `commit-tree`, and becomes visible by one `update-ref`.
Until that last step nothing refers to what was written, so that a kill at any moment leaves the repository as it was.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cake.core.errors import CakeError, Exit

# GitPython must not fail on import where git is missing: `GitRepo` says it in one sentence.
os.environ.setdefault("GIT_PYTHON_REFRESH", "quiet")
from git import Git

BOT_NAME: Final = "cake-distill"
BOT_EMAIL: Final = "distill@cake.invalid"
BRANCH_PREFIX: Final = "cake/rule/"

#: Settings of the user that could change what a commit contains or what runs when it is made. Line endings need none:
#: blobs are hashed without filters, and the user's own checkout keeps the user's own conversion.
_NEUTRAL: Final = {
    "core.hooksPath": os.devnull,
    "core.fsmonitor": "false",
    "core.quotePath": "false",
    "commit.gpgSign": "false",
    "tag.gpgSign": "false",
    "log.showSignature": "false",
    "i18n.commitEncoding": "utf-8",
    "i18n.logOutputEncoding": "utf-8",
    "gc.auto": "0",
    "maintenance.auto": "false",
}
#: Variables that a calling hook or script may have set, and that would point git at another repository.
_FOREIGN: Final = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_COMMON_DIR", "GIT_PREFIX")


@dataclass(frozen=True, slots=True)
class Identity:
    """Who signs a commit, and when (`date` as `<seconds since 1970> <+hhmm>`)."""

    name: str
    email: str
    date: str

    def environment(self) -> dict[str, str]:
        """The variables that make git use it as author and committer."""
        return {
            f"GIT_{who}_{what}": value
            for who in ("AUTHOR", "COMMITTER")
            for what, value in (("NAME", self.name), ("EMAIL", self.email), ("DATE", self.date))
        }


@dataclass(frozen=True, slots=True)
class CommitInfo:
    """What one commit says of itself. `parents` are full hashes; `tree` is its tree's hash."""

    commit: str
    tree: str
    parents: tuple[str, ...]
    author_email: str
    committer_email: str
    date: str
    message: str

    @property
    def by_bot(self) -> bool:
        """Whether the bot wrote and committed it."""
        return self.author_email == BOT_EMAIL and self.committer_email == BOT_EMAIL

    def trailer(self, key: str) -> str:
        """The value of the last `key: value` line of the message, or an empty string."""
        lines = [line for line in self.message.splitlines() if line.startswith(f"{key}: ")]
        return lines[-1].removeprefix(f"{key}: ").strip() if lines else ""


class _GitError(Exception):
    """git said no; its text is what git said."""


class GitRepo:
    """The repository that holds `path`. Raises CakeError (environment) when there is none to work with."""

    def __init__(self, path: Path) -> None:
        self._folder = Path(path)
        try:
            bare = self._run(["rev-parse", "--is-bare-repository"]) == "true"
            self.git_dir = Path(path, self._run(["rev-parse", "--git-dir"])).resolve()
            self.root = Path(path).resolve() if bare else Path(self._run(["rev-parse", "--show-toplevel"])).resolve()
        except FileNotFoundError as error:
            missing = "git is not installed, or not on PATH" if self._folder.is_dir() else f"{path}: no such folder"
            raise CakeError(missing, Exit.ENVIRONMENT) from error
        except (_GitError, OSError) as error:
            reason = "a git repository that belongs to another user" if "dubious" in str(error) else "no git repository"
            raise CakeError(f"{path} is {reason}; name a Cake repository with --repo", Exit.ENVIRONMENT) from error
        if bare:
            raise CakeError(f"{self.root} is a bare repository; run in a clone that has a checkout", Exit.ENVIRONMENT)
        self._folder = self.root

    # ------------------------------------------------------------------------------------------------------- running

    def _run(self, args: Sequence[str], *, env: Mapping[str, str] | None = None, stdin: bytes = b"") -> str:
        """What git prints, without the last line end."""
        return self._bytes(args, env=env, stdin=stdin).decode(errors="surrogateescape").removesuffix("\n")

    def _bytes(self, args: Sequence[str], *, env: Mapping[str, str] | None = None, stdin: bytes = b"") -> bytes:
        config = [part for key, value in _NEUTRAL.items() for part in ("-c", f"{key}={value}")]
        extra = {"LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0", **(env or {})}
        if not self._folder.is_dir() or shutil.which("git") is None:
            raise FileNotFoundError(self._folder)
        # GitPython adds to the environment and cannot take away: `env` unsets what would lead to another repository.
        unset = [part for name in _FOREIGN if name in os.environ for part in ("-u", name)]
        command = [*(["env", *unset] if unset else []), "git", *config, *args]
        with tempfile.TemporaryFile() as given:
            given.write(stdin)
            given.seek(0)
            status, out, said = Git(self._folder).execute(
                command,
                istream=given,
                env=extra,
                with_extended_output=True,
                with_exceptions=False,
                stdout_as_string=False,
                strip_newline_in_stdout=False,
            )
        if status:
            raise _GitError(said)
        assert isinstance(out, bytes)
        return out

    def read(self, *args: str) -> str:
        """What `git <args>` prints. Raises CakeError (environment) when it fails."""
        try:
            return self._run(args)
        except _GitError as error:
            said = next(iter(str(error).splitlines()), "it does not say why")
            raise CakeError(f"git {args[0]} failed: {said}", Exit.ENVIRONMENT) from error

    # ------------------------------------------------------------------------------------------------------- reading

    def head(self) -> str:
        """The commit that is checked out. Raises CakeError when there is none yet."""
        commit = self.resolve("HEAD")
        if commit is None:
            raise CakeError(f"{self.root} has no commit yet; make a first one", Exit.ENVIRONMENT)
        return commit

    def resolve(self, ref: str) -> str | None:
        """The commit that `ref` names, or None."""
        try:
            return self._run(["rev-parse", "--verify", "--quiet", f"{ref}^{{commit}}"])
        except _GitError:
            return None

    def current_branch(self) -> str | None:
        """The branch that is checked out, or None when the checkout is detached."""
        try:
            return self._run(["symbolic-ref", "--quiet", "--short", "HEAD"])
        except _GitError:
            return None

    def info(self, commit: str) -> CommitInfo:
        """What `commit` says of itself."""
        text = self.read("show", "--no-patch", "--format=%H%x00%T%x00%P%x00%ae%x00%ce%x00%ct +0000%x00%B", commit)
        full, tree, parents, author, committer, date, message = text.split("\0", 6)
        return CommitInfo(full, tree, tuple(parents.split()), author, committer, date, message.strip())

    def branches(self, prefix: str = BRANCH_PREFIX) -> dict[str, str]:
        """Local branches whose name starts with `prefix`, with their tips, by name."""
        text = self.read("for-each-ref", "--format=%(refname:short) %(objectname)", f"refs/heads/{prefix}")
        return dict(line.split(" ") for line in text.splitlines())

    def checked_out(self) -> frozenset[str]:
        """Branches that some worktree of this repository has checked out."""
        lines = self.read("worktree", "list", "--porcelain").splitlines()
        return frozenset(x.removeprefix("branch refs/heads/") for x in lines if x.startswith("branch "))

    def commits_between(self, base: str, tip: str) -> tuple[str, ...]:
        """Commits that `tip` has and `base` has not, newest first."""
        return tuple(self.read("rev-list", tip, f"^{base}").split())

    def is_shallow(self) -> bool:
        """Whether history is cut off."""
        return self.read("rev-parse", "--is-shallow-repository") == "true"

    def file(self, commit: str, path: str) -> bytes | None:
        """The contents of `path` in `commit`, or None when it has no such file."""
        try:
            return self._bytes(["cat-file", "blob", f"{commit}:{path}"])
        except _GitError:
            return None

    def listing(self, commit: str, folder: str = "") -> tuple[str, ...]:
        """Paths of all files in `commit` below `folder`."""
        args = ["ls-tree", "-r", "-z", "--name-only", commit, *(["--", folder] if folder else [])]
        return tuple(p for p in self.read(*args).split("\0") if p)

    def changed(self, base: str, tip: str) -> dict[str, str]:
        """Paths that differ between two commits, each with its status letter (A, M, D, T; renames are not followed)."""
        parts = self.read("diff-tree", "-r", "-z", "--no-renames", "--name-status", base, tip).split("\0")
        return dict(zip(parts[1::2], parts[0::2], strict=False))

    def dirty(self, *folders: str) -> tuple[str, ...]:
        """Paths of the checkout that differ from HEAD, untracked ones included, below `folders` (all if none)."""
        out = self.read("status", "--porcelain=v1", "-z", "--no-renames", "--untracked-files=all", "--", *folders)
        return tuple(sorted(entry[3:] for entry in out.split("\0") if entry))

    def person(self) -> Identity:
        """The user's git identity, now. Raises CakeError (environment) when none is configured, or it is the bot's."""
        try:
            ident = self._run(["-c", "user.useConfigOnly=true", "var", "GIT_COMMITTER_IDENT"])
        except _GitError as error:
            raise CakeError(
                "git does not know who you are; run git config user.name and git config user.email", Exit.ENVIRONMENT
            ) from error
        who, _, date = ident.rpartition("> ")
        name, _, email = who.partition(" <")
        if email.strip().lower() == BOT_EMAIL or name.strip().lower() == BOT_NAME:
            raise CakeError(f"{name} <{email}> is the bot: a person has to review", Exit.USAGE)
        return Identity(name, email, date)

    # ------------------------------------------------------------------------------------------------------- writing

    def tree_with(self, base: str, files: Mapping[str, bytes]) -> str:
        """Hash of the tree of `base` with `files` added or replaced. Writes objects only."""
        for left in self.git_dir.glob("cake-index-*"):  # by a process that was killed: one at a time works here
            shutil.rmtree(left, ignore_errors=True)
        with tempfile.TemporaryDirectory(prefix="cake-index-", dir=self.git_dir) as scratch:
            env = {"GIT_INDEX_FILE": str(Path(scratch, "index"))}
            self._run(["read-tree", base], env=env)
            entries = [f"100644 {self.blob(data)}\t{path}" for path, data in sorted(files.items())]
            self._run(["update-index", "-z", "--index-info"], env=env, stdin=("\0".join(entries) + "\0").encode())
            return self._run(["write-tree"], env=env)

    def blob(self, data: bytes) -> str:
        """Hash of a blob with exactly these bytes: no filter and no line-ending conversion touches them."""
        return self._run(["hash-object", "-w", "--no-filters", "--stdin"], stdin=data)

    def commit(self, tree: str, parents: Sequence[str], message: str, who: Identity) -> str:
        """Hash of a new, unsigned commit that no ref names yet."""
        args = ["commit-tree", "--no-gpg-sign", *(part for p in parents for part in ("-p", p)), tree]
        return self._run(args, env=who.environment(), stdin=message.encode())

    def set_branch(self, name: str, new: str, old: str | None) -> None:
        """Point branch `name` at `new`, provided that it still is at `old` (None: does not exist)."""
        self.read("update-ref", "-m", "cake: proposal", f"refs/heads/{name}", new, old or "0" * len(new))

    def delete_branch(self, name: str, old: str) -> None:
        """Delete branch `name`, provided that it still is at `old`."""
        self.read("update-ref", "-d", f"refs/heads/{name}", old)

    def fast_forward(self, commit: str) -> None:
        """Move the current branch, its index and its checkout forward to `commit`, a descendant of HEAD."""
        self.read("merge", "--ff-only", "--quiet", commit)

    def export(self, commit: str, folder: Path) -> None:
        """A clone at `folder` that shares this repository's objects; `commit` is checked out, byte for byte."""
        self.read("clone", "--quiet", "--shared", "--no-checkout", "--no-tags", str(self.root), str(folder))
        clone = GitRepo(folder)
        clone.read("config", "core.autocrlf", "false")
        clone.read("checkout", "--quiet", "--detach", commit)


def bot(date: str) -> Identity:
    """The bot, at `date`."""
    return Identity(BOT_NAME, BOT_EMAIL, date)
