"""Certain counts of modes against brute force, exact cases, invariances, and the error bounds behind the certainty."""

import math
import time
from itertools import pairwise

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq

from sphereflow.errors import SphereflowError
from sphereflow.modes import cells, find_modes, mean_shift, merged
from sphereflow.modes.smoothing import Gaussian, VonMises


def slope(t, sample, beta, space="line"):
    """F(t), directly, in extended precision."""
    u = np.subtract.outer(np.asarray(t, np.longdouble), np.asarray(sample, np.longdouble))
    if space == "line":
        return np.sum(u * np.exp(-np.longdouble(beta) / 2 * u**2), axis=1)
    return np.sum(np.sin(u) * np.exp(np.longdouble(beta) * (np.cos(u) - 1)), axis=1)


def brute(sample, beta, space="line", per_bandwidth=60):
    """Modes by sign changes on a fine grid, each refined by scipy."""
    h = beta**-0.5
    ends = (0.0, 2 * np.pi) if space == "circle" else (np.min(sample) - h, np.max(sample) + h)
    t = np.linspace(*ends, int((ends[1] - ends[0]) / h * per_bandwidth) + 2)
    signs = np.sign(slope(t, sample, beta, space))
    kept = np.flatnonzero(signs)  # in empty gaps the slope underflows
    up = [(i, j) for i, j in pairwise(kept) if signs[i] < 0 < signs[j]]
    return np.array(
        [brentq(lambda x: float(slope([x], sample, beta, space)[0]), t[i], t[j], xtol=1e-15) for i, j in up]
    )


@pytest.mark.parametrize(("n", "beta"), [(1, 3.0), (3, 0.7), (40, 12.0), (120, 300.0), (25, 1e4)])
def test_line_against_brute_force(n, beta):
    sample = np.random.default_rng(n).standard_normal(n)
    found = find_modes(sample, beta)
    expected = brute(sample, beta)
    assert found.certain
    assert len(found) == len(expected)
    np.testing.assert_allclose(found.positions, expected, rtol=0, atol=1e-9 * beta**-0.5)


@pytest.mark.parametrize(("n", "beta"), [(1, 0.05), (3, 0.6), (30, 4.0), (30, 40.0), (40, 1500.0)])
def test_circle_against_brute_force(n, beta):
    sample = np.random.default_rng(n + 1).uniform(0.05, 6.2, n)
    found = find_modes(sample, beta, space="circle")
    assert found.certain
    np.testing.assert_allclose(found.positions, brute(sample, beta, "circle"), rtol=0, atol=1e-9 * beta**-0.5)


@pytest.mark.parametrize("terms", [16, 8])
@pytest.mark.parametrize("space", ["line", "circle"])
def test_every_error_is_below_its_bound(space, terms, monkeypatch):
    """With 16 terms rounding dominates, with 8 truncation."""
    monkeypatch.setattr(cells, "TERMS", terms)
    rng = np.random.default_rng(5)
    beta = 50.0
    if space == "line":
        sample = rng.standard_normal(400)
        made = cells.line_cells(sample[None] * math.sqrt(beta))
    else:
        sample = rng.uniform(0, 2 * np.pi, 400)
        made = cells.circle_cells(sample[None], beta)
    smaller = False
    for chosen, b, errors in made.polynomials():
        for s in (-1.0, -0.3, 0.0, 0.8, 1.0):
            t = (made.cell[chosen] + (1 + s) / 2) * made.width / math.sqrt(beta)
            exact = slope(t, sample, beta, space) * math.sqrt(beta)
            gap = np.abs(b @ s ** np.arange(cells.TERMS) - exact.astype(float))
            assert np.all(gap <= errors[:, 0])
            smaller |= bool(np.any(gap > 1e-4 * errors[:, 0]))
        assert errors.max() < (1e-9 if terms == 16 else 1e-2)
    assert smaller  # the bounds are not so loose that they say nothing


def test_sums_over_a_cell_are_pairwise():
    """The bounds rely on sums over long runs that do not lose a digit for each power of ten."""
    values = np.full(10**6, 0.1)
    sums = np.add.reduceat(values, [0, 500_000])
    exact = [math.fsum(values[:500_000]), math.fsum(values[500_000:])]
    np.testing.assert_allclose(sums, exact, rtol=1e-14)


def test_exact_cases():
    for beta in (0.1, 1.0, 3e4):
        h = beta**-0.5
        for half, modes in ((0.0, 1), (0.999, 1), (1.001, 2), (1 + 1e-6, 2), (50.0, 2), (1e6, 2)):
            found = find_modes([-half * h, half * h], beta)
            assert (len(found), found.certain) == (modes, True)
    assert len(find_modes([0.0, 100.0, 200.0], 1.0)) == 3


def test_a_degenerate_maximum_is_not_called_certain():
    found = find_modes([-1.0, 1.0], 1.0)  # zero second derivative at the maximum
    assert len(found) == 1
    assert not found.certain
    assert abs(found.positions[0]) < 1e-3
    assert "undecided" in repr(found)


