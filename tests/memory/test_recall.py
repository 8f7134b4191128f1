"""The memory as a user meets it: real images, corrupted queries, a NumPy oracle, and clear refusals."""

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.datasets import load_digits

from sphereflow.errors import SphereflowError
from sphereflow.memory import DenseMemory, sharp

IMAGES = load_digits().data
CENTRED = (IMAGES - IMAGES.mean(axis=0))[:300]


def corrupted(kind, rng):
    if kind == "noise":
        return CENTRED + 3.0 * rng.standard_normal(CENTRED.shape)
    if kind == "erased":  # a quarter of the pixels
        return np.where(rng.random(CENTRED.shape) < 0.25, 0, CENTRED)
    return np.where(np.arange(64) < 40, CENTRED, 0)  # the lower part is missing


@pytest.mark.fast_cases("lse-2.0-noise", "polynomial-40-cut")
@pytest.mark.parametrize("kind", ["noise", "erased", "cut"])
@pytest.mark.parametrize(("kernel", "beta"), [("lse", 2.0), ("polynomial", 40)])
def test_corrupted_digits_are_restored(kind, kernel, beta):
    memory = DenseMemory(CENTRED, kernel, beta)
    queries = corrupted(kind, np.random.default_rng(0))
    found = memory.recall(queries, steps=5)
    right = found.index == np.arange(300)
    nearest = (queries / np.linalg.norm(queries, axis=1, keepdims=True)) @ (
        CENTRED / np.linalg.norm(CENTRED, axis=1, keepdims=True)
    ).T
    # No memory can know more than which stored image is nearest; this one finds it almost always.
    assert right.mean() > 0.97 * (nearest.argmax(axis=1) == np.arange(300)).mean() > 0.8
    assert found.overlap[right].mean() > 0.99
    np.testing.assert_array_equal(found.pattern[right], CENTRED[right])


def test_compact_kernel_recalls_exactly_inside_its_support():
    memory = DenseMemory(CENTRED, "lsr", 30.0)
    queries = CENTRED + 0.3 * np.random.default_rng(1).standard_normal(CENTRED.shape)
    found = memory.recall(queries)
    alone = found.confidence == 1
    assert alone.mean() > 0.9
    assert (found.index == np.arange(300))[alone].all()
    assert np.abs(found.overlap[alone] - 1).max() < 1e-12
    assert np.isinf(memory.recall(np.random.default_rng(2).standard_normal(64)).energy)
    assert memory.recall(np.random.default_rng(2).standard_normal(64)).confidence == 0


@pytest.mark.fast_cases("False-sphere", "True-euclidean")
@pytest.mark.parametrize("space", ["sphere", "euclidean"])
@pytest.mark.parametrize("few", [False, True])
def test_one_step_is_softmax_attention(space, few, monkeypatch):
    if few:  # the path for many patterns
        monkeypatch.setattr(sharp, "_WORTHWHILE", 10)
    rng = np.random.default_rng(0)
    patterns, queries = rng.standard_normal((2500, 40)), rng.standard_normal((70, 40))
    found = DenseMemory(patterns, "lse", 0.9, space=space).recall(queries)
    if space == "sphere":
        patterns, queries = (np.sqrt(40) * a / np.linalg.norm(a, axis=1, keepdims=True) for a in (patterns, queries))
    scores = -0.9 * ((queries[:, None] - patterns) ** 2).sum(axis=2) / 2
    expected = softmax(scores, axis=1) @ patterns
    if space == "sphere":
        expected *= np.sqrt(40) / np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(found.state, expected, rtol=1e-9, atol=1e-11)


def test_dropping_what_does_not_count_is_noticed_when_everything_counts(monkeypatch):
    """At small beta all groups count, and the general engine takes over."""
    monkeypatch.setattr(sharp, "_WORTHWHILE", 10)
    monkeypatch.setattr(sharp, "_few", None)
    rng = np.random.default_rng(0)
    patterns, query = rng.standard_normal((3000, 8)), rng.standard_normal((3, 8))
    found = DenseMemory(patterns, "lse", 0.01, space="euclidean").recall(query)
    weights = softmax(-0.01 * ((query[:, None] - patterns) ** 2).sum(axis=2) / 2, axis=1)
    np.testing.assert_allclose(found.state, weights @ patterns, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found.confidence.shape, (3,))


