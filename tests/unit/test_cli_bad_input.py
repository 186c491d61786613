"""Bad input: each gives one clear sentence and the right exit code, runs nothing of it, and loses nothing."""

from __future__ import annotations

import builtins
import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cake.cli.app import run
from cake.core.errors import Exit

Capture = pytest.CaptureFixture[str]

MARKER = "touched"
HOSTILE = f'''
import pathlib
pathlib.Path("{MARKER}").write_text("this ran")

@schedule(target="sm_90a")
def k(X: Tensor[f32, "M"]):
    launch(ctas=__import__("os").system("touch {MARKER}"))
'''
UNKNOWN_NAME = """@schedule(target="sm_90a")
def k(X: Tensor[f32, "M"]):
    launch(ctas=M)
    rows = role(warps=1)

    with rows:
        x = fragment(f32, (1,), layout="thread")
        ld_globl(x, X[cta_id])
"""

#: file name -> contents, part of the message, exit code of `cake check`
BAD_FILES: dict[str, tuple[bytes, str, int]] = {
    "binary.cake": (bytes(range(256)), "not text", Exit.FINDINGS),
    "nul.cake": (b"def k():\0", "NUL", Exit.FINDINGS),
    "empty.cake": (b"", "one function", Exit.FINDINGS),
    "hostile.cake": (HOSTILE.encode(), "import", Exit.FINDINGS),
    "hostile.py": (HOSTILE.encode(), "unknown function", Exit.FINDINGS),
    "syntax.cake": (b"def k(:\n", "", Exit.FINDINGS),
    "name.cake": (UNKNOWN_NAME.encode(), "ld_global", Exit.FINDINGS),
    "notes.txt": (b"hello", "neither a .cake file", Exit.USAGE),
}


def write(folder: Path, name: str) -> Path:
    """The bad file `name`, in `folder`."""
    path = folder / name
    path.write_bytes(BAD_FILES[name][0])
    return path


