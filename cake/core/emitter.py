"""The emitter: what a primitive's `emit` writes with.

A primitive asks for its operands as C++ text (`expr`, `address`, `barrier`, `pointer`, `fragment`, ...), registers the
one device function that wraps its instruction (`helper`), and writes a call (`line`, or `result` for a value).
Everything else about the generated file belongs to `cake.core.lower`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from cake.core.cpp import CONVERSIONS, HALVES, Linear, Printer, cpp_name, linear, swizzle_function
from cake.core.ir import (
    F32,
    BarrierRef,
    Cast,
    DType,
    Expr,
    FragmentType,
    GlobalRef,
    IRError,
    Part,
    Reduce,
    Special,
    TensorMap,
    Var,
    View,
    element_type,
    operands,
    walk_expr,
)
from cake.core.layout import Layout

#: The loop variable of generated walks over registers.
_R = "cake_r"


@dataclass(frozen=True, slots=True)
class Registers:
    """Registers of one C++ array, by constant index, in the order of the fragment's layout."""

    name: str
    index: tuple[int, ...]
    dtype: DType

    @property
    def contiguous(self) -> bool:
        """Whether the indices follow each other."""
        return self.index == tuple(range(self.index[0], self.index[0] + len(self.index)))

    @property
    def pointer(self) -> str:
        """C++ address of the first register; only when contiguous."""
        return f"{self.name} + {self.index[0]}" if self.index[0] else self.name

    def element(self, r: int | str) -> str:
        """C++ text of register `r`: a number, or the name of a variable that walks over contiguous registers."""
        if isinstance(r, int):
            return f"{self.name}[{self.index[r]}]"
        return f"{self.name}[{f'{self.index[0]} + ' if self.index[0] else ''}{r}]"


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a role's code: the indentation, the text, and the op path that it came from."""

    depth: int
    text: str
    path: str


