"""Thread loads and stores (PTX ISA, ld, st): vectors of global memory, scalars of shared memory."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import KW_ONLY

from cake.core.events import Event, GlobalBox, Read, Write
from cake.core.ir import BOOL, FragmentType, GlobalRef, Type, View, element_type
from cake.core.op import Frag, Op, Pred, Value, Work, primitive
from cake.plugins.primitives.named_barrier import ALL


def _vector(t: Type, ref: GlobalRef, when: Pred | None) -> Iterable[str]:
    if not isinstance(t, FragmentType) or t.layout != "thread" or len(t.shape) != 1:
        yield f"{t} is not a one-dimensional thread fragment"
    elif t.dtype != ref.tensor.dtype:
        yield f"registers hold {t.dtype}, {ref.tensor.name} holds {ref.tensor.dtype}"
    elif t.shape[0] * t.dtype.bytes not in (2, 4, 8, 16):
        yield f"{t.shape[0] * t.dtype.bytes} bytes a thread, not 2, 4, 8 or 16"
    if when is not None and when.type != BOOL:
        yield f"when has type {when.type}, not bool"


def _bytes(t: Type) -> int:
    assert isinstance(t, FragmentType)
    return t.shape[0] * t.dtype.bytes


def _box(ref: GlobalRef, t: Type) -> GlobalBox:
    assert isinstance(t, FragmentType)
    return GlobalBox(ref.tensor, ref.at, (1,) * (len(ref.at) - 1) + (t.shape[0],))


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
        return (Read(_box(self.src, self.dst.type)), Write(self.dst))

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
        return (Write(_box(self.dst, self.src.type)),)

    def cost(self) -> Work:
        return Work(issue=1, dram_bytes=_bytes(self.src.type))


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

    def cost(self) -> Work:
        return Work(issue=1, smem_bytes=self.src.bytes)


@primitive("st_shared", targets=ALL, ptx="st.shared")
class StShared(Op):
    """Each thread stores one element to shared memory."""

    dst: View
    value: Value

    def check(self) -> Iterable[str]:
        yield from _element(self.dst)
        if element_type(self.value) != self.dst.buffer.dtype:
            yield f"value is {self.value.type}, {self.dst.buffer.name} holds {self.dst.buffer.dtype}"

    def events(self) -> tuple[Event, ...]:
        return (Write(self.dst),)

    def cost(self) -> Work:
        return Work(issue=1, smem_bytes=self.dst.bytes)
