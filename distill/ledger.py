"""The ledger of decisions: one JSON object a line, append-only, in the tree that the decisions made.

Git has no memory of a branch that was turned down. The ledger has: a slug names a rule by its words and the hash of its
clauses, so that a decision stands until new evidence changes the *rule*.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from typing import Final

from cake.core.errors import CakeError, Exit

LEDGER: Final = "proposals/ledger.jsonl"
INDEX: Final = "proposals/INDEX.md"
DECISIONS: Final = ("merged", "rejected", "superseded")


@dataclass(frozen=True, slots=True)
class Decision:
    """One line: what was decided about which proposal, by whom and why.

    `base` is the commit that the branch was built on; `report_sha256` the hash of the gate report that the reviewer had
    (empty when there was none to have).
    """

    slug: str
    kind: str
    decision: str
    reviewer: str
    reason: str
    base: str
    branch: str
    report_sha256: str

    def __post_init__(self) -> None:
        if self.decision not in DECISIONS:
            raise ValueError(f"decision {self.decision!r} is not one of {', '.join(DECISIONS)}")

    def line(self) -> str:
        """The ledger line, newline included."""
        return json.dumps(asdict(self), ensure_ascii=False, sort_keys=False) + "\n"


def parse(text: str) -> tuple[Decision, ...]:
    """The decisions of a ledger, in order. Raises CakeError naming the line that cannot be read: a decision that is
    lost would come back as a new proposal."""
    names = {f.name for f in fields(Decision)}
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            found.append(Decision(**{k: v for k, v in row.items() if k in names}))
        except (ValueError, TypeError, AttributeError) as error:
            raise CakeError(f"{LEDGER}:{number} cannot be read: {error}", Exit.ENVIRONMENT) from error
    return tuple(found)


def append(text: str, decisions: Iterable[Decision]) -> str:
    """`text` with `decisions` added at its end."""
    whole = text if not text or text.endswith("\n") else text + "\n"
    return whole + "".join(d.line() for d in decisions)


def latest(decisions: Iterable[Decision]) -> dict[str, Decision]:
    """The last decision about each slug."""
    return {d.slug: d for d in decisions}


def index(decisions: Iterable[Decision]) -> str:
    """`proposals/INDEX.md`: a pure function of the ledger."""
    rows = tuple(decisions)
    counts = ", ".join(f"{sum(d.decision == kind for d in rows)} {kind}" for kind in DECISIONS)
    lines = [
        "# Proposals",
        "",
        "Generated from `ledger.jsonl`; open proposals are branches: `cake proposals list`.",
        "",
        f"{len(rows)} decisions: {counts}." if rows else "No decision yet.",
    ]
    if rows:
        lines += [
            "",
            "| Proposal | Kind | Decision | Reviewer | Reason | Branch | Base |",
            "|---|---|---|---|---|---|---|",
        ]
        for d in rows:
            link = f"[{d.slug}]({d.slug}/PROPOSAL.md)" if d.decision == "merged" else d.slug
            reason = d.reason.replace("|", "\\|").replace("\n", " ")
            lines.append(
                f"| {link} | {d.kind} | {d.decision} | {d.reviewer} | {reason} | `{d.branch}` | `{d.base[:12]}` |"
            )
    return "\n".join(lines) + "\n"
