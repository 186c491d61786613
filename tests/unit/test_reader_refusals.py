"""What the reader refuses: each construct outside the language, at its line, with what to write instead."""

from __future__ import annotations

import pytest

from cake.core.ir import IRError
from cake.core.reader import read_program, read_schedule

#: A schedule whose second role takes the statements of a case, from line 16 on.
SCHEDULE = '''@schedule(target="sm_90a")
def k(X: Tensor[f32, "N"], eps: f32, *, STAGES=2, FLAG=True):
    """Doc."""
    TWO = 2
    launch(ctas=N)
    s = smem(f32, (8, 4), stages=STAGES, at=0)
    X_map = tensor_map(X, box=(8,))
    full = mbarrier(arrivals=1, at=s.end, slots=STAGES)
    done = named_barrier(arrivals=32, at=1)
    load = role(warps=1)
    math = role(warps=4, instances=2)
    ring = pipeline(stages=STAGES, producer=load, consumer=math, at=4096)
    with load:
        pass
    with math:
'''

#: Statements of a role, the line that is at fault, and the reason.
IN_A_ROLE = [
    ("import os", 1, "`import` is not part of the language: a kernel stands alone; delete the line"),
    ("while True:\n    pass", 1, "`while` is not part of the language: write `for i in range(...)` with a `break`"),
    ("x = lambda: 1", 1, "`lambda` is not part of the language: write the expression where it is used"),
    ("x = [1]", 1, "a list is not part of the language: write a tuple: `(a, b)`"),
    ("x = [i for i in range(3)]", 1, "a comprehension is not part of the language: write `for x in static((...))`"),
    ("x = {1: 2}", 1, "a dictionary is not part of the language: write keyword arguments"),
    ('x = f"{TWO}"', 1, "an f-string is not part of the language: write a plain string"),
    ("x = (y := 1)", 1, "`:=` is not part of the language: assign in a statement of its own"),
    ("x = print(1)", 1, "unknown function 'print'"),
    ("tma_load(s[0], X_map, at=(0,), done=done)", 1, "tma_load: done is a named barrier, not an mbarrier"),
    (
        'x = fragment(f16, (64,), layout="wgmma")\nstmatrix(s[0], x)',
        2,
        "stmatrix: src has shape (64,), dst (8, 4); both need 64 rows and a multiple of 16 columns",
    ),
    ("x = os.system", 1, "unknown name 'os'"),
    ("x += 1", 1, "an augmented assignment is not part of the language: write `x = x + ...`"),
    ("x: i32 = 1", 1, "an annotated assignment is not part of the language: types are inferred; write `x = ...`"),
    ("x, y = 1, 2", 1, "an assignment has one name on its left; elements and tuples cannot be assigned"),
    ("x = y = 1", 1, "an assignment has one name on its left; elements and tuples cannot be assigned"),
    ("return", 1, "`return` is not part of the language: a role runs to the end of its body; write `if`"),
    ("continue", 1, "`continue` is not part of the language: put the rest of the body under `if`"),
    (
        "try:\n    pass\nfinally:\n    pass",
        1,
        "`try` is not part of the language: nothing raises on the device; write the statements",
    ),
    ("raise x", 1, "`raise` is not part of the language: nothing raises on the device; delete the line"),
    ("assert x", 1, "`assert` is not part of the language: delete the line; a rule or a contract checks programs"),
    ("global x", 1, "`global` is not part of the language: names belong to their role; delete the line"),
    ("class A:\n    pass", 1, "`class` is not part of the language: a program is one function"),
    ("def f():\n    pass", 1, "a nested function is not part of the language: write its statements where they run"),
    ("x = 2 ** 3", 1, "`**` is not part of the language: write `<<` or a literal"),
    ("x = ~1", 1, "`~` is not part of the language: write `x ^ -1`"),
    ("x = +1", 1, "unary `+` is not part of the language: leave it out"),
    ("x = 1 < 2 < 3", 1, "a chain of comparisons is not part of the language: join two with `and`"),
    ("x = 1 if 1 else 2", 1, "condition has type i32, not bool"),
    ("x = None", 1, "None is no constant of the language: write an int, float, bool or string"),
    ("x = 1j", 1, "1j is no constant of the language: write an int, float, bool or string"),
    ('x = b"a"', 1, "b'a' is no constant of the language: write an int, float, bool or string"),
    ('x = "a"', 1, "a string cannot be kept in a scalar; name it above the roles"),
    ("x = 1.0 + 1", 1, "operator '+' joins f32 and i32; write a cast"),
    ("x = 1 / 2", 1, "operator '/' joins i32; write '//' for integers"),
    ("x = True + 1", 1, "operator '+' joins bool and i32; write a cast"),
    ("x = 3000000000", 1, "3000000000 is outside i32, -2147483648 to 2147483647"),
    ("x = 1 << 40", 1, "shift by 40, not 0 to 31"),
    ("x = 1 // 0", 1, "division by zero"),
    ("x = -1 // 2", 1, "division of -1 by 2: operands of `//` and `%` are non-negative"),
    ("x = N + 1.0", 1, "operator '+' joins i32 and f32; write a cast"),
    ("x = eps + N", 1, "operator '+' joins f32 and i32; write a cast"),
    (
        "x = smem(f32, (8,), at=0)",
        1,
        "`smem(...)` stands in the wrong place: declare it above the roles: "
        "`x = smem(bf16, (64, 64), stages=4, at=0, swizzle=128)`",
    ),
    ("x = tma_lod(s)", 1, "unknown function 'tma_lod' (did you mean 'tma_load'?)"),
    ("tma_load(s[0], X_map, at=(0,))", 1, "tma_load lacks done"),
    (
        "tma_load(s[0], X_map, at=(0,), done=full[0], foo=1)",
        1,
        "tma_load has no argument 'foo'; it takes dst, src, at, done",
    ),
    (
        "tma_load(s[0], X_map, at=(0,), don=full[0])",
        1,
        "tma_load has no argument 'don' (did you mean 'done'?); it takes dst, src, at, done",
    ),
    (
        "tma_load(s[0], X_map, s[0], at=(0,), done=full[0])",
        1,
        "tma_load takes 2 positional arguments, not 3; the rest are keywords: at, done",
    ),
    ("tma_load(s[0], X, at=(0,), done=full[0])", 1, "tma_load: src is a tensor, not a tensor map"),
    ("tma_load(s, X_map, at=(0,), done=full[0])", 1, "stage of s needs an index from 0 to 1"),
    ("tma_load(s[0], X_map, at=(0, 1), done=full[0])", 1, "tma_load: at has 2 coordinates, X_map has 1 dimensions"),
    ("tma_load(s[2], X_map, at=(0,), done=full[0])", 1, "stage of s: index=2, not 0 to 1"),
    ("tma_load(s[0], X_map, at=0, done=full[0])", 1, "tma_load: at is a constant of type i32, not a tuple"),
    ("tma_load(*s)", 1, "`*` unpacking is not part of the language: write the elements out"),
    ("tma_load(**s)", 1, "`**` is not part of the language: write the keywords out"),
    ("barrier_sync(full[0])", 1, "barrier_sync: full is an mbarrier, not a named barrier"),
    ("mbarrier_wait(full, 0)", 1, "slot of full needs an index from 0 to 1"),
    ("mbarrier_wait(full[0], True)", 1, "mbarrier_wait: phase has type bool, not i32"),
    ("x = barrier_sync(done)", 1, "barrier_sync gives no value; write it as a statement"),
    ("x = shfl(1.0, lane_id, 1)", 1, "shfl: mode is an expression of type i32, not 'bfly' or 'down' or 'idx'"),
    ('x = shfl(1.0, "up", 1)', 1, "shfl: mode is 'up', not 'bfly' or 'down' or 'idx'"),
    ('x = shfl(1.0, "bfly", lane_id)', 1, "shfl: by is an expression of type i32, not a constant of type i32"),
    (
        'x = eps if lane_id == 0 else shfl(eps, "bfly", 1)',
        1,
        "shfl in one branch of an expression: give it a statement of its own",
    ),
    ("if lane_id:\n    pass", 1, "the condition has type i32, not bool; write a comparison"),
    (
        "if lane_id == 0:\n    x = 1\ny = x",
        3,
        "'x' ended with the block that assigned it first, at line 16; assign it before",
    ),
    (
        "for i in range(3):\n    x = i\ny = i",
        3,
        "'i' ended with the block that assigned it first, at line 16; assign it before",
    ),
    ("i = 0\nfor i in range(3):\n    pass", 2, "'i' is in use here; choose another loop variable"),
    ("for i in range(3):\n    i = 1", 2, "'i' is a loop variable; choose another name"),
    (
        "n = 3\nfor i in range(n):\n    n = 2",
        3,
        "'n' is a parameter, or counts or bounds a loop: it cannot be assigned here",
    ),
    ("for i, j in range(3):\n    pass", 1, "this loop has one variable"),
    ("for i in X:\n    pass", 1, "a loop runs over range(...), static(...) or tiles(...)"),
    (
        "for i in range(3):\n    pass\nelse:\n    pass",
        1,
        "`else` of a loop is not part of the language: write it behind the loop",
    ),
    ("for i in range(0, 8, 0):\n    pass", 1, "loop over i: step=0, not 1 to 2147483647"),
    ("for i in range(1.0):\n    pass", 1, "loop bound of i has type f32, not i32"),
    ("for k in static(range(N)):\n    pass", 1, "a bound is an expression of type i32, not a constant of type i32"),
    ("for k in static(range(10 ** 9)):\n    pass", 1, "`**` is not part of the language: write `<<` or a literal"),
    ("for k in static(range(1000000000)):\n    pass", 1, "1000000000 iterations to unroll, more than 5000"),
    (
        "for k in static(3):\n    pass",
        1,
        "static takes a range(...) or a tuple of constants, not a constant of type i32",
    ),
    (
        "for k in static((N,)):\n    pass",
        1,
        "static takes a range(...) or a tuple of constants, not a tuple with expressions in it",
    ),
    ("for k in static((1, 2)):\n    break", 2, "`break` in a static loop: put the rest of the body under `if`"),
    ("for k in static((1, 2)):\n    k = 1", 2, "'k' is the variable of a static loop; choose another name"),
    ("break", 1, "`break` outside a loop"),
    ("with load:\n    pass", 1, "a role has one kind of `with`: `with one_lane():`"),
    ("with one_lane() as x:\n    pass", 1, "a role has one kind of `with`: `with one_lane():`"),
    ("with one_lane(1):\n    pass", 1, "a role has one kind of `with`: `with one_lane():`"),
    ("x = 1\nx = 2.0", 2, "x has type i32, the value f32"),
    ("s = 1", 1, "'s' is a shared-memory region already; choose another name"),
    ("N = 1", 1, "'N' is a problem extent already; choose another name"),
    ("TWO = 3", 1, "'TWO' is a constant of type i32 already; choose another name"),
    ("lane_id = 1", 1, "'lane_id' is a name of the language; choose another"),
    ("bf16 = 1", 1, "'bf16' is a type already; choose another name"),
    ("naïve = 1", 1, "'naïve' is no name: a name has ASCII letters, digits and `_`, and is no keyword"),
    ("x = sm_count", 1, "sm_count is known to the launch only; write cta_count in a role"),
    ("x = nope", 1, "unknown name 'nope'"),
    ("x = STAGE", 1, "unknown name 'STAGE' (did you mean 'STAGES'?)"),
    (
        'acc = fragment(f32, (64,), layout="thread")\nacc = fragment(f32, (64,), layout="thread")',
        2,
        "'acc' is declared already; delete the line",
    ),
    ('acc = fragment(f32, (0,), layout="thread")', 1, "fragment shape (0,) has an extent below 1"),
    (
        'acc = fragment(f32, (2000000,), layout="thread")',
        1,
        "fragment shape (2000000,): elements=2000000, not 1 to 65536",
    ),
    ('acc = fragment(f32, (4, 2), layout="thread")\nx = acc[4]', 2, "acc[4] is outside shape (4, 2)"),
    (
        'acc = fragment(f32, (4, 2), layout="thread")\nx = acc[lane_id]',
        2,
        "the index of acc is an expression of type i32, not a constant of type i32",
    ),
    ('acc = fragment(f32, (4, 2), layout="thread")\nx = acc.cols(1, 2)', 2, "acc.cols(1, 2) is outside shape (4, 2)"),
    (
        'acc = fragment(f32, (4, 2), layout="thread")\nacc[0] = 1.0',
        2,
        "an assignment has one name on its left; elements and tuples cannot be assigned",
    ),
    ("x = s.size", 1, "a shared-memory region has no attribute 'size'; it has bytes, stage_bytes, end, tile"),
    ("x = s[0].tile((0, 0), (8, 5))", 1, "view of s: shape (8, 5) exceeds (8, 4)"),
    (
        "x = s[0].tile(0, (8, 4))",
        1,
        "coordinates are a constant of type i32, not a tuple; a single one is written `(i,)`",
    ),
    ("s[0].tile((0, 0), (1, 1)).tile((0, 0), (1, 1))", 1, "a tile of a tile: give the outer region's coordinates"),
    ("x = s", 1, "a shared-memory region cannot be kept in a scalar"),
    ("x = X[0]", 1, "an element of a tensor cannot be kept in a scalar"),
    ("x = X[0, 1]", 1, "X: 2 coordinates, not 1"),
    ("x = eps[0]", 1, "eps is no fragment"),
    ("x = full[0:1]", 1, "a slice is not part of the language: write `.cols(start, count)` or `.tile(at, shape)`"),
    ('"text"', 1, "an expression alone does nothing; assign it or delete the line"),
    ("s[0]", 1, "an expression alone does nothing; assign it or delete the line"),
    ("x = cast(eps, 3)", 1, "cast takes a type, not a constant of type i32"),
    ("x = sum(eps)", 1, "sum needs a thread fragment, not f32"),
    ("x = min(1)", 1, "min lacks b"),
    ("x = max(1, 2, 3)", 1, "max takes 2 positional arguments, not 3"),
    ("x = u32(eps)", 1, "u32(...) takes a literal; write cast(..., u32)"),
    ("x = u32(-1)", 1, "-1 is outside u32, 0 to 4294967295"),
    ("ring.acquire()", 1, "ring.acquire() belongs to role load, not math"),
    (
        "slot = ring.wait()\nring.advance()\nring.release(slot)",
        3,
        (
            "this slot of ring was taken before `ring.advance()` moved on; keep its index in a scalar (`previous "
            "= slot`) before advancing"
        ),
    ),
    (
        "slot = ring.wait()\nfor i in range(3):\n    ring.release(slot)\n    ring.advance()",
        3,
        (
            "this slot of ring was taken before `ring.advance()` moved on; keep its index in a scalar (`previous "
            "= slot`) before advancing"
        ),
    ),
    ("x = ring.wait() + 1", 1, "`.wait()` inside an expression: write it as a statement"),
    ("ring.pop()", 1, "a pipeline has no method 'pop'; it has acquire, wait, release, advance"),
    ("slot = ring.wait()\nslot = 3", 2, "'slot' is a slot of a pipeline; choose another name"),
    ("slot = ring.wait()\nslot.expect(N)", 2, "bytes is an expression of type i32, not a constant of type i32"),
    ("slot = ring.wait()\nslot.foo(1)", 2, "a pipeline slot has no method 'foo'"),
    ("x = ring", 1, "a pipeline cannot be kept in a scalar"),
    (
        "role(warps=1)",
        1,
        "`role(...)` stands in the wrong place: declare it above the roles: `x = role(warps=4, instances=2)`",
    ),
    ("for m in tiles(2, 3):\n    pass", 1, "tiles gives two variables: `for m, n in tiles(...)`"),
    ("for m, n in tiles(2, 3, group=0):\n    pass", 1, "group=0 is below 1"),
    ("for m, n in tiles(2.0, 3):\n    pass", 1, "operator '*' joins f32 and i32; write a cast"),
    ("x = (lambda: 1)()", 1, "only a name or a method can be called"),
    ("x = instance @ 2", 1, "`@` is not part of the language: call the matrix primitive"),
    ("x = 1 is 1", 1, "`is` is not part of the language: write `==`"),
    ("x = 1 in (1, 2)", 1, "`in` is not part of the language: compare with `==` and `or`"),
    ("x = not 1", 1, "operator 'not' of a constant of type i32"),
    ("x = -True", 1, "operator '-' of a constant of type bool"),
    ("match x:\n    case 1:\n        pass", 1, "`match` is not part of the language: write `if` and `else`"),
    ('x = "a" + "b"', 1, "a string is no value to compute with"),
    ("yield 1", 1, "`yield` is not part of the language: a role has one body; write its statements"),
    ("await x", 1, "`await` is not part of the language: barriers wait: name one"),
    ("x = (1, 2)", 1, "a tuple cannot be kept in a scalar; name it above the roles"),
    ("setmaxnreg(40)", 1, "setmaxnreg lacks action"),
    ('setmaxnreg(41, "dec")', 1, "setmaxnreg: count=41, not a multiple of 8 from 24 to 256"),
    ("x = -X", 1, "a tensor is no value to compute with"),
    ("x = 1 and 2", 1, "operator 'and' joins i32, not bool"),
    (
        "mbarrier_expect(full[0], N)",
        1,
        "mbarrier_expect: bytes is an expression of type i32, not a constant of type i32",
    ),
    ("if True:\n    z = 1\nx = z", 3, "'z' ended with the block that assigned it first, at line 16; assign it before"),
    ("x = range(3)", 1, "`range(...)` stands in the wrong place: write `for x in range(start, stop, step):` in a role"),
    ("x = one_lane()", 1, "`one_lane(...)` stands in the wrong place: write `with one_lane():` in a role"),
    ("if lane_id == 0:\n    y = 1\nif lane_id == 1:\n    y = 2.0\n    y = 3", 5, "y has type f32, the value i32"),
]

