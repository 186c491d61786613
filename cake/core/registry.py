"""The registry: every primitive, rule, calibration, layout and target, each a pluggy plugin under its own name.

pluggy collects, Cake runs. Each thing is tried in a scratch manager of its own first, where its one hook is called:
what fails there becomes a `PluginProblem` and disturbs nothing else. What passes is registered as `<kind>:<name>`
(`primitive:tma_load`, `rule:SYN001`), so that it can be listed, blocked and replaced by itself.

Built-in plugins come from the `cake.plugins` package: things found in its modules, and rule files read as data. Packs
come after them (`cake.core.packs`), those without code as data too.
"""

from __future__ import annotations

import difflib
import importlib
import inspect
import json
import pkgutil
import tomllib
from collections.abc import Collection, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import pluggy

from cake.core import hooks
from cake.core.calibration import Calibration
from cake.core.diagnostics import STATIC_CATEGORIES, Category
from cake.core.errors import CakeError
from cake.core.layout import Layout, ThreadLayout
from cake.core.op import Op
from cake.core.rule import Rule
from cake.core.rules import Codes, RuleError, read_rule_file
from cake.core.target import Target

#: The package that holds the built-in plugins. A name, not an import: core depends on no plugin.
BUILTIN: Final = "cake.plugins"
#: Folders of modules, what others import first: a thing belongs to the file that binds it first.
CODE_FOLDERS: Final = ("targets", "layouts", "primitives", "calibrations")
OWNER: Final = "cake"
#: What is unknown while a plugin of this folder is missing, where that is not every static gate.
GATES: Final = {"calibrations": (Category.PERFORMANCE_ANALYSIS,)}
#: Plugin kind -> the hook that returns a thing of this kind.
KINDS: Final = {k: f"cake_{k}" for k in ("primitive", "rule", "calibration", "layout", "target")}


@dataclass(frozen=True, slots=True)
class Plugin:
    """One registered thing: `kind` and `name` identify it, `owner` is the distribution it comes from, `file` where it
    is written, `value` the thing. `examples` holds the bad and good programs of a rule from a pack."""

    kind: str
    name: str
    owner: str
    file: Path
    value: Any
    examples: Path | None = None

    @property
    def key(self) -> str:
        """The name under which pluggy holds it."""
        return f"{self.kind}:{self.name}"


@dataclass(frozen=True, slots=True)
class PluginProblem:
    """A plugin that could not be loaded: its owner, what it is (a file, module or plugin name), and the error.

    What it would have checked is unknown, so the gates in `gates` are `unknown` while it stands.
    """

    owner: str
    plugin: str
    error: str
    gates: tuple[Category, ...] = STATIC_CATEGORIES

    def __str__(self) -> str:
        return f"{self.owner}: {self.plugin}: {self.error}"


class _Shell:
    """The pluggy plugin around one thing: its hook for the thing's kind returns it."""

    def __init__(self, plugin: Plugin) -> None:
        self.plugin = plugin

        @hooks.hookimpl(specname=KINDS[plugin.kind])
        def give() -> Any:
            return plugin.value

        self.give = give


