"""Words for clauses: a rule's name, its variables, its sentences, from what the clause says. Deterministic tables.

`FACT` says what a tuple of a relation means, `LACK` what it means that there is none, `NOUN` what a number is. Braces
name columns; what stands in brackets is left out where a column in it has no name. A relation that is missing from a
table is described by its documentation.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from cake.core.clauses import Aggregate, Atom, Clause, Compare, Constant, Literal, Not, Term, Variable, Wildcard
from cake.core.vocabulary import RELATIONS, Column

FACT: Final[Mapping[str, str]] = {
    "role": "{Role} is a role[ with {Instances} instances][ with {Warps} warps each]",
    "op": "{Op} is a {Kind} of {Role}",
    "opaque": "{Op} is declared only in part",
    "one_lane": "one lane executes {Op}",
    "conditional": "{Op} stands under a condition",
    "varying": "{Op} stands where lanes of a warp may differ",
    "collective": "the whole {Scope} must execute {Op} together",
    "loop": "{Op} stands in the loop {Loop}",
    "next": "{B} may follow {A} directly",
    "back": "{B} may follow {A} in the next iteration",
    "same_trip": "{L} and {M} have the same trip count",
    "may_skip": "{L} may run no iteration",
    "const": "{Field} of {Op} is {Value}",
    "flag": "{Field} of {Op} is {Value}",
    "index": "coordinate {Dim} of {Field} in {Op} depends on {Var}",
    "smem": "{Buf} is a region[ with {Stages} stages][ with {StageBytes} bytes a stage][ with swizzle {Swizzle}]",
    "alignment": "{Object} is aligned to {Factor}",
    "overlap": "{A} and {B} share bytes",
    "tensor_map": "{Map} is a map[ with {BoxBytes} bytes a box][ with {InnerBytes} bytes a row][ with span {Swizzle}]",
    "box_extent": "extent {Dim} of the box of {Map} is {N}",
    "uses_map": "{Op} moves through {Map}",
    "view": "{Op} works on a box[ of {Bytes} bytes] in {Buf}",
    "view_extent": "extent {Dim} of {Field} in {Op} is {N}",
    "touches": "{Op} touches {Cell}",
    "outside": "{Op} reaches outside {Buf}",
    "covered": "{Bytes} bytes of a stage of {Buf} are touched",
    "global_access": "each thread accesses[ {Bytes} bytes of] {Tensor} in {Op}[, at addresses aligned to {Alignment}]",
    "in_bounds": "guards and loop bounds keep {Op} inside {Tensor}",
    "barrier": "{Bar} is declared[ with {Slots} slots][ with {Arrivals} arrivals]",
    "id_overlap": "{A} and {B} share a hardware barrier",
    "waits": "{Op} waits on {Bar}",
    "arrives": "{Op} arrives on {Bar}[ with {Arrivals} arrivals]",
    "expects": "{Op} announces[ {Bytes}] bytes on {Bar}",
    "completes": "{Op} delivers[ {Bytes}] bytes to {Bar}",
    "syncs": "{Op} takes part in {Bar}",
    "phase": "a phase of {Bar} can be seen[ {State}][ with {Arrivals} arrivals][ with {Expected} bytes awaited]"
    "[ with {Delivered} bytes delivered]",
    "phase_role": "a phase of {Bar} counts {Arrivals} arrivals from {Role}",
    "net": "an iteration of {Loop} waits {N} more times on {Waited} than it arrives on {Arrived}",
    "parity": "{Op} waits for a parity[ that is {Source}]",
    "first_parity": "the first parity that {Op} waits for is {Value}",
    "lead": "the slot that {Op} waits for is {N} phases ahead of its waits",
    "paced": "{Op} acts on {Bar} only when the previous phase is complete",
    "lasting": "the phase that {Op} waits for on {Bar} lasts until it is seen",
    "guards": "{Wait} is the last wait before {Access}",
    "same_slot": "{Access} touches the slot that {Wait} waited for",
    "completes_slot": "{Op} completes the slot that it fills",
    "async": "{Op} starts an asynchronous operation on {Timeline}",
    "commits": "{Commit} closes the group of {Start}",
    "group_wait": "{Op} waits for groups of {Timeline}",
    "covers": "{Wait} is the first to know that the {Ends} of {Start} are done",
    "outstanding": "{N} groups of {Timeline} are unfinished behind {Op}",
    "retired": "the issuer of {Start} knows at its end that {Start} is done",
    "register_fenced": "the registers of {Start} are fenced before it begins",
    "fences": "{Op} fences the {Proxy} proxy",
    "conflict": "{A} and {B} touch the same bytes[ of {Cell}]",
    "conflict_kind": "{A} and {B} conflict",
    "ordered": "{A} is done before {B} begins",
    "visible": "{B} sees what {A} did",
    "reads_unwritten": "{Op} reads what nothing wrote to {Cell}",
    "supersedes": "{B} overwrites what {A} wrote to {Cell} before anything read it",
    "limit": "the target's limit of {Name} is {N}",
    "uses": "the program uses {N} of {Name}",
    "registers": "{Op} sets the registers of {Role} to {Count}",
    "register_total": "the roles together hold {N} registers",
}
LACK: Final[Mapping[str, str]] = {
    "ordered": "nothing makes {B} wait until {A} is done",
    "visible": "nothing makes what {A} did visible to {B}",
    "paced": "{Op} may act on {Bar} before the previous phase is complete",
    "lasting": "the phase that {Op} waits for on {Bar} may be over, and the next one too, before {Op} looks",
    "same_slot": "{Access} touches another slot than {Wait} waited for",
    "completes_slot": "{Op} completes another slot than it fills",
    "covers": "nothing learns that {Start} is done",
    "commits": "nothing closes the group of {Start}",
    "retired": "the issuer of {Start} may end before it knows that {Start} is done",
    "register_fenced": "nothing fences the registers of {Start} before it begins",
    "one_lane": "every thread executes {Op}",
    "same_trip": "{L} and {M} need not run equally often",
    "waits": "{Op} waits on no such barrier",
    "arrives": "nothing arrives on {Bar}",
    "expects": "nothing announces bytes on {Bar}",
    "completes": "nothing delivers bytes to {Bar}",
    "loop": "{Op} stands in no such loop",
    "fences": "nothing fences the proxy",
    "in_bounds": "no guard or loop bound keeps {Op} inside {Tensor} for every extent",
}
#: What it means that no tuple holds the one object that is named.
NONE: Final[Mapping[str, str]] = {
    "same_trip": "no other loop is known to run as often as {One}",
}
#: What to do about a tuple that is missing.
MEND: Final[Mapping[str, str]] = {
    "ordered": "Let {B} wait for {A}: a barrier that the role of {A} arrives on once it is done, or a group wait.",
    "visible": "Put a proxy fence between {A} and {B}, by the threads of {A}, before they hand over.",
    "paced": "Wait for the previous phase of {Bar} before {Op} acts on it.",
    "lasting": "Let the role of {Op} take part in the next phase of {Bar}, so that it cannot be overtaken.",
    "same_slot": "Use one index for the wait and for the access behind it.",
    "completes_slot": "Use one index for the stage and for the barrier slot.",
    "covers": "Commit the group of {Start} and wait for it.",
    "commits": "Commit the group of {Start}.",
    "retired": "Wait for the group of {Start} before its role ends.",
    "register_fenced": "Put a register fence before {Start}.",
    "one_lane": "Put {Op} inside `one_lane()`.",
    "same_trip": "Give both loops one trip count.",
    "in_bounds": "Put {Op} under a condition, such as its `when`, that keeps all that it accesses inside {Tensor}.",
}
#: What to do about a tuple that is there.
UNDO: Final[Mapping[str, str]] = {
    "outside": "Keep the box of {Op} inside {Buf}.",
    "reads_unwritten": "Write all of {Cell} that {Op} reads before it does.",
    "supersedes": "Let something read {Cell} before {B} overwrites it, or leave out the earlier write.",
    "overlap": "Give {A} and {B} bytes of their own.",
    "id_overlap": "Give {A} and {B} hardware barriers of their own.",
}
#: For the name of a rule: what a tuple, or the lack of one, makes of an op. Reads behind "allow".
ADJECTIVE: Final[Mapping[str, str]] = {
    "not ordered": "unordered",
    "not visible": "unfenced",
    "not paced": "unpaced",
    "not lasting": "fleeting",
    "not same_slot": "wrong-slot",
    "not completes_slot": "misdirected",
    "not covers": "unawaited",
    "not commits": "uncommitted",
    "not retired": "unretired",
    "not register_fenced": "register-unfenced",
    "not one_lane": "every-thread",
    "not same_trip": "unpaired",
    "not arrives": "unserved",
    "not waits": "unheeded",
    "not expects": "unannounced",
    "not completes": "undelivered",
    "not group_wait": "unawaited",
    "not syncs": "unmet",
    "not loop": "loopless",
    "not touches": "untouched",
    "not guards": "unguarded",
    "not async": "synchronous",
    "not in_bounds": "unbounded",
    "reads_unwritten": "uninitialised",
    "supersedes": "superseding",
    "outside": "out-of-region",
    "overlap": "overlapping",
    "id_overlap": "id-sharing",
    "conditional": "conditional",
    "varying": "divergent",
    "one_lane": "single-lane",
    "may_skip": "skippable",
    "opaque": "opaque",
    "lead": "out-of-step",
}
#: For the name of a rule: what kind of op the head is, by the relation that binds it; the most telling first.
SUBJECT: Final[Mapping[str, str]] = {
    "expects": "expect",
    "completes": "copy",
    "waits": "wait",
    "arrives": "arrive",
    "syncs": "sync",
    "registers": "register-change",
    "group_wait": "group-wait",
    "async": "async-operation",
    "conflict_kind": "access",
    "conflict": "access",
    "guards": "access",
    "fences": "fence",
    "global_access": "global-access",
    "touches": "access",
    "view": "view",
    "collective": "collective",
    "first_parity": "wait",
    "lead": "wait",
}
NOUN: Final[Mapping[str, str]] = {
    "barrier.Arrivals": "declared arrivals",
    "phase.Arrivals": "arrivals of a phase",
    "phase.Expected": "expected bytes",
    "phase.Delivered": "delivered bytes",
    "arrives.Arrivals": "arrivals made",
    "expects.Bytes": "announced bytes",
    "completes.Bytes": "copied bytes",
    "syncs.Threads": "threads taking part",
    "smem.StageBytes": "stage bytes",
    "smem.Swizzle": "region swizzle",
    "smem.Stages": "stages",
    "barrier.Slots": "slots",
    "tensor_map.BoxBytes": "box bytes",
    "tensor_map.InnerBytes": "row bytes",
    "tensor_map.Swizzle": "map swizzle",
    "global_access.Bytes": "accessed bytes",
    "global_access.Alignment": "address alignment",
    "view.Bytes": "view bytes",
    "covered.Bytes": "covered bytes",
    "group_wait.Pending": "groups left pending",
    "outstanding.N": "groups outstanding",
    "lead.N": "phases ahead",
    "net.N": "waits without an arrival",
    "first_parity.Value": "first parity",
    "limit.N": "the limit",
    "uses.N": "the use",
    "register_total.N": "registers in all",
    "registers.Count": "registers set",
    "phase_role.Arrivals": "arrivals from a role",
    "#sum arrives.Arrivals": "arrivals of all ops",
    "#sum completes.Bytes": "bytes of all copies",
    "#sum expects.Bytes": "bytes announced by all ops",
    "#sum syncs.Threads": "threads of all ops",
}
#: Comparisons in a sentence, and in a name.
RELATION: Final[Mapping[str, tuple[str, str]]] = {
    "=": ("equal", "equal"),
    "!=": ("differ from", "differ-from"),
    "<": ("are fewer than", "below"),
    "<=": ("are at most", "at-most"),
    ">": ("are more than", "above"),
    ">=": ("are at least", "at-least"),
}
#: Two numbers of one tuple that differ, in a sentence of their own.
WITHIN: Final[Mapping[tuple[str, str, str], str]] = {
    ("phase", "Expected", "Delivered"): "a phase of {Bar} awaits {Expected} bytes and gets {Delivered}",
    ("global_access", "Bytes", "Alignment"): "{Op} accesses {Bytes} bytes at once, at addresses that are multiples of "
    "{Alignment} only",
    ("smem", "StageBytes", "Swizzle"): "a stage of {Buf} has {StageBytes} bytes, its swizzle spans {Swizzle}",
    ("tensor_map", "InnerBytes", "Swizzle"): "a row of {Map} has {InnerBytes} bytes, its swizzle spans {Swizzle}",
}
#: Columns whose word says what kind of conflict, end or mode it is, and how a name says it.
TELLING: Final[Mapping[str, Mapping[str, str]]] = {
    "Kind": {"war": "overwrite", "raw": "read", "waw": "double-write"},
    "Source": {"constant": "constant-parity", "tracked": "tracked-parity"},
    "State": {"standing": "standing", "completed": "completed"},
}


@dataclass(frozen=True, slots=True)
class Place:
    """Where a variable is bound: relation (with `#sum ` or `#count ` before it for an aggregate) and column name."""

    relation: str
    column: str


def binding(clause: Clause) -> dict[str, Place]:
    """For each variable of a clause, the first place that binds it; an atom before an aggregate."""
    found: dict[str, Place] = {}
    for literal in clause.body:
        if isinstance(literal, Atom):
            for term, column in zip(literal.terms, RELATIONS[literal.relation].columns, strict=True):
                if isinstance(term, Variable):
                    found.setdefault(term.name, Place(literal.relation, column.name))
    for literal in clause.body:
        if isinstance(literal, Aggregate) and isinstance(literal.bound, Variable):
            inner = literal.terms[0]
            i = literal.atom.terms.index(inner)
            place = Place(
                f"{literal.function} {literal.atom.relation}", RELATIONS[literal.atom.relation].columns[i].name
            )
            found.setdefault(literal.bound.name, place)
    return found


def noun(place: Place) -> str:
    """What the number at a place is."""
    known = NOUN.get(f"{place.relation}.{place.column}")
    if known is not None:
        return known
    if place.relation.startswith("#count "):
        return f"number of ops in {place.relation.removeprefix('#count ')}"
    return f"{place.column.lower()} of {place.relation.removeprefix('#sum ')}"


def _fill(template: str, columns: Mapping[str, str]) -> str:
    """The template with names in place of columns; a bracket goes when a column in it has none."""

    def part(match: re.Match[str]) -> str:
        inside = re.findall(r"\{(\w+)\}", match[1])
        return match[1] if all(not columns.get(c, "some").startswith("some") for c in inside) else ""

    text = re.sub(r"\[([^\]]*)\]", part, template)
    first, joined, rest = text.partition(" with ")
    text = first + joined + rest.replace(" with ", " and ")
    return re.sub(r"\{(\w+)\}", lambda m: columns.get(m[1], m[1]), text)


def fill_atom(template: str, atom: Atom, show: Mapping[str, str]) -> str:
    """A template about a relation, with an atom's terms in it."""
    return _fill(template, _shown(atom, show))


