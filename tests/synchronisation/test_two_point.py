"""Covariances, the two-point equation and its exact averages, against closed forms and independent quadratures."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import solve_ivp
from scipy.linalg import expm

from sphereflow.errors import SphereflowError
from sphereflow.estimates import mean
from sphereflow.numerics.backward import advance as advance_backward
from sphereflow.synchronisation.activations import evaluate, half_square_difference, kappa, slope_at_one
from sphereflow.synchronisation.backward_equation import Backward, energy_decay
from sphereflow.synchronisation.covariance import of_activation, of_powers, of_quadratic_form
from sphereflow.synchronisation.gram import run_gram, variance_rate
from sphereflow.synchronisation.network import advance, run_network
from sphereflow.synchronisation.random_fields import GaussianField, QuadraticForm
from sphereflow.synchronisation.two_point import TwoPoint, coercive_above, synchronises_below


@pytest.mark.parametrize(("name", "bias"), [("tanh", 0.0), ("softplus", 0.7), ("silu", 1.5)])
def test_kappa_agrees_with_a_product_rule(name, bias):
    g, w = np.polynomial.hermite_e.hermegauss(90)
    w = w / w.sum()
    for r in (-0.8, 0.1, 0.95):
        variance, covariance = 1 + bias**2, r + bias**2
        u = np.sqrt(variance) * g[:, None]
        v = covariance / np.sqrt(variance) * g[:, None] + np.sqrt(variance - covariance**2 / variance) * g[None, :]
        product = evaluate(name, np.broadcast_to(u, v.shape))[0] * evaluate(name, v)[0]
        # The product rule itself has errors of 1e-6 for activations with poles near the real axis.
        assert float(kappa(name, np.array(r), bias=bias)) == pytest.approx(w @ product @ w, abs=3e-6)


def test_relu_near_coalescence_keeps_its_digits():
    gap = np.array([1e-4, 1e-8, 1e-12])
    exact = 0.5 * gap - (2 * gap) ** 1.5 / (6 * np.pi)  # the next term is of order gap^(5/2)
    np.testing.assert_allclose(half_square_difference("relu", gap), exact, rtol=1e-5)
    angle = 2 * np.arcsin(np.sqrt(gap / 2))
    np.testing.assert_allclose(of_activation("relu").slope(angle) * gap, exact, rtol=1e-5)


def test_differences_do_not_give_the_slope_of_relu():
    law = of_activation("relu")
    difference = (float(law.at_one) - float(law(np.array(1 - 1e-4)))) / 1e-4
    assert abs(difference - 0.5) > 1e-3
    assert slope_at_one("relu") == pytest.approx(0.5, abs=1e-12)


def test_activations_that_jump_or_are_unknown_are_named():
    assert slope_at_one("sign") == np.inf
    with pytest.raises(SphereflowError, match="jumps at 0"):
        of_activation("sign")
    with pytest.raises(SphereflowError, match="activation must be one of"):
        of_activation("swash")
    with pytest.raises(SphereflowError, match="between -1 and 1"):
        kappa("relu", np.array(1.5))
    assert of_activation(lambda s: jnp.sin(s) + 2).ratio < 1


@given(st.lists(st.floats(0, 2), min_size=1, max_size=5), st.integers(2, 40), st.floats(-0.99, 0.99))
def test_drift_and_noise_are_the_textbook_formulas(squares, d, r):
    squares = [*squares, 0.5]
    pair = TwoPoint(d, of_powers(squares))
    k, one = np.polynomial.polynomial.polyval(r, squares), sum(squares)
    drift = (d - 2 + r**2) * k - (d - 1) * r * one
    noise = 2 * (1 - r**2) * (one - r * k)
    scale = d * one
    assert float(pair.drift(np.array(r))) == pytest.approx(drift, abs=1e-11 * scale)
    assert float(pair.diffusion(np.array(r))) == pytest.approx(noise, abs=1e-11 * scale)
    moved, squared = pair.coefficients(np.array(np.arctanh(r)))
    assert float(squared) == pytest.approx(noise / (1 - r**2) ** 2, rel=1e-8, abs=1e-8)
    assert float(moved) == pytest.approx(drift / (1 - r**2) + r * noise / (1 - r**2) ** 2, rel=1e-8, abs=1e-8 * scale)


@pytest.mark.parametrize("field", [QuadraticForm(0.7), GaussianField(of_activation("relu"))])
def test_one_layer_has_the_drift_and_noise_of_the_equation(field):
    """The b-term of symmetric layers included: means and variances of one small step."""
    d, r, h, count = 5, 0.4, 1e-3, 60_000
    x = np.zeros((count, 2, d))
    x[:, 0, 0], x[:, 1, 0], x[:, 1, 1] = 1, r, np.sqrt(1 - r**2)
    weights = field.draw(jax.random.key(0), count, 2, d)
    moved = np.asarray(jax.jit(lambda w, x: advance(field, w, x, jnp.asarray(h)))(weights, jnp.asarray(x)))
    change = np.sum(moved[:, 0] * moved[:, 1], axis=-1) - r
    pair = TwoPoint(d, field.covariance)
    drift, noise = float(pair.drift(np.array(r))), float(pair.diffusion(np.array(r)))
    error = np.sqrt(noise / h / count)
    assert change.mean() / h == pytest.approx(drift, abs=4 * error + 20 * h)
    assert change.var() / h == pytest.approx(noise, rel=4 * np.sqrt(2 / count) + 20 * h)


def test_exponents_of_the_equation_are_its_limits_at_one():
    for pair in (TwoPoint(7, of_activation("gelu")), TwoPoint(4, of_quadratic_form(0.3))):
        drift, squared = pair.coefficients(np.array(16.0))
        assert -float(drift) == pytest.approx(pair.lyapunov(), abs=1e-9)
        assert float(squared) == pytest.approx(pair.log_distance_variance, abs=1e-9)
        near = float(pair.pull(np.array(1 - 1e-10)))
        assert -near == pytest.approx(pair.moment_exponent(1.0), abs=1e-4)


def test_thresholds_exclude_their_end():
    assert synchronises_below(2.0) == pytest.approx(5)
    assert TwoPoint(5, of_powers([0, 0, 1.0])).lyapunov() == pytest.approx(0, abs=1e-14)
    assert coercive_above(1.0) == np.inf
    assert synchronises_below(1.0) == np.inf


@given(st.lists(st.floats(0, 2), min_size=2, max_size=6), st.integers(2, 40))
def test_the_worst_pairs_are_those_about_to_meet(squares, d):
    squares = [*squares, 0.3]
    r = np.linspace(-1, 1, 4001)[:-1]
    k, one = np.polynomial.polynomial.polyval(r, squares), sum(squares)
    scanned = ((d - 2 + r**2) * k - (d - 1) * r * one) / (1 - r)
    pair = TwoPoint(d, of_powers(squares))
    assert pair.coercivity() <= scanned.min() + 1e-9 * d * one
    assert pair.coercivity() == pytest.approx(scanned[-1], abs=0.02 * d * one)
    assert pair.decay_rate(0.5, 2.0) == pytest.approx(pair.coercivity() - 3.0)


def test_time_stepping_is_the_exponential_of_the_generator():
    rng = np.random.default_rng(0)
    n = 60
    up, down = rng.uniform(1, 3, n - 1), rng.uniform(1, 3, n - 1)
    diagonal = -np.pad(up, (0, 1)) - np.pad(down, (1, 0))
    dense = np.diag(diagonal) + np.diag(up, 1) + np.diag(down, -1)
    f = np.sin(np.arange(n) / 9)
    exact = expm(2.0 * dense) @ f
    errors = [np.abs(advance_backward((down, diagonal, up), f, 2.0, steps) - exact).max() for steps in (20, 40)]
    assert errors[1] < 1e-6
    assert np.log2(errors[0] / errors[1]) == pytest.approx(4, abs=0.6)


def test_averages_of_constants_and_of_odd_flows():
    law = Backward(TwoPoint(8, of_activation("softplus")))
    np.testing.assert_allclose(law.averages(lambda r: 0 * r + 3, [0.1, 1.0]), 3, rtol=1e-11)
    np.testing.assert_allclose(law.averages(lambda r: r, [0.0], start=0.37), 0.37, atol=1e-7)
    with pytest.raises(SphereflowError, match="do not decrease"):
        law.averages(lambda r: r, [1.0, 0.5])


def test_meeting_time_against_an_ordinary_solver():
    """ReLU in closed form, the equation of the mean time as an initial value problem from the antipode."""
    d, gap = 8, 5e-7

    def scale(z):
        r = np.tanh(z)
        k = (np.sqrt(1 - r**2) + r * (np.pi - np.arccos(r))) / (2 * np.pi)
        drift, noise = (d - 2 + r**2) * k - (d - 1) * r / 2, 2 * (1 - r**2) * (0.5 - r * k)
        q = noise / (1 - r**2) ** 2
        return (drift / (1 - r**2) + r * q) / q, 1 / q

    def slope(z, g):
        ratio, inverse = scale(z)
        return [-2 * inverse - 2 * ratio * g[0], g[0]]

    end = np.log((2 - gap) / gap) / 2
    first = solve_ivp(slope, (-6, 0), [0.0, 0.0], rtol=1e-9, atol=1e-12, method="LSODA").y[0, -1]
    exact = -solve_ivp(slope, (0, end), [first, 0.0], rtol=1e-9, atol=1e-12, method="LSODA").y[1, -1]
    measured, _ = Backward(TwoPoint(d, of_activation("relu"))).meeting_time(1e-3)
    assert measured == pytest.approx(exact, abs=2e-4)
    assert measured == pytest.approx(13.0781, abs=1e-4)


def test_questions_without_an_answer_are_refused():
    with pytest.raises(SphereflowError, match="need not meet"):
        Backward(TwoPoint(8, of_activation("tanh"))).meeting_time(0.1)
    with pytest.raises(SphereflowError, match="need not meet"):
        Backward(TwoPoint(8, of_powers([0, 0, 1.0]))).meeting_time(0.1)
    with pytest.raises(SphereflowError, match="only when the Lyapunov exponent is positive"):
        _ = Backward(TwoPoint(8, of_activation("relu"))).invariant
    with pytest.raises(SphereflowError, match="too few"):
        Backward(TwoPoint(400, of_activation("relu")), cells=50).averages(lambda r: r, [1.0])


def test_energy_decay_does_not_exceed_the_bound():
    pair = TwoPoint(8, of_activation("sigmoid"))
    times = np.array([0.5, 1.0, 2.0])
    assert np.all(energy_decay(pair, times.tolist()) <= np.exp(-pair.coercivity() * times))


def test_gram_bracket_is_the_covariance_of_one_layer():
    law, d, h, count = of_activation("relu"), 5, 1e-3, 40_000
    x = np.random.default_rng(1).standard_normal((3, d))
    x /= np.linalg.norm(x, axis=-1, keepdims=True)
    root = np.linalg.cholesky(law(x @ x.T))
    y = x + np.sqrt(h) * (root @ np.random.default_rng(2).standard_normal((count, 3, d)))
    y /= np.linalg.norm(y, axis=-1, keepdims=True)
    r = np.stack([np.sum(y[:, i] * y[:, j], axis=-1) for i, j in ((0, 1), (0, 2), (1, 2))])
    exact = np.asarray(jax.jit(lambda gram: variance_rate(law, gram))(jnp.asarray(x @ x.T)[None]))[0]
    np.testing.assert_allclose(np.cov(r) / h, exact, atol=0.04 * np.abs(exact).max())
    pair = TwoPoint(d, law)
    np.testing.assert_allclose(np.diag(exact), pair.diffusion((x @ x.T)[np.triu_indices(3, 1)]), rtol=1e-10)


@pytest.mark.slow
def test_vectors_gram_matrix_and_backward_equation_agree():
    """Three tokens, ReLU, d = 6: means of all overlaps at t = 1 by three routes."""
    law, start = of_activation("relu"), np.array([0.3, -0.2, 0.5])
    exact = [0.54369, 0.37696, 0.62735]
    pair = Backward(TwoPoint(6, law))
    np.testing.assert_allclose([pair.averages(lambda r: r, [1.0], s)[0] for s in start], exact, atol=1e-5)
    gram = np.eye(3)
    i, j = np.triu_indices(3, 1)
    gram[i, j] = gram[j, i] = start
    x = np.zeros((2000, 3, 6))
    x[:, :, :3] = np.linalg.cholesky(gram)
    y = np.asarray(run_network(GaussianField(law), x, layers=50, step=0.02, seed=5)[-1])
    vectors = mean(np.stack([np.sum(y[:, a] * y[:, b], axis=-1) for a, b in zip(i, j, strict=True)], axis=1))
    matrix = run_gram(law, jnp.asarray(start), jax.random.key(6), 0.02, d=6, n=3, repeats=2000, steps=50)
    overlaps = mean(np.asarray(matrix))
    for found in (vectors, overlaps):
        assert found.agrees(exact, slack=0.01), found
    products = [mean(r[:, 0] * r[:, 1]) for r in (np.einsum("kad,kbd->kab", y, y)[:, i, j], np.asarray(matrix))]
    for found in products:
        assert found.agrees(0.3205, slack=0.01), found


def test_one_time_is_a_time():
    equation = Backward(TwoPoint(3, of_powers([1.0])), cells=200)
    one, two = equation.averages(lambda r: r, 0.7, start=0.3), equation.averages(lambda r: r, [0.7], start=0.3)
    np.testing.assert_array_equal(one, two)
    with pytest.raises(SphereflowError, match="times"):
        equation.averages(lambda r: r, [0.7, 0.2])


@pytest.mark.parametrize("threshold", [coercive_above, synchronises_below])
def test_a_ratio_that_is_none_has_no_threshold(threshold):
    """NaN compares with nothing: it had the threshold of an infinite dimension."""
    for ratio in (float("nan"), -1.0):
        with pytest.raises(SphereflowError, match="ratio must be"):
            threshold(ratio)