AT = '@schedule(target="sm_90a")\n'
HEAD = AT + 'def k(X: Tensor[f32, "N"]):\n'
BODY = "    launch(ctas=1)\n    r = role(warps=1)\n    with r:\n"
ROLE = BODY + "        pass\n"

#: Texts of `.cake` files (AT, HEAD, BODY and ROLE filled in), the line that is at fault, and the reason.
IN_A_FILE = [
    ("", 1, "no program: a .cake file is one function decorated with @schedule"),
    ("x = 1\n", 1, "a .cake file holds one function and nothing else"),
    ("import os\n{HEAD}{ROLE}", 1, "`import` is not part of the language: a kernel stands alone; delete the line"),
    (
        "{HEAD}{ROLE}{HEAD}{ROLE}",
        8,
        "a nested function is not part of the language: write its statements where they run",
    ),
    ("def k():\n{ROLE}", 1, 'a program is decorated: `@schedule(target="sm_90a")`'),
    ("@schedule\ndef k():\n{ROLE}", 1, "the one decorator of a program is `@schedule(target=...)`"),
    ("@other\n{HEAD}{ROLE}", 1, "the one decorator of a program is `@schedule(target=...)`"),
    ("{AT}@other\ndef k():\n{ROLE}", 2, "the one decorator of a program is `@schedule(target=...)`"),
    (
        '@schedule("sm_90a")\ndef k():\n{ROLE}',
        1,
        "schedule takes 0 positional arguments, not 1; the rest are keywords: target",
    ),
    ("@schedule(target=1)\ndef k():\n{ROLE}", 1, "target is a constant of type i32, not a string"),
    ("{AT}def k(*args):\n{ROLE}", 2, "`*args` is not part of the language: name each parameter"),
    ("{AT}def k(**kw):\n{ROLE}", 2, "`*args` is not part of the language: name each parameter"),
    ("{AT}def k(X, /):\n{ROLE}", 2, "`/` is not part of the language: leave it out"),
    ("{AT}def k(X=1):\n{ROLE}", 2, "a tensor or scalar has no default; configuration parameters stand behind `*`"),
    ("{AT}def k(X):\n{ROLE}", 2, 'X needs a type: `X: Tensor[bf16, "M", "K"]` or `X: f32`'),
    ("{AT}def k(X: int):\n{ROLE}", 2, 'X needs a type: `X: Tensor[bf16, "M", "K"]` or `X: f32`'),
    ("{AT}def k(X: Tensor):\n{ROLE}", 2, 'X needs a type: `X: Tensor[bf16, "M", "K"]` or `X: f32`'),
    ('{AT}def k(X: Tensor[f99, "N"]):\n{ROLE}', 2, 'X needs a type: `X: Tensor[bf16, "M", "K"]` or `X: f32`'),
    ("{AT}def k(X: Tensor[f32, N]):\n{ROLE}", 2, "a dimension is a name in quotes or an int"),
    ("{AT}def k(X: Tensor[f32, 0]):\n{ROLE}", 2, "extent 0 is not from 1 to 2**31 - 1"),
    ('{AT}def k(X: Tensor[f32, "a b"]):\n{ROLE}', 2, "extent 'a b' is no name"),
    (
        '{AT}def k(X: Tensor[f32, "N"], N: f32):\n{ROLE}',
        2,
        "'N' is an extent and an expression of type f32; rename one",
    ),
    ("{AT}def k(X: f32, X: f32):\n{ROLE}", 2, "'X' is declared twice"),
    ("{AT}def k(X: f32) -> int:\n{ROLE}", 2, "a program returns nothing: delete the annotation"),
    ("{AT}def k(bf16: f32):\n{ROLE}", 2, "'bf16' is a name of the language; choose another"),
    ("{AT}def k(*, BM=1):\n{ROLE}", 2, "a .cake file has no configuration parameters: write their values"),
    ("{AT}async def k():\n{ROLE}", 2, "`async def` is not part of the language: write `def`"),
    (
        "{HEAD}    r = role(warps=1)\n    with r:\n        pass\n",
        2,
        "no launch: write `launch(ctas=...)` above the roles",
    ),
    ("{HEAD}{ROLE}    launch(ctas=1)\n", 7, "a second launch"),
    ("{HEAD}    launch(ctas=1)\n", 2, "k has no role: declare `x = role(warps=4)` and write its body"),
    ("{HEAD}    launch(ctas=1)\n    r = role(warps=1)\n", 4, "role r has no body"),
    ("{HEAD}{ROLE}    with r:\n        pass\n", 4, "role r has 2 bodies"),
    ("{HEAD}{ROLE}    with q:\n        pass\n", 7, "'q' is no role; declare it above: `q = role(warps=4)`"),
    (
        "{HEAD}{ROLE}    with r as x:\n        pass\n",
        7,
        "`as` is not part of the language: a role's index is `instance`",
    ),
    ("{HEAD}{ROLE}    with r, r:\n        pass\n", 7, "write `with ROLE:`, one role a block"),
    (
        "{HEAD}{ROLE}    X_map = tensor_map(X, box=(8, 8))\n",
        7,
        "tensor_map X_map: box=(8, 8) has 2 dimensions, tensor X has 1",
    ),
    (
        "{HEAD}{ROLE}    X_map = tensor_map(X, box=8)\n",
        7,
        "box is a constant of type i32, not a tuple of ints; a single one is written `(n,)`",
    ),
    ("{HEAD}{ROLE}    X_map = tensor_map(r, box=(8,))\n", 7, "tensor is a role, not a tensor"),
    ("{HEAD}{ROLE}    s = smem(f32, (8,), at=0, swizzle=7)\n", 7, "smem s: swizzle=7, not 0, 32, 64 or 128"),
    ("{HEAD}{ROLE}    s = smem(f32, (8,))\n", 7, "smem lacks at"),
    ("{HEAD}{ROLE}    s = smem(f32, (8,), at=-1)\n", 7, "smem s: at=-1, not 0 to 1073741824"),
    ("{HEAD}{ROLE}    s = smem(f32, (8,), at=0, stages=0)\n", 7, "smem s: stages=0, not 1 to 1024"),
    ("{HEAD}{ROLE}    s = smem(f32, (), at=0)\n", 7, "smem s: shape=() has no extent"),
    (
        "{HEAD}{ROLE}    s = smem(f32, (99999999, 999999), at=0)\n",
        7,
        "smem s: end=399999596000004, not 1 to 1073741824",
    ),
    ("{HEAD}{ROLE}    s = smem(32, (8,), at=0)\n", 7, "dtype is a constant of type i32, not a type"),
    ("{HEAD}{ROLE}    b = mbarrier(arrivals=0, at=0)\n", 7, "barrier b: arrivals=0, not 1 to 2147483647"),
    ("{HEAD}{ROLE}    b = mbarrier(arrivals=1, at=0, slots=99999)\n", 7, "barrier b: slots=99999, not 1 to 1024"),
    ("{HEAD}{ROLE}    q = role(warps=64)\n", 7, "role q: warps=64, not 1 to 32"),
    (
        "{HEAD}{ROLE}    q = role(warps=1, registers=40)\n",
        7,
        "role has no argument 'registers'; it takes warps, instances",
    ),
    ("{HEAD}{ROLE}    BM = 64\n", 7, "a .cake file names no constants: write the value where it is used"),
    (
        "{HEAD}{ROLE}    q = pipeline(stages=1, producer=r, consumer=r, at=0)\n",
        7,
        "`pipeline` belongs to schedules: declare its two mbarriers and keep slot and phase in scalars",
    ),
    (
        "{HEAD}{ROLE}    for i in range(3):\n        pass\n",
        7,
        "control flow belongs in a role; above the roles write `a if condition else b`",
    ),
    (
        "{HEAD}{ROLE}    if True:\n        pass\n",
        7,
        "control flow belongs in a role; above the roles write `a if condition else b`",
    ),
    ('{HEAD}{ROLE}    "text"\n', 7, "only declarations and `launch(...)` stand above the roles"),
    (
        "{HEAD}{ROLE}    while 1: pass\n",
        7,
        "`while` is not part of the language: write `for i in range(...)` with a `break`",
    ),
    ("{HEAD}{ROLE}    r = role(warps=1)\n", 7, "'r' is declared twice"),
    ("{HEAD}{ROLE}    X = role(warps=1)\n", 7, "'X' is declared twice"),
    ("{HEAD}{ROLE}    N = role(warps=1)\n", 7, "'N' is declared twice"),
    ("{HEAD}    launch(ctas=lane_id)\n", 3, "'lane_id' is known in a role only"),
    ("{HEAD}    launch(ctas=1.0)\n", 3, "launch: ctas has type f32, not i32"),
    ("{HEAD}    launch(ctas=1, ctas_per_sm=0)\n", 3, "launch: ctas_per_sm=0, not 1 to 32"),
    ('{HEAD}    launch(ctas=shfl(1, "bfly", 1))\n', 3, "shfl runs in a role"),
    (
        "{HEAD}{ROLE}    s = smem(f32, (N,), at=0)\n",
        7,
        "extent 'N' is known when the kernel runs; above the roles only the launch may use it",
    ),
    ("{HEAD}{ROLE}    s = smem(f32, (lane_id,), at=0)\n", 7, "'lane_id' is known in a role only"),
    (
        "{HEAD}{BODY}        for i in static((1,)):\n            pass\n",
        6,
        "`static` belongs to schedules: write the unrolled statements",
    ),
    (
        "{HEAD}{BODY}        for m, n in tiles(1, 1):\n            pass\n",
        6,
        "`tiles` belongs to schedules: write `for tile in range(cta_id, count, cta_count)`",
    ),
    (
        "{HEAD}{BODY}        x = ceil_div(N, 2)\n",
        6,
        "`ceil_div` belongs to schedules: write `(a + (b - 1)) // b` with the constants folded",
    ),
    (
        '{HEAD}{BODY}        x = 1.0 + shfl(1.0, "bfly", 1)\n',
        6,
        "shfl inside an expression: a .cake file gives it a statement of its own",
    ),
    ("def (", 1, "not Python: invalid syntax"),
    ('x = "', 1, "not Python: unterminated string literal (detected at line 1)"),
    ("\0", 1, "not Python: source code string cannot contain null bytes"),
    ("{HEAD}\tlaunch(ctas=1)\n        pass\n", 4, "not Python: inconsistent use of tabs and spaces in indentation"),
]


