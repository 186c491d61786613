"""One-edit neighbours: complete over their kinds, well typed, re-readable, in a fixed order."""

from __future__ import annotations

from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from cake.core.edits import KINDS, Edit, edits
from cake.core.ir import Declare, IRError, OneLane, OpStmt, Program, walk
from cake.core.printer import print_program, print_stmt
from cake.core.reader import read_program, read_schedule
from cake.core.tree import parse_path, replace_statement, rescoped, statement

KERNELS = Path(__file__).parents[2] / "corpus" / "kernels"


@cache
def program(name: str) -> Program:
    """A corpus kernel in its default configuration."""
    return read_schedule((KERNELS / name / "schedule.py").read_text(), {})


@cache
def neighbours(name: str) -> tuple[Edit, ...]:
    """All its one-edit neighbours."""
    return tuple(edits(program(name)))


def path_of(p: Program, text: str, nth: int = 0) -> str:
    """The path of the nth statement whose first canonical line starts with `text`."""
    return [at.path for at in walk(p) if print_stmt(at.stmt).startswith(text)][nth]


def test_every_kind_occurs() -> None:
    """The two corpus kernels between them have neighbours of every kind, and no other kind."""
    assert {e.kind for name in ("gemm_bf16", "rmsnorm_bf16") for e in neighbours(name)} == set(KINDS)


@pytest.mark.parametrize("name", ["gemm_bf16", "rmsnorm_bf16"])
def test_neighbours_read_back(name: str) -> None:
    """Each neighbour has canonical text that reads back to it, and differs from its parent."""
    parent = print_program(program(name))
    for edit in neighbours(name)[::9]:
        text = print_program(edit.program)
        assert text != parent, edit.detail
        assert read_program(text) == edit.program, edit.detail


def test_order_is_fixed() -> None:
    """Two enumerations agree, details and all."""
    again = edits(program("rmsnorm_bf16"))
    assert [(e.kind, e.path, e.detail) for e in again] == [
        (e.kind, e.path, e.detail) for e in neighbours("rmsnorm_bf16")
    ]


def test_paths_point_at_statements_or_declarations() -> None:
    """An edit's path is a statement of the parent, one of its declarations, or the launch."""
    parent = program("gemm_bf16")
    places = {at.path for at in walk(parent)} | {d.name for d in parent.decls} | {"launch"}
    assert {e.path for e in neighbours("gemm_bf16")} <= places


@pytest.mark.parametrize(
    ("kind", "start", "detail"),
    [
        ("drop", "mbarrier_arrive(ring_empty[previous])", "dropped"),
        ("index", "mbarrier_arrive(ring_empty[previous])", "mbarrier_arrive.barrier slot: previous -> ring_slot"),
        ("fence", "fence_proxy_async()", "dropped"),
        ("depth", "wgmma_wait(1)", "wgmma_wait.pending: 1 -> 2"),
        ("depth", "bulk_wait(1, read=True)", "bulk_wait.read: True -> False"),
        ("phase", "mbarrier_wait(ring_full[ring_slot]", "mbarrier_wait.phase: ring_phase -> ring_phase ^ 1"),
        ("phase", "ring_phase = 1", "ring_phase = 1 -> 0"),
        ("bytes", "mbarrier_expect(", "mbarrier_expect.bytes: 49152 -> 24576"),
        ("bytes", "mbarrier_expect(", "mbarrier_expect.bytes: 49152 -> 16384"),
        ("retarget", "mbarrier_wait(ring_full", "mbarrier_wait.barrier: ring_full -> ring_empty"),
        ("retarget", "tma_load(a[", "tma_load.src: A_map -> B_map"),
        ("role", "mbarrier_expect(", "done by math"),
        ("role", "barrier_sync(staged", "done by one lane"),
        ("registers", "setmaxnreg(232", "setmaxnreg.count: 232 -> 240"),
        ("bound", "for i in range(", "stop: (K + 63) // 64 -> (K + 63) // 64 - 1"),
        ("duplicate", "wgmma_commit()", "done twice"),
    ],
)
def test_the_usual_mistakes_are_there(kind: str, start: str, detail: str) -> None:
    """The slips that kernels are really broken by are one edit away from gemm_bf16."""
    parent = program("gemm_bf16")
    paths = {at.path for at in walk(parent) if print_stmt(at.stmt).startswith(start)}
    assert [e for e in neighbours("gemm_bf16") if e.kind == kind and e.path in paths and e.detail == detail]


