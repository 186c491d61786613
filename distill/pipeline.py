"""The distiller end to end: a failure log in, proposal branches out.

    ingest -> cluster -> survey -> (reduce -> near misses -> learn) -> gate -> render -> propose

Each stage is pure and leaves its artefact under `.cake/distill/<run>/`, so that a reviewer sees why and a killed run
goes on where it was. The same log on the same base commit gives the same branches, commit for commit: groups are
studied ahead in worker processes, and judged in one order, whichever process was done first.
"""

from __future__ import annotations

import pickle
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from cake.core.corpus import CorpusKernel, clean_programs, good_programs, load_corpus
from cake.core.errors import CakeError, Exit
from cake.core.evidence import Log, read_log
from cake.core.printer import print_program
from cake.core.programs import text_hash
from cake.core.registry import rules
from cake.core.rule import Rule
from distill import render, table
from distill.found import Found, Judge
from distill.gitrepo import GitRepo
from distill.ingest import Intake, ingest
from distill.lab import Lab
from distill.oracle import Problem
from distill.proposals import Outcome, State, decisions, propose
from distill.review import WORK
from distill.scale import smallest
from distill.store import RunStore, digest, dump, exclusive, write_atomic
from distill.study import Known, Study, as_json
from distill.survey import Case, Group, dynamic, groups
from distill.table import Row
from distill.workers import Workers

#: Groups studied ahead of the one that is judged.
AHEAD: Final = 4
#: Programs that passed on record and take part in every study, beside the corpus.
MAX_PASSED: Final = 8

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class RunReport:
    """What a run found. `records`, `skipped` and `outcomes` count the log's records; `proposed` is how many branches
    are new or rebuilt; `base` is the commit that they start from; `work` is where the artefacts lie."""

    records: int
    skipped: Mapping[str, int]
    outcomes: Mapping[str, int]
    rows: tuple[Row, ...]
    proposed: int
    base: str
    work: str


def run(
    repo: Path,
    log_path: Path,
    *,
    dry_run: bool = False,
    max_open: int = 5,
    max_studies: int | None = None,
    progress: Progress | None = None,
) -> RunReport:
    """Distil a log, a records file or a folder that holds one.

    A dry run studies every group; otherwise it ends with `max_open` rules. Either ends after `max_studies` groups.

    Raises CakeError: usage for a log that is missing or holds nothing, environment for a repository that cannot be
    worked with. A checkout that differs from HEAD where rules and corpus lie is refused, since a branch is a function
    of its base commit.
    """
    step = progress or (lambda note: None)
    git = GitRepo(repo)
    base = git.head()
    dirty = git.dirty("cake", "distill", "corpus", "tests", "proposals")
    if dirty and not dry_run:
        raise CakeError(
            f"the checkout differs from HEAD ({dirty[0]}): commit or stash it, or pass --dry-run", Exit.ENVIRONMENT
        )
    with exclusive(git.root / WORK / "distill"):
        log = read_log(log_path)
        intake = ingest(log)
        shipped = tuple(rules().values())
        # What a changed checkout gives is kept apart from what its base commit gives.
        changes = (part for path in dirty for part in (path, _contents(git.root / path)))
        key = digest(base, _digest_of(log), *(render.rule_file(r) for r in shipped), *changes)
        store = RunStore(git.root / WORK / "distill" / key[:12])
        store.save(dump(_as_data(intake)), "ingest.json")
        return _Run(git, base, log, intake, store, shipped, step).report(dry_run, max_open, max_studies)


def _digest_of(log: Log) -> str:
    return digest(*(digest(r.to_json()) for r in log.records))  # of digests: together, the texts are too many


def _contents(path: Path) -> bytes:
    return path.read_bytes() if path.is_file() else b""


def _as_data(intake: Intake) -> dict[str, Any]:
    return {
        "records": intake.records,
        "outcomes": dict(intake.outcomes),
        "skipped": dict(intake.skipped),
        "clusters": [
            {"key": c.key, "signature": list(c.signature), "programs": [f.program for f in c.failures]}
            for c in intake.clusters
        ],
    }


# ----------------------------------------------------------------------------------------------------------------- run


