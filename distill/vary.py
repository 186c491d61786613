"""Semantically equal variants of a program: other names, another order of what is independent."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from cake.core.ir import Assign, Declare, OneLane, OpStmt, Program, Role, Stmt, Var, bodies, walk
from cake.core.printer import print_program
from cake.core.reader import read_program
from cake.core.tree import nodes, with_bodies, with_role_body

#: Variants of each program that one gate looks at.
VARIANTS: Final = 12


def renamed(program: Program, names: dict[str, str]) -> Program:
    """The program with declared things, parameters and variables called otherwise; read back from its own text, so that
    a name that means something to the reader cannot slip through."""
    text = print_program(program)
    if names:
        known = "|".join(sorted(map(re.escape, names), key=len, reverse=True))
        # A keyword argument (`done=`) and an attribute (`.tile`) are no names of the program; a string is none either.
        pattern = rf'(?<![\w."])({known})(?![\w"])(?!=(?!=))'
        text = re.sub(pattern, lambda m: names[m[1]], text)
    return read_program(text)


def names_of(program: Program) -> tuple[str, ...]:
    """What a program may call otherwise: declarations, tensors, and variables, in order of first occurrence."""
    found = dict.fromkeys(x.name for x in (*program.params, *program.decls))
    for node in nodes(program.roles):
        if isinstance(node, Var):
            found.setdefault(node.name)
    return tuple(found)


def reordered(program: Program, order: list[int]) -> Program:
    """The program with the declarations of each kind sorted by `order` (roles stay: their order numbers the warps), and
    with adjacent independent statements swapped where `order` has an odd number for the first of them."""
    kinds = list(dict.fromkeys(type(d) for d in program.decls))
    decls = [
        d
        for kind in kinds
        for _, _, d in sorted(
            (0 if kind is Role else order[i % len(order)], i, d) for i, d in enumerate(program.decls) if type(d) is kind
        )
    ]
    new = replace(program, decls=tuple(decls))
    for n, body in enumerate(program.roles):
        at = n % len(order)
        new = with_role_body(new, body.role.name, _swapped(body.body, order[at:] + order[:at]))
    return new


def _swapped(stmts: tuple[Stmt, ...], order: list[int]) -> tuple[Stmt, ...]:
    done = [with_bodies(s, tuple(_swapped(b, order) for b in bodies(s))) if bodies(s) else s for s in stmts]
    i = 0
    while i + 1 < len(done):
        if order[i % len(order)] % 2 and independent(done[i], done[i + 1]):
            done[i], done[i + 1] = done[i + 1], done[i]
            i += 1
        i += 1
    return tuple(done)


def independent(a: Stmt, b: Stmt) -> bool:
    """Whether two adjacent statements certainly commute: one of them only names a value, and the other does not use or
    change anything that it names."""
    if not (isinstance(a, Assign | Declare) or isinstance(b, Assign | Declare)):
        return False
    return not (_writes(a) & _names(b)) and not (_writes(b) & _names(a))


def _names(stmt: Stmt) -> set[str]:
    return {n.name for n in nodes(stmt) if isinstance(n, Var)}


def _writes(stmt: Stmt) -> set[str]:
    match stmt:
        case Assign(target=target) | Declare(target=target):
            return {target.name}
        case OpStmt(op=op):
            # A primitive may write any fragment it is handed.
            return {n.name for n in nodes(op) if isinstance(n, Var)} | ({stmt.out.name} if stmt.out else set())
        case OneLane():
            return set().union(*(_writes(s) for s in stmt.body))
    return _names(stmt)


def variants(program: Program, count: int = VARIANTS) -> Iterator[tuple[str, Program]]:
    """`count` variants drawn by hypothesis, the same ones every time: alternately renamed and reordered."""
    names = names_of(program)
    drawn: list[tuple[str, Program]] = []

    @settings(
        max_examples=count,
        derandomize=True,
        database=None,
        deadline=None,
        phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )
    @given(st.permutations(range(len(names))), st.lists(st.integers(0, 7), min_size=4, max_size=16))
    def draw(permutation: list[int], order: list[int]) -> None:
        if len(drawn) % 2:
            drawn.append(("reordering", reordered(program, order)))
        else:
            drawn.append(("renaming", renamed(program, {n: f"v{k}" for n, k in zip(names, permutation, strict=True)})))

    draw()
    seen = {print_program(program)}
    for what, variant in drawn:
        text = print_program(variant)
        if text not in seen:
            seen.add(text)
            yield what, variant


def count_ops(program: Program) -> int:
    """The primitives of a program: what renaming and reordering must leave as they are."""
    return sum(isinstance(x.stmt, OpStmt) for x in walk(program))
