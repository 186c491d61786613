"""What the reader makes of schedules: scopes, constants, unrolling, sugar, lifting, spans."""

from __future__ import annotations

import textwrap

import pytest

from cake.core.ir import IRError, Program, walk
from cake.core.printer import print_program
from cake.core.reader import read_program, read_schedule

HEADER = """\
@schedule(target="sm_90a")
def k(X: Tensor[f32, "M", "N"], eps: f32, *, STAGES=2, INSTANCES=2, FLAG=True):
    launch(ctas=ceil_div(M, 4))
    s = smem(f32, (8, 4), stages=STAGES, at=0)
    full = mbarrier(arrivals=1, at=s.end, slots=STAGES)
    done = named_barrier(arrivals=32, at=1, slots=INSTANCES)
    load = role(warps=1)
    math = role(warps=1, instances=INSTANCES)
    ring = pipeline(stages=STAGES, producer=load, consumer=math, at=4096)
"""


def read(math: str, load: str = "pass", **config) -> Program:
    """The program whose role `math` has these statements."""
    roles = "".join(
        f"    with {name}:\n{textwrap.indent(textwrap.dedent(body).strip(), ' ' * 8)}\n"
        for name, body in (("load", load), ("math", math))
    )
    return read_schedule(HEADER + roles, config, "k.py")


def body(math: str, load: str = "pass", role: str = "math", **config) -> str:
    """The canonical text of one role's statements."""
    program = read(math, load, **config)
    text = print_program(program)

    assert read_program(text) == program

    part = text.split(f"    with {role}:\n")[1].split("\n\n")[0]
    return textwrap.dedent(part).strip()


def expect(text: str) -> str:
    """A multi-line text of a test, dedented."""
    return textwrap.dedent(text).strip()


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("M + 0", "M"),
        ("0 + M", "M"),
        ("M - 0", "M"),
        ("M * 1", "M"),
        ("1 * M", "M"),
        ("M * 0", "0"),
        ("0 * M", "0"),
        ("M // 1", "M"),
        ("M % 1", "0"),
        ("M << 0", "M"),
        ("M | 0", "M"),
        ("M ^ 0", "M"),
        ("M & 0", "0"),
        ("0 - M", "0 - M"),
        ("0 // M", "0 // M"),
        ("2 * 3 + M", "6 + M"),
        ("M + 2 * 3", "M + 6"),
        ("7 // 2 + 7 % 2 + (1 << 3) + (9 >> 1) + (6 & 3) + (4 | 1) + (5 ^ 1)", "27"),
        ("min(3, 4) + max(3, 4)", "7"),
        ("ceil_div(M, 64)", "(M + 63) // 64"),
        ("ceil_div(M, 1)", "M"),
        ("ceil_div(100, 64)", "2"),
        ("STAGES + 1", "3"),
        ("s.bytes + s.stage_bytes + s.end", "640"),
        ("s[0].bytes", "128"),
        ("-(-3)", "3"),
        ("-(2 + 1)", "-3"),
        ("M > 0 or False", "M > 0"),
        ("M > 0 or True", "True"),
        ("M > 0 and True", "M > 0"),
        ("M > 0 and False", "False"),
        ("False or M > 0", "M > 0"),
        ("not FLAG", "False"),
        ("1 < 2", "True"),
        ("1 if FLAG else M", "1"),
        ("eps + 0.0", "eps + 0.0"),
        ("eps * 1.0", "eps * 1.0"),
        ("0.5 + 0.25", "0.75"),
        ("-inf", "-inf"),
        ("u32(1)", "u32(1)"),
        ("i64(-5000000000)", "i64(-5000000000)"),
        ("bf16(-inf)", "bf16(-inf)"),
        ("a if M > 0 else b", "7 if M > 0 else 7"),
    ],
)
def test_constants_fold(written, meant):
    """Schedules compute with constants and drop neutral operands of integers; floats are never dropped."""
    written = written.replace("a if", "7 if").replace("else b", "else 7")

    assert body(f"x = {written}") == f"x = {meant}"


def test_long_sums_are_read_in_linear_time():
    """A chain of operators near the limit of depth is read, and costs no more than its length."""
    total = " + ".join(["M"] * 44)

    assert body(f"x = {total}") == f"x = {total}"


def test_canonical_text_is_not_folded():
    """A .cake text means what it says: 1 + 2 stays an addition."""
    text = print_program(read("x = M")).replace("x = M", "x = 1 + 2 * M - 0")

    assert print_program(read_program(text)) == text


