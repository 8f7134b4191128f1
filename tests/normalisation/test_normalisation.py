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
    gaussian_concentration,
    random_selection_profile,
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
    ],
)
def test_bad_input_is_named(call, word):
    with pytest.raises(SphereflowError, match=word):
        call()


def test_a_random_selection_is_the_mean_over_all_of_them():
    alpha = np.array([0.4, 0.3, 0.15, 0.1, 0.05])
    x = np.random.default_rng(3).normal(size=(5, 2))
    found = random_selection_profile(alpha, x)
    for count in range(1, 6):
        signs = [[-1.0 if i in chosen else 1.0 for i in range(5)] for chosen in itertools.combinations(range(5), count)]
        square = np.mean([np.sum((np.array(sign) * alpha @ x) ** 2) for sign in signs])
        np.testing.assert_allclose(found[count - 1] ** 2, square, rtol=1e-12)
