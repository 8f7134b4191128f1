"""Networks on one path of the noise: modes, couplings and orders against plain loops and closed forms."""

import jax.numpy as jnp
import numpy as np
import pytest

from sphereflow.errors import SphereflowError
from sphereflow.papers.synchronization_by_noise.error_equation import angles, depth_noise, mean_square, relu_modes
from sphereflow.synchronisation import strong_errors
from sphereflow.synchronisation.covariance import of_activation, of_powers
from sphereflow.synchronisation.noise_modes import noise_modes
from sphereflow.synchronisation.pathwise import StrongErrors
from sphereflow.synchronisation.shared_path import increments, moves, narrowed


def circle(*shape, seed=0):
    angle = np.random.default_rng(seed).uniform(0, 2 * np.pi, shape)
    return np.stack([np.cos(angle), np.sin(angle)], axis=-1)


def softmax_output(x, beta):
    """Attention of one cloud, token by token."""
    out = np.zeros_like(x)
    for i in range(len(x)):
        weight = np.array([np.exp(beta * x[i] @ y) for y in x])
        out[i] = weight @ x / weight.sum()
    return out


def test_modes_of_relu_are_the_closed_form():
    field, exact = noise_modes(of_activation("relu"), 2, modes=20), relu_modes(20)
    assert field.orders == tuple(exact.orders)
    np.testing.assert_allclose(field.weights, exact.weights, atol=1e-8)
    assert field.slope_at_one == pytest.approx(0.5, rel=0.03)


@pytest.mark.parametrize("squares", [(0.3, 0.5, 0.2), (0.0, 1.0), (0.1, 0.0, 0.2, 0.7)])
def test_features_have_the_covariance_of_the_field(squares):
    x = np.random.default_rng(1).standard_normal((5, 3))
    x /= np.linalg.norm(x, axis=-1, keepdims=True)
    field = noise_modes(of_powers(squares), 3)
    phi = field.features(x)
    assert phi.shape == (5, field.count)
    np.testing.assert_allclose(phi @ phi.T, np.polynomial.polynomial.polyval(x @ x.T, squares), atol=1e-12)
    assert field.slope_at_one == pytest.approx(sum(k * c for k, c in enumerate(squares)))


def test_features_of_any_activation_in_three_dimensions_have_its_covariance():
    """The arc-cosine kernel of ReLU; what is cut off is its tail, which is positive."""
    x = np.random.default_rng(1).standard_normal((6, 3))
    x /= np.linalg.norm(x, axis=-1, keepdims=True)
    field = noise_modes(of_activation("relu"), 3, modes=20)
    phi, r = field.features(x), x @ x.T - np.eye(6) * 1e-15
    exact = (np.sqrt(np.maximum(1 - r**2, 0)) + r * (np.pi - np.arccos(np.clip(r, -1, 1)))) / (2 * np.pi)
    np.testing.assert_allclose(phi @ phi.T, exact, atol=3e-5)
    assert 0 < 0.5 - field.at_one < 3e-5
    assert 0 < 0.5 - field.slope_at_one < 0.02


@pytest.mark.parametrize("beta", [0.0, 1.0, 30.0])
def test_attention_by_modes_is_softmax(beta):
    x, field = circle(3, 7), noise_modes(of_activation("relu"), 2, modes=4)
    noise = increments(field, np.random.default_rng(2), 3, 0.1)
    move, modes = moves(field, x, noise, 0.7, beta)
    for k in range(3):
        exact = 0.7 * softmax_output(x[k], beta) + field.features(x[k]) @ noise[k]
        np.testing.assert_allclose(move[k], exact, atol=1e-9)
    np.testing.assert_allclose(moves(field, x, noise, 0.7, beta, modes)[0], move, atol=1e-12)


def test_attention_on_the_sphere_is_softmax():
    x = np.random.default_rng(4).standard_normal((2, 5, 3))
    x /= np.linalg.norm(x, axis=-1, keepdims=True)
    field = noise_modes(of_powers([0.3, 0.5]), 3)
    noise = increments(field, np.random.default_rng(2), 2, 0.1)
    move = moves(field, x, noise, -0.4, 3.0)[0]
    for k in range(2):
        np.testing.assert_allclose(
            move[k], -0.4 * softmax_output(x[k], 3.0) + field.features(x[k]) @ noise[k], atol=1e-12
        )


def test_a_narrow_layer_has_its_exact_covariance_and_is_the_nearest():
    rng = np.random.default_rng(3)
    phi, hidden = rng.standard_normal((2, 3, 5)), rng.standard_normal((2, 3, 9))
    taken = narrowed(phi, hidden, np.broadcast_to(np.eye(3), (2, 3, 3)))
    for k in range(2):
        np.testing.assert_allclose(taken[k] @ (phi[k] @ phi[k].T) @ taken[k].T, hidden[k] @ hidden[k].T / 9, atol=1e-10)
        np.testing.assert_allclose(taken[k], taken[k].T, atol=1e-10)  # symmetric: the map of least mean square
        assert np.linalg.eigvalsh(taken[k]).min() > 0