def test_canonical_text_may_be_written_loosely():
    """Comments, blank lines, defaults and extra parentheses are read; printing gives canonical text."""
    text = print_program(read("x = M + 1\nif x > 0:\n    pass\nelse:\n    x = 2"))
    loose = (
        text.replace("x = M + 1", "# why\n\n        x = ((M) + (1))  # so")
        .replace("role(warps=1)", "role(warps=0x1, instances=1)")
        .replace("else:", "elif False:\n            pass\n        else:")
    )

    assert read_program(loose) != read_program(text)
    assert "elif" not in print_program(read_program(loose))
    assert print_program(read_program(loose.replace("elif False:\n            pass\n        else:", "else:"))) == text


def test_compile_time_if_picks_its_branch():
    """A constant condition leaves no trace."""
    assert body("if STAGES > 2:\n    x = 1\nelif FLAG:\n    x = 2\nelse:\n    x = 3") == "x = 2"


def test_static_loops_unroll_into_one_scope():
    """A name of an unrolled block is assigned again, or renamed when its type differs."""
    written = """
        for k in static(range(1, 6, 2)):
            y = k * M
        for k in static((1.0, 2.0)):
            y = k
        for mode in static(("bfly", "down")):
            z = shfl(eps, mode, 1)
    """
    assert body(written) == expect("""
        y = M
        y = 3 * M
        y = 5 * M
        y_1 = 1.0
        y_2 = 2.0
        z = shfl(eps, "bfly", 1)
        z = shfl(eps, "down", 1)
    """)


def test_fragments_of_unrolled_blocks_are_distinct():
    """Each unrolled declaration of a fragment has registers of its own."""
    written = """
        for k in static(range(2)):
            acc = fragment(f32, (4,), layout="thread")
            t = sum(acc)
    """
    assert body(written) == expect("""
        acc = fragment(f32, (4,), layout="thread")
        t = sum(acc)
        acc_1 = fragment(f32, (4,), layout="thread")
        t = sum(acc_1)
    """)


def test_names_end_with_their_block():
    """Two blocks may use one name for different things."""
    written = """
        if M > 0:
            x = 1
        for x in range(3):
            pass
        for i in range(2):
            x = 1.0
    """
    assert body(written) == expect(written)


def test_nested_primitives_get_their_own_statements():
    """A primitive inside an expression is lifted before it; its name is used again by the next statement."""
    written = """
        x = shfl(eps, "bfly", 1) + shfl(eps, "bfly", 2)
        x = x + shfl(x, "bfly", 4)
        for i in range(shfl(1, "idx", 0)):
            x = x + shfl(x, "bfly", 8)
    """
    assert body(written) == expect("""
        shfl_value = shfl(eps, "bfly", 1)
        shfl_value_1 = shfl(eps, "bfly", 2)
        x = shfl_value + shfl_value_1
        shfl_value = shfl(x, "bfly", 4)
        x = x + shfl_value
        shfl_value_2 = shfl(1, "idx", 0)
        for i in range(shfl_value_2):
            shfl_value_3 = shfl(x, "bfly", 8)
            x = x + shfl_value_3
    """)


def test_generated_names_avoid_the_authors():
    """Names that sugar makes give way to names that the author uses anywhere."""
    written = """
        shfl_value = 1.0
        x = shfl(eps, "bfly", 1)
        y = 1.0 + shfl(eps, "bfly", 1)
        ring_slot = 3
        slot = ring.wait()
        ring.release(slot)
    """
    text = body(written)

    assert 'shfl_value_1 = shfl(eps, "bfly", 1)' in text
    assert "mbarrier_wait(ring_full[ring_slot_1], ring_phase)" in text


def test_instance_of_a_single_instance_is_zero():
    """With one instance, `instance` is 0, and an index of 0 into one slot is left out."""
    assert body("x = 64 * instance + M\nbarrier_sync(done[instance])", INSTANCES=1) == "x = M\nbarrier_sync(done)"
    assert body("x = 64 * instance + M\nbarrier_sync(done[instance])") == (
        "x = 64 * instance + M\nbarrier_sync(done[instance])"
    )


PRODUCE = """
    with one_lane():
        for i in range(M):
            slot = ring.acquire()
            slot.expect(s.stage_bytes)
            mbarrier_arrive(slot.full)
            ring.advance()
"""
CONSUME = """
    previous = 0
    for i in range(M):
        slot = ring.wait()
        x = ld_shared(s[slot].tile((0, 0), (1, 1)))
        previous = slot
        ring.advance()
        ring.release(previous)
"""


