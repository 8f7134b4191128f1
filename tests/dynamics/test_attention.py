"""Attention on the sphere against loops, closed forms and its own energy."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sphereflow import SA, USA, Alibi, Attention, Causal, SphereflowError, draw
from sphereflow.sphere import equiangular_frame, exponential, project

# One compiled program for a kind of model and a size; outside of `jit` every operation is compiled on its own.
velocity = eqx.filter_jit(lambda model, x: model.field(jnp.zeros(()), x))
energy_of = eqx.filter_jit(lambda model, x: model.energy(x))
energy_rate_of = eqx.filter_jit(lambda model, x: model.energy_rate(x))


def field(model, x):
    return np.asarray(velocity(model, jnp.asarray(x)))


def unit(n, d, seed):
    """n tokens, drawn without compiling anything."""
    x = np.random.default_rng(seed).normal(size=(n, d))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def loop_field(x, beta, *, softmax, query=None, key=None, value=None, weights=None, p=lambda i, j: 1.0, raw=False):
    """The equation, one pair at a time, in NumPy."""
    x = np.asarray(x)
    n, d = x.shape
    query, key, value = (np.eye(d) if m is None else np.asarray(m) for m in (query, key, value))
    weights = np.full(n, 1 / n) if weights is None else np.asarray(weights)
    velocity = np.zeros((n, d))
    for i in range(n):
        total, partition, visible = np.zeros(d), 0.0, 0.0
        for j in range(n):
            k = weights[j] * p(i, j) * np.exp(beta * ((query @ x[i]) @ (key @ x[j]) - (0 if raw else 1)))
            total += k * (value @ x[j])
            partition += k
            visible += weights[j] * p(i, j)
        norm = partition if softmax else visible
        pull = total / norm if norm > 0 else total
        velocity[i] = pull - (x[i] @ pull) * x[i]
    return velocity


@given(st.sampled_from([(1, 1), (7, 1), (2, 4), (6, 3)]), st.floats(0, 8), st.booleans(), st.integers(0, 999))
def test_field_is_the_equation(size, beta, softmax, seed):
    x = unit(*size, seed)
    model = Attention(beta, "softmax" if softmax else "mean")
    np.testing.assert_allclose(field(model, x), loop_field(x, beta, softmax=softmax), atol=1e-13)


@pytest.mark.parametrize("softmax", [True, False])
def test_matrices_weights_and_masks_enter_where_they_should(softmax):
    rng = np.random.default_rng(1)
    x = unit(6, 4, 3)
    query, key, value = rng.normal(size=(2, 4)), rng.normal(size=(2, 4)), rng.normal(size=(4, 4))
    weights = rng.dirichlet(np.ones(6))
    masks = [
        (None, lambda i, j: 1.0),
        (Causal(), lambda i, j: float(j <= i)),
        (Causal(strict=True), lambda i, j: float(j < i)),
        (Alibi(jnp.asarray(0.3)), lambda i, j: np.exp(-0.3 * (i - j)) * (j <= i)),
    ]
    for mask, p in masks:
        model = Attention(
            1.7, "softmax" if softmax else "mean", query=query, key=key, value=value, weights=weights, mask=mask
        )
        loop = loop_field(x, 1.7, softmax=softmax, query=query, key=key, value=value, weights=weights, p=p)
        np.testing.assert_allclose(field(model, x), loop, atol=1e-12)


def test_heads_add_up():
    rng = np.random.default_rng(2)
    x = unit(6, 3, 0)
    query, key, value = (rng.normal(size=(4, 3, 3)) for _ in range(3))
    together = field(Attention(2.0, query=query, key=key, value=value), x)
    apart = sum(field(Attention(2.0, query=query[h], key=key[h], value=value[h]), x) for h in range(4))
    np.testing.assert_allclose(together, apart, atol=1e-13)


@given(st.sampled_from([(2, 4), (6, 3)]), st.floats(0, 20), st.integers(0, 999))
def test_rotations_and_permutations_commute_with_the_field(size, beta, seed):
    x = unit(*size, seed)
    rng = np.random.default_rng(seed)
    rotation = np.linalg.qr(rng.normal(size=(size[1], size[1])))[0]
    order = rng.permutation(size[0])
    for model in (SA(beta), USA(beta)):
        moved = field(model, x)
        np.testing.assert_allclose(field(model, x @ rotation), moved @ rotation, atol=1e-12)
        np.testing.assert_allclose(field(model, x[order]), moved[order], atol=1e-12)


def test_raw_kernel_runs_faster_by_e_to_the_beta_in_usa_and_not_in_sa():
    x = unit(6, 3, 1)
    ratio = field(USA(3.0, kernel_scale="raw"), x) / field(USA(3.0), x)
    np.testing.assert_allclose(ratio, np.exp(3.0), rtol=1e-9)
    np.testing.assert_array_equal(field(SA(3.0, kernel_scale="raw"), x), field(SA(3.0), x))


@pytest.mark.parametrize("beta", [0.0, 2.0, 50.0])
def test_fixed_points_and_the_speed_of_an_orthogonal_frame(beta):
    pair = jnp.array([[1.0, 0.0], [-1.0, 0.0]])
    simplex = equiangular_frame(4, 4, -1 / 3)
    for x in (pair, simplex):
        assert np.abs(field(SA(beta), x)).max() < 1e-13
        assert np.abs(field(USA(beta), x)).max() < 1e-13
    speeds = np.linalg.norm(field(SA(beta), draw("orthogonal", 5, 5)), axis=1)
    np.testing.assert_allclose(speeds, np.sqrt(4) / (np.exp(beta) + 4), rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("beta", [1e3, 1e6])
def test_huge_beta_gives_finite_fields_with_the_right_leader(beta):
    x = unit(50, 3, 4)
    masked = field(SA(beta, mask=Causal(strict=True)), x)
    assert np.isfinite(masked).all()
    nearest = int(np.argmax(x[:49] @ x[49]))
    np.testing.assert_allclose(masked[49], project(x[49], x[nearest]), atol=1e-9)
    np.testing.assert_array_equal(masked[0], 0)  # the first token sees nothing and stays


# --- energy ------------------------------------------------------------------------------------------------------

REFERENCE_STATE = {
    # beta: (E raw, dE/dt SA, dE/dt USA raw) for n=6, d=3, rows normalised (sin(1+i+2k+0.3ik))
    1: (0.6459201961, 0.0070263388, 0.0089449673),
    2: (0.6105718691, 0.0238966457, 0.0575442599),
    5: (3.5397106652, 0.3233579172, 12.8289519),
}


@pytest.mark.parametrize("beta", REFERENCE_STATE)
def test_energy_and_dissipation_at_the_reference_state(beta):
    i, k = np.arange(6)[:, None], np.arange(3)[None]
    x = np.sin(1 + i + 2 * k + 0.3 * i * k)
    x = x / np.linalg.norm(x, axis=1, keepdims=True)
    energy, sa_rate, usa_rate = REFERENCE_STATE[beta]
    sa, usa = SA(beta, kernel_scale="raw"), USA(beta, kernel_scale="raw")
    assert float(energy_of(sa, x)) == pytest.approx(energy, abs=1e-10)
    assert float(energy_rate_of(sa, x)) == pytest.approx(sa_rate, abs=1e-10)
    assert float(energy_rate_of(usa, x)) == pytest.approx(usa_rate, rel=1e-8)


@pytest.mark.fast_cases("False-1-mean", "True--1-softmax")
@pytest.mark.parametrize("normalise", ["softmax", "mean"])
@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("weighted", [False, True])
def test_dissipation_identity_with_a_symmetric_form(normalise, sign, weighted):
    rng = np.random.default_rng(4)
    root = rng.normal(size=(3, 3))
    form = root.T @ root + np.diag([0.3, -1.0, 0.2])
    weights = rng.dirichlet(np.ones(6)) if weighted else None
    model = Attention(1.3, normalise, query=form, key=np.eye(3), value=sign * form, weights=weights)
    x = unit(6, 3, 5)
    step, rate = 1e-5 * field(model, x), float(energy_rate_of(model, x))
    ahead, behind = (float(energy_of(model, exponential(x, towards))) for towards in (step, -step))
    assert rate == pytest.approx((ahead - behind) / 2e-5, rel=1e-6)
    assert np.sign(rate) == sign


def test_energy_at_beta_zero_is_the_limit():
    x = unit(6, 3, 2)
    found = float(energy_of(SA(0.0), x))
    assert found == pytest.approx(float(energy_of(SA(1e-5, kernel_scale="raw"), x)) - 1 / 2e-5, abs=1e-4)
    assert found == pytest.approx(np.sum(x.mean(axis=0) ** 2) / 2, abs=1e-15)


@pytest.mark.parametrize(
    "model",
    [SA(1.0, causal=True), SA(1.0, value=np.diag([1.0, 2.0])), SA(1.0, query=np.array([[0.0, 1.0], [0.0, 0.0]]))],
)
def test_models_without_energy_say_so(model):
    with pytest.raises(SphereflowError, match="has no energy"):
        model.energy(jnp.asarray(unit(3, 2, 0)))


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: Attention(1.0, "soft"), "normalise must be one of softmax, mean"),
        (lambda: Attention(1.0, kernel_scale="huge"), "kernel_scale must be one of peak, raw"),
        (lambda: Attention(1.0, value=np.ones(3)), "value must be numbers of shape"),
    ],
)
def test_bad_models_get_one_sentence(call, sentence):
    with pytest.raises(SphereflowError, match=sentence):
        call()
