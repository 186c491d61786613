"""Worker processes that survey and study ahead of the run. They hold no state but the laboratory's memory."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from types import TracebackType
from typing import Final

from cake.core.errors import CakeError, Exit
from cake.core.rule import Rule
from distill.ingest import Failure
from distill.lab import Lab
from distill.study import Known, Study, study
from distill.survey import Case, Group, examine

WORKERS: Final = 2

_shared: tuple[Lab, Known] | None = None


class Workers:
    """A pool of processes that share what is known. As a context it ends them all, whatever they are at.

    Raises CakeError (environment) out of the context when one of them was killed."""

    def __init__(self, shipped: tuple[Rule, ...], known: Known) -> None:
        self._pool = ProcessPoolExecutor(
            WORKERS, multiprocessing.get_context("fork"), initializer=_prepare, initargs=(shipped, known, os.getpid())
        )

    def __enter__(self) -> Workers:
        # A terminal sends Ctrl-C to all of its processes, and this one answers it. The first task forks the workers,
        # which inherit that it is blocked.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        self._pool.submit(os.getpid)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for worker in multiprocessing.active_children():
            worker.terminate()  # what they study ahead is not wanted any more
        self._pool.shutdown(cancel_futures=True)
        if isinstance(error, BrokenProcessPool):
            raise CakeError(
                "a worker process was killed, perhaps for want of memory: run the command again, it goes on from here",
                Exit.ENVIRONMENT,
            ) from error

    def examine(self, failures: Sequence[Failure]) -> Iterator[Case]:
        """The surveys of some failures, in their order."""
        # Not `map`: interrupted, it cancels its tasks, and a pool that breaks with a cancelled one does not end.
        tasks = [self._pool.submit(_examine, failure) for failure in failures]
        return (task.result() for task in tasks)

    def study(self, group: Group) -> Future[Study | str]:
        """The study of a group, under way."""
        return self._pool.submit(_study, group)


def _prepare(shipped: tuple[Rule, ...], known: Known, parent: int) -> None:
    global _shared
    _shared = (Lab(shipped), known)
    threading.Thread(target=_follow, args=(parent,), daemon=True).start()


def _follow(parent: int) -> None:
    """End with the parent: killed outright, it could not say so."""
    while os.getppid() == parent:
        time.sleep(0.2)
    os._exit(1)


def _examine(failure: Failure) -> Case:
    assert _shared is not None
    lab, known = _shared
    return examine(failure, known.parents.get(failure.parent), lab)


def _study(group: Group) -> Study | str:
    assert _shared is not None
    lab, known = _shared
    return study(group, known, lab)
