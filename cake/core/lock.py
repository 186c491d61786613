"""`cake.lock`: which packs may load, each pinned by the hash of its files.

The file is TOML, sorted, written whole through a temporary name; it belongs under version control. It lies in the root
of the git repository around the working directory, or, outside one, in the user's configuration folder.
"""

from __future__ import annotations

import json
import os
import tempfile
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from cake.core.errors import CakeError

NAME: Final = "cake.lock"
VERSION: Final = 1
_HEADER: Final = "# Packs that Cake may load, pinned by content. Written by `cake packs lock` and `cake packs trust`.\n"


@dataclass(frozen=True, slots=True)
class Locked:
    """One locked pack. `sha256` covers every file of the distribution; `codes` maps each rule's code to the sha256 of
    its file; `trusted` says that the code of exactly this hash may run."""

    name: str
    distribution: str
    version: str
    kind: str
    sha256: str
    codes: Mapping[str, str]
    trusted: bool = False


def lock_path(start: Path | None = None) -> Path:
    """Where the lock file of the folder `start` (default: the working directory) is, whether it exists or not."""
    here = (start or Path.cwd()).resolve()
    for folder in (here, *here.parents):
        if (folder / ".git").exists():
            return folder / NAME
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "cake" / NAME


def read_lock(path: Path) -> dict[str, Locked]:
    """The locked packs by name; none when there is no file. Raises CakeError for a file that is no lock file."""
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise CakeError(f"{path} cannot be read: {error}; mend it, or remove it and lock again") from error
    if data.get("version") != VERSION:
        raise CakeError(f"{path} has lock version {data.get('version')!r}, and this Cake reads {VERSION}")
    try:
        found = [_locked(item) for item in data.get("pack", [])]
    except (KeyError, TypeError, AttributeError) as error:
        raise CakeError(
            f"{path} has an entry that is no pack ({error}); mend it, or remove it and lock again"
        ) from error
    return {pack.name: pack for pack in found}


def _locked(item: dict[str, Any]) -> Locked:
    texts = {key: item[key] for key in ("name", "distribution", "version", "kind", "sha256")}
    for key, value in (*texts.items(), *item["codes"].items()):
        if not isinstance(value, str):
            raise TypeError(f"{key} = {value!r}")
    # A hand-edited "yes" is not the word that trusts code.
    return Locked(**texts, codes=dict(item["codes"]), trusted=item.get("trusted") is True)


def write_lock(path: Path, packs: Mapping[str, Locked]) -> None:
    """Write the lock file; a crash leaves the old one or the new one, never half of one."""
    parts = [_HEADER, f"version = {VERSION}\n"]
    for pack in sorted(packs.values(), key=lambda p: p.name):
        lines = ["[[pack]]"]
        for key in ("name", "distribution", "version", "kind", "sha256"):
            lines.append(f"{key} = {_quote(getattr(pack, key))}")
        lines += [f"trusted = {'true' if pack.trusted else 'false'}", "[pack.codes]"]
        lines += [f"{_quote(code)} = {_quote(digest)}" for code, digest in sorted(pack.codes.items())]
        parts.append("\n".join(lines) + "\n")
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=NAME)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as out:
            out.write("\n".join(parts))
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _quote(text: str) -> str:
    """A TOML basic string: JSON's escapes are a subset of TOML's while other characters stay as they are."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
