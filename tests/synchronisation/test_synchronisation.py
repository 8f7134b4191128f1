"""The network under common noise: fields, schemes, couplings, exponents; each known mistake is seen."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sphereflow.errors import SphereflowError
from sphereflow.estimates import Estimate, mean
from sphereflow.synchronisation.backward_equation import Backward
from sphereflow.synchronisation.covariance import of_activation, of_powers, of_quadratic_form
from sphereflow.synchronisation.lyapunov import separation_rates, spectrum
from sphereflow.synchronisation.network import (
    advance,
    advised_step,
    energy,
    first_gap,
    meeting_times,
    run_network,
    zero_crossing,
)
from sphereflow.synchronisation.random_fields import (
    AffineField,
    GaussianField,
    Independent,
    QuadraticForm,
    RandomPerceptron,
)
from sphereflow.synchronisation.two_point import TwoPoint

KEY = jax.random.key(0)


def sphere(*shape, seed=0):
    x = np.random.default_rng(seed).standard_normal(shape)
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def drawn(field, x, seed=0):
    """The field of fresh weights at the tokens, compiled as a whole."""
    return np.asarray(jax.jit(lambda key, x: field(field.draw(key, *x.shape), x))(jax.random.key(seed), jnp.asarray(x)))


@pytest.mark.parametrize("field", [RandomPerceptron("tanh", 3, scale=1.2, bias=0.5), QuadraticForm(0.5)])
def test_fields_have_the_covariance_they_promise(field):
    x, count, d = sphere(2, 3, seed=1), 60_000, 3
    xi = drawn(field, np.broadcast_to(x, (count, 2, d)))
    law, r = field.covariance, float(x[0] @ x[1])
    found = np.einsum("ki,kj->ij", xi[:, 0], xi[:, 1]) / count
    exact = float(law(np.array(r))) * np.eye(d) + float(law.b) * np.outer(x[1], x[0])
    np.testing.assert_allclose(found, exact, atol=0.03 * float(law.at_one))
    np.testing.assert_allclose(xi.mean(axis=0), 0, atol=0.03)


@pytest.mark.parametrize("jitter", [False, True])
def test_gaussian_field_of_two_tokens_has_its_covariance_in_both_forms(jitter):
    law, x = of_activation("relu"), sphere(2, 4, seed=2)
    xi = drawn(GaussianField(law, jitter_pairs=jitter), np.broadcast_to(x, (40_000, 2, 4)))
    covariance = [np.mean(xi[:, a] * xi[:, b]) for a, b in ((0, 0), (1, 1), (0, 1))]
    np.testing.assert_allclose(covariance, [0.5, 0.5, float(law(np.array(x[0] @ x[1])))], atol=0.01)


def test_the_noise_is_common_unless_asked_otherwise():
    x, field = np.repeat(sphere(5, 1, 3), 2, axis=1), RandomPerceptron("relu", 2)
    together, apart = drawn(field, x), drawn(Independent(field), x)
    np.testing.assert_array_equal(together[:, 0], together[:, 1])
    assert np.all(np.abs(apart[:, 0] - apart[:, 1]).max(axis=-1) > 1e-3)


def test_antipodal_pairs_stay_antipodal_bitwise_for_odd_activations():
    x = sphere(1, 1, 5)
    pair = np.concatenate([x, -x], axis=1)
    end = np.asarray(run_network(RandomPerceptron("tanh", 16), pair, layers=2000, step=0.01)[-1])
    assert np.all(end[:, 0] + end[:, 1] == 0)
    assert np.abs(end[0, 0] - x[0, 0]).max() > 0.1


def test_a_jittered_root_destroys_the_exponent():
    """ReLU, pairs at 1e-6: the independent part of the noise drives them apart, where the truth is -1/2."""
    x = sphere(200, 1, 8)
    y = x + 1e-6 * np.random.default_rng(1).standard_normal(x.shape)
    pair = np.concatenate([x, y / np.linalg.norm(y, axis=-1, keepdims=True)], axis=1)
    field = GaussianField(of_activation("relu"), jitter_pairs=True)
    gaps = np.asarray(run_network(field, pair, layers=1000, step=0.02, observe=first_gap))
    assert 0 < float(mean(np.log(gaps[-1] / gaps[0]) / 20).value) < 0.5


@pytest.mark.slow
def test_great_circles_have_the_same_limit_as_layers():
    x = np.zeros((4000, 2, 4))
    x[:, 0, 0], x[:, 1, 0], x[:, 1, 1] = 1, 0.3, np.sqrt(1 - 0.09)
    exact = float(Backward(TwoPoint(4, of_powers([1.0, 0.49]))).averages(lambda r: r, [1.0], start=0.3)[0])
    end = np.asarray(run_network(AffineField(1.0, 0.7), x, layers=100, step=0.01, scheme="geodesic")[-1])
    np.testing.assert_allclose(np.linalg.norm(end, axis=-1), 1, atol=1e-12)
    assert mean(np.sum(end[:, 0] * end[:, 1], axis=-1)).agrees(exact, slack=0.01)


def test_no_drift_is_missing_the_stratonovich_equation_has_the_same_paths():
    """Heun's scheme for dX = P o dQ X + gamma P o dW on the increments of the network, at two depths."""
    gamma, d, paths = 0.5, 4, 200
    field = QuadraticForm(gamma)
    rng = np.random.default_rng(0)
    layer = jax.jit(lambda weights, x, h: advance(field, weights, x, h))

    def tangent(x, q, w):
        v = np.einsum("kij,knj->kni", q, x) + gamma * w[:, None]
        return v - x * np.sum(x * v, axis=-1, keepdims=True)

    distance = []
    for layers in (32, 512):
        h = 0.25 / layers
        x = y = np.broadcast_to(sphere(2, d, seed=3), (paths, 2, d))
        for _ in range(layers):
            g, w = rng.standard_normal((paths, d, d)), rng.standard_normal((paths, d))
            q = (g + g.swapaxes(1, 2)) / np.sqrt(2)
            x = np.asarray(layer((q, w), x, h))
            dq, dw = np.sqrt(h) * q, np.sqrt(h) * w
            first = tangent(y, dq, dw)
            y = y + (first + tangent(y + first, dq, dw)) / 2
            y = y / np.linalg.norm(y, axis=-1, keepdims=True)
        distance.append(np.sqrt(np.mean(np.sum((x - y) ** 2, axis=-1))))
    assert np.log(distance[0] / distance[1]) / np.log(16) == pytest.approx(0.5, abs=0.1)


