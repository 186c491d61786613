"""Small programs in the simulator: expressions, divergence, elected lanes, collectives, copies, launches."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from cake.core.errors import CakeError
from cake.core.reader import read_program
from cake.core.sim import run_orders, same_outputs, simulate
from cake.core.sim.order import LAST_FIRST

BF16 = np.dtype(ml_dtypes.bfloat16)
ONE_WARP = """
@schedule(target="sm_90a")
def small(X: Tensor[{dtype}, "N"], Y: Tensor[{dtype}, "N"]):
    launch(ctas=1)
    held = smem({dtype}, (32,), at=0)
    one = role(warps=1)

    with one:
        x = fragment({dtype}, (1,), layout="thread")
        ld_global(x, X[lane_id], when=lane_id < N)
        {body}
"""


def one_warp(body, x, order="eager", seed=0):
    """Run `body` on one warp, with `x` holding one element a lane and Y to be written."""
    dtype = {"float32": "f32", "int32": "i32", "bfloat16": "bf16"}[x.dtype.name]
    text = ONE_WARP.format(dtype=dtype, body=body.strip().replace("\n", "\n        "))
    return simulate(read_program(text), {"X": x}, {"N": 32}, order=order, seed=seed)


def lanes(expression, x):
    """What each of 32 lanes makes of `expression`."""
    nought = "0.0" if x.dtype.kind == "f" else "0"
    result = one_warp(f"st_global(Y[lane_id], x * {nought} + ({expression}))", x)
    assert result.outcome == "ok", result.where
    return result.outputs["Y"]


I = np.arange(-16, 16, dtype=np.int32)  # noqa: E741 - one integer a lane
F = np.linspace(-4, 4, 32, dtype=np.float32)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("x[0] // 3", [int(v / 3) for v in I]),
        ("x[0] % 3", [v - 3 * int(v / 3) for v in I]),
        ("min(x[0], 2) + max(x[0], lane_id)", np.minimum(I, 2) + np.maximum(I, np.arange(32))),
        ("x[0] << 28", (I.astype(np.int64) << 28).astype(np.int32)),
        ("x[0] >> 1", I >> 1),
        ("(x[0] & 5 | 8) ^ 3", (I & 5 | 8) ^ 3),
        ("-x[0]", -I),
        ("x[0] if x[0] > 0 and not x[0] == 3 else 7", np.where((I > 0) & (I != 3), I, 7)),
        ("2147483647 + 1", np.full(32, -(2**31))),
        ("1 << lane_id * 2", [1 << 2 * i if i < 16 else 0 for i in range(32)]),
        ("-8 >> 40", np.full(32, -1)),
        ("cast(cast(x[0], f32) * 1e9, i32)", np.clip(I * 1e9, -(2**31), 2**31 - 1)),
        ("0 if N == 0 or N > 3 else 1 // (N - N)", np.zeros(32)),
        ("cast(cast(x[0], f32) * 0.75, i32)", np.trunc(I * 0.75)),
    ],
)
def test_integers_are_32_bits_wide_and_divide_as_in_c(expression, expected):
    """Division truncates, results wrap, conditions do not evaluate what they need not."""
    assert lanes(expression, I).tolist() == list(expected)


def test_floats_round_to_nearest_even():
    """A cast to bf16 rounds as ml_dtypes does; arithmetic in f32 is NumPy's."""
    assert np.array_equal(
        lanes("cast(cast(x[0] * 1.1, bf16), f32)", F), (F * np.float32(1.1)).astype(BF16).astype("f4")
    )
    assert np.array_equal(lanes("x[0] / 3.0 - 0.5", F), F / np.float32(3) - np.float32(0.5))


def test_a_reduction_goes_in_index_order():
    """sum() adds from the first element on, where a pairwise sum would differ."""
    text = """
@schedule(target="sm_90a")
def sums(X: Tensor[f32, "N"], Y: Tensor[f32, "N"]):
    launch(ctas=1)
    one = role(warps=1)

    with one:
        x = fragment(f32, (4,), layout="thread")
        ld_global(x, X[4 * lane_id])
        st_global(Y[4 * lane_id], x * 0.0 + sum(x) + max(x))
"""
    x = np.tile(np.array([1e8, 1, -1e8, 1], np.float32), 32)

    result = simulate(read_program(text), {"X": x}, {"N": 128})

    assert result.outputs["Y"][0] == np.float32(1e8) + np.float32(1)


