"""From a learnt clause to a rule that a person can read: tidy variables, a name, a message, help and reasons."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from cake.core.clauses import (
    Aggregate,
    Atom,
    Clause,
    Clauses,
    Compare,
    Constant,
    Literal,
    Not,
    Term,
    Variable,
    Wildcard,
    check_clauses,
    fingerprint,
)
from cake.core.clauses_tree import map_terms, variables
from cake.core.diagnostics import Category
from cake.core.rule import Rule
from cake.core.vocabulary import RELATIONS
from distill import words
from distill.learn import Candidate
from distill.saturate import objects

#: The family of a rule, by the relations that it reads; the first that fits.
FAMILIES: Final = (
    ("MMA", ("register_fenced",)),
    ("RES", ("registers", "register_total", "limit", "uses")),
    ("LAY", ("overlap", "alignment", "view", "view_extent")),
    (
        "SYN",
        ("phase", "phase_role", "lead", "first_parity", "parity", "net", "paced", "lasting", "guards", "id_overlap"),
    ),
    ("MEM", ("conflict", "ordered", "visible", "reads_unwritten", "supersedes", "outside", "covers", "retired")),
    ("MEM", ("in_bounds", "global_access")),
    ("TMA", ("tensor_map", "box_extent", "uses_map")),
    ("SYN", ("barrier", "waits", "arrives", "expects", "completes", "syncs", "same_trip")),
)
DEFAULT_FAMILY: Final = "MEM"
_CATEGORY: Final = {
    "hang": Category.PROGRAM_SAFETY,
    "illegal_address": Category.PROGRAM_SAFETY,
    "misaligned_address": Category.HARDWARE_CONFORMANCE,
    "illegal_instruction": Category.HARDWARE_CONFORMANCE,
    "launch_failure": Category.HARDWARE_CONFORMANCE,
    "compile_error": Category.HARDWARE_CONFORMANCE,
    "mismatch": Category.DATA_CONSISTENCY,
    "nondeterminism": Category.DATA_CONSISTENCY,
}
_EFFECT: Final = {
    "hang": "hang",
    "illegal_address": "stop at an illegal address",
    "misaligned_address": "stop at a misaligned address",
    "illegal_instruction": "stop at an illegal instruction",
    "launch_failure": "cannot be launched",
    "compile_error": "do not compile",
    "mismatch": "give wrong results",
    "nondeterminism": "give results that differ from run to run",
}


@dataclass(frozen=True, slots=True)
class Support:
    """What stands behind a rule: its outcome, and how many failing programs on which device, with an example's hash."""

    outcome: str
    devices: Mapping[str, int]
    example: str
    kernels: tuple[str, ...]


def tidy(candidate: Candidate) -> Clause:
    """The candidate as a person would write it: words and equal numbers in place, `_` for what is used once, names
    taken from the vocabulary's columns, the head's op first, conditions last."""
    body = list(candidate.body)
    for literal in list(body):
        if isinstance(literal, Compare) and literal.op == "=" and isinstance(literal.left, Variable):
            body.remove(literal)
            body = [_substituted(b, literal.left.name, literal.right) for b in body]
    ordered = _in_order(candidate.head, body)
    ordered = _blanked(candidate.head, ordered)
    names = _names(candidate.head, ordered)
    ordered = [map_terms(b, lambda t: _renamed(t, names), lambda r: r) for b in ordered]
    head = names[candidate.head]
    rest = [v for v in _head_variables(ordered) if v != head]
    clause = Clause(Atom("finding", tuple(Variable(v) for v in (head, *rest))), tuple(ordered))
    check_clauses(Clauses((clause,)))
    return clause


def _substituted(literal: Literal, name: str, by: Term) -> Literal:
    return map_terms(literal, lambda t: by if isinstance(t, Variable) and t.name == name else t, lambda r: r)


