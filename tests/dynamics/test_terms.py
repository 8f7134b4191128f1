"""Perceptrons, sums, reversals and piecewise-constant weights."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, special, stats

from sphereflow import SA, USA, EuclideanAttention, Perceptron, PiecewiseConstant, SphereflowError, draw, evolve
from sphereflow.dynamics import ACTIVATIONS
from sphereflow.dynamics.activations import activation, primitive
from sphereflow.sphere import exponential, project

NOW = jnp.zeros(())

# One compiled program each for a kind of model and a size.
field = eqx.filter_jit(lambda model, x: model.field(NOW, x))
energy = eqx.filter_jit(lambda model, x: model.energy(x))
energy_rate = eqx.filter_jit(lambda model, x: model.energy_rate(x))


def neurons(d, count=4, name="relu", seed=0):
    rng = np.random.default_rng(seed)
    return Perceptron(rng.normal(size=count), rng.normal(size=(count, d)), rng.normal(size=count) / 3, name)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_primitive_is_twice_the_integral_of_the_activation(name):
    values = jax.jit(lambda s: (activation(name, s), primitive(name, s)))
    for a, b in ((-3.0, -0.5), (-1.0, 2.0), (0.3, 6.0)):
        area = integrate.quad(lambda s: float(values(s)[0]), a, b, points=[0.0] if a < 0 < b else None)
        assert float(values(b)[1] - values(a)[1]) == pytest.approx(2 * area[0], abs=1e-9)


def test_softplus_primitive_is_the_dilogarithm_and_differentiates():
    s = np.linspace(-30, 30, 61)
    np.testing.assert_allclose(primitive("softplus", jnp.asarray(s)), -2 * special.spence(1 + np.exp(s)), rtol=1e-12)
    slope = jax.jit(jax.vmap(jax.grad(lambda u: primitive("softplus", u))))(jnp.asarray(s))
    np.testing.assert_allclose(slope, 2 * np.logaddexp(0, s), rtol=1e-12)


@pytest.mark.fast_cases("relu-3")
@pytest.mark.parametrize(("name", "d"), [*((name, 3) for name in ACTIVATIONS), ("relu", 2), ("gelu", 8)])
def test_perceptron_and_attention_together_are_a_gradient_flow(name, d):
    model = USA(1.3, kernel_scale="raw") + neurons(d, name=name)
    x = draw("uniform", 7, d, 1)
    tangent = np.asarray(project(x, jax.random.normal(jax.random.key(2), x.shape)))
    velocity, h = np.asarray(field(model, x)), 1e-5
    ahead, behind = (float(energy(model, exponential(x, sign * h * tangent))) for sign in (1, -1))
    assert (ahead - behind) / (2 * h) == pytest.approx(np.sum(velocity * tangent) / 7, rel=1e-6)
    assert float(energy_rate(model, x)) == pytest.approx(np.sum(velocity**2) / 7, rel=1e-12)


def test_the_gelu_primitive_without_its_phi_term_is_not_the_energy():
    s = jnp.linspace(-3, 3, 7)
    wrong = s**2 * stats.norm.cdf(s) + s * stats.norm.pdf(s)
    right = primitive("gelu", s)
    np.testing.assert_allclose(
        wrong - right, stats.norm.cdf(s), atol=1e-12
    )  # derivative off by the density, up to 0.399


def test_sum_and_reversal():
    x = draw("uniform", 7, 3, 1)
    attention, mlp = USA(2.0), neurons(3)
    pulled = np.asarray(field(attention, x))
    np.testing.assert_allclose(field(attention + mlp, x), pulled + field(mlp, x), atol=1e-15)
    np.testing.assert_array_equal(field(-attention, x), -pulled)
    assert float(energy_rate(-attention, x)) == -float(energy_rate(attention, x))
    with pytest.raises(SphereflowError, match="not a gradient flow"):
        (SA(2.0) + mlp).energy(x)
    with pytest.raises(SphereflowError, match="same space"):
        attention + EuclideanAttention()


def test_weighted_sum_uses_the_same_masses_in_both_terms():
    x = draw("uniform", 3, 3, 1)
    doubled = jnp.concatenate([x, x[:1]])
    weighted = USA(1.0, weights=jnp.array([0.5, 0.25, 0.25])) + neurons(3)
    plain = USA(1.0) + neurons(3)
    assert float(energy(weighted, x)) == pytest.approx(float(energy(plain, doubled)), rel=1e-13)
    assert float(energy_rate(weighted, x)) == pytest.approx(float(energy_rate(plain, doubled)), rel=1e-12)


@pytest.mark.slow
def test_piecewise_weights_equal_running_the_pieces_one_after_the_other():
    rng = np.random.default_rng(0)
    pieces = [SA(2.0, value=rng.normal(size=(3, 3))) for _ in range(3)]
    x = draw("uniform", 6, 3, 2)
    whole = evolve(PiecewiseConstant([0.7, 1.1], pieces), x, 2.0, saveat=[0.0, 2.0], tol=1e-10).final
    step = x
    for piece, (a, b) in zip(pieces, [(0.0, 0.7), (0.7, 1.1), (1.1, 2.0)], strict=True):
        step = evolve(piece, step, b, t0=a, saveat=2, tol=1e-11).final
    np.testing.assert_allclose(whole, step, atol=1e-10)


def test_a_piece_holds_from_its_time_on_and_every_jump_is_announced():
    pieces = [SA(beta) for beta in (1.0, 2.0, 3.0)]
    model = PiecewiseConstant([0.7, 1.1], pieces)
    at = [float(model.piece(t).beta) for t in (0.0, 0.7, 1.0, 1.1, 5.0)]
    assert at == [1.0, 2.0, 2.0, 3.0, 3.0]
    np.testing.assert_array_equal(model.traits.jump_times, [0.7, 1.1])
    x = draw("uniform", 3, 3)
    np.testing.assert_array_equal(model.field(jnp.asarray(0.7), x), pieces[1].field(NOW, x))


@pytest.mark.parametrize(
    ("build", "sentence"),
    [
        (lambda: PiecewiseConstant([1.0], [SA(1.0)]), "1 pieces need 0 switching times"),
        (lambda: PiecewiseConstant([1.0, 0.5], [SA(1.0)] * 3), "must increase"),
        (lambda: PiecewiseConstant([1.0], [SA(1.0), EuclideanAttention()]), "same space"),
        (lambda: Perceptron(np.ones(2), np.ones((3, 2))), "outer weights of shape"),
        (lambda: Perceptron(np.ones(2), np.ones((2, 2)), np.ones(3)), "biases must have shape"),
        (lambda: Perceptron(np.ones(2), np.ones((2, 2)), activation="swish"), "activation must be one of"),
    ],
)
def test_bad_terms_get_one_sentence(build, sentence):
    with pytest.raises(SphereflowError, match=sentence):
        build()
