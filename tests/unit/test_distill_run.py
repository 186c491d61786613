"""`cake distill run` as a process: killed anywhere, in any repository, on any log, it loses nothing."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from cake.cli.app import run
from cake.core.errors import Exit
from cake.core.evidence import EvidenceWriter, Origin, Record
from cake.core.programs import text_hash
from tests.unit.small_repo import FAULTS, NAME, distil, git, good_program, make_repo, write_log

pytestmark = pytest.mark.gates
Capture = pytest.CaptureFixture[str]

#: Where to end a run, in the order in which a run that goes on gets there.
PLACES = (
    "write ingest.json",
    "survey 1/*",
    "write survey.pickle",
    "study 1:*",
    "write *-0.pickle",
    "write *.jsonl",
    "study 2:*",
    "blob 3",
    "commit 1",
    "set_branch 1",
    "set_branch 2",
    "write report.json",
)
#: What Ctrl-C makes it say, below the line on which a terminal shows ^C.
INTERRUPTED = "\nerror: interrupted; what was written before is intact\n"


@dataclass(frozen=True, slots=True)
class Whole:
    """A repository and a log, and the branches that a run makes which nothing disturbs."""

    repo: Path
    log: Path
    branches: dict[str, str]

    def clone(self, folder: Path, *options: str) -> Path:
        """A clone of the repository as it was before the run."""
        git(folder, "clone", "-q", *options, f"file://{self.repo}", "clone")
        return folder / "clone"


def branches(repo: Path) -> dict[str, str]:
    """Local proposal branches and their tips."""
    lines = git(repo, "for-each-ref", "--format=%(refname:short) %(objectname)", "refs/heads/cake/").splitlines()
    return dict(line.split(" ") for line in lines)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Whole:
    """An undisturbed run, without a GPU, a compiler or PyTorch: a rule for each of the two faults."""
    folder = tmp_path_factory.mktemp("whole")
    repo, log = make_repo(folder / "repo"), write_log(folder / "log")

    code, out, err = distil(repo, log)

    assert (code, err) == (Exit.CLEAN, "")
    assert "2 new proposals" in out
    found = branches(repo)
    assert len(found) == 2
    return Whole(repo, log, found)


# ------------------------------------------------------------------------------------------------------------- how much


def test_a_clean_log_proposes_nothing(whole: Whole, tmp_path: Path) -> None:
    """Programs that ran right are nothing to learn from."""
    repo, text = whole.clone(tmp_path), good_program()
    with EvidenceWriter(tmp_path / "log" / "records.jsonl") as log:
        for labeller in ("gpu", "simulator"):
            log.append(Record(text_hash(text), "ok", "run", NAME, origin=Origin(labeller=labeller)), text)

    code, out, _ = distil(repo, tmp_path / "log")

    assert code == Exit.CLEAN
    assert "2 records, 0 of them failures" in out
    assert "nothing new to propose" in out
    assert branches(repo) == {}


def test_a_second_run_proposes_nothing_new(whole: Whole, tmp_path: Path) -> None:
    """The branches stand as they are."""
    repo = whole.clone(tmp_path)
    assert "2 new proposals" in distil(repo, whole.log)[1]
    _, out, _ = distil(repo, whole.log)
    assert "nothing new to propose" in out
    assert branches(repo) == whole.branches


def test_what_a_run_leaves_out_is_said(whole: Whole, tmp_path: Path) -> None:
    """One group, or one rule, is enough when asked for; the rest is counted, with the option that left it out. A dry
    run studies everything, whatever may be open, and makes no branch."""
    repo = whole.clone(tmp_path)
    _, out, _ = distil(repo, whole.log, "--max-studies", "1", "--dry-run")
    assert "not studied: this run stops after 1 group (--max-studies)" in out
    _, out, _ = distil(repo, whole.log, "--max-open", "1", "--dry-run")
    assert "not studied" not in out
    assert out.count("dry run") == 2
    assert branches(repo) == {}
    _, out, _ = distil(repo, whole.log, "--max-open", "1")
    assert "not studied: 1 rule is enough for one run (--max-open)" in out
    assert len(branches(repo)) == 1


# ---------------------------------------------------------------------------------------------------------- interrupted


@pytest.mark.parametrize(
    ("action", "places", "status", "says"),
    [
        ("kill", PLACES, -signal.SIGKILL, ""),
        ("interrupt", PLACES[1::2], Exit.INTERRUPTED, INTERRUPTED),
    ],
    ids=["kill", "interrupt"],
)
def test_a_run_that_is_ended_anywhere_goes_on(
    action: str, places: tuple[str, ...], status: int, says: str, whole: Whole, tmp_path: Path
) -> None:
    """Ended at one place after the other by `kill -9`, or by Ctrl-C in a terminal, a run leaves no process, no lock and
    no branch that is not whole; in the end everything is as if it had never been disturbed."""
    repo = whole.clone(tmp_path)
    head = git(repo, "rev-parse", "HEAD")

    for place in places:
        assert distil(repo, whole.log, place=place, action=action) == (status, "", says), place
        assert branches(repo).items() <= whole.branches.items(), place
        assert (git(repo, "rev-parse", "HEAD"), git(repo, "status", "--porcelain")) == (head, ""), place

    code, out, err = distil(repo, whole.log)
    assert (code, err) == (Exit.CLEAN, "")
    assert "nothing new to propose" in out  # the last place comes after both branches
    assert branches(repo) == whole.branches
    assert not list((repo / ".git").glob("cake-index-*"))
    assert git(repo, "fsck", "--no-dangling") == ""


@pytest.mark.parametrize(
    ("place", "action", "status"),
    [
        ("study 1:*", "interrupt alone, stuck", Exit.INTERRUPTED),
        ("study 1:*", "kill, stuck", -signal.SIGKILL),
        ("fork", "kill", -signal.SIGKILL),
    ],
)
def test_no_worker_outlives_the_run(place: str, action: str, status: int, whole: Whole, tmp_path: Path) -> None:
    """A worker ends with its run, in the middle of a study that would not end and before it does anything at all."""
    assert distil(whole.clone(tmp_path), whole.log, place=place, action=action)[0] == status


def test_a_survey_ends_with_much_left_to_do(whole: Whole, tmp_path: Path) -> None:
    """Ctrl-C while the run waits for its workers, and more programs wait for them than they can take in."""
    good, (old, _, _) = good_program(), FAULTS[0]
    more = (good.replace(old, f"mbarrier_expect(full, {n})") for n in range(16, 1600, 16))
    log = write_log(tmp_path / "log", *((text, {}) for text in more))

    code, _, err = distil(whole.clone(tmp_path), log, place="result", action="interrupt alone, stuck")

    assert (code, err) == (Exit.INTERRUPTED, INTERRUPTED)


def test_a_worker_that_is_killed_is_the_machines_fault(whole: Whole, tmp_path: Path) -> None:
    """When the system kills a worker for its memory, the run says so in one sentence, and the next one goes on."""
    repo = whole.clone(tmp_path)

    code, _, err = distil(repo, whole.log, place="study 1:*", action="kill a worker")

    assert code == Exit.ENVIRONMENT
    assert err.startswith("error: a worker process was killed")
    assert err.count("\n") == 1
    assert distil(repo, whole.log)[0] == Exit.CLEAN
    assert branches(repo) == whole.branches


# --------------------------------------------------------------------------------------------------------- repositories


def test_a_clone_of_nobody(whole: Whole, tmp_path: Path) -> None:
    """A shallow clone with a detached HEAD, where git knows no name, gives the same commits."""
    git(whole.repo, "tag", "-f", "start", "main")
    repo = whole.clone(tmp_path, "--depth", "1", "--branch", "start", "-c", "user.useConfigOnly=true")
    env = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}

    code, _, err = distil(repo, whole.log, env=env)

    assert (code, err) == (Exit.CLEAN, "")
    assert branches(repo) == whole.branches


def test_a_clone_with_settings(whole: Whole, tmp_path: Path) -> None:
    """Signing, hooks, colours and line ends of the user, down to the kernel's own file, change no commit."""
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    for name in ("pre-commit", "commit-msg", "reference-transaction", "post-index-change", "post-commit"):
        (hooks / name).write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\nexit 1\n")
        (hooks / name).chmod(0o755)
    settings = {
        "core.autocrlf": "true",
        "core.hooksPath": str(hooks),
        "commit.gpgSign": "true",
        "gpg.program": "false",
        "color.ui": "always",
        "status.showUntrackedFiles": "no",
    }
    config = tmp_path / "gitconfig"
    for key, value in settings.items():
        git(tmp_path, "config", "--file", str(config), key, value)
    repo = whole.clone(tmp_path, "-c", "core.autocrlf=true")
    assert b"\r\n" in (repo / "corpus/kernels/first_column/schedule.py").read_bytes()

    code, _, err = distil(repo, whole.log, env={"GIT_CONFIG_GLOBAL": str(config)})

    assert (code, err) == (Exit.CLEAN, "")
    assert branches(repo) == whole.branches
    assert not (tmp_path / "ran").exists()


