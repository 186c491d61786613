"""The corpus: kernels, configurations, contracts and oracles that hold together."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from cake.core.contract import Contract, read_contract
from cake.core.corpus import CorpusKernel, corpus_root, load_corpus, load_corpus_kernel, read_configs
from cake.core.errors import CakeError
from cake.core.expression import evaluate
from cake.core.inputs import KINDS, NUMPY, generate
from cake.core.ir import Scalar, Tensor
from cake.core.mutate import mutate, parents, tensors_read
from cake.core.reader import read_program

CORPUS = {k.name: k for k in load_corpus()}
ONE_CONFIG = replace(CORPUS["rmsnorm_bf16"], configs={"r4w8v8": CORPUS["rmsnorm_bf16"].configs["r4w8v8"]})


@pytest.fixture(params=sorted(CORPUS))
def kernel(request: pytest.FixtureRequest) -> CorpusKernel:
    """Each kernel of the corpus."""
    return CORPUS[request.param]


def test_contract_speaks_of_the_schedule(kernel: CorpusKernel) -> None:
    """Inputs, outputs and scalars are the schedule's, every shape names its extents, four configurations differ."""
    program = kernel.program(next(iter(kernel.configs)))
    contract = kernel.contract
    assert {*contract.inputs, *contract.outputs} == {t.name for t in program.of(Tensor)}
    assert set(contract.scalars) == {s.name for s in program.of(Scalar)}
    assert set(contract.inputs) == tensors_read(program)
    for shapes in (contract.correctness, contract.performance, contract.simulator, contract.mutation):
        assert shapes
        assert all(set(s) == set(program.extents) for s in shapes)
    assert len({tuple(sorted(kernel.constants(c).items())) for c in kernel.configs}) >= 4


def test_every_configuration_supports_what_is_measured(kernel: CorpusKernel) -> None:
    """No configuration is left without correctness or performance problems, and refusals carry the reason."""
    for config in kernel.configs:
        constants = kernel.constants(config)
        for shapes in (kernel.contract.correctness, kernel.contract.performance, kernel.contract.mutation):
            assert [s for s in shapes if not kernel.contract.refusal(s, constants)]
    odd = {"M": 8, "N": 7, "K": 8}
    assert "does not hold" in kernel.contract.refusal(odd, constants)


def test_distributions(kernel: CorpusKernel) -> None:
    """At least three, each generating every input, finite in the tensor's type, the same twice."""
    program = kernel.program(next(iter(kernel.configs)))
    assert len(kernel.contract.distributions) >= 3
    for distribution in kernel.contract.distributions:
        for tensor in program.of(Tensor):
            kind, parameters = distribution.of(tensor.name)
            made = [generate(kind, parameters, (4, 16), tensor.dtype.name, seed=3, name=tensor.name) for _ in "ab"]
            assert made[0].dtype == NUMPY[tensor.dtype.name]
            assert made[0].tobytes() == made[1].tobytes()
            assert np.isfinite(made[0].astype(np.float32)).all()


def test_tolerance_is_tight(kernel: CorpusKernel) -> None:
    """The relative part is one rounding to bf16, the scaled part far below what a lost term would cost."""
    names = {"M": 4096, "N": 4096, "K": 4096}
    relative, scaled, absolute = kernel.contract.tolerance.bound(names)
    assert 2**-8 <= relative < 2**-7.9
    assert scaled < 16 / 4096 / 10
    assert absolute < 1e-37
    assert len(kernel.contract.tolerance.reasoning) > 200


def test_oracle_agrees_with_numpy(kernel: CorpusKernel) -> None:
    """The oracle's float64 values are those of a direct NumPy computation."""
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    if kernel.name == "gemm_bf16":
        arrays = {"A": rng.normal(size=(5, 24)), "B": rng.normal(size=(8, 24))}
        expected = arrays["A"] @ arrays["B"].T
        scale = np.abs(arrays["A"]) @ np.abs(arrays["B"]).T
    else:
        arrays = {"X": rng.normal(size=(5, 24)), "W": rng.normal(size=24)}
        mean = (arrays["X"] ** 2).mean(axis=1, keepdims=True)
        expected = arrays["X"] / np.sqrt(mean + kernel.contract.scalars["eps"]) * arrays["W"]
        scale = np.abs(expected)
    inputs = {name: torch.from_numpy(array) for name, array in arrays.items()}
    ((value, found_scale),) = kernel.oracle().reference(inputs, kernel.contract.scalars).values()
    np.testing.assert_allclose(value.numpy(), expected, rtol=1e-12)
    np.testing.assert_allclose(found_scale.numpy(), scale, rtol=1e-12)


