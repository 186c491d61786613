"""Exploration closes on working programs for every trip count, and says so where it cannot."""

from __future__ import annotations

import pytest

from cake.core.corpus import load_corpus
from cake.core.explore import Analysis, analyse
from cake.core.reader import read_program
from cake.core.registry import targets
from cake.core.sim import simulate
from cake.core.vocabulary import ALWAYS_COMPLETE, RELATIONS
from tests.cases.verify.programs import RING, edited, explored, refuted

CORPUS = [(kernel, config) for kernel in load_corpus() for config in kernel.configs]
BODY = RING[RING.index("            for i in", RING.index("    with use:")) :]
TURN = """\
            mbarrier_wait(full[it % 3], it // 3 % 2)
            x = ld_shared(a[it % 3].tile((lane_id, 0), (1, 1)))
            mbarrier_arrive(empty[it % 3])
            it = it + 1
"""
STEP = "                mbarrier_arrive(empty[it % 3])\n                it = it + 1\n"
NEXT = "    " + STEP.replace("\n ", "\n     ")
READ = "                x = ld"
MEET_ON_EVEN = "                if t % 2 == 0:\n                    warp_sync()\n" + READ
ESCAPE = '                ptx("membar.cta;")\n' + READ
TILES, COUNT = "range(cta_id, M, cta_count)", "range((K + 63) // 64)"
LOOP = f"for t in {TILES}:"
TURNS = f"            for i in {COUNT}:\n                mbarrier_wait(full"
LANES = "            for j in range(lane_id):\n                warp_sync()\n"


@pytest.mark.parametrize(("kernel", "config"), CORPUS, ids=[f"{k.name}-{c}" for k, c in CORPUS])
def test_corpus_closes_clean(kernel, config, record_property) -> None:  # type: ignore[no-untyped-def]
    """All orders hold, all synchronisation is determinate, and nothing is read that was not written."""
    program = kernel.program(config)
    analysis = analyse(program, targets()[program.target])
    assert analysis.closed, analysis.reason
    assert analysis.complete == set(RELATIONS)
    for relation in ("ordered", "visible", "same_slot", "paced", "lasting"):
        assert not refuted(analysis, relation)
    for relation in ("reads_unwritten", "supersedes", "outside"):
        assert not analysis.facts[relation]
    assert {row for row in analysis.facts["phase"] if row[1] == "standing"} == set()
    starts = {row[0] for row in analysis.facts["async"] if row[2] == "group"}
    assert {(op, "results") for op in starts} <= analysis.facts["retired"]
    assert analysis.states <= 400
    record_property("states", analysis.states)


def test_facts_have_the_arity_and_types_of_the_vocabulary() -> None:
    """Every tuple matches its relation's columns; names are text, numbers fit 31 bits."""
    for kernel, config in CORPUS[::4]:
        program = kernel.program(config)
        facts = analyse(program, targets()[program.target]).facts
        assert set(facts) == set(RELATIONS)
        for relation, rows in facts.items():
            columns = RELATIONS[relation].columns
            for row in rows:
                assert len(row) == len(columns), (relation, row)
                for value, column in zip(row, columns, strict=True):
                    assert type(value) is (int if column.type == "int" else str), (relation, row)
                    assert not isinstance(value, int) or abs(value) < 2**31


CLOSES = {
    "as it is": (),
    "first iteration peeled in one role": (
        (BODY, TURN + BODY.replace(COUNT, "range(1, (K + 63) // 64)")),
    ),
    "last release behind the loop": (
        (STEP, f"                if i + 1 < (K + 63) // 64:\n{NEXT}{TURN[TURN.index('            mbarrier_arrive'):]}"),
    ),
    "last iteration told by ==": (
        (STEP, f"                if i == (K + 63) // 64 - 1:\n{NEXT}                else:\n{NEXT}"),
    ),
    "count differs from tile to tile": ((COUNT, "range(t % 4 + 1)"), (COUNT, "range(t % 4 + 1)")),
    "count may be zero": ((COUNT, "range(K // 64)"), (COUNT, "range(K // 64)")),
    "count is a constant": ((COUNT, "range(5)"), (COUNT, "range(5)")),
    "one CTA does it all": ((LOOP, "if cta_id == 0:"), (LOOP, "if cta_id == 0:")),
    "warp meets on even tiles": ((READ, MEET_ON_EVEN),),
}  # fmt: skip


