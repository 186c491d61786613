Rule(
    code="TMA004",
    name="box-row-not-in-16-bytes",
    category="hardware-conformance",
    since="0.1",
    finding="""
        finding(Map, Bytes, A, Multiple) :- tensor_map(Map, _, _, Bytes, _), alignment(Map, A),
        limit("box_inner_multiple", Multiple), A < Multiple.
    """,
    message="a row of {Map}'s box has {Bytes} bytes, no multiple of {Multiple}",
    help="Make the innermost extent of the box of {Map} a multiple of {Multiple} bytes; TMA clips at the edge.",
    why="""
        The copy engine moves a box by rows of its innermost dimension, in units of 16 bytes. The driver
        refuses to encode a descriptor whose rows are anything else, so the kernel cannot be launched.
    """,
    evidence=(
        "CUDA driver API, cuTensorMapEncodeTiled: boxDim[0] times the element's size is a multiple of 16 bytes",
        "simulator: corpus/bad/TMA004/bad.cake traps",
    ),
    bad=("bad.cake",),
    good=("good.cake",),
)