def test_pipeline_expands_to_cursors():
    """A pipeline's verbs become waits, expects and arrivals on its barriers, with explicit slot and phase."""
    assert body(CONSUME, PRODUCE, "load") == expect("""
        ring_slot = 0
        ring_phase = 1
        with one_lane():
            for i in range(M):
                mbarrier_wait(ring_empty[ring_slot], ring_phase)
                mbarrier_expect(ring_full[ring_slot], 128)
                mbarrier_arrive(ring_full[ring_slot])
                ring_phase = ring_phase ^ 1 if ring_slot == 1 else ring_phase
                ring_slot = ring_slot + 1 if ring_slot < 1 else 0
    """)
    assert body(CONSUME, PRODUCE) == expect("""
        ring_slot = 0
        ring_phase = 0
        previous = 0
        for i in range(M):
            mbarrier_wait(ring_full[ring_slot], ring_phase)
            x = ld_shared(s[ring_slot].tile((0, 0), (1, 1)))
            previous = ring_slot
            ring_phase = ring_phase ^ 1 if ring_slot == 1 else ring_phase
            ring_slot = ring_slot + 1 if ring_slot < 1 else 0
            with one_lane():
                mbarrier_arrive(ring_empty[previous])
    """)
    text = print_program(read(CONSUME, PRODUCE))

    assert "    ring_full = mbarrier(arrivals=1, at=4096, slots=2)\n" in text
    assert "    ring_empty = mbarrier(arrivals=2, at=4112, slots=2)\n" in text


def test_pipeline_of_one_stage_needs_no_slot():
    """With one stage there is nothing to count but the phase."""
    assert body(CONSUME, PRODUCE, STAGES=1) == expect("""
        ring_phase = 0
        previous = 0
        for i in range(M):
            mbarrier_wait(ring_full, ring_phase)
            x = ld_shared(s.tile((0, 0), (1, 1)))
            previous = 0
            ring_phase = ring_phase ^ 1
            with one_lane():
                mbarrier_arrive(ring_empty)
    """)


def test_release_inside_one_lane_is_a_plain_arrival():
    """Where one lane runs already, `release` opens no second block."""
    written = "slot = ring.wait()\nwith one_lane():\n    ring.release(slot)"

    assert body(written).endswith("with one_lane():\n    mbarrier_arrive(ring_empty[ring_slot])")


def test_a_slot_lives_until_its_cursor_advances():
    """A slot taken in each iteration is fine; one kept over `advance` is not."""
    assert body("for i in range(M):\n    slot = ring.wait()\n    ring.release(slot)\n    ring.advance()")
    with pytest.raises(IRError, match=r"was taken before `ring\.advance"):
        body("slot = ring.wait()\nif M > 1:\n    ring.advance()\nring.release(slot)")


def test_a_bystander_cannot_use_a_pipeline():
    """Only the producer and the consumer have a cursor."""
    text = HEADER.replace("    ring", "    idle = role(warps=1)\n    ring")
    roles = "    with load:\n        pass\n    with math:\n        pass\n    with idle:\n        ring.advance()\n"
    with pytest.raises(IRError, match="role idle is neither producer nor consumer of ring"):
        read_schedule(text + roles, {})


def test_tiles_in_groups():
    """A persistent loop gives each CTA every cta_count-th tile, groups of rows column by column."""
    assert body("for m, n in tiles(M, N, group=8):\n    x = m + n") == expect("""
        for tile in range(cta_id, M * N, cta_count):
            tile_first = tile // (8 * N) * 8
            tile_rows = min(M - tile_first, 8)
            m = tile_first + tile % (8 * N) % tile_rows
            n = tile % (8 * N) // tile_rows
            x = m + n
    """)


def test_tiles_row_by_row():
    """Without a group, tiles come in row-major order."""
    assert body("for m, n in tiles(M, N):\n    pass\nfor m, n in tiles(M, N):\n    pass") == expect("""
        for tile in range(cta_id, M * N, cta_count):
            m = tile // N
            n = tile % N
        for tile_1 in range(cta_id, M * N, cta_count):
            m = tile_1 // N
            n = tile_1 % N
    """)


