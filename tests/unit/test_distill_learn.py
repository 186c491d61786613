"""From programs to a rule: the clause that tells a failure from its repair, its file, its variants, its isolation."""

from __future__ import annotations

from pathlib import Path

import pytest

from cake.core.clauses import Atom, Compare, evaluate
from cake.core.ir import Program
from cake.core.printer import print_program
from cake.core.reader import read_program
from cake.core.registry import rules
from cake.core.rule import Rule
from cake.core.rules import read_rule
from distill.gates import rule_key
from distill.isolation import ARRANGEMENTS, arranged, verdicts
from distill.lab import Lab
from distill.render import rule_file
from distill.teach import flagged_members, learn
from distill.vary import count_ops, names_of, renamed, variants

BAD = Path(__file__).parents[2] / "corpus" / "bad"
CODE = "SYN005"
HEAD = "load:2.0.0.1"


@pytest.fixture(scope="module")
def rule() -> Rule:
    """A shipped rule that was learnt: expected bytes differ from delivered bytes."""
    return rules()[CODE]


@pytest.fixture(scope="module")
def lab() -> Lab:
    """A laboratory that knows no rule."""
    return Lab(())


def program(name: str) -> Program:
    """The bad or the good program of the rule."""
    return read_program((BAD / CODE / f"{name}.cake").read_text(), name)


def test_a_pair_teaches_the_rule_about_bytes(lab: Lab) -> None:
    """From the two programs alone: a phase whose awaited bytes are not the delivered ones, at the op of the repair."""
    bad = lab.example(program("bad"), frozenset({HEAD}))
    good = lab.example(program("good"))
    assert bad is not None
    assert good is not None
    lesson = learn(bad, [HEAD], (), [good], {}, lambda name: None)
    assert lesson.clause is not None, lesson.reason
    (phase,) = [x for x in lesson.clause.body if isinstance(x, Atom) and x.relation == "phase"]
    (compare,) = [x for x in lesson.clause.body if isinstance(x, Compare)]
    assert compare.op == "!="
    assert {compare.left, compare.right} == set(phase.terms[3:])
    assert flagged_members(lesson.clause, [bad]) == (True,)
    assert lesson.tie == ()


def test_only_a_flagged_program_is_asked_about(lab: Lab) -> None:
    """An unlabelled program that the clauses flag is put to the oracle; one that none of them flags is not."""
    bad = lab.example(program("bad"), frozenset({HEAD}))
    good = lab.example(program("good"))
    assert bad is not None
    assert good is not None
    asked: list[str] = []

    def ask(name: str) -> bool:
        asked.append(name)
        return False

    lesson = learn(bad, [HEAD], (), [good], {"again": bad, "mended": good}, ask)
    assert asked == ["again"] == [q.program for q in lesson.asked]
    assert lesson.clause is not None


def test_nothing_is_learnt_where_nothing_differs(lab: Lab) -> None:
    """A failure with the facts of a passing program has no clause, and a reason says so."""
    same = program("bad")
    target, passing = lab.example(same, frozenset({HEAD})), lab.example(same)
    assert target is not None
    assert passing is not None
    lesson = learn(target, [HEAD], (), [passing], {}, lambda name: None)
    assert lesson.clause is None
    assert lesson.reason
    assert (
        learn(target, [], (), [], {}, lambda name: None).reason
        == "the failing program has no op that a rule could flag"
    )


@pytest.mark.parametrize("code", sorted(rules()))
def test_a_rule_file_reads_back_as_the_rule(code: str) -> None:
    """Every shipped rule, written by the distiller, is the same rule again, in lines that fit the house."""
    shipped = rules()[code]
    text = rule_file(shipped)
    again = read_rule(text)
    for name in ("code", "name", "category", "since", "message", "help", "bad", "good", "status"):
        assert getattr(again, name) == getattr(shipped, name), name
    assert again.why.split() == shipped.why.split()
    assert rule_key(again) == rule_key(shipped)
    assert max(map(len, text.splitlines())) <= 120
    assert rule_file(again) == text


@pytest.mark.parametrize("arrangement", ARRANGEMENTS)
def test_a_verdict_does_not_depend_on_the_arrangement(rule: Rule, arrangement: str) -> None:
    """Alone or among all rules in any order, the rule flags its bad program at one op and not its good one."""
    assert verdicts(rule, BAD / CODE, arrangement) == {
        "bad.cake": [[HEAD, "ring_full", 24576, 32768]],
        "good.cake": [],
    }


def test_arrangements_hold_every_rule_once(rule: Rule) -> None:
    """Each arrangement but `alone` holds all rules; two random orders differ; an unknown name is refused."""
    orders = {a: [r.code for r in arranged(rule, a)] for a in ARRANGEMENTS}
    assert orders.pop("alone") == [CODE]
    assert all(sorted(o) == sorted(rules()) for o in orders.values())
    assert orders["reversed"] == orders["in-order"][::-1]
    assert orders["shuffled-1"] != orders["shuffled-2"]
    with pytest.raises(ValueError, match="'sideways' is no arrangement"):
        arranged(rule, "sideways")


@pytest.mark.parametrize(("name", "hits"), [("bad", 1), ("good", 0)])
def test_variants_keep_the_verdict(rule: Rule, lab: Lab, name: str, hits: int) -> None:
    """Renamed and reordered programs have other text, the same ops, and as many findings."""
    base = program(name)
    seen = {print_program(base)}
    drawn = list(variants(base, 4))
    assert {what for what, _ in drawn} == {"renaming", "reordering"}
    for what, variant in drawn:
        example = lab.example(variant)
        assert example is not None
        assert len(evaluate([rule], example.facts, example.complete).hits.get(CODE, ())) == hits, what
        assert count_ops(variant) == count_ops(base)
        seen.add(print_program(variant))
    assert len(seen) == 1 + len(drawn)


def test_variants_are_the_same_every_time() -> None:
    """The draw is deterministic."""
    one, two = (list(variants(program("good"), 6)) for _ in range(2))
    assert one == two


def test_renaming_reaches_every_name() -> None:
    """A renamed program uses none of the old names, and renaming back gives the program."""
    base = program("good")
    names = names_of(base)
    assert {"a", "ring_full", "load", "ring_slot", "tile"} <= set(names)
    there = {n: f"v{i}" for i, n in enumerate(names)}
    new = renamed(base, there)
    assert set(names_of(new)) == set(there.values())
    assert print_program(renamed(new, {v: k for k, v in there.items()})) == print_program(base)
