"""Thread loads and stores of vectors in global memory (PTX ISA, ld.global, st.global)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import KW_ONLY
from typing import TYPE_CHECKING

import numpy as np

from cake.core.emitter import Emitter, Registers
from cake.core.events import Event, GlobalBox, Read, Write
from cake.core.ir import BOOL, F32, DType, FragmentType, GlobalRef, Type
from cake.core.op import Frag, Op, Pred, Value, Work, primitive
from cake.plugins.targets import ALL

if TYPE_CHECKING:
    from cake.core.sim.machine import Machine


def _vector(t: Type, ref: GlobalRef, when: Pred | None) -> Iterable[str]:
    if not isinstance(t, FragmentType) or t.layout != "thread" or len(t.shape) != 1:
        yield f"{t} is not a one-dimensional thread fragment"
    elif t.dtype != ref.tensor.dtype:
        yield f"registers hold {t.dtype}, {ref.tensor.name} holds {ref.tensor.dtype}"
    elif t.shape[0] * t.dtype.bytes not in (2, 4, 8, 16):
        yield f"{t.shape[0] * t.dtype.bytes} bytes a thread, not 2, 4, 8 or 16"
    if when is not None and when.type != BOOL:
        yield f"when has type {when.type}, not bool"


def _width(t: Type) -> int:
    assert isinstance(t, FragmentType)
    return t.shape[0]


def _bytes(t: Type) -> int:
    assert isinstance(t, FragmentType)
    return t.shape[0] * t.dtype.bytes


def _box(ref: GlobalRef, t: Type, when: Pred | None) -> GlobalBox:
    assert isinstance(t, FragmentType)
    return GlobalBox(ref.tensor, ref.at, (1,) * (len(ref.at) - 1) + (t.shape[0],), when)


def _words(size: int) -> tuple[int, str, str]:
    """How `size` bytes travel: number of registers, PTX type, asm constraint of one."""
    return {2: (1, "b16", "h"), 4: (1, "b32", "r"), 8: (2, "v2.b32", "r"), 16: (4, "v4.b32", "r")}[size]


def _from_words(dtype: DType, i: int) -> str:
    """C++ that takes element `i` out of the words `w`."""
    if dtype.bytes == 8:
        return f"int64_t(w[{2 * i}] | uint64_t(w[{2 * i + 1}]) << 32)"
    word = f"w[{i * dtype.bytes // 4}]"
    if dtype.bytes == 4:
        return f"__uint_as_float({word})" if dtype == F32 else f"{dtype.ctype}({word})"
    part = f"{word} >> {shift}" if (shift := i * dtype.bytes % 4 * 8) else word
    return f"{dtype.ctype}{{uint16_t({part})}}" if dtype.bytes == 2 else f"({part} & 0xff) != 0"


def _to_word(dtype: DType, j: int, count: int) -> str:
    """C++ that makes word `j` of the `count` elements `x`."""
    if dtype.bytes == 8:
        return f"uint32_t(x[{j // 2}] >> {j % 2 * 32})"
    if dtype.bytes == 4:
        return f"__float_as_uint(x[{j}])" if dtype == F32 else f"uint32_t(x[{j}])"
    each = 4 // dtype.bytes
    bits = ".bits" if dtype.bytes == 2 else ""
    parts = [f"uint32_t(x[{i}]{bits}) << {8 * dtype.bytes * (i % each)}" for i in range(count)[j * each :][:each]]
    return " | ".join(parts).replace(" << 0", "")


def _ld_global(name: str, dtype: DType, n: int, guarded: bool) -> str:
    count, ptx, letter = _words(n * dtype.bytes)
    word = "uint16_t" if letter == "h" else "uint32_t"
    listed = ", ".join(f"%{i}" for i in range(count))
    access = f"ld.global.{ptx} {f'{{{listed}}}' if count > 1 else listed}, [%{count}];"
    if guarded:
        access = f"{{ .reg .pred p; setp.ne.b32 p, %{count + 1}, 0; @p {access} }}"
    outputs = ", ".join(f'"+{letter}"(w[{i}])' for i in range(count))
    unpack = "\n  ".join(f"x[{i}] = {_from_words(dtype, i)};" for i in range(n))
    when, element = ", bool when" if guarded else "", dtype.ctype
    return f"""
