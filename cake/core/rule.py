"""What a rule is: clause data with its words, its evidence and its examples. Never code."""

from __future__ import annotations

from dataclasses import dataclass

from cake.core.diagnostics import Category


@dataclass(frozen=True, slots=True)
class Rule:
    """One verifier rule; a rule file is one literal `Rule(...)` call, read by a closed reader and never imported.

    `finding` is stratified Datalog over facts (see `cake.core.clauses`) that defines `finding(...)`; the head's first
    variable is the op to change. In `message` and `help`, `{W}` is a head variable's op as written, and `{W.role}`,
    `{W.slot}`, `{W.line}`, `{W.path}` its parts; a head variable that is no op prints as itself. `bad` and `good` name
    `.cake` files beside the rule's corpus folder `corpus/bad/<CODE>/`: every `bad` is flagged, no `good` is.
    `blocking` rules need dynamic or formal `evidence`; advisory ones report only.
    """

    code: str
    name: str
    category: Category
    since: str
    finding: str
    message: str
    help: str
    why: str
    evidence: tuple[str, ...]
    bad: tuple[str, ...]
    good: tuple[str, ...]
    status: str = "stable"  # preview, stable, deprecated
    blocking: bool = True
    references: tuple[str, ...] = ()
    origin: str = "cake"  # distribution that owns it
