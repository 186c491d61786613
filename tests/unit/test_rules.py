"""Rule files: the closed reader, the lint, and messages with the program's own words in them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cake.core import registry
from cake.core.diagnostics import Category
from cake.core.errors import CakeError
from cake.core.ir import walk
from cake.core.reader import read_program
from cake.core.rule import Rule
from cake.core.rules import Codes, RuleError, lint_rule, lint_set, read_rule, read_rule_file
from cake.core.rules_render import Renderer

TEXT = '''# A comment is fine.
Rule(
    code="SYN900",
    name="barrier-is-shared",
    category="program-safety",
    since="0.1",
    finding="""
        h(A) :- op(A, "barrier_sync", _).
        finding(W, Bar) :- h(W), syncs(W, Bar, _, _).
    """,
    message="{W} of {W.role} syncs on {Bar}" " at line {W.line}",
    help="Move {W.slot} of {W.barrier}.",
    why="Because.",
    evidence=("seen in a test",),
    bad=("bad.cake",),
    good=("good.cake",),
    blocking=False,
)
'''
CODES = Codes({"SYN": "barriers"}, {"SYN666": "it flagged a documented idiom"})
PROGRAM = """@schedule(target="sm_90a")
def two(X: Tensor[f32, "N"]):
    launch(ctas=1)
    buf = smem(f32, (4,), at=0, stages=2)
    meet = named_barrier(arrivals=32, at=1, slots=2)
    one = role(warps=1)

    with one:
        for i in range(N):
            barrier_sync(meet[i % 2])
            st_shared(buf[i % 2].tile((lane_id % 4,), (1,)), 1.0)
"""


def test_a_rule_file_is_one_literal_call(tmp_path: Path) -> None:
    """Fields, adjacent strings, tuples and booleans are read; triple-quoted text loses its indentation."""
    file = tmp_path / "SYN900_barrier_is_shared.py"
    file.write_text(TEXT)
    rule = read_rule_file(file, "somebody")
    assert rule.category is Category.PROGRAM_SAFETY
    assert rule.finding.splitlines()[1] == "finding(W, Bar) :- h(W), syncs(W, Bar, _, _)."
    assert rule.message == "{W} of {W.role} syncs on {Bar} at line {W.line}"
    assert (rule.bad, rule.blocking, rule.status, rule.origin) == (("bad.cake",), False, "stable", "somebody")


@pytest.mark.parametrize(
    ("old", "new", "line", "reason"),
    [
        ('"0.1"', 'str("0.1")', 6, "since is a literal string"),
        ('"0.1"', '"0." + "1"', 6, "since is a literal string"),
        ('"0.1"', 'f"0.1"', 6, "since is a literal string"),
        ('"0.1"', "0.1", 6, "since is a literal string"),
        ("since=", "sinse=", 6, "Rule has no field 'sinse'; did you mean 'since'?"),
        ("since=", "origin=", 6, "Rule has no field 'origin'"),
        ('"program-safety"', '"safety"', 5, "category 'safety' is not one of program-safety"),
        ('("bad.cake",)', '"bad.cake"', 15, "bad is a tuple of literal strings"),
        ('("bad.cake",)', '("bad.cake", open("x"))', 15, "bad is a literal string"),
        ("blocking=False", "blocking=0", 17, "blocking is True or False"),
        ("blocking=False", '**{"status": "x"}', 17, "Rule has no field '**'"),
        ("blocking=False", 'since="0.2"', 17, "field 'since' is given twice"),
        ("    since=", "    # since=", 2, "missing since"),
        ("# A comment is fine.", "import os", 2, "one call Rule"),
        ("Rule(", "Rules(", 2, "one call Rule"),
        ("Rule(", "Rule(1, ", 2, "one call Rule"),
        ("Rule(", "Rule(((", 2, "is not a rule"),
    ],
)
def test_anything_else_is_refused(old: str, new: str, line: int, reason: str) -> None:
    """Code, wrong types, wrong and missing fields are refused with the line and the reason."""
    with pytest.raises(RuleError) as refused:
        read_rule(TEXT.replace(old, new, 1), "rule.py")
    assert reason in refused.value.message
    assert refused.value.message.startswith("rule.py:")
    assert refused.value.line == line


@pytest.mark.parametrize("data", [b"\xff\xfe", b"Rule()" + b" " * (65 << 10), b"", b"1", b"Rule(\0)"])
def test_unreadable_files_are_refused(tmp_path: Path, data: bytes) -> None:
    """Binary, huge and empty files are refused with the file's name."""
    file = tmp_path / "x.py"
    file.write_bytes(data)
    with pytest.raises(RuleError, match=r"x\.py"):
        read_rule_file(file)


def rule(**changes: object) -> Rule:
    """The rule of TEXT with some fields changed."""
    return replace(read_rule(TEXT), **changes)  # type: ignore[arg-type]


