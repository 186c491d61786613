Rule(
    code="SYN006",
    name="declared-arrivals-differ-from-arrivals-of-a-phase",
    category="program-safety",
    since="0.1",
    finding="""
        finding(Op, Bar, Arrivals, Arrivals2) :- arrives(Op, Bar, _), waits(_, Bar),
        barrier(Bar, _, _, Arrivals, _, _), phase(Bar, _, Arrivals2, _, _), Arrivals != Arrivals2.
    """,
    message="{Op}: declared arrivals ({Arrivals}) differ from arrivals of a phase ({Arrivals2})",
    help="Make the declared arrivals and the arrivals of a phase agree.",
    why="""
        Programs in which Op arrives on Bar, and Bar is declared with some slots and Arrivals arrivals, and
        a phase of Bar can stand with Arrivals2 arrivals, some bytes awaited and some delivered, and
        declared arrivals (Arrivals) differ from arrivals of a phase (Arrivals2) hang: 5 that did are on
        record (5 on NVIDIA H200).
    """,
    evidence=("5 hang records from NVIDIA H200, gemm_bf16; for example program 34c5043a85f36b5c",),
    bad=("bad.cake",),
    good=("good.cake", "unheeded.cake"),
    status="stable",
)
