"""Clusters against constructions whose answer is known, and against brute force."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sphereflow import SphereflowError, draw
from sphereflow.observables import cluster_count, cluster_labels, cluster_masses, rank_count, span_dimension
from sphereflow.observables.clusters import joined_count
from sphereflow.sphere import from_angles


def brute_force_labels(x, threshold):
    """Flood fill over the graph of all pairs."""
    near = 1 - np.sum((x[:, None] - x[None]) ** 2, axis=-1) / 2 > threshold
    labels = np.full(len(x), -1)
    for seed in range(len(x)):
        if labels[seed] >= 0:
            continue
        group, stack = labels.max() + 1, [seed]
        while stack:
            i = stack.pop()
            if labels[i] < 0:
                labels[i] = group
                stack.extend(np.nonzero(near[i] & (labels < 0))[0])
    return labels


@given(st.integers(1, 40), st.integers(2, 4), st.sampled_from([0.5, 0.9, 0.99]), st.integers(0, 999))
def test_labels_are_the_components_of_the_graph(n, d, threshold, seed):
    x = np.random.default_rng(seed).normal(size=(n, d))  # by NumPy, which compiles nothing for another n
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    np.testing.assert_array_equal(cluster_labels(x, threshold), brute_force_labels(x, threshold))


def test_blocks_do_not_matter(monkeypatch):
    x = np.asarray(draw("uniform", 50, 3, 1))
    expected = brute_force_labels(x, 0.9)
    monkeypatch.setattr("sphereflow.observables.clusters._BLOCK", 7)
    np.testing.assert_array_equal(cluster_labels(x, 0.9), expected)


def test_a_chain_is_one_cluster_while_its_matrix_rank_is_larger():
    chain = np.asarray(from_angles(np.arange(6) * 0.01))
    threshold = np.cos(0.015)
    assert cluster_count(chain, threshold) == 1
    assert rank_count(chain, threshold) > 1  # the rank statistic of the papers miscounts chains


def test_clusters_across_the_cut_of_the_circle_are_one():
    x = np.asarray(from_angles(np.array([3.14, -3.14, 0.0])))
    np.testing.assert_array_equal(cluster_labels(x, 0.99), [0, 0, 1])
    full = np.asarray(from_angles(np.arange(100) * 2 * np.pi / 100))
    assert cluster_count(full, np.cos(0.07)) == 1
    assert cluster_count(full, np.cos(0.06)) == 100


def test_tiny_gaps_are_resolved():
    points = np.array([[1.0, 0, 0], [1.0, 1e-7, 0], [1.0, 1e-4, 0]])
    x = points / np.linalg.norm(points, axis=1, keepdims=True)
    np.testing.assert_array_equal(cluster_labels(x, 1 - 1e-13), [0, 0, 1])


def test_masses_rank_and_span():
    x = np.repeat(np.eye(3), [5, 3, 2], axis=0)
    np.testing.assert_allclose(cluster_masses(x), [0.5, 0.3, 0.2])
    np.testing.assert_allclose(cluster_masses(x[[0, 5, 8]], weights=np.array([0.1, 0.2, 0.7])), [0.7, 0.2, 0.1])
    assert rank_count(x) == span_dimension(x) == 3


def test_a_million_tokens_on_the_circle_and_a_limit_elsewhere():
    theta = np.concatenate([np.full(500_000, a) for a in (0.0, 2.0)]) + 1e-4 * np.sin(np.arange(1_000_000))
    assert cluster_count(np.asarray(from_angles(theta))) == 2
    with pytest.raises(SphereflowError, match="take at most 20000"):
        cluster_count(np.asarray(draw("uniform", 20_001, 3)))


@pytest.mark.parametrize("threshold", list(itertools.chain([-1.0, 1.0, 2.0])))
def test_threshold_is_checked(threshold):
    with pytest.raises(SphereflowError, match="strictly between"):
        cluster_labels(np.eye(3), threshold)


@pytest.mark.parametrize("threshold", [0.2, 0.6, 0.99])
def test_joined_pairs_are_counted_like_tokens(threshold):
    x = np.random.default_rng(3).standard_normal((40, 4))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    i, j = np.nonzero(np.triu(x @ x.T > threshold, 1))
    assert joined_count(40, i, j) == cluster_count(x, threshold)


@pytest.mark.parametrize(
    ("call", "word"),
    [
        (lambda: cluster_count(np.array([[np.nan, 0.0], [0.0, 1.0]])), "tokens must be finite"),
        (lambda: cluster_count(np.zeros((0, 3))), "tokens must have shape"),
        (lambda: cluster_labels(np.ones(3)), "tokens must have shape"),
        (lambda: rank_count(np.full((2, 3), np.nan)), "tokens must be finite"),
        (lambda: rank_count(np.eye(3), 1.5), "threshold must be"),
        (lambda: span_dimension(np.full((2, 3), np.inf)), "tokens must be finite"),
        (lambda: cluster_masses(np.eye(3), weights=np.array([1.0, 0.5, -0.5])), "weights must be 3 masses"),
        (lambda: cluster_masses(np.eye(3), weights=np.ones(2)), "weights must be 3 masses"),
        (lambda: cluster_count(np.zeros((2, 3))), "clusters are of unit vectors"),
        (lambda: cluster_labels(2 * np.eye(2)), "clusters are of unit vectors"),
        (lambda: cluster_count(1j * np.eye(2)), "real numbers"),
    ],
)
def test_what_is_no_cloud_of_tokens_has_no_clusters(call, word):
    """Tokens that are not numbers compare with nothing, and would be counted as one cluster."""
    with pytest.raises(SphereflowError, match=word):
        call()
