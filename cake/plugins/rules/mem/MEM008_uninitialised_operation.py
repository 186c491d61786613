Rule(
    code="MEM008",
    name="uninitialised-operation",
    category="data-consistency",
    since="0.1",
    finding="finding(Op, Cell) :- reads_unwritten(Op, Cell).",
    message="{Op} reads what nothing wrote to {Cell}",
    help="Write all of {Cell} that {Op} reads before it does.",
    why="""
        Op reads what nothing wrote to Cell. Of programs in which this is so, 8 on record give wrong results
        (8 on NVIDIA H200).
    """,
    evidence=("8 mismatch records from NVIDIA H200, rmsnorm_bf16; for example program b9ee2214da2d969e",),
    bad=("bad.cake",),
    good=("good.cake",),
    status="stable",
)
