"""Normalisation schemes against their scalar reduction for equiangular tokens."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

from sphereflow import LayerNormAttention, SphereflowError, evolve
from sphereflow.sphere import equiangular_frame


def reduced(scheme, n, beta, t1, tau=1.0, alpha=1.0):
    """(rho, r) at t1 from rho=0, r=1: the equiangular reduction, solved by SciPy."""

    def rate(t, state):
        rho, r = state
        e = np.exp(beta * (1 - rho))
        w2 = 1 / (e + n - 1)
        w1 = e * w2
        ra = w1 + (n - 1) * w2 * rho
        na = np.sqrt(w1**2 + 2 * w1 * w2 * (n - 1) * rho + w2**2 * ((n - 1) + (n - 1) * (n - 2) * rho))
        s, dr = {
            "post": (1, 0),
            "pre": (r, ra),
            "mix": (1, 0) if t < tau else (r, ra),
            "peri": (r * na, ra / na),
            "ngpt": (na / alpha, 0),
            "sqrt": (np.sqrt(t + 1), 0),
            "ln-scaling": (r * np.sqrt(t + 1), ra / np.sqrt(t + 1)),
        }[scheme]
        return [2 * w2 / s * (1 - rho) * ((n - 1) * rho + 1), dr]

    state = [0.0, 1.0]
    for a, b in [(0, tau), (tau, t1)] if scheme == "mix" else [(0, t1)]:
        state = solve_ivp(rate, (a, b), state, rtol=1e-12, atol=1e-13, method="DOP853").y[:, -1]
    return state


@pytest.mark.fast_cases("mix")
@pytest.mark.parametrize("scheme", ["post", "pre", "mix", "peri", "ngpt", "sqrt", "ln-scaling"])
def test_particles_follow_the_reduction(scheme):
    model = LayerNormAttention(2.0, scheme, tau=1.5, alpha=0.7)
    x = evolve(model, equiangular_frame(10, 10, 0.0), 8.0, saveat=2, tol=1e-11).final
    r = np.linalg.norm(x, axis=1)
    theta = x / r[:, None]
    rho, radius = reduced(scheme, 10, 2.0, 8.0, tau=1.5, alpha=0.7)
    np.testing.assert_allclose((theta @ theta.T)[np.triu_indices(10, 1)], rho, atol=2e-9)
    np.testing.assert_allclose(r, radius, rtol=2e-9)


# rho(8), r(8) for n=10, beta=2, alpha=1, from the specification of the schemes
REFERENCE = {
    "post": (0.9999964305, 1.0),
    "pre": (0.9326483138, 6.8133594),
    "peri": (0.9546799224, 8.3263991),
    "ngpt": (0.9999993814, 1.0),
    "sqrt": (0.9894825948, 1.0),
    "ln-scaling": (0.7282544768, 3.2949890),
}


@pytest.mark.fast_cases("pre")
@pytest.mark.parametrize("scheme", REFERENCE)
def test_reference_values(scheme):
    x = evolve(LayerNormAttention(2.0, scheme), equiangular_frame(10, 10, 0.0), 8.0, saveat=2, tol=1e-11).final
    r = np.linalg.norm(x, axis=1)
    rho = (x[0] @ x[1]) / (r[0] * r[1])
    assert (rho, r[0]) == (pytest.approx(REFERENCE[scheme][0], abs=1e-8), pytest.approx(REFERENCE[scheme][1], abs=1e-7))


@pytest.mark.slow
def test_a_step_that_varies_in_time_counts_by_its_integral():
    constant = LayerNormAttention(1.0, "ngpt", alpha=1.0)
    varying = LayerNormAttention(1.0, "ngpt", alpha=lambda t: 1 / (1 + t))
    start = equiangular_frame(6, 6, 0.3)
    late = evolve(varying, start, np.exp(1.5) - 1, saveat=2, tol=1e-11).final
    np.testing.assert_allclose(late, evolve(constant, start, 1.5, saveat=2, tol=1e-11).final, atol=1e-9)


def test_unknown_scheme():
    with pytest.raises(SphereflowError, match="scheme must be one of post, pre"):
        LayerNormAttention(1.0, "rms")


def test_mix_announces_its_jump():
    assert LayerNormAttention(1.0, "mix", tau=2.0).traits.jump_times == jnp.array([2.0])
