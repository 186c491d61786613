"""Watchdog code: how a hang on the GPU comes back as located evidence.

Lowered with `watchdog=True`, a kernel takes one more parameter, `cake_watch`: a host-mapped report, a counter for each
CTA in device memory, and a limit in nanoseconds. Then

* every warp writes where it stands (statement and loop counters) to the report before each statement that can block;
  the lane of `one_lane` blocks has a place of its own;
* an mbarrier wait that outlasts the limit claims the report (first come), writes what it waited for, and traps;
* a warp that reached the end of its role waits for the CTA's other warps, and does the same when they outlast it.

A named barrier, a `setmaxnreg` and a bulk wait block in hardware and cannot give up. A warp stuck there is found by the
other two means or, where no warp is left to look, by the host, which reads the report while the kernel still hangs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

#: 32-bit words of the report's head; then come `PLACE_WORDS` for each place, two places (lane 0, the rest) a warp.
HEAD_WORDS: Final = 16
PLACE_WORDS: Final = 4
#: Values of a place's first word: 0 before the first blocking statement, else statement index + 1, or `END`.
END: Final = 0xFFFFFFFF
#: Kinds of record: an mbarrier wait that gave up, a finished warp that waited in vain for the others.
KINDS: Final = {1: "mbarrier_wait", 2: "unfinished"}
DEFAULT_LIMIT_S: Final = 0.5

STRUCT: Final = """\
struct watch { uint32_t *report; uint32_t *finished; uint64_t limit; };  // host-mapped, device memory, nanoseconds
"""

NOW: Final = """\
__device__ __forceinline__ uint64_t now() {  // nanoseconds
  uint64_t t;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t));
  return t;
}"""

HERE: Final = f"""\
__device__ __forceinline__ void here(watch w, uint32_t statement, uint32_t i, uint32_t j, uint32_t k) {{
  const uint32_t warp = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
  uint32_t *place = w.report + {HEAD_WORDS} + {PLACE_WORDS} * (2 * warp + (threadIdx.x % 32 != 0));
  asm volatile("st.volatile.global.v4.u32 [%0], {{%1, %2, %3, %4}};"
               :: "l"(place), "r"(statement), "r"(i), "r"(j), "r"(k) : "memory");
}}"""

GIVE_UP: Final = """\
__device__ __forceinline__ void give_up(watch w, uint32_t kind, uint32_t statement, uint32_t slot, uint32_t parity,
                                        uint32_t i, uint32_t j, uint32_t k) {
  if (atomicCAS_system(w.report, 0u, kind) == 0) {
    volatile uint32_t *r = w.report;
    r[2] = blockIdx.x, r[3] = threadIdx.x, r[4] = statement, r[5] = slot, r[6] = parity, r[7] = i, r[8] = j, r[9] = k;
    __threadfence_system();
    r[1] = 1;  // complete
    __threadfence_system();
  }
  while (((volatile uint32_t *)w.report)[1] == 0) {}  // let whoever came first finish writing
  __trap();
}"""

FINISH: Final = f"""\
__device__ __forceinline__ void finish(watch w) {{
  here(w, {END}u, 0, 0, 0);
  __syncwarp();
  if (threadIdx.x % 32 != 0) return;
  atomicAdd(w.finished + blockIdx.x, 1u);
  const uint64_t start = now();
  while (*(volatile uint32_t *)(w.finished + blockIdx.x) != blockDim.x / 32) {{
    if (now() - start > w.limit) give_up(w, 2, {END}u, 0, 0, 0, 0, 0);
    __nanosleep(1000);
  }}
}}"""


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement as the watchdog counts them: its op path, canonical line, primitive (or kind), the barrier it
    refers to, and the names of the (at most three, innermost) enclosing loops' variables, innermost first."""

    path: str
    line: int
    op: str
    barrier: str
    loops: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RolePlace:
    """Where a role's warps lie in the CTA."""

    name: str
    first_warp: int
    warps: int
    instances: int


@dataclass(frozen=True, slots=True)
class Place:
    """Where one warp (or its elected lane) was last seen before it could block: `path` is empty before its first such
    statement and `end` behind its last. `loops` are (variable, value) pairs, innermost first."""

    cta: int
    role: str
    instance: int
    warp: int
    elected: bool
    path: str
    line: int
    op: str
    barrier: str
    loops: tuple[tuple[str, int], ...]

    def __str__(self) -> str:
        who = f"{self.role}[{self.instance}] warp {self.warp}{' lane 0' if self.elected else ''} of CTA {self.cta}"
        if self.path in ("", "end"):
            return f"{who}: {'at its end' if self.path else 'before its first blocking statement'}"
        at = "".join(f", {name} = {value}" for name, value in self.loops)
        return f"{who}: {self.op}({self.barrier}) at {self.path}, line {self.line}{at}"


@dataclass(frozen=True, slots=True)
class Stuck:
    """The first wait that gave up: who, at which statement, for which slot and parity of which barrier. `kind` is
    `mbarrier_wait`, or `unfinished` when a finished warp found the rest of its CTA not finishing."""

    kind: str
    place: Place
    slot: int
    parity: int


def report_words(ctas: int, threads: int) -> int:
    """32-bit words of the report for a launch."""
    return HEAD_WORDS + PLACE_WORDS * 2 * (threads // 32) * ctas


def _who(roles: Sequence[RolePlace], warp: int) -> tuple[str, int, int]:
    for role in roles:
        index = warp - role.first_warp
        if 0 <= index < role.warps * role.instances:
            return role.name, index // role.warps, index % role.warps
    return "?", 0, warp


def _place(
    roles: Sequence[RolePlace],
    statements: Sequence[Statement],
    cta: int,
    warp: int,
    elected: bool,
    words: Sequence[int],
) -> Place:
    role, instance, own = _who(roles, warp)
    code, *counters = (int(w) for w in words)
    if code in (0, END) or code > len(statements):
        return Place(cta, role, instance, own, elected, "end" if code == END else "", 0, "", "", ())
    s = statements[code - 1]
    loops = tuple(zip(s.loops, counters, strict=False))
    return Place(cta, role, instance, own, elected, s.path, s.line, s.op, s.barrier, loops)


def decode_stuck(words: Sequence[int], roles: Sequence[RolePlace], statements: Sequence[Statement]) -> Stuck | None:
    """The record in a report, or None when no wait gave up (or it was cut off while writing)."""
    kind, complete, cta, thread, code, slot, parity, i, j, k = (int(w) for w in words[:10])
    if kind not in KINDS or not complete:
        return None
    place = _place(roles, statements, cta, thread // 32, thread % 32 == 0, (code, i, j, k))
    return Stuck(KINDS[kind], place, slot, parity)


def decode_places(
    words: Sequence[int], roles: Sequence[RolePlace], statements: Sequence[Statement], *, ctas: int, warps: int
) -> tuple[Place, ...]:
    """Where every warp that had not reached its end was last seen, in order of CTA and warp; lane 0 has a place of its
    own. CTAs that had not started are left out, all their places being empty."""
    places: list[Place] = []
    for cta in range(ctas):
        found = []
        for warp in range(warps):
            for rest in (0, 1):
                at = HEAD_WORDS + PLACE_WORDS * (2 * (cta * warps + warp) + rest)
                found.append(_place(roles, statements, cta, warp, rest == 0, words[at : at + PLACE_WORDS]))
        if any(p.path for p in found):
            places += [p for p in found if p.path != "end"]
    return tuple(places)
