"""From a studied group of failures to a rule that went through its gates, and on to a proposal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, count
from typing import Final

from cake.core.corpus import CleanProgram
from cake.core.registry import codes
from cake.core.rule import Rule
from distill import gates, ledger, render
from distill.compose import Support, compose, family, tidy
from distill.gates import Clean, GateLine, Trial
from distill.join import Example, covers
from distill.lab import Lab
from distill.learn import Candidate
from distill.ledger import Decision
from distill.proposals import Proposal, ledger_codes, next_code
from distill.store import RunStore, digest
from distill.study import Study
from distill.survey import Case, Group
from distill.vary import variants

SINCE: Final = "0.1"
#: Members of a group that an earlier rule has to flag before the group counts as explained by it.
ASKED: Final = 4


@dataclass(frozen=True, slots=True)
class Found:
    """What became of a group. `rule` is what was learnt from it, with its gate lines; `explained_by` names a rule that
    was there before, shipped or proposed by this run; `note` says why there is neither, or how it explains."""

    group: Group
    study: Study | None = None
    rule: Rule | None = None
    lines: tuple[GateLine, ...] = ()
    explained_by: str = ""
    note: str = ""

    @property
    def green(self) -> bool:
        """Whether there is a rule that passed all gates of the *propose* tier."""
        return self.rule is not None and gates.green(self.lines)


@dataclass(frozen=True, slots=True)
class Judge:
    """Turns studies into rules, one after the other: a rule may explain the groups behind it.

    `decided` are the ledger's entries at the base commit."""

    lab: Lab
    clean: Sequence[CleanProgram]
    shipped: tuple[Rule, ...]
    decided: tuple[Decision, ...]
    store: RunStore

    def explained(self, group: Group, found: Sequence[Found]) -> str:
        """The proposal of this run that flags a group at ops which its repairs touch, if there is one."""
        members = [m for c in group.cases[:ASKED] if (m := self._member(c)) is not None]
        for f in found:
            clause = _clause(f)
            if clause is None or f.rule is None or not f.green or not members:
                continue
            if all(covers(clause.body, m, clause.head) for m in members):
                return f.rule.code
        return ""

    def judged(self, group: Group, result: Study | str, found: Sequence[Found]) -> Found:
        """The rule of a study, with its gates; or why there is none."""
        elsewhere = ", ".join(sorted(set.intersection(*(set(c.elsewhere) for c in group.cases))))
        if isinstance(result, str):
            return _none(group, None, result, elsewhere)
        if result.clause is None:
            tie = f"; tied: {' | '.join(result.lesson.tie[:3])}" if result.lesson.tie else ""
            return _none(group, result, f"nothing learnt: {result.lesson.reason}{tie}", elsewhere)
        if earlier := self.explained(group, found):
            return Found(group, explained_by=earlier, note="proposed by this run")
        rule = self._composed(
            group, result, result.clause, [f.rule.code for f in found if f.rule is not None and f.green]
        )
        same = next((f for f in found if f.rule is not None and gates.rule_key(f.rule) == gates.rule_key(rule)), None)
        if same is not None:
            return _none(group, result, f"{same.note or 'explained'}, as of the same rule above", elsewhere)
        slug = slug_of(rule)
        decision = ledger.latest(self.decided).get(slug)
        if decision is not None:
            why = decision.reason.partition(". ")[0].rstrip(".")
            return _none(group, result, f"{slug} was {decision.decision}: {why}", elsewhere)
        lines = gates.run(self._trial(rule, result))
        self.store.save("".join(g.line() + "\n" for g in lines), "gates", f"{group.key}.jsonl")
        self.store.save(render.rule_file(rule), "rules", f"{group.key}.py")
        red = next((g for g in lines if g.verdict != "pass" and g.gate not in gates.MERGE_TIER), None)
        if red is not None and elsewhere:
            return _none(group, result, "", elsewhere)
        return Found(group, result, rule, lines, note=f"gate {red.gate} is {red.verdict}: {red.detail}" if red else "")

    def proposal(self, f: Found) -> Proposal:
        """What to put on a branch for a rule that passed its gates."""
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

    # --------------------------------------------------------------------------------------------------------- parts

    def _composed(self, group: Group, result: Study, clause: Candidate, taken: Sequence[str]) -> Rule:
        devices: Counter[str] = Counter()
        for case in group.cases:
            devices.update(case.failure.devices)
        names = tuple(sorted({c.failure.kernel for c in group.cases}))
        used = {*(r.code for r in self.shipped), *ledger_codes(self.decided), *taken, *codes().retired}
        support = Support(group.cases[0].failure.outcome, devices, result.studied.failure.program, names)
        rule = compose(clause, support, next_code(family(tidy(clause)), used), SINCE)
        shipped = {r.name for r in self.shipped}
        distinct = chain([rule.name], (f"{rule.name}-{n}" for n in count(2)))
        return replace(rule, name=next(name for name in distinct if name not in shipped))

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

        clean = tuple(Clean(c.family, c.config, e) for c in self.clean if (e := lab.example(c.program)) is not None)
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


def _clause(f: Found) -> Candidate | None:
    return f.study.clause if f.study is not None else None


def _none(group: Group, result: Study | None, why: str, elsewhere: str) -> Found:
    """No rule for a group; a shipped rule that flags it at ops which its repair does not touch is named."""
    if elsewhere:
        return Found(group, result, explained_by=elsewhere, note="flags it, at other ops than its repair touches")
    return Found(group, result, note=why)


def slug_of(rule: Rule) -> str:
    """A proposal's name: the rule's words and the start of its clauses' hash, so that another rule is another slug."""
    return f"{rule.name[:60]}-{gates.rule_key(rule)[:8]}"
