Rule(
    code="MEM005",
    name="unordered-access",
    category="data-consistency",
    since="0.1",
    finding="finding(A, B) :- conflict(A, B, _), not ordered(A, B).",
    message="{A} and {B} touch the same bytes; nothing makes {B} wait until {A} is done",
    help="""
        Let {B} wait for {A}: a barrier that the role of {A} arrives on once it is done, or a group wait.
    """,
    why="""
        A and B touch the same bytes; nothing makes B wait until A is done. Of programs in which this is so,
        2 on record give results that differ from run to run (2 on NVIDIA H200).
    """,
    evidence=("2 nondeterminism records from NVIDIA H200, gemm_bf16; for example program d60c848ccdac3773",),
    bad=("bad.cake",),
    good=("good.cake",),
    status="stable",
)