def _shown(atom: Atom, show: Mapping[str, str]) -> dict[str, str]:
    """What each column of an atom is called in a sentence."""
    found: dict[str, str] = {}
    for term, column in zip(atom.terms, RELATIONS[atom.relation].columns, strict=True):
        match term:
            case Variable(name=name):
                found[column.name] = show.get(name, _some(column))
            case Constant(value=value):
                found[column.name] = str(value)
            case Wildcard():
                found[column.name] = _some(column)
    return found


def _some(column: Column) -> str:
    """Something that no variable names: templates say the noun of a number themselves."""
    return "some" if column.type == "int" else f"some {_plain(column.name)}"


def _plain(column: str) -> str:
    words = {"Bar": "barrier", "Buf": "region", "Cell": "region", "N": "number", "L": "loop", "M": "loop"}
    ops = ("Op", "A", "B", "Start", "Access")
    return "op" if column in ops else words.get(column, column.lower())


def sentence(literal: Literal, bound: Mapping[str, Place], show: Mapping[str, str]) -> str:
    """One body literal as a clause of English; `show` gives each variable's printed form."""
    match literal:
        case Atom(relation=relation):
            return _fill(FACT.get(relation, RELATIONS[relation].doc.rstrip(".")), _shown(literal, show))
        case Not(atom):
            named = [t.name for t in atom.terms if isinstance(t, Variable)]
            if atom.relation in NONE and len(named) == 1:
                return NONE[atom.relation].format(One=show.get(named[0], named[0]))
            lack = LACK.get(atom.relation)
            text = _fill(lack or FACT.get(atom.relation, RELATIONS[atom.relation].doc.rstrip(".")), _shown(atom, show))
            return text if lack else f"it does not hold that {text}"
        case Compare(op, left, right):
            return f"{_number(left, bound, show)} {RELATION[op][0]} {_number(right, bound, show)}"
        case Aggregate(bound=end):
            return f"{_number(end, bound, show)} are added up"


