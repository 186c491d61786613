"""A repository with one small kernel, a log of its failures, and the distiller in a process that ends where it is told.

    python -m tests.unit.small_repo PLACE ACTION distill run LOG --repo REPO

All rules are hidden, so that there is something to learn whatever has been merged, and so are PyTorch and the CUDA
bindings, which the distiller does not need.
"""

from __future__ import annotations

import itertools
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

import pytest

ROOT: Final = Path(__file__).parents[2]
NAME: Final = "first_column"
SCHEDULE: Final = '''from cake import *


@schedule(target="sm_90a")
def first_column(X: Tensor[bf16, "M", "N"], Y: Tensor[bf16, "M"], *, ROWS=32):
    """Y[m] = 2 * X[m, 0], once from shared memory and once from global."""
    launch(ctas=1)
    rows = smem(bf16, (ROWS, 64), at=0, swizzle=128)
    X_map = tensor_map(X, box=(ROWS, 64), swizzle=128)
    full = mbarrier(arrivals=1, at=8192)
    one = role(warps=1)

    with one:
        with one_lane():
            mbarrier_expect(full, 4096)
            tma_load(rows, X_map, at=(0, 0), done=full)
        mbarrier_wait(full, 0)
        x = fragment(bf16, (1,), layout="thread")
        ld_global(x, X[lane_id, 0], when=lane_id < M)
        y = ld_shared(rows.tile((lane_id, 0), (1, 1)))
        st_global(Y[lane_id], x + y, when=lane_id < M)
'''
CONTRACT: Final = """kernel = "first_column"
summary = "Y[m] = 2 * X[m, 0]"
inputs = ["X"]
outputs = ["Y"]

[shapes]
names = ["M", "N"]
correctness = [[8, 64]]
performance = [[8, 64]]
simulator = [[8, 64]]
mutation = [[8, 64]]
calibration = [[8, 64]]

[distribution.normal]
why = "any values will do"
tensors.X = { kind = "normal" }

[tolerance]
relative = "2 ** -8"
scaled = "0"
absolute = "0"
reasoning = "one rounding to bf16"

[floor]
flops = "M"
bytes = "4 * M"
"""
EXTENTS: Final = {"M": 8, "N": 64}
#: Edits of the program: what to replace by what, and what came of it. Two faults, two rules.
FAULTS: Final = (
    ("mbarrier_expect(full, 4096)", "mbarrier_expect(full, 8192)", "hang"),
    ("mbarrier_expect(full, 4096)", "mbarrier_expect(full, 4112)", "hang"),
    ("        mbarrier_wait(full, 0)\n", "", "mismatch"),
)


def git(folder: Path, *args: str) -> str:
    """What the user's own git prints."""
    return subprocess.run(["git", *args], cwd=folder, capture_output=True, text=True, check=True).stdout.strip()


def make_repo(folder: Path) -> Path:
    """The repository, with one commit: the same commit every time."""
    kernel = folder / "corpus" / "kernels" / NAME
    kernel.mkdir(parents=True)
    (kernel / "schedule.py").write_text(SCHEDULE)
    (kernel / "configs.toml").write_text("[r32]\nROWS = 32\n")
    (kernel / "contract.toml").write_text(CONTRACT)
    (folder / ".gitignore").write_text("/.cake/\n")
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", ".")
    who = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")
    git(folder, *who, "commit", "-q", "-m", "first", "--date", "1700000000 +0000")
    return folder


def good_program() -> str:
    """The canonical text of the kernel's one configuration."""
    from cake.core.printer import print_program
    from cake.core.reader import read_schedule

    return print_program(read_schedule(SCHEDULE, {}))


def write_log(folder: Path, *extra: tuple[str, Mapping[str, Any]]) -> Path:
    """A log of the faults, and of `extra` programs, each with what its record says otherwise."""
    from cake.core.evidence import EvidenceWriter, Origin, Record
    from cake.core.programs import text_hash

    good = good_program()
    rows = [(good.replace(old, new), {"outcome": outcome}) for old, new, outcome in FAULTS]
    with EvidenceWriter(folder / "records.jsonl") as log:
        for text, changes in (*rows, *extra):
            said = {"outcome": "hang", "extents": EXTENTS, "origin": Origin(text_hash(good)), **changes}
            log.append(Record(text_hash(text), stage="run", kernel=NAME, **said), text)
    return folder


