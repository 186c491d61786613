"""Review: what is open, what it says, its gates, and the two decisions that only a person can take."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from cake.core.diagnostics import Verdict
from cake.core.errors import CakeError, Exit
from distill import ledger
from distill.gates import GateLine, parse_gates
from distill.gitrepo import BRANCH_PREFIX, GitRepo, Identity
from distill.ledger import Decision
from distill.proposals import KIND_RULE, TRAILER, Branch, check_paths, decisions, open_branches
from distill.store import exclusive, write_atomic

WORK: Final = ".cake"
#: What the merge commit adds to the proposal's folder: the report that the reviewer had.
REPORT: Final = "report.jsonl"

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the list. `state` is open, stale (its base is not HEAD), edited (a person has worked on it), or a
    decision; `gates` is `passed/run` of the freshest report, and `report` says which one that is."""

    slug: str
    code: str
    kind: str
    state: str
    branch: str
    tip: str
    base: str
    gates: str
    report: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class View:
    """One proposal to read: its row, PROPOSAL.md, the rule's text, its gates and the files that it adds."""

    row: Row
    text: str
    rule: str
    gates: tuple[GateLine, ...]
    files: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Report:
    """The merge tier's gates for one tip on one base. `sha256` is the hash of the file that holds it."""

    slug: str
    branch: str
    tip: str
    base: str
    gates: tuple[GateLine, ...]
    sha256: str = ""

    @property
    def red(self) -> tuple[GateLine, ...]:
        """The gates that did not pass; `unknown` is no pass."""
        return tuple(g for g in self.gates if g.verdict != Verdict.PASS)

    def text(self) -> str:
        """One JSON object a line; the first names what was judged."""
        head = {"slug": self.slug, "branch": self.branch, "tip": self.tip, "base": self.base}
        return "\n".join((json.dumps(head, sort_keys=True), *(g.line() for g in self.gates))) + "\n"


def read_report(data: bytes) -> Report:
    """A report as `Report.text` writes it. Raises ValueError or KeyError for anything else."""
    head, _, rest = data.decode().partition("\n")
    row = json.loads(head)
    gates = parse_gates(rest)
    return Report(row["slug"], row["branch"], row["tip"], row["base"], gates, hashlib.sha256(data).hexdigest())


def _code(branch: str) -> str:
    return branch.removeprefix(BRANCH_PREFIX).partition("-")[0].upper()


def _report_path(git: GitRepo, slug: str) -> Path:
    return git.root / WORK / "proposals" / slug / REPORT


def _stored(git: GitRepo, branch: Branch) -> Report | None:
    """The merge-tier report of this very tip, if there is one."""
    try:
        report = read_report(_report_path(git, branch.slug).read_bytes())
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return report if report.tip == branch.tip and report.base == branch.base else None


def _proposed_gates(git: GitRepo, branch: Branch) -> tuple[GateLine, ...]:
    data = git.file(branch.tip, f"proposals/{branch.slug}/gates.jsonl")
    try:
        return parse_gates(data.decode()) if data else ()
    except (ValueError, KeyError, TypeError):
        return ()


def _row(git: GitRepo, branch: Branch, head: str) -> Row:
    report = _stored(git, branch)
    gates = report.gates if report else _proposed_gates(git, branch)
    passed = sum(g.verdict == Verdict.PASS for g in gates)
    state = "edited" if branch.edited else "open" if branch.base == head else "stale"
    why = "" if branch.base == head else "its base is not HEAD: run `cake distill run` to rebuild it here"
    name = "merge" if report else "propose"
    return Row(
        branch.slug, _code(branch.name), KIND_RULE, state, branch.name, branch.tip, branch.base,
        f"{passed}/{len(gates)}", name, why,
    )  # fmt: skip


def list_proposals(repo: Path) -> tuple[Row, ...]:
    """Open proposals by branch, then decided ones in the ledger's order."""
    git = GitRepo(repo)
    head = git.head()
    rows = [_row(git, b, head) for b in open_branches(git).values()]
    for d in decisions(git, head):
        rows.append(Row(d.slug, _code(d.branch), d.kind, d.decision, d.branch, "", d.base, "", "", d.reason))
    return tuple(rows)


