"""The recorded training runs: complete, read rightly, and made with the normalisers that the library has."""

import importlib.util
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

from sphereflow import normalisation
from sphereflow.papers.normalization_limits.training import TEMPERATURES, growth_exponent, runs, softmax_at

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "normaliser_training.py"


def test_all_runs_are_there():
    found, source = runs()
    assert {name: len(row.held_out) for name, row in found.items()} == {
        **{f"softmax {t}": 5 for t in (".03", ".1", ".3", "1", "3")},
        "scalable softmax": 2,
        "entmax 1.5": 2,
        "sparsemax": 2,
    }
    assert all(row.loss.shape[1] == row.gradient_norm.shape[1] == 600 for row in found.values())
    assert all(np.isfinite(row.loss).all() and np.isfinite(row.gradient_norm).all() for row in found.values())
    assert source["parameters"] == 10_844_160
    assert sum(source["bytes"]) > 10**7


def test_the_exponent_is_that_of_least_squares_with_an_intercept_per_seed():
    rows = [(t, s, np.log(np.quantile(softmax_at(t).gradient_norm[s], 0.99))) for t in TEMPERATURES for s in range(5)]
    design = np.array([[-np.log(t), *np.eye(5)[s]] for t, s, _ in rows])
    target = np.array([value for *_, value in rows])
    solution, rest, *_ = np.linalg.lstsq(design, target)
    error = np.sqrt(rest[0] / 14 * np.linalg.inv(design.T @ design)[0, 0])
    assert growth_exponent() == pytest.approx((solution[0], error, 14), rel=1e-9)


def test_the_trained_normalisers_are_those_of_the_library():
    torch = pytest.importorskip("torch")
    found = importlib.util.spec_from_file_location("normaliser_training", SCRIPT)
    assert found is not None
    assert found.loader is not None
    script = importlib.util.module_from_spec(found)
    found.loader.exec_module(script)
    logits = np.random.default_rng(0).normal(size=(6, 6)) * 3
    logits[np.triu_indices(6, 1)] = -np.inf
    visible = torch.arange(1, 7, dtype=torch.float64)
    expected = {
        "softmax .3": normalisation.Softmax(0.3),
        "scalable softmax": normalisation.ScalableSoftmax(),
        "entmax 1.5": normalisation.Entmax(1.5),
        "sparsemax": normalisation.Entmax(2.0),
    }
    for name, normaliser in expected.items():
        mine = script.normaliser(name)(torch.tensor(logits), visible).numpy()
        np.testing.assert_allclose(mine, normaliser.weights(jnp.asarray(logits)), atol=1e-12, err_msg=name)
    free = torch.randn(3, 7, dtype=torch.float64, generator=torch.Generator().manual_seed(0), requires_grad=True)
    for order in (1.5, 2.0):
        assert torch.autograd.gradcheck(lambda x, order=order: script.Entmax.apply(x, order), (free,))
