"""What a run tells a person: one row for each group of failures that belong together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from distill import gates
from distill.found import Found
from distill.ingest import Cluster
from distill.proposals import Outcome
from distill.survey import Case


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table: failures that belong together, the rule that explains them, its gates and branch.

    `group` tells the studied groups of one cluster apart; `rule` is a shipped code, a proposed code and name, or empty;
    `note` says what became of it or why there is none."""

    cluster: str
    failures: int
    rule: str
    gates: str
    branch: str
    note: str
    group: str = ""

    @property
    def title(self) -> str:
        """The cluster, and which group of it."""
        return f"{self.cluster} ({self.group})" if self.group else self.cluster

    @property
    def green(self) -> bool:
        """Whether there is a rule, and no gate of its tier was anything but passed."""
        passed, _, of = self.gates.partition("/")
        return bool(of) and passed == of


def rows(
    clusters: Sequence[Cluster],
    surveyed: Mapping[str, Sequence[Case]],
    found: Sequence[tuple[Found, Outcome | None]],
) -> tuple[Row, ...]:
    """What was studied with what became of it, then by cluster what needed no study."""
    return (*(_studied(f, outcome) for f, outcome in found), *_others(clusters, surveyed))


def _studied(f: Found, outcome: Outcome | None) -> Row:
    rule = f"{f.rule.code} {f.rule.name}" if f.rule is not None else f.explained_by
    note = f.note
    if outcome is not None:
        note = f"{outcome.state}{f': {outcome.note}' if outcome.note else ''}"
    branch = outcome.branch if outcome else ""
    summary = gates.summary(f.lines) if f.lines else ""
    cluster, index = " ".join(f.group.signature), f.group.key.rpartition("-")[2]
    return Row(cluster, len(f.group.cases), rule, summary, branch, note, index)


def _others(clusters: Sequence[Cluster], surveyed: Mapping[str, Sequence[Case]]) -> Iterator[Row]:
    """What shipped rules explain already, and what cannot be learnt from."""
    for cluster in clusters:
        title = " ".join(cluster.signature)
        cases = surveyed[cluster.key]
        explained = Counter(", ".join(c.codes) for c in cases if c.codes)
        for codes, n in sorted(explained.items()):
            yield Row(title, n, codes, "", "", "a shipped rule explains it")
        troubled = Counter(c.trouble for c in cases if c.trouble and not c.codes)
        for why, n in sorted(troubled.items()):
            yield Row(title, n, "", "", "", why)
