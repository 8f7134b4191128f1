"""The Edgeworth expansion against quadrature, attention on the line against plain sums, modes in space."""

import math

import numpy as np
import pytest
from scipy.stats import norm

from sphereflow import modes
from sphereflow.errors import SphereflowError
from sphereflow.modes.edgeworth import cumulants
from sphereflow.modes.in_space import _third
from sphereflow.modes.tokens_on_line import _Field


def test_cumulants_are_those_of_plain_sums():
    """Third and fourth cumulants from moments by the trapezoidal rule."""
    beta, t = 20.0, 1.3
    u = np.linspace(-3, 3, 60_001)
    mass = norm.pdf(t - u) * (u[1] - u[0])
    g, c = u * np.exp(-beta * u**2 / 2), (1 - beta * u**2) * np.exp(-beta * u**2 / 2)
    left = 1 - mass.sum()  # samples beyond: G = G' = 0
    m1, m2 = mass @ g, mass @ c
    scale = math.sqrt(1 / (2 * beta + 1)) * math.exp(-beta * t**2 / (2 * beta + 1))
    found = cumulants(np.array([t]), beta)

    def central(i, j):
        return mass @ ((g - m1) ** i * (c - m2) ** j) + left * (-m1) ** i * (-m2) ** j

    for i, j in ((3, 0), (2, 1), (1, 2), (0, 3)):
        assert found[i, j][0] == pytest.approx(central(i, j) / scale**1.5, rel=1e-9)
    assert found[2, 2][0] == pytest.approx(
        (central(2, 2) - central(2, 0) * central(0, 2) - 2 * central(1, 1) ** 2) / scale**2, rel=1e-9
    )


@pytest.mark.parametrize(
    ("n", "beta", "t", "orders"),
    [(100, 10.0, 2.0, (0.0447566, 0.0390971, 0.0395594)), (6500, 81.0, 3.0, (0.391542, 0.384464, 0.381612))],
)
def test_orders_have_the_digits_of_an_independent_program(n, beta, t, orders):
    at = np.array([t])
    for order, expected in zip((2, 3, 4), orders, strict=True):
        assert modes.edgeworth_density(at, n, beta, order=order)[0] == pytest.approx(expected, rel=3e-6)
        assert modes.edgeworth_density(at[0], n, beta, order=order) == pytest.approx(expected, rel=3e-6)
        by_quadrature = modes.edgeworth_density(at, n, beta, norm.pdf, order=order)[0]
        assert by_quadrature == pytest.approx(expected, rel=3e-6)
    assert modes.gaussian_density(at, n, beta)[0] == pytest.approx(orders[0], rel=3e-6)


def test_the_expansion_is_negligible_for_very_many_samples():
    for a in (0.5, 1.0):
        n = 1e60
        assert modes.expected_modes(n, n**a, edgeworth=True) == pytest.approx(modes.expected_modes(n, n**a), rel=1e-5)
    with pytest.raises(SphereflowError, match="order"):
        modes.edgeworth_density(np.zeros(1), 100, 10.0, order=5)


def test_attention_on_the_line_is_a_plain_sum():
    x = np.random.default_rng(0).normal(size=(2, 200))
    beta = 100.0
    weights = np.exp(-beta / 2 * (x[:, :, None] - x[:, None]) ** 2)
    plain = np.einsum("rij,rj->ri", weights, x) / weights.sum(axis=2) - x
    np.testing.assert_allclose(_Field(x, beta)(x), plain, atol=1e-5 / math.sqrt(beta))


def test_two_tokens_meet_at_the_rate_of_their_distance():
    """y = x_2 - x_1 obeys y' = -2 y w / (1 + w), w = exp(-beta y^2 / 2): halved steps agree with a fine Euler run."""
    beta, y = 4.0, 0.6
    run = modes.line_attention(np.array([0.0, y]), beta, [0.0, 1.0])
    for _ in range(20_000):
        w = math.exp(-beta * y * y / 2)
        y -= 2 * y * w / (1 + w) / 20_000
    assert np.diff(run.tokens[-1, 0])[0] == pytest.approx(y, abs=5e-5)
    assert run.modes[:, 0].tolist() == [1, 1]


