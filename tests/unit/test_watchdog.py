"""Watchdog reports: words written by a kernel, decoded into role, barrier, slot, phase and iteration."""

from __future__ import annotations

from cake.core.watchdog import (
    END,
    HEAD_WORDS,
    PLACE_WORDS,
    RolePlace,
    Statement,
    decode_places,
    decode_stuck,
    report_words,
)

ROLES = (RolePlace("load", 0, 1, 1), RolePlace("math", 1, 2, 2))
STATEMENTS = (
    Statement("load:0", 10, "mbarrier_wait", "empty", ("i", "tile")),
    Statement("math:0", 20, "mbarrier_wait", "full", ("i",)),
    Statement("math:1", 21, "barrier_sync", "staged", ()),
)
WARPS = 5


def report(head: list[int], places: dict[tuple[int, int, int], list[int]], ctas: int = 2) -> list[int]:
    """A report's words: `places` maps (CTA, warp, 0 for lane 0 or 1 for the rest) to a place's words."""
    words = [0] * report_words(ctas, 32 * WARPS)
    words[: len(head)] = head
    for (cta, warp, rest), values in places.items():
        at = HEAD_WORDS + PLACE_WORDS * (2 * (cta * WARPS + warp) + rest)
        words[at : at + len(values)] = values
    return words


def test_a_wait_that_gave_up_is_located() -> None:
    """Thread 96 is lane 0 of warp 3: instance 1 of math, its first warp."""
    stuck = decode_stuck(report([1, 1, 1, 96, 2, 3, 1, 17, 0, 0], {}), ROLES, STATEMENTS)

    assert stuck is not None
    assert (stuck.kind, stuck.slot, stuck.parity) == ("mbarrier_wait", 3, 1)
    place = stuck.place
    assert (place.cta, place.role, place.instance, place.warp, place.elected) == (1, "math", 1, 0, True)
    assert (place.path, place.line, place.op, place.barrier, place.loops) == (
        "math:0",
        20,
        "mbarrier_wait",
        "full",
        (("i", 17),),
    )
    assert str(place) == "math[1] warp 0 lane 0 of CTA 1: mbarrier_wait(full) at math:0, line 20, i = 17"


def test_a_report_without_a_whole_record_is_none() -> None:
    """Nothing gave up, or it was cut off before the record was complete."""
    assert decode_stuck(report([0], {}), ROLES, STATEMENTS) is None
    assert decode_stuck(report([1, 0, 1, 96, 2], {}), ROLES, STATEMENTS) is None


def test_a_finished_warp_that_waits_in_vain_says_so() -> None:
    """It stands at its end; who is unfinished is in the places."""
    stuck = decode_stuck(report([2, 1, 0, 0, END, 0, 0, 0, 0, 0], {}), ROLES, STATEMENTS)

    assert stuck is not None
    assert (stuck.kind, stuck.place.path) == ("unfinished", "end")


def test_places_are_those_that_have_not_ended() -> None:
    """A CTA that never started is left out, and so are warps at their end."""
    words = report(
        [0],
        {
            (0, 0, 0): [1, 5, 2],
            (0, 0, 1): [END],
            **{(0, w, r): [END] for w in (1, 2, 4) for r in (0, 1)},
            (0, 3, 0): [3],
            (0, 3, 1): [3],
        },
    )
    places = decode_places(words, ROLES, STATEMENTS, ctas=2, warps=WARPS)

    assert [str(p) for p in places] == [
        "load[0] warp 0 lane 0 of CTA 0: mbarrier_wait(empty) at load:0, line 10, i = 5, tile = 2",
        "math[1] warp 0 lane 0 of CTA 0: barrier_sync(staged) at math:1, line 21",
        "math[1] warp 0 of CTA 0: barrier_sync(staged) at math:1, line 21",
    ]


def test_words_that_make_no_sense_do_not_crash_the_reader() -> None:
    """A report is memory that a broken kernel may have written to."""
    words = report([1, 1, 7, 10**6, 999, 1, 1, 1, 1, 1], {(0, 0, 0): [12345, 1, 1, 1]})
    stuck = decode_stuck(words, ROLES, STATEMENTS)

    assert stuck is not None
    assert (stuck.place.role, stuck.place.path) == ("?", "")
    assert decode_places(words, ROLES, STATEMENTS, ctas=2, warps=WARPS) == ()
