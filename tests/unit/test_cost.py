"""The cost model counts what a launch occupies, and the fit recovers what a unit of it costs."""

from __future__ import annotations

import runpy
from pathlib import Path

import numpy as np
import pytest

from cake.core.calibration import Calibration
from cake.core.cost import FEATURES, AbstainError, combine, compulsory_bytes, features, predict
from cake.core.printer import print_program
from cake.core.reader import read_program, read_schedule
from distill.calibrate import Point, conformal, cross_validate, fit, predicted, render, spearman

KERNELS = Path(__file__).parents[2] / "corpus" / "kernels"
GEMM = read_schedule((KERNELS / "gemm_bf16" / "schedule.py").read_text(), {})
NORM = read_schedule((KERNELS / "rmsnorm_bf16" / "schedule.py").read_text(), {})


@pytest.mark.parametrize(("m", "n", "k", "tiles"), [(128, 256, 64, 1), (128, 256, 4096, 1), (1280, 2560, 640, 100)])
def test_tensor_work_is_exact(m: int, n: int, k: int, tiles: int) -> None:
    """Each SM's tensor-core work is 2 * 128 * 256 * K for each of its tiles."""
    found = features(GEMM, {"M": m, "N": n, "K": k}, sm_count=10)
    assert found["tensor"] == 2 * 128 * 256 * k * -(-tiles // 10)


def test_persistent_and_plain_grids() -> None:
    """A persistent kernel is one wave however many tiles; a plain grid has as many as its CTAs need."""
    assert features(GEMM, {"M": 8192, "N": 8192, "K": 64}, 132)["waves"] == 1
    assert features(NORM, {"M": 16384, "N": 8192}, 132)["waves"] == 16  # 4096 CTAs, 132 SMs, 2 at once


def test_compulsory_bytes() -> None:
    """Each tensor that is read, and each that is written, moves once."""
    assert compulsory_bytes(GEMM, {"M": 100, "N": 200, "K": 50}) == 2 * (100 * 50 + 200 * 50 + 100 * 200)


def test_predicated_loads_count_where_they_load() -> None:
    """Half of the columns, half of the traffic: masked vectors move nothing."""
    full = features(NORM, {"M": 1024, "N": 8192}, 132)["l2"]
    half = features(NORM, {"M": 1024, "N": 4096}, 132)["l2"]
    assert half == pytest.approx(full / 2)


def test_rows_that_straddle_lines_cost_more_traffic() -> None:
    """Boxes of a tensor whose rows are no whole cache lines touch nearly twice the lines."""
    aligned, odd = (features(GEMM, {"M": 128, "N": 256, "K": k}, 132)["l2"] for k in (64 * 47, 64 * 46 + 8))
    assert odd > 1.7 * aligned


def test_more_iterations_more_waits() -> None:
    """Waits in sequence grow with the K loop."""
    short, long = (features(GEMM, {"M": 128, "N": 256, "K": k}, 132)["sync"] for k in (64, 640))
    assert long > short + 8


def test_bounds_that_depend_on_the_iteration_are_counted_one_by_one() -> None:
    """A triangular loop nest is counted exactly."""
    text = print_program(GEMM).replace("for i in range((K + 63) // 64):", "for i in range(tile + 1):")
    found = features(read_program(text), {"M": 128, "N": 2560, "K": 64}, sm_count=1)
    assert found["tensor"] == 2 * 128 * 256 * 64 * sum(range(1, 11))


def test_a_bound_from_data_abstains() -> None:
    """A trip count that no extent gives is not guessed."""
    text = print_program(NORM).replace(
        "for r in range(cta_id * 4, min(M, (cta_id + 1) * 4)):", "for r in range(lane_id):"
    )
    with pytest.raises(AbstainError, match="a bound of r depends on data"):
        features(read_program(text), {"M": 8, "N": 64}, 132)


def test_only_the_slowest_resource_counts() -> None:
    """What overlaps is a maximum, the rest a sum."""
    assert combine({"launch": 1, "tensor": 5, "dram": 3, "sync": 2}) == 8


COEFFICIENTS = (3e-6, 1e-6, 1.3e-13, 0.0, 0.0, 0.0, 0.0, 2.4e-13, 5e-8)


def synthetic(noise: float, slow: float = 0.0) -> list[Point]:
    """Launches of both kernels with times from `COEFFICIENTS`, some noise, and a share of slow outliers."""
    rng = np.random.default_rng(1)
    points = []
    for group, program, shapes in (
        ("gemm", GEMM, [{"M": m, "N": n, "K": k} for m in (128, 2048, 8192) for n in (256, 4096) for k in (64, 4096)]),
        ("norm", NORM, [{"M": m, "N": n} for m in (8, 512, 4096, 16384) for n in (512, 2048, 8192)]),
    ):
        for i, shape in enumerate(shapes):
            point = Point(f"{group}{i % 4}", features(program, shape, 132), 1.0)
            seconds = float(predicted([point], COEFFICIENTS)[0]) * (1 + noise * rng.standard_normal())
            points.append(Point(point.group, point.features, seconds * (3 if rng.random() < slow else 1)))
    return points


def test_the_fit_recovers_the_model() -> None:
    """Without noise, predictions are right to a few per cent on configurations that the fit did not see."""
    found = cross_validate(synthetic(0.0))
    assert np.median(found.errors) < 0.03
    assert found.rank_correlation > 0.99
    assert all(c >= 0 for c in found.coefficients)


def test_slow_outliers_do_not_pull_the_fit() -> None:
    """A tenth of the launches three times as slow moves predictions of the others little."""
    clean = synthetic(0.0)
    guesses = predicted(clean, fit(synthetic(0.0, slow=0.1)))
    assert np.median(np.abs(guesses / [p.seconds for p in clean] - 1)) < 0.06


def test_conformal_and_rank() -> None:
    """The interval is the corrected quantile of held-out errors; ranks compare order alone."""
    assert conformal([i / 100 for i in range(1, 20)], 0.9) == 0.18
    assert conformal([0.1, 0.2], 0.9) == 0.2
    assert spearman(np.array([1.0, 5.0, 3.0]), np.array([1.0, 9.0, 8.0])) == pytest.approx(1.0)


def test_rendered_calibration_is_the_calibration(tmp_path: Path) -> None:
    """The plugin file that is written gives back the same object; a prediction names its bottleneck."""
    made = Calibration("h200", "NVIDIA H200", "sm_90a", FEATURES, COEFFICIENTS, "gemm", 24, 0.05, 24, 0.2, 0.9, 'a "b"')
    file = tmp_path / "h200.py"
    file.write_text(render(made))
    assert runpy.run_path(str(file))["H200"] == made
    found = predict(features(GEMM, {"M": 8192, "N": 8192, "K": 8192}, 132), made)
    assert found.bottleneck == "tensor"
    assert found.seconds == pytest.approx(sum(found.parts[n] for n in ("launch", "waves", "tensor", "sync")))
