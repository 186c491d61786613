"""The evidence log: written whole or not at all, read with a count of what could not be."""

from __future__ import annotations

import gzip
import json
import lzma
import shutil
from pathlib import Path

import pytest

from cake.core import programs
from cake.core.errors import CakeError
from cake.core.evidence import KEEP, KEEP_BYTES, OUTCOMES, EvidenceWriter, Origin, Record, pack, parse_record, read_log
from cake.core.lines import MAX_LINE
from cake.core.programs import ProgramStore, text_hash

TEXT = "a program\n"
HASH = text_hash(TEXT)


def record(**changes: object) -> Record:
    """A record of the program `TEXT`."""
    values: dict[str, object] = {"program": HASH, "outcome": "hang", "stage": "run", "kernel": "k", "operator": "drop"}
    return Record(**{**values, **changes})  # type: ignore[arg-type]


def write(folder: Path, *records: Record) -> Path:
    """A log of `records` in `folder`."""
    with EvidenceWriter(folder / "records.jsonl") as log:
        for r in records:
            log.append(r, TEXT)
    return folder / "records.jsonl"


def test_round_trip(tmp_path: Path) -> None:
    """What was written is what is read, nested parts included."""
    full = record(
        device="NVIDIA H200",
        cubin_sha256="ab" * 32,
        config={"BN": 256, "fast": True, "eps": 0.5, "mode": "x"},
        extents={"M": 64},
        exit_status=-6,
        stderr='unicode "é"\nand lines',
        diagnostics=({"kind": "watchdog", "path": "math:0.1", "parity": 1},),
        metrics={"time_us": 1.5},
        origin=Origin("cd" * 32, "load:1", "dropped", 7, "simulator"),
    )
    write(tmp_path, full, record())
    log = read_log(tmp_path)
    assert log.records == (full, record())
    assert log.skipped == {}
    assert log.text(log.records[0]) == TEXT


@pytest.mark.parametrize("key", ["schema", "program", "outcome", "device", "cubin_sha256", "kernel", "operator"])
def test_promised_keys(key: str) -> None:
    """Every record carries the keys that the log promises, and a record without one is refused by its name."""
    data = json.loads(record().to_json())
    assert key in data
    del data[key]
    with pytest.raises(ValueError, match="schema None" if key == "schema" else f"key '{key}' is missing"):
        parse_record(data)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"outcome": "crash"}, "outcome 'crash' is not one of"),
        ({"stage": "lunch"}, "stage 'lunch'"),
        ({"program": "abc"}, "'abc' is no sha256"),
        ({"schema": 2}, "schema 2 is unknown"),
        ({"origin": Origin(labeller="guess")}, "labeller 'guess'"),
    ],
)
def test_closed_lists(changes: dict[str, object], message: str) -> None:
    """Outcomes, stages, labellers and the schema come from closed lists."""
    with pytest.raises(ValueError, match=message):
        record(**changes)


