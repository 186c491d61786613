"""What a primitive is: one class per instruction family, read five ways.

    @primitive("mbarrier_arrive", targets=("sm_80", "sm_90a", "sm_100a"), ptx="mbarrier.arrive")
    class MbarrierArrive(Op):
        '''Each executing thread arrives on one slot of an mbarrier (PTX ISA, mbarrier.arrive).'''
        barrier: BarrierRef

        def events(self): return (Arrive(self.barrier),)
        def compute(self, m): m.arrive(self.barrier)
        def emit(self, c): c.asm("mbarrier.arrive.shared::cta.b64 _, [%0];", inputs=[c.barrier(self.barrier)])
        def cost(self): return Work(issue=1)

Fields are the statement's operands. Their annotations are the typed processors that the reader and the printer use:
`View`, `TensorMap`, `BarrierRef`, `GlobalRef`, `Coords`, `Frag`, `Value`, `Pred`, `int`, `bool`, `str`, `Literal[...]`,
`tuple[View, ...]`. Fields behind `_: KW_ONLY` are written as keywords; a field with a default may be left out.
"""

from __future__ import annotations

import typing
from abc import abstractmethod
from collections.abc import Callable, Generator, Iterable
from dataclasses import Field, dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, TypeVar, cast

from cake.core.events import Event
from cake.core.ir import Expr, IRError, Part, Type, Var

if TYPE_CHECKING:
    from cake.core.emitter import Emitter
    from cake.core.sim.machine import Machine

Coords: TypeAlias = tuple[Expr, ...]  #: element coordinates, outermost dimension first, each i32
Frag: TypeAlias = Var | Part  #: registers that the primitive reads or writes in place
Value: TypeAlias = Expr  #: any scalar or fragment expression, read only
Pred: TypeAlias = Expr  #: a bool expression


@dataclass(frozen=True, slots=True)
class Work:
    """What one execution by one issuer occupies, in physical units; the cost model turns it into time.

    `issue` instructions issued; `dram_bytes`, `smem_bytes` moved; `tensor_flops` on the tensor cores; `alu_flops` in
    thread code; `sync` barrier operations.
    """

    issue: float = 0
    dram_bytes: float = 0
    smem_bytes: float = 0
    tensor_flops: float = 0
    alu_flops: float = 0
    sync: float = 0


class Op:
    """Base of all primitives. Subclasses are made by `@primitive` and are frozen dataclasses."""

    opname: ClassVar[str] = ""
    targets: ClassVar[tuple[str, ...]] = ()
    ptx: ClassVar[str] = ""  #: the PTX instruction family
    sugar: ClassVar[str] = ""  #: the step of a schedule's sugar that it implements, if any (see `cake.core.sugar`)
    operands: ClassVar[tuple[Field[Any], ...]] = ()  #: its fields, in order
    kinds: ClassVar[dict[str, Any]] = {}  #: field name -> annotation

    def check(self) -> Iterable[str]:
        """Reasons why these operands are ill-typed, naming the offending value. Legality is for rules, not for here."""
        return ()

    def result_type(self) -> Type | None:
        """The type of the value, for primitives written as `x = name(...)`."""
        return None

    @abstractmethod
    def events(self) -> tuple[Event, ...]:
        """What one execution does, in order."""
        raise NotImplementedError(self.opname)

    @abstractmethod
    def compute(self, m: Machine) -> Generator[Any, None, Any] | Any:
        """Do it in the simulator. A primitive that blocks is a generator; a value is returned."""
        raise NotImplementedError(self.opname)

    @abstractmethod
    def emit(self, c: Emitter) -> None:
        """Write its CUDA C++ or inline PTX."""
        raise NotImplementedError(self.opname)

    @abstractmethod
    def cost(self) -> Work:
        """What one execution occupies."""
        raise NotImplementedError(self.opname)


O = TypeVar("O", bound=type[Op])  # noqa: E741


def primitive(name: str, *, targets: tuple[str, ...], ptx: str) -> Callable[[O], O]:
    """Make a class a primitive called `name`, legal on exactly `targets`, covering the instruction family `ptx`."""

    def wrap(cls: O) -> O:
        def post_init(self: Op) -> None:
            for reason in self.check():
                raise IRError(f"{name}: {reason}")

        setattr(cls, "__post_init__", post_init)  # noqa: B010 - dataclass() calls it; classes do not declare it
        dataclass(frozen=True)(cls)
        cls.opname, cls.targets, cls.ptx = name, targets, ptx
        hints = typing.get_type_hints(cls)
        cls.operands = fields(cast(Any, cls))  # a dataclass since two lines ago
        cls.kinds = {f.name: hints[f.name] for f in cls.operands}
        return cls

    return wrap
