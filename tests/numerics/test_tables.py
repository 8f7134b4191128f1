"""Backward equations, Chebyshev matrices, overlaps and unit vectors."""

import numpy as np
import pytest

from sphereflow.numerics import backward, chebyshev, overlaps, unit_vectors
from sphereflow.random_transformers.low_temperature import limit_moment
from sphereflow.saving import csv_bytes


def test_backward_equation_of_an_ornstein_uhlenbeck_process():
    """dz = -z dt + sqrt(2) dB from z0: E z^2 = 1 + (z0^2 - 1) e^{-2t}."""
    found = []
    for cells in (200, 400):
        z = np.linspace(-9, 9, cells + 1)
        bands = backward.generator(-z, np.full_like(z, 2.0), z[1] - z[0])
        f = backward.advance(bands, backward.cell_means(np.square, z), 0.7, 40)
        found.append(backward.read_between(z, f, 0.35))
    assert (4 * found[1] - found[0]) / 3 == pytest.approx(1 + (0.35**2 - 1) * np.exp(-1.4), abs=2e-7)


def test_the_moment_of_a_brownian_motion_is_exact():
    assert limit_moment(1.0, 2.0, cells=400) == pytest.approx(2.0, abs=1e-8)


def test_chebyshev_points_differentiate_and_interpolate():
    x, derivative = chebyshev.chebyshev(24)
    np.testing.assert_allclose(derivative @ np.exp(x), np.exp(x), atol=1e-11)
    at = np.array([-1.0, -0.3, 0.123, x[5]])
    np.testing.assert_allclose(chebyshev.interpolation(x, at) @ np.sin(3 * x), np.sin(3 * at), atol=1e-13)
    moved = 2 + 3 * x  # of any interval
    np.testing.assert_allclose(chebyshev.interpolation(moved, 2 + 3 * at) @ moved**3, (2 + 3 * at) ** 3, rtol=1e-12)


def test_overlap_of_a_shared_and_of_an_independent_field():
    """One field for both, S = P: overlaps of 1 rest. Fields of their own, S = 0: E r decays at the rate (d - 1) P."""
    assert overlaps.overlap_drift(1.0, 2.0, 2.0, 5) == overlaps.overlap_variance(1.0, 2.0, 2.0) == 0
    assert overlaps.overlap_drift(0.5, 0.0, 2.0, 5) == pytest.approx(-4 * 2.0 * 0.5)


@pytest.mark.parametrize("d", [2, 3, 7])
def test_frames_are_orthonormal_and_tangent(d):
    x = unit_vectors.unit(np.random.default_rng(d).normal(size=(20, d)))
    x[0] = -np.eye(d)[0]
    full = np.concatenate([x[:, :, None], unit_vectors.tangent_frames(x)], axis=2)
    np.testing.assert_allclose(np.swapaxes(full, 1, 2) @ full, np.broadcast_to(np.eye(d), (20, d, d)), atol=1e-14)


def test_angles_near_zero_and_near_pi():
    x, turn = np.array([1.0, 0.0]), 1e-9
    y = np.array([np.cos(turn), np.sin(turn)])
    assert unit_vectors.angles(x, y) == pytest.approx(turn, rel=1e-12)
    assert np.pi - unit_vectors.angles(x, -y) == pytest.approx(turn, rel=1e-6)


def test_a_table_as_text():
    text = csv_bytes(("a", "b"), [(1, "x,y"), (0.1, None)], {"beta": 2.0})
    assert text == b'# beta: 2.0\na,b\n1,"x,y"\n0.1,\n'


def test_unit_vectors_of_huge_ones():
    x = np.array([[3.0, 4.0], [3e300, 4e300], [-1.7e308, 0.0]])
    np.testing.assert_allclose(unit_vectors.unit(x), [[0.6, 0.8], [0.6, 0.8], [-1.0, 0.0]], rtol=1e-15)
