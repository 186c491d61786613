Rule(
    code="SYN005",
    name="expected-bytes-differ-from-delivered-bytes",
    category="program-safety",
    since="0.1",
    finding="""
        finding(Op, Bar, Expected, Delivered) :- expects(Op, Bar, _), phase(Bar, _, _, Expected, Delivered),
        Expected != Delivered.
    """,
    message="{Op}: expected bytes ({Expected}) differ from delivered bytes ({Delivered})",
    help="Make the expected bytes and the delivered bytes agree.",
    why="""
        Programs in which Op announces bytes on Bar, and a phase of Bar can stand with some arrivals,
        Expected bytes awaited and Delivered delivered, and expected bytes (Expected) differ from delivered
        bytes (Delivered) hang: 14 that did are on record (14 on NVIDIA H200).
    """,
    evidence=("14 hang records from NVIDIA H200, gemm_bf16; for example program 36f89ebe494666ae",),
    bad=("bad.cake",),
    good=("good.cake",),
    status="stable",
)
