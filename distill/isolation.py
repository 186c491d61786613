"""One rule's verdict on its own pair, in one arrangement of rules and packs: what the isolation gate compares.

    python -m distill.isolation RULE_FILE ARRANGEMENT

Prints one JSON object: the hits on every `bad` and `good` program of the rule. The arrangement must not matter.
"""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path
from typing import Any, Final

from cake.core.clauses import evaluate
from cake.core.explore import analyse
from cake.core.reader import read_program
from cake.core.registry import rules, targets
from cake.core.rule import Rule
from cake.core.rules import read_rule_file

#: `alone`; beside all rules and loaded packs in order, reversed, and in two random orders.
ARRANGEMENTS: Final = ("alone", "in-order", "reversed", "shuffled-1", "shuffled-2")


def arranged(rule: Rule, arrangement: str) -> list[Rule]:
    """The rules to evaluate together. Raises ValueError for an arrangement that is none."""
    if arrangement not in ARRANGEMENTS:
        raise ValueError(f"{arrangement!r} is no arrangement; known: {', '.join(ARRANGEMENTS)}")
    if arrangement == "alone":
        return [rule]
    every = list({**rules(), rule.code: rule}.values())
    if arrangement == "reversed":
        every.reverse()
    if arrangement.startswith("shuffled"):
        random.Random(arrangement).shuffle(every)
    return every


def verdicts(rule: Rule, folder: Path, arrangement: str) -> dict[str, Any]:
    """Hits of `rule` on each program of its examples in `folder`, by file name."""
    together = arranged(rule, arrangement)
    found: dict[str, Any] = {}
    for name in (*rule.bad, *rule.good):
        program = read_program((folder / name).read_text(encoding="utf-8"), name)
        analysis = analyse(program, targets().get(program.target))
        hits = evaluate(together, analysis.facts, analysis.complete).hits.get(rule.code, set())
        found[name] = sorted(map(list, hits))
    return found


def main(argv: list[str]) -> int:
    """Entry of `python -m distill.isolation`: 0 when every bad program is flagged and no good one is, 1 otherwise."""
    file, arrangement = argv
    rule = read_rule_file(Path(file))
    found = verdicts(rule, Path("corpus/bad", rule.code), arrangement)
    print(json.dumps(found, sort_keys=True))
    return 0 if all(found[b] for b in rule.bad) and not any(found[g] for g in rule.good) else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
