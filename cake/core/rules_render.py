"""From a rule's hits to findings: messages with the program's own names, statements and lines in them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Final

from cake.core.clauses import ClauseError, parse_clauses
from cake.core.clauses_eval import Value
from cake.core.diagnostics import Finding
from cake.core.ir import BarrierRef, Decl, Located, OpStmt, Param, Program, Span, View, walk
from cake.core.op import Op
from cake.core.printer import print_expr, print_operand, print_program, print_stmt, program_lines
from cake.core.rule import Rule
from cake.core.rules import PLACEHOLDER, Head, head

#: How the line starts that a finding about the whole program points at.
LAUNCH: Final = "launch("


class Renderer:
    """Turns hits into findings for one program. Everything that costs is computed when a finding first needs it."""

    def __init__(self, program: Program) -> None:
        self.program = program

    @cached_property
    def _located(self) -> Mapping[str, Located]:
        return {located.path: located for located in walk(self.program)}

    @cached_property
    def _order(self) -> Mapping[Value, int]:
        """Where things stand in the program: declarations first, then statements in canonical order."""
        return {name: i for i, name in enumerate((*self._declared, *self._located))}

    @cached_property
    def _declared(self) -> Mapping[str, Decl | Param]:
        return {d.name: d for d in (*self.program.params, *self.program.decls)}

    @cached_property
    def _lines(self) -> Mapping[str, int]:
        """Canonical lines of statements by path, and of declarations by name."""
        lines = dict(program_lines(self.program))
        for number, text in enumerate(print_program(self.program).splitlines(), 1):
            name = text.strip().partition(" = ")[0]
            if name in self._declared:
                lines.setdefault(name, number)
            elif name.startswith(LAUNCH):
                lines.setdefault(LAUNCH, number)
        return lines

    def _rank(self, value: Value) -> tuple[int, int, str]:
        """Program order, then size for numbers, then spelling for the rest."""
        number = value if isinstance(value, int) else 0
        return self._order.get(value, len(self._order)), number, str(value)

    def findings(self, rule: Rule, hits: Iterable[tuple[Value, ...]]) -> tuple[Finding, ...]:
        """One finding for each distinct tuple of ops (of all values, where there is no op), the least hit standing for
        its like, in program order. `rule.finding` must be readable."""
        try:
            names = head(parse_clauses(rule.finding))
        except ClauseError as error:
            raise ValueError(f"{rule.code}: hits of a rule that cannot be read: {error.reason}") from error
        found: dict[tuple[Value, ...], Finding] = {}
        for hit in sorted(hits, key=lambda hit: [self._rank(v) for v in hit]):
            paths = tuple(str(v) for v in hit if v in self._located)
            key = paths or hit
            if key not in found:
                found[key] = self._finding(rule, names, hit, paths)
        return tuple(found.values())

    def _finding(self, rule: Rule, names: Head, hit: tuple[Value, ...], paths: tuple[str, ...]) -> Finding:
        values = dict(zip(names.names, hit, strict=True))
        subject = str(hit[0])
        barriers = [str(v) for v, k in zip(hit, names.kinds, strict=True) if k is not None and k.type == "barrier"]
        return Finding(
            code=rule.code,
            name=rule.name,
            category=rule.category,
            message=self._fill(rule.message, values),
            paths=paths,
            role=self.part(subject, "role"),
            barrier=barriers[0] if barriers else self.part(subject, "barrier"),
            stage=self._stage(subject),
            line=self._lines.get(subject) or self._lines[paths[0] if paths else LAUNCH],
            span=self._span(subject),
            help=self._fill(rule.help, values),
            blocking=rule.blocking,
        )

    def _fill(self, text: str, values: Mapping[str, Value]) -> str:
        return PLACEHOLDER.sub(lambda m: self.part(str(values[m[1]]), m[2] or ""), text)

    def part(self, value: str, part: str) -> str:
        """What `{W}` (part is empty) or `{W.part}` prints as for the value of W."""
        located = self._located.get(value)
        if located is None:
            declared = self._declared.get(value)
            return value if not part else str(self._line(value, declared.span)) if declared and part == "line" else ""
        op = located.stmt.op if isinstance(located.stmt, OpStmt) else None
        match part:
            case "":
                return print_stmt(located.stmt).rstrip(":")
            case "role":
                return located.role.name
            case "line":
                return str(self._line(value, located.stmt.span))
            case "path":
                return value
            case "kind":
                return op.opname if op else type(located.stmt).__name__.lower()
            case "barrier":
                return next((r.barrier.name for r in _references(op) if isinstance(r, BarrierRef)), "")
            case "buffer":
                return next((r.buffer.name for r in _references(op) if isinstance(r, View)), "")
        return next((print_operand(r) for r in _references(op)), "")

    def _stage(self, value: str) -> str:
        """The index expression of the slot or stage that an op names first."""
        located = self._located.get(value)
        op = located.stmt.op if located and isinstance(located.stmt, OpStmt) else None
        for reference in _references(op):
            index = reference.stage if isinstance(reference, View) else reference.slot
            if index is not None:
                return print_expr(index)
        return ""

    def _line(self, value: str, span: Span) -> int:
        """The source line where it is known, the canonical one otherwise."""
        return span.line or self._lines.get(value, 0)

    def _span(self, value: str) -> Span:
        located, declared = self._located.get(value), self._declared.get(value)
        return located.stmt.span if located else declared.span if declared else self.program.launch.span


def _references(op: Op | None) -> list[View | BarrierRef]:
    """The views and barrier slots among an op's operands, in order."""
    values = [getattr(op, f.name) for f in op.operands] if op is not None else []
    return [v for v in values if isinstance(v, View | BarrierRef)]