def test_a_good_rule_has_nothing_to_mend() -> None:
    """The sample rule passes the lint."""
    assert lint_rule(rule(), CODES) == []


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"code": "SYNC1"}, "three capitals and three digits"),
        ({"code": "XYZ001"}, "family XYZ is not reserved"),
        ({"code": "SYN666"}, "the code is retired: it flagged a documented idiom"),
        ({"name": "Barrier"}, "two-or-more-words"),
        ({"since": "soon"}, "is no version"),
        ({"status": "beta"}, "is not one of preview"),
        ({"category": Category.OPTIMISATION_GUIDANCE, "blocking": True}, "may not block"),
        ({"why": ""}, "why is empty"),
        ({"evidence": ()}, "evidence is empty"),
        ({"message": "{X} is wrong"}, "uses {X}, and finding has W, Bar"),
        ({"message": "{W.size} is wrong"}, "has only role, slot"),
        ({"message": "{Bar.role} is wrong"}, "has only line"),
        ({"message": "{w} is wrong"}, "brace outside a placeholder"),
        ({"finding": "finding(W) :- nothing(W)."}, "unknown relation 'nothing'"),
        ({"bad": ()}, "bad is empty"),
        ({"good": ("bad.cake",)}, "named twice"),
        ({"good": ("../good.cake",)}, "is no .cake file name"),
    ],
)
def test_lint_says_what_is_wrong(changes: dict[str, object], reason: str) -> None:
    """Each fault gives one line that starts with the code and names it."""
    found = lint_rule(rule(**changes), CODES)
    assert any(reason in line for line in found), found
    assert all(line.startswith(f"{changes.get('code', 'SYN900')}: ") for line in found)


def test_lint_looks_at_the_examples(tmp_path: Path) -> None:
    """Examples exist, and the good one is not the bad one."""
    (tmp_path / "bad.cake").write_text("same")
    assert lint_rule(rule(), CODES, tmp_path) == [f"SYN900: example good.cake is not in {tmp_path}"]
    (tmp_path / "good.cake").write_text("same")
    assert lint_rule(rule(), CODES, tmp_path) == ["SYN900: examples bad.cake and good.cake are the same program"]
    (tmp_path / "good.cake").write_bytes(b"\xff")
    assert "SYN900: example good.cake cannot be read" in lint_rule(rule(), CODES, tmp_path)[0]


def test_lint_looks_at_rules_side_by_side() -> None:
    """Two rules with one code, one name or equal clauses are named with their owners."""
    other = rule(code="p:SYN900", origin="pack-p", finding=rule().finding.replace("W", "Op").replace("h(", "g("))
    assert lint_set([rule(), other]) == [
        "SYN900 of cake and p:SYN900 of pack-p have the same name 'barrier-is-shared'",
        "SYN900 of cake and p:SYN900 of pack-p have the same clauses",
    ]


def test_findings_speak_the_programs_language() -> None:
    """Placeholders print the statement, its role, slot and line; hits on one op merge into one finding."""
    program = read_program(PROGRAM, "two.cake")
    path = next(x.path for x in walk(program) if x.path.startswith("one:0."))
    found = Renderer(program).findings(rule(), {(path, "meet"), (path, "other")})
    assert len(found) == 1
    (finding,) = found
    assert finding.message == "barrier_sync(meet[i % 2]) of one syncs on meet at line 10"
    assert finding.help == "Move meet[i % 2] of meet."
    assert (finding.role, finding.barrier, finding.stage, finding.line) == ("one", "meet", "i % 2", 10)
    assert (finding.paths, finding.span.line, finding.blocking) == ((path,), 10, False)


def test_findings_about_declarations_have_their_line() -> None:
    """A hit on a region has no path; it points at the declaration."""
    about = rule(
        finding="finding(B, N) :- smem(B, _, N, _, _).", message="{B} at line {B.line} has {N} bytes", help="-"
    )
    (finding,) = Renderer(read_program(PROGRAM, "two.cake")).findings(about, {("buf", 16)})
    assert (finding.message, finding.paths, finding.line) == ("buf at line 4 has 16 bytes", (), 4)


def test_shipped_rules_pass_the_lint() -> None:
    """Every built-in rule is sound by itself and beside the others, in a file that carries its code and name."""
    plugins = [p for p in registry.default().plugins() if p.kind == "rule" and p.owner == "cake"]
    shipped = [p.value for p in plugins]
    examples = Path(__file__).parents[2] / "corpus" / "bad"
    assert [line for r in shipped for line in lint_rule(r, registry.codes(), examples / r.code)] == []
    assert lint_set(shipped) == []
    for p in plugins:
        name = f"{p.value.code}_{p.value.name.replace('-', '_')}.py"
        assert (p.file.parent.name, p.file.name) == (p.value.code[:3].lower(), name)


def test_explaining_what_is_not_there_names_what_is_close() -> None:
    """An unknown name is an error with the closest names."""
    with pytest.raises(CakeError, match="no plugin is called 'tma_lod'; did you mean tma_load"):
        registry.default().find("tma_lod")
