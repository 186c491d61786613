Rule(
    code="RES001",
    name="shared-memory-over-limit",
    category="hardware-conformance",
    since="0.1",
    finding="""
        finding(What, N, Limit) :- What = "smem_bytes", uses(What, N), limit(What, Limit), N > Limit.
    """,
    message="regions and barriers take {N} bytes of shared memory; the target gives a CTA {Limit}",
    help="Take a stage from the ring, shrink the tile, or let regions whose lives do not meet share bytes.",
    why="""
        The launch asks the driver for dynamic shared memory up to the last byte that a region or barrier
        uses. Beyond what the target gives one CTA, cuFuncSetAttribute and with it the launch fail: no
        thread runs.
    """,
    evidence=(
        "CUDA C++ Programming Guide, Technical Specifications: maximum shared memory of a thread block",
        "simulator: corpus/bad/RES001/bad.cake traps",
    ),
    bad=("bad.cake",),
    good=("good.cake",),
)
