"""The registry: every primitive, rule, calibration, layout and target, each a pluggy plugin under its own name."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from functools import cache
from types import ModuleType

from cake.core.layout import Layout, ThreadLayout
from cake.core.op import Op

#: The package whose modules hold the built-in primitives. A name, not an import: core depends on no plugin.
BUILTIN = "cake.plugins.primitives"


def _modules(package: str) -> list[ModuleType]:
    root = importlib.import_module(package)
    return [
        importlib.import_module(f"{package}.{m.name}")
        for m in sorted(pkgutil.iter_modules(root.__path__), key=lambda m: m.name)
    ]


@cache
def primitives() -> dict[str, type[Op]]:
    """Primitive classes by name."""
    found: dict[str, type[Op]] = {}
    for module in _modules(BUILTIN):
        for _, cls in inspect.getmembers(module, inspect.isclass):
            if issubclass(cls, Op) and cls.opname and cls.__module__ == module.__name__:
                found[cls.opname] = cls
    return found


@cache
def layouts() -> dict[str, Layout]:
    """Fragment layouts by name: the thread-private one, and those that plugins bring as `LAYOUT`."""
    found = [m.LAYOUT for m in _modules(BUILTIN) if hasattr(m, "LAYOUT")]
    return {layout.name: layout for layout in (ThreadLayout(), *found)}
