"""Sums through clusters against pair-by-pair sums: the bound of every row holds, or the row is summed directly."""

import dataclasses
from math import factorial

import expansion_oracle as oracle
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from attention_oracle import unit

import sphereflow as sf
from sphereflow.interaction import Adaptive, Causal, Clustered, attend
from sphereflow.interaction.clusters import blocks_of, clustered
from sphereflow.interaction.far_field import Plan, far_field_rows, radius
from sphereflow.interaction.gathering import CLUSTERS, ORDERS, choose_clusters

N, D, BETA = 150, 5, 4.0
RNG = np.random.default_rng(1)


def gathered(n, d, spread, clusters=3, seed=0):
    """Unit tokens in clusters of about this radius."""
    rng = np.random.default_rng(seed)
    x = unit(rng, clusters, d)[rng.integers(clusters, size=n)] + spread * rng.normal(size=(n, d)) / np.sqrt(d)
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def rows(plan, queries, keys, values, weights, beta=BETA, divide=True):
    queries = None if queries is keys else jnp.asarray(queries)
    arrays = [jnp.asarray(a) for a in (keys, values, beta, weights)]
    return far_field_rows(plan, divide, queries, *arrays)


def errors_of_rows(found, queries, keys, values, weights, beta=BETA):
    """Of Z relative to itself, and of the average relative to the longest value, for every row."""
    average, log_z = oracle.attention(queries, keys, values, beta, weights)
    of_average = np.linalg.norm(np.asarray(found.average) - average, axis=1) / np.linalg.norm(values, axis=1).max()
    return np.maximum(of_average, np.abs(np.expm1(np.asarray(found.log_partition) - log_z)))


@pytest.mark.parametrize("spread", [0.02, 0.3])
@pytest.mark.parametrize("order", [1, 3])
def test_the_bound_of_every_row_holds_and_is_of_the_stated_order(order, spread):
    """Masses of any size (one is zero), three clusters and a token beside them, values that are not the keys."""
    x = np.concatenate([gathered(N - 1, D, spread), unit(RNG, 1, D)])
    weights = RNG.exponential(size=N)
    weights[7] = 0
    values = RNG.normal(size=(N, 2))
    found, bounds = rows(Plan(4, order, 1, 1e3), x, x, values, weights)
    bounds = np.asarray(bounds)
    error = errors_of_rows(found, x, x, values, weights)
    assert np.isfinite(bounds).all()
    assert (error <= bounds).all()
    away = np.asarray(clustered(jnp.asarray(x), 0.7 * radius(BETA, order, 1e3), 4).away)
    farthest = (BETA * np.sort(away)[-2] ** 2) ** (order + 1) / factorial(order + 1)
    assert np.median(bounds) < 100 * farthest  # the remainder of the series, and not much beside


STRAYS = np.concatenate([gathered(N, D, 0.01), unit(RNG, 5, D)])
EQUAL = np.full(N + 5, 1 / (N + 5))


def test_rows_that_do_not_keep_the_tolerance_are_summed_directly():
    """One centre for three clusters: nearly all; three: the five strays."""
    found, bounds = rows(Plan(1, 2, 5, 1e-9), STRAYS, STRAYS, STRAYS, EQUAL)
    assert np.isinf(np.asarray(bounds)).mean() > 0.5
    assert errors_of_rows(found, STRAYS, STRAYS, STRAYS, EQUAL).max() < 1e-9
    found, bounds = rows(Plan(3, 3, 5, 1e-9), STRAYS, STRAYS, STRAYS, EQUAL)
    assert np.isinf(np.asarray(bounds)[N:]).all()
    assert np.isfinite(np.asarray(bounds)[:N]).all()
    assert errors_of_rows(found, STRAYS, STRAYS, STRAYS, EQUAL).max() < 1e-9


