"""A log's failures by what was observed, and the arithmetic of gate lines."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cake.core.diagnostics import Verdict
from cake.core.errors import CakeError
from cake.core.evidence import EvidenceWriter, Origin, Record, read_log
from cake.core.lines import MAX_REASONS
from cake.core.printer import print_program
from cake.core.programs import text_hash
from cake.core.reader import read_program
from distill.gates import MERGE_TIER, GateLine, green, parse_gates, summary, upper_bound
from distill.ingest import Intake, ingest
from distill.oracle import Problem, reference

BAD = Path(__file__).parents[2] / "corpus" / "bad"


def text(code: str, name: str = "bad") -> str:
    """The canonical text of a program of the corpus."""
    return print_program(read_program((BAD / code / f"{name}.cake").read_text(), name))


def record(program: str, outcome: str, labeller: str = "gpu", where: str = "") -> Record:
    """A record of one run."""
    device = "GPU" if labeller == "gpu" else ""
    diagnostics = ({"path": where},) if where else ()
    return Record(
        text_hash(program), outcome, "run", "gemm", device=device, diagnostics=diagnostics,
        origin=Origin(labeller=labeller),
    )  # fmt: skip


def taken(folder: Path, *rows: tuple[str, Record]) -> Intake:
    """What comes of reading a log of these records."""
    with EvidenceWriter(folder / "records.jsonl") as log:
        for program, row in rows:
            log.append(row, program)
    return ingest(read_log(folder))


def test_failures_that_look_alike_share_a_cluster(tmp_path: Path) -> None:
    """Outcome and the op at which it stopped make a cluster; mismatch and nondeterminism are one thing."""
    one, two, three = text("SYN005"), text("SYN005", "good"), text("SYN001")
    where = "load:2.0.0.1"
    found = taken(
        tmp_path,
        (one, record(one, "hang", where=where)),
        (two, record(two, "hang", where=where)),
        (one, record(one, "hang", where=where)),
        (three, record(three, "mismatch")),
        (text("SYN002"), record(text("SYN002"), "nondeterminism")),
    )
    assert [c.signature for c in found.clusters] == [
        ("hang", "run", "mbarrier_expect"),
        ("wrong values", "run"),
    ]
    assert [len(c.failures) for c in found.clusters] == [2, 2]
    assert {f.program: f.devices for f in found.clusters[0].failures} == {
        text_hash(one): {"GPU": 2},
        text_hash(two): {"GPU": 1},
    }
    assert [c.gpu for c in found.clusters] == [2, 2]
    assert (found.records, found.passed) == (5, ())


def test_a_hang_is_where_somebody_waits_on_a_barrier(tmp_path: Path) -> None:
    """A warp that the end of its role keeps waiting says less than one at a barrier, wherever the record names them."""
    program = text("SYN005")
    waiting = {"path": "math:3.1.0", "barrier": "ring_full"}
    for i, said in enumerate(
        [
            ({"kind": "watchdog", "path": "end", "barrier": ""}, {"kind": "places", "places": [waiting]}),
            ({"kind": "places", "places": [{"path": "load:2", "barrier": ""}, waiting, "junk"]},),
            ({"kind": "watchdog", **waiting}, {"kind": "places", "places": [{"path": "load:2", "barrier": "other"}]}),
        ]
    ):
        found = taken(tmp_path / str(i), (program, replace(record(program, "hang"), diagnostics=said)))
        failure = found.clusters[0].failures[0]
        assert (failure.where, failure.barrier) == ("math:3.1.0", "ring_full")


def test_the_gpus_word_goes_before_the_simulators(tmp_path: Path) -> None:
    """What ran on a GPU and was right there has passed, whatever was simulated; and the other way round."""
    one, two, three = text("SYN005"), text("SYN005", "good"), text("SYN001")
    found = taken(
        tmp_path,
        (one, record(one, "hang", "simulator")),
        (one, record(one, "ok")),
        (two, record(two, "ok", "simulator")),
        (two, record(two, "hang")),
        (three, record(three, "hang", "simulator")),
    )
    assert found.passed == (text_hash(one),)
    failures = {f.program: f.gpu for c in found.clusters for f in c.failures}
    assert failures == {text_hash(two): True, text_hash(three): False}


def test_a_clean_log_has_no_cluster(tmp_path: Path) -> None:
    """Success is no failure, nor is a wrong prediction of time; only the first has passed."""
    one, two = text("SYN005", "good"), text("SYN001", "good")
    found = taken(tmp_path, (one, record(one, "ok")), (two, record(two, "misprediction")))
    assert found.clusters == ()
    assert found.passed == (text_hash(one),)
    assert found.outcomes["ok"] == 1


def test_an_empty_log_is_an_error(tmp_path: Path) -> None:
    """A log without a record that can be read is named, with what was skipped."""
    with pytest.raises(CakeError, match=r"holds no record$"):
        taken(tmp_path)
    (tmp_path / "records.jsonl").write_text("{\n")
    with pytest.raises(CakeError, match=r"holds no record that can be read \(1 line: not JSON\)"):
        ingest(read_log(tmp_path))


def test_programs_that_cannot_be_read_are_counted(tmp_path: Path) -> None:
    """A failing program that is no schedule is skipped with its reason; not more reasons than a person would read."""
    bad = [f"import {'x' * n}\n" for n in range(1, 80)]
    found = taken(tmp_path, *((t, record(t, "hang")) for t in bad), (text("SYN005"), record(text("SYN005"), "hang")))
    assert [len(c.failures) for c in found.clusters] == [1]
    assert sum(found.skipped.values()) == 79
    assert len(found.skipped) <= MAX_REASONS + 1
    assert all("cannot be read" in reason or reason == "other reasons" for reason in found.skipped)


@pytest.mark.parametrize("extents", [{"M": 8, "N": 10**9, "K": 8}, {"M": 0, "N": 8, "K": 8}, {"M": 8}])
def test_a_problem_that_cannot_be_simulated(extents: dict[str, int]) -> None:
    """A log may name any extents: one too large, or none, is no reference, and nothing is allocated for it."""
    program = read_program(text("SYN005", "good"))
    assert reference(program, Problem({"M": 8, "N": 8, "K": 8}, {})) is not None
    assert reference(program, Problem(extents, {})) is None


def test_a_cluster_does_not_depend_on_the_order_of_the_log(tmp_path: Path) -> None:
    """The same records in another order give the same clusters under the same keys."""
    one, two = text("SYN005"), text("SYN001")
    rows = [(one, record(one, "hang")), (two, record(two, "hang"))]
    assert taken(tmp_path / "a", *rows).clusters == taken(tmp_path / "b", *rows[::-1]).clusters


def test_the_bound_on_false_alarms() -> None:
    """Nothing seen bounds nothing; more programs bound it lower; about three in n for large n."""
    assert upper_bound(0) == 1.0
    assert upper_bound(1) == pytest.approx(0.95)
    assert upper_bound(300) == pytest.approx(3 / 300, rel=0.01)
    assert upper_bound(10) > upper_bound(11) > upper_bound(11, 0.9)


def test_gates_that_did_not_run_count_neither_way() -> None:
    """The merge tier is left out of the propose tier's sum; an unknown gate of its own is no pass."""
    later = [GateLine(name, Verdict.UNKNOWN, 0, "not run") for name in MERGE_TIER]
    passed = [GateLine("pair", Verdict.PASS, 2, "-"), GateLine("novelty", Verdict.PASS, 9, "-"), *later]
    assert (summary(passed), green(passed)) == ("2/2", True)
    unknown = [GateLine("held-out", Verdict.UNKNOWN, 0, "-"), *passed]
    assert (summary(unknown), green(unknown)) == ("2/3", False)


def test_gate_lines_read_back() -> None:
    """A line is one JSON object; anything else is refused."""
    lines = (GateLine("pair", Verdict.PASS, 2, "flägs"), GateLine("suite", Verdict.FAIL, 0, "x"))
    assert parse_gates("\n".join(x.line() for x in lines) + "\n\n") == lines
    for broken in ("{", '{"gate": "x"}', lines[0].line().replace('"pass"', '"perhaps"')):
        with pytest.raises((ValueError, KeyError)):
            parse_gates(broken)
