Rule(
    code="LAY001",
    name="swizzle-of-map-and-region-differ",
    category="schedule-semantics",
    since="0.1",
    finding="""
        mapped(Op) :- uses_map(Op, _).
        place(Op, Buf, S) :- view(Op, _, Buf, _, _), uses_map(Op, Map), tensor_map(Map, _, _, _, S).
        place(Op, Buf, S) :- view(Op, _, Buf, _, _), smem(Buf, _, _, _, S), not mapped(Op).
        finding(Copy, Buf, S, T) :- place(Copy, Buf, S), mapped(Copy), place(_, Buf, T), S != T.
    """,
    message="{Copy} places {Buf} with a swizzle of {S} bytes, others use it with {T}",
    help="Give the tensor map and the region at line {Buf.line} one swizzle.",
    why="""
        A copy swizzles by its descriptor; stmatrix, wgmma and thread code by the region's declaration.
        Where they differ, the same element has two places, 16-byte chunks of each row come out permuted,
        and nothing else goes wrong.
    """,
    evidence=(
        "PTX ISA, Shared memory swizzling modes: 16-byte chunks are XORed with the row within the swizzle atom",
        "simulator: corpus/bad/LAY001/bad.cake gives other values than good.cake",
    ),
    bad=("bad.cake",),
    good=("good.cake",),
)
