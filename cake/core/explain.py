"""`cake explain`: any plugin in words, printed from its own file."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable
from dataclasses import MISSING
from pathlib import Path
from typing import Final

from cake.core import registry
from cake.core.calibration import Calibration
from cake.core.corpus import corpus_root
from cake.core.errors import CakeError
from cake.core.op import Op
from cake.core.registry import Plugin
from cake.core.rule import Rule
from cake.core.target import Target

WIDTH: Final = 100


def explain(name: str) -> str:
    """What the plugin called `name` (a code, a name, or `kind:name`) is. Raises CakeError when there is none."""
    plugin = registry.default().find(name)
    return f"{_EXPLAIN[plugin.kind](plugin).rstrip()}\n\nfrom {plugin.owner}: {_shown(plugin.file)}\n"


def examples_folder(plugin: Plugin) -> Path:
    """The folder of a rule's bad and good programs. Raises CakeError where none is installed."""
    return plugin.examples or corpus_root().parent / "bad" / plugin.name


def _shown(file: Path) -> str:
    """`file` from its top-level package on: the same on every machine."""
    for parent in file.parents:
        shown = file.relative_to(parent)
        if not (parent / "__init__.py").is_file() and (parent / shown.parts[0] / "__init__.py").is_file():
            return shown.as_posix()
    return file.name


def _wrap(text: str) -> str:
    """Paragraphs wrapped; indented ones kept as they are."""
    parts = inspect.cleandoc(text).split("\n\n")
    return "\n\n".join(p if p.startswith(" ") else textwrap.fill(p, WIDTH) for p in parts)


def _section(title: str, text: str) -> str:
    return f"\n{title}\n\n{textwrap.indent(text.rstrip(), '    ')}"


def _items(lines: tuple[str, ...]) -> str:
    return "\n".join(textwrap.fill(f"* {line}", WIDTH, subsequent_indent="  ") for line in lines)


def _rule(plugin: Plugin) -> str:
    rule: Rule = plugin.value
    blocking = "blocking" if rule.blocking else "advisory"
    out = [f"{rule.code} {rule.name}", f"{rule.category}, {blocking}, {rule.status} since {rule.since}", ""]
    out.append(_wrap(rule.why))
    out.append(_section("It says", _wrap(rule.message)))
    out.append(_section("What helps", _wrap(rule.help)))
    out.append(_section("It fires when", rule.finding))
    for title, names in (("Flagged", rule.bad), ("Clean", rule.good)):
        for name in names:
            out.append(_section(f"{title}: {name}", _program(plugin, name)))
    out.append(_section("Evidence", _items(rule.evidence)))
    if rule.references:
        out.append(_section("References", _items(rule.references)))
    return "\n".join(out)


def _program(plugin: Plugin, name: str) -> str:
    try:
        return (examples_folder(plugin) / name).read_text(encoding="utf-8")
    except (OSError, CakeError):
        return "(the program is not part of this installation)"


def _primitive(plugin: Plugin) -> str:
    cls: type[Op] = plugin.value
    operands = []
    for f in cls.operands:
        default = "" if f.default is MISSING else f" = {f.default!r}"
        operands.append(f"{f.name}: {f.type}{default}{'  (keyword)' if f.kw_only else ''}")
    out = [cls.opname, f"PTX {cls.ptx}, for {', '.join(cls.targets)}", "", _wrap(cls.__doc__ or "")]
    if operands:
        out.append(_section("Operands", "\n".join(operands)))
    for title, method in (
        ("What it does (events)", "events"),
        ("Its value in the simulator", "compute"),
        ("Its CUDA C++", "emit"),
    ):
        if method in vars(cls):
            out.append(_section(title, textwrap.dedent(inspect.getsource(vars(cls)[method]))))
    return "\n".join(out)


def _target(plugin: Plugin) -> str:
    target: Target = plugin.value
    width = max(map(len, target.limits))
    rows = [f"{name:{width}}  {n:>8}  {target.sources.get(name, '')}" for name, n in target.limits.items()]
    limits = _section("Limits of a CTA, with their sources", "\n".join(rows))
    return f"{target.name}\ncompiled for {target.nvrtc_arch}\n{limits}"


def _calibration(plugin: Plugin) -> str:
    c: Calibration = plugin.value
    width = max(map(len, c.features), default=0)
    rows = [f"{name:{width}}  {value:.4g} s" for name, value in zip(c.features, c.coefficients, strict=True)]
    error = (
        f"median relative error {c.held_out_error:.1%} on {c.held_out_n} held-out launches; "
        f"{c.coverage:.0%} interval +-{c.interval:.1%}"
    )
    return "\n".join(
        [
            f"{c.name}\n{c.device}, {c.target}; fitted on {c.fitted_on} (n = {c.n})",
            _section("Seconds a unit", "\n".join(rows)),
            _section("How good it is", error),
            _section("Where it comes from", _wrap(c.provenance)),
        ]
    )


def _layout(plugin: Plugin) -> str:
    layout = plugin.value
    return f"{layout.name}\n{layout.threads} threads\n\n{_wrap(type(layout).__doc__ or '')}"


_EXPLAIN: Final[dict[str, Callable[[Plugin], str]]] = {
    "rule": _rule,
    "primitive": _primitive,
    "target": _target,
    "calibration": _calibration,
    "layout": _layout,
}
