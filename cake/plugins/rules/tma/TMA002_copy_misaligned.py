Rule(
    code="TMA002",
    name="copy-misaligned",
    category="hardware-conformance",
    since="0.1",
    finding="""
        finding(Copy, Buf, A) :- uses_map(Copy, _), view(Copy, _, Buf, _, A), A < 128.
    """,
    message="{Copy} starts at a multiple of {A} bytes in {Buf}; a copy needs 128",
    help="Move {Buf} at line {Buf.line} to a multiple of 128 bytes (1024 under a 128-byte swizzle).",
    why="""
        The shared-memory address of a tensor copy must be a multiple of 128 bytes. Any other address
        faults: misaligned address, and the context is lost.
    """,
    evidence=(
        "PTX ISA, cp.async.bulk.tensor: dstMem and srcMem in shared memory are aligned to 128 bytes",
        "simulator: corpus/bad/TMA002/bad.cake traps",
    ),
    bad=("bad.cake",),
    good=("good.cake",),
)
