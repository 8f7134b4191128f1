"""The direct engine against extended-precision sums, closed forms and the symmetries of attention."""

from __future__ import annotations

import jax
import jax.extend
import jax.numpy as jnp
import numpy as np
import pytest
from attention_oracle import BLOCK, MASKS, attention, log_p, make_mask, tolerance, unit
from hypothesis import given, settings
from hypothesis import strategies as st

from sphereflow.errors import SphereflowError
from sphereflow.interaction import Attended, Causal, Mask, PositionWeights, attend
from sphereflow.interaction.direct import default_block, direct_attention
from sphereflow.interaction.request import _check_shapes

seeds = st.integers(0, 2**32 - 1)
betas = st.sampled_from([0.0, 0.1, 1.0, 9.0, 200.0, 1e4, 1e6])


def direct(q, k, v, beta, w, mask=None, block=BLOCK, **options) -> Attended:
    beta = jnp.asarray(beta, q.dtype)
    return direct_attention(*(jnp.asarray(x) for x in (q, k, v)), beta, jnp.asarray(w), mask, block=block, **options)


def assert_close(given_: Attended, average: np.ndarray, log_z: np.ndarray, slack: float) -> None:
    np.testing.assert_allclose(given_.average, average, rtol=0, atol=slack)
    np.testing.assert_allclose(given_.log_partition, log_z, rtol=1e-15, atol=slack)


def draw_weights(rng: np.random.Generator, n: int, kind: str, dtype=np.float64) -> np.ndarray:
    if kind == "uniform":
        return np.full(n, 1 / n, dtype)
    w = rng.random(n) * 10.0 ** rng.integers(-20, 1, n)
    if kind == "zeros":
        w[rng.random(n) < 0.5] = 0
    return w.astype(dtype)


# The sizes go through block - 1, block and block + 1, and through oblong and several blocks.
SIZES = [(1, 1), (3, 5), (4, 4), (5, 3), (9, 8), (2, 50), (13, 17)]


@pytest.mark.fast_cases("3-5-none", "13-17-none", "13-17-strict", "5-4-table", "13-17-alibi")
@pytest.mark.parametrize(
    ("m", "n", "kind"),
    [(*size, "none") for size in SIZES] + [(m, n, kind) for m, n in ((5, 4), (13, 17)) for kind in MASKS[1:]],
)
@given(seed=seeds, beta=betas, w_kind=st.sampled_from(["uniform", "uneven", "zeros"]))
def test_agrees_with_the_oracle(m, n, kind, seed, beta, w_kind):
    rng = np.random.default_rng(seed)
    q, k, v = unit(rng, m, 3), unit(rng, n, 3), rng.normal(size=(n, 2))
    w = draw_weights(rng, n, w_kind)
    result = direct(q, k, v, beta, w, make_mask(kind))
    assert_close(result, *attention(q, k, v, beta, w, log_p(kind, m, n)), 4 * tolerance(beta, np.float64))


@pytest.mark.fast_cases("5-none", "13-causal")
@pytest.mark.parametrize(
    ("n", "kind"), [*((n, "none") for n in (3, 4, 5, 8, 13)), (5, "causal"), (13, "causal"), (13, "alibi")]
)
@given(seed=seeds, beta=betas, w_kind=st.sampled_from(["uniform", "uneven"]))
def test_fast_paths_agree_with_the_oracle(n, kind, seed, beta, w_kind):
    rng = np.random.default_rng(seed)
    x, v, w = unit(rng, n, 3), rng.normal(size=(n, 2)), draw_weights(rng, n, w_kind)
    expected = attention(x, x, v, beta, w, log_p(kind, n, n))
    for symmetric in (False, True):
        result = direct(x, x, v, beta, w, make_mask(kind), bounded=True, symmetric=symmetric)
        assert_close(result, *expected, 4 * tolerance(beta, np.float64))


@pytest.mark.slow
@settings(max_examples=12)  # each example is compiled
@given(
    m=st.integers(1, 40),
    n=st.integers(1, 40),
    d=st.sampled_from([1, 2, 7, 64]),
    block=st.sampled_from([1, 3, 8]),
    dtype=st.sampled_from([np.float32, np.float64]),
    beta=st.sampled_from([0.0, 3.0, 300.0]),
    kind=st.sampled_from(MASKS),
    seed=seeds,
)
def test_agrees_for_any_shape_and_type(m, n, d, block, dtype, beta, kind, seed):
    rng = np.random.default_rng(seed)
    q, k, v = unit(rng, m, d, dtype), unit(rng, n, d, dtype), rng.normal(size=(n, 3)).astype(dtype)
    w = draw_weights(rng, n, "zeros", dtype)
    result = direct(q, k, v, beta, w, make_mask(kind), block)
    assert result.average.dtype == dtype
    assert result.log_partition.dtype == dtype
    assert_close(result, *attention(q, k, v, beta, w, log_p(kind, m, n)), 4 * tolerance(beta, dtype))


