"""`cake packs check`: a pack's rules through the gates that ours pass, on Cake's corpus. Imports no pack."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from cake.core.clauses import Evaluation, evaluate
from cake.core.corpus import clean_programs
from cake.core.diagnostics import Verdict
from cake.core.errors import CakeError
from cake.core.explore import analyse
from cake.core.ir import IRError, Program
from cake.core.packs import Pack, State, list_packs, open_pack
from cake.core.reader import read_program
from cake.core.registry import default
from cake.core.rule import Rule
from cake.core.rules import RuleError, lint_rule, lint_set, read_rule_file


@dataclass(frozen=True, slots=True)
class PackGate:
    """One gate's verdict on a pack; `details` are its reasons, one a line, empty when there is nothing to say."""

    name: str
    verdict: Verdict
    domain: str
    details: tuple[str, ...] = ()


def check_pack(pack: Pack, root: Path | None = None) -> tuple[PackGate, ...]:
    """The gates of one pack: readable, lint, pair, novelty, clean corpus (that of the repository `root`, or the
    installed one), code. A pack that is broken has only the first. Raises CakeError where there is no corpus."""
    if pack.state is State.BROKEN:
        return (PackGate("readable", Verdict.FAIL, "files of the pack", (pack.problem,)),)
    rules: list[Rule] = []
    unread: list[str] = []
    for file in sorted(pack.rules.rglob("*.py")):
        try:
            rule = read_rule_file(file, pack.distribution)
        except RuleError as error:
            unread.append(error.message)
            continue
        rules.append(replace(rule, code=f"{pack.name}:{rule.code}"))
    if not rules and not unread:
        unread.append(f"no rule file in {pack.rules}")
    gates = [_gate("readable", f"{len(rules) + len(unread)} rule files", unread), _lint(pack, rules)]
    gates += [_pair(pack, rules), _novelty(rules), _clean(rules, root)]
    if pack.kind == "code":
        reason = "its modules are not run by this check; read them before trusting the hash"
        gates.append(PackGate("code", Verdict.UNKNOWN, "Python modules of the pack", (reason,)))
    return tuple(gates)


def find_pack(target: str) -> Pack:
    """The pack in the folder `target`, or the installed one of that name. Raises CakeError when there is neither."""
    if Path(target).is_dir():
        return open_pack(Path(target))
    found = {p.name: p for p in list_packs()}
    if target not in found:
        raise CakeError(f"{target!r} is neither a folder nor an installed pack ({', '.join(found) or 'there is none'})")
    return found[target]


def _gate(name: str, domain: str, faults: Sequence[str]) -> PackGate:
    return PackGate(name, Verdict.FAIL if faults else Verdict.PASS, domain, tuple(faults))


def _lint(pack: Pack, rules: Sequence[Rule]) -> PackGate:
    faults = [line for rule in rules for line in lint_rule(rule, None, _examples(pack, rule))]
    return _gate("lint", f"{len(rules)} rules", [*faults, *lint_set(rules)])


def _examples(pack: Pack, rule: Rule) -> Path:
    return pack.examples / rule.code.partition(":")[2]


def flags(rules: Sequence[Rule], program: Program) -> Evaluation:
    """What `rules` find in one program."""
    analysis = analyse(program, default().table("target").get(program.target))
    return evaluate(rules, analysis.facts, analysis.complete)


def _pair(pack: Pack, rules: Sequence[Rule]) -> PackGate:
    """Each rule flags its bad programs and none of its good ones."""
    faults: list[str] = []
    n = 0
    for rule in rules:
        for name in (*rule.bad, *rule.good):
            n += 1
            try:
                program = read_program((_examples(pack, rule) / name).read_text(encoding="utf-8"), name)
            except (OSError, UnicodeDecodeError, IRError) as error:
                faults.append(f"{rule.code}: {name}: {error}")
                continue
            found = flags([rule], program)
            if rule.code in found.unknown:
                faults.append(f"{rule.code}: {name}: unknown, {found.unknown[rule.code]}")
            elif bool(found.hits[rule.code]) != (name in rule.bad):
                faults.append(f"{rule.code}: {name} is {'not ' if name in rule.bad else ''}flagged")
    return _gate("pair", f"{n} programs of {len(rules)} rules", faults)


def _novelty(rules: Sequence[Rule]) -> PackGate:
    """No rule has the clauses of one that is loaded already."""
    known = [r for r in default().table("rule").values() if r.origin != (rules[0].origin if rules else "")]
    faults = [line for line in lint_set([*known, *rules]) if "the same clauses" in line]
    return _gate("novelty", f"{len(known)} rules of others", faults)


def _clean(rules: Sequence[Rule], root: Path | None) -> PackGate:
    """No rule flags a program of the clean corpus, all of which run correctly."""
    faults: list[str] = []
    unknown: list[str] = []
    corpus = clean_programs(root)
    families = len({c.family for c in corpus})
    for clean in corpus:
        name = f"{clean.family}[{clean.config}]"
        found = flags(rules, clean.program)
        faults += [f"{code} flags {name}" for code, hits in sorted(found.hits.items()) if hits]
        unknown += [f"{code} on {name}: {why}" for code, why in sorted(found.unknown.items())]
    bound = 1 - 0.05 ** (1 / families) if families else 1.0
    domain = f"{len(corpus)} programs of {families} families (95 %: fewer than {bound:.0%} of families flagged)"
    gate = _gate("clean corpus", domain, faults)
    return replace(gate, verdict=Verdict.UNKNOWN, details=tuple(unknown)) if unknown and not faults else gate
