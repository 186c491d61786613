"""The verbs on good input: what they print, as text and as data, and what they write."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cake.cli.app import run
from cake.core.errors import Exit
from cake.core.evidence import EvidenceWriter, Origin, Record
from cake.core.printer import print_program
from cake.core.programs import text_hash
from cake.core.reader import read_program

Capture = pytest.CaptureFixture[str]
GEMM = "corpus/kernels/gemm_bf16"
NORM = "corpus/kernels/rmsnorm_bf16"
#: One CTA whose warps add up through shared memory, and forget to wait for each other.
RACE = """@schedule(target="sm_90a")
def race(X: Tensor[f32, "M", 64], Y: Tensor[f32, "M", 64]):
    launch(ctas=M)
    cell = smem(f32, (1,), at=0)
    rows = role(warps=2)

    with rows:
        x = fragment(f32, (1,), layout="thread")
        ld_global(x, X[cta_id, thread_id])
        if thread_id == 63:
            st_shared(cell.tile((0,), (1,)), sum(x))
        last = ld_shared(cell.tile((0,), (1,)))
        st_global(Y[cta_id, thread_id], x + last)
"""
#: A kernel without that fault, and its contract: the smallest corpus there can be.
ADD = (
    RACE.replace("def race", "def add")
    .replace("        last = ", "        barrier_sync(done)\n        last = ")
    .replace("    rows = role", "    done = named_barrier(arrivals=64, at=1)\n    rows = role")
)
CONTRACT = """
kernel = "add"
summary = "Y = X + X[:, 63]"
inputs = ["X"]
outputs = ["Y"]
[shapes]
names = ["M"]
correctness = [[2]]
performance = [[2]]
simulator = [[2]]
mutation = [[2]]
calibration = [[2]]
[distribution.normal]
why = "a test"
tensors."*" = { kind = "normal" }
[tolerance]
relative = "0"
scaled = "0"
absolute = "0"
reasoning = "a test"
[floor]
flops = "M"
bytes = "M"
"""


@pytest.fixture
def small(tmp_path: Path) -> str:
    """A folder with a corpus of one kernel in one configuration, as `--repo` takes it."""
    folder = tmp_path / "repo" / "corpus" / "kernels" / "add"
    folder.mkdir(parents=True)
    (folder / "schedule.py").write_text(ADD)
    (folder / "contract.toml").write_text(CONTRACT)
    (folder / "configs.toml").write_text("[only]\n")
    return str(tmp_path / "repo")


def document(capsys: Capture, *argv: str, code: int = Exit.CLEAN) -> dict[str, Any]:
    """What `cake argv --json` prints, after checking its exit code and schema version."""
    assert run([*argv, "--json"]) == code
    parsed: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert parsed["schema"] == 1
    return parsed


def test_sim_agrees_with_itself(capsys: Capture) -> None:
    """A good kernel ends in every order with the same bytes, on the contract's first shape."""
    found = document(capsys, "sim", NORM)

    assert found["extents"] == {"M": 1, "N": 8}
    assert [r["outcome"] for r in found["runs"]] == ["ok"] * 8
    assert len({r["outputs_sha256"] for r in found["runs"]}) == 1


def test_sim_shows_a_race(tmp_path: Path, capsys: Capture) -> None:
    """Outputs that depend on the order are said to, and exit 1."""
    path = tmp_path / "race.cake"
    path.write_text(RACE)

    code = run(["sim", str(path), "--shape", "M=2"])

    assert code == Exit.FINDINGS
    assert "outputs depend on the order" in capsys.readouterr().out


def test_sim_keeps_its_arrays(tmp_path: Path, capsys: Capture) -> None:
    """`--out` keeps inputs and outputs; a second run with the same seed gives the same."""
    files = [tmp_path / "a.npz", tmp_path / "b.npz"]
    for file in files:
        assert run(["sim", NORM, "--order", "lazy/3", "--seed", "3", "--out", str(file)]) == Exit.CLEAN

    first, second = (np.load(file) for file in files)
    assert set(first.files) == {"X", "W", "Y", "eps"}
    assert all(np.array_equal(first[name], second[name]) for name in first.files)
    assert first["Y"].dtype == np.float32  # bf16 is widened: .npz does not know it


def test_check_passes_what_is_good(capsys: Capture) -> None:
    """A good kernel passes all four static categories in every configuration, and exits 0."""
    found = document(capsys, "check", NORM)

    verdicts = {g["verdict"] for c in found["configurations"] for g in c["gates"].values()}
    assert (verdicts, len(found["configurations"]), found["findings"]) == ({"pass"}, 4, [])