def test_division_by_zero_traps():
    """The machine gives nonsense; no kernel means that."""
    result = one_warp("st_global(Y[lane_id], x // (x - x))", I)

    assert result.outcome == "trap"
    assert "division by zero" in result.where.reason


def test_a_condition_masks_lanes():
    """Lanes take their own branch, and a variable keeps its value in the others."""
    result = one_warp(
        """
k = lane_id
if lane_id < 8:
    k = k + 100
    if lane_id > 5:
        k = 0
else:
    k = k - 8
st_global(Y[lane_id], x * 0 + k)
""",
        I,
    )

    assert result.outputs["Y"].tolist() == [100, 101, 102, 103, 104, 105, 0, 0, *range(24)]


def test_lanes_leave_a_loop_one_by_one():
    """`break` under a condition takes only the lanes that meet it; bounds may differ between lanes too."""
    body = """
count = 0
for i in range({bound}):
    if i == {limit}:
        break
    count = count + 1
st_global(Y[lane_id], x * 0 + count)
"""
    uniform = one_warp(body.format(bound="40", limit="lane_id"), I)
    varying = one_warp(body.format(bound="lane_id", limit="5"), I)

    assert uniform.outputs["Y"].tolist() == list(range(32))
    assert varying.outputs["Y"].tolist() == [min(i, 5) for i in range(32)]


def test_a_masked_store_writes_only_its_lanes():
    """What other lanes hold stays as it was."""
    result = one_warp("if lane_id < 3:\n    st_global(Y[lane_id], x)", F)

    assert np.array_equal(result.outputs["Y"][:3], F[:3])
    assert np.isnan(result.outputs["Y"][3:]).all()


@pytest.mark.parametrize(
    ("mode", "by", "source"),
    [
        ("bfly", 5, [i ^ 5 for i in range(32)]),
        ("down", 3, [i + 3 if i + 3 < 32 else i for i in range(32)]),
        ("idx", 9, [9] * 32),
    ],
)
def test_shuffles_move_values_between_lanes(mode, by, source):
    """As the PTX ISA draws them, for a full warp."""
    result = one_warp(f's = shfl(x[0], "{mode}", {by})\nst_global(Y[lane_id], x * 0.0 + s)', F)

    assert np.array_equal(result.outputs["Y"], F[source])


def test_a_shuffle_with_lanes_missing_traps():
    """All 32 lanes must take part."""
    result = one_warp('if lane_id < 8:\n    s = shfl(x[0], "idx", 0)', F)

    assert result.outcome == "trap"
    assert "8 of 32 lanes" in result.where.reason


def test_a_collective_in_an_elected_lane_hangs():
    """The other 31 never come."""
    result = one_warp("with one_lane():\n    warp_sync()", F)

    assert result.outcome == "hang"
    assert result.where.path == "one:2.0"
    assert "1 of 32" in result.where.reason


def test_the_warp_goes_on_without_its_elected_lane():
    """What the lane writes may come before or after the others read it, until they meet."""
    body = """
with one_lane():
    st_shared(held.tile((0,), (1,)), 5.0)
{meet}y = ld_shared(held.tile((0,), (1,)))
st_global(Y[lane_id], x * 0.0 + y)
"""

    def values(meet):
        return [one_warp(body.format(meet=meet), F, "lazy", seed).outputs["Y"] for seed in (0, LAST_FIRST)]

    apart, met = values(""), values("warp_sync()\n")

    assert all((y == 5).all() for y in met)
    assert not all((y == 5).all() for y in apart)


def test_an_elected_lane_keeps_its_own_order():
    """Thread 0 sees what it wrote before, whatever the others do."""
    result = one_warp(
        """
with one_lane():
    st_shared(held.tile((0,), (1,)), 5.0)
if lane_id == 0:
    y = ld_shared(held.tile((0,), (1,)))
    st_global(Y[0], x * 0.0 + y)
""",
        F,
        order="lazy",
    )

    assert result.outputs["Y"][0] == 5


