"""The run directory: every artefact of a run as text, written whole or not at all, so that a killed run resumes.

A stage is a function of its key. Its artefact lies under `<run>/<stage>/<name>.json` beside the key that it was made
from; a later call with the same key reads it back and does no work.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from cake.core.errors import CakeError, Exit

T = TypeVar("T")


def write_atomic(path: Path, data: bytes) -> None:
    """Write `data` to `path`: readers see the old contents or the new, never a part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, scratch = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.chmod(scratch, 0o644)
        os.replace(scratch, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(scratch)
        raise


def dump(value: Any) -> bytes:
    """Canonical JSON: sorted keys, two spaces, one newline at the end."""
    return (json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False) + "\n").encode()


def digest(*parts: str | bytes) -> str:
    """sha256 of the parts, each with its length, so that no two lists of parts share a digest. Hexadecimal."""
    h = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        h.update(str(len(data)).encode() + b":" + data)
    return h.hexdigest()


class RunStore:
    """One run's directory."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def path(self, *parts: str) -> Path:
        """Where an artefact lies."""
        return self.folder.joinpath(*parts)

    def save(self, data: str | bytes, *parts: str) -> Path:
        """Write a text artefact; returns its path."""
        path = self.path(*parts)
        write_atomic(path, data.encode() if isinstance(data, str) else data)
        return path

    def stage(
        self,
        name: str,
        item: str,
        key: str,
        compute: Callable[[], T],
        encode: Callable[[T], Any],
        decode: Callable[[Any], T],
    ) -> T:
        """The result of stage `name` for `item`: read back when its key is `key`, computed and written otherwise.

        An artefact that cannot be read (another version wrote it, or a disk error cut it) is computed again.
        """
        path = self.path(name, f"{item}.json")
        try:
            stored = json.loads(path.read_bytes())
            if stored["key"] == key:
                return decode(stored["value"])
        except (OSError, ValueError, KeyError, TypeError):
            pass
        value = compute()
        write_atomic(path, dump({"key": key, "value": encode(value)}))
        return value


@contextlib.contextmanager
def exclusive(folder: Path) -> Iterator[None]:
    """Hold the distiller's lock in `folder`. The system frees it when the process ends, however it ends; it is a record
    lock, which worker processes do not inherit.

    Raises CakeError (environment) when another process holds it."""
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "lock", "w") as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise CakeError(
                f"another `cake distill` or `cake proposals` is at work here (it holds {folder / 'lock'})",
                Exit.ENVIRONMENT,
            ) from error
        yield
