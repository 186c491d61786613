"""`cake check`: the four static categories, in milliseconds, before any compiler or GPU runs."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click

from cake.cli.app import Verb
from cake.cli.findings import Located, as_json, github, locate, merge, sarif, write_text
from cake.cli.output import json_option, plain, plural, print_json, style, table, verdict
from cake.core.diagnostics import STATIC_CATEGORIES, Category, Finding, GateResult, Verdict
from cake.core.errors import CakeError, Exit
from cake.core.ir import IRError
from cake.core.rule import Rule

#: Code of a program that cannot be built at all: a finding like any other, with its file and line.
ILL_FORMED: Final = "IR"


@dataclass(frozen=True, slots=True)
class Result:
    """What `cake check` found in one configuration, and on what domain. `seconds` is analysis and rules, without
    reading the file."""

    label: str
    config: str
    gates: tuple[GateResult, ...]
    domain: str
    seconds: float


def select_rules(rules: Sequence[Rule], select: Sequence[str], ignore: Sequence[str]) -> list[Rule]:
    """Rules whose code starts with one of `select` (all when empty) and with none of `ignore`.

    Entries may be joined by commas. Raises CakeError (usage) for an entry that no rule's code starts with.
    """

    def prefixes(option: str, given: Sequence[str]) -> list[str]:
        parts = [p.strip().upper() for entry in given for p in entry.split(",") if p.strip()]
        for part in parts:
            if not any(r.code.startswith(part) for r in rules):
                known = ", ".join(sorted({r.code.rstrip("0123456789") for r in rules}))
                raise CakeError(f"{option}: no rule's code starts with {part!r}; families are {known}")
        return parts

    wanted, unwanted = prefixes("--select", select), prefixes("--ignore", ignore)
    return [
        r
        for r in rules
        if (not wanted or r.code.startswith(tuple(wanted))) and not (unwanted and r.code.startswith(tuple(unwanted)))
    ]


def ill_formed(error: IRError) -> Finding:
    """The finding that stands for a program that the reader refused."""
    return Finding(
        code=ILL_FORMED,
        name="ill-formed-program",
        category=Category.PROGRAM_SAFETY,
        message=error.message,
        paths=(),
        span=error.span,
        source="reader",
    )


@click.command(
    cls=Verb,
    examples={
        "cake check corpus/kernels/gemm_bf16": "every configuration of a kernel",
        "cake check corpus/kernels/gemm_bf16 --config m128n128s6": "one of them",
        "cake check broken.cake --select SYN": "only the rules of one family",
        "cake check . --format github": "annotations for a pull request (also: json, sarif)",
    },
)
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--config", default="all", metavar="NAME|all", help="Configuration to check.", show_default=True)
@click.option("--select", multiple=True, metavar="CODE", help="Only rules whose code starts so; commas join several.")
@click.option("--ignore", multiple=True, metavar="CODE", help="Leave out rules whose code starts so.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json", "sarif", "github"]),
    default="text",
    show_default=True,
    help="How to print what was found.",
)
@json_option
def check(
    path: Path,
    config: str,
    select: tuple[str, ...],
    ignore: tuple[str, ...],
    form: str,
    as_json: bool,
) -> None:
    """Find faults in PATH before any compiler or GPU runs.

    PATH is a .cake file, a schedule.py or a kernel folder. It is read, never executed. A finding names the role, the
    barrier, the stage and the line; `cake explain CODE` says what happens on the machine. A `pass` holds for all trip
    counts; what could not be examined is `unknown`. Exits 1 unless all four static categories pass.
    """
    form = "json" if as_json else form
    located, results, rules = examine(path, config, select, ignore)
    if form == "json":
        print_json(_document(path, located, results, rules))
    elif form == "sarif":
        from importlib.metadata import version

        click.echo(json.dumps(sarif(located, version("cake-compiler")), indent=2))
    elif form == "github":
        for item in located:
            click.echo(github(item))
    else:
        _text(path, located, results, rules)
    refused = any(item.finding.code == ILL_FORMED for item in located)
    if refused or any(g.verdict is not Verdict.PASS for r in results for g in r.gates):
        raise click.exceptions.Exit(Exit.FINDINGS)


def examine(
    path: Path, config: str, select: Sequence[str] = (), ignore: Sequence[str] = ()
) -> tuple[list[Located], list[Result], list[Rule]]:
    """Check every chosen configuration of `path`: the merged findings, a result for each, and the rules that ran.

    A configuration that cannot be built gives one finding and no result.
    """
    from cake.cli.programs import read_text, subjects
    from cake.core.registry import rules as all_rules

    chosen = select_rules(list(all_rules().values()), select, ignore)
    sources: dict[str, list[str]] = {}

    def refused(error: IRError, config: str = "") -> Located:
        file = error.span.file if error.span.line else str(path)
        if file not in sources and Path(file).is_file():
            sources[file] = read_text(Path(file)).splitlines()
        return locate(ill_formed(error), file, sources, config)

    try:
        found = subjects(path, config)
    except IRError as error:
        return [refused(error)], [], chosen
    from cake.core.verify import check as verify

    located: list[Located] = []
    results: list[Result] = []
    for subject in found:
        file = str(subject.file)
        sources.setdefault(file, read_text(subject.file).splitlines())
        try:
            program = subject.program
        except IRError as error:
            located.append(refused(error, subject.config))
            continue
        start = time.perf_counter()
        checked = verify(program, chosen)
        seconds = time.perf_counter() - start
        results.append(Result(subject.label, subject.config, checked.gates, checked.analysis.domain, seconds))
        located += [locate(f, file, sources, subject.config) for f in checked.findings]
    return merge(located), results, chosen


def _document(path: Path, located: list[Located], results: list[Result], rules: list[Rule]) -> dict[str, Any]:
    return {
        "path": str(path),
        "findings": [as_json(item) for item in located],
        "configurations": [
            {
                "config": r.config,
                "seconds": round(r.seconds, 4),
                "gates": {g.category.value: _gate(g) for g in r.gates},
            }
            for r in results
        ],
        "rules": [r.code for r in rules],
    }


def _gate(gate: GateResult) -> dict[str, Any]:
    document: dict[str, Any] = {"verdict": gate.verdict.value, "domain": gate.domain}
    if gate.reason:
        document["reason"] = gate.reason
    if gate.metrics:
        document["metrics"] = plain(gate.metrics)
    return document


def _text(path: Path, located: list[Located], results: list[Result], rules: list[Rule]) -> None:
    for item in located:
        write_text(item, len(results))
    if not results:
        click.echo(f"{path}: no program could be built, so no category was examined")
        return
    header = ("configuration", *STATIC_CATEGORIES, "ms")
    rows = [(r.config or r.label, *(verdict(g.verdict) for g in r.gates), f"{1000 * r.seconds:.0f}") for r in results]
    click.echo(table(header, rows))
    reasons = (g.reason.split("; ") for r in results for g in r.gates if g.verdict is Verdict.UNKNOWN)
    for reason in dict.fromkeys(part for parts in reasons for part in parts):
        click.echo(f"{style('unknown:', fg='yellow')} {reason}")
    for domain in dict.fromkeys(r.domain for r in results):
        names = ", ".join(r.config for r in results if r.domain == domain and r.config)
        click.echo(style(f"examined{f' ({names})' if names else ''}: {domain}", dim=True))
    from cake.core.registry import rules as all_rules

    found = plural(len(located), "finding") if located else "no findings"
    left_out = len(all_rules()) - len(rules)
    ran = plural(len(rules), "rule") + (f" ({left_out} left out: their faults were not looked for)" if left_out else "")
    click.echo(f"{found}: {plural(len(results), 'configuration')}, {ran}")


COMMANDS: Final = {"check": check}
