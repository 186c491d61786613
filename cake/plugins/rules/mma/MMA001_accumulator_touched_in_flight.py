Rule(
    code="MMA001",
    name="accumulator-touched-in-flight",
    category="data-consistency",
    since="0.1",
    finding="""
        writes(Mma, Acc) :- async(Mma, _, "group"), touches(Mma, Acc, "write", _), not smem(Acc, _, _, _, _).
        finding(Use, Mma, Acc) :-
            conflict(Mma, Use, Acc), writes(Mma, Acc), not async(Use, _, _), not ordered(Mma, Use).
    """,
    message="{Use} touches {Acc} while {Mma.kind} at line {Mma.line} may still be accumulating into it",
    help="Wait for the group of line {Mma.line} before line {Use.line}: wgmma_wait(0).",
    why="""
        wgmma writes its accumulator registers at any time until a wait covers its group. The register
        dependency is not one that the hardware tracks: the reader gets a partial sum.
    """,
    evidence=(
        "PTX ISA, wgmma.mma_async: accessing the accumulator before wgmma.wait_group completes is undefined behaviour",
        "simulator: corpus/bad/MMA001/bad.cake gives other values than good.cake",
    ),
    bad=("bad.cake",),
    good=("good.cake",),
)
