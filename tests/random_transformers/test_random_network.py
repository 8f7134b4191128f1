"""The discrete network and its laws, against whole matrices in NumPy; the Gram chain against the network."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import ks_2samp

from sphereflow.errors import SphereflowError
from sphereflow.random_transformers import weight_laws as laws
from sphereflow.random_transformers.depth_observables import effective_rank, first_passage, mean_log_gap, pair_overlap
from sphereflow.random_transformers.gram_chain import run_gram
from sphereflow.random_transformers.network import RandomNetwork, advance, prompts, realisation_keys, run
from sphereflow.random_transformers.weight_laws import AnyLaw, matrices, weights

SAMPLES = 3000


def corners(law, r, d):
    keys = jax.random.split(jax.random.key(3), SAMPLES)
    draw = lambda k: law.leading_block(jax.random.normal(k, (law.normals(r, d),)), jax.random.fold_in(k, 9), r, d)  # noqa: E731
    return np.asarray(jax.jit(jax.vmap(draw))(keys))


@pytest.mark.fast_cases("orthogonal-3-6")
@pytest.mark.parametrize(("name", "r", "d"), [("product", 3, 64), ("orthogonal", 3, 6)])
def test_a_corner_has_the_law_of_the_corner_of_whole_matrices(name, r, d):
    """Second and fourth moments of one entry and the trace, against d x d draws in NumPy."""
    rng = np.random.default_rng(0)
    if name == "product":
        whole = np.einsum("sia,sja->sij", *rng.standard_normal((2, SAMPLES, r, d)))
        law = laws.ProductMatrix()
        assert law.normals(r, d) == r * (r - 1) // 2 + r * r
    else:
        q, upper = np.linalg.qr(rng.standard_normal((SAMPLES, d, r)))
        whole = (q * np.sign(np.diagonal(upper, axis1=1, axis2=2))[:, None, :])[:, :r]
        law = laws.Orthogonal()
    drawn = corners(law, r, d)
    for statistic in (lambda a: a[:, 0, 1], lambda a: a[:, 2, 2], lambda a: np.linalg.norm(a, axis=(1, 2))):
        assert ks_2samp(statistic(drawn), statistic(whole)).pvalue > 1e-3


@pytest.mark.parametrize("shape", [(3, 2), (3, 7), (4, 20_000)])
def test_lower_root(shape):
    m = np.random.default_rng(0).standard_normal(shape)
    m[1] = m[0]  # dependent rows do not hurt
    root = np.asarray(jax.jit(laws.lq_factor)(jnp.asarray(m)))
    assert root.shape == (shape[0], min(shape))
    np.testing.assert_allclose(root @ root.T, m @ m.T, atol=1e-12 * max(shape))


def test_whole_orthogonal_matrices_are_orthogonal():
    draw = eqx.filter_jit(lambda law, key: law.sample(key, 5))
    _, a = draw(matrices(weights("orthogonal", d=5, score_scale=5**-0.5)), jax.random.key(0))
    v, _ = draw(matrices(weights("identity", d=5, value="orthogonal")), jax.random.key(1))
    for q in (a, v):
        np.testing.assert_allclose(q @ q.T, np.eye(5), atol=1e-12)


def test_one_layer_with_given_matrices():
    """A non-symmetric A and two heads by explicit loops: the query is A x, the softmax is over the keys, heads 1/H."""
    rng = np.random.default_rng(1)
    x = rng.standard_normal((4, 3))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    v, a = rng.standard_normal((2, 3, 3))
    moved = np.zeros((4, 3))
    for i in range(4):
        e = np.array([np.exp(1.7 * (a @ x[i]) @ x[k]) for k in range(4)])
        moved[i] = x[i] + 0.3 * v @ (e @ x / e.sum())
    moved /= np.linalg.norm(moved, axis=1, keepdims=True)
    fixed = AnyLaw(lambda key, d: (jnp.asarray(v), jnp.asarray(a)))
    found = RandomNetwork(fixed, 1.7, 0.3, heads=2).layer(jax.random.key(0), jnp.asarray(x))
    np.testing.assert_allclose(found, moved, atol=1e-13)
    hard = RandomNetwork(fixed, 1e8, 0.3).layer(jax.random.key(0), jnp.asarray(x))
    limit = RandomNetwork(fixed, 1.0, 0.3, attention="hardmax").layer(jax.random.key(0), jnp.asarray(x))
    np.testing.assert_allclose(hard, limit, atol=1e-12)


def overlaps_after(law, n, d, heads, layers, *, beta=1.5, number=400):
    x0 = np.broadcast_to(np.eye(n, d), (number, n, d))
    return run(RandomNetwork(law, beta, 0.4, heads), x0, layers, observe=pair_overlap, seed=5).values[:, 0]


@pytest.mark.slow
@pytest.mark.fast_cases("3-6-2")
@pytest.mark.parametrize(("n", "d", "heads"), [(3, 6, 2), (5, 3, 2)])
def test_few_draws_and_whole_matrices_have_the_same_law(n, d, heads):
    law = weights("product", d=d)
    if n <= d:
        few, whole = (overlaps_after(each, n, d, heads, 12) for each in (law, matrices(law)))
    else:
        rng = np.random.default_rng(2)
        x = rng.standard_normal((n, d))
        x0 = np.broadcast_to(x / np.linalg.norm(x, axis=1, keepdims=True), (400, n, d))
        few, whole = (
            run(RandomNetwork(each, 1.5, 0.4, heads), x0, 12, observe=pair_overlap, seed=5).values[:, 0]
            for each in (law, matrices(law))
        )
    assert ks_2samp(few, whole).pvalue > 1e-3


def test_the_gram_chain_has_the_law_of_the_network():
    law = weights("product", d=6)
    network = RandomNetwork(law, 1.5, 0.4, 2)
    chain = run_gram(network, np.eye(3), 6, [12], 400, observe=pair_overlap, seed=8).values[:, 0]
    assert ks_2samp(chain, overlaps_after(law, 3, 6, 2, 12)).pvalue > 1e-3


@pytest.mark.slow
def test_close_tokens_keep_their_distances():
    """No floor from jitter: after a long collapse gaps go on shrinking at the common rate."""
    network = RandomNetwork(weights("product", d=8), 1.0, 0.5)
    gram = np.ones((3, 3)) - 1e-8 * (1 - np.eye(3))
    seen = run_gram(network, gram, 8, [0, 40, 80], 50, observe=mean_log_gap).values.mean(axis=0)
    assert seen[2] - seen[1] == pytest.approx(seen[1] - seen[0], rel=0.15)
    assert seen[2] < np.log(1e-13)


def test_prompts_do_not_see_each_other():
    law = weights("product", d=4)
    rng = np.random.default_rng(0)
    x = rng.standard_normal((1, 5, 4))
    x /= np.linalg.norm(x, axis=-1, keepdims=True)
    whole = matrices(law)
    keys = realisation_keys(0, 1)
    bounds = jnp.asarray(0), jnp.asarray(5)
    both = advance(RandomNetwork(whole, 1.0, 0.3, mask=prompts(2, 3)), keys, jnp.asarray(x), *bounds)
    first = advance(RandomNetwork(whole, 1.0, 0.3), keys, jnp.asarray(x[:, :2]), *bounds)
    np.testing.assert_allclose(both[:, :2], first, atol=1e-12)


def test_user_laws_and_deep_runs():
    """Signs instead of Gaussians, 10^5 layers of a tiny network: unit tokens, nothing stored per layer."""
    sign = AnyLaw(lambda key, d: (jax.random.rademacher(key, (d, d), float) / d**0.5, jnp.eye(d)))
    x0 = np.broadcast_to(np.eye(2, 4), (1, 2, 4))
    seen = run(RandomNetwork(sign, 1.0, 0.05), x0, [0, 100_000], observe=lambda x: x).values
    np.testing.assert_allclose(np.linalg.norm(seen[:, 1], axis=-1), 1, atol=1e-12)


def test_requests_that_cannot_be_served():
    network = RandomNetwork(weights("product", d=4), 1.0, 0.1)
    with pytest.raises(SphereflowError, match="realisations, n, d"):
        run(network, np.eye(4)[None, None], 3, observe=pair_overlap)
    with pytest.raises(SphereflowError, match="increasing"):
        run(network, np.eye(4)[None], [5, 3], observe=pair_overlap)
    with pytest.raises(SphereflowError, match="fewer tokens"):
        run_gram(network, np.eye(4), 4, [1], 2, observe=pair_overlap)
    with pytest.raises(SphereflowError, match="unit vectors"):
        run_gram(network, 2 * np.eye(2), 4, [1], 2, observe=pair_overlap)
    with pytest.raises(SphereflowError, match="score must be one of"):
        weights("sparse", d=4)


def test_observables_on_known_configurations():
    x = np.stack([np.eye(4), np.tile(np.eye(4)[:1], (4, 1))])
    np.testing.assert_allclose(effective_rank(x), [4, 1], atol=1e-9)
    np.testing.assert_allclose(pair_overlap(x), [0, 1], atol=1e-12)
    passage, share = first_passage(np.array([0.0, 10, 20]), np.array([[0, 0.4, 0.8], [0, 0.2, 0.3]]), 0.6)
    assert np.isnan(passage.value)
    assert share == 0.5
    passage, _ = first_passage(np.array([0.0, 10, 20]), np.array([[0, 0.4, 0.8], [0, 0.8, 0.9]]), 0.6)
    assert passage.value == pytest.approx((15 + 7.5) / 2)
