"""The test of a profile's shape and the theory's curve beside its rivals, against plain loops."""

import numpy as np
import pytest
from scipy import special

import sphereflow as sf
from sphereflow.errors import SphereflowError
from sphereflow.retrieval.profile_fit import RIVALS, wave
from sphereflow.retrieval.shape_test import prefix_misfits

RNG = np.random.default_rng(11)
PLACES = (np.arange(16) + 0.5) / 16
VALLEY = 0.2 + 0.6 * np.exp(-PLACES / 0.1) + 0.3 * np.exp(-(1 - PLACES) / 0.1)


def decreasing(y):
    """min over a <= i of max over b >= i of the mean of y[a..b], one entry at a time."""
    m = len(y)
    return np.array([min(max(np.mean(y[a : b + 1]) for b in range(i, m)) for a in range(i + 1)) for i in range(m)])


def misfits(y):
    """Sums of squares of the best decreasing, increasing and valley-shaped fits, over all places of the valley."""

    def square(part, turned=False):
        part = part[::-1] if turned else part
        return float(np.sum((part - decreasing(part)) ** 2)) if len(part) else 0.0

    valley = min(square(y[:k]) + square(y[k:], True) for k in range(len(y) + 1))
    return square(y), square(y, True), valley


def test_misfits_of_all_prefixes_are_those_of_the_min_max_formula():
    y = RNG.normal(size=(3, 9)) + 1e3
    found = prefix_misfits(y)
    for row, got in zip(y, found, strict=True):
        expected = [0.0] + [float(np.sum((row[:k] - decreasing(row[:k])) ** 2)) for k in range(1, 10)]
        np.testing.assert_allclose(got, expected, atol=1e-9)


def test_p_values_are_those_of_plain_loops():
    rows = RNG.normal(VALLEY[::2], 0.15, size=(6, 8))
    found = sf.retrieval.u_shape(rows, repeats=99, seed=5)
    units, mean = len(rows), rows.mean(axis=0)
    fits = decreasing(mean), decreasing(mean[::-1])[::-1]
    np.testing.assert_allclose(found.decreasing, fits[0], atol=1e-12)
    np.testing.assert_allclose(found.increasing, fits[1], atol=1e-12)
    down, up, valley = misfits(mean)
    assert found.misfit("valley") == pytest.approx(valley, abs=1e-9)
    draws = np.random.default_rng(5).multinomial(units, np.full(units, 1 / units), size=99)
    beyond = [0, 0]
    for counts in draws:
        noise = (
            sum(c * (row - mean) for c, row in zip(counts, rows, strict=True)) / units * np.sqrt(units / (units - 1))
        )
        for k, seen in enumerate((down - valley, up - valley)):
            drawn = misfits(fits[k] + noise)
            beyond[k] += drawn[k] - drawn[2] >= seen
    assert found.p_decreasing == pytest.approx((1 + beyond[0]) / 100, abs=1e-6)
    assert found.p_increasing == pytest.approx((1 + beyond[1]) / 100, abs=1e-6)


def test_a_valley_is_u_shaped_and_monotone_profiles_are_not():
    noise = 0.1 * RNG.normal(size=(16, 16))
    found = sf.retrieval.u_shape(VALLEY + noise)
    assert found.u_shaped
    assert found.interior
    for profile in (1 - PLACES, PLACES, PLACES**4):
        assert not sf.retrieval.u_shape(profile + noise).u_shaped
    assert not sf.retrieval.u_shape(-VALLEY + noise).u_shaped


def test_false_alarms_are_as_rare_as_the_level_says():
    rng = np.random.default_rng(3)
    low = 0
    for seed in range(120):
        rows = rng.normal(np.exp(-PLACES / 0.05), 1.0, size=(16, 16))  # flat but for its first place
        low += sf.retrieval.u_shape(rows, repeats=199, seed=seed).p_decreasing < 0.05
    assert low <= 16  # 6 expected; the chance of more than 16 of 120 at 5 % is 2e-4