COPY = """
@schedule(target="sm_90a")
def copy(X: Tensor[bf16, "M", "N"], Y: Tensor[bf16, "M", "N"]):
    launch(ctas=(M + 63) // 64 * ((N + 63) // 64))
    held = smem(bf16, (64, 64), at=0{region})
    X_map = tensor_map(X, box=(64, 64){x_map})
    Y_map = tensor_map(Y, box=(64, 64){y_map})
    full = mbarrier(arrivals=1, at=8192)
    one = role(warps=1)

    with one:
        with one_lane():
            m = cta_id // ((N + 63) // 64) * 64
            n = cta_id % ((N + 63) // 64) * 64
            mbarrier_expect(full, 8192)
            tma_load(held, X_map, at=(m, n), done=full)
            mbarrier_wait(full, 0)
            tma_store(Y_map, held, at=(m, n))
            bulk_commit()
            bulk_wait(0)
"""


def copied(extents=(100, 72), **swizzles):
    """Copy a tensor through shared memory with these swizzles; the results in several orders, and the tensor."""
    x = np.random.default_rng(0).standard_normal(extents).astype(BF16)
    text = COPY.format(**{k: f", swizzle={v}" if v else "" for k, v in swizzles.items()})
    return run_orders(read_program(text), {"X": x}, dict(zip("MN", extents, strict=True)), seeds=range(1)), x


def test_a_copy_needs_the_same_swizzle_in_both_maps():
    """The region's own swizzle has no part in what TMA moves."""
    for swizzles in ({"region": 0, "x_map": 128, "y_map": 128}, {"region": 64, "x_map": 0, "y_map": 0}):
        results, x = copied(**swizzles)
        assert all(r.outcome == "ok" and np.array_equal(r.outputs["Y"], x) for r in results)

    results, x = copied(region=128, x_map=128, y_map=0)
    assert not np.array_equal(results[0].outputs["Y"], x)


def test_a_tensor_with_unfit_rows_has_no_descriptor():
    """Row strides must be multiples of 16 bytes."""
    results, _ = copied(extents=(64, 60), region=128, x_map=128, y_map=128)

    assert {r.outcome for r in results} == {"trap"}
    assert results[0].where.fault == "launch_failure"
    assert "stride of 120 bytes" in results[0].where.reason


def test_a_fence_by_the_reader_suffices_behind_a_barrier():
    """The fencing thread must have the writes in its order: past a barrier it has everyone's, before only its own."""
    text = """
@schedule(target="sm_90a")
def publish(X: Tensor[f32, 4, 32], Y: Tensor[f32, 4, 32]):
    launch(ctas=1)
    held = smem(f32, (4, 32), at=0)
    Y_map = tensor_map(Y, box=(4, 32))
    meet = named_barrier(arrivals=128, at=1)
    all = role(warps=4)

    with all:
        x = fragment(f32, (1,), layout="thread")
        ld_global(x, X[warp_id, lane_id])
        st_shared(held.tile((warp_id, lane_id), (1, 1)), x[0])
{middle}
        with one_lane():
            tma_store(Y_map, held, at=(0, 0))
            bulk_commit()
            bulk_wait(0)
"""
    x = np.random.default_rng(0).standard_normal((4, 32)).astype(np.float32)
    meet, fence = "        barrier_sync(meet)\n", "        with one_lane():\n            fence_proxy_async()\n"

    def right(middle):
        results = run_orders(read_program(text.format(middle=middle)), {"X": x}, {})
        assert {r.outcome for r in results} == {"ok"}
        return all(np.array_equal(r.outputs["Y"], x) for r in results)

    assert right("        fence_proxy_async()\n" + meet)
    assert right(meet + fence)
    assert not right(fence + meet)
    assert not right(meet)


def test_inline_ptx_makes_the_outcome_unknown():
    """What is not modelled is not judged."""
    result = one_warp('ptx("nanosleep.u32 20;")', F)

    assert result.outcome == "unknown"
    assert (result.where.path, result.where.role) == ("one:2", "one")
    assert "nanosleep" in result.where.reason


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('z = fragment(f32, (64, 8), layout="spiral")', "no fragment layout is called 'spiral'; known: thread, wgmma"),
        ('z = fragment(f32, (64,), layout="wgmma")', "layout 'wgmma' holds (64, N), N a multiple of 8, not (64,)"),
        ('z = fragment(f32, (64, 16), layout="wgmma")\nu = z.cols(4, 8)', "columns 4 to 11 of layout 'wgmma'"),
    ],
)
def test_registers_that_no_layout_holds_make_the_outcome_unknown(line, reason):
    """Whether the program is made ready or runs when that shows, there is a result."""
    result = one_warp(line, F)

    assert result.outcome == "unknown"
    assert reason in result.where.reason


