"""Packs: rules and plugins of other distributions, found without importing them, loaded only as the lock file admits.

A pack is an ordinary distribution with an entry point in the group `cake.packs`, whose name is the pack's and whose
value is its top-level package. In that package lies `cake-pack.toml`:

    [pack]
    name = "ledger"            # the entry point's name; rules are listed as ledger:CODE
    version = "0.1.0"          # the distribution's version
    kind = "declarative"       # or "code"
    rules = "rules"            # folder of rule files
    examples = "bad"           # folder of <CODE>/*.cake

A `declarative` pack is data: locked by hash, its rule files are read. A `code` pack is imported as well, once that
exact hash is trusted. What changed since it was locked stays out, and is reported.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.metadata
import importlib.util
import re
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from cake.core.errors import CakeError
from cake.core.lock import Locked, lock_path, read_lock, write_lock
from cake.core.rules import RuleError, read_rule_file

if TYPE_CHECKING:
    from cake.core.registry import Registry

GROUP: Final = "cake.packs"
MANIFEST: Final = "cake-pack.toml"
KINDS: Final = ("declarative", "code")
_NAME: Final = re.compile(r"[a-z][a-z0-9]*(?:-[a-z0-9]+)*")


class State(StrEnum):
    """Whether a pack loads, and if not, why."""

    LOADED = "loaded"
    UNLOCKED = "unlocked"
    CHANGED = "changed"
    UNTRUSTED = "untrusted"
    BROKEN = "broken"


@dataclass(frozen=True, slots=True)
class Pack:
    """One installed pack. `root` is its package's folder; `sha256` covers all files of the distribution; `codes` maps
    each readable rule's code, `name:CODE`, to the sha256 of its file. `problem` says what is wrong or missing."""

    name: str
    distribution: str
    version: str
    state: State = State.UNLOCKED
    problem: str = ""
    kind: str = ""
    root: Path = Path()
    rules: Path = Path()
    examples: Path = Path()
    sha256: str = ""
    codes: Mapping[str, str] = field(default_factory=dict)

    def locked(self, trusted: bool = False) -> Locked:
        """The lock file's entry for what is installed now."""
        return Locked(self.name, self.distribution, self.version, self.kind, self.sha256, self.codes, trusted)


def list_packs(lock: Path | None = None) -> tuple[Pack, ...]:
    """Every installed pack with its state by the lock file `lock`, sorted by name and distribution. Imports none.

    Raises CakeError when the lock file cannot be read.
    """
    admitted = read_lock(lock or lock_path())
    found = [_found(point) for point in importlib.metadata.entry_points(group=GROUP)]
    owners = Counter(pack.name for pack in found)
    for i, pack in enumerate(found):
        if owners[pack.name] > 1:
            rivals = " and ".join(sorted(p.distribution for p in found if p.name == pack.name))
            found[i] = _broken(pack, f"the name {pack.name!r} is claimed by {rivals}: uninstall one; neither is loaded")
        elif pack.state is not State.BROKEN:
            found[i] = _judged(pack, admitted.get(pack.name))
    return tuple(sorted(found, key=lambda p: (p.name, p.distribution)))


def open_pack(folder: Path) -> Pack:
    """The pack in a source folder: `cake-pack.toml` in it, in a package of it, or in `src`. Raises CakeError."""
    found = [*folder.glob(MANIFEST), *folder.glob(f"*/{MANIFEST}"), *folder.glob(f"src/*/{MANIFEST}")]
    if len(found) != 1:
        raise CakeError(f"{folder} holds {len(found) or 'no'} {MANIFEST}; a pack has exactly one")
    pack = _read(Pack("", folder.resolve().name, ""), found[0].parent, {})
    if pack.problem:
        raise CakeError(f"{found[0]}: {pack.problem}")
    return pack


