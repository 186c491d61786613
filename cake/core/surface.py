"""The names that a schedule is written with, for editors and for `from cake import *`.

A schedule is read, never run: outside one, a name that looks like a function only says so.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final, NoReturn

from cake.core.errors import CakeError
from cake.core.ir import DTYPES, SPECIALS
from cake.core.reader_expr import FUNCTIONS, PLACED
from cake.core.registry import primitives
from cake.core.schedule import Kernel, load_kernel, schedule

#: Python's own names that schedules use as well: they are not shadowed.
_PYTHON: Final = frozenset({"max", "min", "range", "sum"})


class Word:
    """A word of the language. Reading gives it meaning; running it is an error."""

    def __init__(self, name: str, doc: str) -> None:
        self.__name__ = name
        self.__doc__ = doc

    def __repr__(self) -> str:
        return f"<{self.__name__}: a word of Cake schedules>"

    def __call__(self, *_: object, **__: object) -> NoReturn:
        """Refuse: schedules are read."""
        raise CakeError(
            f"{self.__name__}(...) is read from the source of a schedule, not run; "
            f"write it in a function decorated with @schedule"
        )

    def __getitem__(self, _: object) -> Word:
        """`Tensor[bf16, "M", "K"]` in a signature, which Python evaluates."""
        return self


@cache
def words() -> dict[str, Any]:
    """Every name that `from cake import *` brings, with its value."""
    found: dict[str, Any] = {"schedule": schedule, "load_kernel": load_kernel, "Kernel": Kernel, **DTYPES}
    found["Tensor"] = Word("Tensor", "A kernel parameter in global memory: `Tensor[dtype, extent, ...]`.")
    found["inf"] = float("inf")
    for name, place in PLACED.items():
        found.setdefault(name, Word(name, place))
    for name, doc in SPECIALS.items():
        found[name] = Word(name, doc)
    for name in FUNCTIONS:
        found[name] = Word(name, "A function of expressions.")
    for name, op in primitives().items():
        found[name] = Word(name, op.__doc__ or "")
    return {name: found[name] for name in sorted(found) if name not in _PYTHON}
