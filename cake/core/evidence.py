"""Evidence: one append-only JSON line per event, and the programs it names, content-addressed, beside it.

A log is a folder (or a file in one): `records.jsonl`, plain or compressed with xz or gzip, and next to it either loose
programs `programs/<hash[:2]>/<hash>.cake` or one pack `programs.jsonl.xz` of `{"program": hash, "text": text}` lines.

The writer puts each record on disk in one write and starts on a fresh line, so that a crash in mid-line costs that line
alone. The reader streams, counts what it cannot read with a reason, and loses nothing else.
"""

from __future__ import annotations

import json
import math
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from itertools import chain
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from cake.core.errors import CakeError
from cake.core.lines import Skipped, read_lines, skip
from cake.core.programs import ProgramStore, is_hash

SCHEMA: Final = 1

#: Everything that can come of a program. Only `ok` is a success.
OUTCOMES: Final = (
    "ok",
    "finding",
    "compile_error",
    "hang",
    "illegal_instruction",
    "illegal_address",
    "misaligned_address",
    "launch_failure",
    "mismatch",
    "nondeterminism",
    "misprediction",
)

#: Where it came about, in the order in which a program passes through.
STAGES: Final = ("check", "simulate", "compile", "run", "measure")

LABELLERS: Final = ("gpu", "simulator", "check", "compiler")

#: Records that one reading keeps, and bytes of their lines (they take four times that in memory). A log has no more
#: unless something is wrong with it.
KEEP: Final = 200_000
KEEP_BYTES: Final = 96 << 20


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a program came from: its parent's hash, the op path and words of the edit, and who gave the outcome."""

    parent: str = ""
    path: str = ""
    detail: str = ""
    seed: int = 0
    labeller: str = "gpu"


@dataclass(frozen=True, slots=True)
class Record:
    """One event. `operator` is the kind of edit (`cake.core.edits.KINDS`; empty for an unedited program); `device` the
    GPU's name, empty without one; `exit_status` that of the worker (negative: killed by that signal); `stderr` its raw
    tail; `output_checksum` the sha256 of the output bytes; `wall_s` seconds; `diagnostics` structured facts about the
    failure (`{"kind": "watchdog", "role": ..., "path": ..., ...}`); `metrics` numbers with a unit in their names."""

    program: str
    outcome: str
    stage: str
    kernel: str
    operator: str = ""
    device: str = ""
    cubin_sha256: str = ""
    config: Mapping[str, int | float | bool | str] = field(default_factory=dict)
    extents: Mapping[str, int] = field(default_factory=dict)
    nvrtc: str = ""
    driver: str = ""
    exit_status: int | None = None
    stderr: str = ""
    output_checksum: str = ""
    wall_s: float = 0.0
    diagnostics: tuple[Mapping[str, Any], ...] = ()
    metrics: Mapping[str, float] = field(default_factory=dict)
    origin: Origin = field(default_factory=Origin)
    schema: int = SCHEMA

    def __post_init__(self) -> None:
        if self.schema != SCHEMA:
            raise ValueError(f"schema {self.schema!r} is unknown; this Cake reads {SCHEMA}")
        if self.outcome not in OUTCOMES:
            raise ValueError(f"outcome {self.outcome!r} is not one of {', '.join(OUTCOMES)}")
        if self.stage not in STAGES:
            raise ValueError(f"stage {self.stage!r} is not one of {', '.join(STAGES)}")
        if self.origin.labeller not in LABELLERS:
            raise ValueError(f"labeller {self.origin.labeller!r} is not one of {', '.join(LABELLERS)}")
        if not is_hash(self.program):
            raise ValueError(f"program {self.program!r} is no sha256")

    def to_json(self) -> str:
        """One line of JSON, keys sorted, without the line end."""
        return json.dumps(asdict(self), sort_keys=True, separators=(",", ":"), allow_nan=False)


_KEYS: Final = {f.name for f in fields(Record)}
_ORIGIN_KEYS: Final = {f.name for f in fields(Origin)}
_REQUIRED: Final = ("schema", "program", "outcome", "device", "cubin_sha256", "kernel", "operator", "stage")
_TEXT: Final = (
    "program",
    "outcome",
    "stage",
    "kernel",
    "operator",
    "device",
    "cubin_sha256",
    "nvrtc",
    "driver",
    "stderr",
    "output_checksum",
)


def parse_record(data: Any) -> Record:
    """A `Record` from decoded JSON. Unknown keys are dropped, since a later Cake may write more. Raises ValueError."""
    if not isinstance(data, dict):
        raise ValueError("not a JSON object")
    if data.get("schema") != SCHEMA:
        raise ValueError(f"schema {str(data.get('schema'))[:20]} is unknown; this Cake reads {SCHEMA}")
    for key in _REQUIRED:
        if key not in data:
            raise ValueError(f"key {key!r} is missing")
    known = {key: value for key, value in data.items() if key in _KEYS}
    for key in _TEXT:
        if not isinstance(known.get(key, ""), str):
            raise ValueError(f"key {key!r} is not a string")
    known["origin"] = _origin(known.get("origin", {}))
    known["diagnostics"] = _diagnostics(known.get("diagnostics", ()))
    for key in ("config", "extents", "metrics"):
        known[key] = _numbers(key, known.get(key, {}))
    wall_s = known.get("wall_s", 0.0)
    if not isinstance(wall_s, int | float) or not math.isfinite(wall_s):
        raise ValueError("key 'wall_s' is no finite number")
    if not isinstance(known.get("exit_status"), int | None):
        raise ValueError("key 'exit_status' is not a whole number")
    return Record(**known)


