"""Harmonics for queries of any length on S^2, against pair-by-pair sums."""

import expansion_oracle as oracle
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import sphereflow as sf
from sphereflow.interaction import Harmonic, attend, choose
from sphereflow.interaction.harmonic_ball import SphereBall, radial_terms
from sphereflow.interaction.linear import expand

RNG = np.random.default_rng(0)


def unit(n):
    x = RNG.normal(size=(n, 3))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


KEYS = unit(60)
LENGTHS = (0.3, 1.6)
QUERIES = unit(40) * np.linspace(*LENGTHS, 40)[:, None]
BETA = 6.0


def test_sums_are_those_of_all_pairs():
    """The query at either end of the interval, and one outside it, which is noticed and summed directly."""
    queries = np.concatenate([QUERIES, [[0.0, 0.0, 1.9]]])
    expansion = SphereBall(36, lengths=LENGTHS, radial=radial_terms(BETA, LENGTHS, 1e-14))
    found = expand(expansion, *map(jnp.asarray, (queries, KEYS, KEYS)), BETA, tol=1e-9)
    average, log_z = oracle.attention(queries, KEYS, KEYS, BETA)
    assert max(oracle.worst_errors(found.attended, average, log_z, KEYS)) < 1e-10
    assert float(found.error_bound) < 1e-9
    assert int(found.recomputed) == 1


@pytest.mark.parametrize(("degree", "radial"), [(12, 40), (36, 6)])
def test_too_few_terms_are_noticed(degree, radial):
    expansion = SphereBall(degree, lengths=LENGTHS, radial=radial)
    arrays = [jnp.asarray(x) for x in (QUERIES, KEYS, KEYS)]
    alone = expand(expansion, *arrays, BETA, tol=1e-9, rescue=False)
    average, log_z = oracle.attention(QUERIES, KEYS, KEYS, BETA)
    error = max(oracle.worst_errors(alone.attended, average, log_z, KEYS))
    assert 1e-9 < error < float(alone.error_bound)


@pytest.mark.slow
def test_derivatives_are_those_of_the_direct_sum():
    def total(method):
        def of(q, k):
            found = attend(q, k, k, BETA, method=method)
            return jnp.sum(jnp.sin(found.average)) + jnp.sum(found.log_partition)

        return jax.grad(of, argnums=(0, 1))(jnp.asarray(QUERIES), jnp.asarray(KEYS))

    engine = Harmonic(40, lengths=(0.2, 1.7), radial=40)
    for found, exact in zip(total(engine), total("direct"), strict=True):
        np.testing.assert_allclose(found, exact, atol=1e-8)


@pytest.mark.parametrize("d", [2, 3])
def test_attention_through_matrices_takes_linear_time(d):
    """<Qx, Ky> = <K^T Q x, y>; two heads, masses and values besides."""
    query, key, value = RNG.normal(size=(3, 2, d, d)) / 2
    model = sf.SA(4.0, query=query, key=key, value=value, weights=RNG.dirichlet(np.ones(50)))
    fast = model.tuned(10**6, d, 1e-6)
    assert fast.engine_name == {2: "fourier", 3: "harmonic"}[d]
    x = sf.draw("uniform", 50, d, 3)
    closed_over = jax.jit(lambda x: fast.pull(x))  # the masses are known, and a function around them is being traced
    np.testing.assert_allclose(closed_over(x), model.pull(x), atol=1e-8)


def test_singular_values_bound_the_lengths_of_queries():
    """A matrix that shrinks one direction to nothing, and one that turns: an interval from 0, and a point."""
    flat = sf.SA(4.0, query=np.diag([1.0, 1.0, 0.0])).tuned(10**6, 3, 1e-6).engine
    turned = sf.SA(4.0, query=np.diag([1.0, -1.0, 1.0])).tuned(10**6, 3, 1e-6).engine
    assert flat.lengths == (0.0, 1.0)
    assert turned.lengths == pytest.approx((1.0, 1.0))
    assert turned.radial < 5 < flat.radial


@pytest.mark.parametrize("lengths", [(2.0, 1.0), (-1.0, 1.0), (0.0, 0.0)])
def test_lengths_are_an_interval(lengths):
    with pytest.raises(sf.SphereflowError, match="lengths"):
        Harmonic(9, lengths=lengths)


def test_queries_too_long_or_too_many_radii_are_summed_directly():
    assert choose(10**6, 10**6, 3, 60.0, unit_queries=False, longest_query=4.0, memory=1e12).engine.name == "direct"