def test_an_instruction_that_the_target_lacks_traps():
    """A kernel is exact about its target."""
    text = COPY.format(region="", x_map="", y_map="").replace("sm_90a", "sm_80")

    result = simulate(read_program(text), {"X": np.zeros((64, 64), BF16)}, {"M": 64, "N": 64})

    assert result.outcome == "trap"
    assert result.where.reason == "mbarrier_expect is no instruction of sm_80"


def test_a_spent_budget_is_a_hang():
    """With the place where it ran out."""
    text = ONE_WARP.format(dtype="i32", body="k = 0\n        for i in range(1000000):\n            k = k + i")

    result = simulate(read_program(text), {"X": I}, {"N": 32}, max_steps=500)

    assert result.outcome == "hang"
    assert "budget of 500" in result.where.reason


@pytest.mark.parametrize(
    ("line", "replacement", "word"),
    [
        ("launch(ctas=1)", "launch(ctas=N - 32)", "0 CTAs"),
        ("held = smem({dtype}, (32,), at=0)", "held = smem({dtype}, (32,), at=262144)", "shared memory"),
        ("one = role(warps=1)", "other = role(warps=32)\n    one = role(warps=1)", "1056 threads"),
        ("one = role(warps=1)", "bar = mbarrier(arrivals=1, at=132)\n    one = role(warps=1)", "misaligned"),
    ],
)
def test_a_launch_beyond_the_limits_fails(line, replacement, word):
    """Before any CTA runs."""
    body = "st_global(Y[lane_id], x)" + ("\n\n    with other:\n        warp_sync()" if "other" in replacement else "")
    text = ONE_WARP.replace(line, replacement).format(dtype="f32", body=body)

    result = simulate(read_program(text), {"X": F}, {"N": 32})

    assert (result.outcome, result.where.path, result.where.fault) == ("trap", "", "launch_failure")
    assert word in result.where.reason


@pytest.mark.parametrize(
    ("inputs", "extents", "match"),
    [
        ({"X": F}, {}, "extent N"),
        ({"X": F}, {"N": 0}, "extent N"),
        ({"X": F[:8]}, {"N": 32}, r"shape \(32,\)"),
        ({"X": F.astype(np.float64)}, {"N": 32}, "float64"),
    ],
)
def test_inputs_that_do_not_fit_are_errors(inputs, extents, match):
    """They are the caller's mistake, not the program's."""
    text = ONE_WARP.format(dtype="f32", body="st_global(Y[lane_id], x)")

    with pytest.raises(CakeError, match=match):
        simulate(read_program(text), inputs, extents)


def test_inputs_are_never_changed():
    """A kernel that writes its input writes a copy, which is an output."""
    x = F.copy()

    result = one_warp("st_global(X[lane_id], x + 1.0)", x)

    assert np.array_equal(x, F)
    assert np.array_equal(result.outputs["X"], F + 1)
    assert np.isnan(result.outputs["Y"]).all()


def test_outputs_agree_byte_for_byte_or_within_a_tolerance():
    """NaNs agree with NaNs; tolerance is relative to the largest magnitude."""
    one = {"Y": np.array([1, np.nan, 1000], np.float32)}
    near = {"Y": np.array([1.5, np.nan, 1000], np.float32)}
    far = {"Y": np.array([1, 2, 1000], np.float32)}

    assert same_outputs(one, one)
    assert not same_outputs(one, near)
    assert same_outputs(one, near, tolerance=1e-3)
    assert not same_outputs(one, far, tolerance=1e-3)
    assert not same_outputs(one, {"Z": one["Y"]})
    assert not same_outputs(one, {"Y": one["Y"].astype(np.float64)}, tolerance=1)


def test_the_same_seed_gives_the_same_run():
    """Orders are deterministic."""
    body = "with one_lane():\n    st_shared(held.tile((0,), (1,)), 5.0)\ny = ld_shared(held.tile((0,), (1,)))"
    runs = [one_warp(body, F, "random", 7) for _ in range(2)]

    assert runs[0].steps == runs[1].steps
    assert same_outputs(*runs)
