"""Logarithms of Bessel functions where the library serves them, and where it does not."""

import mpmath
import numpy as np
import pytest
from scipy import special

from sphereflow import meanfield, retrieval
from sphereflow.numerics import bessel


@pytest.mark.parametrize("order", [60.0, 61.5, 150.0])
@pytest.mark.parametrize("z", [30.0, 150.0, 600.0])
def test_uniform_expansion(order, z):
    assert bessel._debye(np.array([order]), np.array([z])) == pytest.approx(np.log(special.ive(order, z)), abs=1e-10)


def test_recurrence_where_nothing_else_reaches():
    """I_{v-1} - I_{v+1} = (2v/z) I_v at order 5000, where the function itself is far below the smallest number."""
    v, z = 5000.0, 8000.0
    low, mid, high = bessel.log_ive(v + np.array([-1, 0, 1]), z)
    assert np.exp(low - mid) - np.exp(high - mid) == pytest.approx(2 * v / z, rel=1e-9)


def test_every_branch_at_once():
    order, z = np.array([0, 1, 59, 60, 100, 500, 2]), np.array([1.0, 30.0, 1e-3, 1e3, 1e-3, 30.0, 1e12])
    with mpmath.workdps(40):
        exact = [float(mpmath.log(mpmath.besseli(int(v), x)) - x) for v, x in zip(order, z, strict=True)]
    np.testing.assert_allclose(bessel.log_ive(order, z), exact, rtol=1e-14, atol=1e-15)


@pytest.mark.parametrize("d", [2, 3, 40])
def test_funk_hecke_is_the_mean_of_the_kernel_against_a_harmonic(d):
    t, weight = special.roots_gegenbauer(60, d / 2 - 1) if d > 2 else special.roots_chebyt(60)
    for degree, harmonic in ((0, 1.0), (1, t), (2, (d * t**2 - 1) / (d - 1))):
        mean = np.sum(weight * np.exp(3.0 * (t - 1)) * harmonic) / np.sum(weight)
        assert bessel.funk_hecke(d, 3.0, degree) == pytest.approx(mean, rel=1e-12)


def test_growth_rates_of_two_areas_are_one():
    """retrieval counts time with the raw kernel and without the factor 1/beta of the mean-field flow."""
    for d in (2, 5):
        rates = meanfield.growth_rates(3.0, "usa", d=d, count=6, kernel_scale="raw")
        np.testing.assert_allclose(retrieval.sphere_growth_rates(3.0, d, 6), 3.0 * rates, rtol=1e-13)
    np.testing.assert_array_equal(retrieval.growth_rates(3.0, 6), retrieval.sphere_growth_rates(3.0, 2, 6))