@pytest.mark.parametrize("name", BAD_FILES)
def test_bad_files(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    """What is no schedule is refused with its reason, and nothing of it is run."""
    monkeypatch.chdir(tmp_path)

    code = run(["check", str(write(tmp_path, name))])

    captured = capsys.readouterr()
    assert code == BAD_FILES[name][2]
    assert BAD_FILES[name][1] in captured.out + captured.err
    assert "Traceback" not in captured.err
    assert not (tmp_path / MARKER).exists()


@pytest.mark.parametrize("verb", ["check", "facts", "sim", "lower", "compile"])
def test_no_verb_runs_a_program(verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    """Python in a `.cake` file is refused by every verb that reads one, and never run."""
    monkeypatch.chdir(tmp_path)

    assert run([verb, str(write(tmp_path, "hostile.cake"))]) == Exit.FINDINGS
    captured = capsys.readouterr()
    assert "`import` is not part of the language" in captured.out + captured.err
    assert "Traceback" not in captured.err
    assert not (tmp_path / MARKER).exists()


def test_a_refusal_quotes_the_line(tmp_path: Path, capsys: Capture) -> None:
    """A construction error is a finding: file, line, the line itself, and what to write instead."""
    path = write(tmp_path, "name.cake")

    run(["check", str(path)])

    out = capsys.readouterr().out
    assert f"{path}:8: IR ill-formed-program" in out
    assert "8 | ld_globl(x, X[cta_id])" in out
    assert "ld_global" in out


def test_a_refusal_has_a_place_in_json(tmp_path: Path, capsys: Capture) -> None:
    """The same refusal as data: one finding with its line, no configuration examined."""
    run(["check", str(write(tmp_path, "name.cake")), "--json"])

    document = json.loads(capsys.readouterr().out)
    assert [(f["code"], f["line"]) for f in document["findings"]] == [("IR", 8)]
    assert document["configurations"] == []


@pytest.mark.parametrize("verb", ["check", "sim", "lower", "compile"])
def test_missing_path(verb: str, capsys: Capture) -> None:
    """A path that does not exist is a usage error that names it."""
    code = run([verb, "no/such/kernel.cake"])

    assert code == Exit.USAGE
    assert "no/such/kernel.cake does not exist" in capsys.readouterr().err


def test_folder_without_schedule(tmp_path: Path, capsys: Capture) -> None:
    """A folder that is no kernel says what a kernel folder holds."""
    assert run(["check", str(tmp_path)]) == Exit.USAGE
    assert "no schedule.py" in capsys.readouterr().err


def test_huge_file_is_refused_unread(tmp_path: Path, capsys: Capture) -> None:
    """A file far larger than any schedule is refused by its size (the file is sparse: nobody reads a gigabyte)."""
    path = tmp_path / "huge.cake"
    with path.open("wb") as file:
        file.truncate(1 << 30)

    assert run(["check", str(path)]) == Exit.USAGE
    assert "1073741824 bytes" in capsys.readouterr().err


def test_unknown_configuration(capsys: Capture) -> None:
    """An unknown configuration is answered with the ones that there are."""
    assert run(["lower", "corpus/kernels/gemm_bf16", "--config", "m1"]) == Exit.USAGE
    assert "m128n256s4" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("shape", "message"),
    [("M", "'M' is not NAME=EXTENT"), ("M=0,N=8", "'M=0'"), ("M=4", "needs N"), ("M=4,N=8,Q=2", "no extent Q")],
)
def test_bad_shapes(shape: str, message: str, capsys: Capture) -> None:
    """A shape that does not fit the kernel says which part is wrong."""
    assert run(["sim", "corpus/kernels/rmsnorm_bf16", "--shape", shape]) == Exit.USAGE
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("order", ["soon", "lazy/x", "eager,lazy"])
def test_bad_orders(order: str, capsys: Capture) -> None:
    """An order that the simulator does not know is answered with those that it does."""
    assert run(["sim", "corpus/kernels/rmsnorm_bf16", "--order", order]) == Exit.USAGE
    assert "lazy/" in capsys.readouterr().err


@pytest.mark.parametrize("argv", [["distill", "run", "log"], ["proposals", "list"]])
def test_outside_a_repository(
    argv: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    """Verbs that need a Cake repository say so, and how to name one."""
    monkeypatch.chdir(tmp_path)

    assert run(argv) == Exit.ENVIRONMENT
    err = capsys.readouterr().err
    assert "no Cake repository" in err
    assert "--repo PATH" in err


def without(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """Make importing any of `names` fail, as where it is not installed."""
    real: Callable[..., Any] = builtins.__import__

    def fake(name: str, *args: Any, **kwargs: Any) -> Any:
        wanted = (name, *(f"{name}.{part}" for part in (args[2] if len(args) > 2 and args[2] else ())))
        if any(w == n or w.startswith(n + ".") for w in wanted for n in names):
            raise ImportError(f"No module named {name!r}")
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", fake)


def test_nvrtc_missing(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    """Without NVRTC, compile exits 3 and says what to install; lower still works."""
    from cake.core import compile as compiler

    without(monkeypatch, "cuda")
    compiler._nvrtc.cache_clear()

    code = run(["compile", "corpus/kernels/rmsnorm_bf16"])

    assert code == Exit.ENVIRONMENT
    assert "pip install 'cake-compiler[cuda]'" in capsys.readouterr().err
    assert run(["lower", "corpus/kernels/rmsnorm_bf16"]) == Exit.CLEAN


def test_doctor_without_cuda(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    """The doctor lists what is missing, what that disables and how to get it; a machine without a GPU is healthy."""
    from cake.core import compile as compiler

    without(monkeypatch, "cuda")
    compiler._nvrtc.cache_clear()

    code = run(["doctor", "--json"])

    items = {i["name"]: i for i in json.loads(capsys.readouterr().out)["items"]}
    assert code == Exit.CLEAN
    assert items["nvrtc"]["status"] == "missing"
    assert "compile" in items["nvrtc"]["disables"]
    assert "pip install" in items["nvrtc"]["remedy"]
    assert items["gpu"]["status"] == "missing"
    assert items["python"]["status"] == "ok"


def test_doctor_with_an_old_driver(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    """A driver that cannot load Cake's cubins is told with its version, and with what to install."""
    from cake.core import launch

    stub = SimpleNamespace(cuInit=lambda _: (0,), cuDriverGetVersion=lambda: (0, 12080))
    monkeypatch.setattr(launch, "_driver", lambda: stub)

    assert run(["doctor", "--json"]) == Exit.CLEAN
    (gpu,) = (i for i in json.loads(capsys.readouterr().out)["items"] if i["name"] == "gpu")
    assert (gpu["status"], gpu["remedy"]) == ("missing", "a machine with an NVIDIA GPU and its driver, 580 or newer")
    assert gpu["detail"].startswith("the NVIDIA driver supports CUDA 12.8, cubins of Cake need 13.0")


def test_doctor_without_clingo(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    """Without clingo nothing can be checked: the doctor exits 3."""
    without(monkeypatch, "clingo")

    code = run(["doctor"])

    assert code == Exit.ENVIRONMENT
    assert "clingo is missing" in capsys.readouterr().out


def test_doctor_names_broken_plugins(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    """A plugin that does not load is listed with its owner and its error."""
    from cake.core import registry

    problem = registry.PluginProblem("cake-pack-x", "pack x", "ImportError: boom")
    monkeypatch.setattr(registry, "problems", lambda: (problem,))

    run(["doctor"])

    assert "cake-pack-x: pack x: ImportError: boom" in capsys.readouterr().out