def test_peers_are_callable(kernel: CorpusKernel) -> None:
    """Each peer that the contract names gives the shape of the output."""
    torch = pytest.importorskip("torch")
    shapes = {"A": (4, 16), "B": (8, 16), "X": (4, 16), "W": (16,)}
    inputs = {n: torch.ones(shapes[n], dtype=torch.bfloat16) for n in kernel.contract.inputs}
    peers = kernel.oracle().peers(inputs, kernel.contract.scalars)
    assert set(peers) == set(kernel.contract.peers)
    assert all(call().shape[0] == 4 for call in peers.values())


# ------------------------------------------------------------------------------------------------------------ mutants


def test_mutants_are_distinct_and_repeatable() -> None:
    """The same seed gives the same mutants, another seed others; no two are one program, none is a parent."""
    kernels = [ONE_CONFIG]
    first, again, other = (mutate(kernels, seed, 30) for seed in (1, 1, 2))
    names = [m.name for m in first]
    assert names == [m.name for m in again]
    assert names != [m.name for m in other]
    assert len(set(names)) == 30
    assert not {p.name for p in parents(kernels)} & set(names)
    assert all(read_program(m.text) == m.program for m in first)


def test_mutants_are_spread_over_kinds() -> None:
    """Strata take turns: no kind has more than one mutant more than another that still has some."""
    counts: dict[str, int] = {}
    for m in mutate([ONE_CONFIG], 5, 36):
        counts[m.kind] = counts.get(m.kind, 0) + 1
    assert len(counts) >= 10
    assert max(counts.values()) - min(counts.values()) <= 1


# ------------------------------------------------------------------------------------------------- expressions, inputs


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2 * M * N", 24),
        ("M % 2 == 1", True),
        ("N <= 4 and M < 3", False),
        ("2 ** -8", 2**-8),
        ("(N / 16 + 4) * 2", 8.5),
        ("-M // 2", -2),
    ],
)
def test_expressions(text: str, value: float) -> None:
    """Arithmetic on extents."""
    assert evaluate(text, {"M": 3, "N": 4}) == value


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os')",
        "M.bit_length()",
        "[1]",
        "M if N else 3",
        "Q + 1",
        "9 ** 99999999",
        "1 / 0",
        "(",
        "'a'",
        "9" * 5000,
        "M\0",
    ],
)
def test_expressions_execute_nothing(text: str) -> None:
    """Anything but arithmetic on known names is an error that quotes the text."""
    with pytest.raises(CakeError):
        evaluate(text, {"M": 3, "N": 4})


def test_inputs_differ_by_name_and_seed() -> None:
    """Two tensors never share their values, nor two seeds."""
    one, two, three = (generate("normal", {}, (64,), "bf16", seed=s, name=n) for s, n in ((1, "A"), (1, "B"), (2, "A")))
    assert one.dtype == ml_dtypes.bfloat16
    assert (one != two).any()
    assert (one != three).any()


def test_paired_inputs_cancel() -> None:
    """Neighbouring products of the two pairings sum to zero."""
    a = generate("paired", {"sign": 1}, (3, 8), "f32", seed=1, name="A")
    b = generate("paired", {"sign": -1}, (5, 8), "f32", seed=1, name="B")
    np.testing.assert_allclose(a @ b.T, 0, atol=1e-5)
    assert set(KINDS) == {"normal", "uniform", "integers", "magnitudes", "paired", "constant"}


# ------------------------------------------------------------------------------------------------------------ bad files


def test_bad_contracts_name_the_fault(tmp_path: Path) -> None:
    """A contract with a missing key, a wrong shape or an unknown distribution says which."""
    good = (corpus_root() / "gemm_bf16" / "contract.toml").read_text()
    path = tmp_path / "contract.toml"
    for old, new, message in (
        ("[floor]", "[flor]", "key 'floor' is missing"),
        ("[1, 8, 8]", "[1, 8]", r"shape \[1, 8\] is not 3"),
        ('kind = "uniform"', 'kind = "odd"', "kind 'odd' is none of"),
        ("kernel =", "kernel ==", r"contract\.toml"),
    ):
        path.write_text(good.replace(old, new))
        with pytest.raises(CakeError, match=message):
            read_contract(path)
    path.write_text(good)
    assert isinstance(read_contract(path), Contract)


def test_bad_folders_and_configurations(tmp_path: Path) -> None:
    """A missing schedule, an unknown configuration, a repository without a corpus: each says what is missing."""
    with pytest.raises(CakeError, match=r"schedule\.py"):
        load_corpus_kernel(tmp_path)
    with pytest.raises(CakeError, match="no configuration 'fast'"):
        CORPUS["gemm_bf16"].program("fast")
    with pytest.raises(CakeError, match="no corpus at"):
        load_corpus(tmp_path)
    (tmp_path / "configs.toml").write_text("[a]\nBN = [1]\n")
    with pytest.raises(CakeError, match="a is no table of plain constants"):
        read_configs(tmp_path / "configs.toml")
