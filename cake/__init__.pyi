"""The words of Cake schedules, for editors. Generated: pytest tests/unit/test_surface.py --update-golden"""

from typing import Any

from cake.core.schedule import Kernel as Kernel
from cake.core.schedule import load_kernel as load_kernel
from cake.core.schedule import schedule as schedule

Tensor: Any
bf16: Any
cta_count: Any
cta_id: Any
f16: Any
f32: Any
i32: Any
i64: Any
inf: Any
instance: Any
lane_id: Any
sm_count: Any
thread_id: Any
u32: Any
warp_id: Any

def barrier_arrive(barrier: Any) -> Any:
    """Arrive with every executing thread, without blocking."""

def barrier_sync(barrier: Any) -> Any:
    """Arrive with every executing thread and block until the barrier's `arrivals` threads have arrived; orders generic
    accesses among them."""

def bulk_commit() -> Any:
    """Close the executing thread's open bulk group."""

def bulk_wait(pending: Any, *, read: Any = ...) -> Any:
    """Wait until at most `pending` of the executing thread's bulk groups are unfinished; with `read`, until their
    sources may be overwritten, which comes earlier than the results."""

def cast(*args: Any, **kwargs: Any) -> Any:
    """`cast(x, dtype)`: convert, rounding to nearest even; element by element for a fragment."""

def ceil_div(*args: Any, **kwargs: Any) -> Any:
    """`ceil_div(a, b)`: a / b rounded up, for non-negative a and positive b."""

def fence_proxy_async() -> Any:
    """Make the executing threads' earlier generic accesses to shared memory visible to the async proxy (TMA, wgmma)."""

def fragment(*args: Any, **kwargs: Any) -> Any:
    """Declare it in a statement of a role: `x = fragment(f32, (64, 128), layout="wgmma")`."""

def launch(*args: Any, **kwargs: Any) -> Any:
    """Write it once above the roles: `launch(ctas=sm_count, ctas_per_sm=1)`."""

def ld_global(dst: Any, src: Any, *, when: Any = ...) -> Any:
    """Each thread loads consecutive elements from `src` on, in one access of up to 16 bytes; where `when` is false it
    loads nothing and gets zeros."""

def ld_shared(src: Any) -> Any:
    """Each thread loads one element of shared memory."""

def mbarrier(*args: Any, **kwargs: Any) -> Any:
    """Declare it above the roles: `x = mbarrier(arrivals=1, at=1024, slots=4)`."""

def mbarrier_arrive(barrier: Any) -> Any:
    """Each executing thread arrives once on one slot's current phase (PTX ISA, mbarrier.arrive)."""

def mbarrier_expect(barrier: Any, bytes: Any) -> Any:
    """Each executing thread adds `bytes` to the phase's transactions and arrives (PTX ISA, mbarrier.arrive)."""

def mbarrier_wait(barrier: Any, phase: Any) -> Any:
    """Block until the phase of parity `phase` is complete (PTX ISA, mbarrier.try_wait.parity).

    A fresh barrier answers at once for parity 1: that is how a producer's first pass over an empty ring starts.
    """

def named_barrier(*args: Any, **kwargs: Any) -> Any:
    """Declare it above the roles: `x = named_barrier(arrivals=128, at=1)`."""

def one_lane(*args: Any, **kwargs: Any) -> Any:
    """Write `with one_lane():` in a role."""

def pipeline(*args: Any, **kwargs: Any) -> Any:
    """Declare it above the roles: `x = pipeline(stages=4, producer=load, consumer=math, at=1024)`."""

def prefetch_tensormap(tensor_map: Any) -> Any:
    """Bring a descriptor into the cache, so that the first copy does not wait for it (PTX ISA, prefetch)."""

def ptx(text: Any, *, inputs: Any = ..., reads: Any = ..., writes: Any = ...) -> Any:
    """Run `text`, with `%0`, `%1`, ... standing for `inputs`, then the addresses of `reads`, then those of `writes`.

    It must touch no other memory, but nothing checks that: every verdict that depends on it is `unknown`.
    """

def role(*args: Any, **kwargs: Any) -> Any:
    """Declare it above the roles: `x = role(warps=4, instances=2)`."""

def rsqrt(x: Any) -> Any:
    """1 / sqrt(x) in f32, at most 2 ulp off (PTX ISA, rsqrt.approx.ftz.f32)."""

def setmaxnreg(count: Any, action: Any) -> Any:
    """Set the executing warpgroup's registers a thread: `dec` gives some back to the CTA's pool, `inc` blocks until the
    pool has them. The pool holds what the launch assigned: more than that is a hang."""

def shfl(value: Any, mode: Any, by: Any) -> Any:
    """Exchange a 32-bit scalar within the warp: `bfly` with lane `lane_id ^ by`, `down` with lane `lane_id + by` (its
    own value where there is none), `idx` with lane `by`. All 32 lanes take part; it orders no memory."""

def smem(*args: Any, **kwargs: Any) -> Any:
    """Declare it above the roles: `x = smem(bf16, (64, 64), stages=4, at=0, swizzle=128)`."""

def st_global(dst: Any, src: Any, *, when: Any = ...) -> Any:
    """Each thread stores consecutive elements from `dst` on, in one access of up to 16 bytes, where `when` holds."""

def st_shared(dst: Any, value: Any) -> Any:
    """Each thread stores one element to shared memory."""

def static(*args: Any, **kwargs: Any) -> Any:
    """Write `for x in static(range(4)):` in a role."""

def stmatrix(dst: Any, src: Any) -> Any:
    """Store a 64 x N fragment of 16-bit values to a 64 x N view: each warp stores its 16 rows, four 8x8 matrices an
    instruction, each 16-byte row to its swizzled place. N is a multiple of 16."""

def tensor_map(*args: Any, **kwargs: Any) -> Any:
    """Declare it above the roles: `x = tensor_map(X, box=(64, 64), swizzle=128)`."""

def tiles(*args: Any, **kwargs: Any) -> Any:
    """Write `for m, n in tiles(rows, columns, group=8):` in a role."""

def tma_load(dst: Any, src: Any, *, at: Any, done: Any) -> Any:
    """Copy one box of a tensor into a shared-memory view, asynchronously, completing the box's bytes on `done`.

    Elements outside the tensor arrive as zeros and count as bytes (PTX ISA, cp.async.bulk.tensor; tensor modes, tiled).
    That the box has the shape and the swizzle of `dst` is for rules to say.
    """

def tma_store(dst: Any, src: Any, *, at: Any) -> Any:
    """Copy a shared-memory view to one box of a tensor, asynchronously, in the executing thread's bulk group.

    Elements outside the tensor are not written. What the async proxy reads must have been written through it or fenced.
    """

def warp_sync() -> Any:
    """The lanes of each executing warp meet and see each other's accesses."""

def wgmma(acc: Any, a: Any, b: Any, *, accumulate: Any) -> Any:
    """acc (64 x N) = a (64 x 16) @ b (N x 16).T, plus acc where `accumulate`; bf16 or f16 operands, f32 accumulators.

    One instruction, m64nNk16, both operands K-major in shared memory (PTX ISA, wgmma.mma_async). It is asynchronous:
    `acc` may be touched again only past a `wgmma_wait` that covers its group.
    """

def wgmma_commit() -> Any:
    """Close the open group of wgmmas."""

def wgmma_fence() -> Any:
    """Order register accesses before the next wgmma: needed before the first and whenever registers changed."""

def wgmma_wait(pending: Any) -> Any:
    """Wait until at most `pending` groups of wgmmas are unfinished."""