def test_a_branch_that_exists_is_left_alone(whole: Whole, tmp_path: Path) -> None:
    """On a branch that has a proposal's name, HEAD and the branch stay; the other proposal is made."""
    mine, other = sorted(whole.branches)
    repo = whole.clone(tmp_path)
    shutil.copytree(whole.repo / ".cake", repo / ".cake")
    git(repo, "checkout", "-q", "-b", mine)
    head = git(repo, "rev-parse", "HEAD")

    code, out, err = distil(repo, whole.log)

    assert (code, err) == (Exit.CLEAN, "")
    assert "branch exists: a branch of this name is something else" in out
    assert branches(repo) == {mine: head, other: whole.branches[other]}
    assert git(repo, "symbolic-ref", "--short", "HEAD") == mine


def test_a_branch_in_the_way_of_all_proposals(whole: Whole, tmp_path: Path) -> None:
    """A branch called `cake` leaves no room for `cake/rule/...`: git's reason is passed on, and nothing is lost."""
    repo = whole.clone(tmp_path)
    shutil.copytree(whole.repo / ".cake", repo / ".cake")
    git(repo, "branch", "cake")

    code, _, err = distil(repo, whole.log)

    assert code == Exit.ENVIRONMENT
    assert "'refs/heads/cake' exists" in err
    assert err.count("\n") == 1
    git(repo, "branch", "-D", "cake")
    assert distil(repo, whole.log)[0] == Exit.CLEAN
    assert branches(repo) == whole.branches


