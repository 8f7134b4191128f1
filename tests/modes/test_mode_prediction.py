"""Predicted numbers of modes against quadrature, limits, and Monte Carlo for densities other than the normal one."""

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import ive

from sphereflow.errors import SphereflowError
from sphereflow.modes import (
    belt,
    central_modes,
    circle_modes,
    edge,
    expected_modes,
    fastest_harmonic,
    gaussian_density,
    gaussian_modes,
    limit_constant,
    mode_density,
    sample_modes,
    saturated_rate,
    simulated_rate,
    sparse_rate,
)
from sphereflow.modes.moments import density_moments, normal_moments
from sphereflow.modes.sparse import DENSE_RATE, series


def normal(t):
    return np.exp(-(t**2) / 2) / np.sqrt(2 * np.pi)


def mixture(t):
    return 0.5 * (np.exp(-((t - 1) ** 2) / 0.18) + np.exp(-((t + 1) ** 2) / 0.18)) / (0.3 * np.sqrt(2 * np.pi))


@pytest.mark.parametrize("beta", [20.0, 500.0])
def test_moments_of_any_density(beta):
    t = np.array([0.0, 0.7, 2.5])
    closed, found = normal_moments(t, beta).plain(), density_moments(normal, t, beta).plain()
    for name, value in closed.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-9, atol=1e-16)


@pytest.mark.parametrize("beta", [1e3, 1e6])
def test_leading_terms(beta):
    """m2 carries 1/beta beside 1 - t^2, which shows at t = 1."""
    t = np.array([0.3, 1.0, 2.0])
    m = normal_moments(t, beta).plain()
    density = np.exp(-(t**2) / 2)
    np.testing.assert_allclose(m["G"], beta**-1.5 * t * density, rtol=5 / beta)
    slack = 20 / beta**2
    np.testing.assert_allclose(m["G'"] * beta**1.5 / density, 1 - t**2 + 1 / beta, rtol=5 / beta, atol=slack + 5 / beta)
    np.testing.assert_allclose(m["GG"], (2 * beta) ** -1.5 * density, rtol=5 / beta)
    np.testing.assert_allclose(m["G'G'"], 0.75 * (2 * beta) ** -0.5 * density, rtol=5 / beta)
    assert m["G'"][1] * beta**1.5 / density[1] == pytest.approx(1 / beta, rel=3.0)


def test_gaussian_density_is_even_and_does_not_decay():
    t = np.linspace(0, 8, 50)
    np.testing.assert_allclose(gaussian_density(t, 1e4, 300.0), gaussian_density(-t, 1e4, 300.0), rtol=1e-13)
    assert gaussian_density(8.0, 1e4, 1e5) == pytest.approx(DENSE_RATE * math.sqrt(1e5), rel=0.01)
    with pytest.raises(SphereflowError, match="does not decay"):
        gaussian_modes(1e4, 300.0, 0.0, math.inf)


def test_quadrature_against_scipy():
    n, beta = 3000.0, 200.0
    for low, high in ((-edge(n, beta), edge(n, beta)), (0.1, 1.7), (-2.0, 0.3)):
        exact = quad(lambda t: float(gaussian_density(t, n, beta)), low, high, points=[0.0], epsrel=1e-11, limit=300)[0]
        assert gaussian_modes(n, beta, low, high) == pytest.approx(exact, rel=1e-9)
    whole = expected_modes(n, beta)
    parts = expected_modes(n, beta, -math.inf, 0.4) + expected_modes(n, beta, 0.4)
    assert parts == pytest.approx(whole, rel=1e-4)


@pytest.mark.parametrize(("n", "beta"), [(1e6, 0.01), (1e6, 1.0), (10.0, 0.01), (1e12, 10.0)])
def test_wide_kernels_leave_one_mode(n, beta):
    assert expected_modes(n, beta) == pytest.approx(1, abs=0.02)


def test_a_peak_far_narrower_than_the_bandwidth_is_not_missed():
    """At n = 10^60 and beta = 10^12 the one mode near the origin is within 10^-21 of it."""
    assert gaussian_modes(1e60, 1e12, -1.0, 1.0) == pytest.approx(1, abs=1e-9)


@pytest.mark.parametrize("n", [1.0, 10.0, 500.0])
def test_narrow_kernels_leave_every_sample_alone(n):
    assert expected_modes(n, 1e12) == pytest.approx(n, rel=1e-3)


@pytest.mark.fast_cases("50-1000.0", "300-40.0")
@pytest.mark.parametrize(("n", "beta"), [(50, 10.0), (50, 1000.0), (5000, 3e6), (300, 40.0)])
def test_prediction_off_the_beaten_track(n, beta):
    found = sample_modes(n, beta, 40 if n > 1000 else 1500, seed=3).everywhere
    assert expected_modes(n, beta) == pytest.approx(found.value, abs=3 * found.error + 0.025 * found.value)


