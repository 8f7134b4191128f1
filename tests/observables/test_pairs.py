"""Inner products, attention matrices and Wasserstein distances against direct computation."""

import jax.numpy as jnp
import numpy as np
import ot
import pytest

import sphereflow as sf
from sphereflow import SphereflowError
from sphereflow import observables as ob
from sphereflow.sphere import from_angles


def test_overlaps_and_gaps_agree_and_gaps_keep_their_digits():
    x = sf.draw("uniform", 9, 4, 1)
    np.testing.assert_allclose(1 - ob.gaps(x), ob.gram(x), atol=1e-14)
    close = from_angles(jnp.array([0.3, 0.3 + 1e-9]))
    assert float(ob.gaps(close)[0, 1]) == pytest.approx(5e-19, rel=1e-6)
    assert float(ob.diameter(close)) == pytest.approx(1e-9, rel=1e-6)


def test_order_parameter_and_close_fraction():
    x = jnp.array([[1.0, 0], [1.0, 0], [0, 1.0]])
    assert float(ob.order_parameter(x)) == pytest.approx(np.sqrt(5) / 3)
    assert float(ob.order_parameter(x, jnp.array([0.0, 0.0, 1.0]))) == 1.0
    assert float(ob.close_fraction(x)) == pytest.approx(1 / 3)


@pytest.mark.parametrize("measure", [ob.gaps, ob.overlaps, ob.diameter, ob.order_parameter, ob.close_fraction])
def test_lists_are_tokens_and_what_is_none_gets_a_sentence(measure):
    assert np.array_equal(measure([[1, 0], [0, 1]]), measure(np.eye(2)))
    for wrong in ("ab", [], np.zeros((0, 3)), [1.0, 1.0], [[1j, 0.0], [0.0, 1.0]], [[1.0], [1.0, 2.0]]):
        with pytest.raises(SphereflowError, match="tokens must"):
            measure(wrong)


def test_attention_matrix_is_the_softmax():
    rng = np.random.default_rng(0)
    x = sf.draw("uniform", 6, 3, 1)
    query, key = rng.normal(size=(2, 3, 3)), rng.normal(size=(2, 3, 3))
    matrix = ob.attention_matrix(sf.SA(1.5, query=query, key=key, causal=True), x)
    for h in range(2):
        logits = 1.5 * (x @ query[h].T) @ (x @ key[h].T).T
        logits = np.where(np.tril(np.ones((6, 6))) > 0, logits, -np.inf)
        expected = np.exp(logits - logits.max(axis=1, keepdims=True))
        np.testing.assert_allclose(matrix[h], expected / expected.sum(axis=1, keepdims=True), atol=1e-13)


def test_rank_leaders_and_followers():
    matrix = np.array([[1.0, 0, 0], [1, 0, 0], [0, 0, 1]])
    assert ob.numerical_rank(matrix) == 2
    np.testing.assert_array_equal(ob.leaders(matrix), [0])
    np.testing.assert_array_equal(ob.followed(matrix), [0, 0, 2])
    # An axis of heads, as `attention_matrix` has it: keys are last all the same.
    np.testing.assert_array_equal(ob.followed(np.stack([matrix, matrix[::-1]])), [[0, 0, 2], [2, 0, 0]])
    for single in (ob.numerical_rank, ob.leaders):
        with pytest.raises(SphereflowError, match=r"matrix must have the shape \(m, n\)"):
            single(np.stack([matrix, matrix]))


def test_wasserstein_against_known_answers_and_pot():
    x, y = (np.asarray(sf.draw("uniform", 12, 3, s)) for s in (1, 2))
    angles = np.arccos(np.clip(x @ y.T, -1, 1))
    uniform = np.full(12, 1 / 12)
    for p in (1, 2):
        assert ob.wasserstein(x, y, p) == pytest.approx(ot.emd2(uniform, uniform, angles**p) ** (1 / p), rel=1e-9)
    point = np.array([[0.0, 0.0, 1.0]])
    to_point = np.sqrt(np.mean(np.arccos(x[:, 2]) ** 2))
    assert ob.wasserstein(x, point) == pytest.approx(to_point, rel=1e-9)
    weights = np.random.default_rng(0).dirichlet(np.ones(12))
    weighted = np.sqrt(weights @ np.sum((x - point) ** 2, axis=1))
    assert ob.wasserstein(x, point, metric="euclidean", x_weights=weights) == pytest.approx(weighted, rel=1e-9)
    assert ob.wasserstein(x, x[::-1]) == pytest.approx(0, abs=1e-7)


