"""The static gates: verdicts, reasons and witnesses."""

from __future__ import annotations

from dataclasses import replace

from cake.core.diagnostics import STATIC_CATEGORIES, Category, Verdict
from cake.core.reader import read_program
from cake.core.registry import PluginProblem
from cake.core.rule import Rule
from cake.core.verify import Checked, check
from tests.cases.verify.programs import RING, edited, gemm

UNORDERED = Rule(
    code="TST001",
    name="touches-unordered",
    category=Category.DATA_CONSISTENCY,
    since="0.1",
    finding="finding(B, A, C) :- conflict(A, B, C), not ordered(A, B).",
    message="{B} touches {C} while {A} may still be busy with it",
    help="Order {A} before {B}.",
    why="",
    evidence=("test",),
    bad=(),
    good=(),
)
STANDING = Rule(
    code="TST002",
    name="phase-standing",
    category=Category.PROGRAM_SAFETY,
    since="0.1",
    finding='finding(Bar, N) :- phase(Bar, "standing", N, _, _).',
    message="{Bar} ends with {N} arrivals",
    help="",
    why="",
    evidence=("test",),
    bad=(),
    good=(),
)
READ = "                x = ld_shared(a[it % 3].tile((lane_id, 0), (1, 1)))\n"
RELEASE = "                mbarrier_arrive(empty[it % 3])\n"
LATE = (READ + RELEASE, RELEASE + READ)


def _verdicts(checked: Checked) -> dict[Category, Verdict]:
    return {gate.category: gate.verdict for gate in checked.gates}


def test_a_working_program_passes_every_static_category() -> None:
    """All registered rules are silent and decided; the domain says what was examined."""
    checked = check(read_program(gemm()))
    assert _verdicts(checked) == dict.fromkeys(STATIC_CATEGORIES, Verdict.PASS)
    assert not checked.findings
    assert "all trip counts" in checked.gates[0].domain
    assert "one CTA" in checked.gates[0].domain
    assert "writes to C not compared" in checked.gates[0].domain
    assert set(checked.timings) == {"explore", "rules", "render"}


def test_a_finding_fails_its_category_and_names_the_way_there() -> None:
    """The gate fails with the finding, whose witness leads to the second access; other categories are not touched."""
    checked = check(read_program(edited(RING, LATE)), [UNORDERED], problems=())
    assert _verdicts(checked)[Category.DATA_CONSISTENCY] is Verdict.FAIL
    assert _verdicts(checked)[Category.PROGRAM_SAFETY] is Verdict.PASS
    (finding,) = checked.findings
    assert finding.paths == ("load:1.0.0.2", "use:1.0.2")
    assert finding.message.startswith("tma_load(a[it % 3]")
    *choices, last = finding.witness
    assert any("goes on" in step for step in choices)
    assert last == "load at load:1.0.0.2 writes a without knowing that use at use:1.0.2 has finished reading it"


def test_an_advisory_rule_reports_and_does_not_block() -> None:
    """A finding of a rule that does not block leaves the category's verdict alone."""
    checked = check(read_program(edited(RING, LATE)), [replace(UNORDERED, blocking=False)], problems=())
    assert len(checked.findings) == 1
    assert _verdicts(checked)[Category.DATA_CONSISTENCY] is Verdict.PASS


def test_a_run_that_ends_waiting_is_unknown_unless_a_rule_speaks() -> None:
    """Waiting for ever is a reason for `unknown`; a rule over the phases makes it a finding with the wait-for chain."""
    stuck = edited(RING, ("full[it % 3], 8192", "full[it % 3], 8320"))
    silent = check(read_program(stuck), [UNORDERED], problems=())
    assert set(_verdicts(silent).values()) == {Verdict.UNKNOWN}
    assert silent.gates[0].reason.startswith("stuck: load at load:1.0.0.0 waits for empty[0] parity 0")
    spoken = check(read_program(stuck), [STANDING], problems=())
    assert _verdicts(spoken)[Category.PROGRAM_SAFETY] is Verdict.FAIL
    assert spoken.findings[0].witness == tuple(s.text for s in spoken.analysis.stuck)


def test_what_cannot_be_decided_is_unknown() -> None:
    """An undecided rule, an escape and a plugin that did not load each leave their gates unknown, with the reason."""
    broken = PluginProblem("pack", "rules/x.py", "does not parse", (Category.SCHEDULE_SEMANTICS,))
    checked = check(read_program(RING), [UNORDERED], problems=(broken,))
    assert _verdicts(checked)[Category.SCHEDULE_SEMANTICS] is Verdict.UNKNOWN
    assert "does not parse" in checked.gates[3].reason
    assert _verdicts(checked)[Category.DATA_CONSISTENCY] is Verdict.PASS
    escape = edited(RING, ("                x = ld", '                ptx("membar.cta;")\n                x = ld'))
    assert "is not modelled" in check(read_program(escape), [UNORDERED], problems=()).gates[0].reason


def test_global_memory_that_is_read_and_written_is_unknown() -> None:
    """Global accesses are not ordered: a tensor that is both read and written leaves every gate unknown."""
    text = """\
@schedule(target="sm_90a")
def twice(X: Tensor[f32, "M"]):
    launch(ctas=M)
    rows = role(warps=1)

    with rows:
        x = fragment(f32, (1,), layout="thread")
        ld_global(x, X[cta_id])
        st_global(X[cta_id], x)
"""
    checked = check(read_program(text), [UNORDERED], problems=())
    assert set(_verdicts(checked).values()) == {Verdict.UNKNOWN}
    assert "X is both read and written" in checked.gates[0].reason


def test_an_instruction_that_the_target_does_not_have_is_never_passed() -> None:
    """Nor is a target that nobody knows: a kernel is exact about its target."""
    for target, reason in (
        ("sm_80", "mbarrier_wait at load:1.0.0.0 is no instruction of sm_80"),
        ("sm_70", "no target is called 'sm_70'; known are sm_100a, sm_80, sm_90a"),
    ):
        checked = check(read_program(edited(RING, ("sm_90a", target))))
        assert all(gate.verdict is not Verdict.PASS for gate in checked.gates)
        assert all(reason in gate.reason for gate in checked.gates if gate.verdict is Verdict.UNKNOWN)
