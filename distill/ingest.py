"""Stages one and two: the log's failures, and which of them look alike from outside.

A signature holds what was *observed*: outcome, stage, and where the program stopped. How a mutant was made is no part
of it, nor of anything that the learner sees: that would be the answer.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from cake.core.errors import CakeError
from cake.core.evidence import Log, Record
from cake.core.ir import OpStmt, Program
from cake.core.lines import skip
from cake.core.reader import read_program
from cake.core.tree import statement
from distill.store import digest

#: Outcomes that look the same from outside: a race shows as either, depending on luck.
LIKE: Final[Mapping[str, str]] = {"nondeterminism": "wrong values", "mismatch": "wrong values"}
#: Outcomes that are no fault of the program, or no failure.
IGNORED: Final = ("ok", "misprediction", "finding")


@dataclass(frozen=True, slots=True)
class Failure:
    """One failing program with all that the log says of it. The GPU's word goes before the simulator's.

    `devices` counts failing records by device; `parent` is the hash of the good program that it was made from (empty if
    unknown); `where` is the op path at which it stopped (empty if unknown).
    """

    program: str
    text: str
    kernel: str
    outcome: str
    stage: str
    where: str
    barrier: str
    parent: str
    config: Mapping[str, Any]
    extents: Mapping[str, int]
    devices: Mapping[str, int]
    gpu: bool


@dataclass(frozen=True, slots=True)
class Cluster:
    """Failures with one signature, simplest program first. `key` is a short name that does not depend on the log."""

    key: str
    signature: tuple[str, ...]
    failures: tuple[Failure, ...]

    @property
    def gpu(self) -> int:
        """How many members failed on a GPU."""
        return sum(f.gpu for f in self.failures)


@dataclass(frozen=True, slots=True)
class Intake:
    """What came of reading a log: its records by outcome, what was skipped and why, the clusters, and the hashes of
    programs that passed (on a GPU, where one ran them)."""

    records: int
    outcomes: Mapping[str, int]
    skipped: Mapping[str, int]
    clusters: tuple[Cluster, ...]
    passed: tuple[str, ...]


def ingest(log: Log) -> Intake:
    """Group the failures of a log. Raises CakeError when it holds no record that can be read."""
    if not log.records:
        why = "; ".join(f"{n} line{'s' if n != 1 else ''}: {reason}" for reason, n in log.skipped.items())
        raise CakeError(f"{log.path} holds no record{f' that can be read ({why})' if why else ''}")
    by_program: dict[str, list[Record]] = defaultdict(list)
    for record in log.records:
        by_program[record.program].append(record)
    groups: dict[tuple[str, ...], list[Failure]] = defaultdict(list)
    passed: list[str] = []
    skipped = Counter(log.skipped)
    for program in sorted(by_program):
        records = by_program[program]
        told = [r for r in records if r.origin.labeller == "gpu"] or records
        failing = [r for r in told if r.outcome not in IGNORED]
        if not failing:
            if all(r.outcome == "ok" for r in told):
                passed.append(program)
            continue
        failure = _failure(log, failing)
        try:
            groups[signature(failure)].append(failure)
        except ValueError as error:
            skip(skipped, f"a failing program cannot be read: {error}")
    clusters = [
        Cluster(digest(*key)[:10], key, tuple(sorted(found, key=lambda f: (len(f.text), f.program))))
        for key, found in groups.items()
    ]
    clusters.sort(key=lambda c: (-c.gpu, -len(c.failures), c.signature))
    return Intake(len(log.records), log.outcomes(), dict(sorted(skipped.items())), tuple(clusters), tuple(passed))


def _failure(log: Log, records: list[Record]) -> Failure:
    first = records[0]
    where, barrier = next((place for r in records for place in _places(r)), ("", ""))
    return Failure(
        first.program,
        log.text(first),
        first.kernel,
        first.outcome,
        first.stage,
        where,
        barrier,
        first.origin.parent if first.origin.parent != first.program else "",
        dict(first.config),
        dict(first.extents),
        dict(Counter(r.device or r.origin.labeller for r in records)),
        first.origin.labeller == "gpu",
    )


def _places(record: Record) -> Iterator[tuple[str, str]]:
    """Op path and barrier of whoever stopped in a record, those first that wait on a barrier: a warp that the end of
    its role keeps waiting is the last to show a hang, not where it comes from."""
    told = [place for d in record.diagnostics for place in (d, *_listed(d.get("places")))]
    places = [(str(p["path"]), str(p.get("barrier") or "")) for p in told if isinstance(p, Mapping) and p.get("path")]
    yield from sorted(places, key=lambda place: not place[1])


def _listed(value: object) -> Sequence[object]:
    return value if isinstance(value, Sequence) else ()


def signature(failure: Failure) -> tuple[str, ...]:
    """What was observed: outcome, stage, the kind of op and of barrier at which it stopped.

    Raises ValueError when the program cannot be read."""
    program = read_program(failure.text, failure.program[:12])
    outcome = LIKE.get(failure.outcome, failure.outcome)
    return (outcome, failure.stage, *_place(program, failure.where, failure.barrier))


def _place(program: Program, where: str, barrier: str) -> tuple[str, ...]:
    try:
        stmt = statement(program, where) if where else None
    except KeyError:
        return ()
    kind = stmt.op.opname if isinstance(stmt, OpStmt) else type(stmt).__name__.lower() if stmt is not None else ""
    found = next((d for d in program.decls if d.name == barrier), None)
    return tuple(x for x in (kind, getattr(found, "kind", "")) if x)