class Registry:
    """All plugins of one process. Tables are built on first use; `blocked` names (`rule:SYN001`) stay out of them."""

    def __init__(self, blocked: Collection[str] = (), packs: bool = True) -> None:
        self.manager = pluggy.PluginManager(hooks.PROJECT)
        self.manager.add_hookspecs(hooks)
        for name in blocked:
            self.manager.set_blocked(name)
        self._packs = packs
        self._plugins: dict[str, Plugin] = {}
        self._problems: list[PluginProblem] = []
        self._tables: dict[str, dict[str, Any]] = {}

    # ----------------------------------------------------------------------------------------------------- contents

    def plugins(self) -> tuple[Plugin, ...]:
        """Every registered plugin, sorted by kind and name."""
        self._loaded  # noqa: B018 - loading happens on first use
        return tuple(self._plugins[key] for key in sorted(self._plugins))

    def problems(self) -> tuple[PluginProblem, ...]:
        """What could not be loaded."""
        self._loaded  # noqa: B018
        return tuple(self._problems)

    def table(self, kind: str) -> dict[str, Any]:
        """The things of one kind by name, sorted."""
        found = self._tables.get(kind)
        if found is None:
            found = self._tables[kind] = {p.name: p.value for p in self.plugins() if p.kind == kind}
        return found

    def find(self, name: str) -> Plugin:
        """The plugin called `name`, with or without its kind. Raises CakeError, with close matches, when there is none
        or when plugins of several kinds share the name."""
        wanted = name.casefold()
        found = [p for p in self.plugins() if wanted in (p.key.casefold(), p.name.casefold(), _title(p))]
        if len(found) == 1:
            return found[0]
        if found:
            raise CakeError(f"{name!r} is ambiguous: {', '.join(p.key for p in found)}")
        names = {n for p in self.plugins() for n in (p.key, p.name, _title(p))}
        close = difflib.get_close_matches(name, names | {n.casefold() for n in names}, n=3)
        raise CakeError(f"no plugin is called {name!r}" + (f"; did you mean {' or '.join(close)}?" if close else ""))

    # ------------------------------------------------------------------------------------------------------- changes

    def add(self, plugin: Plugin) -> bool:
        """Register one plugin; a clash or a failed hook is recorded as a problem, and False returned."""
        try:
            self._register(plugin)
        except CakeError as error:
            self.problem(PluginProblem(plugin.owner, plugin.key, error.message, gates_of(plugin.value)))
            return False
        return True

    def block(self, key: str) -> None:
        """Take the plugin `key` (`rule:SYN001`) out, and keep it out."""
        self.plugins()
        self.manager.set_blocked(key)
        self._drop(key)

    def replace(self, key: str, value: Any, owner: str, file: Path) -> None:
        """Put `value` in the place of the plugin `key`. Raises CakeError when there is no such plugin."""
        old = self.find(key)
        self._drop(old.key)
        self._register(replace(old, owner=owner, file=file, value=value))

    def _drop(self, key: str) -> None:
        self._plugins.pop(key, None)
        self._tables.clear()
        if self.manager.get_plugin(key) is not None:
            self.manager.unregister(name=key)

    def _register(self, plugin: Plugin) -> None:
        if self.manager.is_blocked(plugin.key):
            return
        other = self._plugins.get(plugin.key)
        if other is not None and other.value is plugin.value:
            return  # a module that imports another's layout binds the same one again
        if other is not None:
            raise CakeError(
                f"{plugin.key} is defined by {other.owner} ({other.file.name}) and by {plugin.owner} "
                f"({plugin.file.name}); the first stays"
            )
        self.manager.register(_Shell(plugin), name=plugin.key)
        self._plugins[plugin.key] = plugin
        self._tables.clear()

    # ------------------------------------------------------------------------------------------------------- loading

    @cached_property
    def _loaded(self) -> bool:
        root = Path(importlib.import_module(BUILTIN).__path__[0])
        private = ThreadLayout()
        self.add(Plugin("layout", private.name, OWNER, Path(inspect.getsourcefile(ThreadLayout) or ""), private))
        for folder in CODE_FOLDERS:
            for name in sorted(m.name for m in pkgutil.iter_modules([str(root / folder)])):
                with self.isolated(OWNER, f"{folder}/{name}.py", GATES.get(folder, STATIC_CATEGORIES)):
                    self.load_module(importlib.import_module(f"{BUILTIN}.{folder}.{name}"), OWNER)
            for file in sorted((root / folder).glob("*.json")):
                with self.isolated(OWNER, f"{folder}/{file.name}", GATES.get(folder, STATIC_CATEGORIES)):
                    self.add(_read_calibration(file))
        self.load_rules(root / "rules", OWNER)
        if self._packs:
            from cake.core.packs import load_packs

            load_packs(self)
        return True

    def load_module(self, module: ModuleType, owner: str) -> None:
        """Register what a module defines: things as they are, and what its hook implementations return."""
        for plugin in (*_things(module, owner), *_hooked(module, owner)):
            self.add(plugin)

    def load_rules(self, folder: Path, owner: str, prefix: str = "", examples: Path | None = None) -> None:
        """Register every rule file below `folder`, its code prefixed; a broken file is a problem of its own.
        `examples` is the folder of its rules' example folders."""
        for file in sorted(folder.rglob("*.py")):
            try:
                rule = read_rule_file(file, owner)
            except RuleError as error:
                self.problem(PluginProblem(owner, file.relative_to(folder).as_posix(), error.message))
                continue
            own = examples / rule.code if examples else None
            rule = replace(rule, code=prefix + rule.code)
            self.add(Plugin("rule", rule.code, owner, file, rule, own))

    @contextmanager
    def isolated(
        self, owner: str, what: str, gates: tuple[Category, ...] = STATIC_CATEGORIES
    ) -> Generator[None, None, None]:
        """Run a plugin's own code inside; whatever it raises is its problem alone."""
        try:
            yield
        except (Exception, SystemExit) as error:
            text = error.message if isinstance(error, CakeError) else f"{type(error).__name__}: {error}"
            self.problem(PluginProblem(owner, what, text.strip().splitlines()[0], gates))

    def problem(self, problem: PluginProblem) -> None:
        """Record what could not be loaded."""
        self._problems.append(problem)


