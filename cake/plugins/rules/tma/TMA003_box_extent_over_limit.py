Rule(
    code="TMA003",
    name="box-extent-over-limit",
    category="hardware-conformance",
    since="0.1",
    finding="""
        finding(Map, D, N, Limit) :- box_extent(Map, D, N), limit("box_extent", Limit), N > Limit.
    """,
    message="extent {D} of {Map}'s box is {N}; a descriptor holds at most {Limit}",
    help="Split the box into copies of at most {Limit} rows.",
    why="""
        A descriptor stores each box extent in eight bits. cuTensorMapEncodeTiled refuses more with
        CUDA_ERROR_INVALID_VALUE: the kernel is never launched.
    """,
    evidence=(
        "CUDA Driver API, cuTensorMapEncodeTiled: boxDim[i] must be at most 256",
        "simulator: corpus/bad/TMA003/bad.cake traps",
    ),
    bad=("bad.cake",),
    good=("good.cake",),
)
