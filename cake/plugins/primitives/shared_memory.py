"""Thread loads and stores of single elements in shared memory (PTX ISA, ld.shared, st.shared)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from cake.core.emitter import Emitter
from cake.core.events import Event, Read, Write
from cake.core.ir import F32, DType, Type, View
from cake.core.op import Op, Value, Work, primitive
from cake.plugins.targets import ALL

if TYPE_CHECKING:
    from cake.core.sim.machine import Machine


def _shared(dtype: DType) -> tuple[str, str, str, str]:
    """How one element travels: PTX type, asm constraint, C++ type in the asm, and C++ text of the element from `w`."""
    return {
        1: ("u8", "r", "uint32_t", "w != 0"),
        2: ("b16", "h", "uint16_t", f"{dtype.ctype}{{w}}"),
        4: ("f32", "f", "float", "w") if dtype == F32 else ("b32", "r", "uint32_t", f"{dtype.ctype}(w)"),
        8: ("b64", "l", "int64_t", "w"),
    }[dtype.bytes]


def _ld_shared(dtype: DType) -> str:
    ptx, letter, word, element = _shared(dtype)
    return f"""
__device__ __forceinline__ {dtype.ctype} ld_shared_{dtype}(uint32_t from) {{
  {word} w;
  asm volatile("ld.shared.{ptx} %0, [%1];" : "={letter}"(w) : "r"(from) : "memory");
  return {element};
}}
"""


def _st_shared(dtype: DType) -> str:
    ptx, letter, word, _ = _shared(dtype)
    bits = "x.bits" if dtype.bytes == 2 else f"{word}(x)"
    return f"""
__device__ __forceinline__ void st_shared_{dtype}(uint32_t to, {dtype.ctype} x) {{
  asm volatile("st.shared.{ptx} [%0], %1;" :: "r"(to), "{letter}"({bits}) : "memory");
}}
"""


def _element(view: View) -> Iterable[str]:
    if any(n != 1 for n in view.shape):
        yield f"view of {view.buffer.name} has shape {view.shape}, not one element"


@primitive("ld_shared", targets=ALL, ptx="ld.shared")
class LdShared(Op):
    """Each thread loads one element of shared memory."""

    src: View

    def check(self) -> Iterable[str]:
        yield from _element(self.src)

    def result_type(self) -> Type:
        return self.src.buffer.dtype

    def events(self) -> tuple[Event, ...]:
        return (Read(self.src),)

    def compute(self, m: Machine) -> Any:
        return m.load(self.src)

    def emit(self, c: Emitter) -> None:
        dtype = self.src.buffer.dtype
        c.result(f"{c.helper(f'ld_shared_{dtype}', _ld_shared(dtype))}({c.swizzled(self.src)})")

    def cost(self) -> Work:
        return Work(issue=1, smem_bytes=self.src.bytes)


@primitive("st_shared", targets=ALL, ptx="st.shared")
class StShared(Op):
    """Each thread stores one element to shared memory."""

    dst: View
    value: Value

    def check(self) -> Iterable[str]:
        yield from _element(self.dst)
        if self.value.type != self.dst.buffer.dtype:
            yield f"value is {self.value.type}, {self.dst.buffer.name} holds {self.dst.buffer.dtype}"

    def events(self) -> tuple[Event, ...]:
        return (Write(self.dst),)

    def compute(self, m: Machine) -> None:
        m.store(self.dst, m.value(self.value))

    def emit(self, c: Emitter) -> None:
        dtype = self.dst.buffer.dtype
        store = c.helper(f"st_shared_{dtype}", _st_shared(dtype))
        c.line(f"{store}({c.swizzled(self.dst)}, {c.expr(self.value)});")

    def cost(self) -> Work:
        return Work(issue=1, smem_bytes=self.dst.bytes)