def test_confidence_and_energy_are_those_of_the_final_state():
    memory = DenseMemory(CENTRED, "lse", 1.0)
    found = memory.recall(CENTRED[:7] + 1.0, steps=2)
    unit = np.sqrt(64) * CENTRED / np.linalg.norm(CENTRED, axis=1, keepdims=True)
    scores = -((found.state[:, None] - unit) ** 2).sum(axis=2) / 2
    np.testing.assert_allclose(found.confidence, softmax(scores, axis=1).max(axis=1), rtol=1e-9)
    np.testing.assert_allclose(found.energy, -np.log(np.exp(scores).sum(axis=1)), rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(found.index, scores.argmax(axis=1))


def test_single_query_float32_and_text():
    memory = DenseMemory(CENTRED.astype(np.float32), beta=2.0)
    found = memory.recall(CENTRED[4])
    assert found.state.shape == (64,)
    assert found.state.dtype == np.float32
    assert int(found.index) == 4
    assert "300 patterns of dimension 64" in repr(memory)
    assert "1 queries" in repr(found)


@pytest.mark.slow
def test_in_a_bath_the_state_stays_near_its_pattern_and_the_seed_decides():
    memory = DenseMemory(CENTRED, "lse", 2.0)
    cold = memory.recall(CENTRED[:20], steps=300, temperature=0.05, seed=1)
    assert (cold.index == np.arange(20)).mean() > 0.9
    assert 0.9 < cold.overlap.mean() < 0.999
    np.testing.assert_array_equal(cold.state, memory.recall(CENTRED[:20], 300, 0.05, seed=1).state)
    assert (cold.state != memory.recall(CENTRED[:20], 300, 0.05, seed=2).state).any()
    flat = DenseMemory(CENTRED, "lse", 1.0, space="euclidean").recall(CENTRED[:5], steps=50, temperature=0.1)
    assert np.isfinite(flat.state).all()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((np.zeros((0, 3)),), "patterns must have shape"),
        ((np.ones(3),), "patterns must have shape"),
        (([["a"]],), "array of numbers"),
        ((np.full((2, 2), np.nan),), "NaN"),
        ((np.zeros((2, 2)),), "zero vector"),
        ((np.eye(3), "cosine"), "must be one of lse, lsr, polynomial"),
        ((np.eye(3), "lse", -1.0), "beta must be"),
        ((np.eye(3), "lsr", 0.5), "above 1"),
        ((np.eye(3), "polynomial", 1.0), "at least 2"),
    ],
)
def test_refusals(arguments, words):
    with pytest.raises(SphereflowError, match=words):
        DenseMemory(*arguments)


def test_refusals_of_a_query():
    memory = DenseMemory(np.eye(3))
    for query, words in ((np.ones(4), "dimension 3"), (np.zeros(3), "zero vector"), (np.full(3, np.inf), "infinity")):
        with pytest.raises(SphereflowError, match=words):
            memory.recall(query)
    with pytest.raises(SphereflowError, match="temperature"):
        memory.recall(np.ones(3), temperature=-1)
    with pytest.raises(SphereflowError, match="only"):
        DenseMemory(np.eye(3), "polynomial", space="euclidean")


def test_patterns_whose_squares_are_zero_are_still_directions():
    """Only directions count on the sphere; lengths of 1e-200 gave NaN inside and pattern 0 for every query."""
    patterns = np.random.default_rng(0).normal(size=(6, 5))
    found = DenseMemory(1e-200 * patterns).recall(1e-200 * patterns)
    np.testing.assert_array_equal(found.index, DenseMemory(patterns).recall(patterns).index)
