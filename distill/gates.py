"""Gates of the *propose* tier: what a rule has to pass before anybody is asked to read it.

Each gate gives one line: its verdict, how much it looked at, and what it saw. A gate of the merge tier stands in the
table as `unknown` until it has run.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Final

from cake.core.clauses import Clause, ClauseError, Clauses, check_clauses, evaluate, fingerprint, parse_clauses
from cake.core.diagnostics import Verdict
from cake.core.rule import Rule
from cake.core.rules import Codes, lint_rule, lint_set
from distill.join import Example, Value

#: The gates that only the merge tier runs, with what each of them does.
MERGE_TIER: Final = {
    "suite": "the whole test suite, in a checkout of the branch",
    "isolation": "alone, beside all packs, and in random order, each in a fresh process",
}


@dataclass(frozen=True, slots=True)
class GateLine:
    """One gate's result. `n` is how many things it examined, `detail` one sentence."""

    gate: str
    verdict: Verdict
    n: int
    detail: str

    def line(self) -> str:
        """One JSON object, keys sorted."""
        return json.dumps(asdict(self), sort_keys=True, ensure_ascii=False)


def parse_gates(text: str) -> tuple[GateLine, ...]:
    """Gate lines from JSONL. Raises ValueError or KeyError for anything else."""
    rows = [json.loads(line) for line in text.splitlines() if line.strip()]
    return tuple(GateLine(r["gate"], Verdict(r["verdict"]), int(r["n"]), r["detail"]) for r in rows)


@dataclass(frozen=True, slots=True)
class Clean:
    """A program that is known to be good: `family` is its kernel, `config` what of it (a configuration, a repair)."""

    family: str
    config: str
    example: Example


@dataclass(slots=True)
class Trial:
    """A rule and everything that it is tried on.

    `bad` and `good` are the reduced pair, `heads` the ops at which `bad` may be flagged; `corpus` the clean corpus;
    `passing` other programs that the oracle passed; `failing` the cluster's members, each with the ops allowed;
    `generated` unlabelled neighbours. `held_out` says, for members left out of the learning, whether the clause learnt
    from the others flags them. `vary` gives semantically equal variants of a program by name (see `distill.vary`).
    """

    rule: Rule
    bad: Example
    good: Example
    shipped: tuple[Rule, ...]
    codes: Codes
    corpus: tuple[Clean, ...]
    passing: tuple[Example, ...]
    failing: tuple[Example, ...]
    generated: tuple[Example, ...]
    held_out: tuple[bool, ...]
    vary: Callable[[], Iterable[tuple[str, Example, Example]]]
    used_codes: frozenset[str] = frozenset()
    examples: Path | None = None
    _hits: dict[tuple[str, str], Mapping[str, set[tuple[Value, ...]]]] = field(default_factory=dict)

    def hits(
        self, example: Example, rules: Sequence[Rule] | None = None
    ) -> Mapping[str, set[tuple[Value, ...]] | None]:
        """Hits by code of `rules` (the new one by default) on an example; None where the rule cannot be decided."""
        chosen = (self.rule,) if rules is None else tuple(rules)
        found = evaluate([replace(r, origin="cake") for r in chosen], example.facts, example.complete)
        return {r.code: found.hits.get(r.code) for r in chosen}

    def mine(self, example: Example) -> set[tuple[Value, ...]] | None:
        """The new rule's hits on an example; None when it cannot be decided."""
        return self.hits(example)[self.rule.code]


def run(trial: Trial) -> tuple[GateLine, ...]:
    """Every gate of the propose tier, in order, and a line for each gate that this tier does not run."""
    gates = (
        ("meta-lint", _lint),
        ("pair", _pair),
        ("novelty", _novelty),
        ("clean-corpus", _clean_corpus),
        ("held-out", _held_out),
        ("metamorphic", _metamorphic),
        ("necessity", _necessity),
        ("derivability", _derivability),
        ("verdict-diff", _verdict_diff),
    )
    lines = [GateLine(name, *gate(trial)) for name, gate in gates]
    later = [GateLine(n, Verdict.UNKNOWN, 0, f"not run in this tier: {what}") for n, what in MERGE_TIER.items()]
    return (*lines, *later)


Result = tuple[Verdict, int, str]


def _result(wrong: Sequence[str], n: int, passed: str) -> Result:
    if wrong:
        more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
        return Verdict.FAIL, n, f"{wrong[0]}{more}"
    return Verdict.PASS, n, passed


def _lint(t: Trial) -> Result:
    wrong = lint_rule(t.rule, t.codes, t.examples) + lint_set((*t.shipped, t.rule))
    if t.rule.code in t.used_codes:
        wrong.append(f"{t.rule.code} was used before")
    if t.hits(t.bad) != t.hits(t.bad):
        wrong.append("two evaluations differ")
    return _result(wrong, 1 + len(t.shipped), "code, name, words and clauses are in order; no shipped rule shares one")


def _pair(t: Trial) -> Result:
    bad, good = t.mine(t.bad), t.mine(t.good)
    wrong = []
    if bad is None or good is None:
        return Verdict.UNKNOWN, 2, "facts are missing"
    elsewhere = sorted({str(h[0]) for h in bad} - t.bad.heads)
    if not {str(h[0]) for h in bad} & t.bad.heads:
        wrong.append(f"the failing program is flagged at {', '.join(elsewhere) or 'no op'}")
    if good:
        wrong.append(f"the repaired program is flagged at {min(str(h[0]) for h in good)}")
    at = ", ".join(sorted({str(h[0]) for h in bad} & t.bad.heads))
    return _result(wrong, 2, f"flags {at}, where the repair is; silent after it")