__device__ __forceinline__ void {name}({element} *x, const {element} *from{when}) {{
  {word} w[{count}] = {{}};
  asm volatile("{access}" : {outputs} : "l"(from){', "r"(int32_t(when))' if guarded else ""} : "memory");
  {unpack}
}}
"""


def _st_global(name: str, dtype: DType, n: int, guarded: bool) -> str:
    count, ptx, letter = _words(n * dtype.bytes)
    word = "uint16_t" if letter == "h" else "uint32_t"
    listed = ", ".join(f"%{i + 1}" for i in range(count))
    access = f"st.global.{ptx} [%0], {f'{{{listed}}}' if count > 1 else listed};"
    if guarded:
        access = f"{{ .reg .pred p; setp.ne.b32 p, %{count + 1}, 0; @p {access} }}"
    inputs = ", ".join(f'"{letter}"({word}({_to_word(dtype, j, n)}))' for j in range(count))
    when, element = ", bool when" if guarded else "", dtype.ctype
    return f"""
__device__ __forceinline__ void {name}({element} *to, const {element} *x{when}) {{
  asm volatile("{access}" :: "l"(to), {inputs}{', "r"(int32_t(when))' if guarded else ""} : "memory");
}}
"""


def _emit_access(c: Emitter, kind: str, registers: Registers, ref: GlobalRef, when: Pred | None) -> None:
    """Write one vector access between contiguous registers and global memory."""
    dtype, n, guarded = registers.dtype, len(registers.index), when is not None
    name = f"{kind}_global_{dtype}x{n}{'_when' if guarded else ''}"
    access = c.helper(name, (_ld_global if kind == "ld" else _st_global)(name, dtype, n, guarded))
    ends = (registers.pointer, c.pointer(ref))
    condition = f", {c.expr(when)}" if when is not None else ""
    c.line(f"{access}({', '.join(ends if kind == 'ld' else reversed(ends))}{condition});")


@primitive("ld_global", targets=ALL, ptx="ld.global")
class LdGlobal(Op):
    """Each thread loads consecutive elements from `src` on, in one access of up to 16 bytes; where `when` is false it
    loads nothing and gets zeros."""

    dst: Frag
    src: GlobalRef
    _: KW_ONLY
    when: Pred | None = None

    def check(self) -> Iterable[str]:
        yield from _vector(self.dst.type, self.src, self.when)

    def events(self) -> tuple[Event, ...]:
        return (Read(_box(self.src, self.dst.type, self.when)), Write(self.dst))

    def compute(self, m: Machine) -> None:
        active = m.where(self.when)
        tensor, width = m.tensor(self.src.tensor), _width(self.dst.type)
        values = np.zeros((m.width, width), tensor.array.dtype)
        values[active] = tensor.load(m.element(self.src)[active], width)
        m.write(self.dst, values)

    def emit(self, c: Emitter) -> None:
        _emit_access(c, "ld", c.registers(self.dst), self.src, self.when)

    def cost(self) -> Work:
        return Work(issue=1, dram_bytes=_bytes(self.dst.type))


@primitive("st_global", targets=ALL, ptx="st.global")
class StGlobal(Op):
    """Each thread stores consecutive elements from `dst` on, in one access of up to 16 bytes, where `when` holds."""

    dst: GlobalRef
    src: Value
    _: KW_ONLY
    when: Pred | None = None

    def check(self) -> Iterable[str]:
        yield from _vector(self.src.type, self.dst, self.when)

    def events(self) -> tuple[Event, ...]:
        return (Write(_box(self.dst, self.src.type, self.when)),)

    def compute(self, m: Machine) -> None:
        active = m.where(self.when)
        m.tensor(self.dst.tensor).store(m.element(self.dst)[active], m.value(self.src)[active])

    def emit(self, c: Emitter) -> None:
        _emit_access(c, "st", c.fragment(self.src), self.dst, self.when)

    def cost(self) -> Work:
        return Work(issue=1, dram_bytes=_bytes(self.src.type))