def test_check_finds_what_is_not(tmp_path: Path, capsys: Capture) -> None:
    """A barrier that opens at too many threads is a finding on its line, in every format, and exits 1."""
    path = tmp_path / "hang.cake"
    path.write_text(ADD.replace("arrivals=64", "arrivals=96"))
    line = path.read_text().splitlines().index("        barrier_sync(done)") + 1

    found = document(capsys, "check", str(path), code=Exit.FINDINGS)
    outputs = {}
    for form in ("text", "github", "sarif"):
        assert run(["check", str(path), "--format", form]) == Exit.FINDINGS
        outputs[form] = capsys.readouterr().out

    assert [(f["code"], f["line"], f["role"], f["barrier"]) for f in found["findings"]] == [
        ("SYN002", line, "rows", "done")
    ]
    assert f"{path}:{line}: SYN002" in outputs["text"]
    assert f"line={line}," in outputs["github"]
    assert json.loads(outputs["sarif"])["runs"][0]["results"][0]["ruleId"] == "SYN002"


def test_one_bad_configuration_hides_no_other(small: str, capsys: Capture) -> None:
    """A configuration that cannot be built is a finding that names it; the others are examined all the same."""
    folder = Path(small) / "corpus" / "kernels" / "add"
    schedule = (folder / "schedule.py").read_text()
    (folder / "schedule.py").write_text(
        schedule.replace("64]):", "64], *, WARPS=2):").replace("warps=2", "warps=WARPS")
    )
    (folder / "configs.toml").write_text("[good]\nWARPS = 2\n[bad]\nWARPS = 64\n")

    found = document(capsys, "check", str(folder), code=Exit.FINDINGS)

    assert [(f["code"], f["configs"]) for f in found["findings"]] == [("IR", ["bad"])]
    assert [c["config"] for c in found["configurations"]] == ["good"]


def test_check_selects_rules(tmp_path: Path, capsys: Capture) -> None:
    """`--select` and `--ignore` take the starts of codes; one that fits no rule is a usage error."""
    assert all(c.startswith("TMA") for c in document(capsys, "check", NORM, "--select", "tma")["rules"])
    assert not any(c.startswith("TMA") for c in document(capsys, "check", NORM, "--ignore", "TMA,LAY001")["rules"])
    assert run(["check", NORM, "--select", "ZZZ"]) == Exit.USAGE
    assert "families are" in capsys.readouterr().err


def test_run_without_a_gpu_claims_nothing(small: str, tmp_path: Path, capsys: Capture) -> None:
    """What did not run is `unknown`, the exit code says so, and no failure is recorded."""
    log = tmp_path / "log.jsonl"
    folder = f"{small}/corpus/kernels/add"

    found = document(capsys, "run", folder, "--no-gpu", "--log", str(log), code=Exit.ENVIRONMENT)

    (report,) = found["reports"]
    assert report["verdict"] == "unknown"
    assert {g["category"]: g["verdict"] for g in report["gates"]}["numerical-validation"] == "unknown"
    assert log.read_text() == ""
    assert run(["run", str(tmp_path)]) == Exit.USAGE


def test_facts_about_a_statement(capsys: Capture) -> None:
    """Facts name the statement asked for, in known relations only, and complete where exploration closed."""
    found = document(capsys, "facts", GEMM, "--about", "load:3.2.4.2")

    assert found["facts"]["completes"] == [["load:3.2.4.2", "ring_full", 16384]]
    assert found["incomplete"] == []
    assert all("load:3.2.4.2" in row for rows in found["facts"].values() for row in rows)
    assert run(["facts", GEMM, "--relation", "conflicts"]) == Exit.USAGE


def test_lower_prints_cuda(capsys: Capture) -> None:
    """The CUDA of the first configuration, or of a named one, on stdout and nothing else."""
    assert run(["lower", GEMM, "--config", "m64n256s5"]) == Exit.CLEAN

    captured = capsys.readouterr()
    assert captured.out.startswith("// gemm_bf16 for sm_90a")
    assert "__global__" in captured.out
    assert captured.err == ""


def test_lower_prints_canonical_text(tmp_path: Path) -> None:
    """`--ir --out` writes a .cake file that reads back, and that `lower` takes again."""
    path = tmp_path / "gemm.cake"

    assert run(["lower", GEMM, "--ir", "--out", str(path)]) == Exit.CLEAN

    assert read_program(path.read_text()).name == "gemm_bf16"
    assert run(["lower", str(path), "--ir", "--out", str(path)]) == Exit.CLEAN


def test_compile_keeps_cubins(tmp_path: Path, capsys: Capture) -> None:
    """Every configuration becomes a cubin (an ELF file) with its hash, registers and spills."""
    pytest.importorskip("cuda.bindings.nvrtc")

    found = document(capsys, "compile", NORM, "--config", "r1w8v8", "--out", str(tmp_path))

    (cubin,) = found["cubins"]
    assert (tmp_path / "rmsnorm_bf16-r1w8v8.cubin").read_bytes()[:4] == b"\x7fELF"
    assert cubin["usage"]["registers"] > 0
    assert cubin["nvrtc"].startswith("13.0")


