"""The law of overlaps against scipy's quadrature, and the noise drawn without storing patterns against stored ones."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import logsumexp
from scipy.stats import ks_2samp

from sphereflow.kernels import uniform_mean
from sphereflow.memory import noise, overlaps


@pytest.mark.parametrize("n", [4, 16, 51])
def test_density_tail_and_mean_kernel_by_quadrature(n):
    def density(phi):
        return float(np.exp(overlaps.log_density(phi, n)))

    assert quad(density, -1, 1)[0] == pytest.approx(1, abs=1e-9)
    assert quad(density, 0.4, 1)[0] == pytest.approx(np.exp(overlaps.log_tail(0.4, n)), rel=1e-9)
    mean = quad(lambda p: density(p) * np.exp(-0.7 * n * (1 - p)), -1, 1, epsabs=0)[0]
    assert np.log(mean) == pytest.approx(overlaps.log_mean_kernel(n, 0.7), abs=1e-9)
    assert np.log(uniform_mean(n, 0.7 * n)) == pytest.approx(overlaps.log_mean_kernel(n, 0.7), abs=1e-9)


def test_tail_continues_below_the_smallest_number():
    """Across the switch of formulas the tail is smooth, and its slope is that of the density."""
    n, c = 3000, np.linspace(0.55, 0.75, 2001)
    tail = overlaps.log_tail(c, n)
    assert tail[0] > -700 > tail[-1]
    slope = np.gradient(tail, c)[1:-1]
    exact = -np.exp(overlaps.log_density(c, n) - tail)[1:-1]
    np.testing.assert_allclose(slope, exact, rtol=1e-4)


def test_sampled_overlaps_have_the_right_spread():
    draws = overlaps.sample(np.random.default_rng(0), 20, 200_000)
    assert draws.mean() == pytest.approx(0, abs=4 / np.sqrt(20 * 200_000))
    assert draws.var() == pytest.approx(1 / 20, rel=0.02)


@pytest.mark.parametrize(("n", "alpha"), [(60, 0.17), (30, 0.34)])
def test_noise_in_law_is_the_noise_of_stored_patterns(n, alpha, monkeypatch):
    stored = noise.sample_log_noise(n, alpha, 1.0, 400, seed=1)
    monkeypatch.setattr(noise, "_ONE_BY_ONE", 10)
    in_law = noise.sample_log_noise(n, alpha, 1.0, 4000, seed=2)
    assert ks_2samp(stored, in_law).pvalue > 1e-3


def test_mean_of_logarithms_is_not_the_logarithm_of_the_mean():
    logs = noise.sample_log_noise(20, 0.3, 1.0, 4000)
    assert logsumexp(logs) - np.log(4000) == pytest.approx(noise.log_mean_noise(20, 0.3, 1.0), abs=0.12)
    assert logs.mean() == pytest.approx(-6.786, abs=0.05)


def test_leading_terms_are_off_by_order_one_over_n():
    gaps = [noise.log_mean_noise(n, 0.3, 0.7) - noise.log_mean_noise_leading(n, 0.3, 0.7) for n in (200, 400)]
    assert gaps[0] / gaps[1] == pytest.approx(2, rel=0.02)
