"""Which op may follow which in a role's body."""

from __future__ import annotations

from cake.core.ir import Break, For, If, OneLane, OpStmt, Stmt, bodies


class Flow:
    """Which op may follow which: `next` within one pass, `back` over a loop's back edge."""

    def __init__(self, facts: dict[str, set[tuple[str | int, ...]]]) -> None:
        self.next, self.back = facts.setdefault("next", set()), facts.setdefault("back", set())
        self.breaks: list[set[str]] = []

    def block(self, stmts: tuple[Stmt, ...], prefix: str, base: int, before: frozenset[str]) -> frozenset[str]:
        """The ops that may come last, given those that may come before."""
        for i, stmt in enumerate(stmts):
            path = f"{prefix}{base + i}"
            match stmt:
                case OpStmt():
                    self.next |= {(b, path) for b in before}
                    before = frozenset({path})
                case Break():
                    self.breaks[-1] |= before
                    before = frozenset()
                case OneLane(body=body):
                    before = self.block(body, f"{path}.", 0, before)
                case If(then=then, other=other):
                    taken = self.block(then, f"{path}.", 0, before)
                    before = taken | self.block(other, f"{path}.", len(then), before)
                case For(body=body):
                    self.breaks.append(set())
                    last = self.block(body, f"{path}.", 0, before)
                    first, _ = _heads(body, f"{path}.", 0)
                    self.back |= {(a, b) for a in last - before for b in first}
                    before = before | last | self.breaks.pop()
        return before


def _heads(stmts: tuple[Stmt, ...], prefix: str, base: int) -> tuple[set[str], bool]:
    """The ops that may come first in a block, and whether the block may run without one."""
    found: set[str] = set()
    for i, stmt in enumerate(stmts):
        path = f"{prefix}{base + i}"
        match stmt:
            case OpStmt():
                return found | {path}, False
            case Break():
                return found, False
            case OneLane() | For() | If():
                empty, offset = isinstance(stmt, For), 0
                for body in bodies(stmt):
                    inner, passes = _heads(body, f"{path}.", offset)
                    found |= inner
                    empty |= passes
                    offset += len(body)
                if not empty:
                    return found, False
    return found, True