@pytest.mark.parametrize("edits", CLOSES.values(), ids=CLOSES)
def test_ring_closes(edits: tuple[tuple[str, str], ...]) -> None:
    """Equivalent loops share their trip counts, whatever their shape."""
    analysis = explored(edited(RING, *edits))
    assert analysis.closed, analysis.reason
    assert not refuted(analysis, "ordered")
    assert not refuted(analysis, "lasting")


STAYS_OPEN = {
    "a count of its own": (((COUNT, "range((M + 63) // 64)"),), "runs more than"),
    "a condition of its own": (((LOOP, "if cta_id == 0:"), (LOOP, "if cta_count > 0:")), "stuck"),
    "a slot from an extent": ((("empty[it % 3], it", "empty[K % 3], it"),), "depends on a problem extent"),
    "a slot from memory": (
        (("mbarrier_arrive(empty[it % 3])", "mbarrier_arrive(empty[cast(x, i32) % 3])"),),
        "depends on",
    ),
    "a trip count for each lane": (((TURNS, f"{LANES}{TURNS}"),), "differs between threads"),
    "mbarriers in one place": ((("at=24600", "at=24592"),), "the mbarrier full shares bytes with empty"),
    "an mbarrier among data": ((("at=24576", "at=24568"),), "the mbarrier full shares bytes with a"),
    "an mbarrier that is misaligned": ((("at=24600", "at=24604"),), "the mbarrier empty is at byte 24604"),
    "a box that leaves its region": ((("(lane_id, 0)", "(lane_id + 40, 0)"),), "touches a outside its stages"),
    "an instruction unknown": (((READ, ESCAPE),), "ptx(membar.cta;"),
}  # fmt: skip


@pytest.mark.parametrize(("edits", "reason"), STAYS_OPEN.values(), ids=STAYS_OPEN)
def test_ring_stays_open(edits: tuple[tuple[str, str], ...], reason: str) -> None:
    """What is not explored is said, and existential relations are not complete."""
    analysis = explored(edited(RING, *edits))
    assert not analysis.closed
    assert reason in analysis.reason
    assert analysis.complete == ALWAYS_COMPLETE


def test_counts_that_may_differ_are_separate_choices() -> None:
    """A cursor `4 * t + i` serves tiles of four iterations and no others."""
    indent, deep = 16 * " ", 20 * " "
    once = (("                    it = it + 1\n", ""), ("                it = it + 1\n", ""))
    cursor = (
        (f"{deep}mbarrier_wait(empty", f"{deep}it = t * 4 + i\n{deep}mbarrier_wait(empty"),
        (f"{indent}mbarrier_wait(full", f"{indent}it = t * 4 + i\n{indent}mbarrier_wait(full"),
    )  # fmt: skip
    tiles = ((TILES, "range(M)"), (TILES, "range(M)"))
    four = ((COUNT, "range(4)"), (COUNT, "range(4)"))
    assert explored(edited(RING, *once, *cursor, *tiles, *four)).closed
    open_counts = explored(edited(RING, *once, *cursor, *tiles))
    assert not open_counts.closed
    assert refuted(open_counts, "lasting")


def test_a_counter_is_reduced_only_where_its_wrap_around_commutes() -> None:
    """Modulo 6 an 8-bit counter with three stages looks faultless; its wrap-around after 256 uses is not."""
    wrap = (("it = it + 1", "it = it + 1 & 255"), ("it = it + 1\n", "it = it + 1 & 255\n"))
    three = explored(edited(RING, *wrap))
    assert refuted(three, "lasting")
    assert not three.closed
    four = edited(RING, *wrap).replace("% 3", "% 4").replace("// 3", "// 4").replace("stages=3", "stages=4")
    four = four.replace("slots=3", "slots=4").replace("24576", "32768").replace("24600", "32800")
    assert explored(four).closed


