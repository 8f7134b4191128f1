"""The field of weighted atoms against tokens written out, and gluing."""

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sphereflow.metastability.atoms import close_pairs, normalised_energy, scaled_field
from sphereflow.metastability.modes import linearisation, slow_modes


def _points(seed, k, d):
    x = np.random.default_rng(seed).normal(size=(k, d))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


@given(seed=st.integers(0, 10**6), k=st.integers(2, 7), d=st.integers(2, 5), beta=st.floats(0, 30))
def test_atoms_move_as_the_tokens_they_stand_for(seed, k, d, beta):
    rng = np.random.default_rng(seed)
    x = _points(seed, k, d)
    copies = rng.integers(1, 4, size=k)
    tokens = np.repeat(x, copies, axis=0)
    weights = np.exp(beta * (tokens @ tokens.T - 1))
    for kind in ("sa", "usa"):
        pull = weights @ tokens / (weights.sum(axis=1, keepdims=True) if kind == "sa" else len(tokens))
        velocity = pull - np.sum(pull * tokens, axis=1, keepdims=True) * tokens
        field = scaled_field(x, copies / copies.sum(), beta, kind)
        expected = velocity[np.cumsum(copies) - 1]
        np.testing.assert_allclose(np.exp(field.scale) * field.velocity, expected, atol=1e-13)
    assert math.isclose(normalised_energy(x, copies / copies.sum(), beta), weights.mean(), rel_tol=1e-12)


def test_speeds_below_the_smallest_double_keep_their_logarithm():
    x = np.array([[1.0, 0.0], [math.cos(2.0), math.sin(2.0)]])
    field = scaled_field(x, np.array([0.5, 0.5]), 4000.0, "usa")
    assert math.isclose(field.log_speed, 4000 * (math.cos(2.0) - 1) + math.log(0.5 * math.sin(2.0) * math.sqrt(2)))


def test_a_regular_polygon_is_balanced():
    theta = 2 * np.pi * np.arange(5) / 5
    x = np.stack([np.cos(theta), np.sin(theta)], axis=1)
    assert scaled_field(x, np.full(5, 0.2), 9.0, "sa").balanced
    assert not scaled_field(x, np.array([0.2, 0.2, 0.2, 0.1, 0.3]), 9.0, "sa").balanced


def test_close_pairs_of_a_crowd_connect_what_all_pairs_connect():
    x = np.concatenate([_points(0, 1, 3) + 1e-4 * _points(1, 30, 3), _points(2, 1, 3) + 1e-4 * _points(3, 20, 3)])
    pairs = close_pairs(x, 1e-3)
    assert len(pairs) == 29 + 19
    assert all(i < j for _, i, j in pairs)


@given(seed=st.integers(0, 10**6), k=st.integers(2, 5), d=st.integers(2, 4), kind=st.sampled_from(["sa", "usa"]))
def test_the_linearisation_is_the_derivative_of_the_field(seed, k, d, kind):
    x = _points(seed, k, d)
    masses = np.random.default_rng(seed).dirichlet(np.ones(k))
    beta, step = 3.0, 1e-6
    scale, matrix = linearisation(x, masses, beta, kind)
    from sphereflow.numerics.unit_vectors import tangent_frames

    frames = tangent_frames(x)
    numeric = np.empty((k * (d - 1), k * (d - 1)))
    for j in range(k):
        for b in range(d - 1):
            velocity = []
            for sign in (1, -1):
                moved = x.copy()
                moved[j] = math.cos(step) * x[j] + sign * math.sin(step) * frames[j, :, b]
                field = scaled_field(moved, masses, beta, kind)
                velocity.append(math.exp(field.scale) * field.velocity)
            difference = (velocity[0] - velocity[1]) / (2 * step)
            numeric[:, j * (d - 1) + b] = np.einsum("ida,id->ia", frames, difference).ravel()
    np.testing.assert_allclose(math.exp(scale) * matrix, numeric, atol=1e-7 * max(1, np.abs(numeric).max()))


def test_two_clusters_have_the_known_unstable_eigenvalue():
    u, beta = 1.2, 2000.0
    x = np.array([[1.0, 0.0], [math.cos(u), math.sin(u)]])
    modes = slow_modes(x, np.array([0.3, 0.2]), beta, "usa")
    expected = math.log(0.5 * (beta * math.sin(u) ** 2 - math.cos(u))) - beta * (1 - math.cos(u))
    assert modes.unstable == 1
    assert math.isclose(modes.log_lifetime, -expected, rel_tol=1e-12)
