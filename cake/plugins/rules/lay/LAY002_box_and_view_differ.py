Rule(
    code="LAY002",
    name="box-and-view-differ",
    category="schedule-semantics",
    since="0.1",
    finding="""
        box_rank(Map, R) :- uses_map(_, Map), R = #max { D : box_extent(Map, D, _) }.
        view_rank(Copy, R) :- uses_map(Copy, _), R = #max { D : view_extent(Copy, _, D, _) }.
        finding(Copy, Map, D, N, M) :-
            uses_map(Copy, Map), box_rank(Map, R), view_rank(Copy, R),
            view_extent(Copy, _, D, N), box_extent(Map, D, M), N != M.
    """,
    message="{Copy} moves a box whose extent {D} is {M}, and its view has {N}",
    help="Give {Map} the box of the view, or take a view of the box's shape.",
    why="""
        TMA packs a box row by row, at the box's own row length. A view of another shape reads the rows at
        other places, and where the box is larger the copy runs over what lies behind the view.
    """,
    evidence=(
        "PTX ISA, cp.async.bulk.tensor: the box is laid out densely in shared memory, innermost dimension first",
        "simulator: corpus/bad/LAY002/bad.cake gives other values than good.cake",
    ),
    bad=("bad.cake",),
    good=("good.cake",),
)