def test_a_changed_checkout_is_refused_and_kept_apart(whole: Whole, tmp_path: Path) -> None:
    """A branch is a function of its base commit: a dry run over changes has no part in the run after them."""
    repo = whole.clone(tmp_path)
    schedule = repo / "corpus" / "kernels" / "first_column" / "schedule.py"
    schedule.write_text(schedule.read_text().replace("at=8192", "at=8320"))

    code, _, err = distil(repo, whole.log)
    assert code == Exit.ENVIRONMENT
    assert "the checkout differs from HEAD (corpus/kernels/first_column/schedule.py): commit or stash it" in err
    code, out, _ = distil(repo, whole.log, "--dry-run")
    assert code == Exit.CLEAN
    assert "the program that it was made from is not known" in out
    git(repo, "checkout", "-q", ".")
    assert distil(repo, whole.log)[0] == Exit.CLEAN
    assert branches(repo) == whole.branches


def _bare(folder: Path, whole: Whole) -> None:
    git(folder.parent, "clone", "-q", "--bare", str(whole.repo), str(folder))


def _without_git(folder: Path, whole: Whole) -> None:
    (folder / "corpus" / "kernels").mkdir(parents=True)


def _hollow(folder: Path, whole: Whole) -> None:
    (folder / "corpus" / "kernels").mkdir(parents=True)
    (folder / ".git").mkdir()


def _unborn(folder: Path, whole: Whole) -> None:
    (folder / "corpus" / "kernels").mkdir(parents=True)
    git(folder, "init", "-q")


@pytest.mark.parametrize(
    ("prepare", "says"),
    [
        (_bare, "is no Cake repository; cake distill needs a git checkout"),
        (_without_git, "is no Cake repository; cake distill needs a git checkout"),
        (_hollow, "is no git repository; name a Cake repository with --repo"),
        (_unborn, "has no commit yet; make a first one"),
    ],
)
def test_places_that_are_no_checkout(
    prepare: Callable[[Path, Whole], None], says: str, whole: Whole, tmp_path: Path, capsys: Capture
) -> None:
    """A bare repository, a folder, a broken `.git` and a repository without a commit: each is told what it is."""
    prepare(tmp_path / "place", whole)

    assert run(["distill", "run", str(whole.log), "--repo", str(tmp_path / "place")]) == Exit.ENVIRONMENT
    assert says in capsys.readouterr().err