def test_grouped_tiles_cover_every_tile_once():
    """The coordinates of a grouped order are a permutation of all tiles."""
    for rows, columns, group in ((5, 3, 2), (4, 4, 4), (1, 7, 8), (9, 2, 4)):
        seen = set()
        for tile in range(rows * columns):
            first = tile // (group * columns) * group
            height = min(rows - first, group)
            inside = tile % (group * columns)
            seen.add((first + inside % height, inside // height))

        assert seen == {(m, n) for m in range(rows) for n in range(columns)}


@pytest.mark.parametrize(
    ("registers", "ctas", "action"), [(40, 1, "dec"), (232, 1, "inc"), (128, 1, "inc"), (120, 1, "dec"), (72, 2, "inc")]
)
def test_register_budgets_become_a_first_statement(registers, ctas, action):
    """`registers=` is given or taken against what the launch gives each of 512 threads: 128, or 64 with two CTAs an
    SM."""
    text = HEADER.replace("load = role(warps=1)", "load = role(warps=4)").replace(
        "role(warps=1, instances=INSTANCES)", f"role(warps=4, instances=INSTANCES, registers={registers})"
    )
    text = text.replace("ceil_div(M, 4))", f"ceil_div(M, 4), ctas_per_sm={ctas})")
    roles = "    with load:\n        pass\n    with math:\n        x = 1\n"
    program = read_schedule(text + roles, {"INSTANCES": 3})

    assert f'    with math:\n        setmaxnreg({registers}, "{action}")\n        x = 1\n' in print_program(program)


def test_configuration_overrides_defaults():
    """A configuration sets parameters by name; the rest keep their defaults."""
    assert read("pass", STAGES=5).smem_bytes == 4096 + 2 * 5 * 8
    assert body("x = 1 if FLAG else 2", FLAG=False) == "x = 2"


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"STAGE": 1}, "k has no configuration parameter 'STAGE' (did you mean 'STAGES'?)"),
        ({"STAGES": 1.0}, "STAGES=1.0, but its default 2 is a constant of type i32"),
        ({"STAGES": True}, "STAGES=True, but its default 2 is a constant of type i32"),
        ({"FLAG": 1}, "FLAG=1, but its default True is a constant of type bool"),
        ({"STAGES": 0}, "smem s: stages=0, not 1 to 1024"),
    ],
)
def test_bad_configurations_are_refused(config, message):
    """Unknown names, wrong types and values that no declaration accepts."""
    with pytest.raises(IRError) as caught:
        read("pass", **config)

    assert caught.value.message == message


def test_a_parameter_without_default_needs_a_value():
    """A configuration parameter may have no default; then the configuration must set it."""
    text = HEADER.replace("STAGES=2", "STAGES") + "    with load:\n        pass\n    with math:\n        pass\n"
    with pytest.raises(IRError, match="configuration parameter STAGES has no value"):
        read_schedule(text, {})

    assert read_schedule(text, {"STAGES": 3}).smem_bytes == 4096 + 48


def test_declarations_are_sorted_and_roles_may_come_in_any_order():
    """Declarations print as regions, tensor maps, barriers, roles; bodies in the order of the roles."""
    program = read("pass")
    swapped = HEADER + "    with math:\n        pass\n    with load:\n        pass\n"

    assert [type(d).__name__ for d in program.decls] == ["Smem", *["Barrier"] * 4, "Role", "Role"]
    assert read_schedule(swapped, {}) == program


def test_spans_count_from_the_first_line_of_the_text():
    """A text that starts at line 100 of its file has its statements there."""
    text = HEADER + "    with load:\n        pass\n    with math:\n        x = (M +\n             shfl(1, 'idx', 0))\n"
    program = read_schedule(text, {}, "k.py", first_line=100)
    spans = [located.stmt.span for located in walk(program)]

    assert [(s.file, s.line) for s in spans] == [("k.py", 113), ("k.py", 112)]
    assert spans[1].column == 8
    assert program.decls[0].span.line == 103


def test_the_surrounding_file_is_left_alone():
    """A schedule may stand in a file with other code, which is neither read nor run."""
    text = f"import sys\nraise SystemExit\n\n{HEADER}    with load:\n        pass\n    with math:\n        pass\n"

    assert read_schedule(text, {}) == read("pass")
    with pytest.raises(IRError, match="one function decorated with @schedule, not 0"):
        read_schedule("import sys\n", {})
    with pytest.raises(IRError, match="one function decorated with @schedule, not 2"):
        read_schedule(f"{text}\n\n{HEADER}    pass\n", {})
