Rule(
    code="MEM003",
    name="write-unfenced-for-async-proxy",
    category="data-consistency",
    since="0.1",
    finding="""
        finding(Use, Write, Buf) :-
            conflict(Write, Use, Buf), touches(Write, Buf, "write", "generic"), touches(Use, Buf, "read", "async"),
            ordered(Write, Use), not visible(Write, Use).
    """,
    message="{Use} reads {Buf}, and the async proxy need not see what {Write.kind} wrote at line {Write.line}",
    help="Put fence_proxy_async() behind line {Write.line}, in the threads that wrote, before the barrier.",
    why="""
        TMA and wgmma read shared memory through the async proxy. An ordinary store that a barrier orders
        before them is still only in the generic proxy: without a proxy fence by the writing thread they may
        read what was there before.
    """,
    evidence=(
        "PTX ISA, Async proxy: a fence.proxy.async is needed to synchronise between generic and async proxy",
        "simulator: corpus/bad/MEM003/bad.cake gives other values than good.cake",
    ),
    bad=("bad.cake",),
    good=("good.cake",),
)