def _in_order(head: str, body: Sequence[Literal]) -> list[Literal]:
    """Atoms outwards from the head, then aggregates, negations and comparisons."""
    known, rest = {head}, [b for b in body if isinstance(b, Atom)]
    done: list[Literal] = []
    while rest:
        near = [b for b in rest if variables(b) & known] or rest
        # What mentions most of what is known comes first; then the head's own atom; then the vocabulary's order.
        best = min(near, key=lambda b: (-len(variables(b) & known), head not in variables(b), _rank(b), str(b)))
        rest.remove(best)
        done.append(best)
        known |= variables(best)
    for kind in (Aggregate, Not, Compare):
        done += sorted((b for b in body if isinstance(b, kind)), key=str)
    return done


def _rank(atom: Atom) -> int:
    return list(RELATIONS).index(atom.relation)


def _blanked(head: str, body: Sequence[Literal]) -> list[Literal]:
    """Variables that occur once become `_`, inside aggregates where the language allows it; but what a fault is about
    keeps its name, so that the finding can say it."""
    uses = Counter(t.name for b in body for t in _all_terms(b) if isinstance(t, Variable))
    uses[head] += 1
    for literal in body:
        if isinstance(literal, Atom) and literal.relation in words.ADJECTIVE:
            about = (literal.terms[i] for i in objects(RELATIONS[literal.relation]))
            uses.update(t.name for t in about if isinstance(t, Variable))

    def blank(literal: Literal) -> Literal:
        if not isinstance(literal, Atom | Not):
            return literal
        return map_terms(
            literal, lambda t: Wildcard() if isinstance(t, Variable) and uses[t.name] == 1 else t, lambda r: r
        )

    return [blank(b) for b in body]


def _all_terms(literal: Literal) -> list[Term]:
    match literal:
        case Atom(terms=terms) | Not(Atom(terms=terms)):
            return list(terms)
        case Compare(_, left, right):
            return [left, right]
        case Aggregate(terms=terms, atom=atom, bound=bound):
            return [*terms, *atom.terms, bound]


def _names(head: str, body: Sequence[Literal]) -> dict[str, str]:
    """A readable name for each variable: its column's, with a number when it is taken."""
    found: dict[str, str] = {}
    taken: Counter[str] = Counter()

    def give(variable: str, column: str) -> None:
        if variable not in found:
            taken[column] += 1
            found[variable] = column if taken[column] == 1 else f"{column}{taken[column]}"

    for literal in body:
        for atom in (literal,) if isinstance(literal, Atom) else ():
            for term, column in zip(atom.terms, RELATIONS[atom.relation].columns, strict=True):
                if isinstance(term, Variable):
                    give(term.name, column.name)
    for literal in body:
        if isinstance(literal, Aggregate):
            for term, column in zip(literal.atom.terms, RELATIONS[literal.atom.relation].columns, strict=True):
                if isinstance(term, Variable):
                    give(term.name, f"Each{column.name}")
            if isinstance(literal.bound, Variable):
                give(literal.bound.name, "Count" if literal.function == "#count" else "Total")
    give(head, "Op")
    return found


def _renamed(term: Term, names: Mapping[str, str]) -> Term:
    return Variable(names[term.name]) if isinstance(term, Variable) else term


def _head_variables(body: Sequence[Literal]) -> list[str]:
    """What a finding should name: the ops and declared things of the clause, and the numbers that it compares."""
    found: dict[str, None] = {}
    for literal in body:
        if isinstance(literal, Atom):
            for term, column in zip(literal.terms, RELATIONS[literal.relation].columns, strict=True):
                if isinstance(term, Variable) and column.type not in ("int", "symbol", "name"):
                    found.setdefault(term.name)
    for literal in body:
        if isinstance(literal, Compare):
            for term in (literal.left, literal.right):
                if isinstance(term, Variable):
                    found.setdefault(term.name)
    return list(found)


# ---------------------------------------------------------------------------------------------------------------- words


