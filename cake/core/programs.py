"""The program store of a log: canonical texts named by their sha256, loose or in one pack."""

from __future__ import annotations

import hashlib
import json
import lzma
from collections import Counter
from collections.abc import Collection
from pathlib import Path
from typing import Final

from cake.core.lines import MAX_LINE, Skipped, read_lines

PACKS: Final = ("programs.jsonl", "programs.jsonl.xz", "programs.jsonl.gz")
_BUDGET: Final = 256 << 20  #: characters of text that one store keeps in memory


def is_hash(text: str) -> bool:
    """Whether `text` is a sha256 in lower-case hexadecimal."""
    return len(text) == 64 and set(text) <= set("0123456789abcdef")


def text_hash(text: str) -> str:
    """A program's name: the sha256 of its canonical text."""
    return hashlib.sha256(text.encode()).hexdigest()


class ProgramStore:
    """Programs beside one log or several, in `folders`; new ones go to the first. A text whose hash is not its name
    does not count; `skipped` says how many."""

    def __init__(self, *folders: Path) -> None:
        self.folders = folders
        self.skipped: Skipped = Counter()
        self._texts: dict[str, str] = {}
        self._size = 0
        self._packed = False

    def _loose(self, folder: Path, name: str) -> Path:
        return folder / "programs" / name[:2] / f"{name}.cake"

    def _read_packs(self) -> None:
        self._packed = True
        for path in (folder / pack for folder in self.folders for pack in PACKS):
            if not path.is_file():
                continue
            for line in read_lines(path, self.skipped):
                try:
                    data = json.loads(line)
                    name, text = data["program"], data["text"]
                    sound = is_hash(name) and text_hash(text) == name
                except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
                    self.skipped["program pack: not an entry"] += 1
                    continue
                if not sound:
                    self.skipped["program pack: text and hash disagree"] += 1
                elif not self._keep(name, text):
                    self.skipped["program pack: too large"] += 1

    def _keep(self, name: str, text: str) -> bool:
        """Keep a text in memory, if there is room."""
        if name not in self._texts:
            self._size += len(text)
        if self._size <= _BUDGET:
            self._texts[name] = text
        return name in self._texts

    def get(self, name: str) -> str | None:
        """The text called `name`, or None when it is missing or is another text than its name says."""
        if not is_hash(name):
            return None
        if name not in self._texts and not self._packed:
            self._read_packs()
        if name not in self._texts:
            texts = (self._read_loose(self._loose(folder, name)) for folder in self.folders)
            text = next((t for t in texts if t is not None), None)
            if text is None:
                return None
            if text_hash(text) != name:
                self.skipped["program file: text and hash disagree"] += 1
                return None
            self._keep(name, text)
            return text
        return self._texts[name]

    @staticmethod
    def _read_loose(path: Path) -> str | None:
        try:
            return path.read_text() if path.stat().st_size <= MAX_LINE else None
        except (OSError, UnicodeDecodeError):
            return None

    def has(self, name: str) -> bool:
        """Whether the store holds `name`."""
        return self.get(name) is not None

    def text(self, name: str) -> str:
        """The text called `name`. Raises KeyError when the store does not hold it."""
        text = self.get(name)
        if text is None:
            raise KeyError(name)
        return text

    def put(self, name: str, text: str) -> None:
        """Store `text` as a loose file, unless it is here. Raises ValueError when `name` is not its hash."""
        if text_hash(text) != name:
            raise ValueError(f"{name} is not the hash of the text stored under it")
        if self.has(name):
            return
        path = self._loose(self.folders[0], name)
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part")
        part.write_text(text)
        part.replace(path)  # whole or not at all
        self._keep(name, text)

    def write_pack(self, path: Path, names: Collection[str]) -> None:
        """Write `names` with their texts into one compressed pack, sorted, the same bytes for the same programs."""
        with lzma.open(path, "wb", preset=9) as out:
            for name in sorted(names):
                entry = json.dumps({"program": name, "text": self.text(name)}, sort_keys=True)
                out.write(entry.encode() + b"\n")