def find(git: GitRepo, name: str) -> Branch:
    """The open proposal that `name` (a slug, a branch, a code, or the start of one of them) means.

    Raises CakeError when none or several do."""
    branches = open_branches(git)
    wanted = name.lower()
    exact = [b for b in branches.values() if wanted in (b.slug, b.name, _code(b.name).lower())]
    found = exact or [
        b
        for b in branches.values()
        if b.slug.startswith(wanted) or b.name.removeprefix(BRANCH_PREFIX).startswith(wanted)
    ]
    if len(found) == 1:
        return found[0]
    known = ", ".join(sorted(b.slug for b in branches.values())) or "none"
    decided = ledger.latest(decisions(git, git.head())).get(name)
    if decided is not None:
        raise CakeError(f"{name} was {decided.decision} by {decided.reviewer}: {decided.reason or 'no reason given'}")
    raise CakeError(f"{name!r} names {'several' if found else 'no'} open proposals; open are: {known}")


def show(repo: Path, name: str) -> View:
    """One open proposal, to be read."""
    git = GitRepo(repo)
    branch = find(git, name)
    files = tuple(sorted(git.changed(branch.base, branch.tip)))
    rule = next((f for f in files if f.startswith("cake/plugins/rules/")), "")
    report = _stored(git, branch)
    return View(
        _row(git, branch, git.head()),
        (git.file(branch.tip, f"proposals/{branch.slug}/PROPOSAL.md") or b"").decode(),
        (git.file(branch.tip, rule) or b"").decode() if rule else "",
        report.gates if report else _proposed_gates(git, branch),
        files,
    )


def gate(repo: Path, name: str, progress: Progress | None = None) -> Report:
    """Run every gate of the merge tier on an open proposal, and keep the report for `merge`."""
    from distill.gates_merge import run_gates

    git = GitRepo(repo)
    branch = find(git, name)
    _expect_current(git, branch)
    with exclusive(git.root / WORK / "distill"):
        gates = run_gates(git, branch, git.root / WORK / "proposals" / branch.slug, progress or (lambda note: None))
        report = Report(branch.slug, branch.name, branch.tip, branch.base, gates)
        data = report.text().encode()
        write_atomic(_report_path(git, branch.slug), data)
    return read_report(data)


def _expect_current(git: GitRepo, branch: Branch) -> None:
    if branch.base != git.head():
        raise CakeError(
            f"{branch.name} was built on {branch.base[:12]}, and HEAD is {git.head()[:12]}: the base has moved; "
            "run `cake distill run` to rebuild it here"
        )
    if not branch.slug:
        raise CakeError(f"{branch.name} has no {TRAILER} trailer: the distiller did not make it")


def merge(repo: Path, name: str, reason: str = "") -> Decision:
    """Merge an open proposal into the branch that is checked out, by a merge commit of the person who asks.

    Raises CakeError: environment when the checkout is detached or dirty or git knows no identity; usage when the
    reviewer is the bot, the base has moved, the report is missing, stale or red, or the bot's commit touches what is
    not a bot's to touch.
    """
    git = GitRepo(repo)
    with exclusive(git.root / WORK / "distill"):
        person = _ready(git)
        branch = find(git, name)
        _expect_current(git, branch)
        if wrong := check_paths(git.changed(branch.base, branch.first.commit)):
            raise CakeError(f"{branch.name} is refused: {wrong[0]}")
        report = _stored(git, branch)
        if report is None:
            raise CakeError(f"{branch.slug} has no gate report for its tip; run `cake proposals gate {branch.slug}`")
        if report.red:
            g = report.red[0]
            raise CakeError(f"{branch.slug}: gate {g.gate} is {g.verdict}: {g.detail}")
        rows = [_decision(branch, "merged", person, reason, report.sha256)]
        rows += _superseded(git, branch, person)
        files = _records(git, branch.base, rows) | {f"proposals/{branch.slug}/{REPORT}": report.text().encode()}
        tree = git.tree_with(branch.tip, files)
        title = branch.first.message.splitlines()[0]
        message = (
            f"Merge {branch.name}\n\n{title}\n{reason}\n\n{TRAILER}: {branch.slug}\nCake-Report: {report.sha256}\n"
        )
        commit = git.commit(tree, [branch.base, branch.tip], message, person)
        git.fast_forward(commit)
        _clean_up(git, rows)
    return rows[0]


def reject(repo: Path, name: str, reason: str) -> Decision:
    """Record that an open proposal is turned down, and why, in a commit of the person who asks; its branch goes.

    It stays rejected until new evidence changes the rule. Raises CakeError as `merge` does."""
    if not reason.strip():
        raise CakeError("a rejection needs a reason: the next reader, and the distiller's authors, learn from it")
    git = GitRepo(repo)
    with exclusive(git.root / WORK / "distill"):
        person = _ready(git)
        branch = find(git, name)
        report = _stored(git, branch)
        row = _decision(branch, "rejected", person, reason, report.sha256 if report else "")
        head = git.head()
        tree = git.tree_with(head, _records(git, head, [row]))
        message = f"Reject {branch.name}\n\n{reason}\n\n{TRAILER}: {branch.slug}\n"
        git.fast_forward(git.commit(tree, [head], message, person))
        _clean_up(git, [row])
    return row