@given(seed=seeds, beta=st.sampled_from([0.5, 20.0, 1e4]))
def test_order_and_orientation_do_not_matter(seed, beta):
    rng = np.random.default_rng(seed)
    q, k, v, w = unit(rng, 7, 3), unit(rng, 10, 3), rng.normal(size=(10, 2)), rng.random(10)
    plain = direct(q, k, v, beta, w)
    rows, order = rng.permutation(7), rng.permutation(10)
    permuted = direct(q[rows], k[order], v[order], beta, w[order])
    assert_close(permuted, plain.average[rows], plain.log_partition[rows], 4 * tolerance(beta, np.float64))
    turn = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    assert_close(direct(q @ turn, k @ turn, v, beta, w), *plain, 4 * tolerance(beta, np.float64))


@pytest.mark.fast_cases("False-causal", "True-strict")
@pytest.mark.parametrize("kind", ["causal", "strict", "alibi"])
@pytest.mark.parametrize("bounded", [False, True])
@given(seed=seeds, position=st.integers(1, 12), beta=st.sampled_from([1.0, 1e3]))
def test_a_token_never_sees_later_ones(kind, bounded, seed, position, beta):
    rng = np.random.default_rng(seed)
    x, v, w = unit(rng, 13, 3), rng.normal(size=(13, 2)), rng.random(13) + 0.1
    later, v2, w2 = x.copy(), v.copy(), w.copy()
    later[position:], v2[position:], w2[position:] = unit(rng, 13 - position, 3), 1e9, 1e-9
    one = direct(x, x, v, beta, w, make_mask(kind), bounded=bounded)
    two = direct(x, later, v2, beta, w2, make_mask(kind), bounded=bounded)
    np.testing.assert_array_equal(one.average[:position], two.average[:position])  # to the last bit
    np.testing.assert_array_equal(one.log_partition[:position], two.log_partition[:position])
    if kind != "strict":
        assert np.abs(one.average[position] - two.average[position]).max() > 0


def test_denominators_far_below_the_smallest_number():
    # Exact scores: beta (<q, k_j> - 1) = -2^21 + j, so Z = e^(-2^21) sum_j w_j e^j, about 10^(-910783).
    n, beta = 11, 2.0**20
    j = np.arange(n)
    k = np.stack([-1 + j / beta, np.sqrt(1 - (1 - j / beta) ** 2)], axis=1)
    terms = np.exp(j.astype(float)) / n
    order = np.random.default_rng(0).permutation(n)
    result = direct(np.array([[1.0, 0.0]]), k[order], j[order, None].astype(float), beta, np.full(n, 1 / n))
    np.testing.assert_allclose(result.average[0, 0], (terms * j).sum() / terms.sum(), rtol=1e-14)
    np.testing.assert_allclose(result.log_partition[0] + 2.0**21, np.log(terms.sum()), atol=2.0**21 * 2e-16)


def test_keys_of_zero_weight_do_not_exist():
    # The best key weighs nothing; all the others are antipodal, e^(-2000000) smaller.
    q, k = np.array([[1.0, 0.0]]), np.array([[1.0, 0.0]] * 3 + [[-1.0, 0.0]] * 4)
    v = np.array([1e300] * 3 + [1.0, 2.0, 3.0, 6.0])[:, None]
    result = direct(q, k, v, 1e6, np.array([0, 0, 0, 0.25, 0.25, 0.25, 0.25]))
    np.testing.assert_allclose(result.average, [[3.0]], rtol=1e-14)
    np.testing.assert_allclose(result.log_partition, [-2e6], rtol=1e-14)