def test_expectations_in_two_parts_are_indeterminate() -> None:
    """arrive.expect A; TMA; arrive.expect B; TMA: early completion ends the phase after A, late completion after
    both."""
    load = "                    tma_load(a[it % 3], A_map, at=(0, i * 64), done=full[it % 3])\n"
    twice = load + "                    mbarrier_expect(full[it % 3], 8192)\n" + load
    analysis = explored(edited(RING, (load, twice)))
    assert not analysis.closed
    assert {row[1] for row in refuted(analysis, "paced")} == {"full"}


def test_a_budget_is_a_reason() -> None:
    """A graph that does not close within the budget is not clean."""
    analysis = analyse(read_program(RING), targets()["sm_90a"], budget=3)
    assert not analysis.closed
    assert "more than 3 states" in analysis.reason


GROW = """\
@schedule(target="sm_90a")
def grow(A: Tensor[bf16, "M"]):
    launch(ctas=1)
    give = role(warps=8)
    take = role(warps=4)

    with give:
        setmaxnreg(136, "dec")

    with take:
        setmaxnreg(232, "inc")
"""


def test_registers_come_from_the_pool() -> None:
    """An increase that the pool cannot serve blocks for ever; one that it can serve does not."""
    assert targets()["sm_90a"].registers_at_launch(384, 1) == 168
    assert explored(GROW).closed  # 256 threads give 32 each, 128 take 64 each
    analysis = explored(edited(GROW, ("232", "240")))
    assert [s.strand for s in analysis.stuck] == ["take"]
    assert "240 registers a thread" in analysis.reason


ALONE = """\
@schedule(target="sm_90a")
def alone(A: Tensor[f32, "N"]):
    launch(ctas=1)
    warps = role(warps=2)
    bar = mbarrier(arrivals=64, at=0)

    with warps:
        BODY
"""


def alone(*lines: str) -> Analysis:
    """The exploration of one role of two warps with one barrier of 64 arrivals."""
    return explored(ALONE.replace("BODY", "\n        ".join(lines)))


LEAVES = (
    "for i in range(2):",
    "    CONDITION",
    "        break",
    "    mbarrier_arrive(bar)",
    "    mbarrier_wait(bar, i)",
)


@pytest.mark.parametrize("condition", ["with one_lane():", "if thread_id < 5:", "if warp_id == 1:"])
def test_a_loop_that_some_threads_leave_is_not_explored(condition: str) -> None:
    """The threads that go on arrive without those that left: what follows the loop is not what all of them do."""
    analysis = alone(*(line.replace("CONDITION", condition) for line in LEAVES))
    assert not analysis.closed
    assert "the break at warps:0.0.0 is for some threads of its loop" in analysis.reason


def test_a_loop_of_one_lane_may_be_left_by_that_lane() -> None:
    """All threads that run the loop leave it together."""
    analysis = alone("with one_lane():", "    for i in range(N):", "        break")
    assert analysis.closed, analysis.reason


def test_what_one_lane_alone_assigns_differs_wherever_it_is_copied() -> None:
    """A copy of such a scalar decides differently in different lanes, as the scalar itself does."""
    elected = ("x = 0", "with one_lane():", "    x = 1")
    for read, name in (((), "x"), (("y = x + 1 - 1",), "y")):
        analysis = alone(*elected, *read, f"if {name} == 1:", "    mbarrier_arrive(bar)", "mbarrier_wait(bar, 0)")
        assert not analysis.closed
        assert "differs between threads" in analysis.reason


COUNTS_DOWN = ("x = 5", "for i in range(9):", "    if x == 0:", "        break", "    x = x + -1")


