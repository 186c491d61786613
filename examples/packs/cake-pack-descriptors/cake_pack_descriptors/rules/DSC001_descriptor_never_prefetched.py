Rule(
    code="DSC001",
    name="descriptor-never-prefetched",
    category="optimisation-guidance",
    since="0.1",
    status="preview",
    blocking=False,
    finding="""
        prefetched(Map) :- op(P, "prefetch_tensormap", _), uses_map(P, Map).
        finding(Load, Map) :- op(Load, "tma_load", _), uses_map(Load, Map), not prefetched(Map).
    """,
    message="the first {Load} waits for its descriptor: {Map} is never prefetched",
    help="Put prefetch_tensormap({Map}) at the start of {Load.role}, in one lane.",
    why="""
        A TMA copy reads its 128-byte descriptor from global memory through the constant cache. The first copy of a
        CTA finds it cold and waits for DRAM; a prefetch issued before the first wait hides that.
    """,
    evidence=("PTX ISA, prefetch.tensormap: brings the descriptor into the cache for a later cp.async.bulk.tensor",),
    bad=("bad.cake",),
    good=("good.cake",),
)
