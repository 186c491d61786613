"""The command line as a whole: start-up time, help that teaches, exit codes, errors in one sentence."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

import click
import pytest

from cake.cli.app import BUG, VERBS, root, run
from cake.core.errors import CakeError, Exit

ALL_VERBS = [verb for verbs in VERBS.values() for verb in verbs]


def commands() -> list[tuple[str, click.Command]]:
    """Every verb and sub-verb as typed, with its command."""
    context = click.Context(root)
    found = []
    for name in root.list_commands(context):
        command = root.get_command(context, name)
        assert command is not None
        found.append((name, command))
        if isinstance(command, click.Group):
            found += [(f"{name} {sub}", command.commands[sub]) for sub in command.commands]
    return found


def test_help_is_quick() -> None:
    """`cake --help` as a process takes under 0.3 s (median of five), since no verb is imported for it."""
    times = []
    for _ in range(5):
        start = time.perf_counter()
        subprocess.run([sys.executable, "-m", "cake.cli", "--help"], check=True, capture_output=True)
        times.append(time.perf_counter() - start)

    assert statistics.median(times) < 0.3


def test_help_imports_nothing_heavy() -> None:
    """`cake --help` loads neither numpy, clingo, git, rich nor a verb."""
    script = (
        "import sys; from cake.cli.app import run; run(['--help']); "
        "print(sorted({m.split('.')[0] for m in sys.modules} & {'numpy', 'clingo', 'git', 'rich', 'distill', 'torch'}))"
    )
    out = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout

    assert out.splitlines()[-1] == "[]"


@pytest.mark.parametrize(("name", "command"), commands(), ids=[name for name, _ in commands()])
def test_every_verb_teaches(name: str, command: click.Command, capsys: pytest.CaptureFixture[str]) -> None:
    """Every verb's help says what it does, shows an example of itself, and every leaf takes --json."""
    code = run([*name.split(), "--help"])

    out = capsys.readouterr().out
    assert code == Exit.CLEAN
    assert command.help
    assert f"$ cake {name.split()[0]}" in out
    if not isinstance(command, click.Group):
        assert "--json" in out


@pytest.mark.parametrize("argv", [["nonsense"], ["check"], ["check", "x.cake", "--format", "xml"], []])
def test_wrong_use_exits_2(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """A wrong call says what is wrong on stderr, prints nothing on stdout, and exits 2."""
    code = run(argv)

    captured = capsys.readouterr()
    assert code == Exit.USAGE
    assert captured.out == ""
    assert captured.err


def raising(error: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the root command raise `error` when it is run."""

    def main(**_: object) -> None:
        raise error

    monkeypatch.setattr(root, "main", main)


def test_cake_error_is_one_sentence(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A CakeError prints its message alone and exits with its code."""
    raising(CakeError("NVRTC is missing: pip install it", Exit.ENVIRONMENT), monkeypatch)

    code = run(["doctor"])

    assert code == Exit.ENVIRONMENT
    assert capsys.readouterr().err == "error: NVRTC is missing: pip install it\n"


def test_errors_have_a_json_form(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """With --json an error is one JSON document on stdout, so that a caller parses one thing only."""
    raising(CakeError("no such kernel", Exit.USAGE), monkeypatch)

    run(["doctor", "--json"])

    document = json.loads(capsys.readouterr().out)
    assert document == {"schema": 1, "error": {"message": "no such kernel", "exit_code": 2}}


def test_interrupt_exits_130(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Ctrl-C prints a sentence, no trace, and exits 130."""
    raising(KeyboardInterrupt(), monkeypatch)

    code = run(["doctor"])

    err = capsys.readouterr().err
    assert code == 130
    assert "interrupted" in err
    assert "Traceback" not in err


def test_a_bug_is_no_finding(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A crash of Cake shows its trace and exits with a code that says nothing about the user's program."""
    raising(ZeroDivisionError("oops"), monkeypatch)

    code = run(["doctor"])

    assert code == BUG
    assert code not in set(Exit)
    assert "ZeroDivisionError: oops" in capsys.readouterr().err


def test_a_closed_pipe_is_quiet() -> None:
    """`cake doctor --json | true` ends without a trace."""
    command = f"{sys.executable} -m cake.cli doctor --json | true"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False, cwd=Path.cwd())

    assert done.stderr == ""