# ------------------------------------------------------------------------------------------------------------- running


def distil(
    repo: Path, log: Path, *options: str, place: str = "", action: str = "", env: Mapping[str, str] | None = None
) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of `cake distill run`, which takes `action` at the first `place` (see `_watch`).

    It has a session of its own, so that a signal to its group stays among its processes. When this returns all of them
    have ended: each holds the pipes.
    """
    command = [sys.executable, "-m", "tests.unit.small_repo", place, action, "distill", "run", str(log)]
    process = subprocess.Popen(
        [*command, "--repo", str(repo), *options],
        cwd=ROOT,
        env={**os.environ, **(env or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        out, err = process.communicate(timeout=60)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        pytest.fail(f"a process is alive 60 s after {action or 'the start'} at {place}: {process.communicate()}")
    return process.returncode, out, err


def _kill_worker() -> None:
    os.kill(multiprocessing.active_children()[0].pid or 0, signal.SIGKILL)


#: What to do at a place. `stuck`: the workers' studies never end.
ACTIONS: Final[dict[str, Callable[[], None]]] = {
    "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "kill, stuck": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "interrupt": lambda: os.killpg(0, signal.SIGINT),
    "interrupt alone, stuck": lambda: os.kill(os.getpid(), signal.SIGINT),
    "kill a worker": _kill_worker,
    "weigh": lambda: None,  # the last line of stderr is the most memory that was used, in bytes
}


def _noticed(pool: Any, **_: Any) -> str:
    """Wait until a pool has seen that its workers are gone, which it may do sooner or later."""
    if pool._executor_manager_thread is not None:
        pool._executor_manager_thread.join()
    return "shutdown"


def _main(place: str, action: str, *command: str) -> int:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have started the tests with it ignored
    sys.modules.update(dict.fromkeys(("cuda", "torch")))
    from cake.cli.app import run
    from cake.core import registry

    for code in list(registry.rules()):
        registry.default().block(f"rule:{code}")
    _watch(place, action)
    code = run(command)
    if action == "weigh":
        words = Path("/proc/self/status").read_text().split()
        print(1024 * int(words[words.index("VmHWM:") + 1]), file=sys.stderr)
    return code


def _watch(place: str, action: str) -> None:
    """Take `action` at each place that matches the pattern `place`: a note of the progress, `write FILE` before an
    artefact is put in its place, `blob N`, `commit N` and `set_branch N` before the N-th call of that, `fork` when the
    workers are forked and do not yet run, and `result` when the run begins to wait for a survey."""
    from cake.cli import distill as verb
    from distill import store, workers
    from distill.gitrepo import GitRepo

    def reached(name: str) -> None:
        if fnmatchcase(name, place):
            ACTIONS[action]()

    def before(owner: Any, attribute: str, name: Callable[..., str]) -> None:
        real = getattr(owner, attribute)

        def watched(*args: Any, **kwargs: Any) -> Any:
            reached(name(*args))
            return real(*args, **kwargs)

        setattr(owner, attribute, watched)

    @contextmanager
    def progress(what: str) -> Iterator[Callable[[str], None]]:
        yield reached

    verb.progress = progress  # type: ignore[assignment]
    before(store.os, "replace", lambda source, target: f"write {Path(target).name}")
    for name in ("blob", "commit", "set_branch"):
        count = itertools.count(1)
        before(GitRepo, name, lambda *_, name=name, count=count: f"{name} {next(count)}")
    if "stuck" in action:
        workers.study = lambda *_: threading.Event().wait()  # type: ignore[assignment]
    if place == "result":
        workers.examine = workers.study
        before(workers.Future, "result", lambda *_: "result")
        before(workers.ProcessPoolExecutor, "shutdown", _noticed)
    if place == "fork":
        before(workers.Workers, "examine", lambda *_: "fork")
        prepare, (end, ours) = workers._prepare, os.pipe()

        def orphaned(*args: Any) -> None:
            os.close(ours)
            os.read(end, 1)  # comes to the end of the pipe with the last process that may write to it: the parent
            prepare(*args)

        workers._prepare = orphaned


if __name__ == "__main__":
    sys.exit(_main(*sys.argv[1:]))
