"""Programs that use what the corpus kernels do not: every primitive and every scalar type has CUDA that compiles."""

from __future__ import annotations

import pytest

from cake.core.compile import Cubin, compile_program
from cake.core.ir import IRError
from cake.core.lower import lower
from cake.core.reader import read_program

THREADS = """@schedule(target="{target}")
def sink(F: Tensor[f32, "M", 4], H: Tensor[f16, "M", 8], I: Tensor[i32, "M"], L: Tensor[i64, "M"],
         B: Tensor[bf16, "M"], alpha: f32, count: i32):
    launch(ctas=M)
    words = smem(i32, (32,), at=0)
    halves = smem(bf16, (8, 16), at=128, swizzle=32)
    wide = smem(i64, (4,), at=512)
    flags = smem(bool, (32,), at=1024)
    meet = named_barrier(arrivals=96, at=3)
    first = role(warps=1)
    second = role(warps=1, instances=2)

    with first:
        f = fragment(f32, (4,), layout="thread")
        h = fragment(f16, (8,), layout="thread")
        b = fragment(bf16, (1,), layout="thread")
        n = fragment(i32, (1,), layout="thread")
        w = fragment(i64, (1,), layout="thread")
        ld_global(f, F[cta_id, 0])
        ld_global(h, H[cta_id, 0], when=lane_id < 3)
        ld_global(b, B[cta_id])
        ld_global(n, I[cta_id])
        ld_global(w, L[cta_id])
        f = f * alpha + f
        top = max(f) + sum(f * f)
        g = cast(h, f32)
        total = sum(g)
        twice = h + h
        nearer = -b
        low = min(h[0], h[1]) if h[2] < h[3] else cast(total, f16)
        index = n[0] // 3 % 5 - (count - 2) * (lane_id ^ 1)
        wider = cast(index, i64) << cast(3, i64)
        st_shared(words.tile((lane_id,), (1,)), index)
        st_shared(halves.tile((lane_id % 8, lane_id // 8), (1, 1)), cast(top, bf16))
        st_shared(wide.tile((1,), (1,)), wider)
        st_shared(flags.tile((lane_id,), (1,)), not (index > 3 and lane_id != 2 or top <= 0.5))
        warp_sync()
        again = ld_shared(words.tile((31 - lane_id,), (1,)))
        half = ld_shared(halves.tile((lane_id % 8, 0), (1, 1)))
        flag = ld_shared(flags.tile((0,), (1,)))
        back = ld_shared(wide.tile((1,), (1,)))
        other = shfl(again, "down", 1)
        own = shfl(top, "idx", 0)
        inverse = rsqrt(own + cast(half, f32))
        ptx("st.shared.b32 [%1], %0;", inputs=(other,), reads=(words,), writes=(wide,))
        w = w + back
        st_global(F[cta_id, 0], f * inverse, when=flag)
        st_global(H[cta_id, 0], twice)
        st_global(B[cta_id], nearer)
        st_global(I[cta_id], n + other)
        st_global(L[cta_id], w)
        barrier_arrive(meet)

    with second:
        for i in range(count):
            for j in range(i, count, 2):
                if i + j == 5:
                    break
                else:
                    warp_sync()
            if instance == 1:
                if warp_id == 0:
                    warp_sync()
        barrier_sync(meet)
"""

COPY = """@schedule(target="sm_100a")
def copy(X: Tensor[f32, "A", "B", "C"], Y: Tensor[f32, "A", "B", "C"]):
    launch(ctas=min(A * B, sm_count))
    box = smem(f32, (2, 8, 32), at=0, swizzle=128)
    X_map = tensor_map(X, box=(2, 8, 32), swizzle=128)
    Y_map = tensor_map(Y, box=(2, 8, 32), swizzle=128)
    full = mbarrier(arrivals=1, at=2048)
    mover = role(warps=1)

    with mover:
        with one_lane():
            mbarrier_expect(full, 2048)
            tma_load(box, X_map, at=(cta_id * 2, 0, 32), done=full)
            mbarrier_wait(full, 0)
            tma_store(Y_map, box, at=(cta_id * 2, 0, 32))
            bulk_commit()
            bulk_wait(0)
"""


def compiled(text: str, *, watchdog: bool = False) -> Cubin:
    """The cubin of a canonical text."""
    return compile_program(lower(read_program(text), watchdog=watchdog))[0]


@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "sm_100a"])
@pytest.mark.parametrize("watchdog", [False, True])
def test_thread_code_compiles_for_every_target(target: str, watchdog: bool) -> None:
    """Loads, stores, arithmetic, conversions, reductions, shuffles and control of every type."""
    cubin = compiled(THREADS.format(target=target), watchdog=watchdog)

    assert cubin.usage.spill_store_bytes == 0
    assert cubin.findings == ()


@pytest.mark.parametrize("watchdog", [False, True])
def test_tma_compiles_for_blackwell(watchdog: bool) -> None:
    """Three-dimensional boxes, one-slot barriers and one-stage regions."""
    assert compiled(COPY, watchdog=watchdog).data.startswith(b"\x7fELF")


def test_a_primitive_of_another_target_is_refused() -> None:
    """A program is exact about its target: no step down."""
    with pytest.raises(IRError, match=r"mbarrier_expect needs one of sm_90a, sm_100a; the program is for sm_80"):
        lower(read_program(COPY.replace("sm_100a", "sm_80")))
