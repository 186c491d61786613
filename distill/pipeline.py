"""The distiller end to end: a failure log in, proposal branches out.

    ingest -> cluster -> survey -> (reduce -> near misses -> learn) -> gate -> render -> propose

Each stage is pure and leaves its artefact under `.cake/distill/<run>/`, so that a reviewer sees why and a killed run
goes on where it was. The same log on the same base commit gives the same branches, commit for commit: groups are
studied ahead in worker processes, and judged in one order, whichever process was done first.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from cake.core.corpus import CorpusKernel, load_corpus
from cake.core.errors import CakeError, Exit
from cake.core.evidence import Log, read_log
from cake.core.printer import print_program
from cake.core.programs import text_hash
from cake.core.registry import codes, rules
from cake.core.rule import Rule
from distill import gates, ledger, render
from distill.compose import Support, compose, family, tidy
from distill.gates import Clean, GateLine, Trial
from distill.gitrepo import GitRepo
from distill.ingest import Cluster, Failure, Intake, ingest
from distill.join import Example, covers
from distill.lab import Lab
from distill.oracle import Problem
from distill.proposals import (
    Outcome,
    Proposal,
    State,
    decisions,
    ledger_codes,
    next_code,
    propose,
)
from distill.review import WORK
from distill.scale import smallest
from distill.store import RunStore, digest, dump, exclusive, write_atomic
from distill.study import Known, Study, as_json, study
from distill.survey import Case, Group, examine, groups
from distill.vary import variants

SINCE: Final = "0.1"
#: Relations that say in which order and how often things happen: where they change, there is something to learn.
DYNAMIC: Final = frozenset(
    [
        "phase",
        "phase_role",
        "net",
        "lead",
        "paced",
        "lasting",
        "first_parity",
        "same_slot",
        "completes_slot",
        "retired",
        "covers",
        "outstanding",
        "ordered",
        "visible",
        "register_fenced",
        "commits",
        "expects",
        "arrives",
        "conflict",
    ]
)
#: Groups studied ahead of the one that is judged, and in all: the bound on a run's time.
AHEAD: Final = 4
MAX_STUDIED: Final = 6
#: Programs that passed on record and take part in every study, beside the corpus.
MAX_PASSED: Final = 8
WORKERS: Final = 2

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table: failures that belong together, the rule that explains them, its gates and branch.

    `rule` is a shipped code, a proposed code and name, or empty; `note` says what became of it or why there is none."""

    cluster: str
    failures: int
    rule: str
    gates: str
    branch: str
    note: str


@dataclass(frozen=True, slots=True)
class RunReport:
    """What a run found. `records` and `skipped` count the log's lines; `outcomes` are its proposals with their fate;
    `work` is where the artefacts lie."""

    records: int
    skipped: Mapping[str, int]
    outcomes: Mapping[str, int]
    rows: tuple[Row, ...]
    proposed: int
    base: str
    work: str


@dataclass(frozen=True, slots=True)
class _Found:
    """A studied group with its rule, gate lines and fate."""

    group: Group
    study: Study | None
    rule: Rule | None
    lines: tuple[GateLine, ...]
    note: str


def run(
    repo: Path, log_path: Path, *, dry_run: bool = False, max_open: int = 5, progress: Progress | None = None
) -> RunReport:
    """Distil a log, a records file or a folder that holds one.

    Raises CakeError: usage for a log that is missing or holds nothing, environment for a repository that cannot be
    worked with. A checkout that differs from HEAD where rules and corpus lie is refused, since a branch is a function
    of its base commit.
    """
    step = progress or (lambda note: None)
    git = GitRepo(repo)
    base = git.head()
    if not dry_run and (dirty := git.dirty("cake", "distill", "corpus", "tests", "proposals")):
        raise CakeError(
            f"the checkout differs from HEAD ({dirty[0]}): commit or stash it, or pass --dry-run", Exit.ENVIRONMENT
        )
    with exclusive(git.root / WORK / "distill"):
        log = read_log(log_path)
        intake = ingest(log)
        shipped = tuple(rules().values())
        key = digest(base, _digest_of(log), *(render.rule_file(r) for r in shipped))
        store = RunStore(git.root / WORK / "distill" / key[:12])
        store.save(dump(_as_data(intake)), "ingest.json")
        return _Run(git, base, log, intake, store, shipped, step).report(dry_run, max_open)


