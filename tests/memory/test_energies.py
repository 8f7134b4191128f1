"""Energies, updates, flows and landscapes against NumPy and automatic differentiation."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import logsumexp, softmax

from sphereflow.errors import SphereflowError
from sphereflow.evolution import evolve
from sphereflow.memory import LSE, LSR, PolynomialEnergy, Retrieval, landscapes
from sphereflow.memory.noise import log_mean_noise
from sphereflow.memory.overlaps import log_tail
from sphereflow.memory.state import REFERENCE_B

N, M = 12, 30
PATTERNS = landscapes.random_patterns(N, M, 0)
X = landscapes.random_patterns(N, 5, 1) * np.array([[1.0], [0.5], [2.0], [1.0], [1.3]])


def test_values():
    g = ((X[:, None] - PATTERNS) ** 2).sum(axis=2) / 2
    np.testing.assert_allclose(LSE(0.3).energy(X, PATTERNS), -logsumexp(-0.3 * g, axis=1) / 0.3, rtol=1e-12)
    np.testing.assert_allclose(
        LSR(0.08, 1e-3).energy(X, PATTERNS), -np.log(1e-3 + np.maximum(1 - 0.08 * g, 0).sum(axis=1)) / 0.08, rtol=1e-12
    )
    np.testing.assert_allclose(
        PolynomialEnergy(3).energy(X, PATTERNS), -((X @ PATTERNS.T) ** 3).sum(axis=1) / N**2, rtol=1e-12
    )


@pytest.mark.parametrize("energy", [LSE(0.3), LSR(0.1, 1e-3), PolynomialEnergy(2), PolynomialEnergy(5)], ids=str)
def test_gradient_is_the_derivative(energy):
    derivative = jax.vmap(jax.grad(lambda x: energy.energy(x, PATTERNS)))(jnp.asarray(X))
    np.testing.assert_allclose(energy.gradient(X, PATTERNS), derivative, rtol=1e-9, atol=1e-12)


@given(seed=st.integers(0, 10_000), beta=st.floats(0.01, 3))
def test_update_never_raises_the_energy(seed, beta):
    """The concave-convex rule descends, for both kernels, in R^N."""
    x = landscapes.random_patterns(N, 4, seed) * 0.8
    for energy in (LSE(beta), LSR(beta / 4, 1e-6)):
        assert (
            np.asarray(energy.energy(energy.update(x, PATTERNS), PATTERNS) - energy.energy(x, PATTERNS)) <= 1e-9
        ).all()


def test_softmax_update_and_the_gradient_of_the_product_form():
    np.testing.assert_allclose(
        LSE(0.7).update(PATTERNS[:3], PATTERNS), softmax(0.7 * PATTERNS[:3] @ PATTERNS.T, axis=1) @ PATTERNS, rtol=1e-10
    )
    # Differentiating x.xi/N in place of the distance has the same tangential part and misses the pattern.
    energy = LSR.on_sphere(REFERENCE_B, N)
    x = jnp.asarray(landscapes.state_at(PATTERNS[0], np.array([0.9]), 3))
    eta = 1 - REFERENCE_B * 0.1
    alone = PATTERNS[:1]
    np.testing.assert_allclose(x - eta * energy.gradient(x, alone), alone, atol=1e-10)
    assert np.abs(np.asarray(x + alone) - alone).max() > 0.1


def test_infinite_energy_and_a_state_that_nothing_pulls():
    energy, lonely = LSR.on_sphere(REFERENCE_B, N), -PATTERNS[:1]
    assert np.isposinf(energy.energy(lonely, PATTERNS[:1])).all()
    np.testing.assert_array_equal(energy.update(lonely, PATTERNS[:1]), lonely)
    assert float(energy.gradient(lonely, PATTERNS[:1]).max()) == 0


@pytest.mark.fast_cases("LSE(beta=1.0)")
@pytest.mark.parametrize("energy", [LSE(1.0), PolynomialEnergy(12)], ids=str)
def test_gradient_flow_descends_to_the_pattern(energy):
    start = landscapes.state_at(PATTERNS[0], np.full(6, 0.8), 5) / np.sqrt(N)
    run = evolve(Retrieval(energy, jnp.asarray(PATTERNS[:4])), start, 30.0, saveat=12)
    assert (np.diff([float(run.model.energy(jnp.asarray(x))) for x in run.xs]) > -1e-9).all()
    assert (run.final @ PATTERNS[0] / np.sqrt(N) > 0.95).all()


@pytest.mark.slow
def test_cone_is_drawn_from_its_law():
    n, alpha, keep = 60, 0.2, 0.3
    cones = [landscapes.draw_cone(n, alpha, 1.0, keep, seed) for seed in range(60)]
    counts = np.array([cone.patterns.shape[0] - 1 for cone in cones])
    expected = float(np.exp(alpha * n + log_tail(keep, n)))
    assert counts.mean() == pytest.approx(expected, abs=4 * np.sqrt(expected / 60))
    near = np.concatenate([np.asarray(c.patterns)[1:] @ np.asarray(c.patterns)[0] / n for c in cones])
    assert near.min() > keep
    beyond = float(np.exp(log_tail(0.4, n) - log_tail(keep, n)))
    assert np.mean(near > 0.4) == pytest.approx(beyond, abs=4 * np.sqrt(beyond / near.size))
    np.testing.assert_allclose(np.linalg.norm(cones[0].patterns, axis=1), np.sqrt(n), rtol=1e-10)


def test_cone_and_bulk_energies_at_the_target():
    """Far below capacity the energy at the target is that of the target alone; the noise is what R1 says."""
    cone = landscapes.draw_cone(40, 0.2, 1.0, 0.5, 0)
    assert float(cone(cone.target)) == pytest.approx(0, abs=0.01)
    assert landscapes.log_rest(40, 0.2, 1.0, 0.999) == pytest.approx(log_mean_noise(40, 0.2, 1.0), abs=1e-9)
    with pytest.raises(SphereflowError, match="raise keep"):
        landscapes.draw_cone(200, 0.6, 1.0, 0.1)


def test_states_have_the_overlap_asked_for_even_with_the_seed_of_the_pattern():
    target = landscapes.random_patterns(30, 1, 0)[0]
    phi = np.array([0.1, 0.5, 0.99])
    np.testing.assert_allclose(landscapes.state_at(target, phi, 0) @ target / 30, phi, atol=1e-12)
