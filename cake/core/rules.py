"""Rule files: read as data by a closed reader, never imported; and the lint that every rule must pass.

    Rule(
        code="SYN001", name="...", category="program-safety", since="0.1",
        finding="finding(A, B) :- id_overlap(A, B).",
        message="...", help="...", why="...", evidence=("...",), bad=("bad.cake",), good=("good.cake",),
    )

That is the whole language: one call, keyword arguments, literal strings, tuples of strings, true and false.
"""

from __future__ import annotations

import ast
import difflib
import inspect
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Any, Final

from cake.core.clauses import (
    FINDING,
    ClauseError,
    Clauses,
    Kind,
    Variable,
    canonical,
    check_clauses,
    parse_clauses,
)
from cake.core.diagnostics import Category
from cake.core.errors import CakeError
from cake.core.rule import Rule

#: A rule file above this is refused unread.
MAX_BYTES: Final = 64 << 10
STATUSES: Final = ("preview", "stable", "deprecated")
#: Categories in which a finding is a prediction or a hint, so that it may never block.
ADVISORY: Final = (Category.PERFORMANCE_ANALYSIS, Category.OPTIMISATION_GUIDANCE)
#: What `{W.part}` may name, for an op and for a declaration.
OP_PARTS: Final = ("role", "slot", "line", "path", "kind", "barrier", "buffer")
DECLARATION_PARTS: Final = ("line",)
PLACEHOLDER: Final = re.compile(r"\{([A-Z][A-Za-z0-9_]*)(?:\.([a-z]+))?\}")

_CODE: Final = re.compile(r"(?:[a-z0-9-]+:)?([A-Z]{3})[0-9]{3}")
_NAME: Final = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)+")
_SINCE: Final = re.compile(r"[0-9]+\.[0-9]+(?:\.[0-9]+)?")


class RuleError(CakeError):
    """A rule file that cannot be read. The message starts with file and line."""

    def __init__(self, reason: str, file: Path | str, line: int = 0) -> None:
        super().__init__(f"{file}:{line}: {reason}" if line else f"{file}: {reason}")
        self.reason, self.file, self.line = reason, str(file), line


@dataclass(frozen=True, slots=True)
class Codes:
    """The reserved families (three letters -> what they are about) and the retired codes (code -> why)."""

    families: Mapping[str, str] = field(default_factory=dict)
    retired: Mapping[str, str] = field(default_factory=dict)


def read_rule_file(path: Path, origin: str = "cake") -> Rule:
    """The rule in one file. Raises RuleError for anything but one literal `Rule(...)` call with the right fields.

    The clauses are not read here: a rule written for a wider vocabulary is unknown by itself, not an unreadable file.
    """
    try:
        if path.stat().st_size > MAX_BYTES:
            raise RuleError(f"longer than {MAX_BYTES >> 10} KiB: no rule is", path)
        text = path.read_bytes().decode()
    except OSError as error:
        raise RuleError(f"cannot be read: {error.strerror}", path) from error
    except UnicodeDecodeError as error:
        raise RuleError(f"is not text: byte at offset {error.start}", path) from error
    return read_rule(text, path, origin)


def read_rule(text: str, file: Path | str = "<text>", origin: str = "cake") -> Rule:
    """The rule in `text`, as `read_rule_file` reads it."""
    try:
        body = ast.parse(text).body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise RuleError(f"is not a rule: {error}", file, getattr(error, "lineno", 0) or 0) from error
    call = body[0].value if len(body) == 1 and isinstance(body[0], ast.Expr) else None
    if not (
        isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "Rule" and not call.args
    ):
        line = body[min(1, len(body) - 1)].lineno if body else 0
        raise RuleError("a rule file is one call Rule(name=literal, ...) and nothing else", file, line)
    known = {f.name: f for f in fields(Rule) if f.name != "origin"}
    values: dict[str, Any] = {}
    for keyword in call.keywords:
        name, line = keyword.arg or "**", keyword.value.lineno
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            raise RuleError(f"Rule has no field {name!r}{f'; did you mean {close[0]!r}?' if close else ''}", file, line)
        if name in values:
            raise RuleError(f"field {name!r} is given twice", file, line)
        values[name] = _literal(keyword.value, name, str(known[name].type), file)
    missing = [n for n, f in known.items() if f.default is MISSING and n not in values]
    if missing:
        raise RuleError(f"missing {', '.join(missing)}", file, call.lineno)
    return Rule(**values, origin=origin)


def _literal(node: ast.expr, name: str, wanted: str, file: Path | str) -> Any:
    """The value of a field: a string, a tuple of strings, a bool, as the field's annotation says."""
    if wanted == "tuple[str, ...]":
        if isinstance(node, ast.Tuple):
            return tuple(_literal(item, name, "str", file) for item in node.elts)
        raise RuleError(f"{name} is a tuple of literal strings", file, node.lineno)
    value = node.value if isinstance(node, ast.Constant) else None
    if wanted == "bool":
        if isinstance(value, bool):
            return value
        raise RuleError(f"{name} is True or False", file, node.lineno)
    if not isinstance(value, str):
        raise RuleError(f"{name} is a literal string", file, node.lineno)
    # A message is one line, however the file breaks it; clauses and reasons keep their lines.
    value = " ".join(value.split()) if name in ("message", "help") else inspect.cleandoc(value)
    if wanted != "Category":
        return value
    try:
        return Category(value)
    except ValueError:
        raise RuleError(f"category {value!r} is not one of {', '.join(Category)}", file, node.lineno) from None