def _telling(clause: Clause) -> list[Literal]:
    """The literals that make it a fault, rather than say what is looked at."""
    core = [
        b
        for b in clause.body
        if isinstance(b, Not | Compare)
        or (isinstance(b, Atom) and (b.relation in words.ADJECTIVE or any(isinstance(t, Constant) for t in b.terms)))
    ]
    scene = [b for b in clause.body if isinstance(b, Atom) and b.relation == "conflict"]
    return [*scene, *core] if core else list(clause.body)


def message(clause: Clause) -> str:
    """One line for a finding, with the head's variables as placeholders."""
    bound = words.binding(clause)
    show = {t.name: f"{{{t.name}}}" for t in clause.head.terms if isinstance(t, Variable)}
    atoms = [b for b in clause.body if isinstance(b, Atom)]
    said = [
        (words.within(b, atoms, show) if isinstance(b, Compare) else "") or words.sentence(b, bound, show)
        for b in _telling(clause)
    ]
    first = clause.head.terms[0]
    text = "; ".join(dict.fromkeys(said))
    return text if f"{{{first}}}" in text else f"{{{first}}}: {text}"


def mending(clause: Clause) -> str:
    """What to do about it."""
    bound = words.binding(clause)
    show = {t.name: f"{{{t.name}}}" for t in clause.head.terms if isinstance(t, Variable)}
    said = []
    for literal in clause.body:
        match literal:
            case Atom(relation=relation) if relation in words.UNDO:
                said.append(words.fill_atom(words.UNDO[relation], literal, show))
            case Not(atom) if atom.relation in words.MEND:
                said.append(words.fill_atom(words.MEND[atom.relation], atom, show))
            case Compare(op, Variable(name=a), Variable(name=b)) if op in ("!=", "<", ">"):
                said.append(f"Make the {words.noun(bound[a])} and the {words.noun(bound[b])} agree.")
    first = clause.head.terms[0]
    return " ".join(dict.fromkeys(said)) or f"Change {{{first}}} so that this no longer holds."


def reasons(clause: Clause, support: Support) -> str:
    """Why it is a fault: what the clause says, literal by literal, and what came of the programs that did it."""
    bound = words.binding(clause)
    show = {t.name: t.name for b in clause.body for t in _all_terms(b) if isinstance(t, Variable)}
    said = list(dict.fromkeys(words.sentence(b, bound, show) for b in clause.body if not isinstance(b, Aggregate)))
    total = sum(support.devices.values())
    where = ", ".join(f"{n} on {d}" for d, n in sorted(support.devices.items()))
    effect = _EFFECT.get(support.outcome, f"end in {support.outcome}")
    text = "; ".join(said)
    return f"{text[0].upper()}{text[1:]}. Of programs in which this is so, {total} on record {effect} ({where})."


def category(outcome: str) -> Category:
    """The category of a fault that shows as `outcome`."""
    return _CATEGORY.get(outcome, Category.PROGRAM_SAFETY)


def family(clause: Clause) -> str:
    """The three letters of the family that a clause belongs to."""
    relations = Clauses((clause,)).relations
    for name, about in FAMILIES:
        if relations & set(about):
            return name
    return DEFAULT_FAMILY


def compose(candidate: Candidate, support: Support, code: str, since: str) -> Rule:
    """The rule, under `code`."""
    clause = tidy(candidate)
    total = sum(support.devices.values())
    devices = ", ".join(f"{n} {support.outcome} records from {d}" for d, n in sorted(support.devices.items()))
    return Rule(
        code=code,
        name=words.name_of(clause),
        category=category(support.outcome),
        since=since,
        finding=str(clause),
        message=message(clause),
        help=mending(clause),
        why=reasons(clause, support),
        evidence=(f"{devices}, {', '.join(support.kernels)}; for example program {support.example[:16]}",),
        bad=("bad.cake",),
        good=("good.cake",),
        status="stable" if total > 1 else "preview",
    )


def clause_key(clause: Clause) -> str:
    """The hash of the clause, whatever its variables are called and whatever else its head names."""
    return fingerprint(Clauses((Clause(Atom("finding", clause.head.terms[:1]), clause.body),)))
