Rule(
    code="SYN001",
    name="barrier-id-shared",
    category="program-safety",
    since="0.1",
    finding="""
        finding(A, B) :- id_overlap(A, B), syncs(X, A, _, _), syncs(Y, B, _, _).
    """,
    message="{A} and {B} use the same hardware barrier",
    help="Give {A} and {B} ranges of ids that do not meet.",
    why="""
        A named barrier is one counter in the SM. Arrivals meant for one of two barriers with the same id
        count for the other: it opens before its own threads have arrived, or with too many of them, and
        what it should have ordered is not.
    """,
    evidence=(
        "PTX ISA, barrier: the operand names one of 16 barriers of the CTA, whichever threads arrive on it",
        "simulator: corpus/bad/SYN001/bad.cake gives other values than good.cake",
    ),
    bad=("bad.cake",),
    good=("good.cake",),
)
