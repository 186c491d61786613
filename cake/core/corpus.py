"""The corpus: kernels that are known to be good, each with its configurations, its contract and its oracle.

    corpus/kernels/<name>/  schedule.py  configs.toml  contract.toml  oracle.py  results/
    corpus/good/            small programs that are right in other ways, and extents.toml

A schedule is read, never run. An oracle is the repository's own code and runs where PyTorch is.
"""

from __future__ import annotations

import importlib.util
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import cake
from cake.core.contract import Contract, read_contract
from cake.core.errors import CakeError, Exit
from cake.core.ir import IRError, Program
from cake.core.reader import ConfigValue, read_program
from cake.core.schedule import Kernel, load_kernel

_PACKAGE: Final = Path(cake.__file__).parent


@dataclass(frozen=True, slots=True)
class Oracle:
    """`reference(inputs, scalars)` gives, for each output, its float64 value and the scale of its error (see
    `cake.core.contract.Tolerance`); `peers(inputs, scalars)` named calls to time against. Both take PyTorch tensors."""

    reference: Callable[[Mapping[str, Any], Mapping[str, float]], dict[str, tuple[Any, Any]]]
    peers: Callable[[Mapping[str, Any], Mapping[str, float]], dict[str, Callable[[], Any]]]


@dataclass(frozen=True, slots=True)
class CorpusKernel:
    """One kernel of the corpus. `configs` are its named configurations, in order; the first is the usual one."""

    name: str
    folder: Path
    kernel: Kernel
    configs: Mapping[str, Mapping[str, ConfigValue]]
    contract: Contract

    def program(self, config: str) -> Program:
        """The program of a named configuration. Raises CakeError for an unknown name."""
        if config not in self.configs:
            raise CakeError(f"{self.name} has no configuration {config!r}; it has {', '.join(self.configs)}")
        return self.kernel.configure(**self.configs[config])

    def constants(self, config: str) -> dict[str, ConfigValue]:
        """All constants of a configuration, the schedule's defaults included."""
        given = {**self.kernel.defaults, **self.configs[config]}
        return {name: value for name, value in given.items() if value is not None}

    def oracle(self) -> Oracle:
        """Load the kernel's oracle. Raises CakeError when PyTorch is not installed."""
        if importlib.util.find_spec("torch") is None:
            raise CakeError("PyTorch is not installed: pip install 'cake-compiler[oracle]'", Exit.ENVIRONMENT)
        file = self.folder / "oracle.py"
        spec = importlib.util.spec_from_file_location(f"cake_oracle_{self.name}", file)
        if spec is None or spec.loader is None or not file.is_file():
            raise CakeError(f"{file}: no oracle")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return Oracle(module.reference, module.peers)


def corpus_root(root: Path | None = None) -> Path:
    """The folder `kernels` of the corpus: that of the repository `root`, else what this installation carries, else the
    checkout that it runs from. Raises CakeError when there is none."""
    places = [root / "corpus"] if root is not None else [_PACKAGE / "_corpus", _PACKAGE.parent / "corpus"]
    for place in places:
        if (place / "kernels").is_dir():
            return place / "kernels"
    raise CakeError(f"no corpus at {' or '.join(map(str, places))}", Exit.USAGE if root else Exit.ENVIRONMENT)


def load_corpus_kernel(folder: Path) -> CorpusKernel:
    """One kernel from its folder. Raises CakeError that names the file at fault."""
    folder = Path(folder)
    try:
        kernel = load_kernel(folder / "schedule.py")
    except (OSError, IRError) as error:
        raise CakeError(f"{folder / 'schedule.py'}: {error}") from None
    contract = read_contract(folder / "contract.toml")
    return CorpusKernel(folder.resolve().name, folder, kernel, read_configs(folder / "configs.toml"), contract)


def read_configs(path: Path) -> dict[str, dict[str, ConfigValue]]:
    """Named configurations: one table each, of plain constants. Raises CakeError."""
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise CakeError(f"{path}: {error}") from None
    for name, table in data.items():
        if not isinstance(table, dict) or not all(isinstance(v, int | float | str) for v in table.values()):
            raise CakeError(f"{path}: {name} is no table of plain constants")
    if not data:
        raise CakeError(f"{path}: no configuration")
    return data


def load_corpus(root: Path | None = None) -> tuple[CorpusKernel, ...]:
    """Every kernel of the corpus, by name."""
    folders = sorted(p for p in corpus_root(root).iterdir() if (p / "schedule.py").is_file())
    return tuple(map(load_corpus_kernel, folders))


@dataclass(frozen=True, slots=True)
class CleanProgram:
    """A program that no rule may flag: of which family (a kernel, or an idiom), and which of it."""

    family: str
    config: str
    program: Program


def good_programs(root: Path | None = None) -> tuple[tuple[CleanProgram, Mapping[str, int]], ...]:
    """The programs of `corpus/good`, each with extents to run it at. Raises CakeError that names the file at fault."""
    folder = corpus_root(root).parent / "good"
    paths, found = sorted(folder.glob("*.cake")), []
    path = folder / "extents.toml"
    try:
        extents = tomllib.loads(path.read_text(encoding="utf-8")) if paths else {}
        for path in paths:
            program = read_program(path.read_text(encoding="utf-8"), path.name)
            found.append((CleanProgram(path.stem, "good", program), extents[path.stem]))
    except KeyError as error:
        raise CakeError(f"{path}: extents.toml says nothing of {error}") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, IRError) as error:
        raise CakeError(f"{path}: {error}") from None
    return tuple(found)


def clean_programs(root: Path | None = None) -> tuple[CleanProgram, ...]:
    """The clean corpus: every configuration of every kernel, and the good programs."""
    kernels = [CleanProgram(k.name, c, k.program(c)) for k in load_corpus(root) for c in k.configs]
    return (*kernels, *(clean for clean, _ in good_programs(root)))
