Rule(
    code="RES004",
    name="barrier-id-out-of-range",
    category="hardware-conformance",
    since="0.1",
    finding="""
        finding(Bar, Last, Limit) :- barrier(Bar, "named", _, _, _, Last), limit("named_barriers", Limit), Last > Limit.
    """,
    message="{Bar} reaches hardware barrier {Last}; the last one is {Limit}",
    help="Start {Bar} lower, or give it fewer slots.",
    why="""
        The SM has sixteen CTA barriers, chosen by the low bits of an operand. ptxas refuses a constant id
        beyond them; one computed at run time is undefined.
    """,
    evidence=(
        "PTX ISA, barrier: the operand is 0 to 15",
        "simulator: corpus/bad/RES004/bad.cake traps",
    ),
    bad=("bad.cake",),
    good=("good.cake",),
)
