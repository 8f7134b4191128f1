"""The metrics against plain loops, and what they refuse."""

import numpy as np
import pytest

from sphereflow.errors import SphereflowError
from sphereflow.llm.heads.geometry import (
    descending,
    random_control,
    random_controls,
    selections,
    separation,
    separations,
    without_sink,
)


def counted(weights, values, size, *, distance, by_contribution=False, raw=False):
    """P, R, inversions and margin by loops over distances."""
    y = [w * v for w, v in zip(weights, values, strict=True)]
    score = [np.linalg.norm(p) for p in y] if by_contribution else list(weights)
    order = sorted(range(len(weights)), key=lambda i: (-score[i], i))
    inside, outside = order[:size], order[size:]
    s = sum(y[i] for i in inside)
    cloud = values if raw else y

    def away(p):
        if distance == "euclidean":
            return np.linalg.norm(p - s)
        return 1 - p @ s / (np.linalg.norm(p) * np.linalg.norm(s) + 1e-12)

    d = [away(p) for p in cloud]
    far, near = max(d[i] for i in inside), min(d[j] for j in outside)
    precision = size / (size + sum(d[j] <= far for j in outside))
    recall = sum(d[i] < near for i in inside) / size
    return precision, recall, sum(d[j] <= d[i] for i in inside for j in outside), near - far


@pytest.mark.parametrize("distance", ["euclidean", "cosine"])
@pytest.mark.parametrize("ranking", ["attention", "contribution"])
@pytest.mark.parametrize("points", ["weighted", "raw"])
def test_metrics_match_loops(distance, ranking, points):
    rng = np.random.default_rng(0)
    weights, values = rng.exponential(size=(6, 20)), rng.standard_normal((6, 20, 4))
    sizes = (1, 2, 5, 13)
    found = separation(weights, values, sizes, ranking=ranking, distance=distance, points=points)
    for h in range(6):
        for k, size in enumerate(sizes):
            precision, recall, inversions, margin = counted(
                weights[h],
                values[h],
                size,
                distance=distance,
                by_contribution=ranking == "contribution",
                raw=points == "raw",
            )
            assert found.precision[h, k] == precision
            assert found.recall[h, k] == recall
            assert found.inversions[h, k] == inversions
            np.testing.assert_allclose(found.margin[h, k], margin, atol=1e-12)


def test_both_distances_at_once_are_the_single_ones():
    rng = np.random.default_rng(1)
    weights, values = rng.random((2, 3, 30)), rng.standard_normal((2, 3, 30, 4))
    both = separations(weights, values, (2, 4))
    for distance, found in both.items():
        np.testing.assert_array_equal(found.f, separation(weights, values, (2, 4), distance=distance).f)
    assert found.f.shape == (2, 3, 2)


def test_equal_scores_go_by_index():
    np.testing.assert_array_equal(descending(np.array([1.0, 3, 3, 1, 3])), [1, 2, 4, 0, 3])


def test_selections_are_the_first_of_each_order():
    orders = np.stack([np.random.default_rng(2).permutation(12) for _ in range(4)])
    chosen = selections(orders, (1, 3, 7))
    for k, order in enumerate(orders):
        for m, size in enumerate((1, 3, 7)):
            assert set(np.flatnonzero(chosen[k, m])) == set(order[:size])


@pytest.mark.parametrize("call", [separations, random_controls])
def test_heads_that_share_values_are_as_if_each_had_its_own(call):
    rng = np.random.default_rng(7)
    weights, values = rng.random((2, 3, 21)), rng.standard_normal((2, 1, 21, 5))
    shared, own = call(weights, values, (2, 6)), call(weights, np.repeat(values, 3, axis=1), (2, 6))
    for distance, found in shared.items():
        for name in ("f", "inversions", "margin"):
            np.testing.assert_allclose(getattr(found, name), getattr(own[distance], name), rtol=1e-12)
    with pytest.raises(SphereflowError, match=r"do not fit values of shape \(2, 2, 21, 5\)"):
        call(weights, np.repeat(values, 2, axis=1), (2, 6))


def test_the_control_scores_random_sets_around_their_own_sum():
    rng = np.random.default_rng(3)
    weights, values = rng.exponential(size=30) ** 4, rng.standard_normal((30, 6))
    found = random_control(weights, values, (3,), repeats=200, seed=5)
    orders = np.random.default_rng(5).permuted(np.tile(np.arange(30), (200, 1)), axis=1)
    scores = []
    for order in orders:
        rank = np.empty(30)
        rank[order] = np.arange(30, 0, -1)
        y = weights[:, None] * values
        # the same set selected by attention of another head: weights ranked like the order, values rescaled
        other = separation(rank, y / rank[:, None], (3,))
        scores.append(other.f[0])
    np.testing.assert_allclose(found.f[0], np.mean(scores), rtol=1e-12)
    attention = separation(weights, values, (3,)).f[0]
    assert found.f[0] < attention


def test_without_the_sink_weights_sum_to_one():
    weights, values = np.array([[0.6, 0.3, 0.1]]), np.ones((1, 3, 2))
    rest, kept = without_sink(weights, values)
    np.testing.assert_allclose(rest, [[0.75, 0.25]])
    assert kept.shape == (1, 2, 2)


def test_a_token_as_near_as_a_selected_one_has_intruded():
    """Two equal contributions of which one is selected: at distance zero from the sum, both."""
    found = separation(np.array([0.4, 0.4, 0.2]), np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]), (1,))
    assert (found.precision[0], found.recall[0], found.inversions[0]) == (0.5, 0.0, 1.0)
    assert found.margin[0] == 0


def test_tiny_weights_are_not_tied_by_rounding():
    # Distances to the sum differ by less than rounding; their order is still that of the weights.
    weights = 10.0 ** -np.arange(0, 20, 1.0)
    found = separation(weights, np.eye(20), (10,))
    assert found.f[0] == 1
    assert found.inversions[0] == 0


@pytest.mark.parametrize("sizes", [(0, 2), (2, 2), (4, 2), (10,), ()])
def test_sizes_that_cannot_be_are_refused(sizes):
    with pytest.raises(SphereflowError, match=r"from 1 to 9|at least 1, got 0"):
        separation(np.ones(10), np.ones((10, 2)), sizes)


def test_numbers_that_are_none_are_refused():
    with pytest.raises(SphereflowError, match="finite"):
        separation(np.array([1.0, np.nan, 1.0]), np.ones((3, 2)), (1,))
