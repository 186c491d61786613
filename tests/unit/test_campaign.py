"""A campaign from worker results to records, and the agreement of two labellers, without a GPU."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from cake.core.agreement import agreement, family
from cake.core.campaign import Item, collect, confirm
from cake.core.errors import CakeError, Exit
from cake.core.evidence import Origin, Record
from cake.core.programs import text_hash
from cake.core.worker_batch import WorkerRun

GOOD, BAD = "parent\n", "mutant\n"
SHAPES = ({"M": 8}, {"M": 64})
DEVICE = {"name": "NVIDIA H200", "driver": "13.0", "nvidia_smi": "580.1, 1980 MHz"}


def item(request: str, text: str, operator: str = "") -> Item:
    """A campaign item with one output C."""
    origin = asdict(Origin(text_hash(GOOD), "load:0", "dropped" if operator else "", 1))
    return Item(request, text_hash(text), text, "k", {"BN": 8}, ("C",), SHAPES, operator, origin, "c" * 64, "13.0.88")


def case(index: int, sha: str, **changes: Any) -> dict[str, Any]:
    """A worker's report of a launch that ended."""
    tensor = {"sha256": sha, "poisoned": 0, "guards": True, "input_kept": True}
    done = {"name": str(index), "extents": SHAPES[index], "outcome": "ok", "tensors": {"C": tensor}, "ctas": 2}
    return {**done, "deterministic": True, "intact": True, "wall_s": 0.1, **changes}


