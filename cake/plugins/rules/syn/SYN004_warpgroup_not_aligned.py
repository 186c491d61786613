Rule(
    code="SYN004",
    name="warpgroup-not-aligned",
    category="hardware-conformance",
    since="0.1",
    finding="""
        finding(Op, Role, First) :-
            collective(Op, "warpgroup"), op(Op, _, Role), role(Role, _, _, First), alignment(Role, Factor), Factor < 4.
        finding(Op, Role, First) :-
            collective(Op, "warpgroup"), op(Op, _, Role), role(Role, Warps, _, First), Warps < 4.
    """,
    message="{Op} is for warpgroups, and {Role} starts at warp {First} or has fewer than four warps",
    help="Declare roles of four warps first, so that {Role} starts at a multiple of four.",
    why="""
        A warpgroup is four consecutive warps of which the first has a rank divisible by four. A role that
        straddles two of them executes the instruction with half of each: illegal instruction, or a hang
        where one half waits for the other.
    """,
    evidence=(
        "PTX ISA, Warpgroup: four contiguous warps such that the warp-rank of the first warp is a multiple of 4",
    ),
    bad=("bad.cake",),
    good=("good.cake",),
)