def test_energy_is_the_spread_about_the_mean_and_keeps_its_digits():
    x = sphere(3000, 8, 5)
    phi = np.asarray(energy(jnp.asarray(x)))
    np.testing.assert_allclose(phi, 1 - np.sum(x.mean(axis=1) ** 2, axis=-1), atol=1e-12)
    assert mean(phi).agrees(1 - 1 / 8)
    close = sphere(1, 1, 5) + 1e-9 * np.random.default_rng(0).standard_normal((1, 8, 5))
    assert 1e-19 < float(energy(jnp.asarray(close))[0]) < 1e-16


@pytest.mark.slow
def test_the_whole_spectrum_is_equally_spaced():
    field, d = AffineField(0.8, 1.0), 5
    found = mean(np.asarray(spectrum(field, KEY, 0.005, repeats=150, d=d, layers=1000, count=3)))
    exact = TwoPoint(d, field.covariance).spectrum()[:3]
    assert found.agrees(exact, slack=0.08), (found, exact)
    np.testing.assert_allclose(np.diff(exact), -1)


def test_energy_of_a_cloud_is_not_the_exponent():
    """Over a short time the cloud still has several directions: the rate is too slow, that of pairs is right."""
    x = sphere(1500, 1, 4) + 1e-6 * np.random.default_rng(4).standard_normal((1500, 8, 4))
    x /= np.linalg.norm(x, axis=-1, keepdims=True)
    seen = run_network(AffineField(0.5, 0.8), x, layers=100, step=0.01, observe=_both)
    cloud, pairs = (mean(np.asarray(np.log(part[-1] / part[0]))) for part in seen)
    assert pairs.agrees(-1.015, slack=0.02), pairs
    assert cloud.agrees(-0.745, slack=0.03), cloud


def _both(x):
    return jnp.sqrt(energy(x)), first_gap(x)


def test_width_one_at_a_coarse_step_is_far_from_the_limit():
    rates = separation_rates(RandomPerceptron("tanh"), KEY, 0.004, pairs=200, d=24, layers=500)
    assert float(mean(np.asarray(rates)).value) < 0.2 < TwoPoint(24, of_activation("tanh")).lyapunov()


@pytest.mark.slow
def test_meeting_times_have_the_exact_mean():
    x = jnp.asarray(np.broadcast_to(np.eye(2, 4), (800, 2, 4)))
    times = np.asarray(meeting_times(AffineField(1.0, 0.0), x, jax.random.key(2), 0.005, 0.1, 4000))
    exact, variance = Backward(TwoPoint(4, of_powers([1.0]))).meeting_time(0.1)
    assert mean(times).agrees(exact, slack=0.02 * exact)
    assert times.var() == pytest.approx(variance, rel=0.25)


@pytest.mark.slow
def test_zero_crossing_of_a_line_and_its_error_bar():
    x = np.array([0.0, 1.0, 2.0])
    found = zero_crossing(x, Estimate(2 * x - 3, np.full(3, 0.1)))
    assert float(found.value) == pytest.approx(1.5)
    draws = [
        float(zero_crossing(x, Estimate(2 * x - 3 + 0.1 * z, np.full(3, 0.1))).value)
        for z in np.random.default_rng(0).standard_normal((4000, 3))
    ]
    assert np.std(draws) == pytest.approx(float(found.error), rel=0.05)


def test_a_gaussian_field_of_a_symmetric_layer_is_refused():
    with pytest.raises(SphereflowError, match="QuadraticForm"):
        GaussianField(of_quadratic_form(0.1))


def test_requests_that_make_no_sense_are_refused():
    x, field = sphere(2, 2, 3), RandomPerceptron("relu")
    with pytest.raises(SphereflowError, match="multiple of saves"):
        run_network(field, x, layers=10, step=0.1, saves=3)
    with pytest.raises(SphereflowError, match="step must be"):
        run_network(field, x, layers=10, step=0.0)
    with pytest.raises(SphereflowError, match="scheme must be one of"):
        run_network(field, x, layers=10, step=0.1, scheme="milstein")
    with pytest.raises(SphereflowError, match="width must be"):
        RandomPerceptron("relu", 0)
    assert advised_step(field, 8) == pytest.approx(0.05 / 3.5)
    assert advised_step(AffineField(0.1, 0.0), 3, strength=-4, beta=4) == pytest.approx(0.1 / 20)
