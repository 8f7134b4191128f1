"""The limit equations: mean field and its correction, the equation with common noise, the density on the circle."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sphereflow.dynamics import SA
from sphereflow.estimates import mean
from sphereflow.numerics.overlaps import overlap_variance
from sphereflow.random_transformers.circle_density import density_layer, density_of
from sphereflow.random_transformers.common_noise import CommonNoise, solve_paths
from sphereflow.random_transformers.mean_field import MeanField
from sphereflow.random_transformers.network import RandomNetwork
from sphereflow.random_transformers.normals import standard_normals
from sphereflow.random_transformers.overlap_equation import overlap_drift
from sphereflow.random_transformers.time_scales import clock, layer_time, one_step_factor
from sphereflow.random_transformers.weight_laws import AnyLaw, matrices, weights
from sphereflow.sphere import from_angles, to_angles, uniform

layer = eqx.filter_jit(density_layer)


def test_mean_field_is_softmax_attention():
    x = uniform(jax.random.key(0), (5, 3))
    zero = jnp.zeros(())
    np.testing.assert_allclose(MeanField(2.0, np.eye(3)).field(zero, x), SA(2.0).field(zero, x), atol=1e-13)


@pytest.mark.slow
def test_two_equal_tokens_diffuse_together():
    """A = I, equal tokens: E<x(t), x(0)> = exp(-(d-1) tau/(2d)), and one path for both of them."""
    d, tau = 3, 0.5
    model = CommonNoise(MeanField(0.0, np.eye(d), 0.0), strength=1 / d)
    x0 = jnp.tile(jnp.eye(1, d), (2, 1))
    keys = jax.random.split(jax.random.key(0), 600)
    times = [jnp.asarray(v) for v in (tau, 0.05, 0.05)]
    exact = np.exp(-(d - 1) / (2 * d) * tau)
    ends = np.asarray(solve_paths(model, x0, keys, *times))
    np.testing.assert_allclose(np.linalg.norm(ends, axis=-1), 1, atol=1e-12)
    np.testing.assert_allclose(ends[:, 0], ends[:, 1], atol=1e-12)
    assert mean(ends[:, 0, 0]).agrees(exact, sigmas=3.5, slack=0.01)
    np.testing.assert_array_equal(ends, np.asarray(solve_paths(model, x0, keys, *times)))
    assert abs(exact - 1) > 0.1


def test_ambient_drift_keeps_the_mean_length():
    """d|x|^2 = 2<x, drift> dt + |dX|^2: the normal part of the drift is minus half the variance of the noise."""
    d, strength = 3, 0.4
    model = CommonNoise(MeanField(1.0, np.eye(d), 0.0), strength=strength)
    x = uniform(jax.random.key(1), (4, d))
    noise = model.diffusion(0.0, x, None)
    basis = jnp.eye(d * d).reshape(d * d, 1, d, d)
    variance = sum(jnp.sum(noise.mv(each) ** 2, axis=1) for each in basis)
    drift = model.ambient_drift(jnp.zeros(()), x, None)
    np.testing.assert_allclose(2 * jnp.sum(x * drift, axis=1) + variance, 0, atol=1e-12)
    np.testing.assert_allclose(model.tangent_drift(jnp.zeros(()), x, None), 0, atol=1e-12)


def test_density_moves_with_its_own_map():
    """Mass one; a common rotation for A arbitrary and V a multiple of a quarter turn at beta = 0."""
    turn = jnp.asarray([[0.0, -1.0], [1.0, 0.0]])
    network = RandomNetwork(AnyLaw(lambda key, d: (turn, jnp.eye(2))), 0.0, 0.2)
    start = jnp.zeros(17, complex).at[:2].set(jnp.asarray([1.0, 0.4]))
    moved = layer(network, jax.random.key(0), start, 64)
    assert moved[0] == pytest.approx(1)
    # The mean of the cloud is (0.4, 0); V m = (0, 0.4): every token x goes to x + 0.2 (0, 0.4), normalised.
    theta = np.linspace(0, 2 * np.pi, 20_001)[:-1]
    x = np.stack([np.cos(theta), np.sin(theta) + 0.2 * 0.4], axis=1)
    rho = 1 + 0.8 * np.cos(theta)
    exact = np.mean(rho * np.exp(-3j * np.arctan2(x[:, 1], x[:, 0])))
    assert moved[3] == pytest.approx(exact, abs=1e-10)
    assert density_of(start, 8)[0] == pytest.approx(1.8)


@pytest.mark.slow
def test_density_layer_is_the_layer_of_many_tokens():
    network = RandomNetwork(matrices(weights("product", d=2)), 2.0, 0.3)
    theta = jnp.asarray((np.arange(2000) + 0.5) * 2 * np.pi / 2000)
    placed = theta + 0.3 * jnp.sin(theta)
    key = jax.random.key(4)
    tokens = to_angles(eqx.filter_jit(network.layer)(key, from_angles(placed)))

    def modes_of(theta, most):
        return jnp.mean(jnp.exp(-1j * jnp.arange(most + 1)[:, None] * theta), axis=1)

    moved = layer(network, key, modes_of(placed, 40), 256)
    np.testing.assert_allclose(modes_of(tokens, 6), moved[:7], atol=2e-4)


@pytest.mark.slow
def test_mean_rate_of_the_energy_from_the_overlap_equation():
    """One short layer, antithetic in V, against the drift of the energy by Ito's formula."""
    d, beta, step = 6, 1.5, 0.1
    gram = np.array([[1, 0.4, 0.1], [0.4, 1, -0.3], [0.1, -0.3, 1]])
    x = jnp.asarray(np.pad(np.linalg.cholesky(gram), ((0, 0), (0, d - 3))))
    keys = jax.random.split(jax.random.key(0), 20_000)

    def energy(y):
        return jnp.mean(jnp.exp(beta * (y @ y.T - 1))) / (2 * beta)

    def change(key):
        def after(sign):
            return energy(RandomNetwork(weights("product", d=d, value_scale=sign), 2.0, step).layer(key, x))

        return jnp.mean(jax.vmap(after)(jnp.asarray([1.0, -1.0]))) - energy(x)

    found = mean(np.asarray(jax.jit(jax.vmap(change))(keys)) / step**2)
    network = RandomNetwork(weights("product", d=d), 2.0, step)
    root = jnp.asarray(np.linalg.cholesky(gram))

    def inner_products(key):
        normal_key, chi_key = jax.random.split(key)
        z = standard_normals(normal_key, network.law.score.normals(3, d))
        means = network.attend(root, network.law.score.leading_block(z, chi_key, 3, d)[None])[0] @ root
        return means @ means.T

    s = np.asarray(
        jax.lax.map(inner_products, jax.random.split(jax.random.key(0), 20_480), batch_size=1024).mean(axis=0)
    )
    own = np.diag(s)
    variance_rate = overlap_variance(gram, s, (own[:, None] + own) / 2) / d
    rate = np.exp(beta * (gram - 1)) * (overlap_drift(gram, s, d) + beta / 2 * variance_rate) / 2
    assert found.agrees(np.mean(rate * (1 - np.eye(3))), sigmas=4, slack=0.004)


@pytest.mark.parametrize(
    ("layers", "heads", "step", "regime"),
    [
        (100, 1, 0.01, "ballistic"),
        (1000, 1000, 0.03, "modified"),
        (1000, 1, 0.03, "diffusive"),
        (1000, 1, 0.5, "outside"),
    ],
)
def test_regimes(layers, heads, step, regime):
    assert clock(64, layers, heads, step).regime == regime


def test_one_step_factor_against_reference_values_and_series():
    assert float(one_step_factor(5, 0.3)) == pytest.approx(0.8442510, abs=1e-7)
    assert float(one_step_factor(16, 0.2)) == pytest.approx(0.7847656, abs=1e-7)
    for d in (3, 64):  # both branches and the joint between them
        sigma = np.geomspace(1e-4, 1, 200)
        values = one_step_factor(d, sigma)
        assert np.all(np.diff(values) < 0)
        np.testing.assert_allclose(values[:20], 1 - (d - 1) / 2 * sigma[:20] ** 2, rtol=1e-8)
    assert layer_time(8, 0.1) == pytest.approx(0.01, rel=0.02)
