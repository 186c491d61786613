Rule(
    code="RES003",
    name="threads-over-limit",
    category="hardware-conformance",
    since="0.1",
    finding="""
        finding(What, N, Limit) :- What = "threads", uses(What, N), limit(What, Limit), N > Limit.
    """,
    message="the roles have {N} threads in all; the target runs at most {Limit} in a CTA",
    help="Take warps or instances from a role.",
    why="""
        A CTA runs on one SM whole. A launch with more threads than the target allows in a block fails: no
        thread runs.
    """,
    evidence=(
        "CUDA C++ Programming Guide, Technical Specifications: maximum number of threads of a block",
        "simulator: corpus/bad/RES003/bad.cake traps",
    ),
    bad=("bad.cake",),
    good=("good.cake",),
)
