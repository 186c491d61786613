"""Proposals: a rule with its files, as one deterministic commit by the bot on a branch of its own.

A branch is a pure function of (finding, base commit). It is rebuilt when the base moves, never rebased, never where a
person has added a commit, and never where a worktree has it checked out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from cake.core.errors import CakeError, Exit
from distill.gitrepo import BRANCH_PREFIX, CommitInfo, GitRepo, bot
from distill.ledger import LEDGER, Decision, parse

KIND_RULE: Final = "rule"
#: Where the bot may add files. It may change none, and nothing else is its to touch.
ALLOWED: Final = ("cake/plugins/", "corpus/", "proposals/", "tests/")
TRAILER: Final = "Cake-Proposal"


@dataclass(frozen=True, slots=True)
class Proposal:
    """One rule to propose. `files` holds the bytes of every file it adds, by path; `summary` is the commit's first line
    and `body` its text; `gates` counts passed and run gates; `evidence` is the hash of its evidence file."""

    slug: str
    code: str
    name: str
    summary: str
    body: str
    files: Mapping[str, bytes]
    evidence: str
    gates: str
    fingerprint: str
    kind: str = KIND_RULE

    @property
    def branch(self) -> str:
        """Its branch."""
        return f"{BRANCH_PREFIX}{self.code.lower()}-{self.name}"

    def message(self) -> str:
        """The commit message, trailers last."""
        trailers = {
            TRAILER: self.slug,
            "Cake-Evidence": self.evidence,
            "Cake-Gates": self.gates,
            "Cake-Rule": self.fingerprint,
        }
        return "\n".join((self.summary, "", self.body, "", *(f"{k}: {v}" for k, v in trailers.items()))) + "\n"


class State(StrEnum):
    """What became of a proposal in a run."""

    PROPOSED = "proposed"
    REBUILT = "rebuilt"
    UNCHANGED = "unchanged"
    EDITED = "edited"
    CHECKED_OUT = "checked out"
    LIMIT = "limit"
    OCCUPIED = "branch exists"
    DRY_RUN = "dry run"


@dataclass(frozen=True, slots=True)
class Outcome:
    """A proposal's state, its branch and the branch's tip (empty where there is none), and a sentence that says why."""

    proposal: Proposal
    state: State
    branch: str
    tip: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Branch:
    """A proposal branch as it stands: `base` is the commit that its first own commit was built on, `commits` are its
    own commits (newest first), `edited` says that a person wrote one of them."""

    name: str
    tip: str
    base: str
    slug: str
    commits: tuple[CommitInfo, ...]

    @property
    def edited(self) -> bool:
        """Whether a person has added or changed a commit."""
        return any(not c.by_bot for c in self.commits)

    @property
    def first(self) -> CommitInfo:
        """The oldest own commit: the bot's."""
        return self.commits[-1]


def open_branches(git: GitRepo) -> dict[str, Branch]:
    """All proposal branches by name, without those that are merged or decided otherwise."""
    head = git.head()
    decided = {d.slug for d in decisions(git, head)}
    found: dict[str, Branch] = {}
    for name, tip in git.branches().items():
        commits = tuple(git.info(c) for c in git.commits_between(head, tip))
        if commits:
            first = commits[-1]
            base = first.parents[0] if first.parents else ""
            branch = Branch(name, tip, base, first.trailer(TRAILER), commits)
            if branch.slug not in decided:
                found[name] = branch
    return found


def decisions(git: GitRepo, commit: str) -> tuple[Decision, ...]:
    """The ledger in `commit`."""
    data = git.file(commit, LEDGER)
    return parse(data.decode()) if data else ()


def next_code(family: str, used: Iterable[str]) -> str:
    """The smallest code of `family` that is not `used`. Raises CakeError when all 999 are."""
    taken = {c.upper() for c in used}
    for number in range(1, 1000):
        code = f"{family}{number:03d}"
        if code not in taken:
            return code
    raise CakeError(f"all codes of family {family} are taken", Exit.ENVIRONMENT)


def ledger_codes(rows: Iterable[Decision]) -> frozenset[str]:
    """The codes that decided proposals carried: none is ever used for another rule."""
    return frozenset(d.branch.removeprefix(BRANCH_PREFIX).partition("-")[0].upper() for d in rows)


def check_paths(changes: Mapping[str, str]) -> tuple[str, ...]:
    """Why these changes (path -> status letter) are not for a bot to make; empty when they are."""
    found = []
    for path, status in sorted(changes.items()):
        if not path.startswith(ALLOWED):
            found.append(f"{path} is outside {', '.join(ALLOWED)}")
        elif status != "A":
            found.append(f"{path} exists already: a bot only adds files")
    return tuple(found)


def build(git: GitRepo, base: str, proposal: Proposal) -> str:
    """The commit of `proposal` on `base`. Raises CakeError when it holds what a bot may not touch."""
    tree = git.tree_with(base, proposal.files)
    commit = git.commit(tree, [base], proposal.message(), bot(git.info(base).date))
    if wrong := check_paths(git.changed(base, commit)):
        raise CakeError(f"proposal {proposal.slug} cannot be made: {wrong[0]}", Exit.ENVIRONMENT)
    return commit


def propose(git: GitRepo, base: str, proposals: Sequence[Proposal], max_open: int) -> tuple[Outcome, ...]:
    """Bring the proposal branches up to date with `proposals`, best first, keeping at most `max_open` open."""
    branches = open_branches(git)
    taken = git.checked_out()
    wanted = {p.slug for p in proposals}
    count = len(branches)
    done: list[Outcome] = []
    for proposal in proposals:
        mine = [b for b in branches.values() if b.slug == proposal.slug]
        blocked = [b for b in mine if b.edited or b.name in taken]
        if blocked:
            b = blocked[0]
            state = State.EDITED if b.edited else State.CHECKED_OUT
            why = "a person has worked on it" if b.edited else "a worktree has it checked out"
            done.append(Outcome(proposal, state, b.name, b.tip, f"left as it is: {why}"))
            continue
        name, tip = proposal.branch, git.branches().get(proposal.branch)
        other = branches.get(name)
        if tip is not None and name not in {b.name for b in mine}:
            if other is None or other.edited or name in taken or other.slug in wanted or not other.slug:
                done.append(Outcome(proposal, State.OCCUPIED, name, tip, "a branch of this name is something else"))
                continue
        elif not mine and count >= max_open:
            done.append(Outcome(proposal, State.LIMIT, "", "", f"{max_open} proposals are open; decide some first"))
            continue
        commit = build(git, base, proposal)
        if tip == commit:
            state = State.UNCHANGED
        else:
            git.set_branch(name, commit, tip)
            state = State.REBUILT if mine else State.PROPOSED
        count += not mine and other is None
        for b in mine:
            if b.name != name:
                git.delete_branch(b.name, b.tip)
        done.append(Outcome(proposal, state, name, commit))
    return tuple(done)
