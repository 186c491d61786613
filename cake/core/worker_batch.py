"""Many requests, each in its own worker process, several at once: the parent's side.

A worker that hangs is killed, alone and by its own id. Results are appended to one JSONL file as they come; requests
that have a line there already are left out, so that a batch that was cut off continues.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from cake.core.errors import CakeError, Exit

#: Seconds that a killed worker may take to leave; one that does not is left behind and said so.
_REAP_S: Final = 30.0
_STDERR_LIMIT: Final = 20_000


@dataclass(frozen=True, slots=True)
class WorkerRun:
    """What became of one worker: its result (None when it wrote none), exit status (None when it never left), whether
    it was killed for time, its standard error (cut), and its wall time in seconds."""

    request: str
    result: dict[str, Any] | None
    exit_status: int | None
    killed: bool
    stderr: str
    wall_s: float

    @property
    def outcome(self) -> str:
        """The result's outcome; `hang` for a worker that was killed, `error` for one that died or could not run."""
        if self.result is not None:
            return str(self.result["outcome"])
        return "hang" if self.killed else "error"


def run_worker(folder: Path, timeout: float, *, python: str = sys.executable) -> WorkerRun:
    """Run the request in `folder` in a worker process and wait at most `timeout` seconds, then kill it."""
    (folder / "result.json").unlink(missing_ok=True)
    root = str(Path(__file__).resolve().parents[2])
    path = os.pathsep.join([root, *filter(None, [os.environ.get("PYTHONPATH", "")])])
    began = time.monotonic()
    log = folder / "worker.stderr"
    killed = False
    with log.open("wb") as stderr:
        child = subprocess.Popen(
            [python, "-m", "cake.core.worker", str(folder)],
            stdout=subprocess.DEVNULL,
            stderr=stderr,
            stdin=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": path},
        )
        try:
            status: int | None = child.wait(timeout)
        except subprocess.TimeoutExpired:
            killed = True
            child.kill()
            try:
                status = child.wait(_REAP_S)
            except subprocess.TimeoutExpired:
                status = None
        except BaseException:
            child.kill()
            raise
    text = log.read_text(encoding="utf-8", errors="replace")[-_STDERR_LIMIT:]
    return WorkerRun(folder.name, _result(folder), status, killed, text, time.monotonic() - began)


def _result(folder: Path) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found


def run_batch(root: Path, out: Path, jobs: int, timeout: float) -> int:
    """Run every request folder below `root`, `jobs` at once; append one line for each to `out`. Returns an exit code:
    0 when every request has a result, 1 when some have none, 3 when this machine can run none of them."""
    folders = sorted(p.parent for p in root.glob("*/request.json"))
    if not folders:
        raise CakeError(f"no request folders in {root}")
    done = _done(out)
    left = [f for f in folders if f.name not in done]
    print(f"{len(folders)} requests, {len(folders) - len(left)} done before, {jobs} at once", file=sys.stderr)
    counts: dict[str, int] = {}
    environment = 0
    with ThreadPoolExecutor(max_workers=max(jobs, 1)) as pool, out.open("a", encoding="utf-8") as log:
        pending = [pool.submit(run_worker, folder, timeout) for folder in left]
        try:
            for i, future in enumerate(as_completed(pending), 1):
                run = future.result()
                environment += run.exit_status == Exit.ENVIRONMENT
                counts[run.outcome] = counts.get(run.outcome, 0) + 1
                if run.exit_status != Exit.ENVIRONMENT:
                    log.write(json.dumps({**asdict(run), "outcome": run.outcome}, sort_keys=True) + "\n")
                    log.flush()
                print(f"[{i}/{len(left)}] {run.request}: {run.outcome} in {run.wall_s:.1f} s", file=sys.stderr)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    print(", ".join(f"{name} {n}" for name, n in sorted(counts.items())) or "nothing to do")
    if left and environment == len(left):
        print(f"error: {_first_error(left)}", file=sys.stderr)
        return int(Exit.ENVIRONMENT)
    return int(Exit.FINDINGS if counts.get("error") else Exit.CLEAN)


def _done(out: Path) -> set[str]:
    """Names of the requests that `out` has a whole line for; a torn last line counts as none and is ended."""
    if not out.exists():
        return set()
    text = out.read_text(encoding="utf-8", errors="replace")
    if text and not text.endswith("\n"):
        with out.open("a", encoding="utf-8") as log:
            log.write("\n")
    return set(_names(text.splitlines()))


def _names(lines: Iterable[str]) -> Iterable[str]:
    for line in lines:
        try:
            yield str(json.loads(line)["request"])
        except (ValueError, KeyError, TypeError):
            continue


def _first_error(folders: list[Path]) -> str:
    text = (folders[0] / "worker.stderr").read_text(encoding="utf-8", errors="replace").strip()
    return text.splitlines()[-1].removeprefix("error: ") if text else "no worker could run"