def gates_of(value: Any) -> tuple[Category, ...]:
    """The gates that lack something when `value` is missing."""
    if isinstance(value, Rule):
        return (value.category,)
    return (Category.PERFORMANCE_ANALYSIS,) if isinstance(value, Calibration) else STATIC_CATEGORIES


def _title(plugin: Plugin) -> str:
    """A rule's second handle, its kebab-case name."""
    return plugin.value.name if isinstance(plugin.value, Rule) else plugin.name


def _kind(value: Any) -> tuple[str, str] | None:
    """Kind and name of a thing; None when it is no plugin."""
    if isinstance(value, type):
        return ("primitive", value.opname) if issubclass(value, Op) and value.opname else None
    for kind, of in (("rule", Rule), ("target", Target), ("calibration", Calibration)):
        if isinstance(value, of):
            return kind, value.code if isinstance(value, Rule) else value.name
    return ("layout", value.name) if isinstance(value, Layout) else None


def _file(module: ModuleType) -> Path:
    return Path(getattr(module, "__file__", None) or module.__name__)


def _things(module: ModuleType, owner: str) -> Iterator[Plugin]:
    """Primitive classes that `module` defines, and the layouts, targets and calibrations that it binds in capitals."""
    file = _file(module)
    for name, value in sorted(vars(module).items()):
        kind = _kind(value)
        own = value.__module__ == module.__name__ if isinstance(value, type) else name.isupper()
        if kind is not None and own:
            yield Plugin(*kind, owner, file, value)


def _is_hook(value: Any) -> bool:
    """Whether `value` is a function that claims to implement a Cake hook."""
    return inspect.isfunction(value) and hasattr(value, f"{hooks.PROJECT}_impl")


def _hooked(module: ModuleType, owner: str) -> Iterator[Plugin]:
    """What the hook implementations of `module` return, each called in a manager that knows nothing else.

    Raises CakeError for a hook that does not exist or returns a thing of another kind.
    """
    if not any(map(_is_hook, vars(module).values())):
        return
    scratch = pluggy.PluginManager(hooks.PROJECT)
    scratch.add_hookspecs(hooks)
    scratch.register(module)
    try:
        scratch.check_pending()
    except pluggy.PluginValidationError as error:
        wrong = [n for n, v in vars(module).items() if _is_hook(v) and n not in KINDS.values()]
        close = difflib.get_close_matches(wrong[0] if wrong else "", KINDS.values(), n=1)
        hint = f"; did you mean {close[0]}?" if close else ""
        raise CakeError(f"{', '.join(wrong)} is no hook of Cake{hint}") from error
    for kind, hook in KINDS.items():
        for value in getattr(scratch.hook, hook)():
            found = _kind(value)
            if found is None or found[0] != kind:
                raise CakeError(f"{hook} returned {type(value).__name__}, not a {kind}")
            yield Plugin(*found, owner, _file(module), value)


def _read_calibration(file: Path) -> Plugin:
    """A calibration written as JSON, one object with the fields of `Calibration`."""
    data: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    fields: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in data.items()}
    value = Calibration(**fields)
    return Plugin("calibration", value.name, OWNER, file, value)


# ------------------------------------------------------------------------------------------------- the process's own


@cache
def default() -> Registry:
    """The registry of this process: built-in plugins and the packs that the lock file admits."""
    return Registry()


def primitives() -> dict[str, type[Op]]:
    """Primitive classes by name."""
    return default().table("primitive")


def rules() -> dict[str, Rule]:
    """Rules by code; a pack's codes are `pack:CODE`."""
    return default().table("rule")


def layouts() -> dict[str, Layout]:
    """Fragment layouts by name: the thread-private one, and those that plugins bring."""
    return default().table("layout")


def targets() -> dict[str, Target]:
    """Targets by name."""
    return default().table("target")


def calibrations() -> dict[str, Calibration]:
    """Calibrations by name."""
    return default().table("calibration")


def counts() -> dict[str, dict[str, Any]]:
    """The tables by the plural of their kind, in the order of `KINDS`."""
    return {f"{kind}s": default().table(kind) for kind in KINDS}


def problems() -> tuple[PluginProblem, ...]:
    """What could not be loaded, packs included."""
    return default().problems()


@cache
def codes() -> Codes:
    """The reserved families and retired codes, from `rules/codes.toml` of the built-in plugins."""
    file = Path(importlib.import_module(BUILTIN).__path__[0]) / "rules" / "codes.toml"
    data = tomllib.loads(file.read_text(encoding="utf-8"))
    return Codes(data["families"], data.get("retired", {}))
