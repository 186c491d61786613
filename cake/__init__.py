"""Cake: GPU kernels as checked schedules.

`from cake import *` brings the words that a schedule is written with; `import cake` alone loads nothing.
"""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    """The words of the language, loaded when the first is asked for."""
    if name in ("core", "plugins", "cli") or (name.startswith("__") and name != "__all__"):
        raise AttributeError(name)  # a package not imported yet, or Python asking: no reason to load anything
    from cake.core.surface import words

    found = words()
    if name == "__all__":
        return list(found)
    if name not in found:
        raise AttributeError(f"cake has no word {name!r}")
    return found[name]


def __dir__() -> list[str]:
    """The words of the language."""
    from cake.core.surface import words

    return list(words())
