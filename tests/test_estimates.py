"""Error bars and straight lines against their definitions and against NumPy's least squares."""

import numpy as np
import pytest
from scipy import stats

from sphereflow import estimates
from sphereflow.errors import SphereflowError
from sphereflow.estimates import Estimate, extrapolate, fit_power, fraction, growth_rate, mean, straight_line


def test_the_error_of_a_mean_has_lost_one_degree_of_freedom():
    found = mean(np.array([1.0, 2.0, 6.0]))
    assert found.value == pytest.approx(3)
    assert found.error == pytest.approx(np.sqrt((4 + 1 + 9) / (3 * 2)))


def test_the_error_of_a_fraction_counts_one_more_of_each():
    found = fraction(np.array([True, True, True, False]))
    assert found.value == 0.75
    assert found.error == pytest.approx(np.sqrt((4 / 6) * (2 / 6) / 4))


def test_a_growth_rate_begins_with_the_time_that_is_named():
    times = np.array([0.0, 1.0, 2.0, 4.0])
    logs = np.array([1.0, -1.0])[:, None] * 0.5 + np.array([9.0, 3.0, 5.0, 1.5])
    assert growth_rate(logs, times, after=1.0).value == pytest.approx((1.5 - 3.0) / 3)
    assert growth_rate(logs, times, after=1.5).value == pytest.approx((1.5 - 5.0) / 2)


def test_straight_lines_are_those_of_numpy():
    rng = np.random.default_rng(0)
    x, bars = rng.uniform(0, 3, 6), np.array([0.1, 0.1, 0.2, 0.4, 1.0, 2.0])
    y = 2 - x + bars * rng.standard_normal(6)
    for given, scale in ((bars, "unscaled"), (None, True)):
        level, slope = straight_line(x, y, given)
        best, covariance = np.polyfit(x, y, 1, w=None if given is None else 1 / given, cov=scale)
        np.testing.assert_allclose([slope.value, level.value], best, rtol=1e-10)
        np.testing.assert_allclose([slope.error, level.error], np.sqrt(np.diag(covariance)), rtol=1e-10)


def test_error_bars_of_a_power_law_are_relative_to_its_values():
    x, y, bars = np.array([1.0, 2.0, 5.0]), np.array([3.0, 10.0, 90.0]), np.array([0.3, 0.1, 9.0])
    best, covariance = np.polyfit(np.log(x), np.log(y), 1, w=y / bars, cov="unscaled")
    found = fit_power(x, y, bars)
    assert found.exponent == pytest.approx(best[0], rel=1e-10)
    assert found.factor == pytest.approx(np.exp(best[1]), rel=1e-10)
    assert found.error == pytest.approx(np.sqrt(covariance[0, 0]), rel=1e-10)


def test_extrapolation_takes_the_power_that_is_named():
    steps = np.array([0.4, 0.2, 0.1])
    assert extrapolate(steps, Estimate(5 + 3 * steps**2, np.full(3, 0.1)), 2.0).value == pytest.approx(5)


def test_what_may_have_happened_is_no_share():
    with pytest.raises(SphereflowError, match="some are NaN"):
        fraction(np.array([1.0, 0.0, np.nan]))
    assert float(fraction(np.array([1.0, 0.0])).value) == 0.5


def test_the_jackknife_of_a_mean_is_its_standard_error():
    z = np.random.default_rng(0).exponential(size=(40, 2))
    found, exact = estimates.jackknife(lambda rows: rows[:, 0].mean(), z), estimates.mean(z[:, 0])
    assert (found.value, found.error) == pytest.approx((exact.value, exact.error))


def test_the_jackknife_of_a_ratio_covers_it_as_often_as_it_should():
    rng = np.random.default_rng(1)
    off = []
    for _ in range(300):
        a, b = rng.exponential(size=(2, 60))
        found = estimates.jackknife(lambda a, b: a.mean() / b.mean(), a, b)
        off.append((found.value - 1) / found.error)
    assert 0.85 < np.std(off) < 1.25  # of a standard deviation of 300 draws the error is 4 %, and the ratio is skew


@pytest.mark.parametrize("share", [0.5, 0.95])
def test_the_error_of_a_quantile_is_that_of_the_normal_law(share):
    rng, exact = np.random.default_rng(2), stats.norm.ppf(share)
    found = [estimates.quantile(rng.standard_normal(400), share) for _ in range(200)]
    error = np.sqrt(share * (1 - share) / 400) / stats.norm.pdf(exact)
    assert np.mean([each.error for each in found]) == pytest.approx(error, rel=0.1)
    assert np.std([each.value for each in found]) == pytest.approx(error, rel=0.2)


def test_errors_need_two_numbers():
    with pytest.raises(SphereflowError, match="at least 2 numbers"):
        estimates.quantile(np.array([1.0]))
    with pytest.raises(SphereflowError, match="columns of one length"):
        estimates.jackknife(lambda rows: 0.0, np.ones(1))
