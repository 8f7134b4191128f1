"""The exact law of independent directions, its bounds, and the comparison of normalisers, against plain means."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import betainc, ndtri

from sphereflow import normalisation as nu
from sphereflow.errors import SphereflowError
from sphereflow.normalisation.uniform import pair_bounds, pair_chances, squared_lengths

GEOMETRIC = 0.8 ** np.arange(20)


def below(t, d):
    """The chance that a coordinate of a direction is at most t, one number at a time."""
    if abs(t) >= 1:
        return float(t > 0)
    tail = 0.5 * betainc((d - 1) / 2, 0.5, 1 - t * t)
    return tail if t < 0 else 1 - tail


def two_selected(weights, d):
    """Mean inversions and share of separable keys for N = 2, where the other selected vector has a known length."""
    inverted, none = 0.0, 0.0
    norm = quad(lambda angle: np.sin(angle) ** (d - 2), 0, np.pi)[0]
    for a, r in ((weights[0], weights[1]), (weights[1], weights[0])):

        def chances(angle, a=a, r=r):
            lean = 2 * a * r * np.cos(angle)
            length = np.sqrt(r * r + a * a + lean)
            return [below((b * b + a * a + lean) / (2 * b * length), d) for b in weights[2:]]

        inverted += (
            quad(lambda x: np.sin(x) ** (d - 2) * (18 - sum(chances(x))), 0, np.pi, limit=400, epsabs=1e-6)[0] / norm
        )
        none += quad(lambda x: np.sin(x) ** (d - 2) * np.prod(chances(x)), 0, np.pi, limit=400, epsabs=1e-6)[0] / norm
    return inverted, none / 2


@pytest.mark.parametrize("d", [5, 40])
def test_two_selected_keys_by_adaptive_quadrature(d):
    inverted, none = two_selected(GEOMETRIC, d)
    np.testing.assert_allclose(nu.expected_inversions(GEOMETRIC, d, [2]), inverted, rtol=1e-3)
    np.testing.assert_allclose(nu.expected_separable_fraction(GEOMETRIC, d, [2]), none, atol=2e-4)


def test_moments_of_the_length_of_a_sum():
    sizes, d = np.array([1.0, 0.7, 0.7, 0.2]), 5
    nodes, weights = squared_lengths(sizes, np.arange(4), d)
    for i in range(4):
        others = np.delete(sizes, i) ** 2
        assert weights[i] @ nodes[i] == pytest.approx(others.sum(), rel=1e-12)
        variance = 2 * (others.sum() ** 2 - np.sum(others**2)) / d
        third = 48 * np.prod(others) / d**2  # one triangle
        centred = nodes[i] - others.sum()
        assert weights[i] @ centred**2 == pytest.approx(variance, rel=1e-10)
        assert weights[i] @ centred**3 == pytest.approx(third, rel=1e-9)


@pytest.mark.parametrize(("d", "count"), [(2, 3), (6, 3), (6, 12), (48, 6)])
def test_simulated_inversions_and_shares_agree_with_the_exact_means(d, count):
    found = nu.inversions(GEOMETRIC, d, [count], repeats=4000, seed=1)
    assert found.simulated.agrees(found.expected, sigmas=4.5)
    rng = np.random.default_rng(7)
    x = rng.normal(size=(4000, 20, d))
    x /= np.linalg.norm(x, axis=-1, keepdims=True)
    shares = nu.separable_fraction(np.broadcast_to(GEOMETRIC, (4000, 20)), x, [count])[:, 0]
    assert abs(shares.mean() - found.recall[0]) < 4.5 * shares.std() / np.sqrt(4000)


def test_keys_without_weight_are_at_the_distance_of_the_origin():
    """Eight equal weights, all others zero: a key is separable where it leans towards the sum of the others."""
    weights = np.where(np.arange(50) < 8, 1.0, 0.0)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(20_000, 8, 16))
    x /= np.linalg.norm(x, axis=-1, keepdims=True)
    leaning = np.einsum("rd,rd->r", x[:, 0], x[:, 1:].sum(axis=1)) > -0.5
    expected = nu.expected_separable_fraction(weights, 16, [8])[0]
    assert abs(expected - leaning.mean()) < 4.5 * leaning.std() / np.sqrt(20_000)
    assert nu.expected_separable_fraction(weights, 16, [50 - 1])[0] < 8 / 49 + 1e-12  # ties are not separable


@pytest.mark.parametrize("d", [2, 8, 100])
def test_no_exact_chance_exceeds_its_bound(d):
    rng = np.random.default_rng(d)
    for count in (1, 2, 5, 11):
        sizes = -np.sort(-rng.dirichlet(np.full(12, 0.4)))
        inverted, _ = pair_chances(sizes, count, d, 401)
        assert np.all(inverted <= pair_bounds(sizes, count, d).sum(axis=1) + 1e-6)
    known = nu.inversion_bound(np.array([1.0, 1.0, 1.0, 0.5]), d, [3])[0]
    assert known == pytest.approx(3 * np.exp(-d * 1.25 / 16 + d * 0.25 / 128), rel=1e-12)


def test_counted_inversions_are_those_of_two_loops_with_ties():
    rng = np.random.default_rng(3)
    weights, vectors = rng.dirichlet(np.ones(9), size=(2, 2)), rng.normal(size=(2, 2, 9, 3))
    weights[0, 0], vectors[0, 0] = 1 / 9, np.eye(3)[0]
    found = nu.count_inversions(weights, vectors, [1, 4, 8])
    for at in np.ndindex(2, 2):
        order = np.argsort(-weights[at], kind="stable")
        y = (weights[at][:, None] * vectors[at])[order]
        for k, count in enumerate((1, 4, 8)):
            distance = np.sum((y - y[:count].sum(axis=0)) ** 2, axis=1)
            loops = sum(distance[j] <= distance[i] + 1e-15 for i in range(count) for j in range(count, 9))
            assert found[(*at, k)] == loops


def test_the_number_of_separable_keys_is_where_the_share_crosses():
    weights = np.full(200, 1.0)
    count = nu.separable_count(weights, 64, share=0.7)
    around = nu.expected_separable_fraction(weights, 64, [count, count + 1])
    assert around[0] >= 0.7 > around[1]
    assert nu.separable_count(np.array([1.0, 1.0]), 8) == 1


def test_mass_of_the_largest_weights_of_a_long_context():
    logits = 0.8 * ndtri((np.arange(200_000) + 0.5) / 200_000)[::-1]
    mass = np.cumsum(np.exp(logits)) / np.sum(np.exp(logits))
    for share in (0.01, 0.3, 0.9):
        at = round(share * 200_000) - 1
        assert nu.gaussian_top_mass(share, 0.8) == pytest.approx(mass[at], abs=1e-4)
        kept = min(1.0, mass[at] / mass[round(0.4 * 200_000) - 1])
        assert nu.gaussian_top_mass(share, 0.8, share_kept=0.4) == pytest.approx(kept, abs=1e-4)


NORMALISERS = {
    "softmax": nu.Softmax(0.3),
    "scaled": nu.ScalableSoftmax(0.7),
    "sparsemax": nu.Entmax(2.0, 0.5),
    "entmax": nu.Entmax(1.5),
    "top": nu.TopK(3),
    "cut": nu.TopK(3, renormalise=False),
    "sigmoid": nu.Sigmoid(0.2, 0.5),
}


def test_a_comparison_is_what_each_function_gives_by_itself():
    rng = np.random.default_rng(5)
    logits, vectors = rng.normal(size=(2, 12)), rng.normal(size=(2, 12, 4))
    found = nu.compare_normalisers(logits, vectors, NORMALISERS, counts=[2, 5])
    assert found.names == tuple(NORMALISERS)
    for k, normaliser in enumerate(NORMALISERS.values()):
        weights = np.asarray(normaliser.weights(jnp.asarray(logits)))
        np.testing.assert_allclose(found.mass[k], weights.sum(axis=1))
        for row in range(2):
            dense = np.asarray(normaliser.jacobian_product(jnp.broadcast_to(logits[row], (12, 12)), jnp.eye(12)))
            assert found.jacobian_norm[k, row] == pytest.approx(np.linalg.norm(dense, 2), abs=1e-12)
            own = nu.distance_profile(weights[row], vectors[row]) / weights[row].sum()
            np.testing.assert_allclose(found.distance[k, row], own, atol=1e-14)
            np.testing.assert_array_equal(
                found.separable[k, row], nu.separable_fraction(weights[row], vectors[row], [2, 5])
            )


ROW = np.array([0.5, 0.3, 0.2])


@pytest.mark.parametrize(
    ("call", "word"),
    [
        (lambda: nu.expected_inversions(ROW, 1, [1]), "d must"),
        (lambda: nu.expected_inversions(ROW, 4, [3]), "counts"),
        (lambda: nu.expected_inversions(np.array([0.5, np.nan]), 4, [1]), "weights"),
        (lambda: nu.inversion_bound(np.array([0.5, -0.5]), 4, [1]), "weights"),
        (lambda: nu.inversion_bound(np.zeros(3), 4, [1]), "weights"),
        (lambda: nu.inversions(ROW, 4, [1], repeats=1), "repeats"),
        (lambda: nu.separable_count(ROW, 4, share=0.0), "share"),
        (lambda: nu.separable_count(np.ones(0), 4), "weights"),
        (lambda: nu.gaussian_top_mass(1.2, 1.0), "share"),
        (lambda: nu.gaussian_top_mass(0.5, -1.0), "spread"),
        (lambda: nu.compare_normalisers(np.ones((2, 3)), np.ones((3, 2))), "shape"),
        (lambda: nu.compare_normalisers(ROW * np.nan, np.ones((3, 2))), "finite"),
        (lambda: nu.compare_normalisers(ROW, np.ones((3, 2)), {}), "normalisers"),
        (lambda: nu.compare_normalisers(ROW, np.ones((3, 2)), counts=[3]), "counts"),
    ],
)
def test_bad_input_is_named(call, word):
    with pytest.raises(SphereflowError, match=word):
        call()