@pytest.mark.parametrize(
    ("kind", "name", "detail"),
    [
        ("count", "ring_empty", "arrivals: 2 -> 1"),
        ("count", "ring_empty", "arrivals: 2 -> 128"),
        ("count", "staged", "arrivals: 128 -> 160"),
        ("offset", "b", "at: 65536 -> 49152"),
        ("offset", "ring_full", "at: 229376 -> 229368"),
        ("swizzle", "a", "swizzle: 128 -> 64"),
        ("swizzle", "C_map", "swizzle: 128 -> 0"),
        ("box", "A_map", "box: (128, 64) -> (64, 64)"),
        ("count", "math", "instances: 2 -> 1"),
        ("bound", "launch", "ctas: sm_count -> sm_count + 1"),
    ],
)
def test_declarations_change_with_all_that_refers_to_them(kind: str, name: str, detail: str) -> None:
    """A changed declaration is changed wherever a statement holds it, so the text reads back."""
    (edit,) = [e for e in neighbours("gemm_bf16") if (e.kind, e.path, e.detail) == (kind, name, detail)]
    assert read_program(print_program(edit.program)) == edit.program


def test_what_cannot_be_built_is_counted() -> None:
    """Dropping the only binding of a name gives no neighbour, and the count says so."""
    refused: Counter[str] = Counter()
    kept = list(edits(program("gemm_bf16"), refused))
    assert refused["drop"] > 0
    first = path_of(program("gemm_bf16"), "acc = fragment")
    assert not [e for e in kept if e.path == first and e.kind == "drop"]


def test_two_edits_compose() -> None:
    """An edit of an edit is a program two edits away; undoing the first edit leads back."""
    parent = program("rmsnorm_bf16")
    once = next(e for e in edits(parent) if e.detail == "arrivals: 256 -> 224")
    assert parent in [e.program for e in edits(once.program) if e.path == once.path]


def test_statement_by_path() -> None:
    """Every path of `walk` finds its statement; others are KeyErrors."""
    parent = program("gemm_bf16")
    for at in walk(parent):
        assert statement(parent, at.path) is at.stmt
    for wrong in ("load", "load:", "load:99", "load:0.0", "nobody:0", "load:x"):
        with pytest.raises(KeyError):
            statement(parent, wrong)
    assert parse_path("load:0.1.2") == ("load", (0, 1, 2))


def test_replace_statement() -> None:
    """Replacing a statement by itself changes nothing; by nothing drops it, and blocks left empty go with it."""
    parent = program("gemm_bf16")
    path = path_of(parent, "mbarrier_arrive(ring_empty[previous])")
    assert replace_statement(parent, path, [statement(parent, path)]) == parent
    dropped = replace_statement(parent, path, [])
    assert print_program(parent).count("if i > 0:") == 1
    assert print_program(dropped).count("if i > 0:") == 0


def test_scopes_are_repaired() -> None:
    """The first binding in scope declares; a use before it, or another type, is an IRError."""
    parent = program("gemm_bf16")
    math = next(b.body for b in parent.roles if b.role.name == "math")
    assert rescoped(parent, math) is math
    twice = replace_statement(parent, "math:1", [statement(parent, "math:1")] * 2)
    assert [s.declare for s in twice.roles[1].body[1:3]] == [True, False]  # type: ignore[union-attr]
    with pytest.raises(IRError, match="ring_slot is used before it is bound"):
        replace_statement(parent, "load:1", [])
    declare = next(at.stmt for at in walk(parent) if isinstance(at.stmt, Declare))
    with pytest.raises(IRError, match="declared twice"):
        rescoped(parent, (declare, declare))


def test_one_lane_and_all() -> None:
    """Handing a statement to one lane wraps it; handing a block to every thread unwraps it."""
    wrapped = [e for e in neighbours("gemm_bf16") if e.detail == "done by one lane"]
    assert all(isinstance(statement(e.program, e.path), OneLane) for e in wrapped)
    unwrapped = [e for e in neighbours("gemm_bf16") if e.detail == "done by every thread"]
    assert any(isinstance(statement(e.program, e.path), OpStmt) for e in unwrapped)