def test_a_counter_that_counts_down_is_not_reduced() -> None:
    """`x == 0` tells 0 from all larger numbers, and `x + -1` does not keep them apart: five iterations are not one."""
    lines = (*COUNTS_DOWN, "    mbarrier_arrive(bar)", "mbarrier_wait(bar, 0)")
    analysis = explored(ALONE.replace("arrivals=64", "arrivals=320").replace("BODY", "\n        ".join(lines)))
    assert analysis.closed, analysis.reason
    assert ("bar", "completed", 320, 0, 0) in analysis.facts["phase"]


ARITHMETIC = {
    "i32 division rounds to zero": "(0 - 7) // 2 == -3",
    "an i32 remainder has the sign of its dividend": "(0 - 7) % 3 == -1",
    "u32 wraps below 0": "u32(0) - u32(1) > u32(5)",
    "a cast to u32 wraps": "cast(0 - 1, u32) > u32(5)",
    "a cast to i32 wraps": "cast(u32(4294967295), i32) == -1",
    "a cast to bool is 0 or 1": "cast(cast(5, bool), i32) == 1",
}


@pytest.mark.parametrize("condition", ARITHMETIC.values(), ids=ARITHMETIC)
def test_conditions_are_decided_as_the_machine_decides_them(condition: str) -> None:
    """Exploration and simulator take the same branch: all threads arrive, and nobody waits in vain."""
    lines = (f"if {condition}:", "    mbarrier_arrive(bar)", "mbarrier_wait(bar, 0)")
    analysis = alone(*lines)
    assert analysis.closed, analysis.reason
    text = ALONE.replace("BODY", "\n        ".join(lines))
    assert simulate(read_program(text), {}, {"N": 1}).outcome == "ok"


UNDECIDED = {
    "an overflow": ("x = 2147483647", "if x << 1 > 0:"),
    "a division by zero": ("x = 0", "if 5 // x > 0:"),
    "a division by a constant zero": ("if 5 // 0 > 0:",),
    "a division by zero in some thread": ("if 5 // thread_id > 0:",),
    "a float": ("x = 1", "if cast(x, f32) / cast(2, f32) > cast(0, f32):"),
}


@pytest.mark.parametrize("lines", UNDECIDED.values(), ids=UNDECIDED)
def test_what_the_machine_leaves_open_is_unknown(lines: tuple[str, ...]) -> None:
    """No branch is taken where the language says nothing about the value."""
    analysis = alone(*lines, "    mbarrier_arrive(bar)", "mbarrier_wait(bar, 0)")
    assert not analysis.closed


def test_a_remainder_below_zero_is_no_slot() -> None:
    """`(i - 1) % 2` is -1 in the first iteration, not 1."""
    text = ALONE.replace("at=0", "at=0, slots=2")
    body = ("for i in range(2):", "    mbarrier_arrive(bar[(i - 1) % 2])")
    analysis = explored(text.replace("BODY", "\n        ".join(body)))
    assert "names a slot of bar outside its 2" in analysis.reason


DOUBLING = {
    "a name read twice": ("0", "X + X", "mbarrier_wait(bar, X & 1)"),
    "a quotient of itself": ("N", "X // 3 + X // 5 % 7", "if X > 5:"),
    "a power of a sum": ("N + cta_id", "X * (X + 1)", "if X > 5:"),
    "a power of a number": ("3", "X * X", "if X > N:"),
}


@pytest.mark.parametrize(("first", "next_", "use"), DOUBLING.values(), ids=DOUBLING)
def test_scalars_that_double_in_size_are_given_up(first: str, next_: str, use: str) -> None:
    """Forty statements that each double what they are made of ask for no time that grows with 2**40."""
    steps = [f"x{i} = {next_.replace('X', f'x{i - 1}')}" for i in range(1, 40)]
    last = [use.replace("X", "x39"), *(["    mbarrier_arrive(bar)"] if use.startswith("if") else [])]
    assert not alone(f"x0 = {first}", *steps, *last).closed
