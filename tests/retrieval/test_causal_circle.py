"""The causal dynamics on the circle against plain sums, in time linear in the number of tokens, causal to the bit."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sphereflow as sf
from sphereflow.retrieval import AnyKernel, CausalCircle, Exponentials, alibi, decoder, flow, on_circle
from sphereflow.retrieval.circle import force_modes

# One program for a kind of weights, a size and a number of modes; outside of `jit` every operation is compiled alone.
field = eqx.filter_jit(lambda model, x: model.field(jnp.zeros(()), jnp.asarray(x)))


def plain(theta, beta, p, normalise, length=None):
    """The double loop: token j is drawn to every k < j."""
    n = len(theta)
    moved = np.zeros_like(theta)
    for j in range(1, n):
        past = np.arange(j)
        weight = p((j - past) / (length or n))[:, None]
        angle = theta[j] - theta[past]
        kernel = weight * np.exp(beta * np.cos(angle))
        if normalise == "mean":
            moved[j] = np.sum(-beta * np.sin(angle) * kernel, axis=0) / weight.sum()
        else:
            moved[j] = np.sum(-np.sin(angle) * kernel, axis=0) / kernel.sum(axis=0)
    return moved


def angles(n, samples, seed=0):
    return np.random.default_rng(seed).uniform(-7, 7, (n, samples))


WEIGHTS = {
    "alibi": (alibi(1.0), lambda s: np.exp(-s)),
    "flat": (alibi(0.0), np.ones_like),
    "growing": (alibi(-2.0), lambda s: np.exp(2 * s)),
    "two exponentials": (Exponentials([0.3, 2.0], [1.0, 9.0]), lambda s: 0.3 * np.exp(-s) + 2 * np.exp(-9 * s)),
    "power": (AnyKernel(lambda s: 1 / (1 + 5 * s)), lambda s: 1 / (1 + 5 * s)),
}


@pytest.mark.fast_cases("two exponentials-softmax", "alibi-mean")
@pytest.mark.parametrize("normalise", ["mean", "softmax"])
@pytest.mark.parametrize("name", list(WEIGHTS))
def test_force_is_the_plain_sum(name, normalise):
    weights, p = WEIGHTS[name]
    theta = angles(20, 3)
    for beta in (0.5, 1.0, 3.0):
        found = field(CausalCircle(beta, weights, normalise, modes=force_modes(3.0)), theta)
        exact = plain(theta, beta, p, normalise)
        np.testing.assert_allclose(found, exact, atol=1e-11 * max(1, np.abs(exact).max()))


def test_twelve_modes_are_enough_at_beta_one():
    theta = angles(20, 2)
    found = field(CausalCircle(1.0, 1.0, modes=12), theta)
    assert np.abs(found - plain(theta, 1.0, lambda s: np.exp(-s), "mean")).max() < 5e-12


@pytest.mark.slow
@given(beta=st.floats(0.0, 40.0), slope=st.floats(-3.0, 8.0), seed=st.integers(0, 1000))
def test_force_at_any_temperature(beta, slope, seed):
    theta = angles(12, 1, seed)
    found = field(CausalCircle(beta, slope, modes=force_modes(40.0)), theta)
    exact = plain(theta, beta, lambda s: np.exp(-slope * s), "mean")
    assert np.abs(found - exact).max() <= 1e-11 * max(1.0, beta * np.exp(beta))


def test_softmax_without_temperature_is_the_mean_of_sines():
    theta = angles(9, 2)
    found = field(CausalCircle(0.0, 0.0, "softmax"), theta)
    np.testing.assert_allclose(found, plain(theta, 0.0, np.ones_like, "softmax"), atol=1e-14)


@pytest.mark.fast_cases("softmax")
@pytest.mark.parametrize("normalise", ["mean", "softmax"])
def test_the_direct_engine_on_the_circle_agrees(normalise):
    n, theta = 24, angles(24, 1)
    x = on_circle(theta[:, 0])
    moved = np.asarray(field(decoder(1.7, 2.0, n, 2, normalise), x))
    turning = moved[:, 1] * x[:, 0] - moved[:, 0] * x[:, 1]
    found = field(CausalCircle(1.7, 2.0, normalise), theta)
    np.testing.assert_allclose(turning, found[:, 0], atol=1e-12)


@pytest.mark.slow
def test_flow_agrees_with_the_adaptive_solver():
    theta = angles(16, 3)
    model = CausalCircle(1.0, 1.0)
    adaptive = sf.evolve(model, theta, 1.0, saveat=2, tol=1e-10).xs[-1]
    np.testing.assert_allclose(flow(model, theta, 1.0), adaptive, atol=2e-7)
    np.testing.assert_allclose(flow(model, theta, 1.0, dt=0.01), adaptive, atol=1e-9)


@pytest.mark.fast_cases("17-mean-recursion", "17-softmax-matrix")
@pytest.mark.parametrize("weights", [alibi(1.0), AnyKernel(lambda s: 1 / (1 + s))], ids=["recursion", "matrix"])
@pytest.mark.parametrize("normalise", ["mean", "softmax"])
@pytest.mark.parametrize("token", [0, 17, 38])
def test_causality_to_the_last_bit(weights, normalise, token):
    model = CausalCircle(1.0, weights, normalise, modes=13)
    theta = angles(40, 3)
    moved = theta.copy()
    moved[token] += 0.7
    before, after = (np.asarray(flow(model, x, 1.0)) for x in (theta, moved))
    np.testing.assert_array_equal(before[:token], after[:token])
    assert (np.abs(after - before)[token:] > 0).all()


@pytest.mark.slow
def test_later_tokens_change_nothing_once_the_length_is_given():
    theta = angles(40, 3)
    model = CausalCircle(1.0, 1.0, length=16)
    np.testing.assert_array_equal(flow(model, theta, 1.0)[:16], flow(model, theta[:16], 1.0))
    np.testing.assert_allclose(flow(model, theta[:16], 1.0), flow(CausalCircle(1.0, 1.0), theta[:16], 1.0), atol=1e-13)


def test_the_first_token_rests_and_angles_are_not_wrapped():
    theta = angles(16, 3) + 50
    final = np.asarray(flow(CausalCircle(1.0, 1.0), theta, 2.0))
    np.testing.assert_array_equal(final[0], theta[0])
    assert np.abs(final - theta).max() < 2 * np.e
    shifted = np.asarray(flow(CausalCircle(1.0, 1.0), theta + 2 * np.pi, 2.0))
    np.testing.assert_allclose(shifted - 2 * np.pi, final, atol=1e-12)


def test_rotation_moves_everything_along():
    theta = angles(16, 3)
    model = CausalCircle(1.0, 1.0)
    np.testing.assert_allclose(flow(model, theta + 1.1, 1.0), flow(model, theta, 1.0) + 1.1, atol=1e-12)


def test_requests_that_cannot_be_served():
    with pytest.raises(sf.SphereflowError, match="beta at most 8"):
        CausalCircle(9.0, 1.0, "softmax")
    with pytest.raises(sf.SphereflowError, match="normalise must be one of"):
        CausalCircle(1.0, 1.0, "sigmoid")
    with pytest.raises(sf.SphereflowError, match="one slope per amplitude"):
        Exponentials([1.0, 2.0], [1.0])
    with pytest.raises(sf.SphereflowError, match=r"shape \(n, samples\)"):
        flow(CausalCircle(1.0, 1.0), np.zeros(5), 1.0)
    with pytest.raises(sf.SphereflowError, match="slope must be a finite number"):
        CausalCircle(1.0, float("nan"))
