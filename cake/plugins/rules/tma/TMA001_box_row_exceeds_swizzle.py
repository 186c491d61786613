Rule(
    code="TMA001",
    name="box-row-exceeds-swizzle",
    category="hardware-conformance",
    since="0.1",
    finding="""
        finding(Map, Bytes, Span) :- tensor_map(Map, _, _, Bytes, Span), Span > 0, Bytes > Span.
    """,
    message="a row of {Map}'s box has {Bytes} bytes, more than its swizzle of {Span}",
    help="Narrow the innermost extent of the box to {Span} bytes, and copy several boxes.",
    why="""
        The swizzle permutes chunks within rows of its own span. cuTensorMapEncodeTiled refuses an innermost
        box dimension beyond the span with CUDA_ERROR_INVALID_VALUE: the kernel is never launched.
    """,
    evidence=(
        "CUDA Driver API, cuTensorMapEncodeTiled: with a swizzle the inner dimension must be at most the swizzle size",
        "simulator: corpus/bad/TMA001/bad.cake traps",
    ),
    bad=("bad.cake",),
    good=("good.cake",),
)