# ------------------------------------------------------------------------------------------------------------- heads


@dataclass(frozen=True, slots=True)
class Head:
    """The variables of a rule's `finding`, by position: name and inferred kind (None where nothing types it)."""

    names: tuple[str, ...]
    kinds: tuple[Kind | None, ...]


def head(clauses: Clauses) -> Head:
    """The head of `finding`; variables are named by its first clause."""
    typing = check_clauses(clauses)
    first = clauses.of(FINDING)[0].head
    return Head(tuple(t.name for t in first.terms if isinstance(t, Variable)), typing.helpers[FINDING])


# -------------------------------------------------------------------------------------------------------------- lint


def lint_rule(rule: Rule, codes: Codes | None = None, examples: Path | None = None) -> list[str]:
    """What is wrong with one rule by itself: code, names, words, clauses, examples. Empty when nothing is.

    `codes` checks reservation (leave it out for a pack's rule, whose code carries the pack's name); `examples` is the
    folder in which `bad` and `good` lie.
    """
    return [f"{rule.code}: {reason}" for reason in (*_identity(rule, codes), *_words(rule), *_examples(rule, examples))]


def lint_set(rules: Iterable[Rule]) -> list[str]:
    """What is wrong between rules: two with one code, one name, or the same clauses."""
    found: list[str] = []
    seen: dict[tuple[str, str], Rule] = {}
    for rule in rules:
        keys = {"code": rule.code, "name": rule.name}
        with suppress(ClauseError):  # lint_rule says so
            keys["clauses"] = canonical(parse_clauses(rule.finding))
        for what, value in keys.items():
            other = seen.setdefault((what, value), rule)
            if other is not rule:
                owners = f"{other.code} of {other.origin} and {rule.code} of {rule.origin}"
                found.append(f"{owners} have the same {what}{'' if what == 'clauses' else f' {value!r}'}")
    return found


def _identity(rule: Rule, codes: Codes | None) -> Iterator[str]:
    match = _CODE.fullmatch(rule.code)
    if match is None:
        yield "a code is three capitals and three digits"
    elif codes is not None and match[1] not in codes.families:
        yield f"family {match[1]} is not reserved; known are {', '.join(codes.families)}"
    if codes is not None and rule.code in codes.retired:
        yield f"the code is retired: {codes.retired[rule.code]}"
    if not _NAME.fullmatch(rule.name):
        yield f"name {rule.name!r} is not of the form two-or-more-words"
    if not _SINCE.fullmatch(rule.since):
        yield f"since {rule.since!r} is no version"
    if rule.status not in STATUSES:
        yield f"status {rule.status!r} is not one of {', '.join(STATUSES)}"
    if rule.blocking and rule.category in ADVISORY:
        yield f"a rule of {rule.category} predicts or hints: it may not block"


def _words(rule: Rule) -> Iterator[str]:
    for name in ("message", "help", "why"):
        if not getattr(rule, name):
            yield f"{name} is empty"
    if not rule.evidence or not all(rule.evidence):
        yield "evidence is empty: say where the fault was seen, or what documents it"
    try:
        found = head(parse_clauses(rule.finding))
    except ClauseError as error:
        yield f"finding: {error}"
        return
    for name in ("message", "help"):
        text: str = getattr(rule, name)
        for variable, part in PLACEHOLDER.findall(text):
            if variable not in found.names:
                yield f"{name} uses {{{variable}}}, and finding has {', '.join(found.names)}"
                continue
            kind = found.kinds[found.names.index(variable)]
            parts = parts_of(kind)
            if part and part not in parts:
                known = f"has only {', '.join(parts)}" if parts else "has no parts"
                yield f"{name} uses {{{variable}.{part}}}, and {kind.type if kind else 'a value'} {known}"
        if set(PLACEHOLDER.sub("", text)) & {"{", "}"}:
            yield f"{name} has a brace outside a placeholder"


def parts_of(kind: Kind | None) -> tuple[str, ...]:
    """What may stand behind the dot for a head variable of this kind."""
    if kind is not None and kind.type in ("op", "loop"):
        return OP_PARTS
    declared = kind is not None and kind.type in ("role", "buffer", "barrier", "map", "tensor", "object", "cell")
    return DECLARATION_PARTS if declared else ()


def _examples(rule: Rule, folder: Path | None) -> Iterator[str]:
    names = (*rule.bad, *rule.good)
    for what in ("bad", "good"):
        if not getattr(rule, what):
            yield f"{what} is empty: name at least one program"
    if len(set(names)) != len(names):
        yield "an example is named twice"
    texts: dict[str, str] = {}
    for name in names:
        if "/" in name or "\\" in name or not name.endswith(".cake"):
            yield f"example {name!r} is no .cake file name"
        elif folder is not None:
            if not (folder / name).is_file():
                yield f"example {name} is not in {folder}"
                continue
            try:
                text = (folder / name).read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError) as error:
                yield f"example {name} cannot be read: {error}"
                continue
            if (other := texts.setdefault(text, name)) != name:
                yield f"examples {other} and {name} are the same program"
