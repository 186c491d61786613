Rule(
    code="RES002",
    name="register-pool-exceeded",
    category="hardware-conformance",
    since="0.1",
    finding="""
        finding(Grow, Total, Pool) :-
            registers(Grow, _, _, "inc"), register_total(Total), uses("registers", Pool), Total > Pool.
    """,
    message="{Grow} waits for ever: the roles ask for {Total} registers in all, and the launch gave the CTA {Pool}",
    help="Lower the counts until warps times 32 times count, summed over the roles, is at most {Pool}.",
    why="""
        setmaxnreg.inc blocks until the CTA's pool holds enough registers, and the pool holds only what the
        launch assigned and other warpgroups gave back. When the counts sum to more than that, the last
        warpgroup to grow never gets its share: a hang by arithmetic.
    """,
    evidence=(
        "PTX ISA, setmaxnreg: inc blocks until enough registers are available in the per-CTA pool",
        "four consumer warpgroups at 120 registers hung on the H200: more than the launch had",
        "simulator: corpus/bad/RES002/bad.cake hangs",
    ),
    bad=("bad.cake",),
    good=("good.cake",),
)
