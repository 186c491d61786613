"""Memories and barriers of the simulator, by themselves."""

from __future__ import annotations

import numpy as np
import pytest

from cake.core.ir import F32, Tensor
from cake.core.sim.barriers import MBarrier, NamedBarrier
from cake.core.sim.memory import Footprint, Global, Shared, box, pitches, swizzled
from cake.core.sim.result import Trap


def shared(size=4096, *, tracked=True, guarded=(), corrupted=None):
    """Shared memory whose corrupted barriers are noted in a list."""
    return Shared(
        size, tracked=tracked, guarded=guarded, on_corrupt=(corrupted if corrupted is not None else []).append
    )


@pytest.mark.parametrize(("span", "rows"), [(32, 2), (64, 4), (128, 8)])
def test_swizzle_permutes_the_chunks_of_each_span(span, rows):
    """Within a 128-byte row each span's 16-byte chunks are permuted, differently in each of `rows` rows."""
    chunks = np.arange(0, 8 * 128, 16)
    moved = swizzled(chunks, span)

    assert np.array_equal(moved // span, chunks // span)
    assert sorted(moved) == list(chunks)
    assert len({tuple(r % 128) for r in moved.reshape(8, 8)}) == rows
    assert np.array_equal(swizzled(moved, span), chunks)


def test_swizzle_128_is_the_documented_table():
    """Chunk c of row r lies at chunk c ^ (r % 8)."""
    moved = swizzled(np.arange(0, 1024, 16), 128).reshape(8, 8) // 16 % 8

    assert np.array_equal(moved, np.arange(8) ^ np.arange(8)[:, None])


def test_footprint_depends_on_the_absolute_address():
    """A box that starts in row 1 of the swizzle pattern is placed by that row."""
    cells = box((1, 8), pitches((1, 8), 2), 2)

    assert cells.at(128, 128).index.tolist() == [[8 + i for i in range(8)]]
    assert cells.at(1024, 128).index.tolist() == [list(range(8))]
    assert cells.at(128, 128) is cells.at(1024 + 128, 128)


def test_stored_words_come_back_through_the_same_swizzle_only():
    """Data written with one swizzle and read with another is moved, not lost."""
    memory, cells = shared(), box((16, 64), (128, 2), 2)
    values = np.arange(1024, dtype=np.uint16).reshape(16, 64)
    memory.store(cells, 1024, 128, values)

    assert np.array_equal(memory.load(cells, 1024, 128), values)
    other = memory.load(cells, 1024, 0)
    assert not np.array_equal(other, values)
    assert np.array_equal(np.sort(other, axis=1), values)


def test_unwritten_memory_is_poison():
    """Bytes that nobody wrote are all ones: NaN as a float."""
    assert np.isnan(shared().load(box((4,), (4,), 4), 0, 0).view(np.float32)).all()


@pytest.mark.parametrize(
    ("address", "fault"), [(4096 - 8, "illegal_address"), (-16, "illegal_address"), (2, "misaligned_address")]
)
def test_an_access_outside_or_misaligned_traps(address, fault):
    """Every access is checked as a whole."""
    with pytest.raises(Trap) as trap:
        shared().load(box((4,), (4,), 4), address, 0)

    assert trap.value.why.fault == fault


def test_a_generic_write_is_stale_for_the_async_view_until_fenced():
    """A fence shows the writes that the fencing agent knows of, and no others."""
    memory, cells = shared(), box((4,), (4,), 4)
    memory.store(cells, 0, 0, np.full(4, 7, np.uint32), writer=(0, 1))
    memory.store(cells, 16, 0, np.full(4, 8, np.uint32), writer=(1, 1))

    assert memory.load(cells, 0, 0).tolist() == [7] * 4
    assert memory.load(cells, 0, 0, proxy="async").tolist() == [2**32 - 1] * 4
    memory.fence([1, 0])
    assert memory.load(cells, 0, 0, proxy="async").tolist() == [7] * 4
    assert memory.load(cells, 16, 0, proxy="async").tolist() == [2**32 - 1] * 4
    memory.fence([1, 1])
    assert memory.load(cells, 16, 0, proxy="async").tolist() == [8] * 4


def test_an_async_write_is_not_undone_by_an_older_generic_one():
    """What TMA has overwritten does not come back when the older write is fenced at last."""
    memory, cells = shared(), box((4,), (4,), 4)
    memory.store(cells, 0, 0, np.full(4, 7, np.uint32), writer=(0, 1))
    memory.store(cells, 0, 0, np.array([1, 2, 3, 4], np.uint32))
    memory.fence([1])

    assert memory.load(cells, 0, 0, proxy="async").tolist() == [1, 2, 3, 4]


def test_data_on_a_barrier_corrupts_it():
    """Only the barrier whose bytes are written."""
    corrupted = []
    memory = shared(guarded=[64, 72], corrupted=corrupted)
    memory.store(Footprint(np.arange(0, 64, 4), 4), 0, 0, np.zeros(16, np.uint32))
    assert corrupted == []
    memory.store_words(np.array([76]), np.zeros(1, np.uint32))

    assert corrupted == [72]


def test_a_box_outside_the_tensor_is_zero_and_not_written():
    """TMA fills with zeros what lies outside, on either side, and drops it on the way back."""
    tensor = Global(Tensor("T", F32, (3, 4)), np.arange(12, dtype=np.float32).reshape(3, 4), written=True)

    assert tensor.load_box((2, -1), (2, 3)).tolist() == [[0, 8, 9], [0, 0, 0]]
    assert not tensor.load_box((7, 9), (2, 2)).any()
    tensor.store_box((2, 3), np.full((2, 2), 5, np.uint32))
    assert tensor.array[2].view(np.uint32).tolist()[3] == 5
    assert tensor.array[1].tolist() == [4, 5, 6, 7]


def test_elements_written_again_are_counted():
    """A second write to an element is worth a note."""
    tensor = Global(Tensor("T", F32, (8,)), np.zeros(8, np.float32), written=True)
    tensor.store(np.array([0, 4]), np.ones((2, 4), np.float32))
    tensor.store(np.array([2]), np.ones((1, 2), np.float32))

    assert tensor.double == 2


@pytest.mark.parametrize(
    ("start", "fault"), [(6, "illegal_address"), (-4, "illegal_address"), (2, "misaligned_address")]
)
def test_a_vector_outside_the_tensor_or_misaligned_traps(start, fault):
    """Vector accesses are checked element by element, and for alignment to their own size."""
    tensor = Global(Tensor("T", F32, (8,)), np.zeros(8, np.float32), written=False)

    with pytest.raises(Trap) as trap:
        tensor.load(np.array([start]), 4)

    assert trap.value.why.fault == fault


def mbarrier(expected):
    """An mbarrier of two agents that wakes nobody."""
    return MBarrier(lambda m: None, "bar", None, expected, 2, 1000)


def test_a_fresh_mbarrier_has_passed_parity_one():
    """The phase before the first counts as complete."""
    barrier = mbarrier(1)

    assert (barrier.passed(0), barrier.passed(1)) == (False, True)


def test_a_phase_needs_its_arrivals_and_its_bytes():
    """Bytes may complete before they are expected; the phase ends at zero of both."""
    barrier = mbarrier(2)
    barrier.complete(64)
    barrier.arrive([1, 0])
    barrier.expect(128)
    barrier.arrive([0, 2])
    assert not barrier.passed(0)
    barrier.complete(64)

    assert barrier.passed(0)
    assert (barrier.phase, barrier.pending, barrier.tx) == (1, 2, 0)
    assert barrier.acquired == [1, 2]


def test_an_arrival_beyond_the_expected_traps():
    """Bytes hold the phase open while an arrival too many comes."""
    barrier = mbarrier(1)
    barrier.expect(64)
    barrier.arrive([0, 0])

    with pytest.raises(Trap, match="beyond the 1"):
        barrier.arrive([0, 0])


def test_more_bytes_than_a_phase_can_hold_trap():
    """The transaction count has a documented range."""
    with pytest.raises(Trap, match="beyond 1000"):
        mbarrier(1).expect(1001)


def test_a_corrupted_mbarrier_traps_at_its_next_use():
    """Data has overwritten its words."""
    barrier = mbarrier(1)
    barrier.corrupt = True

    with pytest.raises(Trap, match="overwritten"):
        barrier.passed(0)


def named():
    """A named barrier of two agents that wakes nobody."""
    return NamedBarrier(lambda m: None, 1, 2)


def test_a_generation_of_a_named_barrier_ends_at_its_threads():
    """And hands on what everyone who arrived knows."""
    barrier = named()
    barrier.arrive(0, 32, 64, [3, 0], "b")
    assert barrier.generation == 0
    barrier.arrive(1, 32, 64, [0, 4], "b")

    assert (barrier.generation, barrier.acquired, barrier.warps) == (1, [3, 4], set())


@pytest.mark.parametrize(
    ("second", "match"), [((0, 32, 64), "twice"), ((1, 32, 96), "expects 96"), ((1, 32, 48), "multiple")]
)
def test_misuse_of_a_named_barrier_traps(second, match):
    """A warp twice in one generation, disagreement about the count, a count that is no number of warps."""
    barrier = named()
    barrier.arrive(0, 32, 64, [0, 0], "b")

    with pytest.raises(Trap, match=match):
        barrier.arrive(*second, [0, 0], "b")
