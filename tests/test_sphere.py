"""Geometry of the sphere against closed forms and laws of probability."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special, stats

from sphereflow import sphere
from sphereflow.errors import SphereflowError

# A size is compiled once; what varies from example to example are the numbers.
SIZES = st.tuples(st.sampled_from([(1, 2), (5, 3), (4, 9)]), st.integers(0, 2**16))
exponential, distance, project = jax.jit(sphere.exponential), jax.jit(sphere.distance), jax.jit(sphere.project)


def draw_pair(size):
    """Points of the sphere, and vectors of any direction and length."""
    (n, d), seed = size
    x, v = np.random.default_rng(seed).normal(size=(2, n, d))
    return x / np.linalg.norm(x, axis=1, keepdims=True), v


@given(SIZES)
def test_projection_is_tangent_and_idempotent(size):
    x, v = draw_pair(size)
    tangent = np.asarray(project(x, v))
    np.testing.assert_allclose(np.sum(x * tangent, axis=1), 0, atol=1e-14)
    np.testing.assert_allclose(project(x, tangent), tangent, atol=1e-14)
    along = v - tangent
    np.testing.assert_allclose(along, np.sum(along * x, axis=1, keepdims=True) * x, atol=1e-14)


@given(SIZES, st.floats(0, 3.1))
def test_exponential_map_travels_the_length_of_its_vector(size, length):
    x, v = draw_pair(size)
    v = v - np.sum(x * v, axis=1, keepdims=True) * x
    v = length * v / np.linalg.norm(v, axis=1, keepdims=True)
    y = exponential(x, v)
    np.testing.assert_allclose(distance(x, y), length, atol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(y, axis=1), 1, atol=1e-15)


def test_distance_keeps_its_digits_near_zero_and_near_the_antipode():
    x = jnp.array([1.0, 0.0, 0.0])
    for angle in (1e-12, 1e-6, 1.0):
        y = jnp.array([np.cos(angle), np.sin(angle), 0.0])
        assert float(sphere.distance(x, y)) == pytest.approx(angle, rel=1e-12)
        assert float(sphere.distance(x, -y)) == pytest.approx(np.pi - angle, abs=1e-15)
        assert float(sphere.gap(x, y)) == pytest.approx(2 * np.sin(angle / 2) ** 2, rel=1e-9)


@pytest.mark.parametrize("d", [2, 3, 8])
def test_uniform_draw_has_the_uniform_law_of_heights(d):
    height = np.asarray(sphere.draw("uniform", 20_000, d, seed=3))[:, 0]
    beta = stats.beta((d - 1) / 2, (d - 1) / 2)
    assert stats.kstest((height + 1) / 2, beta.cdf).pvalue > 1e-3
    cube = np.random.default_rng(0).uniform(-1, 1, (20_000, d))  # the classic mistake must be visible to this test
    wrong = cube[:, 0] / np.linalg.norm(cube, axis=1)
    assert stats.kstest((wrong + 1) / 2, beta.cdf).pvalue < 1e-3


@pytest.mark.parametrize(("d", "kappa"), [(2, 5.0), (3, 0.7), (3, 40.0), (16, 30.0)])
def test_von_mises_fisher_mean_is_a_ratio_of_bessel_functions(d, kappa):
    centre = jnp.eye(1, d, d - 1)[0]
    x = sphere.von_mises_fisher(jax.random.key(5), 40_000, centre, kappa)
    height = np.asarray(x @ centre)
    expected = special.ive(d / 2, kappa) / special.ive(d / 2 - 1, kappa)
    assert abs(height.mean() - expected) < 4 * height.std() / np.sqrt(len(height))
    across = np.asarray(x)[:, 0]
    assert abs(across.mean()) < 4 * across.std() / np.sqrt(len(across))


def test_orthogonal_and_equiangular_frames():
    frame = np.asarray(sphere.draw("orthogonal", 5, 8, seed=1))
    np.testing.assert_allclose(frame @ frame.T, np.eye(5), atol=1e-14)
    for inner in (-0.25, 0.0, 0.4, 0.999):
        frame = np.asarray(sphere.equiangular_frame(5, 7, inner))
        np.testing.assert_allclose(frame @ frame.T, (1 - inner) * np.eye(5) + inner, atol=1e-14)


def test_fibonacci_points_integrate_low_degree_polynomials():
    x = np.asarray(sphere.fibonacci(2000))
    np.testing.assert_allclose(x.mean(axis=0), 0, atol=1e-3)
    np.testing.assert_allclose(x.T @ x / len(x), np.eye(3) / 3, atol=1e-3)


def test_angles_and_points_are_inverse():
    theta = jnp.linspace(-3.1, 3.1, 40)
    np.testing.assert_allclose(sphere.to_angles(sphere.from_angles(theta)), theta, atol=1e-15)


def test_mixture_has_the_asked_number_of_clouds():
    x = np.asarray(sphere.gaussian_mixture(jax.random.key(0), 300, 16, components=4, spread=0.01))
    assert len(np.unique(np.round(x[:, :3], 1), axis=0)) >= 4
    assert np.linalg.svd(x, compute_uv=False)[4] < 1.0  # four directions carry nearly everything


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("cube", 4, 3), "start must be one of"),
        (("uniform", -4, 3), "n must be a whole number of at least 1, got -4"),
        (("uniform", 4, 0), "d must be"),
        (("orthogonal", 4, 3), "needs n <= d"),
        (("fibonacci", 4, 5), "exists for d=3 only"),
        (("grid", 4, 3), "exists for d=2 only"),
        (("uniform", 4, 3, -1), "seed must be"),
    ],
)
def test_bad_requests_get_one_sentence(arguments, sentence):
    with pytest.raises(SphereflowError, match=sentence):
        sphere.draw(*arguments)


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        (np.full((3, 2), np.nan), "must be finite, but 6 entries are not"),
        (np.ones(3), "must have shape"),
        (np.ones((0, 3)), "must have shape"),
        (np.ones((4, 3)), "unit vectors, but a norm differs from 1 by 7.3e-01"),
        ([["a"]], "array of numbers"),
    ],
)
def test_tokens_are_checked(value, sentence):
    with pytest.raises(SphereflowError, match=sentence):
        sphere.tokens(value)


def test_same_seed_same_tokens():
    for start in ("uniform", "vmf", "mixture"):
        once, again, other = (np.asarray(sphere.draw(start, 5, 3, seed)) for seed in (7, 7, 8))
        np.testing.assert_array_equal(once, again)
        assert not np.array_equal(once, other)
