"""Hulls of shapes whose volume, support function and vertices are known."""

import numpy as np
import pytest

from sphereflow import SphereflowError
from sphereflow.observables import hull_vertices, hull_volume, in_open_hemisphere, polytope_residual, support_function

CUBE = np.array(np.meshgrid(*[[-1.0, 1.0]] * 3)).reshape(3, -1).T


def test_volumes_of_known_bodies():
    inside = 0.3 * CUBE
    assert hull_volume(np.concatenate([CUBE, inside])) == pytest.approx(8.0)
    assert hull_volume(CUBE[CUBE[:, 2] > 0]) == 0.0  # flat
    angle = np.linspace(0, 2 * np.pi, 6, endpoint=False)
    assert hull_volume(np.stack([np.cos(angle), np.sin(angle)], axis=1)) == pytest.approx(1.5 * np.sqrt(3))
    assert hull_volume(np.array([[-1.0], [0.2], [3.0]])) == 4.0
    assert hull_volume(np.array([[1.0, 2.0]])) == 0.0


def test_vertices_are_the_corners_in_every_dimension():
    np.testing.assert_array_equal(hull_vertices(np.concatenate([0.5 * CUBE, CUBE])), np.arange(8, 16))
    np.testing.assert_array_equal(hull_vertices(np.array([[0.0], [2.0], [-1.0], [1.0]])), [1, 2])


def test_flat_clouds_have_the_vertices_of_their_flat_hull():
    square = CUBE[CUBE[:, 2] > 0]
    np.testing.assert_array_equal(
        hull_vertices(np.concatenate([square, 0.5 * square[:, :] + [0, 0, 0.5]])), np.arange(4)
    )
    np.testing.assert_array_equal(hull_vertices(np.array([[0.0, 0.0], [1.0, 1.0], [3.0, 3.0]])), [0, 2])
    np.testing.assert_array_equal(hull_vertices(np.ones((3, 2))), [0])


def test_support_function_of_the_cube_is_the_one_norm():
    directions = np.random.default_rng(0).normal(size=(10, 3))
    np.testing.assert_allclose(support_function(CUBE, directions), np.abs(directions).sum(axis=1))
    assert support_function(np.stack([CUBE, 2 * CUBE]), directions).shape == (2, 10)


def test_residual_vanishes_at_corners_feet_and_origin_only():
    square = np.array([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]])
    others = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, 0.0], [1.0, 0.5]])  # origin, foot, inside, on a face off its foot
    residual = polytope_residual(np.concatenate([square, others]))
    np.testing.assert_allclose(residual, [0, 0, 0, 0, 0, 0, 0.25, 0.25])


def test_residual_uses_the_metric_of_the_form():
    form = np.diag([4.0, 0.25])
    z = np.random.default_rng(2).normal(size=(9, 2))
    np.testing.assert_allclose(polytope_residual(z, form), polytope_residual(z @ np.diag([2.0, 0.5])))


def test_hemispheres():
    assert in_open_hemisphere(np.array([[1.0, 0.1], [1.0, -0.1]]))
    assert not in_open_hemisphere(np.array([[1.0, 0.0], [-1.0, 0.0]]))
    assert not in_open_hemisphere(CUBE)


@pytest.mark.parametrize("measure", [in_open_hemisphere, hull_vertices, hull_volume, polytope_residual])
@pytest.mark.parametrize("cloud", [np.zeros((0, 3)), np.full((4, 3), np.nan), np.zeros((2, 0))], ids=str)
def test_no_tokens_and_no_numbers_are_refused(measure, cloud):
    """Non-negative least squares of no unknowns ended the whole process."""
    with pytest.raises(SphereflowError, match=r"at least one token|tokens must be finite"):
        measure(cloud)
