"""The closed form against arbitrary precision, quadrature and a differential equation; its shape and its thresholds."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, special
from scipy.linalg import expm

import sphereflow as sf
from sphereflow.retrieval import (
    AnyKernel,
    alibi,
    critical_time,
    equal_time_correlation,
    equal_time_matrix,
    growth_rates,
    hard_hit,
    profile,
    several_heads,
    soft_hit,
    sphere_growth_rates,
    theorem_time,
    two_time_influence,
    two_time_matrix,
    two_time_row,
    weight_matrix,
)
from sphereflow.retrieval.bessel import graphon, log_mass, log_psi, position, psi, separation


def series(c, y, order=1, terms=400):
    k = np.arange(terms)
    logs = (k + order) * np.log(c) + special.xlogy(k, y) - special.gammaln(k + 1) - special.gammaln(k + order + 1)
    return special.logsumexp(logs)


@given(c=st.floats(1e-6, 50), y=st.floats(0, 500), order=st.integers(1, 3))
def test_psi_is_its_power_series(c, y, order):
    assert float(log_psi(c, y, order)) == pytest.approx(series(c, y, order), abs=1e-11, rel=1e-12)


def test_psi_at_zero_and_its_derivative():
    assert float(psi(0.7, 0.0)) == pytest.approx(0.7, rel=1e-15)
    h = 1e-5
    slope = (psi(1.3, 2 + h) - psi(1.3, 2 - h)) / (2 * h)
    assert float(np.exp(log_psi(1.3, 2.0, 2))) == pytest.approx(float(slope), rel=1e-9)
    assert np.isfinite(log_psi(1e40, 5.0))


@pytest.mark.parametrize("slope", [-3.0, -1e-9, 0.0, 1e-9, 1.0, 40.0])
def test_graphon_has_mass_one_and_its_coordinate_is_exact(slope):
    mass = integrate.quad(lambda s: float(graphon(0.8, s, slope)), 0, 0.8, epsabs=1e-12)[0]
    assert mass == pytest.approx(1, abs=1e-10)
    assert float(graphon(0.5, 0.6, slope)) == 0
    for sigma in (1e-200, 0.01, 0.7):
        assert float(position(log_mass(sigma, slope), slope)) == pytest.approx(sigma, rel=1e-12)
    h = 1e-6
    jacobian = (log_mass(0.3 + h, slope) - log_mass(0.3 - h, slope)) / (2 * h)
    decay = np.exp(-separation(0.8, 0.3, slope))
    assert float(graphon(0.8, 0.3, slope)) == pytest.approx(float(decay * jacobian), rel=1e-8)


def test_influence_solves_its_equation():
    a, t, slope, source = 0.9, 1.3, 2.0, 0.2
    for sigma in (0.25, 0.6, 1.0):
        h = 1e-5
        rate = (
            two_time_influence(a, t + h, sigma, source, slope) - two_time_influence(a, t - h, sigma, source, slope)
        ) / (2 * h)
        inside = integrate.quad(
            lambda s, sigma=sigma: float(graphon(sigma, s, slope) * two_time_influence(a, t, s, source, slope)),
            source,
            sigma,
            epsabs=1e-12,
        )[0]
        assert float(rate) == pytest.approx(a * (float(graphon(sigma, source, slope)) + inside), rel=1e-8)
    assert float(two_time_influence(a, t, 0.1, source, slope)) == 0


def test_growth_rates_on_the_circle_are_those_of_dimension_two():
    np.testing.assert_allclose(sphere_growth_rates(1.7, 2, 6), growth_rates(1.7, 6), rtol=1e-13)
    # On S^2: eigenvalue of e^{beta s} on P_1 is the integral of s e^{beta s} over [-1, 1], halved.
    eigenvalue = integrate.quad(lambda s: s * np.exp(1.3 * s) / 2, -1, 1)[0]
    assert sphere_growth_rates(1.3, 3, 1)[0] == pytest.approx(2 * eigenvalue, rel=1e-12)


def test_finite_theory_is_the_matrix_exponential():
    for weights in (alibi(1.0), AnyKernel(lambda s: 1 / (0.1 + s))):
        w = weight_matrix(30, weights)
        assert (np.triu(w) == 0).all()
        np.testing.assert_allclose(w.sum(axis=1), [0.0, *[1.0] * 29], atol=1e-14)
        np.testing.assert_allclose(w, weights.matrix(30), atol=1e-15)
        exact = expm(1.7 * w)
        np.testing.assert_allclose(two_time_matrix(w, 1.7), exact, atol=1e-13)
        np.testing.assert_allclose(two_time_row(w, 1.7), exact[-1], atol=1e-13)
        np.testing.assert_allclose(equal_time_matrix(w, 1.7), exact @ exact.T, atol=1e-13)
    assert (np.triu(two_time_matrix(w, 3.0), 1) == 0).all()


def test_equal_times_of_infinitely_many_tokens():
    """N (U U^T)_jk for N tokens, with an error of order 1/N."""
    n, growth, slope = 400, 0.4, 0.8
    finite = n * equal_time_matrix(weight_matrix(n, slope), growth)[n - 1, n // 2 - 1]
    assert equal_time_correlation(growth, 1.0, 1.0, 0.5, slope) == pytest.approx(finite, rel=2e-3)


def test_extreme_arguments():
    early = profile(1.0, 1.0, 1.0)
    assert np.isfinite(early.score(1e-300))
    assert float(early.log_score(1e-300)) == pytest.approx(np.log(float(early.score(1e-300))), rel=1e-12)
    cold = profile(100.0, 1.0, 0.5 * critical_time(100.0, 1.0, 8))
    assert np.isfinite(cold.score([1e-300, 0.5, 1.0])).all()
    assert cold.shape == "U-shaped"
    assert 0 < theorem_time(100.0, 1.0) < critical_time(100.0, 1.0, 8)
    assert np.isfinite(profile(100.0, 1.0, 1.0).log_score([1e-300, 0.5])).all()


def test_steepness_is_the_derivative():
    curve = several_heads([(1, 0.7, 3), (-2, 1.2, 0), (0.5, 0.4, -1)], 1.1, 5)
    s, h = 0.37, 1e-6
    slope = s * (curve.score(s + h) - curve.score(s - h)) / (2 * h)
    assert float(curve.steepness(s)) == pytest.approx(float(slope), rel=1e-8)


def test_very_early_minimum_is_found():
    curve = profile(1.0, 1.0, 1e-9)
    assert curve.shape == "U-shaped"
    assert curve.minimiser == pytest.approx(0.25 * 1e-9 * 1.03, rel=0.1)


def test_theorem_time_is_below_the_critical_time():
    rng = np.random.default_rng(3)
    for _ in range(50):
        beta, slope, vocab = rng.uniform(0.1, 8), rng.uniform(0.05, 12), int(rng.integers(1, 40))
        assert theorem_time(beta, slope) <= critical_time(beta, slope, vocab) * (1 + 1e-12)


@pytest.mark.parametrize("slope", [0.1, 0.0, -1.0])
def test_flat_slopes_give_primacy_only(slope):
    curve = profile(1.0, slope, 1.0)
    assert curve.shape == "decreasing"
    assert (np.diff(curve.score(np.geomspace(1e-6, 1, 500))) < 0).all()


def test_words_for_shapes():
    assert several_heads([(-1, 1.0, 1.0)], 1.0).shape == "hump-shaped"
    assert profile(1.0, 3.0, 1.05 * critical_time(1.0, 3.0, 8)).shape == "1 well"


# --- mistakes that must show ------------------------------------------------------------------------------------


def test_a_lost_factor_beta_shows_away_from_beta_one():
    right, wrong = growth_rates(1.5)[:2], growth_rates(1.5)[:2] / 1.5
    values = two_time_influence(right, 0.5, 1.0, 18.5 / 64, 1.0)
    np.testing.assert_allclose(values, [0.5563, 0.8735], atol=5e-5)
    np.testing.assert_allclose(two_time_influence(wrong, 0.5, 1.0, 18.5 / 64, 1.0), [0.3286, 0.4957], atol=5e-5)


def test_another_fourier_convention_changes_the_critical_time_by_two_pi():
    a = 2 * np.pi * growth_rates(1.0)
    weights = np.exp(-((np.pi * np.arange(1, len(a) + 1) / 8) ** 2) / 2)
    wrong = 2 * (1 - np.exp(-1)) * np.sum(weights * a) / np.sum(weights * a**2)
    assert critical_time(1.0, 1.0, 8) / wrong == pytest.approx(2 * np.pi, rel=1e-12)


def finite_error(weights):
    """The largest relative error against the closed form beyond sigma0 = 0.1, at beta = t = 1."""
    a, n = float(growth_rates(1.0)[0]), len(weights)
    sigma0 = (np.arange(n - 1) + 0.5) / n
    ratio = n * two_time_row(weights, a)[:-1] / two_time_influence(a, 1.0, 1.0, sigma0, 1.0)
    return np.abs(ratio - 1)[sigma0 > 0.1].max()


def test_wrong_weights_are_told_by_the_size_of_the_error():
    """Where a token sees itself the error halves with N all the same, and is even smaller: only its size tells."""
    found = {}
    for n in (100, 200):
        steps = np.subtract.outer(np.arange(n), np.arange(n))
        p = np.where(steps >= 0, np.exp(-steps / n), 0)
        strict = np.where(steps > 0, p, 0)
        reversed_slope = np.where(steps > 0, np.exp(steps / n), 0)
        found[n] = {
            "right": finite_error(weight_matrix(n, 1.0)),
            "sees itself": finite_error(p / p.sum(axis=1, keepdims=True)),
            "normalised with itself": finite_error(strict / p.sum(axis=1, keepdims=True)),
            "not normalised": finite_error(strict / n),
            "reversed slope": finite_error(
                reversed_slope / np.maximum(reversed_slope.sum(axis=1, keepdims=True), 1e-9)
            ),
        }
    assert found[200].pop("right") == pytest.approx(5.72e-3, rel=0.005)
    assert all(abs(error / 5.72e-3 - 1) > 0.5 for error in found[200].values())
    assert found[100]["sees itself"] / found[200]["sees itself"] == pytest.approx(2, abs=0.03)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: profile(0.0, 1.0, 1.0), "beta must be"),
        (lambda: profile(1.0, 1.0, 0.0), "t must be"),
        (lambda: profile(1.0, 1.0, 1.0, 0), "vocab must be"),
        (lambda: profile(1.0, 1.0, 1.0).score(0.0), "must lie in"),
        (lambda: several_heads([(1.0, 2.0)], 1.0), "weight, beta, slope"),
        (lambda: several_heads([], 1.0), "weight, beta, slope"),
        (lambda: several_heads([(1, 1, 1), (1, 2, 1)], 1.0).log_score(0.5), "one head of positive weight"),
    ],
)
def test_requests_that_cannot_be_served(call, words):
    with pytest.raises(sf.SphereflowError, match=words):
        call()


@pytest.mark.parametrize("growth", [-30.0, -2.0, 0.0, 3.0])
@pytest.mark.parametrize("factor", [1.0, -1.0, 5.0])
def test_propagators_of_any_matrix_and_sign_are_matrix_exponentials(growth, factor):
    """A series without a term was the identity for a growth below -15, and too short for a matrix of norm 5."""
    matrix = factor * weight_matrix(5, 1.0)
    exact = expm(growth * matrix)
    np.testing.assert_allclose(two_time_matrix(matrix, growth), exact, rtol=1e-10, atol=1e-13 * np.abs(exact).max())
    np.testing.assert_allclose(two_time_row(matrix, growth), exact[-1], rtol=1e-10, atol=1e-13 * np.abs(exact).max())


@pytest.mark.parametrize(
    ("call", "word"),
    [
        (lambda: two_time_matrix(np.eye(3), np.nan), "growth must be"),
        (lambda: two_time_matrix(300 * np.eye(3), 3.0), "at most 700"),
        (lambda: two_time_matrix(np.eye(3) * np.nan, 1.0), "weights must be finite"),
        (lambda: two_time_row(np.eye(3), 1.0, 3), "target must be"),
        (lambda: hard_hit(np.array([np.nan]), 8), "angles must be finite"),
        (lambda: soft_hit(np.zeros(1), 0), "vocab must be"),
    ],
)
def test_hits_and_propagators_of_no_numbers_are_refused(call, word):
    with pytest.raises(sf.SphereflowError, match=word):
        call()


def test_profiles_beyond_the_largest_number_keep_their_signs_and_shapes():
    """Two heads of opposite sign at beta = 20, whose profile is -2e51422: against 60 digits."""
    import mpmath as mp

    heads, t, vocab = [(1.0, 20.0, -1.0), (-1.0, 20.0, 1.0)], 2.0, 8

    def exact(s):
        total = mp.mpf(0)
        for weight, beta, slope in heads:
            y = mp.log((mp.e**slope - 1) / (mp.e ** (slope * s) - 1))
            density = slope * mp.e ** (slope * s) / (mp.e**slope - 1)
            for n in range(1, 40):
                c = n**2 * mp.besseli(n, beta) * t
                mode = mp.e ** (-((mp.pi * n / vocab) ** 2) / 2)
                total += weight * density * mode * mp.sqrt(c / y) * mp.besseli(1, 2 * mp.sqrt(c * y))
        return total

    curve = several_heads(heads, t, vocab)
    places = [0.1, 0.5, 0.9]
    with mp.workdps(60):
        values, slopes = [exact(mp.mpf(s)) for s in places], [mp.diff(exact, mp.mpf(s)) for s in places]
        assert max(abs(value) for value in values) > mp.mpf(10) ** 400
    assert (curve.score(places) == [np.copysign(np.inf, float(mp.sign(value))) for value in values]).all()
    assert (curve.steepness(places) == [np.copysign(np.inf, float(mp.sign(slope))) for slope in slopes]).all()
    assert curve.shape == "increasing"
    early, late = np.sign(curve._scaled(np.array([1e-3, 0.999]), derivative=True)[0])
    assert early == late == 1


def test_heads_that_cancel_leave_no_rounding_behind():
    curve = several_heads([(1.0, 1.0, 1.0), (-1.0, 1.0, 1.0)], 5e4)
    assert curve.shape == "flat"
    assert not curve.score([0.1, 0.5, 1.0]).any()
    almost = several_heads([(1.0, 1.0, 1.0), (-1.0, 1.0, 1.0 + 1e-13)], 5e4)
    assert len(almost.turns()) <= 2


@pytest.mark.parametrize("slope", [1e-300, -1e-300, 1e-17, 1e-9, -1e-9])
def test_a_slope_that_vanishes_is_none(slope):
    """The limit of no slope, to first order in it, also where the slope times a position is below every number."""
    sigma = np.array([1e-300, 1e-20, 0.3, 1.0])
    assert log_mass(sigma, slope) == pytest.approx(log_mass(sigma, 0.0), abs=2 * abs(slope))
    assert graphon(1.0, sigma, slope) == pytest.approx(1.0, abs=2 * abs(slope) + 1e-15)
    assert position(np.log(sigma), slope) == pytest.approx(sigma, rel=2 * abs(slope) + 1e-13)
    assert profile(1.0, slope, 1.0).score(sigma) == pytest.approx(profile(1.0, 0.0, 1.0).score(sigma), rel=1e-7)


def test_thresholds_without_recency_are_zero():
    for slope in (0.0, -3.0, -400.0):
        assert critical_time(1.0, slope, 8) == theorem_time(1.0, slope) == 0.0
    assert critical_time(1e-300, 1.0, 8) > 1e299
    with pytest.raises(sf.SphereflowError, match="beta must be a finite number"):
        critical_time(1e-320, 1.0, 8)
