"""The reader of clause text. What it does not recognise it refuses, with the place and the reason."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from cake.core.clauses_check import LIMIT, check_clauses
from cake.core.clauses_tree import (
    AGGREGATES,
    COMPARISONS,
    MAX_BODY,
    MAX_CONDITIONS,
    MIRRORED,
    Aggregate,
    Atom,
    Clause,
    ClauseError,
    Clauses,
    Compare,
    Constant,
    Literal,
    Not,
    Term,
    Variable,
    Wildcard,
)

if TYPE_CHECKING:
    from cake.core.vocabulary import Relation

_TOKEN: Final = re.compile(
    r"(?P<space>[ \t\r\n]+|%[^\n]*)"
    r"|(?P<string>\"(?:[^\"\\\n]|\\[\\\"n])*\")"
    r"|(?P<number>-?[0-9]+(?![A-Za-z_]))"
    r"|(?P<variable>[A-Z][A-Za-z0-9_]*)"
    r"|(?P<name>[a-z][A-Za-z0-9_]*)"
    r"|(?P<wildcard>_(?![A-Za-z0-9_]))"
    r"|(?P<aggregate>\#[a-z]+\+?)"
    r"|(?P<mark>:-|:~|!=|<=|>=|==|<>|\.\.|\*\*|[=<>(){}:,.;|@+*/\\&^~?$'\[\]!-])"
)

#: Marks of the wider language that this one leaves out, and what to write instead.
_REFUSED: Final = {
    ";": "pools, disjunctions and lists with ';' are not part of the language: write several clauses",
    "|": "disjunction is not part of the language: write several clauses",
    "..": "intervals are not part of the language: compare with <= and >=",
    "@": "script calls are not part of the language",
    "[": "weights are not part of the language",
    "&": "theory atoms are not part of the language",
    ":~": "weak constraints are not part of the language",
    "==": "write '=' for equality",
    "<>": "write '!=' for inequality",
    "'": "strings stand in double quotes",
    **dict.fromkeys(("+", "-", "*", "/", "\\", "**", "^"), "there is no arithmetic: core computes it into a fact"),
}


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    offset: int


def parse_clauses(text: str, relations: Mapping[str, Relation] | None = None) -> Clauses:
    """Read and check clauses over `relations` (default: the fact vocabulary).

    Raises `ClauseError` with line, column and reason: a shape outside the language, an unknown relation, a wrong arity,
    a type or unit mismatch, an unsafe variable, a cycle through negation or an aggregate.
    """
    clauses = _Reader(text).clauses()
    check_clauses(clauses, relations, text)
    return clauses


def _tokens(text: str) -> list[_Token]:
    found: list[_Token] = []
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            quote = "string is not closed, or holds an unknown escape"
            raise ClauseError(quote if text[at] == '"' else f"cannot read {text[at]!r}", text, at)
        kind = match.lastgroup or ""
        if kind != "space":
            found.append(_Token(kind, match.group(), at))
        at = match.end()
    return [*found, _Token("end", "the end", len(text))]


class _Reader:
    """Recursive descent over the tokens of one text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = _tokens(text)
        self.at = 0

    # ------------------------------------------------------------------------------------------------------ tokens

    @property
    def next(self) -> _Token:
        return self.tokens[self.at]

    def error(self, reason: str) -> ClauseError:
        """An error at the next token."""
        return ClauseError(reason, self.text, self.next.offset)

    def fail(self, wanted: str) -> ClauseError:
        """The error for the next token, where `wanted` was expected."""
        token = self.next
        if token.text in _REFUSED:
            reason = _REFUSED[token.text]
        elif token.kind == "aggregate" and token.text not in AGGREGATES:
            reason = f"{token.text} is not part of the language; aggregates are {', '.join(AGGREGATES)}"
        else:
            reason = f"expected {wanted}, found {token.text!r}"
        return self.error(reason)

    def take(self, text: str) -> _Token:
        """The next token, which must read `text`."""
        if self.next.text != text:
            raise self.fail(repr(text))
        self.at += 1
        return self.tokens[self.at - 1]

    def accept(self, text: str) -> bool:
        """Whether the next token reads `text`; if so, step over it."""
        if self.next.text != text:
            return False
        self.at += 1
        return True

    # ----------------------------------------------------------------------------------------------------- grammar

    def clauses(self) -> Clauses:
        found: list[Clause] = []
        while self.next.kind != "end":
            found.append(self.clause())
        if not found:
            raise ClauseError("there is no clause", self.text, 0)
        return Clauses(tuple(found))

    def clause(self) -> Clause:
        if self.next.text == "{":
            raise self.error("choices are not part of the language")
        if self.next.text == ":-":
            raise self.error("a clause needs a head: constraints are not part of the language")
        head = self.atom()
        if self.next.text == ".":
            raise self.error(f"{head.relation} needs a body: rules state no facts")
        self.take(":-")
        body = [self.literal()]
        while self.accept(","):
            body.append(self.literal())
        if len(body) > MAX_BODY:
            raise ClauseError(f"{len(body)} body literals, more than {MAX_BODY}: use a helper", self.text, head.offset)
        self.take(".")
        return Clause(head, tuple(body))

    def literal(self) -> Literal:
        token = self.next
        if token.text == "not":
            self.at += 1
            return Not(self.atom())
        if token.kind == "aggregate":
            aggregate = self.aggregate()
            op = self.comparison()
            return Aggregate(*aggregate, op, self.term(), token.offset)
        if token.kind == "name":
            return self.atom()
        left = self.term()
        op = self.comparison()
        if self.next.kind == "aggregate":
            return Aggregate(*self.aggregate(), MIRRORED[op], left, token.offset)
        return Compare(op, left, self.term(), token.offset)

    def comparison(self) -> str:
        if self.next.text not in COMPARISONS:
            raise self.fail("a comparison")
        self.at += 1
        return self.tokens[self.at - 1].text

    def atom(self) -> Atom:
        token = self.next
        if token.kind != "name" or token.text == "not":
            raise self.fail("a relation")
        self.at += 1
        self.take("(")
        return Atom(token.text, self.terms(")"), token.offset)

    def terms(self, closing: str) -> tuple[Term, ...]:
        """Comma-separated terms up to and including `closing`."""
        found = [self.term()]
        while self.accept(","):
            found.append(self.term())
        self.take(closing)
        return tuple(found)

    def term(self) -> Term:
        token = self.next
        self.at += 1
        match token.kind:
            case "variable":
                return Variable(token.text)
            case "number":
                if len(token.text) > 11 or abs(int(token.text)) > LIMIT:  # Python converts no number of any length
                    raise ClauseError("numbers have at most 31 bits", self.text, token.offset)
                return Constant(int(token.text))
            case "string":
                return Constant(re.sub(r"\\(.)", lambda m: "\n" if m[1] == "n" else m[1], token.text[1:-1]))
            case "wildcard":
                return Wildcard()
        self.at -= 1
        raise self.fail("a variable, a number, a string or '_'")

    def aggregate(self) -> tuple[str, tuple[Term, ...], Atom, tuple[Compare, ...]]:
        token = self.next
        if token.text not in AGGREGATES:
            raise self.fail("an aggregate")
        self.at += 1
        self.take("{")
        tuple_ = self.terms(":")
        if self.next.text == "not" or self.next.kind != "name":
            raise self.error("an aggregate ranges over one atom: put the rest into a helper")
        atom = self.atom()
        conditions: list[Compare] = []
        while self.accept(","):
            if self.next.kind == "name":
                raise self.error("an aggregate ranges over one atom: put the rest into a helper")
            offset, left = self.next.offset, self.term()
            conditions.append(Compare(self.comparison(), left, self.term(), offset))
        if len(conditions) > MAX_CONDITIONS:
            raise ClauseError(f"more than {MAX_CONDITIONS} conditions: use a helper", self.text, token.offset)
        self.take("}")
        return token.text, tuple_, atom, tuple(conditions)