class Emitter:
    """Writes the statements of one program. `layouts` maps fragment layout names to layouts; `watchdog` asks blocking
    primitives for their bounded form."""

    def __init__(self, layouts: Mapping[str, Layout], *, watchdog: bool) -> None:
        self.watchdog = watchdog
        self.helpers: dict[str, str] = {}
        self.lines: list[Line] = []
        self.specials: set[str] = set()
        self._layouts = layouts
        self._depth = 1
        self._path = ""
        self._place = ""
        self._out: tuple[Var, bool] | None = None
        self._temps = 0
        self._reduced: dict[Reduce, str] = {}
        self._scopes: list[list[Var]] = [[]]

    # ------------------------------------------------------------------------------------------------- for primitives

    def line(self, text: str) -> None:
        """Write one line of C++ for the current statement."""
        self.lines.append(Line(self._depth, text, self._path))

    def helper(self, name: str, text: str) -> str:
        """Make sure that the file holds the device function `name`, defined by `text`; returns how to call it.

        A helper wraps one instruction, with the operands that the hardware fixes; one name has one text."""
        if self.helpers.setdefault(name, text.strip("\n")) != text.strip("\n"):
            raise ValueError(f"helper {name} has two definitions")
        return f"cake::{name}"

    def result(self, text: str) -> None:
        """Write the primitive's value, the C++ expression `text`, to the variable that receives it."""
        if self._out is None:
            self.line(f"(void){text};")
            return
        var, declare = self._out
        assert isinstance(var.type, DType)
        self.line(f"{f'{var.type.ctype} ' if declare else ''}{cpp_name(var.name)} = {text};")

    def expr(self, expr: Expr, level: int = 0) -> str:
        """A scalar expression as C++; in brackets when it binds less tightly than `level` (20: always an operand)."""
        self._note(expr)
        return self._printer(None).text(expr, level)

    def fragment(self, value: Expr) -> Registers:
        """A fragment expression as contiguous registers: those of the variable itself, or of a temporary."""
        if isinstance(value, Var | Part):
            registers = self.registers(value)
            if registers.contiguous:
                return registers
        t = value.type
        assert isinstance(t, FragmentType)
        temporary = Var(self._temporary(), t)
        target = Registers(temporary.name, tuple(range(self._count(t))), t.dtype)
        self.line(f"{t.dtype.ctype} {temporary.name}[{len(target.index)}];")
        self.fill(target, value)
        return target

    def registers(self, fragment: Var | Part) -> Registers:
        """The registers of a fragment or of a part of one. Raises IRError for columns that the layout does not keep
        in the same registers of every thread."""
        if isinstance(fragment, Var):
            t = fragment.type
            assert isinstance(t, FragmentType)
            return Registers(cpp_name(fragment.name), tuple(range(self._count(t))), t.dtype)
        whole = fragment.fragment
        t = whole.type
        assert isinstance(t, FragmentType)
        return Registers(cpp_name(whole.name), self._part_index(fragment, t), t.dtype)

    def address(self, view: View) -> str:
        """The shared-memory byte address (uint32_t) of a view's first element, before swizzling."""
        stage, offset = self._stage(view), self._offset(view)
        return " + ".join([*stage, *self._terms(offset), *([str(offset.constant)] if offset.constant else [])])

    def units(self, view: View) -> str:
        """`address(view) / 16`, with the constant behind the division: one shift serves neighbouring views."""
        stage, offset = self._stage(view), self._offset(view)
        if offset.constant % 16:
            return f"({self.address(view)}) / 16"
        behind = f" + {offset.constant // 16}" if offset.constant else ""
        return f"({' + '.join([*stage, *self._terms(offset)])}) / 16{behind}"

    def swizzled(self, view: View) -> str:
        """`address(view)`, moved to where the region's swizzle keeps that element."""
        return self.swizzle(view.buffer.swizzle, self.address(view))

    def swizzle(self, span: int, address: str) -> str:
        """Where `address` (a C++ expression) lies under a swizzle of `span` bytes; as it is for 0."""
        return f"{self.helper(f'swizzle_{span}', swizzle_function(span))}({address})" if span else address

    def barrier(self, ref: BarrierRef) -> str:
        """An mbarrier slot's shared-memory address, or a named barrier's hardware number."""
        name = f"barrier::{cpp_name(ref.barrier.name)}"
        if ref.barrier.kind == "named":
            return name if ref.slot is None else f"{name} + {self.expr(ref.slot, 13)}"
        return f"smem_base + {name}" + ("" if ref.slot is None else f" + {self.expr(ref.slot, 14)} * 8")

    def arrivals(self, ref: BarrierRef) -> str:
        """The number of arrivals that complete a barrier, by name."""
        return f"arrivals::{cpp_name(ref.barrier.name)}"

    def special(self, name: str) -> str:
        """A value supplied by the machine, such as `lane_id` (see `cake.core.ir.SPECIALS`)."""
        self.specials.add(name)
        return name

    def tensor_map(self, tensor_map: TensorMap) -> str:
        """The address of a descriptor, as the instructions want it (a generic 64-bit address)."""
        return f"&{cpp_name(tensor_map.name)}"

    def coordinates(self, at: Sequence[Expr]) -> str:
        """Coordinates of a box as C++ arguments, innermost dimension first, as the copy engine counts them."""
        return ", ".join(self.expr(c) for c in reversed(at))

    def pointer(self, ref: GlobalRef) -> str:
        """The typed global address of an element; products that may pass 2**31 are computed in 64 bits."""
        first, *rest = ref.at
        if not rest:
            return f"{cpp_name(ref.tensor.name)} + {self.expr(first, 13)}"
        text = f"int64_t({self.expr(first)})"
        for coordinate, extent in zip(rest, ref.tensor.dims[1:], strict=True):
            size = cpp_name(extent) if isinstance(extent, str) else str(extent)
            text = f"({text} * {size} + {self.expr(coordinate, 13)})"
        return f"{cpp_name(ref.tensor.name)} + {text}"

    def accumulators(self, layout: str, dtype: DType) -> list[Registers]:
        """Every fragment of that layout and type that is in scope here, whole."""
        kinds = [(v, v.type) for scope in self._scopes for v in scope]
        return [
            self.registers(v)
            for v, t in kinds
            if isinstance(t, FragmentType) and t.layout == layout and t.dtype == dtype
        ]

    @property
    def place(self) -> str:
        """In watchdog code, the arguments that say where a blocking statement stands: statement and loop counters."""
        return self._place

    # --------------------------------------------------------------------------------------------------- for lowering

    def begin_role(self) -> None:
        """Start a role's code: no lines, no special values used, nothing in scope."""
        self.lines, self.specials, self._scopes, self._depth = [], set(), [[]], 2
        self._path = ""

    def pragma(self, text: str) -> None:
        """Write a line that stands before the statement's first and has no line of its own in the text."""
        self.lines.append(Line(self._depth, text, ""))

    def statement(self, path: str, place: str, out: Var | None = None, declare: bool = False) -> None:
        """Begin the statement at `path`."""
        self._path, self._place = path, place
        self._reduced = {}
        self._out = (out, declare) if out is not None else None

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Write `head {`, indent what follows, and close the bracket."""
        path = self._path
        self.line(f"{head} {{")
        self._depth += 1
        self._scopes.append([])
        yield
        self._scopes.pop()
        self._depth -= 1
        self._path = path
        self.line("}")

    def declare(self, var: Var) -> None:
        """Write the declaration of a fragment's registers and note it as in scope."""
        t = var.type
        assert isinstance(t, FragmentType)
        self.line(f"{t.dtype.ctype} {cpp_name(var.name)}[{self._count(t)}];")
        self._scopes[-1].append(var)

    def fill(self, target: Registers, value: Expr) -> None:
        """Write `target = value`, elementwise over registers: a loop that unrolls where indices are contiguous."""
        self._note(value)
        n, joined = len(target.index), self._joined(value) and target.contiguous
        if isinstance(value, Cast) and value.dtype in HALVES and element_type(value.operand) == F32 and n % 2 == 0:
            name = f"round_{value.dtype.name}"
            self._use_conversion(name)
            for head, r, after in _walk(0, n, 2, joined):
                first, second = self._element(value.operand, r), self._element(value.operand, after)
                self.line(f"{head}cake::{name}(&{target.element(r)}, &{target.element(after)}, {first}, {second});")
            return
        for head, r, _ in _walk(0, n, 1, joined):
            self.line(f"{head}{target.element(r)} = {self._element(value, r)};")

    # ------------------------------------------------------------------------------------------------------- internals

    def _stage(self, view: View) -> list[str]:
        """Summands of the address of a view's stage."""
        name = cpp_name(view.buffer.name)
        stage = [] if view.stage is None else [f"{self.expr(view.stage, 14)} * stage_bytes::{name}"]
        return ["smem_base", f"smem::{name}", *stage]

    def _terms(self, offset: Linear) -> list[str]:
        """Summands of a linear form, but for its constant."""
        return [self.expr(e, 13) if k == 1 else f"{self.expr(e, 14)} * {k}" for e, k in offset.terms]

    @staticmethod
    def _offset(view: View) -> Linear:
        """Bytes from the stage's start to the view's first element: row-major."""
        stride = view.buffer.dtype.bytes
        offset = Linear(0)
        for coordinate, extent in zip(reversed(view.at), reversed(view.buffer.shape), strict=True):
            offset += linear(coordinate) * stride
            stride *= extent
        return offset

    def _count(self, t: FragmentType) -> int:
        layout = self.layout(t.layout)
        try:
            return layout.registers(t.shape)
        except ValueError as error:
            raise IRError(str(error)) from None

    def layout(self, name: str) -> Layout:
        """The layout called `name`. Raises IRError when no plugin brings it."""
        try:
            return self._layouts[name]
        except KeyError:
            raise IRError(f"no fragment layout is called {name!r}; known: {', '.join(sorted(self._layouts))}") from None

    def _part_index(self, part: Part, t: FragmentType) -> tuple[int, ...]:
        layout = self.layout(t.layout)
        if part.count is None:
            size = layout.registers(t.shape) // t.shape[0]
            return tuple(range(part.start * size, (part.start + 1) * size))
        whole = layout.coords(t.shape)
        wanted = layout.coords((*t.shape[:-1], part.count))
        wanted[..., -1] += part.start
        at = {tuple(c): r for r, c in enumerate(whole[0].tolist())}
        try:
            index = tuple(at[tuple(c)] for c in wanted[0].tolist())
        except KeyError:
            index = ()
        if not index or not (whole[:, list(index)] == wanted).all():
            raise IRError(
                f"{part.fragment.name}.cols({part.start}, {part.count}): layout {t.layout!r} does not keep these "
                "columns in the same registers of every thread"
            )
        return index

    def _printer(self, r: int | str | None) -> Printer:
        def leaf(fragment: Var | Part) -> str:
            registers = self.registers(fragment)
            if isinstance(fragment.type, FragmentType):
                if r is None:
                    raise IRError(f"a scalar is needed, not {fragment.type}")
                return registers.element(r)
            return registers.element(0)

        return Printer(leaf=leaf, reduce=self._reduce, use=self._use_conversion)

    def _element(self, value: Expr, r: int | str, level: int = 0) -> str:
        return self._printer(r).text(value, level)

    def _joined(self, value: Expr) -> bool:
        """Whether a loop variable can walk over the registers of every fragment in an elementwise expression."""
        if isinstance(value, Reduce):
            return True
        if isinstance(value, Var | Part):
            return not isinstance(value.type, FragmentType) or self.registers(value).contiguous
        return all(map(self._joined, operands(value)))

    def _reduce(self, reduce: Reduce) -> str:
        """A variable that holds the reduction of each thread's own elements, in index order."""
        if reduce not in self._reduced:
            t = reduce.operand.type
            assert isinstance(t, FragmentType)
            name = self._temporary()
            op = "+" if reduce.op == "sum" else "max"
            self.line(f"{t.dtype.ctype} {name} = {self._element(reduce.operand, 0)};")
            for head, r, _ in _walk(1, self._count(t), 1, self._joined(reduce.operand)):
                element = self._element(reduce.operand, r, 13)
                self.line(f"{head}{name} = {self._printer(r).fold(op, t.dtype, name, element)};")
            self._reduced[reduce] = name
        return self._reduced[reduce]

    def _temporary(self) -> str:
        self._temps += 1
        return f"cake_{self._temps}"

    def _use_conversion(self, name: str) -> None:
        self.helper(name, CONVERSIONS[name])

    def _note(self, expr: Expr) -> None:
        self.specials.update(e.name for e in walk_expr(expr) if isinstance(e, Special))


def _walk(start: int, stop: int, step: int, joined: bool) -> Iterator[tuple[str, int | str, int | str]]:
    """How to walk over registers: the head to write, the index, and the index after it. One loop that the compiler
    unrolls where the registers are joined, else one line for each."""
    if joined and stop - start > step:
        yield f'_Pragma("unroll") for (int {_R} = {start}; {_R} < {stop}; {_R} += {step}) ', _R, f"{_R} + 1"
        return
    for r in range(start, stop, step):
        yield "", r, r + 1