def test_explain_lists_and_prints(capsys: Capture) -> None:
    """Without a name, everything there is; with one, the plugin from its own file; close names are suggested."""
    names = {p["name"] for p in document(capsys, "explain")["plugins"]}

    text = document(capsys, "explain", "tma_load")["text"]

    assert {"tma_load", "wgmma", "sm_90a"} <= names
    assert "cp.async.bulk.tensor" in text
    assert run(["explain", "tma_lod"]) == Exit.USAGE
    assert "did you mean tma_load" in capsys.readouterr().err


def test_corpus_list(capsys: Capture) -> None:
    """Both kernels with four configurations each."""
    kernels = document(capsys, "corpus", "list")["kernels"]

    assert {k["name"]: len(k["configs"]) for k in kernels} == {"gemm_bf16": 4, "rmsnorm_bf16": 4}


def test_corpus_mutate_and_stats(small: str, tmp_path: Path, capsys: Capture) -> None:
    """A fresh log has the parents and the variants asked for, and its statistics add up; it is not overwritten."""
    log = tmp_path / "fresh" / "records.jsonl"
    argv = ("corpus", "mutate", "--seed", "5", "--count", "4", "--out", str(log), "--repo", small)
    made = document(capsys, *argv)

    counts = document(capsys, "corpus", "stats", str(log.parent))

    assert sum(made["outcomes"].values()) == 4 + 1
    assert counts["skipped"] == {}
    labels = counts["outcomes"]["simulator"]
    assert sum(labels.values()) == counts["records"]
    assert counts["records"] == 5 - made["outcomes"].get("unknown", 0)
    assert run(argv) == Exit.USAGE


def test_an_interrupt_loses_nothing(
    small: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    """Ctrl-C while variants are labelled exits 130; what was written before it is whole and readable."""
    log = tmp_path / "records.jsonl"
    steps = iter(range(10))

    @contextmanager
    def interrupted(*_: object) -> Iterator[Callable[[str], None]]:
        def step(_: str) -> None:
            if next(steps) == 2:
                raise KeyboardInterrupt

        yield step

    monkeypatch.setattr("cake.cli.corpus.progress", interrupted)

    code = run(["corpus", "mutate", "--seed", "5", "--count", "8", "--out", str(log), "--repo", small])

    assert code == Exit.INTERRUPTED
    assert "interrupted" in capsys.readouterr().err
    counts = document(capsys, "corpus", "stats", str(log))
    assert (counts["records"], counts["skipped"]) == (len(log.read_text().splitlines()), {})
    assert counts["records"] >= 2


def test_corpus_mutate_without_labels(small: str, tmp_path: Path, capsys: Capture) -> None:
    """Unlabelled variants come with their text, edit and parent, and are the same for the same seed."""
    files = [tmp_path / "a.jsonl", tmp_path / "b.jsonl"]
    for file in files:
        argv = ("--seed", "9", "--count", "6", "--labels", "none", "--out", str(file), "--repo", small)
        document(capsys, "corpus", "mutate", *argv)

    rows = [json.loads(line) for line in files[0].read_text().splitlines()]
    assert files[0].read_bytes() == files[1].read_bytes()
    assert len({r["program"] for r in rows}) == 6
    assert all(read_program(r["text"]).name == r["kernel"] for r in rows)


def test_recall_counts_what_is_missed(tmp_path: Path, capsys: Capture) -> None:
    """Programs that ran on a GPU are checked: one that hangs is flagged, one that ran right passes; labels of the
    simulator do not count."""
    programs = {"ok": print_program(read_program(ADD)), "hang": ADD.replace("arrivals=64", "arrivals=96")}
    with EvidenceWriter(tmp_path / "records.jsonl") as writer:
        for labeller in ("gpu", "simulator"):
            for outcome, text in programs.items():
                stage = "run" if labeller == "gpu" else "simulate"
                record = Record(
                    text_hash(text), outcome, stage, "add", device=labeller, origin=Origin(labeller=labeller)
                )
                writer.append(record, text)

    found = document(capsys, "corpus", "recall", str(tmp_path))

    assert sorted((c["outcome"], c["said"], c["codes"]) for c in found["cases"]) == [
        ("hang", "flagged", ["SYN002"]),
        ("ok", "passed", []),
    ]


def test_a_log_with_bad_lines_loses_nothing_else(small: str, tmp_path: Path, capsys: Capture) -> None:
    """A torn line, another schema, and a missing program are counted by reason; the rest is read."""
    log = tmp_path / "records.jsonl"
    document(capsys, "corpus", "mutate", "--seed", "5", "--count", "1", "--out", str(log), "--repo", small)
    lines = log.read_text().splitlines()
    alien = json.loads(lines[0]) | {"schema": 99}
    orphan = json.loads(lines[0]) | {"program": "0" * 64}
    log.write_text("\n".join([*lines, json.dumps(alien), json.dumps(orphan), lines[0][:40]]))

    counts = document(capsys, "corpus", "stats", str(log))

    assert counts["records"] == len(lines)
    assert sum(counts["skipped"].values()) == 3
    assert any("schema 99" in reason for reason in counts["skipped"])