def test_linear_growth_has_the_values_of_the_integral():
    found = [0.194924 * modes.linear_growth(t) for t in (0.0, 1.0, 4.0)]
    np.testing.assert_allclose(found, [0.19492, 0.20446, 0.21636], atol=2e-5)
    assert modes.linear_growth(1e4) == pytest.approx(math.sqrt(4 / 3), abs=1e-3)
    with pytest.raises(SphereflowError, match="times"):
        modes.line_attention(np.zeros(3), 1.0, [1.0, 0.5])


@pytest.mark.parametrize("d", [2, 3])
def test_two_samples_are_one_mode_up_to_two_bandwidths(d):
    for distance, expected in ((1.9, 1), (2.1, 2), (6.0, 2)):
        samples = np.zeros((2, d))
        samples[1, 0] = distance / 5
        found = modes.find_modes_in_space(samples, 25.0)
        assert len(found) == found.proved == expected
    middle = modes.find_modes_in_space(np.array([[0.0] * d, [0.2] + [0.0] * (d - 1)]), 25.0)
    np.testing.assert_allclose(middle.positions[0], [0.1] + [0.0] * (d - 1), atol=1e-12)


def test_a_lattice_of_far_samples_has_a_mode_at_each():
    place = np.stack(np.meshgrid(np.arange(4.0), np.arange(4.0)), axis=-1).reshape(-1, 2)
    found = modes.find_modes_in_space(place, 100.0)
    np.testing.assert_allclose(found.positions, place[np.lexsort(place.T[::-1])], atol=1e-9)


def test_peak_rates_are_those_of_random_hessians():
    """Density of maxima = p(gradient = 0) E[|det H|; H < 0] for a field with covariance e^{-r^2/4}, by sampling H."""
    rng = np.random.default_rng(0)
    for d in (2, 3):
        count = 200_000
        # In units where the gradient has variance one: H_ii = sqrt(3) scale with covariance 1, H_ij variance 1.
        diagonal = rng.normal(size=(count, d)) * math.sqrt(2) + rng.normal(size=(count, 1))
        hessian = np.zeros((count, d, d))
        hessian[:, np.arange(d), np.arange(d)] = diagonal
        for i in range(d):
            for j in range(i):
                hessian[:, i, j] = hessian[:, j, i] = rng.normal(size=count)
        below = np.linalg.eigvalsh(hessian)[:, -1] < 0
        unit = np.mean(np.abs(np.linalg.det(hessian)) * below) * (2 * math.pi) ** (-d / 2)
        # e^{-beta r^2/4} has unit length (2/beta)^{1/2}.
        assert modes.peak_rate(1.0, d) == pytest.approx(unit * 2 ** (-d / 2), rel=0.03)
    assert modes.peak_rate(4.0, 1) == pytest.approx(modes.saturated_rate(4.0))


def test_the_slope_takes_modes_away():
    inside = modes.expected_peaks(1e6, 300.0, 2, 0.7)
    assert inside < 0.5 * modes.expected_peaks(1e4, 300.0, 2, 0.7)
    with pytest.raises(SphereflowError, match="samples"):
        modes.find_modes_in_space(np.zeros((3, 4)), 1.0)


def test_third_derivatives_stay_below_their_bound():
    rng = np.random.default_rng(5)
    u, v = rng.normal(size=(20_000, 3)) * 3, rng.normal(size=(20_000, 3))
    along = np.sum(u * v, axis=1) / np.linalg.norm(v, axis=1)
    along[::2] = np.linalg.norm(u[::2], axis=1)  # the worst direction beyond two bandwidths
    third = np.abs(along**3 - 3 * along) * np.exp(-np.sum(u**2, axis=1) / 2)
    bound = _third(np.linalg.norm(u, axis=1))
    assert np.all(third <= bound * (1 + 1e-12))
    assert np.max(third) > 1.3  # the bound is reached


def test_a_flat_top_is_not_proved():
    """Two samples two bandwidths apart: the curvature between them is zero, and no proof can be had."""
    at = 1.0 - 1e-9
    found = modes.find_modes_in_space([[-at, 0.0], [at, 0.0]], 1.0)
    assert found.proved == 0
    assert modes.find_modes_in_space([[-0.9, 0.0], [0.9, 0.0]], 1.0).proved == 1
