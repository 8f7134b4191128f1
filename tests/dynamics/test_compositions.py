"""Whatever dynamics are made of, their flow is that of the formulas: SciPy on a transcription in plain NumPy."""

import itertools

import jax.numpy as jnp
import numpy as np
import pytest
from compositions import D, N, draw_attention, draw_composition, tangent
from scipy.integrate import solve_ivp

import sphereflow as sf

T1 = 0.8


def start(rng, space):
    x = rng.normal(size=(N, D))
    return x / np.linalg.norm(x, axis=1, keepdims=True) if space == "sphere" else x


def by_scipy(field, x0, jumps, space):
    """The flow by an independent integrator, which stops at every jump of the field."""

    def unit(x):
        return x / np.linalg.norm(x, axis=1, keepdims=True) if space == "sphere" else x

    x = x0
    stops = [0.0, *sorted(s for s in jumps if 0 < s < T1), T1]
    for a, b in itertools.pairwise(stops):
        middle = (a + b) / 2  # which side of a jump a time at the end of an interval belongs to

        def rate(t, flat, a=a, b=b, middle=middle):
            inside = middle + (t - middle) * (1 - 1e-12)
            return field(np.clip(inside, a, b), unit(flat.reshape(x0.shape))).ravel()

        x = solve_ivp(rate, (a, b), x.ravel(), method="DOP853", rtol=1e-11, atol=1e-12).y[:, -1].reshape(x0.shape)
    return unit(x)


def flow_is_right(seed):
    rng = np.random.default_rng(seed)
    space = "sphere" if rng.random() < 0.7 else "euclidean"
    model, field = draw_composition(rng, space)
    assert model.traits.space == space
    x0 = start(rng, space)
    np.testing.assert_allclose(model.field(jnp.asarray(0.05), jnp.asarray(x0)), field(0.05, x0), rtol=1e-11, atol=1e-11)
    jumps = [] if model.traits.jump_times is None else list(np.asarray(model.traits.jump_times))
    ours = sf.evolve(model, x0, T1, saveat=2, tol=1e-10)
    assert ours.status.complete
    theirs = by_scipy(field, x0, jumps, space)
    scale = max(1.0, float(np.abs(theirs).max()))
    np.testing.assert_allclose(ours.final, theirs, rtol=0, atol=1e-7 * scale)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_flows_of_compositions(seed):
    flow_is_right(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1000, 1500))
def test_flows_of_many_compositions(seed):
    flow_is_right(seed)


@pytest.mark.fast_cases("2", "6", "7", "8", "10", "12", "15", "16")
@pytest.mark.parametrize("seed", range(30))
def test_fields_of_compositions(seed):
    rng = np.random.default_rng([7, seed])
    space = "sphere" if rng.random() < 0.6 else "euclidean"
    model, field = draw_composition(rng, space)
    x = start(rng, space)
    for t in (0.0, 0.5):
        np.testing.assert_allclose(model.field(jnp.asarray(t), jnp.asarray(x)), field(t, x), rtol=1e-11, atol=1e-11)


def test_the_transcription_notices_a_wrong_field():
    """The comparison above would fail for a forgotten mass, mask, head or factor."""
    rng = np.random.default_rng(3)
    x = start(rng, "sphere")
    model, field = draw_attention(rng, "softmax")
    assert np.abs(np.asarray((1.001 * model).field(jnp.zeros(()), jnp.asarray(x))) - field(0.0, x)).max() > 1e-6
    assert np.abs(tangent(x, field(0.0, x)) - field(0.0, x)).max() < 1e-14