def _ready(git: GitRepo) -> Identity:
    """Who decides. Raises CakeError unless a branch of the person's own is checked out, and clean."""
    into = git.current_branch()
    if into is None:
        raise CakeError("HEAD is detached; check out the branch that should receive the decision", Exit.ENVIRONMENT)
    if into.startswith(BRANCH_PREFIX):
        raise CakeError(f"{into} is a proposal itself; check out the branch that should receive the decision")
    person = git.person()
    if dirty := git.dirty():
        more = f" and {len(dirty) - 1} more" if len(dirty) > 1 else ""
        raise CakeError(f"the checkout has changes ({dirty[0]}{more}); commit or stash them first", Exit.ENVIRONMENT)
    return person


def _decision(branch: Branch, decision: str, person: Identity, reason: str, report: str) -> Decision:
    who = f"{person.name} <{person.email}>"
    return Decision(branch.slug, KIND_RULE, decision, who, reason, branch.base, branch.name, report)


def _superseded(git: GitRepo, merged: Branch, person: Identity) -> list[Decision]:
    """Other open proposals whose failing program the merged rule flags, and whose repaired program it does not."""
    from distill.gates_merge import explains

    found = []
    for branch in open_branches(git).values():
        if branch.name != merged.name and branch.slug and not branch.edited and explains(git, merged, branch):
            found.append(_decision(branch, "superseded", person, f"{_code(merged.name)} explains it", ""))
    return found


def _records(git: GitRepo, base: str, rows: list[Decision]) -> dict[str, bytes]:
    before = (git.file(base, ledger.LEDGER) or b"").decode()
    text = ledger.append(before, rows)
    return {ledger.LEDGER: text.encode(), ledger.INDEX: ledger.index(ledger.parse(text)).encode()}


def _clean_up(git: GitRepo, rows: list[Decision]) -> None:
    """Delete the branches of rejected and superseded proposals, unless a person's work would go with them."""
    taken, tips = git.checked_out(), git.branches()
    for row in rows:
        tip = tips.get(row.branch)
        if row.decision == "merged" or tip is None or row.branch in taken:
            continue
        if all(git.info(c).by_bot for c in git.commits_between(row.base, tip)):
            git.delete_branch(row.branch, tip)


# --------------------------------------------------------------------------------------------------------------- replay


@dataclass(frozen=True, slots=True)
class Replay:
    """What distilling again from a merge's base gave: the tree of the merged branch, and the tree found this time
    (empty when no such branch was proposed)."""

    branch: str
    base: str
    expected: str
    found: str

    @property
    def same(self) -> bool:
        """Whether the trees are equal, hash for hash."""
        return self.expected == self.found


def replay(repo: Path, merge_commit: str, log: str, limit: float = 900.0) -> Replay:
    """Distil `log` (a path in the repository) again in a clone at the base of a merge, with the code of that base.

    Raises CakeError when the commit is no merge of a proposal, or the distiller fails there."""
    git = GitRepo(repo)
    merged = git.info(git.resolve(merge_commit) or merge_commit)
    slug = merged.trailer(TRAILER)
    if len(merged.parents) != 2 or not slug:
        raise CakeError(f"{merge_commit} merges no proposal")
    row = ledger.latest(decisions(git, merged.commit)).get(slug)
    if row is None:
        raise CakeError(f"the ledger in {merge_commit} has no decision about {slug}", Exit.ENVIRONMENT)
    proposed = git.info(git.commits_between(row.base, merged.parents[1])[-1])
    with tempfile.TemporaryDirectory(prefix="cake-replay-") as scratch:
        clone = Path(scratch, "clone")
        git.export(row.base, clone)
        kept = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
        command = [sys.executable, "-m", "cake.cli", "distill", "run", log, "--repo", str(clone)]
        done = subprocess.run(
            command, cwd=clone, env={**kept, "PYTHONPATH": str(clone)}, capture_output=True, text=True, timeout=limit
        )
        if done.returncode not in (Exit.CLEAN, Exit.FINDINGS):
            raise CakeError(f"distilling at {row.base[:12]} failed: {done.stderr.strip()[-400:]}", Exit.ENVIRONMENT)
        tip = GitRepo(clone).branches().get(row.branch)
        found = GitRepo(clone).info(tip).tree if tip else ""
    return Replay(row.branch, row.base, proposed.tree, found)


def as_rows(rows: tuple[Row, ...]) -> list[dict[str, str]]:
    """Rows as plain dictionaries, for `--json`."""
    return [asdict(r) for r in rows]