def test_rows_that_see_nothing():
    x, v = jnp.eye(9), jnp.arange(18.0).reshape(9, 2)
    average, log_z = direct(x, x, v, 50.0, np.full(9, 1 / 9), Causal(strict=True))
    assert np.all(np.asarray(average[0]) == 0)
    assert log_z[0] == -np.inf
    np.testing.assert_allclose(average[1], v[0], rtol=1e-15)  # the second token sees the first alone
    np.testing.assert_allclose(log_z[1], -50 - np.log(9), rtol=1e-15)
    total = lambda x: direct(x, x, v, 50.0, np.full(9, 1 / 9), Causal(strict=True)).average.sum()  # noqa: E731
    slopes = jax.jit(jax.grad(total))(x)
    assert np.isfinite(slopes).all()


def test_infinite_temperature_is_the_plain_mean():
    rng = np.random.default_rng(0)
    w, v = rng.random(30), rng.normal(size=(30, 2))
    result = direct(unit(rng, 6, 4096), unit(rng, 30, 4096), v, 0.0, w)
    np.testing.assert_allclose(result.average, np.tile(w @ v / w.sum(), (6, 1)), rtol=1e-13)
    np.testing.assert_allclose(result.log_partition, np.log(w.sum()), rtol=1e-13)


def largest_array(function, *arguments) -> int:
    """Number of entries of the largest array that a traced function ever forms."""

    def visit(jaxpr) -> int:
        largest = max((v.aval.size for e in jaxpr.eqns for v in e.outvars if hasattr(v.aval, "size")), default=0)
        inner = [visit(sub) for e in jaxpr.eqns for sub in jax.extend.core.jaxprs_in_params(e.params)]
        return max([largest, *inner])

    return visit(jax.make_jaxpr(function)(*arguments).jaxpr)


@pytest.mark.parametrize("kind", ["none", "causal"])
@pytest.mark.parametrize("options", [{}, {"bounded": True}, {"bounded": True, "symmetric": True}])
def test_no_array_of_all_pairs_is_formed(kind, options):
    n, d, block = 512, 3, 32
    x, w = jnp.asarray(unit(np.random.default_rng(0), n, d)), np.full(n, 1 / n)

    def loss(x):
        average, log_z = direct(x, x, x, 4.0, w, make_mask(kind), block, **options)
        return jnp.sum(average**2) + jnp.sum(log_z)

    assert largest_array(lambda x: jnp.exp(x @ x.T), x) == n * n  # the yardstick sees such an array
    assert largest_array(loss, x) <= n * (d + 1)
    assert largest_array(jax.grad(loss), x) <= n * n // block


def test_hidden_blocks_are_not_visited():
    # This mask hides nothing, but says that it is causal: what is left out shows which blocks were skipped.
    rng = np.random.default_rng(0)
    x, v, w = unit(rng, 16, 3), rng.normal(size=(16, 2)), np.full(16, 1 / 16)
    liar = PositionWeights(lambda i, j: jnp.zeros(jnp.broadcast_shapes(i.shape, j.shape)), causal=True)
    block_of = np.arange(16) // BLOCK
    visited = np.where(block_of[None, :] <= block_of[:, None], 0, -np.inf)
    assert_close(direct(x, x, v, 2.0, w, liar), *attention(x, x, v, 2.0, w, visited), 1e-14)


def primitives(function, *arguments) -> str:
    return str(jax.make_jaxpr(function)(*arguments))


def test_the_front_door_chooses_the_path():
    n = default_block() + 100
    x = jnp.asarray(unit(np.random.default_rng(0), n, 3))
    promise = {"self_attention": True, "method": "direct"}
    general = primitives(lambda x: attend(x, x, x, 3.0), x)
    bounded = primitives(lambda x: attend(x, 1.0 * x, x, 3.0, **promise), x)
    symmetric = primitives(lambda x: attend(x, x, x, 3.0, **promise), x)
    strict = primitives(lambda x: attend(x, x, x, 3.0, **promise, mask=Causal(strict=True)), x)
    assert "reduce_max" in general
    assert "reduce_max" in strict  # the promise does not hold where a token does not see itself
    assert "reduce_max" not in bounded
    assert "custom_jvp" not in bounded
    assert "custom_jvp" in symmetric


