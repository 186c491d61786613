"""Gates of the *merge* tier: what runs in a clean clone of the branch, before a person may merge.

The suite and the isolation runs are processes of their own, on the branch's files and not on the caller's checkout.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from cake.core.clauses import evaluate
from cake.core.diagnostics import Verdict
from cake.core.errors import CakeError, Exit
from cake.core.explore import analyse
from cake.core.ir import IRError
from cake.core.reader import read_program
from cake.core.registry import targets
from cake.core.rule import Rule
from cake.core.rules import RuleError, read_rule_file
from distill.gates import MERGE_TIER, GateLine, parse_gates
from distill.gitrepo import GitRepo
from distill.isolation import ARRANGEMENTS
from distill.proposals import Branch

#: Seconds that the suite, and one isolation run, may take.
SUITE_LIMIT: Final = 1800
ISOLATION_LIMIT: Final = 120
RULES: Final = "cake/plugins/rules/"

Progress = Callable[[str], None]


def run_gates(git: GitRepo, branch: Branch, folder: Path, progress: Progress) -> tuple[GateLine, ...]:
    """The propose tier's lines as the bot committed them, then the merge tier's. Logs stay in `folder`."""
    data = git.file(branch.tip, f"proposals/{branch.slug}/gates.jsonl")
    if data is None:
        raise CakeError(f"{branch.name} carries no gates.jsonl: the distiller did not make it", Exit.ENVIRONMENT)
    proposed = [line for line in parse_gates(data.decode()) if line.gate not in MERGE_TIER]
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="cake-gate-") as scratch:
        clone = Path(scratch, "clone")
        git.export(branch.tip, clone)
        progress(f"{branch.slug}: isolation")
        alone = _isolation(clone, added_rule(git, branch), folder)
        progress(f"{branch.slug}: the test suite (minutes)")
        suite = _suite(clone, folder)
    return (*proposed, suite, alone)


def added_rule(git: GitRepo, branch: Branch) -> str:
    """Path of the one rule file that a branch adds. Raises CakeError when it adds none or several."""
    found = [p for p, status in git.changed(branch.base, branch.tip).items() if p.startswith(RULES) and status == "A"]
    if len(found) != 1:
        raise CakeError(f"{branch.name} adds {len(found)} rule files, not one")
    return found[0]


def _environment(clone: Path) -> dict[str, str]:
    """The caller's, with the clone's packages first and nothing of git's that would lead elsewhere."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
    return {**kept, "PYTHONPATH": str(clone), "PYTHONDONTWRITEBYTECODE": "1", "CI": "true"}


def _run(command: Sequence[str], clone: Path, log: Path, limit: float) -> int | None:
    """Exit status of a command in the clone, its output in `log`; None when it ran past `limit` seconds."""
    with log.open("wb") as out:
        try:
            done = subprocess.run(
                command, cwd=clone, env=_environment(clone), stdout=out, stderr=subprocess.STDOUT, timeout=limit
            )
        except subprocess.TimeoutExpired:
            return None
    return done.returncode


def _suite(clone: Path, folder: Path) -> GateLine:
    """The whole test suite, but for tests that themselves run gates or need a GPU."""
    missing = [m for m in ("xdist", "pytest_timeout") if importlib.util.find_spec(m) is None]
    if missing:
        return GateLine("suite", Verdict.UNKNOWN, 0, f"{', '.join(missing)} is not installed; `make test` sets it up")
    log = folder / "suite.log"
    command = [sys.executable, "-m", "pytest", "-q", "-n", "2", "--dist", "loadgroup", "--timeout", "300"]
    status = _run([*command, "-p", "no:cacheprovider", "-m", "not gates and not gpu"], clone, log, SUITE_LIMIT)
    text = log.read_text(errors="replace")
    last = next((line for line in reversed(text.splitlines()) if " in " in line), "no closing line")
    passed = int(match[1]) if (match := re.search(r"(\d+) passed", last)) else 0
    if status is None:
        return GateLine("suite", Verdict.UNKNOWN, passed, f"not done in {SUITE_LIMIT} s; see {log.name}")
    failed = next((line for line in text.splitlines() if line.startswith(("FAILED", "ERROR"))), "")
    closing = re.sub(r" in [\d.]+s.*", "", last.strip("= "))
    good = status == 0 and passed > 0
    return GateLine("suite", Verdict.PASS if good else Verdict.FAIL, passed, closing if good else failed or closing)


def _isolation(clone: Path, rule_file: str, folder: Path) -> GateLine:
    """The rule's verdict on its own pair in every arrangement of rules, each in a fresh process."""
    seen: dict[str, str] = {}
    for arrangement in ARRANGEMENTS:
        log = folder / f"isolation-{arrangement}.log"
        status = _run([sys.executable, "-m", "distill.isolation", rule_file, arrangement], clone, log, ISOLATION_LIMIT)
        text = log.read_text(errors="replace").strip()
        if status != 0:
            why = text.splitlines()[-1] if text else "no output"
            return GateLine("isolation", Verdict.FAIL, len(seen), f"{arrangement}: {why}")
        seen[arrangement] = json.dumps(json.loads(text.splitlines()[-1]), sort_keys=True)
    n = len(seen)
    if len(set(seen.values())) > 1:
        return GateLine("isolation", Verdict.FAIL, n, f"the verdict depends on the arrangement: {seen}")
    return GateLine("isolation", Verdict.PASS, n, f"the same verdict {', '.join(seen)}, each in a fresh process")


# --------------------------------------------------------------------------------------------------------- superseding


def explains(git: GitRepo, merged: Branch, other: Branch) -> bool:
    """Whether the rule of `merged` flags the failing program of `other`, and not its repair."""
    rule = _rule(git, merged)
    code = other.name.rpartition("/")[2].partition("-")[0].upper()
    bad = git.file(other.tip, f"corpus/bad/{code}/bad.cake")
    good = git.file(other.tip, f"corpus/bad/{code}/good.cake")
    if rule is None or bad is None or good is None:
        return False
    return _flags(rule, bad.decode()) and not _flags(rule, good.decode())


def _rule(git: GitRepo, branch: Branch) -> Rule | None:
    path = added_rule(git, branch)
    with tempfile.TemporaryDirectory(prefix="cake-rule-") as scratch:
        file = Path(scratch, Path(path).name)
        file.write_bytes(git.file(branch.tip, path) or b"")
        try:
            return read_rule_file(file)
        except RuleError:
            return None


def _flags(rule: Rule, text: str) -> bool:
    try:
        program = read_program(text)
    except IRError:
        return False
    analysis = analyse(program, targets().get(program.target))
    return bool(evaluate([rule], analysis.facts, analysis.complete).hits.get(rule.code))
