"""Attention in R^d against plain NumPy, and the rescaled variables against the original ones."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.linalg import expm
from scipy.special import softmax

from sphereflow import SphereflowError
from sphereflow.dynamics import EuclideanAttention, RescaledAttention, RescaledFeedForward
from sphereflow.dynamics.specification import describe, rebuild

RANDOM = np.random.default_rng(0)
N, D = 7, 3
X = RANDOM.normal(size=(N, D))
Q, K = RANDOM.normal(size=(2, 2, D))
V = RANDOM.normal(size=(D, D))
# One compiled program for a kind of model and a size.
field = eqx.filter_jit(lambda model, t, x: model.field(t, x))
matrix = eqx.filter_jit(lambda model, t, x: model.attention_matrix(t, x))

DEFECTIVE = np.array([[0.5, 1.0, 0.0], [0.0, 0.5, 1.0], [0.0, 0.0, 0.5]])


def test_the_field_is_the_equation_written_out():
    found = field(EuclideanAttention(V, query=Q, key=K), jnp.zeros(()), X)
    for i in range(N):
        logits = np.array([Q @ X[i] @ (K @ X[j]) for j in range(N)])
        weights = np.exp(logits) / np.exp(logits).sum()
        np.testing.assert_allclose(found[i], sum(weights[j] * V @ X[j] for j in range(N)), rtol=1e-12)


def test_masses_are_repetitions_and_massless_tokens_are_not_seen():
    repeated = np.concatenate([X, X[:1]])
    now = jnp.zeros(())
    plain = field(EuclideanAttention(V), now, repeated)
    masses = np.array([2.0] + [1.0] * (N - 1)) / (N + 1)
    weighted = field(EuclideanAttention(V, weights=masses), now, X)
    np.testing.assert_allclose(weighted, plain[:N], rtol=1e-12)
    ghost = EuclideanAttention(V, weights=np.append(np.full(N, 1 / N), 0.0))
    seen = field(ghost, now, np.concatenate([X, 100 * X[:1]]))
    np.testing.assert_allclose(seen[:N], field(EuclideanAttention(V), now, X), rtol=1e-12)


def test_huge_logits_give_hardmax_not_nan():
    matrix = EuclideanAttention().attention_matrix(0.0, jnp.asarray(1e80 * X))
    np.testing.assert_array_equal(matrix, np.eye(N)[np.argmax(X @ X.T, axis=1)])
    with np.errstate(over="ignore", invalid="ignore"):
        naive = np.exp(1e4 * X @ X.T)
        assert np.isnan(naive / naive.sum(axis=1, keepdims=True)).any()


@pytest.mark.fast_cases("all-value2", "growing-value0")
@pytest.mark.parametrize("value", [V, V + V.T, DEFECTIVE, np.array([[0, 1.0, 0], [-1, 0, 0], [0, 0, 0.3]])])
@pytest.mark.parametrize("directions", ["all", "growing"])
def test_rescaled_variables_are_the_original_ones_rescaled(value, directions):
    original = EuclideanAttention(0.4 * value, query=0.3 * Q, key=0.3 * K)
    rescaled = RescaledAttention(original, D, directions)
    np.testing.assert_allclose(rescaled.propagator(0.7), expm(0.7 * np.asarray(rescaled.generator)), atol=1e-10)
    t, y = jnp.asarray(0.7), jnp.asarray(X)
    x = rescaled.x(t, y)
    np.testing.assert_allclose(rescaled.y(t, x), X, atol=1e-10)
    # The chain rule: d/dt (e^{tG} y) must be the original field.
    moved = (np.asarray(field(rescaled, t, y)) + X @ rescaled.generator.T) @ rescaled.propagator(t).T
    np.testing.assert_allclose(moved, field(original, t, x), atol=1e-9)
    np.testing.assert_allclose(matrix(rescaled, t, y), matrix(original, t, x), atol=1e-12)


def test_growing_directions_leave_the_others_alone():
    rates, right = np.linalg.eig(V)
    expected = (right * np.where(rates.real > 0, rates, 0)) @ np.linalg.inv(right)
    np.testing.assert_allclose(
        RescaledAttention(EuclideanAttention(V), D, "growing").generator, expected.real, atol=1e-12
    )
    # e_1 grows, (1, -3/4) shrinks and is left alone: the projection along it is oblique.
    oblique = RescaledAttention(EuclideanAttention(np.array([[1.0, 2.0], [0.0, -0.5]])), 2, "growing")
    np.testing.assert_allclose(oblique.generator, [[1.0, 4 / 3], [0.0, 0.0]], atol=1e-14)
    shrinking = RescaledAttention(EuclideanAttention(-np.eye(D)), D, "growing")
    np.testing.assert_array_equal(shrinking.generator, np.zeros((D, D)))


def test_feed_forward_is_the_equation_written_out():
    t, w = 0.4, RANDOM.normal(size=(D, D))
    grown = X @ expm(t * V).T
    attention = softmax((grown @ Q.T) @ (grown @ K.T).T, axis=1)
    expected = np.maximum((attention @ X - X) @ V.T, 0) @ w.T
    model = RescaledFeedForward(EuclideanAttention(V, query=Q, key=K), D, "relu", output=w)
    np.testing.assert_allclose(field(model, jnp.asarray(t), X), expected, atol=1e-12)


def test_feed_forward_with_the_identity_activation_is_rescaled_attention():
    plain, linear = RescaledAttention(EuclideanAttention(), D), RescaledFeedForward(EuclideanAttention(), D, "linear")
    for t in (0.0, 0.5):
        np.testing.assert_allclose(field(plain, jnp.asarray(t), X), field(linear, jnp.asarray(t), X), atol=1e-12)


@pytest.mark.parametrize(
    "model",
    [
        EuclideanAttention(V, weights=np.full(N, 1 / N)),
        RescaledAttention(EuclideanAttention(DEFECTIVE), D),
        RescaledFeedForward(EuclideanAttention(V, query=Q, key=K), D, "tanh", output=np.eye(D)),
    ],
)
def test_models_survive_being_written_down(model):
    again = rebuild(*describe(model))
    t, x = jnp.asarray(0.3), jnp.asarray(X)
    np.testing.assert_array_equal(field(again, t, x), field(model, t, x))


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: EuclideanAttention(np.ones((2, 3))), "value must be numbers of shape"),
        (lambda: EuclideanAttention(query=np.ones(3)), "query must be numbers of shape"),
        (lambda: RescaledAttention(EuclideanAttention(np.eye(2)), 3), "must have shape"),
        (lambda: RescaledFeedForward(EuclideanAttention(), 3, "sine"), "activation must be one of"),
    ],
)
def test_bad_matrices_are_refused_with_a_sentence(make, sentence):
    with pytest.raises(SphereflowError, match=sentence):
        make()


def test_a_solver_carries_no_complex_numbers():
    """Eigenvalues a ± ib as real pairs, twice the same pair among them: diffrax does not vouch for complex numbers."""
    block = np.array([[0.3, 2.0], [-2.0, 0.3]])
    value = np.zeros((5, 5))
    value[:2, :2], value[2:4, 2:4], value[4, 4] = block, block, -0.7
    turned = np.linalg.qr(np.random.default_rng(4).normal(size=(5, 5)))[0]
    rescaled = RescaledAttention(EuclideanAttention(value=turned @ value @ turned.T), 5)
    assert rescaled._eigen is not None
    assert not any(np.iscomplexobj(leaf) for leaf in jax.tree.leaves(rescaled))
    for t in (-1.3, 0.9):
        np.testing.assert_allclose(rescaled.propagator(t), expm(t * turned @ value @ turned.T), rtol=0, atol=1e-11)