def _novelty(t: Trial) -> Result:
    bad, good = t.hits(t.bad, t.shipped), t.hits(t.good, t.shipped)
    separating = [r.code for r in t.shipped if bad[r.code] and not good[r.code]]
    wrong = [f"{code} already tells failure and repair apart" for code in separating]
    return _result(wrong, len(t.shipped), f"none of {len(t.shipped)} shipped rules tells failure and repair apart")


def upper_bound(n: int, confidence: float = 0.95) -> float:
    """The rate of false alarms that zero findings in `n` independent programs exclude, at `confidence`."""
    return 1.0 if n == 0 else 1 - (1 - confidence) ** (1 / n)


def _clean_corpus(t: Trial) -> Result:
    wrong, undecided = [], []
    for clean in t.corpus:
        hits = t.mine(clean.example)
        if hits is None:
            undecided.append(f"{clean.family} {clean.config}")
        elif hits:
            wrong.append(f"{clean.family} {clean.config} is flagged at {min(str(h[0]) for h in hits)}")
    families, n = len({c.family for c in t.corpus}), len(t.corpus)
    if undecided and not wrong:
        return Verdict.UNKNOWN, n, f"cannot be decided on {undecided[0]}"
    bounds = f"{upper_bound(families):.0%} of families, {upper_bound(n):.0%} of configurations"
    detail = f"0 findings in {families} families, {n} programs; false alarms are below {bounds} (95 %)"
    return _result(wrong, n, detail)


def _held_out(t: Trial) -> Result:
    n = len(t.held_out)
    if n < 2:
        return Verdict.PASS, n, "a single member: nothing to hold out, so the rule starts as a preview"
    hit = sum(t.held_out)
    wrong = [] if hit * 4 >= n * 3 else [f"only {hit} of {n} members are flagged by what the others teach"]
    return _result(wrong, n, f"{hit} of {n} members are flagged by a clause learnt without them")


def _metamorphic(t: Trial) -> Result:
    wrong, n = [], 0
    for name, before, after in t.vary():
        one, two = t.mine(before), t.mine(after)
        n += 1
        if one is None or two is None or len(one) != len(two):
            wrong.append(f"{name} changes the verdict")
    return _result(wrong, n, "renaming and reordering change no verdict")


def bodies_without_one(clauses: Clauses) -> list[tuple[str, Clauses | None]]:
    """For each body literal, the clauses without it; None where they are no rule any more."""
    found: list[tuple[str, Clauses | None]] = []
    for i, clause in enumerate(clauses.clauses):
        for j, literal in enumerate(clause.body):
            body = clause.body[:j] + clause.body[j + 1 :]
            rest = Clauses((*clauses.clauses[:i], Clause(clause.head, body), *clauses.clauses[i + 1 :]))
            try:
                check_clauses(rest)
            except ClauseError:
                found.append((str(literal), None))
            else:
                found.append((str(literal), rest))
    return found


def _necessity(t: Trial) -> Result:
    wrong, n = [], 0
    passing = (t.good, *(c.example for c in t.corpus), *t.passing)
    for literal, rest in bodies_without_one(parse_clauses(t.rule.finding)):
        n += 1
        if rest is None:
            continue
        weaker = replace(t.rule, finding=str(rest), origin="cake")
        if not any(t.hits(e, (weaker,))[weaker.code] for e in passing):
            wrong.append(f"{literal} could go: without it the rule is silent on the same passing programs")
    return _result(wrong, n, "without any one condition the rule flags a passing program, or is no rule")


def _derivability(t: Trial) -> Result:
    pool = (t.bad, *t.failing, *t.generated)
    flagged = [e for e in pool if t.mine(e)]
    alone = [e for e in flagged if not any(t.hits(e, t.shipped).values())]
    below = [
        r.code
        for r in t.shipped
        if (own := [e for e in pool if t.hits(e, (r,))[r.code]]) and all(any(e is f for f in flagged) for e in own)
    ]
    wrong = [] if alone else ["the shipped rules flag every program that it flags"]
    also = f"; on these it flags all that {', '.join(below)} flags" if below else ""
    return _result(
        wrong, len(pool), f"of {len(flagged)} programs flagged, {len(alone)} are flagged by no shipped rule{also}"
    )


def _verdict_diff(t: Trial) -> Result:
    clean = (t.good, *(c.example for c in t.corpus), *t.passing)
    wrong = [f"{e.name} passes and would be flagged" for e in clean if t.mine(e)]
    changed = sum(bool(t.mine(e)) and not any(t.hits(e, t.shipped).values()) for e in t.failing)
    detail = f"{changed} of {len(t.failing)} failing programs go from unflagged to flagged; no passing one does"
    return _result(wrong, len(clean) + len(t.failing), detail)


def summary(lines: Iterable[GateLine]) -> str:
    """`passed/run`, gates that were not run left out."""
    ran = [g for g in lines if g.gate not in MERGE_TIER]
    return f"{sum(g.verdict == Verdict.PASS for g in ran)}/{len(ran)}"


def green(lines: Iterable[GateLine]) -> bool:
    """Whether every gate of the propose tier passed."""
    return all(g.verdict == Verdict.PASS for g in lines if g.gate not in MERGE_TIER)


def rule_key(rule: Rule) -> str:
    """The hash of a rule's clauses, whatever its variables are called."""
    return fingerprint(parse_clauses(rule.finding))
