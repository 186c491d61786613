"""The names that a schedule is written with, for editors and for `from cake import *`.

A schedule is read, never run: outside one, a name that looks like a function only says so.
"""

from __future__ import annotations

import inspect
from dataclasses import MISSING
from functools import cache
from textwrap import indent
from typing import Any, Final, NoReturn

from cake.core.errors import CakeError
from cake.core.ir import DTYPES, SPECIALS
from cake.core.op import Op
from cake.core.reader_expr import FUNCTIONS, PLACED
from cake.core.registry import primitives
from cake.core.schedule import Kernel, load_kernel, schedule

#: Python's own names that schedules use as well: they are not shadowed.
_PYTHON: Final = frozenset({"bool", "max", "min", "range", "sum"})


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


def stub() -> str:
    """The text of `cake/__init__.pyi`: every word with its parameters, so that editors complete and explain it."""
    lines = [
        '"""The words of Cake schedules, for editors. Generated: pytest tests/unit/test_surface.py --update-golden"""',
        "",
        "from typing import Any",
        "",
        "from cake.core.schedule import Kernel as Kernel",
        "from cake.core.schedule import load_kernel as load_kernel",
        "from cake.core.schedule import schedule as schedule",
        "",
    ]
    ops = primitives()
    calls = {name: word for name, word in words().items() if name in ops or name in FUNCTIONS or name in PLACED}
    lines += [f"{name}: Any" for name in words() if name not in calls and name not in ("Kernel", "load_kernel")]
    for name, word in calls.items():
        if name == "schedule":
            continue
        signature = _signature(ops[name]) if name in ops else "*args: Any, **kwargs: Any"
        doc = indent(f'"""{inspect.cleandoc(word.__doc__ or "")}', " " * 4)
        lines += ["", f"def {name}({signature}) -> Any:", doc + ('\n    """' if "\n\n" in doc else '"""')]
    return "\n".join(lines) + "\n"


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:] + "."


def _signature(op: type[Op]) -> str:
    parts: list[str] = []
    for param in op.operands:
        if param.kw_only and "*" not in parts:
            parts.append("*")
        parts.append(f"{param.name}: Any" + ("" if param.default is MISSING else " = ..."))
    return ", ".join(parts)


@cache
def words() -> dict[str, Any]:
    """Every name that `from cake import *` brings, with its value."""
    found: dict[str, Any] = {"schedule": schedule, "load_kernel": load_kernel, "Kernel": Kernel, **DTYPES}
    found["Tensor"] = Word("Tensor", "A kernel parameter in global memory: `Tensor[dtype, extent, ...]`.")
    found["inf"] = float("inf")
    for name, place in PLACED.items():
        found.setdefault(name, Word(name, _sentence(place)))
    for name, doc in SPECIALS.items():
        found[name] = Word(name, _sentence(doc))
    for name, doc in FUNCTIONS.items():
        found[name] = Word(name, _sentence(doc))
    for name, op in primitives().items():
        found[name] = Word(name, op.__doc__ or "")
    return {name: found[name] for name in sorted(found) if name not in _PYTHON}