def test_a_stray_key_that_is_not_taken_apart_spoils_the_bounds_of_others():
    four, five = (np.median(rows(Plan(3, 3, apart, 1e-9), STRAYS, STRAYS, STRAYS, EQUAL)[1]) for apart in (4, 5))
    assert 30 * five < four < np.inf


@pytest.mark.parametrize("beta", [0.0, 1e-3, 300.0])
def test_hot_and_cold(beta):
    x = gathered(N, D, 1e-3)
    weights = np.full(N, 1 / N)
    found, _ = rows(Plan(3, 2, 1, 1e-9), x, x, x, weights, beta)
    assert errors_of_rows(found, x, x, x, weights, beta).max() < 1e-9


def test_queries_of_any_length_through_matrices_heads_masses_and_values():
    x = jnp.asarray(gathered(N, D, 0.02))
    query, key, value = RNG.normal(size=(3, 2, D, D)) / 2
    model = sf.SA(BETA, query=query, key=key, value=value, weights=RNG.dirichlet(np.ones(N)))
    fast = model.tuned(N, D, 1e-6, method=Clustered(8, 3, 1, 1e-9))
    assert fast.engine_name == "clustered"
    np.testing.assert_allclose(fast.pull(x), model.pull(x), atol=1e-8)


@pytest.mark.parametrize("model", [sf.USA, sf.SA])
def test_sums_that_are_not_divided_and_energies(model):
    x = jnp.asarray(gathered(N, D, 0.02))
    fast = model(BETA, engine=Clustered(4, 3, 1, 1e-10))
    np.testing.assert_allclose(fast.pull(x), model(BETA).pull(x), atol=1e-10)
    np.testing.assert_allclose(fast.energy(x), model(BETA).energy(x), rtol=1e-10)
    np.testing.assert_allclose(fast.energy_rate(x), model(BETA).energy_rate(x), rtol=1e-6)


def test_float32_tokens_are_summed_in_float64():
    x = jnp.asarray(gathered(N, D, 0.02), jnp.float32)
    pull = sf.SA(BETA, engine=Clustered(4, 3, 1, 1e-9)).pull(x)
    assert pull.dtype == jnp.float32
    exact = sf.SA(BETA).pull(jnp.asarray(x, jnp.float64))
    np.testing.assert_allclose(pull, exact, atol=1e-7)


@pytest.mark.slow
def test_derivatives_are_those_of_the_direct_sum():
    x = jnp.asarray(gathered(60, D, 0.05))

    def total(method):
        def of(q, k, beta, weights):
            found = attend(q, k, k, beta, weights=weights, method=method)
            return jnp.sum(jnp.sin(found.average)) + jnp.sum(found.log_partition)

        return jax.grad(of, argnums=(0, 1, 2, 3))(x * 1.1, x, jnp.asarray(BETA), jnp.full(60, 1 / 60))

    for found, exact in zip(total(Clustered(4, 4, 1, 1e-9)), total("direct"), strict=True):
        np.testing.assert_allclose(found, exact, atol=1e-8)


def test_blocks_hold_every_token_once_and_one_cluster_each():
    nearest = jnp.asarray(RNG.choice(5, size=1000, p=[0.7, 0.2, 0.09, 0.01, 0.0]))
    blocks = blocks_of(nearest, 5, 2**11)
    arranged = np.asarray(blocks.arranged(jnp.arange(1, 1001.0)[:, None]))[..., 0]
    assert sorted(arranged[arranged > 0]) == list(range(1, 1001))
    for cluster, tokens in zip(np.asarray(blocks.cluster), arranged, strict=True):
        assert (np.asarray(nearest)[tokens[tokens > 0].astype(int) - 1] == cluster).all()


def test_centres_are_found_and_no_more_than_there_are():
    x = jnp.asarray(gathered(400, D, 0.01))
    found = clustered(x, jnp.asarray(0.1), 8)
    assert len(np.unique(np.asarray(found.nearest))) == 3
    assert float(found.away.max()) < 0.05