def lock_packs(names: Sequence[str] = (), lock: Path | None = None) -> tuple[Locked, ...]:
    """Lock the named packs as they are installed now, or all of them (then others leave the file), and return them.

    Trust survives only where the hash does. Raises CakeError for a pack that is not installed or is broken.
    """
    path = lock or lock_path()
    before, packs = read_lock(path), {pack.name: pack for pack in list_packs(path)}
    chosen = {name: _known(packs, name) for name in names or [p.name for p in packs.values()]}
    fresh: dict[str, Locked] = {}
    for name, pack in chosen.items():
        old = before.get(name)
        fresh[name] = pack.locked(old is not None and old.trusted and old.sha256 == pack.sha256)
    write_lock(path, {**before, **fresh} if names else fresh)
    return tuple(fresh.values())


def trust_pack(name: str, sha256: str, lock: Path | None = None) -> Locked:
    """Lock a pack and allow its code to run. `sha256` must be the whole hash of what is installed."""
    path = lock or lock_path()
    pack = _known({p.name: p for p in list_packs(path)}, name)
    if sha256 != pack.sha256:
        raise CakeError(f"{name} has hash {pack.sha256}, not {sha256}: look at what changed before trusting it")
    entry = pack.locked(trusted=True)
    write_lock(path, {**read_lock(path), name: entry})
    return entry


def load_packs(registry: Registry, lock: Path | None = None) -> None:
    """Register what the admitted packs bring. A pack that is broken, changed, or locked but not installed is a problem
    of its own; packs never locked are left alone."""
    from cake.core.registry import PluginProblem

    try:
        packs = list_packs(lock)
        admitted = read_lock(lock or lock_path())
    except CakeError as error:
        registry.problem(PluginProblem("cake.lock", "packs", error.message))
        return
    for pack in packs:
        if pack.state is State.LOADED:
            registry.load_rules(pack.rules, pack.distribution, f"{pack.name}:", pack.examples)
            if pack.kind == "code":
                with registry.isolated(pack.distribution, f"pack {pack.name}"):
                    registry.load_module(importlib.import_module(pack.root.name), pack.distribution)
        elif pack.state in (State.BROKEN, State.CHANGED):
            registry.problem(PluginProblem(pack.distribution, f"pack {pack.name}", pack.problem))
    for name in sorted(admitted.keys() - {pack.name for pack in packs}):
        entry = admitted[name]
        missing = f"locked at version {entry.version}, but not installed: pip install {entry.distribution}"
        registry.problem(PluginProblem(entry.distribution, f"pack {name}", missing))


# ---------------------------------------------------------------------------------------------------------- one pack


def _known(packs: Mapping[str, Pack], name: str) -> Pack:
    if name not in packs:
        raise CakeError(f"no pack is called {name!r}; installed are {', '.join(packs) or 'none'}")
    if packs[name].state is State.BROKEN:
        raise CakeError(f"pack {name} of {packs[name].distribution} is broken: {packs[name].problem}")
    return packs[name]


def _broken(pack: Pack, problem: str) -> Pack:
    return replace(pack, state=State.BROKEN, problem=problem)


def _judged(pack: Pack, entry: Locked | None) -> Pack:
    """`pack` with its state by its lock entry."""
    if entry is None:
        return replace(pack, problem=f"not locked: cake packs lock {pack.name}")
    if (entry.distribution, entry.sha256, entry.kind) != (pack.distribution, pack.sha256, pack.kind):
        was = f"{entry.distribution} {entry.version}, {entry.sha256[:12]}"
        now = f"{pack.distribution} {pack.version}, {pack.sha256[:12]}"
        return replace(pack, state=State.CHANGED, problem=f"changed since it was locked: was {was}, is {now}")
    if pack.kind == "code" and not entry.trusted:
        return replace(
            pack, state=State.UNTRUSTED, problem=f"brings code: cake packs trust {pack.name} --sha256 {pack.sha256}"
        )
    return replace(pack, state=State.LOADED)


def _found(point: importlib.metadata.EntryPoint) -> Pack:
    try:
        return _installed(point)
    except Exception as error:  # whatever metadata of strangers holds, it costs that pack alone
        owner = point.dist.name if point.dist is not None else ""
        return _broken(Pack(point.name, owner, ""), f"its metadata cannot be read: {type(error).__name__}: {error}")