def test_the_curve_of_theory_is_found_again():
    c, slope = 0.8, 1.3
    density = slope * np.exp(-slope * (1 - PLACES)) / (1 - np.exp(-slope))
    y = np.log((np.exp(slope) - 1) / (np.exp(slope * PLACES) - 1))
    curve = density * np.sqrt(c / y) * special.iv(1, 2 * np.sqrt(c * y))
    np.testing.assert_allclose(wave(PLACES, c, slope), curve, rtol=1e-12)
    rows = 0.1 + 0.5 * curve + 1e-7 * RNG.normal(size=(4, 16))
    found = sf.retrieval.fit_profile(rows, repeats=8)
    assert (found.c, found.slope) == (pytest.approx(c, rel=1e-3), pytest.approx(slope, rel=1e-3))
    assert (found.offset, found.scale) == (pytest.approx(0.1, abs=1e-3), pytest.approx(0.5, rel=1e-3))
    assert found.best == "theory"
    assert found.recency
    assert not found.at_edge
    low, high = found.c_interval
    assert 0.7 < low <= high < 0.9
    t = float(found.times(1.0)[0])
    assert t * special.iv(1, 1.0) == pytest.approx(found.c)  # a_1 is the largest at beta = 1


def test_rivals_are_least_squares():
    noisy = VALLEY + 0.02 * RNG.normal(size=(8, 16))
    found = sf.retrieval.fit_profile(noisy, repeats=4)
    mean = noisy.mean(axis=0)
    for name, degree in (("constant", 0), ("linear", 1), ("quadratic", 2)):
        np.testing.assert_allclose(found.curves[name], np.polyval(np.polyfit(PLACES, mean, degree), PLACES), atol=1e-6)
    assert found.best == "two exponentials"
    for name, count in zip(RIVALS, (2, 3, 4, 4, 4, 6), strict=True):
        left = np.sum((found.curves[name] - mean) ** 2)
        expected = 16 * np.log(left / 16) + 2 * count + 2 * count * (count + 1) / (15 - count)
        assert found.aicc[name] == pytest.approx(expected, abs=1e-6)
    lengths = np.geomspace(0.02, 2, 60)
    tried = []
    for length in lengths:
        columns = np.stack([np.ones(16), np.exp(-PLACES / length)], axis=1)
        tried.append(np.sum((mean - columns @ np.linalg.lstsq(columns, mean, rcond=None)[0]) ** 2))
    assert min(tried) - 1e-4 < found.sse["primacy"] <= min(tried) + 1e-12


def test_a_profile_that_no_theory_has_is_said_to_lie_at_the_edge():
    """One place of sixteen stands out: a length that the theory's curves do not have."""
    first = 0.2 + 0.5 * (np.arange(16) == 0) + 0.2 * (np.arange(16) == 15) + 0.01 * RNG.normal(size=(8, 16))
    found = sf.retrieval.fit_profile(first, repeats=4)
    assert found.at_edge
    assert found.aicc["theory"] > found.aicc["two exponentials"]
    assert "loses to two exponentials" in found.facts()[0]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: sf.retrieval.u_shape(np.ones((2, 8))), "at least 3 units"),
        (lambda: sf.retrieval.u_shape(np.full((4, 8), np.nan)), "finite"),
        (lambda: sf.retrieval.u_shape(np.ones(8)), "rows"),
        (lambda: sf.retrieval.u_shape(np.ones((4, 8)), repeats=3), "repeats"),
        (lambda: sf.retrieval.u_shape(np.ones((4, 8)), level=2.0), "level"),
        (lambda: sf.retrieval.fit_profile(np.ones((4, 6))), "at least 8 positions"),
        (lambda: sf.retrieval.fit_profile(np.ones((4, 8)), np.linspace(0, 1, 8)), "inside"),
        (lambda: sf.retrieval.fit_profile(np.ones((4, 8)), np.linspace(0.1, 0.9, 7)), "positions"),
        (lambda: sf.retrieval.fit_profile(np.ones((4, 8))), "same mean at every position"),
    ],
)
def test_wrong_input_is_one_sentence(call, words):
    with pytest.raises(SphereflowError, match=words):
        call()
