"""Bracketed Newton steps, panels, and Gauss rules of laws."""

import numpy as np
import pytest
from scipy import special

from sphereflow.numerics.quadrature import interval, jacobi, panels
from sphereflow.numerics.roots import increasing_roots


def test_roots_where_newton_alone_fails():
    """atan sends Newton's method to infinity from afar, a cube root for ever to and fro; the bracket holds both."""
    asked = []

    def evaluate(x, rows):
        asked.append(len(rows))
        y = x - np.array([0.3, 0.3, -2.0])[rows]
        value = np.where(rows == 1, np.cbrt(y), np.arctan(y))
        return value, np.where(rows == 1, 3 * y, value * (1 + y**2)), 1e-14

    roots = increasing_roots(evaluate, np.full(3, -50.0), np.array([70.0, 70.0, 40.0]))
    np.testing.assert_allclose(roots, [0.3, 0.3, -2.0], atol=1e-13)
    assert asked[0] == 3
    assert asked[-1] < 3  # settled rows are left alone


def test_a_step_that_is_no_number_is_halved_instead():
    roots = increasing_roots(lambda x, rows: (x - 0.7, np.full_like(x, np.nan), 1e-12), np.zeros(1), np.ones(1))
    assert roots[0] == pytest.approx(0.7, abs=1e-12)


def test_panels_of_a_batch_of_edges():
    edges = np.array([[0.0, 1.0, 3.0], [-1.0, 0.0, 0.5]])
    x, w = panels(edges, 5)
    assert x.shape == w.shape == (2, 2, 5)
    np.testing.assert_allclose(np.sum(w * x**9, axis=(1, 2)), (edges[:, -1] ** 10 - edges[:, 0] ** 10) / 10)
    x, w = interval(2, 1, 5)  # backwards
    assert np.sum(w * x**2) == pytest.approx(-7 / 3)


@pytest.mark.parametrize(("a", "b"), [(0.0, 0.0), (1.5, 3.0), (-0.5, -0.5), (500.0, 500.0)])
def test_jacobi_rule_has_the_moments_of_the_beta_law(a, b):
    x, w = jacobi(6, a, b)
    k = np.arange(11)
    moments = np.exp(special.betaln(b + 1 + k, a + 1) - special.betaln(b + 1, a + 1))
    np.testing.assert_allclose(w @ ((1 + x[:, None]) / 2) ** k, moments, rtol=1e-11)
