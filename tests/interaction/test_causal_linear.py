"""Causal attention in linear time: equal to the masked sum, blind to the future bit by bit."""

import expansion_oracle as oracle
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from attention_oracle import unit
from expansions_by_name import expanded

from sphereflow.errors import SphereflowError
from sphereflow.interaction import Alibi, Causal, attend
from sphereflow.interaction.causal import prefix_mass

N = 300  # more than two chunks
RNG = np.random.default_rng(0)
CIRCLE = jnp.asarray(oracle.circle(RNG.uniform(-np.pi, np.pi, N)))
SPHERE = jnp.asarray(unit(RNG, N, 3))


def engine(x, beta, mask, modes=40, **options):
    if x.shape[1] == 2:
        return expanded("fourier", x, x, x, beta, mask=mask, modes=modes, unit_queries=True, **options)
    return expanded("harmonic", x, x, x, beta, mask=mask, modes=30, **options)


@pytest.mark.fast_cases("circle-strict-alibi")
@pytest.mark.parametrize(
    ("x", "strict", "slope"),
    [(CIRCLE, False, None), (CIRCLE, True, 0.02), (SPHERE, True, None), (SPHERE, False, 0.02)],
    ids=["circle", "circle-strict-alibi", "sphere-strict", "sphere-alibi"],
)
def test_prefix_sums_are_the_masked_sum(x, strict, slope):
    mask = Causal(strict) if slope is None else Alibi(jnp.asarray(slope), strict)
    found = engine(x, 6.0, mask, tol=1e-10)
    expected = oracle.attention(x, x, x, 6.0, log_p=oracle.causal(N, strict, slope or 0.0))
    errors = oracle.worst_errors(found.attended, *expected, x)
    assert max(errors) < 1e-12
    if strict:
        assert np.isneginf(found.attended.log_partition[0])
        np.testing.assert_array_equal(found.attended.average[0], 0)


@pytest.mark.slow
def test_unnormalised_sums_have_no_small_denominators():
    """The average over the visible tokens of kernel times value, without recomputed rows."""
    found = engine(CIRCLE, 6.0, Causal(), rescue=False).attended
    mean = found.average * jnp.exp(found.log_partition)[:, None] * N / (jnp.arange(N) + 1)[:, None]
    average, log_z = oracle.attention(CIRCLE, CIRCLE, CIRCLE, 6.0, log_p=oracle.causal(N))
    np.testing.assert_allclose(
        mean, average * np.exp(log_z)[:, None] * N / (np.arange(N) + 1)[:, None], rtol=0, atol=1e-13
    )


@pytest.mark.slow
@pytest.mark.parametrize("x", [CIRCLE, SPHERE], ids=["circle", "sphere"])
def test_the_future_cannot_be_seen(x):
    run = jax.jit(lambda y: engine(y, 6.0, Causal()).attended)
    before = run(x)
    for k in (3, 127, 128, 200):
        after = run(x.at[k].multiply(-1))
        for a, b in zip(before, after, strict=True):
            np.testing.assert_array_equal(a[:k], b[:k])
            assert not np.array_equal(a[k:], b[k:])


@pytest.mark.slow
def test_lonely_tokens_of_a_strict_sequence():
    """A token that sees only others far away: its row is computed directly, not noise."""
    theta = np.full(N, 0.1)
    theta[200] = 2.9
    x = jnp.asarray(oracle.circle(theta))
    found = engine(x, 60.0, Causal(strict=True), modes=100)
    expected = oracle.attention(x, x, x, 60.0, log_p=oracle.causal(N, strict=True))
    assert expected[1][200] < -100
    assert max(oracle.worst_errors(found.attended, *expected, x)) < 1e-9
    assert int(found.recomputed) == 1


@pytest.mark.slow
def test_derivatives_through_the_recursion():
    def through(engine):
        def score(x, slope):
            found = engine(x, Alibi(slope))
            return jnp.sum(found.average**3) + jnp.sum(found.log_partition)

        return jax.jit(jax.grad(score, argnums=(0, 1)))(CIRCLE, jnp.asarray(0.02))

    fast = through(lambda x, mask: engine(x, 6.0, mask).attended)
    slow = through(lambda x, mask: attend(x, x, x, 6.0, mask=mask, method="direct"))
    for a, b in zip(fast, slow, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-10 * np.abs(np.asarray(b)).max())


def test_queries_and_keys_must_match():
    with pytest.raises(SphereflowError, match="one query per key"):
        expanded("fourier", CIRCLE[:5], CIRCLE, CIRCLE, 1.0, mask=Causal(), unit_queries=True)
    with pytest.raises(SphereflowError, match="no causal form"):
        expanded("fourier", CIRCLE, CIRCLE, CIRCLE, 1.0, mask=Causal(), unit_queries=True, nufft=True)


@pytest.mark.parametrize("slope", [None, 0.3])
@pytest.mark.parametrize("strict", [False, True])
def test_the_mass_that_a_token_sees(slope, strict):
    """The error bound is proportional to it; written out, j <= i or j < i with its positional weight."""
    w = np.random.default_rng(1).uniform(0.1, 1, 9)
    weight = np.exp(oracle.causal(9, strict, slope or 0.0))
    found = prefix_mass(jnp.asarray(w), None if slope is None else jnp.asarray(slope), strict)
    np.testing.assert_allclose(found, weight @ w, rtol=1e-13)
