"""The simulator on the corpus kernels: right values for ragged shapes, in every order."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from cake.core.reader import read_program
from cake.core.sim import FIXED, run_orders, same_outputs

KERNELS = Path(__file__).parents[2] / "corpus" / "kernels"
BF16 = np.dtype(ml_dtypes.bfloat16)


def cases(kernel):
    """Paths of a kernel's configurations, with readable ids."""
    return [pytest.param(path, id=path.stem) for path in sorted((KERNELS / kernel).glob("*.cake"))]


def within(got, exact, relative):
    """Whether every element is within `relative` of `exact`, or of its largest magnitude times 2**-16."""
    error = np.abs(got.astype(np.float64) - exact)
    return bool(np.all(error <= relative * np.abs(exact) + 2**-16 * np.abs(exact).max()))


@pytest.mark.parametrize("shape", [(1, 8, 8), (72, 264, 392)], ids=str)
@pytest.mark.parametrize("path", cases("gemm_bf16"))
def test_gemm_multiplies_in_every_order(path, shape):
    """Tiles that stick out in each dimension, one step and more steps than stages: bits do not depend on the order."""
    m, n, k = shape
    rng = np.random.default_rng(m)
    a, b = rng.standard_normal((m, k)).astype(BF16), rng.standard_normal((n, k)).astype(BF16)

    results = run_orders(
        read_program(path.read_text()), {"A": a, "B": b}, {"M": m, "N": n, "K": k}, seeds=range(2), sms=1
    )

    assert [r.outcome for r in results] == ["ok"] * (len(FIXED) + 2)
    assert within(results[0].outputs["C"], a.astype(np.float64) @ b.astype(np.float64).T, 2**-8)
    assert all(same_outputs(r, results[0]) for r in results)
    assert not any(r.notes for r in results)


@pytest.mark.parametrize("shape", [(1, 8), (5, 2056)], ids=str)
@pytest.mark.parametrize("path", cases("rmsnorm_bf16"))
def test_rmsnorm_normalises_in_every_order(path, shape):
    """Rows shorter than a CTA's reach and a last CTA with too few rows."""
    m, n = shape
    rng = np.random.default_rng(m)
    x, w = rng.standard_normal((m, n)).astype(BF16), rng.standard_normal(n).astype(BF16)

    results = run_orders(
        read_program(path.read_text()), {"X": x, "W": w, "eps": 1e-5}, {"M": m, "N": n}, seeds=range(1)
    )

    wide = x.astype(np.float64)
    exact = wide / np.sqrt((wide**2).mean(axis=1, keepdims=True) + 1e-5) * w.astype(np.float64)
    assert all(r.outcome == "ok" for r in results)
    assert within(results[0].outputs["Y"], exact, 2**-8)
    assert all(same_outputs(r, results[0]) for r in results)


def test_several_ctas_share_the_tiles():
    """The result does not depend on how many multiprocessors there are."""
    program = read_program((KERNELS / "gemm_bf16" / "m128n256s4.cake").read_text())
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((200, 72)).astype(BF16), rng.standard_normal((520, 72)).astype(BF16)

    one, three = (
        run_orders(program, {"A": a, "B": b}, {"M": 200, "N": 520, "K": 72}, sms=sms, fixed=FIXED[:1], seeds=())[0]
        for sms in (1, 3)
    )

    assert one.outcome == three.outcome == "ok"
    assert same_outputs(one, three)
