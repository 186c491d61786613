Rule(
    code="SYN004",
    name="warpgroup-not-aligned",
    category="hardware-conformance",
    since="0.1",
    finding="""
        grouped(Role) :- collective(Op, "warpgroup"), op(Op, _, Role).
        finding(Role, Warps, First) :- grouped(Role), role(Role, Warps, _, First), Warps < 4.
        finding(Role, Warps, First) :- grouped(Role), role(Role, Warps, _, First), alignment(Role, Factor), Factor < 4.
    """,
    message="{Role} acts as warpgroups, and its {Warps} warps from warp {First} on are none",
    help="Give {Role} at line {Role.line} four warps, and declare it where its first warp is a multiple of four.",
    why="""
        A warpgroup is four consecutive warps of which the first has a rank divisible by four. A role that
        straddles two of them executes the instruction with half of each: illegal instruction, or a hang
        where one half waits for the other.
    """,
    evidence=(
        "PTX ISA, Warpgroup: four contiguous warps of which the first has a rank divisible by 4",
        "simulator: corpus/bad/SYN004/bad.cake hangs",
    ),
    bad=("bad.cake",),
    good=("good.cake",),
)
