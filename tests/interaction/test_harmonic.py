"""Spherical harmonics on S^2 and polynomials in more dimensions, against pair-by-pair sums."""

import expansion_oracle as oracle
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from attention_oracle import unit
from expansions_by_name import expanded
from hypothesis import given
from hypothesis import strategies as st
from scipy import special

from sphereflow.interaction import attend
from sphereflow.interaction.harmonic import legendre_fourier

POLES = np.array([[0.0, 0.0, 1.0], [0.0, 0.0, -1.0], [1e-9, 0.0, 1.0], [0.0, 1e-200, -1.0]])


def harmonic(queries, keys, values, beta, *, weights=None, **options):
    weights = None if weights is None else jnp.asarray(weights)
    arrays = (jnp.asarray(x) for x in (queries, keys, values))
    return expanded("harmonic", *arrays, beta, weights=weights, **options)


def test_legendre_functions_as_fourier_series():
    table = legendre_fourier(12)
    theta = np.linspace(0, np.pi, 7)
    k = np.arange(13)
    for order, m in ((0, 0), (5, 0), (6, 1), (9, 4), (12, 7), (12, 12)):
        wave = np.cos(k[:, None] * theta) if m % 2 == 0 else np.sin(k[:, None] * theta)
        # the square of the modulus of Y_lm has no sign convention, so compare up to one sign
        exact = np.sqrt(4 * np.pi) * special.sph_harm_y(order, m, theta, 0.0).real
        found = table[m, order] @ wave
        sign = np.sign(found[2] * exact[2])
        np.testing.assert_allclose(found, sign * exact, atol=1e-13)


@pytest.mark.fast_cases("True")
@pytest.mark.parametrize("nufft", [False, True])
@given(
    seed=st.integers(0, 2**31),
    beta=st.sampled_from([0.0, 0.3, 7.0, 25.0, 80.0, 1e5]),
    spread=st.sampled_from([0.0, 1e-9, 0.05, 10.0]),
    tol=st.sampled_from([1e-5, 1e-9]),
    cross=st.booleans(),
)
def test_tolerance_is_a_promise(nufft, seed, beta, spread, tol, cross):
    rng = np.random.default_rng(seed)
    n = 100
    keys = unit(rng, 3, 3)[rng.integers(0, 3, n)] + spread * rng.normal(size=(n, 3))
    keys[:20] *= -1
    keys = keys / np.linalg.norm(keys, axis=1, keepdims=True)
    keys[-4:] = POLES
    queries = unit(rng, n, 3) if cross else keys
    values, weights = rng.normal(size=(n, 2)), rng.exponential(size=n)
    found = harmonic(queries, keys, values, beta, weights=weights, tol=tol, modes=42, nufft=nufft)
    slack = tol + beta * 4e-16
    expected = oracle.attention(queries, keys, values, beta, weights)
    of_average, of_z = oracle.worst_errors(found.attended, *expected, values)
    assert of_average <= slack
    assert of_z <= slack


def test_modes_are_chosen_for_isolated_tokens():
    rng = np.random.default_rng(1)
    cluster = np.array([0.6, 0.0, 0.8]) + 0.05 * rng.normal(size=(400, 3))
    x = np.concatenate([cluster, [[0, 1.0, 0], [-1.0, 0, 0]]])
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    found = harmonic(x, x, x, 20.0, tol=1e-9)
    errors = oracle.worst_errors(found.attended, *oracle.attention(x, x, x, 20.0), x)
    assert max(errors) < 1e-9
    assert int(found.recomputed) == 0
    assert float(found.error_bound) < 1e-9


@pytest.mark.slow
def test_derivatives_also_at_the_poles():
    rng = np.random.default_rng(2)
    x = jnp.asarray(np.concatenate([POLES[:2], unit(rng, 40, 3)]))
    values = jnp.asarray(rng.normal(size=(42, 2)))

    def through(engine):
        def score(x, v, b):
            found = engine(x, v, b)
            return jnp.sum(found.average**2) + jnp.sum(found.log_partition)

        return jax.jit(jax.grad(score, argnums=(0, 1, 2)))(x, values, jnp.asarray(4.0))

    fast = through(lambda x, v, b: harmonic(x, x, v, b, modes=25).attended)
    slow = through(lambda x, v, b: attend(x, x, v, b, method="direct"))
    for a, b in zip(fast, slow, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-11 * np.abs(np.asarray(b)).max())


@pytest.mark.fast_cases("4-1.0")
@pytest.mark.parametrize(("d", "beta"), [(4, 1.0), (7, 0.4)])
def test_polynomials_in_more_dimensions(d, beta):
    rng = np.random.default_rng(3)
    x = unit(rng, 150, d)
    x[:50] = x[0]
    found = expanded("polynomial", *(jnp.asarray(x),) * 3, beta, tol=1e-8)
    errors = oracle.worst_errors(found.attended, *oracle.attention(x, x, x, beta), x)
    assert max(errors) < 1e-8
    assert int(found.recomputed) == 0