def _origin(data: Any) -> Origin:
    if not isinstance(data, dict):
        raise ValueError("key 'origin' is not an object")
    known = {key: value for key, value in data.items() if key in _ORIGIN_KEYS}
    for key, value in known.items():
        if not isinstance(value, int if key == "seed" else str):
            raise ValueError(f"key 'origin.{key}' has the wrong type")
    return Origin(**known)


def _diagnostics(data: Any) -> tuple[Mapping[str, Any], ...]:
    if not isinstance(data, list | tuple) or not all(isinstance(d, dict) for d in data):
        raise ValueError("key 'diagnostics' is not a list of objects")
    return tuple(data)


def _numbers(key: str, data: Any) -> dict[str, Any]:
    allowed: dict[str, Any] = {"config": (int, float, str, bool), "extents": (int,), "metrics": (int, float)}
    if not isinstance(data, dict) or not all(type(v) in allowed[key] for v in data.values()):  # a bool is an int, too
        raise ValueError(f"key {key!r} is not an object of plain values")
    if any(isinstance(v, float) and not math.isfinite(v) for v in data.values()):
        raise ValueError(f"key {key!r} holds a number that is not finite")
    return data


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


def iter_records(path: Path, skipped: Skipped) -> Iterator[tuple[Record, int]]:
    """The records of one file, in order, in bounded memory, each with the length of its line. What cannot be read is
    counted in `skipped` by reason."""
    for line in read_lines(path, skipped):
        try:
            data = json.loads(line, parse_constant=_no_constant)
        except (ValueError, RecursionError):
            skipped["not JSON"] += 1
            continue
        try:
            yield parse_record(data), len(line)
        except ValueError as error:
            skip(skipped, str(error))


@dataclass(frozen=True, slots=True)
class Log:
    """What a log holds: `records` in order, how many lines were `skipped` for which reason, and its `programs`."""

    path: Path
    records: tuple[Record, ...]
    skipped: Mapping[str, int]
    programs: ProgramStore

    def text(self, record: Record) -> str:
        """The canonical text of the record's program; `read_log` made sure that it is there."""
        return self.programs.text(record.program)

    def outcomes(self) -> dict[str, int]:
        """How many records have each outcome; all outcomes, in their order, zeros included."""
        counts = Counter(r.outcome for r in self.records)
        return {outcome: counts[outcome] for outcome in OUTCOMES}


_NAMES: Final = ("records.jsonl", "records.jsonl.xz", "records.jsonl.gz")


def find_records(path: Path) -> list[Path]:
    """The records files that `path` means: the file itself, a log's folder, or a folder of logs, in order of name.

    Raises CakeError when there is none."""
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise CakeError(f"{path}: no such log")
    for folders in ([path], sorted(p for p in path.iterdir() if p.is_dir())):
        found = [next((f / name for name in _NAMES if (f / name).is_file()), None) for f in folders]
        if any(found):
            return [file for file in found if file is not None]
    raise CakeError(f"{path} holds no {', '.join(_NAMES)}, and no folder that does")


def read_log(path: Path, *, keep: int = KEEP, keep_bytes: int = KEEP_BYTES) -> Log:
    """Read a log, or a folder of logs one after the other: up to `keep` records, of `keep_bytes` in all, whose programs
    are there and have the hash that names them.

    Everything else is skipped and counted. Raises CakeError when there is no such log, never for what it holds."""
    files = find_records(Path(path))
    store = ProgramStore(*dict.fromkeys(file.parent for file in files))
    skipped: Skipped = Counter()
    records: list[Record] = []
    size = 0
    for record, length in chain.from_iterable(iter_records(file, skipped) for file in files):
        if len(records) == keep:
            skipped[f"beyond the first {keep} records"] += 1
        elif size + length > keep_bytes:
            skipped[f"beyond the first {keep_bytes} bytes of records"] += 1
        elif not store.has(record.program):
            skipped["its program is missing"] += 1
        else:
            size += length
            records.append(record)
    skipped.update(store.skipped)
    return Log(Path(path), tuple(records), dict(sorted(skipped.items())), store)


class EvidenceWriter:
    """Appends records to `path`, and their programs to the store beside it. A context manager; one writer a log."""

    def __init__(self, path: Path) -> None:
        self.path = Path(path)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.programs = ProgramStore(self.path.parent)
        self._fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        size = os.fstat(self._fd).st_size
        if size and os.pread(self._fd, 1, size - 1) != b"\n":
            os.write(self._fd, b"\n")  # a crash tore the last line; it stays torn, the next one is whole

    def append(self, record: Record, text: str | None = None) -> None:
        """Write `record`; with `text`, its program's canonical text goes into the store first."""
        if text is not None:
            self.programs.put(record.program, text)
        line = record.to_json().encode() + b"\n"
        written = os.write(self._fd, line)
        while written < len(line):
            written += os.write(self._fd, line[written:])
        os.fsync(self._fd)

    def close(self) -> None:
        """Close the file. Records are on disk already."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __enter__(self) -> EvidenceWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def pack(folder: Path) -> tuple[Path, Path]:
    """Compress a log folder for the repository: `records.jsonl` and `programs/` become `records.jsonl.xz` and
    `programs.jsonl.xz`, byte for byte the same for the same log. Only programs that a record names are packed."""
    import lzma

    log = read_log(folder)
    if log.skipped:
        raise ValueError(f"{folder} has lines that cannot be read: {dict(log.skipped)}")
    records, programs = folder / "records.jsonl.xz", folder / "programs.jsonl.xz"
    with lzma.open(records, "wb", preset=9) as out:
        for record in log.records:
            out.write(record.to_json().encode() + b"\n")
    log.programs.write_pack(programs, {r.program for r in log.records})
    return records, programs
