"""From what the user typed to programs: a `.cake` file, a schedule.py or a kernel folder, and its configurations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Final

from cake.core.errors import CakeError, Exit
from cake.core.ir import Program

#: A schedule or `.cake` file above this is refused unread: the largest program in the corpus has a few kilobytes.
MAX_SOURCE_BYTES: Final = 4 << 20


@dataclass(frozen=True)
class Subject:
    """One program to work on: `config` names the configuration ("" for a `.cake` file, which is one already), `file`
    holds its source, `folder` is where a schedule's configs.toml and contract.toml may lie. `build` reads it."""

    name: str
    config: str
    file: Path
    build: Callable[[], Program] = field(repr=False)
    folder: Path | None = None

    @cached_property
    def program(self) -> Program:
        """The program, built when first asked for. Raises IRError."""
        return self.build()

    @property
    def label(self) -> str:
        """`gemm_bf16[BN128]`, or the bare name."""
        return f"{self.name}[{self.config}]" if self.config else self.name


def read_text(path: Path) -> str:
    """The text of a source file. Raises CakeError (usage) when it cannot be read, and (findings) when it is no text."""
    try:
        size = path.stat().st_size
        if size > MAX_SOURCE_BYTES:
            limit = MAX_SOURCE_BYTES >> 20
            raise CakeError(f"{path} has {size} bytes, and no schedule is that long (limit {limit} MiB)", Exit.USAGE)
        data = path.read_bytes()
    except FileNotFoundError as error:
        raise CakeError(f"{path} does not exist; name a .cake file, a schedule.py or a kernel folder") from error
    except OSError as error:
        raise CakeError(f"{path} cannot be read: {error.strerror}") from error
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        where = f"byte 0x{data[error.start]:02x} at offset {error.start}"
        raise CakeError(f"{path} is not text: {where}", Exit.FINDINGS) from error
    if "\0" in text:
        raise CakeError(f"{path} is not text: a NUL byte at offset {text.index(chr(0))}", Exit.FINDINGS)
    return text


def subjects(path: Path, config: str = "all") -> list[Subject]:
    """The programs that `path` and `--config` name, in the order of configs.toml.

    Raises CakeError for a path or a configuration that does not exist, IRError for a file that holds no schedule. A
    configuration that cannot be built raises when its program is asked for.
    """
    from cake.core.corpus import read_configs
    from cake.core.reader import read_program
    from cake.core.schedule import load_kernel

    source = path / "schedule.py" if path.is_dir() else path
    if path.is_dir() and not source.is_file():
        raise CakeError(f"{path} has no schedule.py; a kernel folder holds schedule.py and configs.toml")
    if source.suffix == ".cake":
        if config not in ("all", ""):
            raise CakeError(f"{source} is one configuration already: --config needs a schedule.py or a kernel folder")
        program = read_program(read_text(source), file=str(source))
        return [Subject(program.name, "", source, lambda: program)]
    if source.suffix != ".py":
        raise CakeError(f"{path} is neither a .cake file, a schedule.py nor a kernel folder")
    read_text(source)
    kernel = load_kernel(source)
    configs = source.parent / "configs.toml"
    known = read_configs(configs) if configs.is_file() else {"default": {}}
    chosen = known if config == "all" else {config: known[config]} if config in known else None
    if chosen is None:
        raise CakeError(f"{kernel.name} has no configuration {config!r}; it has {', '.join(known)}")
    return [
        Subject(kernel.name, name, source, partial(kernel.configure, **values), source.parent)
        for name, values in chosen.items()
    ]


def shape_option(text: str | None) -> dict[str, int]:
    """`M=4096,N=4096` as a mapping. Raises CakeError (usage) that quotes the part that is wrong."""
    shape: dict[str, int] = {}
    for part in filter(None, (p.strip() for p in (text or "").split(","))):
        name, _, value = part.partition("=")
        if not name.isidentifier() or not value.isdecimal() or int(value) < 1:
            raise CakeError(f"--shape: {part!r} is not NAME=EXTENT with an extent of at least 1, such as M=4096")
        shape[name] = int(value)
    return shape


def number_option(text: str | None) -> dict[str, float]:
    """`eps=1e-6` as a mapping. Raises CakeError (usage) that quotes the part that is wrong."""
    numbers: dict[str, float] = {}
    for part in filter(None, (p.strip() for p in (text or "").split(","))):
        name, _, value = part.partition("=")
        try:
            numbers[name] = float(value)
        except ValueError:
            raise CakeError(f"--scalar: {part!r} is not NAME=NUMBER, such as eps=1e-6") from None
    return numbers


def cake_repo(repo: Path | None, verb: str) -> Path:
    """The Cake repository that `--repo` names, or the one around the current directory.

    Raises CakeError (environment) that says what `verb` misses when there is none.
    """
    start = (repo or Path.cwd()).resolve()
    for folder in (start,) if repo else (start, *start.parents):
        if (folder / "corpus" / "kernels").is_dir() and (folder / ".git").exists():
            return folder
    what = f"{start} is no Cake repository" if repo else f"there is no Cake repository around {start}"
    needs = "a git checkout with corpus/kernels in it: clone one, or name one with --repo PATH"
    raise CakeError(f"{what}; {verb} needs {needs}", Exit.ENVIRONMENT)