class _Run:
    def __init__(
        self,
        git: GitRepo,
        base: str,
        log: Log,
        intake: Intake,
        store: RunStore,
        shipped: tuple[Rule, ...],
        step: Progress,
    ) -> None:
        self.git, self.base, self.log, self.intake = git, base, log, intake
        self.store, self.shipped, self.step = store, shipped, step
        self.lab = Lab(shipped)
        self.kernels = load_corpus(git.root)
        self.known = self._known()
        self.judge = Judge(self.lab, clean_programs(git.root), shipped, decisions(git, base), store)

    def report(self, dry_run: bool, max_open: int, max_studies: int | None) -> RunReport:
        with Workers(self.shipped, self.known) as workers:
            surveyed = self._survey(workers)
            found = self._studies(workers, surveyed, None if dry_run else max_open, max_studies)
        proposals = [self.judge.proposal(f) for f in found if f.green]
        if dry_run:
            fates = tuple(Outcome(p, State.DRY_RUN, p.branch, "") for p in proposals)
        else:
            fates = propose(self.git, self.base, proposals, max_open)
        by_rule = {o.proposal.code: o for o in fates}
        rows = table.rows(
            self.intake.clusters,
            surveyed,
            [(f, by_rule.get(f.rule.code) if f.green and f.rule is not None else None) for f in found],
        )
        self.store.save(dump([asdict(r) for r in rows]), "report.json")
        return RunReport(
            self.intake.records,
            dict(self.intake.skipped),
            dict(self.intake.outcomes),
            rows,
            sum(o.state in (State.PROPOSED, State.REBUILT) for o in fates),
            self.base,
            str(self.store.folder),
        )

    def _known(self) -> Known:
        passing: dict[str, str] = {}
        parents: dict[str, str] = {}
        for kernel in self.kernels:
            for n, config in enumerate(kernel.configs):
                text = print_program(kernel.program(config))
                parents[text_hash(text)] = text
                if n < 2:
                    passing[text_hash(text)] = text
        for clean, _ in good_programs(self.git.root):
            text = print_program(clean.program)
            passing[text_hash(text)] = text
        for rule in self.shipped:
            for name in rule.good:
                path = self.git.root / "corpus" / "bad" / rule.code / name
                if path.is_file():
                    text = path.read_text(encoding="utf-8")
                    passing[text_hash(text)] = text
        for name in self.intake.passed[:MAX_PASSED]:
            passing.setdefault(name, self.log.programs.text(name))
        scalars = {k.name: dict(k.contract.scalars) for k in self.kernels}
        return Known(passing, parents, scalars, {k.name: self._small(k) for k in self.kernels})

    def _small(self, kernel: CorpusKernel) -> tuple[str, ...]:
        """The kernel's smallest configuration, found once a run directory."""

        def compute() -> list[str]:
            problem = Problem(dict(kernel.contract.simulator[-1]), dict(kernel.contract.scalars))
            found = smallest(kernel, problem, self.lab)
            return [] if found is None else [print_program(found)]

        self.step(f"smallest configuration of {kernel.name}")
        return tuple(self.store.stage("small", kernel.name, self.store.folder.name, compute, list, list))

    # ------------------------------------------------------------------------------------------------------ stages

    def _survey(self, workers: Workers) -> dict[str, list[Case]]:
        """Cases by cluster; each failing program's survey is an artefact of its own."""
        failures = [f for c in self.intake.clusters for f in c.failures]
        path = self.store.path("survey.pickle")
        done: dict[str, Case] = _load(path) or {}
        todo = [f for f in failures if f.program not in done]
        for i, case in enumerate(workers.examine(todo)):
            done[case.failure.program] = case
            self.step(f"survey {len(failures) - len(todo) + i + 1}/{len(failures)}")
            if i % 32 == 31:
                write_atomic(path, pickle.dumps(done))
        write_atomic(path, pickle.dumps(done))
        rows = [
            {
                "program": c.failure.program,
                "codes": list(c.codes),
                "elsewhere": list(c.elsewhere),
                "heads": list(c.heads),
                "delta": list(c.delta),
                "trouble": c.trouble,
            }
            for c in (done[f.program] for f in failures)
        ]
        self.store.save(dump(rows), "survey.json")
        return {c.key: [done[f.program] for f in c.failures] for c in self.intake.clusters}

    def _studies(
        self, workers: Workers, surveyed: Mapping[str, list[Case]], wanted: int | None, most: int | None
    ) -> list[Found]:
        """Study the groups in order, until `wanted` rules passed their gates or `most` groups were studied."""
        todo = deque(self._queue(surveyed))
        found: list[Found] = []
        ahead: deque[tuple[Group, Future[Study | str] | None]] = deque()
        studied = 0
        why = ""
        while todo or ahead:
            if wanted is not None and sum(f.green for f in found) >= wanted:
                enough = f"{wanted} rules are" if wanted != 1 else "1 rule is"
                why = f"not studied: {enough} enough for one run (--max-open)"
                break
            if studied == most:
                why = f"not studied: this run stops after {most} group{'s' if most != 1 else ''} (--max-studies)"
                break
            while todo and len(ahead) < AHEAD:
                group = todo.popleft()
                stored = _load(self._study_path(group)) is not None or self.judge.explained(group, found)
                ahead.append((group, None if stored else workers.study(group)))
            group, future = ahead.popleft()
            if earlier := self.judge.explained(group, found):
                found.append(Found(group, explained_by=earlier, note="proposed by this run"))
                continue
            studied += 1
            self.step(f"study {studied}: {' '.join(group.signature)}")
            found.append(self.judge.judged(group, self._studied(workers, group, future), found))
        found += [Found(group, note=why) for group in (*(g for g, _ in ahead), *todo)]
        return found

    def _queue(self, surveyed: Mapping[str, list[Case]]) -> list[Group]:
        """All groups. Those first of which executions do something else: without that, the fault is in the numbers. Of
        them hangs: one schedule shows them, where wrong values take every schedule and several times as long."""

        def place(group: Group) -> tuple[bool, bool, int, int, str]:
            told = any(dynamic(change) for change in group.cases[0].delta)
            return (not told, group.signature[0] != "hang", -group.gpu, -len(group.cases), group.key)

        every = [g for c in self.intake.clusters for g in groups(c.key, c.signature, surveyed[c.key])]
        return sorted(every, key=place)

    def _study_path(self, group: Group) -> Path:
        return self.store.path("study", f"{group.key}.pickle")

    def _studied(self, workers: Workers, group: Group, future: Future[Study | str] | None) -> Study | str:
        """The study of a group: under way in a worker, or kept from a run that was interrupted."""
        path = self._study_path(group)
        kept: Study | str | None = _load(path) if future is None else None
        if kept is not None:
            return kept
        result = (future or workers.study(group)).result()
        write_atomic(path, pickle.dumps(result))
        data = {"reason": result} if isinstance(result, str) else as_json(result)
        self.store.save(dump(data), "study", f"{group.key}.json")
        return result


def _load(path: Path) -> Any:
    """An artefact of an earlier, perhaps interrupted run of this very key; None when there is none that can be read."""
    try:
        return pickle.loads(path.read_bytes())
    except (OSError, EOFError, pickle.UnpicklingError, AttributeError, ImportError, IndexError):
        return None