def _installed(point: importlib.metadata.EntryPoint) -> Pack:
    """The pack behind an entry point, from files alone."""
    distribution = point.dist
    assert distribution is not None  # entry points found through metadata have one
    pack = Pack(point.name, distribution.metadata["Name"], distribution.version)
    module = point.value
    if not module.isidentifier():
        return _broken(pack, f"its entry point is {module!r}; name the top-level package that holds {MANIFEST}")
    root = Path(str(distribution.locate_file(module)))
    if not (root / MANIFEST).is_file():  # an editable install: finding a top-level package imports nothing
        spec = importlib.util.find_spec(module)
        root = Path(next(iter((spec and spec.submodule_search_locations) or [str(root)])))
    return _read(pack, root, dict(_recorded(distribution)))


def _recorded(distribution: importlib.metadata.Distribution) -> Iterator[tuple[str, Path]]:
    """The files that a distribution installed, but for its metadata, caches and scripts."""
    for file in distribution.files or ():
        if ".." not in file.parts and not file.parts[0].endswith((".dist-info", ".egg-info")):
            yield file.as_posix(), Path(str(distribution.locate_file(file)))


def _read(pack: Pack, root: Path, recorded: Mapping[str, Path]) -> Pack:
    """`pack` with what its manifest and files say."""
    try:
        data = tomllib.loads((root / MANIFEST).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return _broken(pack, f"{root.name} has no {MANIFEST}")
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        return _broken(pack, f"{MANIFEST} cannot be read: {error}")
    table = data.get("pack")
    if problem := _manifest_problem(table, pack):
        return _broken(pack, f"{MANIFEST}: {problem}")
    assert isinstance(table, dict)
    rules, examples = root / table.get("rules", "rules"), root / table.get("examples", "bad")
    try:
        digest = _digest(root, recorded)
    except OSError as error:
        return _broken(pack, f"a file cannot be read: {error}")
    codes: dict[str, str] = {}
    for file in sorted(rules.rglob("*.py")):
        try:
            code = read_rule_file(file).code
        except RuleError:
            continue  # loading reports it; the hash pins it all the same
        codes[f"{table['name']}:{code}"] = hashlib.sha256(file.read_bytes()).hexdigest()
    return replace(
        pack, name=table["name"], version=table["version"], kind=table["kind"], root=root, rules=rules,
        examples=examples, sha256=digest, codes=codes,
    )  # fmt: skip


def _manifest_problem(table: Any, pack: Pack) -> str:
    """What is wrong with a manifest; empty when nothing is."""
    if not isinstance(table, dict):
        return "has no table [pack]"
    for key in ("name", "version", "kind"):
        if not isinstance(table.get(key), str):
            return f"{key} is missing"
    if unknown := set(table) - {"name", "version", "kind", "rules", "examples"}:
        return f"unknown key {', '.join(sorted(unknown))}"
    if not _NAME.fullmatch(table["name"]):
        return f"name {table['name']!r} is not lower-case words joined by '-'"
    for key, installed in (("name", pack.name), ("version", pack.version)):
        if installed and table[key] != installed:
            return f"{key} is {table[key]!r}, and the distribution says {installed!r}"
    if table["kind"] not in KINDS:
        return f"kind {table['kind']!r} is not {' or '.join(KINDS)}"
    for key in ("rules", "examples"):
        value = table.get(key, key)
        if not isinstance(value, str) or Path(value).is_absolute() or ".." in Path(value).parts:
            return f"{key} {value!r} is no folder inside the package"
    return ""


def _digest(root: Path, recorded: Mapping[str, Path]) -> str:
    """sha256 over path, length and content of every file of the distribution and of its package's folder."""
    files = {**recorded, **{f"{root.name}/{p.relative_to(root).as_posix()}": p for p in root.rglob("*") if p.is_file()}}
    total = hashlib.sha256()
    for name, path in sorted(files.items()):
        if "__pycache__" in path.parts or path.suffix == ".pyc":
            continue
        content = path.read_bytes()
        total.update(f"{name}\0{len(content)}\0".encode() + content)
    return total.hexdigest()