def test_prediction_for_another_density():
    def draw(rng, shape):
        return np.where(rng.random(shape) < 0.5, -1.0, 1.0) + 0.3 * rng.standard_normal(shape)

    n, beta = 2000, 2000.0
    found = sample_modes(n, beta, 150, seed=4, sampler=draw)
    t = np.linspace(-4, 4, 8001)
    predicted = np.sum(mode_density(t, n, beta, density=mixture)) * (t[1] - t[0])
    assert predicted == pytest.approx(found.everywhere.value, abs=3 * found.everywhere.error + 0.02 * predicted)
    assert "150 runs" in repr(found)


def test_belt_and_edge():
    assert belt(1e4, 100.0)[0] == pytest.approx(math.sqrt(2 * math.log(1e4) - 3 * math.log(100)))
    assert belt(1000, 300.0)[0] == 0
    assert edge(10, 1000.0) == 0
    assert gaussian_modes(10, 1000.0) == 0


def test_modes_near_the_origin_are_those_of_the_gaussian_formula():
    n, beta = 1e20, 1e11  # far from both ends of n^{2/5} << beta << n^{2/3}
    assert central_modes(n, beta) == pytest.approx(gaussian_modes(n, beta, -0.05, 0.05), rel=1e-3)


@pytest.mark.parametrize("a", [0.3, 2 / 3, 1.0, 1.7])
def test_the_limit_is_the_length_of_the_belt_times_the_saturated_rate(a):
    n = 1e40
    beta = n**a
    inner, outer = belt(n, beta)
    expected = 2 * (outer - inner) * saturated_rate(beta) / math.sqrt(beta * math.log(beta))
    assert limit_constant(a) == pytest.approx(expected, rel=1e-9)


def test_sparse_rate_is_whole():
    x = np.linspace(0, 3, 3001)
    f = sparse_rate(x)
    assert np.all(np.diff(f) >= 0)
    assert np.abs(np.diff(f)).max() < 1.01e-3
    assert sparse_rate(1e300) == DENSE_RATE
    assert abs(float(series(np.array(0.05))) - sparse_rate(0.05)) < 5e-5


def test_sparse_rate_of_few_samples():
    """Pairs merge at two bandwidths: with any other distance the coefficient of x^2 is not 2."""
    rate, error = simulated_rate(0.02, 600_000, seed=9)
    assert rate == pytest.approx(0.02 - 2 * 0.02**2 + 0.802 * 0.02**3, abs=4 * error)
    assert error < 2.5e-4


def test_rice_on_the_circle_from_the_covariance():
    """The noise has covariance I_0(2 beta cos(r/2)): N = sqrt(c''''(0) / -c''(0)), by Taylor's formula."""
    beta = 40.0
    r = np.linspace(-0.06, 0.06, 41)
    z = 2 * beta * np.cos(r / 2)
    c = ive(0, z) * np.exp(z - 2 * beta)
    fit = np.polynomial.Polynomial.fit(r, c, 10).convert().coef
    assert circle_modes(beta) == pytest.approx(math.sqrt(24 * fit[4] / (-2 * fit[2])), rel=1e-3)


def test_attention_moves_the_modes_towards_the_fastest_harmonic():
    beta = 400.0
    assert circle_modes(beta) == pytest.approx(math.sqrt(1.5 * beta), rel=1e-3)
    assert abs(fastest_harmonic(beta) - math.sqrt(2 * beta)) < 1
    times = [circle_modes(beta, t) for t in (0.0, 1.0, 5.0, 50.0, 1e5)]
    assert np.all(np.diff(times[:4]) > 0)
    assert times[-1] == pytest.approx(fastest_harmonic(beta), rel=0.01)


@pytest.mark.parametrize("wrong", [{"repeats": 1}, {"n": 0}, {"beta": -1.0}, {"seed": -1}])
def test_mistakes_are_named(wrong):
    with pytest.raises(SphereflowError, match=next(iter(wrong))):
        sample_modes(**{"n": 10, "beta": 1.0, "repeats": 2, **wrong})


@pytest.mark.parametrize(("n", "beta", "share"), [(2, 10.0, 0.15), (3, 10.0, 0.12), (5, 4.0, 0.07), (30, 30.0, 0.05)])
def test_the_prediction_is_as_good_for_few_samples_as_it_says(n, beta, share):
    counted = sample_modes(n, beta, 3000, seed=4).everywhere
    off = abs(expected_modes(n, beta) / counted.value - 1)
    assert off < share + 3 * counted.error / counted.value
    assert n > 5 or off > 0.01  # an approximation that is exact needs no such sentence


def test_least_arguments_have_numbers_or_a_sentence():
    """Kernels far wider than the samples: one mode, and none of the cancellation that lies below."""
    assert gaussian_modes(100, 1e-6) == pytest.approx(1, abs=1e-9)
    for formula in (gaussian_modes, expected_modes):
        with pytest.raises(SphereflowError, match="beta must be a finite number at least 1e-06"):
            formula(100, 1e-8)
    assert circle_modes(1e-300) == circle_modes(1e-300, 1.0) == 1
    # C(a) = sqrt(3 a) / (2 pi) + O(a^(3/2)), where the difference of two roots has no digit left.
    assert limit_constant(1e-300) == pytest.approx(math.sqrt(3e-300) / (2 * math.pi), rel=1e-12)