def test_discrepancies_of_four_points():
    """Unbiased means over distinct pairs, written out."""
    x, y, width = np.array([[0.0], [2.0]]), np.array([[1.0], [4.0]]), 1.5

    def kernel(distance):
        return np.exp(-(distance**2) / (2 * width**2))

    across = np.abs(x - y.T)
    assert ob.mmd(x, y, width) == pytest.approx(kernel(2.0) + kernel(3.0) - 2 * kernel(across).mean(), rel=1e-12)
    assert ob.energy_distance(x, y) == pytest.approx(2 * across.mean() - 2 - 3, rel=1e-12)
    assert ob.energy_distance(x, y, unbiased=False) == pytest.approx(2 * across.mean() - 1 - 1.5, rel=1e-12)


def test_close_pairs_of_what_is_no_number_or_no_pair():
    x = np.eye(3)
    assert np.isnan(ob.close_fraction(np.where(x == 1, np.nan, x)))  # not -1/2
    for wrong, word in (((x, 1.5), "threshold"), ((x, np.nan), "threshold"), ((x[:1],), "at least two tokens")):
        with pytest.raises(SphereflowError, match=word):
            ob.close_fraction(*wrong)


SAMPLE = np.random.default_rng(5).normal(size=(6, 2))


@pytest.mark.parametrize(
    ("call", "word"),
    [
        (lambda: ob.energy_distance(SAMPLE, SAMPLE, most=1), "most must be"),
        (lambda: ob.energy_distance(SAMPLE, SAMPLE * np.nan), "y must be finite"),
        (lambda: ob.mmd(SAMPLE, SAMPLE, 0.0), "width"),
        (lambda: ob.mmd(np.ones((3, 2)), np.ones((3, 2))), "width"),
        (lambda: ob.sliced_wasserstein(SAMPLE, SAMPLE, 0), "directions must be"),
        (lambda: ob.sampling_floor(SAMPLE, SAMPLE, 0), "splits must be"),
        (lambda: ob.gaussian_like(SAMPLE, 0), "n must be"),
        (lambda: ob.frechet(SAMPLE, SAMPLE * np.inf), "y must be finite"),
        (lambda: ob.wasserstein(np.eye(3), np.eye(3), 0.5), "p must be"),
        (lambda: ob.wasserstein(np.eye(3), 2 * np.eye(3)), "y must be unit vectors"),
        (lambda: ob.wasserstein(np.eye(3), np.eye(3), x_weights=np.array([2.0, -1.0, 0.0])), "x_weights must be 3"),
        (lambda: ob.wasserstein(np.eye(3) * np.nan, np.eye(3)), "x must be finite"),
        (lambda: ob.circle_wasserstein(np.array([0.0, np.nan]), np.zeros(2)), "theta must be finite"),
        (lambda: ob.wasserstein_to_pair(np.zeros(3), (0.0, 1.0), 0.5, np.inf), "p must be"),
        (lambda: ob.wasserstein_to_pair(np.zeros(0), (0.0, 1.0), 0.5), "at least one row"),
    ],
)
def test_samples_and_distances_that_make_no_sense_are_refused(call, word):
    with pytest.raises(SphereflowError, match=word):
        call()


def test_the_two_points_of_the_line_are_half_a_turn_apart():
    """On the sphere of one dimension: by the assignment, and with weights; the chord has length 2."""
    there, here = np.array([[1.0], [1.0]]), np.array([[-1.0], [1.0]])
    half = np.pi / np.sqrt(2)
    assert ob.wasserstein(there, here) == pytest.approx(half)
    assert ob.wasserstein(there, here, x_weights=np.ones(2)) == pytest.approx(half)  # masses up to a factor
    assert ob.wasserstein(there, here, metric="euclidean") == pytest.approx(np.sqrt(2))


@pytest.mark.slow
def test_a_plan_of_many_points_is_solved_to_the_end():
    """POT stops after 10^5 pivots with the plan that it has; two atoms have a best plan that is known."""
    rng, n, m = np.random.default_rng(0), 30_000, 40
    x, y = np.sort(rng.normal(size=n))[:, None], np.sort(rng.normal(size=m))[:, None]
    weights = rng.uniform(0.5, 1.5, m)
    found = ob.wasserstein(x, y, metric="euclidean", x_weights=np.ones(n), y_weights=weights)
    # On the line the best plan is the one in order: quantiles are compared where either jumps.
    levels = [np.arange(1, n + 1) / n, np.cumsum(weights) / weights.sum()]
    ends = np.sort(np.concatenate(levels))
    middle = (np.concatenate([[0.0], ends[:-1]]) + ends) / 2
    rows = [np.minimum(np.searchsorted(level, middle), len(level) - 1) for level in levels]
    expected = np.sqrt(np.diff(ends, prepend=0.0) @ (x[rows[0], 0] - y[rows[1], 0]) ** 2)
    assert found == pytest.approx(expected, rel=1e-9)


def test_more_pairs_than_memory_holds_are_one_sentence():
    many = np.tile(np.eye(3), (10_000, 1))
    with pytest.raises(SphereflowError, match="give a sample"):
        ob.wasserstein(many, many)
