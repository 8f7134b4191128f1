"""The law of the tokens given the noise: transport, moments and attention against closed forms and tokens."""

import numpy as np
import pytest

from sphereflow.errors import SphereflowError
from sphereflow.synchronisation import circle_law
from sphereflow.synchronisation.circle_spde import _Grid
from sphereflow.synchronisation.covariance import of_activation
from sphereflow.synchronisation.noise_modes import noise_modes

ANGLE = 2 * np.pi * np.arange(32) / 32
BUMP = 1 + 0.6 * np.cos(ANGLE) - 0.3 * np.sin(2 * ANGLE)


def test_transport_by_a_rotation_and_by_a_field_that_contracts():
    grid = _Grid(noise_modes(of_activation("cos"), 2, modes=2), 40, 1.0)
    c = np.zeros((1, 41), dtype=complex)
    c[:, :3] = 1.0, 0.3, 0.1j
    turned = grid.transport(c, np.full((1, grid.points), 0.4))
    np.testing.assert_allclose(turned, c * np.exp(-0.4j * np.arange(41)), atol=1e-6)
    # The flow of -a sin(theta) takes tan(theta/2) to e^{-a} tan(theta/2); from the uniform law c_k = tanh(a/2)^k.
    uniform = np.zeros((1, 41), dtype=complex)
    uniform[:, 0] = 1
    points = 2 * np.pi * np.arange(grid.points) / grid.points
    found = grid.transport(uniform, -0.8 * np.sin(points)[None])
    np.testing.assert_allclose(found[0, :6], np.tanh(0.4) ** np.arange(6), atol=1e-6)


def test_attention_of_the_law_is_that_of_its_tokens():
    field = noise_modes(of_activation("cos"), 2, modes=2)
    grid, beta = _Grid(field, 12, 3.0), 3.0
    c = np.zeros((1, 13), dtype=complex)
    c[:, :3] = 1.0, 0.3, 0.15j
    found = grid.velocity(c, np.zeros((1, field.count, 2)), 1.0)[0]
    y = 2 * np.pi * np.arange(400) / 400
    density = 1 + 0.6 * np.cos(y) - 0.3 * np.sin(2 * y)
    for k in (0, 7, 20):
        x = 2 * np.pi * k / grid.points
        weight = density * np.exp(beta * np.cos(x - y))
        assert found[k] == pytest.approx(np.sum(weight * np.sin(y - x)) / weight.sum(), abs=1e-9)


def test_the_mean_law_diffuses_and_mass_is_kept():
    # Noise that does not depend on the place (sigma = 1): all tokens move together, E c_k = c_k(0) e^{-k^2 t/2}.
    found = circle_law("constant", BUMP, steps=64, t1=0.5, saveat=3, repeats=2000, resolution=8, seed=3)
    np.testing.assert_allclose(found.modes[:, :, 0], 1.0, atol=1e-12)
    np.testing.assert_allclose(found.times, [0.0, 0.25, 0.5])
    for k, start in ((1, 0.3), (2, 0.15j)):
        sample = found.modes[-1, :, k]
        error = sample.std() / np.sqrt(len(sample))
        assert abs(sample.mean() - start * np.exp(-(k**2) / 4)) < 5 * error + 0.02 * abs(start)
    density = found.density(32)
    np.testing.assert_allclose(density[0, 0], BUMP / (2 * np.pi), atol=1e-9)
    np.testing.assert_allclose(density.mean(axis=-1) * 2 * np.pi, 1.0, atol=1e-9)


def test_networks_of_many_tokens_are_near_the_law_of_their_own_noise():
    found = circle_law("relu", BUMP, strength=1.0, beta=2.0, steps=64, sizes=(16, 1024), repeats=20, seed=1)
    near, other = found.distance(), np.abs(found.networks[1, :, 1] - np.roll(found.modes[-1, :, 1], 1)) ** 2
    assert near.value[1] < 0.1 * near.value[0]
    assert near.value[1] < 0.02 * other.mean()


def test_requests_for_a_law_that_make_no_sense_are_refused():
    with pytest.raises(SphereflowError, match="multiple of the times"):
        circle_law("tanh", BUMP, steps=64, saveat=4)
    with pytest.raises(SphereflowError, match="resolution must exceed"):
        circle_law("relu", BUMP, modes=16, resolution=8)
    with pytest.raises(SphereflowError, match="density must be"):
        circle_law("relu", [0.0, 0.0, 0.0, 0.0])
