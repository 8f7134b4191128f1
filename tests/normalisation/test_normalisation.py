"""Normalisers and what is measured on their weights, against sums, finite differences and dense arrays."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sphereflow.errors import SphereflowError
from sphereflow.normalisation import (
    Entmax,
    ScalableSoftmax,
    Sigmoid,
    Softmax,
    TopK,
    critical_counts,
    distance_profile,
    equicorrelated_profile,
    gaussian_concentration,
    infinity_norm,
    jacobian_norm,
    norm_sandwich,
    planted_weight,
    printed_weight_bounds,
    random_selection_profile,
    range_needed,
    sensitivity,
    separable_fraction,
    spectral_norm,
    weight_bounds,
)

NORMALISERS = [
    Softmax(0.3),
    ScalableSoftmax(0.7),
    Entmax(2.0),
    Entmax(1.5, 0.5),
    TopK(3),
    TopK(3, renormalise=False),
    Sigmoid(0.2, 0.5),
]
LOGITS = np.random.default_rng(3).normal(size=(2, 10))
THIRDS = np.full(3, 1 / 3)


@pytest.mark.parametrize("normaliser", NORMALISERS, ids=repr)
def test_product_with_the_jacobian_is_the_derivative(normaliser):
    logits, direction = jnp.asarray(LOGITS)
    step = 1e-6
    ahead, back = (normaliser.weights(logits + sign * step * direction) for sign in (1, -1))
    product = normaliser.jacobian_product(logits, direction)
    np.testing.assert_allclose(product, (ahead - back) / (2 * step), atol=1e-9)
    # Whoever differentiates through the weights gets the same, also through the bisection inside entmax.
    np.testing.assert_allclose(jax.jvp(normaliser.weights, (logits,), (direction,))[1], product, atol=1e-12)


@pytest.mark.parametrize("normaliser", NORMALISERS, ids=repr)
def test_masked_keys_get_nothing_and_do_not_count(normaliser):
    logits = jnp.asarray(LOGITS[0])
    masked = jnp.concatenate([logits, jnp.full(5, -jnp.inf)])
    np.testing.assert_allclose(normaliser.weights(masked)[:10], normaliser.weights(logits), atol=1e-15)
    assert not normaliser.weights(masked)[10:].any()
    assert normaliser.selected(masked) == normaliser.selected(logits)


def test_sparsemax_is_the_projection_on_the_simplex():
    for logits in LOGITS:
        ordered = np.sort(logits)[::-1]
        sums = np.cumsum(ordered)
        size = np.max(np.nonzero(1 + np.arange(1, 11) * ordered > sums)[0]) + 1
        projected = np.maximum(logits - (sums[size - 1] - 1) / size, 0)
        np.testing.assert_allclose(Entmax(2.0).weights(jnp.asarray(logits)), projected, atol=1e-14)
        assert Entmax(2.0).selected(jnp.asarray(logits)) == size


def test_top_k_keeps_the_smaller_index_among_ties():
    weights = TopK(2).weights(jnp.array([1.0, 2.0, 1.0, 1.0]))
    assert weights[0] > 0
    assert weights[1] > 0
    assert weights[2] == weights[3] == 0


@given(st.lists(st.floats(-30, 30), min_size=1, max_size=12), st.floats(0.05, 5.0))
def test_no_softmax_weight_leaves_the_sharp_bounds(logits, temperature):
    masked = jnp.asarray(logits + [-np.inf] * (12 - len(logits)))  # one shape, one compilation
    weights = np.asarray(Softmax(temperature).weights(masked))[: len(logits)]
    low, high = weight_bounds(len(logits), max(logits) - min(logits), temperature)
    assert weights.max() <= high * (1 + 1e-12)
    assert weights.min() >= low * (1 - 1e-12)


@given(st.integers(2, 10), st.integers(0, 10**6))
def test_norm_from_the_secular_equation_is_the_dense_one(length, seed):
    alpha = np.random.default_rng(seed).dirichlet(np.full(length, 0.3))
    if seed % 2:
        alpha[1:] = alpha[1:][0]  # tied
        alpha /= alpha.sum()
    dense = np.linalg.norm(np.diag(alpha) - np.outer(alpha, alpha), 2)
    np.testing.assert_allclose(spectral_norm(alpha, 0.1), dense / 0.1, atol=1e-13)


def test_distances_and_separability_work_on_stacks_of_heads():
    rng = np.random.default_rng(0)
    alpha, x = rng.dirichlet(np.ones(12), size=(2, 3)), rng.normal(size=(2, 3, 12, 4))
    profile, share = distance_profile(alpha, x), separable_fraction(alpha, x, (1, 5))
    counts = critical_counts(alpha, x)
    for i in range(2):
        for j in range(3):
            np.testing.assert_allclose(profile[i, j], distance_profile(alpha[i, j], x[i, j]), atol=1e-14)
            np.testing.assert_array_equal(share[i, j], separable_fraction(alpha[i, j], x[i, j], (1, 5)))
            assert counts.half_mass[i, j] == np.argmax(np.cumsum(np.sort(alpha[i, j])[::-1]) >= 0.5) + 1


def test_concentration_of_two_gaussian_logits_by_another_quadrature():
    x, w = np.polynomial.hermite_e.hermegauss(200)
    # The difference of the two logits is normal with variance 2 s^2.
    p = 1 / (1 + np.exp(-np.sqrt(2) * 0.8 * x))
    exact = np.sum(w * (p**2 + (1 - p) ** 2)) / np.sqrt(2 * np.pi)
    assert gaussian_concentration(2, 0.8) == pytest.approx(exact, rel=1e-10)


@pytest.mark.parametrize(
    ("call", "word"),
    [
        (lambda: Softmax(0.0), "temperature"),
        (lambda: Entmax(1.0), "order"),
        (lambda: TopK(0), "k must"),
        (lambda: weight_bounds(0, 1.0), "length"),
        (lambda: distance_profile(np.ones(3), np.ones((4, 3, 2))), "shape"),
        (lambda: separable_fraction(np.ones(3) / 3, np.ones((3, 2)), (3,)), "counts"),
        (lambda: separable_fraction(np.ones(3) / 3, np.ones((3, 2)), (1,), radius="far"), "radius"),
        (lambda: critical_counts(THIRDS, np.full((3, 2), np.nan)), "vectors must be finite"),
        (lambda: critical_counts(np.zeros(3), np.ones((3, 2))), "weights must be rows"),
        (lambda: distance_profile(np.array([2.0, -0.5, -0.5]), np.ones((3, 2))), "none negative"),
        (lambda: equicorrelated_profile(THIRDS, 2.0), "cosine must lie"),
        (lambda: equicorrelated_profile(THIRDS, -0.6), "cosine must lie"),
        (lambda: spectral_norm(np.array([0.5, np.nan])), "weights must be rows"),
        (lambda: spectral_norm(np.zeros(0)), "weights must be rows"),
        (lambda: infinity_norm(THIRDS, -1.0), "temperature"),
        (lambda: infinity_norm(np.array([1.5, -0.5])), "weights must be rows"),
        (lambda: norm_sandwich(np.zeros((2, 0))), "weights must be rows"),
        (lambda: jacobian_norm(Softmax(), np.array([0.0, np.nan])), "logits must be finite"),
        (lambda: jacobian_norm(Softmax(), np.array([0.0, np.inf])), "logits must be below infinity"),
        (lambda: jacobian_norm(TopK(2), np.full(3, -np.inf)), "once in every row"),
        (lambda: jacobian_norm(Entmax(), np.zeros(0)), "logits must be one row"),
        (lambda: sensitivity(np.zeros(3), np.zeros(3)), "not be zero"),
        (lambda: sensitivity(np.zeros(3), np.ones((2, 3))), "must have the shape of logits"),
        (lambda: Sigmoid(bias=np.nan), "bias"),
        (lambda: planted_weight(0, 1.0), "length must be at least 1"),
        (lambda: planted_weight(4, np.nan), "gap must be finite"),
        (lambda: printed_weight_bounds(-2, 1.0), "length must be at least 1"),
        (lambda: printed_weight_bounds(4, 1.0, 0.0), "temperature"),
        (lambda: weight_bounds(4, np.nan), "spread must be finite"),
        (lambda: gaussian_concentration(10, 100.0), "at most 10"),
    ],
)
def test_bad_input_is_named(call, word):
    with pytest.raises(SphereflowError, match=word):
        call()


@pytest.mark.parametrize("normaliser", NORMALISERS, ids=repr)
def test_masked_keys_count_for_nothing_and_nan_shows(normaliser):
    """A key with the logit minus infinity is as good as absent; one that is NaN or infinite is not masked."""
    row = LOGITS[0]
    masked = np.concatenate([row, [-np.inf] * 3])
    np.testing.assert_allclose(jacobian_norm(normaliser, masked), jacobian_norm(normaliser, row), rtol=1e-12)
    for bad in (np.nan, np.inf):
        weights = np.asarray(normaliser.weights(jnp.asarray(np.append(row, bad))))
        assert np.isnan(weights).any() or (weights[-1] == 1 and not isinstance(normaliser, ScalableSoftmax | TopK))


def test_formulas_of_the_weights_at_their_ends():
    """One key has all of the weight; among equal logits a key has 1/L, without any range."""
    assert planted_weight(1, 3.0) == 1.0
    np.testing.assert_allclose(range_needed([1, 2, 11], 0.5), [0.0, 0.0, np.log(10)], atol=1e-15)
    assert range_needed(10, 0.05) == 0.0
    np.testing.assert_allclose(printed_weight_bounds(5, 2.0, 0.5), [np.exp(-4) / 5, np.exp(4) / 5])
    # Wide logits: one of two has all of the weight but for a width of order one, 1 - 2 E p(1-p) with p = 1/(1+e^y).
    x, w = np.polynomial.legendre.leggauss(400)
    wide = 10 * np.sqrt(2)
    density = np.exp(-((60 * x / wide) ** 2) / 2) / (wide * np.sqrt(2 * np.pi))
    lost = np.sum(60 * w * density / (4 * np.cosh(30 * x) ** 2))
    assert gaussian_concentration(2, 10.0) == pytest.approx(1 - 2 * lost, rel=1e-9)


def test_a_random_selection_is_the_mean_over_all_of_them():
    alpha = np.array([0.4, 0.3, 0.15, 0.1, 0.05])
    x = np.random.default_rng(3).normal(size=(5, 2))
    found = random_selection_profile(alpha, x)
    for count in range(1, 6):
        signs = [[-1.0 if i in chosen else 1.0 for i in range(5)] for chosen in itertools.combinations(range(5), count)]
        square = np.mean([np.sum((np.array(sign) * alpha @ x) ** 2) for sign in signs])
        np.testing.assert_allclose(found[count - 1] ** 2, square, rtol=1e-12)