def line(request: str, *cases: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """A line of a batch's results."""
    result = {"outcome": "ok", "cases": list(cases), "device": DEVICE, "error": None, "stuck": None, "places": []}
    result.update(changes)
    run = {"request": request, "result": result, "exit_status": 0, "killed": False, "stderr": "", "wall_s": 2.0}
    return {**run, "outcome": result["outcome"]}


PARENT = line("0000", case(0, "a" * 64), case(1, "b" * 64))


def collected(tmp_path: Path, *lines: dict[str, Any], alone: tuple[dict[str, Any], ...] = ()) -> list[Record]:
    """The records of a campaign with one parent (request 0000) and one mutant (0001)."""
    items = [item("0000", GOOD), item("0001", BAD, "drop")]
    (tmp_path / "campaign.json").write_text(json.dumps([asdict(i) for i in items]))
    for name, content in (("results", lines), ("alone", alone)):
        (tmp_path / name).write_text("".join(json.dumps(x) + "\n" for x in content) + '{"torn": ')
    return [r for r, _ in collect(tmp_path, tmp_path / "results", tmp_path / "alone")]


def test_outputs_are_compared_with_the_parent(tmp_path: Path) -> None:
    """Equal outputs are ok, other ones a mismatch, each problem by itself; versions and device are kept."""
    records = collected(tmp_path, PARENT, line("0001", case(0, "a" * 64), case(1, "x" * 64)))
    assert [(r.operator, r.outcome, r.extents) for r in records] == [
        ("", "ok", {"M": 8}),
        ("", "ok", {"M": 64}),
        ("drop", "ok", {"M": 8}),
        ("drop", "mismatch", {"M": 64}),
    ]
    last = records[-1]
    assert (last.device, last.driver, last.nvrtc, last.cubin_sha256) == ("NVIDIA H200", "580.1", "13.0.88", "c" * 64)
    assert last.output_checksum == "x" * 64
    assert last.origin.parent == text_hash(GOOD)


@pytest.mark.parametrize(
    ("changes", "outcome"),
    [({"deterministic": False}, "nondeterminism"), ({"intact": False}, "mismatch")],
)
def test_what_else_makes_a_launch_wrong(tmp_path: Path, changes: dict[str, Any], outcome: str) -> None:
    """Runs that differ and guards that were overwritten are failures although the first outputs agree."""
    records = collected(tmp_path, PARENT, line("0001", case(0, "a" * 64, **changes)))
    assert records[-1].outcome == outcome


def test_a_hang_says_who_waited_for_what(tmp_path: Path) -> None:
    """The watchdog's record becomes a structured diagnostic, and the hang is marked as confirmed alone."""
    place = {"path": "math:0", "role": "math", "instance": 1, "warp": 2, "barrier": "full", "loops": [["i", 3]]}
    stuck = {"kind": "mbarrier_wait", "place": place, "slot": 1, "parity": 0}
    ended = {"name": "1", "extents": SHAPES[1], "outcome": "hang"}
    hung = line("0001", case(0, "a" * 64), ended, outcome="hang", stuck=stuck, places=["w"] * 50)
    records = collected(tmp_path, PARENT, hung, alone=(hung,))
    assert [r.outcome for r in records[2:]] == ["ok", "hang"]
    watchdog, places, confirmed = records[-1].diagnostics
    assert watchdog["barrier"] == "full"
    assert watchdog["iteration"] == {"i": 3}
    assert len(places["places"]) == 12
    assert confirmed == {"kind": "confirmed", "alone": True}


def test_a_killed_worker_is_a_hang(tmp_path: Path) -> None:
    """A worker without a result that was killed for time hung, one that died is a launch failure, and one that gave up
    says nothing of the program."""
    dead = {**line("0001"), "result": None, "killed": True, "exit_status": -9, "outcome": "hang", "stderr": "late"}
    assert collected(tmp_path, PARENT, dead)[-1].outcome == "hang"
    record = collected(tmp_path, PARENT, {**dead, "killed": False})[-1]
    assert (record.outcome, record.exit_status, record.stderr) == ("launch_failure", -9, "late")
    assert len(collected(tmp_path, PARENT, {**dead, "killed": False, "exit_status": 3})) == len(
        collected(tmp_path, PARENT)
    )


def test_a_hang_stands_where_nothing_can_confirm_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without a GPU confirms nothing, and leaves no line that would be taken for an outcome."""
    gone = WorkerRun("0001", None, int(Exit.ENVIRONMENT), False, "error: no GPU here\n", 0.1)
    monkeypatch.setattr("cake.core.worker_batch.run_worker", lambda folder, timeout: gone)
    (tmp_path / "results").write_text(json.dumps(line("0001", outcome="hang")) + "\n")
    with pytest.raises(CakeError, match="no GPU here"):
        confirm(tmp_path, tmp_path / "results", tmp_path / "alone", 60.0)
    assert (tmp_path / "alone").read_text() == ""


def test_a_bad_parent_is_no_reference(tmp_path: Path) -> None:
    """When an unedited kernel fails, nothing can be collected."""
    with pytest.raises(CakeError, match="no reference"):
        collected(tmp_path, line("0000", case(0, "a" * 64, deterministic=False)))


def record(program: str, outcome: str, labeller: str, m: int = 8) -> Record:
    """A record of `program` on M = `m`."""
    return Record(text_hash(program), outcome, "run", "k", extents={"M": m}, origin=Origin(labeller=labeller))


def test_agreement_pairs_by_program_and_problem() -> None:
    """Only programs that both labelled on the same problem count."""
    found = agreement(
        [
            record("a", "ok", "gpu"),
            record("a", "ok", "simulator"),
            record("b", "mismatch", "gpu"),
            record("b", "nondeterminism", "simulator"),
            record("c", "hang", "gpu"),
            record("c", "ok", "simulator"),
            record("d", "hang", "gpu", m=64),
            record("d", "hang", "simulator"),
            record("e", "ok", "gpu"),
            record("e", "hang", "simulator"),
        ]
    )
    assert (len(found.pairs), found.exact, found.alike, found.verdicts) == (4, 1, 2, 2)
    assert [p.program for p in found.missed] == [text_hash("c")]
    assert [p.program for p in found.only_simulated] == [text_hash("e")]
    assert "4 programs on one problem each: 2 same verdict, 2 alike, 1 exact" in found.text()
    assert family("illegal_address") == family("launch_failure") == "fault"


def test_agreement_of_nothing() -> None:
    """No pairs, no table rows."""
    assert "0 programs" in agreement([replace(record("a", "ok", "gpu"))]).text()