def test_git_is_missing(whole: Whole, tmp_path: Path) -> None:
    """Without git on PATH the run says so; it is no bug of Cake."""
    code, _, err = distil(whole.repo, whole.log, env={"PATH": str(tmp_path)})

    assert (code, err) == (Exit.ENVIRONMENT, "error: git is not installed, or not on PATH\n")


# ----------------------------------------------------------------------------------------------------------------- logs

#: Lines that hold no record, with the reason that is counted.
GOOD = Record(text_hash(good_program()), "hang", "run", "first_column").to_json().encode()
BAD_LINES = {
    "truncated": (GOOD[: len(GOOD) // 2], "not JSON"),
    "binary": (bytes(range(256)).replace(b"\n", b""), "not UTF-8"),
    "huge": (b"\0" * (4 << 20), "longer than 1048576 bytes"),
    "schema": (GOOD.replace(b'"schema":1', b'"schema":99'), "schema 99 is unknown; this Cake reads 1"),
    "program": (GOOD.replace(text_hash(good_program()).encode(), b"0" * 64), "its program is missing"),
    "extent": (
        GOOD.replace(b'"extents":{}', b'"extents":{"M":true}'),
        "key 'extents' is not an object of plain values",
    ),
}


@pytest.mark.parametrize("name", BAD_LINES)
def test_a_log_that_holds_nothing_else(name: str, whole: Whole, tmp_path: Path, capsys: Capture) -> None:
    """A log without a record that can be read is a usage error that says what was found in it."""
    line, reason = BAD_LINES[name]
    (tmp_path / "records.jsonl").write_bytes(line)

    assert run(["distill", "run", str(tmp_path), "--repo", str(whole.repo)]) == Exit.USAGE
    assert capsys.readouterr().err == f"error: {tmp_path} holds no record that can be read (1 line: {reason})\n"


def test_an_empty_log(whole: Whole, tmp_path: Path, capsys: Capture) -> None:
    """An empty file is told from one that cannot be read."""
    (tmp_path / "records.jsonl").touch()

    assert run(["distill", "run", str(tmp_path), "--repo", str(whole.repo), "--json"]) == Exit.USAGE
    error = json.loads(capsys.readouterr().out)["error"]
    assert error == {"message": f"{tmp_path} holds no record", "exit_code": Exit.USAGE}


def test_bad_lines_cost_themselves_alone(whole: Whole, tmp_path: Path) -> None:
    """Beside lines that cannot be read and a program that is no schedule, which never runs, the rest is distilled."""
    touched = tmp_path / "touched"
    hostile = f"import pathlib\npathlib.Path({str(touched)!r}).touch()\n"
    log = write_log(tmp_path / "log", (hostile, {}))
    repo = whole.clone(tmp_path)
    with (log / "records.jsonl").open("ab") as file:
        file.write(b"\n".join([*(line for line, _ in BAD_LINES.values()), BAD_LINES["truncated"][0]]))

    code, out, err = distil(repo, log)

    assert (code, err) == (Exit.CLEAN, "")
    assert f"{len(FAULTS) + 1} records" in out
    for name, (_, reason) in BAD_LINES.items():
        assert f"skipped {2 if name == 'truncated' else 1}: {reason}" in out
    assert "skipped 1: a failing program cannot be read:" in out
    assert "`import` is not part of the language" in out
    assert not touched.exists()
    assert branches(repo) == whole.branches


def test_a_long_log_is_streamed(whole: Whole, tmp_path: Path) -> None:
    """The command holds what it keeps of a log, not the log: 50 MB of records without their programs cost nothing."""
    line = BAD_LINES["program"][0].replace(b'"stderr":""', b'"stderr":"' + b"x" * 10_000 + b'"') + b"\n"
    with (tmp_path / "records.jsonl").open("wb") as file:
        for _ in range((50 << 20) // len(line) + 1):
            file.write(line)

    code, _, err = distil(whole.repo, tmp_path, action="weigh")

    assert code == Exit.USAGE
    error, peak = err.splitlines()
    assert "lines: its program is missing" in error
    short = distil(whole.repo, tmp_path / "nothing", action="weigh")[2].splitlines()[1]
    assert int(peak) < int(short) + (16 << 20)
