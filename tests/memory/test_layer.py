"""The memory as a layer of a network: batches, gradients against central differences, float32, top, flat memory."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import softmax

from sphereflow.errors import SphereflowError
from sphereflow.memory import DenseMemory
from sphereflow.memory.selection import largest

RNG = np.random.default_rng(0)
PATTERNS, QUERIES, TARGET = RNG.standard_normal((23, 6)), RNG.standard_normal((2, 3, 6)), RNG.standard_normal((2, 3, 6))


@pytest.mark.parametrize("block", [5, 23, 100])
def test_a_batch_is_softmax_attention_over_all_blocks(block):
    found = DenseMemory(PATTERNS, beta=0.7, space="euclidean")(jnp.asarray(QUERIES), block=block)
    scores = -0.7 * ((QUERIES[..., None, :] - PATTERNS) ** 2).sum(axis=-1) / 2
    np.testing.assert_allclose(found, softmax(scores, axis=-1) @ PATTERNS, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize(("kernel", "beta"), [("lse", 0.8), ("lsr", 1.5), ("polynomial", 3)])
def test_the_layer_is_the_update_of_recall(kernel, beta):
    memory = DenseMemory(PATTERNS, kernel, beta)
    wanted = memory.recall(QUERIES.reshape(6, 6), steps=2).state.reshape(2, 3, 6)
    for top in (None, 23):
        np.testing.assert_allclose(memory(jnp.asarray(QUERIES), steps=2, top=top, block=7), wanted, atol=1e-12)


def loss(memory, x, top):
    return jnp.sum((memory(x, steps=2, top=top, block=8) - TARGET) ** 2)


@pytest.mark.fast_cases("lse-0.8-4")
@pytest.mark.parametrize(("kernel", "beta", "top"), [("lse", 0.8, None), ("lse", 0.8, 4), ("polynomial", 3, None)])
def test_gradients_are_central_differences(kernel, beta, top):
    memory, x = DenseMemory(PATTERNS, kernel, beta), jnp.asarray(QUERIES)
    value = eqx.filter_jit(lambda m, y: loss(m, y, top))
    to_patterns = eqx.filter_grad(lambda m: loss(m, x, top))(memory).stored
    to_queries = jax.grad(lambda y: loss(memory, y, top))(x)
    rng, step = np.random.default_rng(1), 1e-5
    for _ in range(3):
        move = rng.standard_normal(PATTERNS.shape)
        up, down = (value(eqx.tree_at(lambda m: m.stored, memory, PATTERNS + s * step * move), x) for s in (1, -1))
        np.testing.assert_allclose(np.sum(to_patterns * move), (up - down) / (2 * step), rtol=1e-6, atol=1e-8)
        turn = rng.standard_normal(QUERIES.shape)
        up, down = (value(memory, x + s * step * turn) for s in (1, -1))
        np.testing.assert_allclose(np.sum(to_queries * turn), (up - down) / (2 * step), rtol=1e-6, atol=1e-8)


@pytest.mark.slow
def test_single_precision_is_kept_in_a_network():
    memory = DenseMemory(PATTERNS.astype(np.float32), beta=0.8)
    first = eqx.nn.Linear(4, 6, key=jax.random.key(0), dtype=jnp.float32)
    network = eqx.nn.Sequential([first, memory])
    x = jnp.asarray(RNG.standard_normal((5, 4)), jnp.float32)

    @eqx.filter_jit
    def trained(net):
        value, gradient = eqx.filter_value_and_grad(lambda m: jnp.sum(jax.vmap(m)(x) ** 2 * jnp.arange(6.0)))(net)
        return value, jax.tree.leaves(eqx.filter(gradient, eqx.is_array))

    assert jax.vmap(network)(x).dtype == jnp.float32
    _, leaves = trained(network)
    assert [leaf.shape for leaf in leaves] == [(6, 4), (6,), (23, 6)]
    assert all(leaf.dtype == jnp.float32 and float(jnp.abs(leaf).max()) > 0 for leaf in leaves)


@pytest.mark.parametrize("space", ["sphere", "euclidean"])
def test_exact_search(space):
    index, cosine = DenseMemory(PATTERNS, space=space).nearest(jnp.asarray(QUERIES), 4, block=6)
    unit = PATTERNS / np.linalg.norm(PATTERNS, axis=1, keepdims=True)
    scores = QUERIES @ unit.T if space == "sphere" else -((QUERIES[..., None, :] - PATTERNS) ** 2).sum(axis=-1)
    wanted = np.argsort(-scores, axis=-1)[..., :4]
    np.testing.assert_array_equal(index, wanted)
    cosines = QUERIES @ unit.T / np.linalg.norm(QUERIES, axis=-1, keepdims=True)
    np.testing.assert_allclose(cosine, np.take_along_axis(cosines, wanted, axis=-1), rtol=1e-12)


@pytest.mark.parametrize("n", [64, 1000, 1027])
def test_selection_by_groups_is_a_sort(n):
    """Against a stable sort in NumPy, with many equal entries: the same places, the first of equals first."""
    rng = np.random.default_rng(n)
    for x in (rng.normal(size=(5, n)), rng.integers(0, n // 2, size=(300, n)).astype(float), np.zeros((1, n))):
        best, place = largest(jnp.asarray(x), 3, group=4)
        wanted = np.argsort(-x, axis=1, kind="stable")[:, :3]
        np.testing.assert_array_equal(place, wanted)
        np.testing.assert_array_equal(best, np.take_along_axis(x, wanted, axis=1))


def test_the_working_memory_does_not_grow_with_the_patterns():
    def working(count):
        memory = DenseMemory(np.ones((count, 4)))
        run = eqx.filter_jit(lambda m, x: m(x, block=500)).lower(memory, jnp.ones((50, 4)))
        return run.compile().compiled.memory_analysis().temp_size_in_bytes

    assert working(16_000) < 1.2 * working(4_000) < 16_000 * 50 * 8


def test_refusals():
    memory = DenseMemory(PATTERNS)
    for call, words in (
        (lambda: memory(jnp.ones((2, 5))), "dimension 6"),
        (lambda: memory(jnp.ones(6), top=24), "top"),
        (lambda: memory(jnp.ones(6), block=0), "block"),
        (lambda: memory(jnp.ones(6), steps=-1), "steps"),
        (lambda: memory.nearest(jnp.ones(6), 0), "count"),
    ):
        with pytest.raises(SphereflowError, match=words):
            call()


def test_a_search_never_copies_the_patterns():
    """Of 40,009 patterns, which no block divides, a search keeps the scores of one block and little else."""
    patterns = np.random.default_rng(12).standard_normal((40_009, 64), dtype=np.float32)
    memory, queries, block = DenseMemory(patterns), jnp.asarray(patterns[:4]), 4096
    jobs = (lambda m, x: m.nearest(x, 3, block=block)[0], lambda m, x: m(x, top=3, block=block))
    for job in jobs:
        program = eqx.filter_jit(job).lower(memory, queries).compile().compiled
        # A block of patterns, their squares, and a few tables of scores: far from the 10 MB of all patterns.
        assert program.memory_analysis().temp_size_in_bytes < 2 * block * 64 * 4 + 16 * 4 * block * 4
    found, cosines = memory.nearest(queries, 3, block=block)
    unit = patterns / np.linalg.norm(patterns, axis=1, keepdims=True)
    expected = np.argsort(-(unit[:4] @ unit.T), axis=1)[:, :3]
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_allclose(cosines[:, 0], 1, rtol=1e-6)
