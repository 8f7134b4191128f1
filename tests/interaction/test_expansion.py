"""Coefficients and truncation of the kernel, against tables, closed forms, quadrature and many digits."""

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
from scipy import special

from sphereflow.interaction.circle import CircleModes
from sphereflow.interaction.expansion import (
    circle_coefficients,
    circle_modes,
    circle_modes_bound,
    circle_tail,
    sphere_coefficients,
    sphere_degree,
    sphere_tail,
    zonal_coefficients,
    zonal_degree,
)
from sphereflow.interaction.harmonic import SphereModes
from sphereflow.interaction.modes import evaluate_all, project_all
from sphereflow.interaction.polynomial import Monomials
from sphereflow.sphere import draw

# beta: (smallest K, K of the formula) at errors 1e-4, 1e-8, 1e-12, 1e-15
CIRCLE = {
    0.1: ((2, 4), (4, 6), (6, 8), (8, 9)),
    1: ((5, 7), (8, 10), (11, 13), (13, 15)),
    10: ((13, 16), (20, 22), (26, 28), (29, 32)),
    100: ((39, 45), (58, 63), (73, 77), (82, 87)),
    1000: ((123, 141), (181, 196), (226, 239), (254, 267)),
    10000: ((389, 446), (573, 619), (713, 753), (803, 840)),
}

# (d, beta): smallest degree at errors 1e-4, 1e-8, 1e-12
ZONAL = {
    (3, 10): (14, 21, 26),
    (3, 100): (43, 61, 75),
    (3, 1000): (135, 192, 235),
    (4, 10): (15, 21, 27),
    (8, 100): (52, 70, 84),
    (16, 1000): (204, 255, 294),
    (64, 10): (21, 29, 35),
    (64, 1000): (309, 357, 394),
}


@pytest.mark.parametrize("beta", CIRCLE)
def test_number_of_circle_modes(beta):
    errors = (1e-4, 1e-8, 1e-12, 1e-15)
    assert tuple((circle_modes(beta, e), circle_modes_bound(beta, e)) for e in errors) == CIRCLE[beta]


@pytest.mark.parametrize(("d", "beta"), ZONAL)
def test_degree_in_any_dimension(d, beta):
    assert tuple(zonal_degree(d, beta, e) for e in (1e-4, 1e-8, 1e-12)) == ZONAL[d, beta]


def test_degree_on_the_sphere_is_the_zonal_one():
    for beta in (0.5, 10, 300):
        assert sphere_degree(beta, 1e-8) == zonal_degree(3, beta, 1e-8)


@pytest.mark.parametrize("beta", [0.01, 1.0, 10.0, 1e3, 1e6])
def test_circle_coefficients_are_scaled_bessel_functions(beta):
    modes = circle_modes(beta, 1e-17)
    found = np.asarray(circle_coefficients(modes, jnp.asarray(beta)))
    exact = special.ive(np.arange(modes + 1), beta)
    np.testing.assert_allclose(found, exact, rtol=1e-11, atol=1e-300)
    assert abs(found[0] + 2 * found[1:].sum() - 1) < 1e-14


def test_zero_temperature_limit_has_one_coefficient():
    np.testing.assert_array_equal(circle_coefficients(3, jnp.asarray(0.0)), [1, 0, 0, 0])
    np.testing.assert_array_equal(sphere_coefficients(3, jnp.asarray(0.0)), [1, 0, 0, 0])
    np.testing.assert_array_equal(zonal_coefficients(5, 0.0, 3), [1, 0, 0, 0])


@pytest.mark.parametrize("beta", [0.1, 5.0, 100.0, 1e4])
def test_circle_tail_is_a_bound(beta):
    for modes in (1, 5, 40, 300):
        exact = 2 * special.ive(np.arange(modes + 1, modes + 2000), beta)[::-1].sum()
        assert exact <= float(circle_tail(modes, jnp.asarray(beta))) * (1 + 1e-12)


@pytest.mark.fast_cases("25.0-33", "4.0-10")
@pytest.mark.parametrize(("beta", "degree"), [(25.0, 23), (25.0, 33), (25.0, 41), (4.0, 10), (4.0, 18)])
def test_sphere_tail_in_closed_form(beta, degree):
    orders = np.arange(degree + 1, degree + 400)
    exact = ((2 * orders + 1) * np.sqrt(np.pi / (2 * beta)) * special.ive(orders + 0.5, beta))[::-1].sum()
    tail = float(sphere_tail(degree, jnp.asarray(beta)))
    assert abs(tail - exact) < 1e-14
    assert tail == pytest.approx(exact, rel=1e-9)


@pytest.mark.parametrize("d", [3, 4, 8, 16, 64, 512])
@pytest.mark.parametrize("beta", [0.001, 0.1, 10.0, 1000.0])
def test_first_zonal_coefficient(d, beta):
    exact = mpmath.exp(-beta) * mpmath.hyp0f1(mpmath.mpf(d) / 2, mpmath.mpf(beta) ** 2 / 4)
    assert zonal_coefficients(d, beta, 0)[0] == pytest.approx(float(exact), rel=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize(
    "expansion", [CircleModes(12), SphereModes(9), Monomials(6, 4)], ids=lambda e: type(e).__name__
)
def test_long_chunks_of_an_accelerator_give_the_same_sums(expansion, monkeypatch):
    """An accelerator takes many tokens at once, in runs that are added up together."""
    d = {CircleModes: 2, SphereModes: 3, Monomials: 4}[type(expansion)]
    x = np.asarray(draw("uniform", 3000, d, seed=1))
    columns = np.concatenate([x, np.ones((3000, 1))], axis=1)
    beta = jnp.asarray(2.0)

    def sums():
        moments = expansion.weigh(
            project_all(expansion, jnp.asarray(x), jnp.asarray(columns)), expansion.coefficients(beta)
        )
        return np.asarray(evaluate_all(expansion, jnp.asarray(x), moments, beta, d + 1))

    short = sums()
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert expansion.chunk(d + 1) >= 3000
    np.testing.assert_allclose(sums(), short, rtol=1e-12, atol=1e-9)
