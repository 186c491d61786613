"""The hooks that a Cake plugin implements. pluggy collects; Cake orders, isolates and times what comes back.

One plugin, one thing: each primitive, rule, calibration, layout and target is registered under its own name
(`primitive:tma_load`, `rule:SYN001`, `calibration:h200`), so that it can be listed, blocked and replaced by itself.
Every hook is called once per plugin, takes nothing, and returns one frozen object (or None: nothing here).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pluggy

if TYPE_CHECKING:
    from cake.core.calibration import Calibration
    from cake.core.layout import Layout
    from cake.core.op import Op
    from cake.core.rule import Rule
    from cake.core.target import Target

PROJECT = "cake"
hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@hookspec
def cake_primitive() -> type[Op] | None:
    """A primitive class made by `@primitive`. Called when the registry is built."""


@hookspec
def cake_rule() -> Rule | None:
    """A rule. Declarative rule files are wrapped into a plugin by the loader and never imported."""


@hookspec
def cake_calibration() -> Calibration | None:
    """Cost coefficients of one device, with their provenance and held-out error."""


@hookspec
def cake_layout() -> Layout | None:
    """A named fragment layout: which thread holds which elements."""


@hookspec
def cake_target() -> Target | None:
    """Limits and names of one compilation target, such as sm_90a."""