def refused(read, *args) -> IRError:
    """The error that reading raises."""
    with pytest.raises(IRError) as caught:
        read(*args)
    return caught.value


@pytest.mark.parametrize(("body", "line", "message"), IN_A_ROLE, ids=[case[0][:40] for case in IN_A_ROLE])
def test_refused_in_a_role(body, line, message):
    """Each statement is refused at its line, and the message says why and what to write."""
    text = SCHEDULE + "".join(f"        {part}\n" for part in body.split("\n"))
    error = refused(read_schedule, text, {}, "k.py")

    assert (error.span.line - 15, error.message) == (line, message)
    assert str(error) == f"k.py:{error.span.line}: {message}"


@pytest.mark.parametrize(("text", "line", "message"), IN_A_FILE, ids=[case[0][-60:] for case in IN_A_FILE])
def test_refused_in_a_file(text, line, message):
    """Each text is refused at its line: signatures, declarations, and what .cake files may not hold."""
    error = refused(read_program, text.format(AT=AT, HEAD=HEAD, BODY=BODY, ROLE=ROLE), "k.cake")

    assert (error.span.line, error.message) == (line, message)


LAUNCH = HEAD + "    launch(ctas={})\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("(" * 500, "not Python: too many nested parentheses"),
        ("x = " + "-" * 100_000 + "1", "the text is nested too deeply"),
        ("x = " + "1 + " * 100_000 + "1", "the text is nested too deeply"),
        (LAUNCH.format("N + " * 70 + "1"), "the expression is nested more than 64 deep; name its parts"),
        (LAUNCH.format("-(" * 50 + "N" + ")" * 50), "an expression is nested more than 48 deep; name its parts"),
        (LAUNCH.format("1" * 400), f"{'1' * 400} is outside i32, -2147483648 to 2147483647"),
        ("#" * (1 << 21), "the text has 2097152 characters, more than 1048576"),
        ("\ud800", "not Python: 'utf-8' codec can't encode character '\\ud800' in position 0: surrogates not allowed"),
    ],
    ids=["parentheses", "minus", "plus", "sum", "unary", "digits", "size", "surrogate"],
)
def test_hostile_text_is_refused(text, message):
    """Text made to exhaust the reader is refused within its bounds."""
    assert refused(read_program, text + ROLE.split("\n", 1)[1] if "launch" in text else text).message == message


def nest(count: int, line: str, body: str) -> str:
    """`body` under `count` nested blocks of a schedule's role."""
    lines = [line.format(i) for i in range(count)] + [body]
    return SCHEDULE + "".join(f"        {'    ' * i}{text}\n" for i, text in enumerate(lines))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (nest(4, "for v{} in static(range(4000)):", "pass"), "unrolling reads more than 50000 statements"),
        (
            nest(2, "for v{} in static(range(100)):", "warp_sync()"),
            "the program has more than 5000 statements once unrolled",
        ),
        (nest(40, "if lane_id == {}:", "pass"), "blocks are nested more than 32 deep"),
        (
            nest(1, "for v{} in static(range(5000)):", "x = " + "v0 + " * 60 + "1"),
            "the program has more than 100000 operands once unrolled",
        ),
    ],
    ids=["reads", "statements", "depth", "operands"],
)
def test_unrolling_is_bounded(text, message):
    """Nested static loops cannot ask for unbounded work."""
    assert refused(read_schedule, text, {}).message == message
