Rule(
    code="SYN002",
    name="barrier-count-unreachable",
    category="program-safety",
    since="0.1",
    finding="""
        split(Bar, Role) :- syncs(_, Bar, _, "false"), role(Role, _, _, _).
        split(Bar, Role) :- syncs(X, Bar, _, _), op(X, _, Other), role(Role, _, _, _), Other != Role.
        split(Bar, Role) :- syncs(X, Bar, _, _), op(X, _, Role), conditional(X).
        together(Sync, Bar, Threads, N) :-
            syncs(Sync, Bar, Threads, _), barrier(Bar, "named", _, N, _, _), not one_lane(Sync), not varying(Sync).
        finding(Sync, Bar, Threads, N) :- together(Sync, Bar, Threads, N), Threads > N.
        finding(Sync, Bar, Threads, N) :-
            together(Sync, Bar, Threads, N), Threads < N, op(Sync, _, Role), role(Role, _, 1, _), not split(Bar, Role).
    """,
    message="{Sync} brings {Threads} threads of {Sync.role} to {Bar}, which opens at {N}",
    help="Declare as many arrivals as threads meet there, or move {Sync.kind} to where all of them execute it.",
    why="""
        The hardware counts arriving warps, 32 threads each. Too few for ever leaves everyone waiting; with
        too many the barrier opens before all of them have come, and the rest fill a generation that nobody
        completes.
    """,
    evidence=(
        "PTX ISA, barrier: the count is the number of threads taking part, a multiple of the warp size",
        "simulator: corpus/bad/SYN002/bad.cake hangs",
    ),
    bad=("bad.cake", "too_many.cake"),
    good=("good.cake",),
)
