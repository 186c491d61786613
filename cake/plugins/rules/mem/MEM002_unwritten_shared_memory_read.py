Rule(
    code="MEM002",
    name="unwritten-shared-memory-read",
    category="data-consistency",
    since="0.1",
    finding="""
        asynchronous(Buf) :- touches(_, Buf, "write", "async").
        finding(Read, Buf) :- reads_unwritten(Read, Buf), smem(Buf, _, _, _, _), not asynchronous(Buf).
    """,
    message="{Read} reads bytes of {Buf} that nothing has written",
    help="Write the whole of what is read, or move the write before {Read}.",
    why="""
        Shared memory starts with whatever the last CTA on the SM left there. A read of bytes that no thread
        has stored gives a value that changes with the neighbours and the clock.
    """,
    evidence=(
        "CUDA C++ Programming Guide, Shared Memory: contents are undefined at launch",
        "simulator: corpus/bad/MEM002/bad.cake gives other values than good.cake",
    ),
    bad=("bad.cake",),
    good=("good.cake",),
)