@pytest.mark.parametrize("n", [9, 256, 300])
def test_few_tokens_and_small_blocks_agree_with_the_oracle(n):
    """Up to 256 tokens all pairs at once, then blocks of 128 that serve twice, the last one filled up."""
    x = unit(np.random.default_rng(2), n, 3)
    y = jnp.asarray(x)  # the very same array three times, or nothing is symmetric
    for beta in (0.0, 5.0, 1e4):
        found = attend(y, y, y, beta, self_attention=True, method="direct")
        assert_close(found, *attention(x, x, x, beta, np.full(n, 1 / n)), tolerance(beta, jnp.float64))
    for dtype in (jnp.float64, jnp.float32):
        z = y.astype(dtype)
        assert attend(z, z, z, 5.0, self_attention=True, method="direct").log_partition.dtype == dtype


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["none", "causal"])
def test_real_blocks_in_both_precisions(kind):
    n, d, beta = default_block() + 77, 4, 9.0
    rng = np.random.default_rng(1)
    x, w = unit(rng, n, d), rng.random(n) + 0.01
    expected = attention(x, x, x, beta, w, log_p(kind, n, n) if kind != "none" else 0.0)
    for dtype in (jnp.float64, jnp.float32):
        y, masses = jnp.asarray(x, dtype), jnp.asarray(w, dtype)
        for promise in (False, True):
            options = {"mask": make_mask(kind), "self_attention": promise, "method": "direct"}
            result = attend(y, y, y, beta, weights=masses, **options)
            assert result.average.dtype == dtype
            assert_close(result, *expected, tolerance(beta, dtype))


def test_default_weights_are_one_over_n():
    rng = np.random.default_rng(4)
    q, k, v = (jnp.asarray(x) for x in (unit(rng, 5, 3), unit(rng, 8, 3), rng.normal(size=(8, 2))))
    assert_close(attend(q, k, v, 2.0), *attention(q, k, v, 2.0, np.full(8, 1 / 8)), 1e-14)
    assert_close(attend(3 * q, k, v, 2.0), *attention(3 * q, k, v, 2.0, np.full(8, 1 / 8)), 1e-14)


@pytest.mark.parametrize(("kind", "fast"), [("none", True), ("causal", True), ("causal", False)])
def test_replicas_and_temperatures_by_vmap(kind, fast):
    rng = np.random.default_rng(6)
    x, v, w = unit(rng, 3 * 13, 3).reshape(3, 13, 3), rng.normal(size=(3, 13, 2)), np.full(13, 1 / 13)
    betas = np.array([0.0, 5.0, 1e5])

    def one(x, v, beta):
        return direct(x, x, v, beta, w, make_mask(kind), bounded=fast, symmetric=fast)

    batched = jax.jit(jax.vmap(one))(x, v, betas)
    for r, beta in enumerate(betas):
        expected = attention(x[r], x[r], v[r], beta, w, log_p(kind, 13, 13))
        assert_close(Attended(*(y[r] for y in batched)), *expected, tolerance(beta, np.float64))


@pytest.mark.parametrize(
    ("shapes", "word"),
    [
        (((3, 2), (3, 3), (3, 1), None), "dimension"),
        (((3, 2), (4, 2), (3, 1), None), "value per key"),
        (((3, 2), (4, 2), (4, 1), (3,)), "weights"),
        (((0, 2), (4, 2), (4, 1), None), "needs queries"),
    ],
)
def test_shapes_that_do_not_fit_are_named(shapes, word):
    arrays = [None if shape is None else jnp.zeros(shape) for shape in shapes]
    with pytest.raises(SphereflowError, match=word):
        _check_shapes(*arrays)


def test_a_new_mask_promises_nothing():
    class Window(Mask):
        def log_weight(self, i, j):
            return jnp.where(abs(i - j) < 2, 0.0, -jnp.inf)

    assert not Window().causal
    assert not Window().sees_itself
    rng = np.random.default_rng(0)
    x, w = unit(rng, 9, 3), np.full(9, 1 / 9)
    near = np.where(abs(np.subtract.outer(np.arange(9), np.arange(9))) < 2, 0, -np.inf)
    assert_close(direct(x, x, x, 5.0, w, Window()), *attention(x, x, x, 5.0, w, near), 1e-14)


def test_precision_is_that_of_the_tokens_and_masses_are_not_negative():
    rows = jnp.eye(2)
    share = 1 / (1 + np.exp(-1.0))
    np.testing.assert_allclose(attend(rows, rows, rows, 1.0).average[0], [share, 1 - share], rtol=1e-14)
    single = rows.astype(jnp.float32)
    assert attend(single, single, single, 1.0).average.dtype == jnp.float32
    with pytest.raises(SphereflowError, match="weights must be masses"):
        attend(rows, rows, rows, 1.0, weights=jnp.asarray([2.0, -1.0]))