def _digest_of(log: Log) -> str:
    return digest(*(r.to_json() for r in log.records))


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


# ------------------------------------------------------------------------------------------------------------- workers

_shared: tuple[Lab, Known] | None = None


def _prepare(shipped: tuple[Rule, ...], known: Known) -> None:
    global _shared
    _shared = (Lab(shipped), known)
    threading.Thread(target=_follow, args=(os.getppid(),), daemon=True).start()


def _follow(parent: int) -> None:
    """End with the parent: killed outright, it could not say so."""
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)


def _examine(failure: Failure) -> Case:
    assert _shared is not None
    lab, known = _shared
    return examine(failure, known.parents.get(failure.parent), lab)


def _study(group: Group) -> Study | str:
    assert _shared is not None
    lab, known = _shared
    return study(group, known, lab)


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
        self.decided = decisions(git, base)

    def report(self, dry_run: bool, max_open: int) -> RunReport:
        with ProcessPoolExecutor(
            WORKERS,
            mp_context=multiprocessing.get_context("fork"),
            initializer=_prepare,
            initargs=(self.shipped, self.known),
        ) as pool:
            surveyed = self._survey(pool)
            found = self._studies(pool, surveyed, max_open)
            for worker in multiprocessing.active_children():
                worker.terminate()  # what they study ahead is not wanted any more
        made = [(f, self._proposal(f)) for f in found if f.rule is not None and gates.green(f.lines)]
        proposals = [p for _, p in made]
        if dry_run:
            fates = tuple(Outcome(p, State.DRY_RUN, p.branch, "") for p in proposals)
        else:
            fates = propose(self.git, self.base, proposals, max_open)
        fate = {id(f): outcome for (f, _), outcome in zip(made, fates, strict=True)}
        rows = self._rows(surveyed, found, fate)
        report = RunReport(
            self.intake.records,
            dict(self.intake.skipped),
            dict(self.intake.outcomes),
            rows,
            sum(o.state in (State.PROPOSED, State.REBUILT) for o in fates),
            self.base,
            str(self.store.folder),
        )
        self.store.save(dump([vars_of(r) for r in rows]), "report.json")
        return report

    def _known(self) -> Known:
        passing: dict[str, str] = {}
        parents: dict[str, str] = {}
        for kernel in self.kernels:
            for n, config in enumerate(kernel.configs):
                text = print_program(kernel.program(config))
                parents[text_hash(text)] = text
                if n < 2:
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

    def _survey(self, pool: ProcessPoolExecutor) -> dict[str, list[Case]]:
        """Cases by cluster; each failing program's survey is an artefact of its own."""
        failures = [f for c in self.intake.clusters for f in c.failures]
        path = self.store.path("survey.pickle")
        done: dict[str, Case] = _load(path) or {}
        todo = [f for f in failures if f.program not in done]
        for i, case in enumerate(pool.map(_examine, todo, chunksize=2)):
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

    def _studies(self, pool: ProcessPoolExecutor, surveyed: Mapping[str, list[Case]], wanted: int) -> list[_Found]:
        todo = [g for c in self.intake.clusters for g in groups(c.key, c.signature, surveyed[c.key])]
        # Hangs first: one schedule shows them, where wrong values take every schedule and several times as long.
        todo.sort(key=lambda g: (not _tells(g), g.signature[0] != "hang", -g.gpu, -len(g.cases), g.key))
        found: list[_Found] = []
        taken: set[str] = set()
        ahead: deque[tuple[Group, Future[Study | str] | None]] = deque()
        studied = 0
        while (todo or ahead) and studied < MAX_STUDIED and sum(gates.green(f.lines) for f in found if f.rule) < wanted:
            while todo and len(ahead) < AHEAD:
                group = todo.pop(0)
                stored = _load(self._study_path(group)) is not None or self._explained(group, found)
                ahead.append((group, None if stored else pool.submit(_study, group)))
            group, future = ahead.popleft()
            if earlier := self._explained(group, found):
                found.append(_Found(group, None, None, (), f"explained by {earlier}"))
                continue
            studied += 1
            self.step(f"study {group.key}")
            found.append(self._judged(group, self._studied(pool, group, future), found, taken))
        for _, future in ahead:
            if future is not None:
                future.cancel()
        rest = [*(g for g, _ in ahead), *todo]
        found += [
            _Found(g, None, None, (), "not studied in this run: hangs and larger groups come first") for g in rest
        ]
        return found

    def _study_path(self, group: Group) -> Path:
        return self.store.path("study", f"{group.key}.pickle")

    def _studied(self, pool: ProcessPoolExecutor, group: Group, future: Future[Study | str] | None) -> Study | str:
        """The study of a group: under way in a worker, or kept from a run that was interrupted."""
        path = self._study_path(group)
        kept: Study | str | None = _load(path) if future is None else None
        if kept is not None:
            return kept
        result = (future or pool.submit(_study, group)).result()
        write_atomic(path, pickle.dumps(result))
        data = {"reason": result} if isinstance(result, str) else as_json(result)
        self.store.save(dump(data), "study", f"{group.key}.json")
        return result

    def _judged(self, group: Group, result: Study | str, found: list[_Found], taken: set[str]) -> _Found:
        if isinstance(result, str):
            return _Found(group, None, None, (), result)
        if result.clause is None:
            tie = f"; tied: {' | '.join(result.lesson.tie[:3])}" if result.lesson.tie else ""
            return _Found(group, result, None, (), f"nothing learnt: {result.lesson.reason}{tie}")
        if earlier := self._explained(group, found):
            return _Found(group, None, None, (), f"explained by {earlier}")
        outcome = group.cases[0].failure.outcome
        devices: dict[str, int] = {}
        for case in group.cases:
            for device, n in case.failure.devices.items():
                devices[device] = devices.get(device, 0) + n
        names = tuple(sorted({c.failure.kernel for c in group.cases}))
        used = {*rules(), *ledger_codes(self.decided), *taken, *codes().retired}
        code = next_code(family(tidy(result.clause)), used)
        rule = compose(result.clause, Support(outcome, devices, result.studied.failure.program, names), code, SINCE)
        slug = slug_of(rule)
        decision = ledger.latest(self.decided).get(slug)
        if decision is not None:
            return _Found(group, result, None, (), f"{slug} was {decision.decision}: {decision.reason}")
        if any(f.rule is not None and gates.rule_key(f.rule) == gates.rule_key(rule) for f in found):
            return _Found(group, result, None, (), "the same rule as above")
        self.step(f"gates of {code}")
        lines = gates.run(self._trial(rule, result))
        self.store.save("".join(g.line() + "\n" for g in lines), "gates", f"{group.key}.jsonl")
        self.store.save(render.rule_file(rule), "rules", f"{group.key}.py")
        red = next((g for g in lines if g.verdict != "pass" and g.gate not in gates.MERGE_TIER), None)
        if red is None:
            taken.add(code)
        return _Found(group, result, rule, lines, f"gate {red.gate} is {red.verdict}: {red.detail}" if red else "")

    def _explained(self, group: Group, found: Sequence[_Found]) -> str:
        """The proposal of this run that flags most of a group at ops which its repairs touch, if there is one."""
        members = [m for c in group.cases[:4] if (m := self._member(c)) is not None]
        for f in found:
            if f.rule is None or f.study is None or f.study.clause is None or not gates.green(f.lines):
                continue
            clause = f.study.clause
            if members and all(covers(clause.body, m, clause.head) for m in members):
                return f.rule.code
        return ""

    def _member(self, case: Case) -> Example | None:
        return self.lab.example(self.lab.read(case.failure.text), frozenset(case.heads)) if case.heads else None

    def _trial(self, rule: Rule, found: Study) -> Trial:
        lab = self.lab
        bad, good = lab.read(found.bad), lab.read(found.good)
        one, two = lab.example(bad, frozenset(found.heads)), lab.example(good)
        assert one is not None
        assert two is not None

        def vary() -> Iterator[tuple[str, Example, Example]]:
            for program in (bad, good):
                before = lab.example(program)
                for what, variant in variants(program):
                    after = lab.example(variant)
                    assert before is not None
                    if after is not None:
                        yield what, before, after

        clean = tuple(
            Clean(k.name, c, e) for k in self.kernels for c in k.configs if (e := lab.example(k.program(c))) is not None
        )
        failing = tuple(m for c in found.group.cases if (m := self._member(c)) is not None)
        return Trial(
            rule=rule,
            bad=one,
            good=two,
            shipped=self.shipped,
            codes=codes(),
            corpus=clean,
            passing=self._examples(found.passing),
            failing=failing,
            generated=self._examples(found.generated),
            held_out=found.held_out,
            vary=vary,
            used_codes=ledger_codes(self.decided),
        )

    def _examples(self, texts: Sequence[str]) -> tuple[Example, ...]:
        return tuple(e for t in texts if (e := self.lab.example(self.lab.read(t))) is not None)

    def _proposal(self, f: _Found) -> Proposal:
        assert f.rule is not None
        assert f.study is not None
        slug, rule = slug_of(f.rule), f.rule
        right = self.lab.right(self.lab.read(f.study.good), f.study.problem)
        assert right is not None
        outcome = self.lab.label(self.lab.read(f.study.bad), f.study.problem, right).outcome
        seen = {"hang": "hang", "mismatch": "mismatch", "nondeterminism": "mismatch"}.get(outcome, "trap")
        evidence = render.evidence_file(f.study)
        total = len(f.group.cases)
        return Proposal(
            slug=slug,
            code=rule.code,
            name=rule.name,
            summary=f"{rule.code}: {rule.name}",
            body=f"Learnt from {total} failing program{'s' if total != 1 else ''}; see proposals/{slug}/PROPOSAL.md.",
            files=render.files(rule, slug, f.study, f.lines, seen),
            evidence=digest(evidence)[:16],
            gates=gates.summary(f.lines),
            fingerprint=gates.rule_key(rule)[:16],
        )

    # ------------------------------------------------------------------------------------------------------- table

    def _rows(
        self, surveyed: Mapping[str, list[Case]], found: Sequence[_Found], fate: Mapping[int, Outcome]
    ) -> tuple[Row, ...]:
        rows: list[Row] = []
        for f in found:
            outcome = fate.get(id(f))
            rule = f"{f.rule.code} {f.rule.name}" if f.rule is not None else ""
            if f.note.startswith("explained by "):
                rule = f.note.removeprefix("explained by ")
            note = f"{outcome.state}{f': {outcome.note}' if outcome.note else ''}" if outcome else f.note
            summary = gates.summary(f.lines) if f.lines else ""
            branch = outcome.branch if outcome else ""
            rows.append(Row(_title(f.group), len(f.group.cases), rule, summary, branch, note))
        return (*rows, *self._known_rows(surveyed))

    def _known_rows(self, surveyed: Mapping[str, list[Case]]) -> Iterator[Row]:
        """What shipped rules explain already, and what cannot be learnt from, by cluster."""
        by_key: dict[str, Cluster] = {c.key: c for c in self.intake.clusters}
        for key, cases in surveyed.items():
            title = " ".join(by_key[key].signature)
            explained: dict[str, int] = {}
            troubled: dict[str, int] = {}
            for case in cases:
                if case.codes:
                    explained[", ".join(case.codes)] = explained.get(", ".join(case.codes), 0) + 1
                elif case.trouble:
                    troubled[case.trouble] = troubled.get(case.trouble, 0) + 1
            for code, n in sorted(explained.items()):
                yield Row(title, n, code, "", "", "a shipped rule explains it")
            for why, n in sorted(troubled.items()):
                yield Row(title, n, "", "", "", why)


def _load(path: Path) -> Any:
    """An artefact of an earlier, perhaps interrupted run of this very key; None when there is none that can be read."""
    try:
        return pickle.loads(path.read_bytes())
    except (OSError, EOFError, pickle.UnpicklingError, AttributeError, ImportError, IndexError):
        return None


def _tells(group: Group) -> bool:
    """Whether what executions did changed here: without that, the fault is in the numbers, not in the schedule."""
    return any(change[1:].partition(" ")[0] in DYNAMIC for change in group.cases[0].delta)


def _title(group: Group) -> str:
    return f"{' '.join(group.signature)} ({group.key.rpartition('-')[2]})"


def slug_of(rule: Rule) -> str:
    """A proposal's name: the rule's words and the start of its clauses' hash, so that another rule is another slug."""
    return f"{rule.name[:60]}-{gates.rule_key(rule)[:8]}"


def vars_of(row: Row) -> dict[str, Any]:
    """A row as plain data."""
    return {name: getattr(row, name) for name in ("cluster", "failures", "rule", "gates", "branch", "note")}
