Rule(
    code="DSC002",
    name="box-row-not-sixteen-bytes",
    category="hardware-conformance",
    since="0.1",
    finding="""
        finding(Map, Bytes, Factor) :- tensor_map(Map, _, _, Bytes, _), alignment(Map, Factor), Factor < 16.
    """,
    message="a row of {Map}'s box has {Bytes} bytes, no multiple of 16: it divides by {Factor} at most",
    help="Widen the innermost extent of the box at line {Map.line} to a multiple of 16 bytes.",
    why="""
        TMA moves rows of 16-byte chunks. cuTensorMapEncodeTiled refuses a descriptor whose innermost box dimension is
        no multiple of 16 bytes with CUDA_ERROR_INVALID_VALUE, so that the kernel is never launched.
    """,
    evidence=("CUDA Driver API, cuTensorMapEncodeTiled: boxDim[0] times the element size is a multiple of 16 bytes",),
    bad=("bad.cake",),
    good=("good.cake",),
)