def within(compare: Compare, atoms: Sequence[Atom], show: Mapping[str, str]) -> str:
    """A sentence about two numbers of one tuple, where `WITHIN` has one; else nothing."""
    sides = {t.name for t in (compare.left, compare.right) if isinstance(t, Variable)}
    for atom in atoms:
        columns = RELATIONS[atom.relation].columns
        named = {t.name: c.name for t, c in zip(atom.terms, columns, strict=True) if isinstance(t, Variable)}
        if sides <= set(named):
            inside = [c.name for c in columns if c.name in {named[s] for s in sides}]
            template = WITHIN.get((atom.relation, inside[0], inside[-1]))
            if template is not None:
                return fill_atom(template, atom, show)
    return ""


def _number(term: Term, bound: Mapping[str, Place], show: Mapping[str, str]) -> str:
    if not isinstance(term, Variable):
        return str(term)
    place = bound.get(term.name)
    shown = show.get(term.name)
    what = noun(place) if place is not None else term.name
    return f"{what} ({shown})" if shown else what


def name_of(clause: Clause) -> str:
    """A kebab-case name that says what the clause finds, and reads behind "allow"."""
    bound = binding(clause)
    words: list[str] = []
    for literal in clause.body:
        match literal:
            case Compare(op, Variable(name=a), Variable(name=b)):
                words.append(f"{_kebab(noun(bound[a]))}-{RELATION[op][1]}-{_kebab(noun(bound[b]))}")
            case Not(atom):
                words.append(ADJECTIVE.get(f"not {atom.relation}", f"un{atom.relation}"))
            case Atom(relation=relation) if relation in ADJECTIVE:
                words.append(ADJECTIVE[relation])
    telling = [
        TELLING[column.name][str(term.value)]
        for literal in clause.body
        if isinstance(literal, Atom) and literal.relation != "op"
        for term, column in zip(literal.terms, RELATIONS[literal.relation].columns, strict=True)
        if isinstance(term, Constant) and str(term.value) in TELLING.get(column.name, {})
    ]
    relations = {b.relation for b in clause.body if isinstance(b, Atom) and clause.head.terms[0] in b.terms}
    subject = next((s for r, s in SUBJECT.items() if r in relations), "operation")
    if any("-" in w and any(f"-{r[1]}-" in w for r in RELATION.values()) for w in words):
        parts = words
    else:
        parts = [*words, *(telling[:1] if telling and telling[0] in ("overwrite", "double-write", "read") else [])]
        parts += [] if len(parts) > len(words) else [*telling[:1], subject]
        if len(parts) == 1:
            # No table has a word for it: the relations and the words that they name say the most.
            parts = [*_plainly(clause), subject]
    return _kebab("-".join(dict.fromkeys(parts)))[:60].strip("-")


def _plainly(clause: Clause) -> list[str]:
    """Relations and constants of a clause, but for what its subject says already."""
    atoms = [b for b in clause.body if isinstance(b, Atom) and b.relation != "op"]
    said = [[b.relation, *(str(t) for t in b.terms if isinstance(t, Constant))] for b in atoms]
    return [word.strip('"') for words in said for word in (words[1:] or words)]


def _kebab(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
