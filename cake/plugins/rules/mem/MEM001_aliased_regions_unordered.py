Rule(
    code="MEM001",
    name="aliased-regions-unordered",
    category="program-safety",
    since="0.1",
    finding="""
        finding(B, A, P, Q) :-
            overlap(P, Q), conflict(A, B, _), view(A, _, P, _, _), view(B, _, Q, _, _), not ordered(A, B).
    """,
    message="{B} touches {Q} while {A} may still be busy with {P}, which shares its bytes",
    help="Move one of {P} and {Q} to bytes of its own, or let a barrier between {A} and {B} end the life of {P}.",
    why="""
        Two regions at one place are one memory. Without an order between the last use of the one and the
        first of the other, whichever comes second in time wins, and the other reads its bytes as its own
        values.
    """,
    evidence=(
        "alias + extent reports in public kernels: aliased staging buffers overwritten while the ring still held tiles",
    ),
    bad=("bad.cake",),
    good=("good.cake",),
)