@pytest.mark.parametrize("offset", [0.0, -3.7, 0.25])
def test_modes_on_the_edges_of_cells_are_counted_once(offset):
    """A symmetric sample has its mode exactly at a node, where rounding decides the sign."""
    for half in np.linspace(0.0, 0.9, 37):
        found = find_modes(np.array([-half, half, 0.0]) + offset, 1.0)
        assert len(found) == 1
        assert found.positions[0] == pytest.approx(offset, abs=1e-12)


@given(st.integers(0, 10**6), st.floats(0.5, 1e4))
def test_moved_mirrored_and_repeated_samples(seed, beta):
    sample = np.random.default_rng(seed).standard_normal(50)
    modes = find_modes(sample, beta)
    h = beta**-0.5
    np.testing.assert_allclose(find_modes(sample + 2.3, beta).positions, modes.positions + 2.3, atol=1e-8 * h, rtol=0)
    np.testing.assert_allclose(find_modes(-sample, beta).positions[::-1], -modes.positions, atol=1e-8 * h, rtol=0)
    np.testing.assert_allclose(find_modes(np.tile(sample, 3), beta).positions, modes.positions, atol=1e-8 * h, rtol=0)


@given(st.integers(0, 10**6), st.floats(0.0, 6.2))
def test_turned_circle(seed, angle):
    sample = np.random.default_rng(seed).uniform(0, 2 * np.pi, (2, 60))
    still, turned = (find_modes(x, 90.0, space="circle") for x in (sample, sample + angle))
    for run in (0, 1):
        moved = np.sort(np.mod(still.positions[still.run == run] + angle, 2 * np.pi))
        np.testing.assert_allclose(turned.positions[turned.run == run], moved, atol=1e-9, rtol=0)


def test_runs_do_not_see_each_other():
    rng = np.random.default_rng(8)
    sample, betas = rng.standard_normal((30, 40)), rng.uniform(1, 500, 30)
    together = find_modes(sample, betas)
    for k in range(30):
        alone = find_modes(sample[k], betas[k])
        np.testing.assert_allclose(together.positions[together.run == k], alone.positions, atol=1e-12, rtol=0)
    assert together.counts.sum() == len(together)
    assert np.array_equal(together.within(-9, 9), together.counts)


def test_a_million_samples_in_seconds_with_certainty():
    sample = np.random.default_rng(0).standard_normal(10**6)
    began = time.process_time()
    found = find_modes(sample, 1e4)
    assert time.process_time() - began < 5
    assert found.certain
    assert abs(len(found) - 138) < 25  # expected_modes is 133.7, its spread about 6


def test_samples_all_alone_have_a_mode_each():
    sample = np.random.default_rng(1).standard_normal(20_000)
    beta = (2.2 / np.diff(np.sort(sample)).min()) ** 2
    assert len(find_modes(sample, beta)) == 20_000


def test_mean_shift_ends_at_the_modes():
    sample = np.random.default_rng(3).standard_normal(150)
    ends = merged(mean_shift(sample, 60.0), 1e-5)
    np.testing.assert_allclose(ends, find_modes(sample, 60.0).positions, atol=1e-9)
    with pytest.raises(SphereflowError, match="not stopped"):
        mean_shift(sample, 60.0, most=3)


@pytest.mark.parametrize(
    ("kernel", "u"), [(Gaussian(), 0.0), (Gaussian(), -6.5), (VonMises(0.3), 1.0), (VonMises(500.0), 7.0)]
)
def test_kernels_against_arbitrary_precision(kernel, u):
    def value(x):
        if isinstance(kernel, Gaussian):
            return mpmath.exp(-(x**2) / 2)
        return mpmath.exp(kernel.beta * (mpmath.cos(x / mpmath.sqrt(kernel.beta)) - 1))

    with mpmath.workdps(60):
        exact = np.array([float(c) for c in mpmath.taylor(value, u, 20)])
    found = kernel.taylor(np.array([u]), 21)[0]
    bound = kernel.bound(np.array([abs(u)]), 21)[0]
    assert np.all(np.abs(found - exact) <= 1e-13 * np.maximum(bound, np.abs(exact)))
    assert np.all(np.abs(exact) <= bound)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (([], 1.0), "n >= 1"),
        (([[[1.0]]], 1.0), "shape"),
        (([np.nan, 1.0], 1.0), "finite"),
        (([0.0], 0.0), "above 0"),
        (([0.0], [1.0, 2.0]), "one such number for each run"),
        ((["a"], 1.0), "numbers"),
        (([0.0, 1.0], 1e40), "too large"),
    ],
)
def test_mistakes_are_named(arguments, told):
    with pytest.raises(SphereflowError, match=told):
        find_modes(*arguments)


def test_mistakes_on_the_circle():
    with pytest.raises(SphereflowError, match="one number"):
        find_modes(np.zeros((2, 3)), [1.0, 2.0], space="circle")
    with pytest.raises(SphereflowError, match="at most"):
        find_modes([0.0], 1e18, space="circle")


def test_groups_of_no_points_and_of_no_numbers():
    assert merged(np.zeros(0), 0.1).shape == (0,)
    for points, distance in ((np.array([np.nan]), 0.1), (np.zeros(2), -1.0)):
        with pytest.raises(SphereflowError, match="must be"):
            merged(points, distance)