class TestChoice:
    def test_tokens_that_fill_the_sphere_are_summed_directly(self):
        x = sf.draw("uniform", 12_000, 8, 0)
        assert choose_clusters([x], x, BETA, 1e-8, "float64") is None

    def test_gathered_tokens_are_summed_through_clusters_that_keep_the_tolerance(self):
        x = jnp.asarray(gathered(100_000, 8, 0.01))
        engine = choose_clusters([x], x, BETA, 1e-8, "float64")
        assert engine.clusters in CLUSTERS
        assert engine.clusters >= 3
        assert engine.order in ORDERS
        assert engine.tol == 1e-8

    def test_strays_are_counted_and_many_are_too_many(self):
        x = gathered(100_000, 8, 0.01)
        few, many = x.copy(), x.copy()
        few[::100], many[::3] = unit(RNG, 1000, 8), unit(RNG, 33_334, 8)
        engine = choose_clusters([jnp.asarray(few)], jnp.asarray(few), BETA, 1e-8, "float64")
        assert engine is None or engine.apart >= 1000
        assert choose_clusters([jnp.asarray(many)], jnp.asarray(many), BETA, 1e-8, "float64") is None

    def test_few_tokens_are_not_worth_a_program(self):
        x = jnp.asarray(gathered(1000, 8, 0.01))
        assert choose_clusters([x], x, BETA, 1e-8, "float64") is None

    def test_only_plain_attention_of_many_tokens_may_gather(self):
        n = 20_000
        assert isinstance(sf.SA(BETA).tuned(n, 8, 1e-6).engine, Adaptive)
        assert sf.SA(BETA).tuned(n, 8, 1e-6).engine.tol == 1e-8
        assert isinstance((sf.USA(BETA) + sf.SA(1.0)).tuned(n, 8, 1e-6).terms[1].engine, Adaptive)
        others = [sf.SA(BETA, causal=True), sf.SA(BETA, kernel=lambda s, beta: jnp.maximum(s, 0))]
        for model in others:
            assert model.tuned(n, 8, 1e-6).engine_name == "direct"
        assert sf.SA(BETA).tuned(n, 8, 1e-6, method="direct").engine_name == "direct"
        assert sf.SA(BETA).tuned(1000, 8, 1e-6).engine_name == "direct"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"clusters": 0}, "clusters must be"),
        ({"clusters": 4, "order": 99}, "order must be"),
        ({"clusters": 4, "apart": 0}, "apart must be"),
        ({"clusters": 4, "tol": 0.0}, "tol must be"),
        ({"clusters": 4, "tol": True}, "tol must be"),
    ],
)
def test_what_an_engine_cannot_be(options, message):
    with pytest.raises(sf.SphereflowError, match=message):
        Clustered(**options)


def test_what_it_cannot_serve_is_refused():
    x = sf.draw("uniform", 8, 3, 0)
    with pytest.raises(sf.SphereflowError, match="takes no mask"):
        sf.SA(1.0, mask=Causal(), engine=Clustered(2)).pull(x)
    with pytest.raises(sf.SphereflowError, match="serves the exponential kernel"):
        sf.SA(1.0, kernel=lambda s, beta: s + 2, engine=Clustered(2)).pull(x)
    with pytest.raises(sf.SphereflowError, match="need more than 16777216 numbers"):
        sf.SA(1.0, engine=Clustered(1000, 8)).pull(sf.draw("uniform", 8, 8, 0))


@pytest.mark.parametrize("engine", [Clustered(4, 3, 32, 1e-7), Adaptive(1e-7)])
def test_engines_are_saved_with_their_model(engine, tmp_path):
    run = sf.evolve(sf.SA(BETA, engine=engine), sf.draw("uniform", 8, 3, 0), 0.5, saveat=2)
    run.save(tmp_path / "run.zarr")
    assert sf.load(tmp_path / "run.zarr").model.engine == engine
    assert dataclasses.replace(engine) == engine