def test_crash_in_mid_line_costs_that_line(tmp_path: Path) -> None:
    """A torn last line is skipped, and the next writer starts on a fresh line."""
    path = write(tmp_path, record())
    torn = record(kernel="torn").to_json().encode()
    with path.open("ab") as file:
        file.write(torn[: len(torn) // 2])
    assert [r.kernel for r in read_log(tmp_path).records] == ["k"]
    write(tmp_path, record(kernel="after"))
    log = read_log(tmp_path)
    assert [r.kernel for r in log.records] == ["k", "after"]
    assert log.skipped == {"not JSON": 1}


def test_last_line_without_end_is_read(tmp_path: Path) -> None:
    """A whole last record needs no line end."""
    path = write(tmp_path, record())
    path.write_bytes(path.read_bytes().rstrip(b"\n"))
    assert len(read_log(tmp_path).records) == 1


def test_hostile_lines_are_counted(tmp_path: Path) -> None:
    """Binary, huge, foreign, deep, unknown-schema and program-less lines are each counted; good ones survive."""
    path = write(tmp_path, record())
    good = path.read_bytes()
    missing = record(program=text_hash("elsewhere")).to_json().encode()
    newer = json.dumps({**json.loads(record().to_json()), "schema": 99}).encode()
    nan = record().to_json().replace('"wall_s":0.0', '"wall_s":NaN').encode()
    endless = nan.replace(b"NaN", b"1e999")
    lines = [
        b"\xff\xfe\x00",
        b"x" * (MAX_LINE + 1),
        b"[" * 100_000,
        b"7",
        b'{"a":1}',
        newer,
        missing,
        nan,
        endless,
        b"  ",
    ]
    path.write_bytes(b"\n".join([good.strip(), *lines, good.strip()]))
    log = read_log(tmp_path)
    assert log.records == (record(), record())
    assert log.skipped == {
        "not UTF-8": 1,
        f"longer than {MAX_LINE} bytes": 1,
        "not JSON": 2,
        "not a JSON object": 1,
        "schema None is unknown; this Cake reads 1": 1,
        "schema 99 is unknown; this Cake reads 1": 1,
        "its program is missing": 1,
        "key 'wall_s' is no finite number": 1,
    }


def test_a_line_longer_than_a_chunk_is_refused_once(tmp_path: Path) -> None:
    """A line of several read chunks counts once and does not swallow its neighbours."""
    path = write(tmp_path, record())
    path.write_bytes(
        path.read_bytes() + b"y" * (5 * MAX_LINE) + b"\n" + record(kernel="next").to_json().encode() + b"\n"
    )
    log = read_log(tmp_path)
    assert [r.kernel for r in log.records] == ["k", "next"]
    assert log.skipped == {f"longer than {MAX_LINE} bytes": 1}


def test_reasons_are_bounded(tmp_path: Path) -> None:
    """Distinct nonsense does not grow the table of reasons without bound."""
    path = write(tmp_path, record())
    data = json.loads(record().to_json())
    path.write_text("\n".join(json.dumps({**data, "outcome": f"o{i}"}) for i in range(200)))
    skipped = read_log(tmp_path).skipped
    assert sum(skipped.values()) == 200
    assert len(skipped) <= 51


@pytest.mark.parametrize("content", [b"", b"\n\n"])
def test_empty_log(tmp_path: Path, content: bytes) -> None:
    """An empty log is a log with nothing in it."""
    path = tmp_path / "records.jsonl"
    path.write_bytes(content)
    log = read_log(path)
    assert log.records == ()
    assert log.skipped == {}
    assert log.outcomes() == dict.fromkeys(OUTCOMES, 0)


def test_no_log_is_a_usage_error(tmp_path: Path) -> None:
    """A path that is no log says so."""
    with pytest.raises(CakeError, match="no such log"):
        read_log(tmp_path / "nothing.jsonl")
    with pytest.raises(CakeError, match=r"holds no records\.jsonl, "):
        read_log(tmp_path)


@pytest.mark.parametrize("compress", [lzma.compress, gzip.compress])
def test_compressed(tmp_path: Path, compress: object) -> None:
    """xz and gzip are told by their bytes; a stream that breaks off keeps what came before."""
    path = write(tmp_path, *[record(kernel=f"k{i}") for i in range(300)])
    packed = compress(path.read_bytes())  # type: ignore[operator]
    path.write_bytes(packed)
    assert len(read_log(tmp_path).records) == 300
    path.write_bytes(packed[: len(packed) - 20])
    log = read_log(tmp_path)
    assert log.skipped["the compressed stream breaks off"] == 1


def test_a_folder_of_logs_reads_as_one(tmp_path: Path) -> None:
    """Logs in subfolders are read in order of name, each with the programs beside it."""
    write(tmp_path / "b", record(kernel="second"))
    write(tmp_path / "a", record(kernel="first"))
    other = text_hash("other")
    with EvidenceWriter(tmp_path / "b" / "records.jsonl") as log:
        log.append(record(program=other, kernel="third"), "other")
    merged = read_log(tmp_path)
    assert [r.kernel for r in merged.records] == ["first", "second", "third"]
    assert merged.programs.text(other) == "other"


def test_keep_bounds_memory(tmp_path: Path) -> None:
    """Records beyond the bound are counted, not kept."""
    write(tmp_path, *[record(kernel=f"k{i}") for i in range(5)])
    log = read_log(tmp_path, keep=3)
    assert [r.kernel for r in log.records] == ["k0", "k1", "k2"]
    assert log.skipped == {"beyond the first 3 records": 2}
    assert KEEP >= 100_000


def test_bytes_bound_memory(tmp_path: Path) -> None:
    """Long records count by their length: what is kept stays below the bound, whatever they hold."""
    length = write(tmp_path, record(stderr="x" * 1000)).stat().st_size - 1
    write(tmp_path, *[record(stderr="x" * 1000)] * 4)
    log = read_log(tmp_path, keep_bytes=3 * length)
    assert len(log.records) == 3
    assert log.skipped == {f"beyond the first {3 * length} bytes of records": 2}
    assert KEEP_BYTES < 1 << 30


def test_extents_are_whole_numbers(tmp_path: Path) -> None:
    """A truth value is an int in Python, and no extent of a tensor."""
    data = json.loads(record(extents={"M": 1}).to_json())
    assert parse_record(data).extents == {"M": 1}
    with pytest.raises(ValueError, match="key 'extents' is not an object of plain values"):
        parse_record({**data, "extents": {"M": True}})
    assert parse_record({**data, "config": {"FAST": True}}).config == {"FAST": True}


def test_a_program_file_of_any_size(tmp_path: Path) -> None:
    """A loose file that is longer than any program is as good as missing, and is not read."""
    name = text_hash("x" * (MAX_LINE + 1))
    path = tmp_path / "programs" / name[:2] / f"{name}.cake"
    path.parent.mkdir(parents=True)
    path.write_text("x" * (MAX_LINE + 1))
    assert ProgramStore(tmp_path).get(name) is None


def test_a_store_keeps_no_more_than_it_may(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond its budget it reads a loose program again each time."""
    monkeypatch.setattr(programs, "_BUDGET", 2)
    texts = ["a", "b", "c"]
    for text in texts:
        ProgramStore(tmp_path).put(text_hash(text), text)
    store = ProgramStore(tmp_path)
    assert [store.get(text_hash(text)) for text in texts] == texts
    shutil.rmtree(tmp_path / "programs")
    assert [store.get(text_hash(text)) for text in texts] == ["a", "b", None]


def test_pack_is_deterministic_and_equal(tmp_path: Path) -> None:
    """A packed log reads as the log it came from, and packing twice gives the same bytes."""
    write(tmp_path, record(), record(kernel="other"))
    before = read_log(tmp_path)
    first = [p.read_bytes() for p in pack(tmp_path)]
    assert [p.read_bytes() for p in pack(tmp_path)] == first
    away = tmp_path / "packed"
    away.mkdir()
    for name, data in zip(("records.jsonl.xz", "programs.jsonl.xz"), first, strict=True):
        (away / name).write_bytes(data)
    after = read_log(away)
    assert after.records == before.records
    assert after.text(after.records[0]) == TEXT


def test_a_program_that_is_not_what_its_name_says_is_missing(tmp_path: Path) -> None:
    """Texts are checked against the hash that names them, loose and packed, and a false one hides no other."""
    store = ProgramStore(tmp_path)
    store.put(HASH, TEXT)
    (tmp_path / "programs" / HASH[:2] / f"{HASH}.cake").write_text("changed")
    assert ProgramStore(tmp_path).get(HASH) is None
    good = json.dumps({"program": text_hash("good"), "text": "good"})
    (tmp_path / "programs.jsonl").write_text(f'{good}\n{{"program": "{HASH}", "text": "false"}}\nnonsense\n[]\n')
    store = ProgramStore(tmp_path)
    assert store.get(text_hash("good")) == "good"
    assert store.skipped == {"program pack: text and hash disagree": 1, "program pack: not an entry": 2}
    with pytest.raises(ValueError, match="is not the hash"):
        store.put(HASH, "false")
