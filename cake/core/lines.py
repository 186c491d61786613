"""Lines of a file that may be anything: empty, binary, torn, huge, compressed. Streams in bounded memory."""

from __future__ import annotations

import gzip
import lzma
import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final, TypeAlias, cast

Skipped: TypeAlias = Counter[str]  #: how many lines were skipped, by reason

MAX_LINE: Final = 1 << 20  #: bytes of the longest line that is read; a record has a few thousand
MAX_REASONS: Final = 50  #: reasons that are told apart; a hostile file must not fill memory with them
_CHUNK: Final = 1 << 18
_XZ: Final = b"\xfd7zXZ\x00"
_GZIP: Final = b"\x1f\x8b"


def skip(skipped: Skipped, reason: str) -> None:
    """Count one line that is skipped for `reason`, a text that the file may have had a part in."""
    reason = reason[:160]
    skipped[reason if reason in skipped or len(skipped) < MAX_REASONS else "other reasons"] += 1


def open_stream(path: Path) -> BinaryIO:
    """`path` opened for reading; xz and gzip, told by their first bytes, are decompressed on the way."""
    with path.open("rb") as file:
        head = file.read(6)
    if head == _XZ:
        return cast(BinaryIO, lzma.open(path, "rb"))
    if head[:2] == _GZIP:
        return cast(BinaryIO, gzip.open(path, "rb"))
    return path.open("rb")


def _chunks(stream: BinaryIO, skipped: Skipped) -> Iterator[bytes]:
    while True:
        try:
            chunk = stream.read(_CHUNK)
        except (EOFError, lzma.LZMAError, gzip.BadGzipFile, zlib.error):
            skipped["the compressed stream breaks off"] += 1
            return
        if not chunk:
            return
        yield chunk


def read_lines(path: Path, skipped: Skipped, max_line: int = MAX_LINE) -> Iterator[str]:
    """The non-blank lines of `path`. Those that are not UTF-8, or longer than `max_line` bytes, are counted instead."""
    with open_stream(path) as stream:
        rest, dropping = b"", False
        for chunk in _chunks(stream, skipped):
            *whole, rest = (rest + chunk).split(b"\n")
            for line in whole:
                if dropping:
                    dropping = False  # the end of a line whose start was already refused
                else:
                    yield from _decoded(line, skipped, max_line)
            if len(rest) > max_line or dropping:
                if not dropping:
                    skipped[f"longer than {max_line} bytes"] += 1
                rest, dropping = b"", True
        if rest and not dropping:
            yield from _decoded(rest, skipped, max_line)


def _decoded(line: bytes, skipped: Skipped, max_line: int) -> Iterator[str]:
    if len(line) > max_line:
        skipped[f"longer than {max_line} bytes"] += 1
        return
    try:
        text = line.decode()
    except UnicodeDecodeError:
        skipped["not UTF-8"] += 1
        return
    if text.strip():
        yield text
