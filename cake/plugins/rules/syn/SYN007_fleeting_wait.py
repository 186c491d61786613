Rule(
    code="SYN007",
    name="fleeting-wait",
    category="program-safety",
    since="0.1",
    finding="finding(Op, Bar) :- waits(Op, Bar), not lasting(Op, Bar).",
    message="""
        the phase that {Op} waits for on {Bar} may be over, and the next one too, before {Op} looks
    """,
    help="Let the role of {Op} take part in the next phase of {Bar}, so that it cannot be overtaken.",
    why="""
        Programs in which Op waits on Bar, and the phase that Op waits for on Bar may be over, and the next
        one too, before Op looks hang: 4 that did are on record (4 on NVIDIA H200).
    """,
    evidence=("4 hang records from NVIDIA H200, gemm_bf16; for example program cada4381095cc463",),
    bad=("bad.cake",),
    good=("good.cake",),
    status="stable",
)
