"""Closed equations against SciPy, identities and explicit matrices."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import ks_2samp, kstest, multivariate_normal

from sphereflow.errors import SphereflowError
from sphereflow.estimates import Estimate, extrapolate, fraction, growth_rate, mean, order
from sphereflow.random_transformers import low_temperature as cold
from sphereflow.random_transformers import lyapunov, softmax_moments
from sphereflow.random_transformers.equiangular import drift, logistic, mean_overlap, overlap_path, time_between
from sphereflow.random_transformers.low_temperature_pairs import cold_pairs
from sphereflow.random_transformers.network import prompts
from sphereflow.random_transformers.normals import standard_normals
from sphereflow.random_transformers.pair_equation import (
    network_expectation,
    pair_drift,
    pair_expectation,
    pair_moments,
)


@pytest.mark.slow
def test_standard_normals():
    """One long stream against the normal law, with no trace of the pairs it is made in."""
    z = np.asarray(standard_normals(jax.random.key(0), 200_001))
    assert z.shape == (200_001,)
    assert kstest(z, "norm").pvalue > 1e-3
    assert abs(np.mean(z**4) - 3) < 4 * np.sqrt(96 / len(z))
    first, second = z[:100_000], z[100_001:]
    for power in (1, 2):
        assert abs(np.corrcoef(first**power, second**power)[0, 1]) < 4 / np.sqrt(100_000)
    single = np.asarray(standard_normals(jax.random.key(0), 200_001, jnp.float32))
    np.testing.assert_allclose(single, z, atol=2e-5)


def test_either_above_against_scipy():
    for h, k, rho in ((0.3, -0.7, 0.5), (2.0, 1.5, 0.9), (-1.0, -0.2, 0.1)):
        exact = 1 - multivariate_normal([0, 0], [[1, rho], [rho, 1]]).cdf([h, k])
        assert softmax_moments.either_above(np.array(h), np.array(k), rho) == pytest.approx(exact, abs=1e-8)


def test_three_tokens_share_their_argmax_with_the_known_probability():
    """n = 3: orthant probability of four correlated differences, by brute force."""
    rng = np.random.default_rng(0)
    z, w = rng.standard_normal((2, 400_000, 3))
    same = np.argmax(z, axis=1) == np.argmax(0.6 * z + 0.8 * w, axis=1)
    assert softmax_moments.same_argmax(3, 0.6) == pytest.approx(same.mean(), abs=4 * 0.5 / np.sqrt(400_000))


def test_two_tokens_agree_with_the_general_moments():
    f, g = pair_moments(np.array([0.3, 0.7]), 1.2)
    known = softmax_moments.moments(2, 1.2)
    np.testing.assert_allclose(known.f(np.array([0.3, 0.7])), f, atol=2e-3)
    np.testing.assert_allclose(known.g(np.array([0.3, 0.7])), g, atol=2e-3)


def test_simplex_at_infinite_temperature_is_logistic():
    times = np.linspace(0, 5, 11)
    path = mean_overlap(overlap_path(times, 16, 0.0, math.inf, -0.02), 16)
    np.testing.assert_allclose(path, logistic(times, float(mean_overlap(-0.02, 16))), atol=1e-8)


@pytest.mark.parametrize("d", [3, 10, math.inf])
def test_drift_of_two_tokens_in_any_dimension(d):
    """f = g = 1/2 without temperature; at zero temperature f = 1 and g is the arcsine law."""
    gamma = np.linspace(0, 0.95, 6)
    for s, f, g in ((0.0, 0.5, 0.5), (math.inf, 1.0, 0.5 + np.arcsin(gamma) / np.pi)):
        own, shared = gamma + (1 - gamma) * f, gamma + (1 - gamma) * g
        small = 0 if np.isinf(d) else 1 / d
        expected = (1 + (gamma**2 - 2) * small) * shared - (1 - small) * gamma * own
        np.testing.assert_allclose(drift(gamma, 2, s, d), expected, atol=1e-9)


def test_times_are_the_inverse_of_paths():
    for n, s, d in ((8, 0.7, 40), (32, math.inf, 100)):
        tau = time_between(0.0, 0.8, n, s, d)
        assert overlap_path(np.array([tau]), n, s, d)[0] == pytest.approx(0.8, abs=1e-6)
        exact = quad(lambda c, n=n, s=s, d=d: 1 / float(drift(c, n, s, d)), 0, 0.8, epsrel=1e-9)[0]
        assert tau == pytest.approx(exact, rel=1e-7)


def test_collapse_that_never_comes():
    with pytest.raises(SphereflowError, match="never reaches"):
        time_between(0.0, 0.9, 4, 0.0, 2)
    with pytest.raises(SphereflowError, match="must be above"):
        overlap_path(np.array([1.0]), 4, 0.0, start=-0.5)


def test_pair_expectation_against_its_own_network():
    """The chain of two tokens tends to the diffusion with an error of second order in the step."""
    square = lambda r: r * r  # noqa: E731
    limit = pair_expectation(square, 0.2, 0.5, 6, 0.0)
    errors = [network_expectation(square, 0.2, round(0.5 / e**2), e, 6, points=24) - limit for e in (0.5, 0.25)]
    assert math.log2(errors[0] / errors[1]) == pytest.approx(2, abs=0.4)


def test_beta_rule_integrates_polynomials():
    nodes, weights = cold._beta_rule(6, 2.5, 4.0)
    assert weights.sum() == pytest.approx(1)
    assert weights @ nodes == pytest.approx(2.5 / 6.5)
    assert weights @ nodes**2 == pytest.approx(2.5 * 3.5 / (6.5 * 7.5))


@pytest.mark.parametrize("factors", [0, 1, 2])
def test_cold_pairs_against_explicit_vectors(factors):
    """Three layers with whole matrices in R^5: the same law of the overlap."""
    d, samples, step = 5, 4000, 0.4
    rng = np.random.default_rng(1)
    x = np.zeros((samples, 2, d))
    x[:, 0, 0], x[:, 1, 0], x[:, 1, 1] = 1, 0.6, 0.8
    for _ in range(3):
        m = x
        for _ in range(factors):
            m = np.einsum("sab,sib->sia", rng.standard_normal((samples, d, d)), m)
        m = m / np.linalg.norm(m, axis=-1, keepdims=True)
        x = x + step / np.sqrt(d) * np.einsum("sab,sib->sia", rng.standard_normal((samples, d, d)), m)
        x /= np.linalg.norm(x, axis=-1, keepdims=True)
    seen = cold_pairs(d, factors, 0.6, step, 3, samples, every=3, seed=2)
    assert ks_2samp(seen.cosine[:, -1], np.sum(x[:, 0] * x[:, 1], axis=-1)).pvalue > 1e-3
    np.testing.assert_allclose(seen.cosine**2 + seen.sine**2, 1, atol=1e-12)


def test_alignment_probabilities():
    assert cold.aligned_probability(0.5, 1.0) == pytest.approx(2 / 3)
    scale = lambda x: np.cosh(x) ** -0.5  # noqa: E731
    exact = quad(scale, -60, np.arctanh(0.3))[0] / quad(scale, -60, 60)[0]
    assert cold.aligned_probability(0.3, 1.5) == pytest.approx(exact, rel=1e-6)
    with pytest.raises(SphereflowError, match="no limit"):
        cold.aligned_probability(0.3, 2.0)


def test_general_rule_of_the_exponents():
    d = 9
    assert lyapunov.lyapunov_exponent(d, 0) == pytest.approx(-2 / d)
    assert lyapunov.lyapunov_exponent(d, 1) == pytest.approx(-(d - 1) / (d * (d - 2)))
    assert lyapunov.lyapunov_exponent(d, 2) == pytest.approx(-(d - 1) / (d * (d - 2) ** 2))
    for factors in (1, 2):
        slope = (1 - cold.image_overlap(1 - 1e-6, d, factors)) * 1e6
        assert slope == pytest.approx(lyapunov.slope_at_one(d, factors), rel=1e-3)


def test_estimates():
    rng = np.random.default_rng(0)
    logs = -0.5 * np.arange(5.0) + np.cumsum(rng.standard_normal((4000, 5)) * 0.1, axis=1)
    assert growth_rate(logs, np.arange(5.0)).agrees(-0.5, sigmas=4)
    fitted = order(np.array([0.4, 0.2, 0.1]), Estimate(3 * np.array([0.4, 0.2, 0.1]) ** 1.5, np.zeros(3)))
    assert fitted.value == pytest.approx(1.5)
    best = extrapolate(np.array([0.2, 0.1]), Estimate(np.array([1.2, 1.1]), np.array([0.01, 0.01])))
    assert best.value == pytest.approx(1.0)
    assert best.error == pytest.approx(np.hypot(0.02, 0.01))
    assert fraction(np.zeros(50, bool)).error > 0
    with pytest.raises(SphereflowError, match="at least 2"):
        mean(np.ones((1, 3)))


def test_pairs_beyond_their_range_are_refused_and_constants_stay():
    for wrong, word in (
        ({"start": 1.5}, "start must be"),
        ({"tau": -1.0}, "tau must be"),
        ({"d": 1}, "d must be"),
        ({"points": 1}, "points must be"),
        ({"observable": lambda r: r * np.nan}, "observable must be finite"),
    ):
        with pytest.raises(SphereflowError, match=word):
            pair_expectation(**{"observable": lambda r: r, "start": 0.3, "tau": 0.1, "d": 3, "s": 1.0} | wrong)
    with pytest.raises(SphereflowError, match="r must be overlaps"):
        pair_drift(np.array([0.0, 1.5]), 3, 1.0)
    assert pair_expectation(lambda r: np.asarray(2.0), 0.3, 0.1, 3, 1.0) == pytest.approx(2.0, rel=1e-12)
    with pytest.raises(SphereflowError, match="entry of lengths"):
        prompts(2, -1)
