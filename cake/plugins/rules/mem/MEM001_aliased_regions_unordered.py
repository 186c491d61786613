Rule(
    code="MEM001",
    name="aliased-regions-unordered",
    category="program-safety",
    since="0.1",
    finding="""
        finding(B, A, P, Q) :-
            overlap(P, Q), conflict(A, B, _), view(A, _, P, _, _), view(B, _, Q, _, _), not ordered(A, B).
    """,
    message="{B} touches {Q} while {A.kind} at line {A.line} may be busy with {P}, which shares its bytes",
    help="Give {P} and {Q} bytes of their own, or let a barrier end the life of {P} before line {B.line}.",
    why="""
        Two regions at one place are one memory. Without an order between the last use of the one and the
        first of the other, whichever comes second in time wins, and the other reads its bytes as its own
        values.
    """,
    evidence=("simulator: corpus/bad/MEM001/bad.cake gives other values than good.cake",),
    bad=("bad.cake",),
    good=("good.cake",),
)
