Rule(
    code="MMA002",
    name="operand-not-swizzled-by-row",
    category="hardware-conformance",
    since="0.1",
    finding="""
        multiply(Op) :- async(Op, _, "group"), collective(Op, "warpgroup").
        finding(Buf) :- multiply(Op), view(Op, _, Buf, _, _), smem(Buf, _, _, _, 0).
    """,
    message="{Buf} is an operand of the tensor cores and has no swizzle: a descriptor cannot name its rows",
    help="Declare {Buf} at line {Buf.line} with swizzle equal to the bytes of its rows, and its tensor map too.",
    why="""
        A matrix descriptor walks atoms of eight rows, each as long as the swizzle span. An unswizzled
        operand is made of 8 x 16-byte core matrices, not of the rows that a region declares.
    """,
    evidence=(
        "PTX ISA, Matrix descriptor and Canonical layouts: K-major operands",
        "simulator: corpus/bad/MMA002/bad.cake gives other values than good.cake",
    ),
    bad=("bad.cake",),
    good=("good.cake",),
)
