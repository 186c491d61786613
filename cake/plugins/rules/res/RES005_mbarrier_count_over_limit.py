Rule(
    code="RES005",
    name="mbarrier-count-over-limit",
    category="hardware-conformance",
    since="0.1",
    finding="""
        finding(Bar, N, Limit) :- barrier(Bar, "mbarrier", _, N, _, _), limit("mbarrier_arrivals", Limit), N > Limit.
    """,
    message="{Bar} is declared with {N} arrivals; an mbarrier counts at most {Limit}",
    help="Let one lane of a warp arrive for all of it, or arrive with a copy's bytes, and count those arrivals.",
    why="""
        An mbarrier is one 64-bit word, and its expected arrivals are 20 bits of it. mbarrier.init with more
        is undefined: what is left of the number is another count.
    """,
    evidence=(
        "PTX ISA, Contents of the mbarrier object: the expected arrivals are 1 to 2**20 - 1",
        "simulator: corpus/bad/RES005/bad.cake traps",
    ),
    bad=("bad.cake",),
    good=("good.cake",),
)