def test_coupled_depths_are_those_of_plain_loops():
    start, v, beta, steps, t1 = circle(3, seed=5), 0.8, 2.0, 8, 0.6
    found = strong_errors(
        "tanh", x0=start, strength=v, beta=beta, t1=t1, depths=(2, 4), steps=steps, modes=3, repeats=2, seed=7
    )
    field, rng = noise_modes(of_activation("tanh"), 2, modes=3), np.random.default_rng(7)
    path = [increments(field, rng, 2, t1 / steps) for _ in range(steps)]

    def at(x, noise):
        wave = [np.sqrt(w) * f(j * np.arctan2(x[1], x[0])) for j, w in zip(field.orders, field.weights, strict=True)
                for f in (np.cos, np.sin)]  # fmt: skip
        return np.array(wave) @ noise

    for path_number in range(2):
        ends = {}
        for depth in (2, 4, "limit"):
            x, group = start.copy(), 1 if depth == "limit" else steps // depth
            for layer in range(steps // group):
                noise = sum(path[layer * group + k][path_number] for k in range(group))
                move = t1 * group / steps * v * softmax_output(x, beta) + np.array([at(y, noise) for y in x])
                if depth == "limit":
                    turn = move[:, 1] * x[:, 0] - move[:, 0] * x[:, 1]
                    angle = np.arctan2(x[:, 1], x[:, 0]) + turn
                    x = np.stack([np.cos(angle), np.sin(angle)], axis=-1)
                else:
                    x = (x + move) / np.linalg.norm(x + move, axis=-1, keepdims=True)
            ends[depth] = x
        for k, depth in enumerate((2, 4)):
            exact = np.mean(np.sum((ends[depth] - ends["limit"]) ** 2, axis=-1))
            assert found.depth[k, path_number] == pytest.approx(exact, rel=1e-8)
            assert found.overlap[k, path_number] == pytest.approx(ends[depth][0] @ ends[depth][1], abs=1e-9)


def test_the_error_equation_without_attention_is_the_formula_of_one_token():
    kernel, phi, k = relu_modes(16), angles(), relu_modes(16).weights.sum()
    slope = -float(kernel.derivative(np.zeros(1), 2)[0])
    exact = k * (slope + k) / 2 * np.expm1(slope + k) / (slope + k)
    assert mean_square(kernel, depth_noise(kernel, phi), 0.0, 1.0, 1.0) == pytest.approx(exact, rel=1e-6)
    found = strong_errors("relu", modes=16, n=2, depths=(4,), steps=4, repeats=2)
    limit = StrongErrors(**{**vars(found), "steps": 10**9})  # its formula, where the steps of the limit are not seen
    assert limit.predicted()[0] ** 2 * 4 == pytest.approx(exact, rel=1e-6)


def test_tokens_without_attention_are_those_of_the_law():
    angle = 2 * np.pi * np.arange(32) / 32
    found = strong_errors("cos", depths=(), sizes=(4, 16), layers=4, repeats=400, density=1 + np.cos(angle), modes=6)
    assert np.abs(found.tokens).max() < 1e-24
    spread = found.law.mean(axis=1) * found.sizes
    assert np.all((spread > 0.3) & (spread < 1.0))
    assert found.order("law").agrees(-0.5, 4)
    with pytest.raises(SphereflowError, match="do not vanish"):
        found.order("tokens")


def test_orders_have_the_error_of_paired_paths():
    rng = np.random.default_rng(0)
    common = rng.chisquare(3, 500)  # all depths meet the same noise: the order is known far better than the errors
    depths = np.array([4.0, 16.0, 64.0])
    squares, none = common / depths[:, None], np.zeros((0, 500))
    empty = np.zeros(0)
    paired = StrongErrors(
        2, 1.0, 0.0, 0.5, 0.5, 1.25, 256, depths, squares, np.zeros((4, 500)), empty, none, empty, none, none
    )
    assert float(paired.order().value) == pytest.approx(-0.5, abs=1e-12)
    assert float(paired.order().error) < 1e-12
    assert np.all(paired.errors().error > 0)


def test_requests_for_strong_errors_that_make_no_sense_are_refused():
    with pytest.raises(SphereflowError, match="multiple of every depth"):
        strong_errors("relu", depths=(3, 4), steps=8)
    with pytest.raises(SphereflowError, match="polynomial activations"):
        strong_errors("relu", d=4)
    with pytest.raises(SphereflowError, match="on the circle"):
        strong_errors("linear", d=3, sizes=(4,))
    with pytest.raises(SphereflowError, match="not both"):
        strong_errors("relu", x0=circle(2), density=[1, 1, 1, 1])
    with pytest.raises(SphereflowError, match="density must be"):
        strong_errors("relu", density=[1.0, -1.0, 1.0, 1.0])
    with pytest.raises(SphereflowError, match="kind must be one of"):
        strong_errors("relu", depths=(2,), steps=2, repeats=2).order("length")
    assert strong_errors(lambda s: jnp.sin(s) + 0.5 * s**2, depths=(2, 4), widths=(3,), repeats=2).width.shape == (1, 2)


def test_more_tokens_than_memory_holds_are_refused_at_once():
    with pytest.raises(SphereflowError, match="GiB of memory"):
        strong_errors("cos", depths=(), sizes=(10**6,), repeats=10**5)
