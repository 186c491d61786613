Rule(
    code="SYN003",
    name="collective-not-converged",
    category="program-safety",
    since="0.1",
    finding="""
        finding(Op, Scope) :- collective(Op, Scope), one_lane(Op).
        finding(Op, Scope) :- collective(Op, Scope), varying(Op).
    """,
    message="{Op} needs every thread of its {Scope}, and stands where only some of them go",
    help="Move {Op} out of the condition, and predicate what it works on instead.",
    why="""
        Collective instructions (.sync.aligned) are executed by all threads of the warp or warpgroup
        together. Where lanes differ, those that are missing are waited for until the end of time, or the
        result of the others is undefined.
    """,
    evidence=(
        "PTX ISA, barrier, stmatrix, wgmma, setmaxnreg: .aligned needs all threads of the warp at one instruction",
        "simulator: corpus/bad/SYN003/bad.cake traps",
    ),
    bad=("bad.cake", "one_lane.cake"),
    good=("good.cake",),
)
