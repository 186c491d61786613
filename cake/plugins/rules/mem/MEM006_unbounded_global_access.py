Rule(
    code="MEM006",
    name="unbounded-global-access",
    category="program-safety",
    since="0.1",
    finding="finding(Op, Tensor) :- global_access(Op, Tensor, _, _), not in_bounds(Op, Tensor).",
    message="no guard or loop bound keeps {Op} inside {Tensor} for every extent",
    help="""
        Put {Op} under a condition, such as its `when`, that keeps all that it accesses inside {Tensor}.
    """,
    why="""
        Each thread accesses Tensor in Op; no guard or loop bound keeps Op inside Tensor for every extent.
        Of programs in which this is so, 1 on record hang (1 on NVIDIA H200).
    """,
    evidence=("1 hang records from NVIDIA H200, rmsnorm_bf16; for example program 2d383499916fdabc",),
    bad=("bad.cake",),
    good=("good.cake",),
    status="preview",
)
