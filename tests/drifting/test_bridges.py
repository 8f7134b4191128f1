"""Bridges with full covariances, their drift, paths and densities, and the Gaussian benchmark, against plain sums."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.linalg import sqrtm
from scipy.stats import multivariate_normal

from sphereflow import drifting
from sphereflow.drifting.pictures import map_of_plane, straight_paths, trajectories
from sphereflow.errors import SphereflowError

WEIGHTS, CENTRES, EPSILON = np.array([0.4, 0.6]), np.array([[1.0, 0.0], [0.0, -1.0]]), 0.4
SPREADS = np.array([[[0.9, 0.3], [0.3, 0.5]], [[0.4, -0.1], [-0.1, 1.1]]])
X = np.array([[0.3, -0.4], [-1.0, 0.2], [0.0, 0.0]])


@pytest.fixture(scope="module")
def full():
    return drifting.light_bridge(WEIGHTS, CENTRES, SPREADS, EPSILON)


def conditional(x, t=1.0):
    """Weights, means and covariances of the mixture of the position at time t, written out."""
    logs = [
        np.log(a) + (x @ s @ x + 2 * r @ x) / (2 * EPSILON) for a, r, s in zip(WEIGHTS, CENTRES, SPREADS, strict=True)
    ]
    w = np.exp(logs - np.max(logs))
    means = [(1 - t) * x + t * (r + s @ x) for r, s in zip(CENTRES, SPREADS, strict=True)]
    return w / w.sum(), means, [EPSILON * (t * t * s + t * (1 - t) * np.eye(2)) for s in SPREADS]


def test_full_covariances_are_those_that_were_given(full):
    np.testing.assert_allclose(full.covariances, SPREADS, atol=1e-14)
    for x, value in zip(X, np.asarray(full.log_potential(jnp.asarray(X))), strict=True):
        parts = zip(WEIGHTS, CENTRES, SPREADS, strict=True)
        right = np.log(sum(a * multivariate_normal(r, EPSILON * s).pdf(x) for a, r, s in parts))
        assert value == pytest.approx(right, abs=1e-12)


def test_moments_and_densities_of_the_position(full):
    for t in (0.3, 1.0):
        means, covariances = full.moments(jnp.asarray(X), t)
        densities = drifting.bridge_log_density(full, X, [[0.5, 0.5], [2.0, 0.0]], t)
        expected = np.zeros(2)
        for x, mean, covariance in zip(X, np.asarray(means), np.asarray(covariances), strict=True):
            w, m, c = conditional(x, t)
            middle = sum(a * b for a, b in zip(w, m, strict=True))
            spread = sum(a * (b + np.outer(d - middle, d - middle)) for a, b, d in zip(w, c, m, strict=True))
            np.testing.assert_allclose(mean, middle, atol=1e-13)
            np.testing.assert_allclose(covariance, spread, atol=1e-13)
            places = np.array([[0.5, 0.5], [2.0, 0.0]])
            expected += sum(a * multivariate_normal(b, d).pdf(places) for a, b, d in zip(w, m, c, strict=True)) / 3
        np.testing.assert_allclose(np.exp(densities), expected, rtol=1e-10)


def test_diagonal_and_full_bridges_are_one_where_they_meet():
    diagonal = np.array([[0.5, 1.2], [0.9, 0.3]])
    one = drifting.light_bridge(WEIGHTS, CENTRES, diagonal, EPSILON)
    other = drifting.light_bridge(WEIGHTS, CENTRES, [np.diag(row) for row in diagonal], EPSILON)
    assert one.frames is None
    assert other.frames is not None
    x = jnp.asarray(X)
    for call in (lambda b: b.drift(x, 0.4), lambda b: b.mean_map(x), lambda b: b.log_normaliser(x)):
        np.testing.assert_allclose(call(one), call(other), atol=1e-12)


def test_draws_have_the_moments_of_the_plan(full):
    x = jnp.tile(jnp.asarray(X[:1]), (40_000, 1))
    drawn = np.asarray(full.sample(x, jax.random.key(1)))
    mean, covariance = (np.asarray(each)[0] for each in full.moments(x[:1]))
    np.testing.assert_allclose(drawn.mean(axis=0), mean, atol=5 * np.sqrt(covariance.max() / 40_000))
    np.testing.assert_allclose(np.cov(drawn.T), covariance, atol=8 * covariance.max() / 200)


def test_the_drift_is_regular_up_to_the_end(full):
    """At t = 1 it is epsilon times the gradient of log phi plus x: what the general formula tends to."""
    x = jnp.asarray(X)
    gradient = jax.grad(lambda y: jnp.sum(full.log_potential(y)))(x)
    np.testing.assert_allclose(full.drift(x, 1.0), x + EPSILON * gradient, atol=1e-12)


def test_both_ways_of_drawing_paths_have_one_law(full):
    x = np.tile(X[1], (5000, 1))
    ways = [
        drifting.bridge_paths(full, x, saveat=[0.0, 0.5, 1.0], method=m, steps=50, seed=2) for m in ("bridge", "euler")
    ]
    for paths in ways:
        np.testing.assert_array_equal(paths.positions[0], x)
        for place, t in ((1, 0.5), (2, 1.0)):
            mean, covariance = (np.asarray(each)[0] for each in full.moments(jnp.asarray(x[:1]), t))
            np.testing.assert_allclose(paths.positions[place].mean(axis=0), mean, atol=0.06)
            np.testing.assert_allclose(np.cov(paths.positions[place].T), covariance, atol=0.06)


def test_steps_end_at_the_times_asked_for():
    bridge = drifting.gaussian_bridge(([0.0], [[1.0]]), ([0.0], [[4.0]]), 1.0)
    one = drifting.bridge_paths(bridge, [[0.5]], saveat=[0.33], method="euler", steps=4)
    two = drifting.bridge_paths(bridge, [[0.5]], saveat=[0.33, 1.0], method="euler", steps=4)
    assert one.positions.shape == (1, 1, 1)
    assert one.positions[0] == two.positions[0]


def test_starts_drawn_with_the_seed_of_the_noise_do_no_harm():
    bridge = drifting.gaussian_bridge(([0.0], [[1.0]]), ([0.0], [[4.0]]), 1.0)
    x0 = np.random.default_rng(5).normal(size=(4000, 1))
    ends = drifting.bridge_paths(bridge, x0, saveat=[0.01], method="euler", steps=1, seed=5).positions[0]
    noise = ends - x0 * (1 + 0.01 * float(bridge.covariances[0, 0, 0] - 1))
    assert abs(np.corrcoef(noise[:, 0], x0[:, 0])[0, 1]) < 0.1


def test_the_benchmark_between_gaussians():
    """Numbers by SciPy's roots of matrices: the sheet of the benchmark."""
    a, b, shift, epsilon = np.diag([1.0, 2.0]), np.array([[1.5, 0.6], [0.6, 0.8]]), np.array([1.0, -0.5]), 0.5
    root = np.real(sqrtm(a))
    back = np.linalg.inv(root)
    s = back @ (np.real(sqrtm(root @ b @ root + epsilon**2 / 4 * np.eye(2))) - epsilon / 2 * np.eye(2)) @ back
    start = np.array([0.3, -2.0])
    bridge = drifting.gaussian_bridge((start, a), (shift, b), epsilon)
    np.testing.assert_allclose(bridge.covariances[0], s, atol=1e-12)
    np.testing.assert_allclose(bridge.mean_map(jnp.asarray(start[None]))[0], shift, atol=1e-12)
    for t, law in ((0.0, (start, a)), (1.0, (shift, b))):
        for found, right in zip(drifting.gaussian_marginal((start, a), (shift, b), epsilon, t), law, strict=True):
            np.testing.assert_allclose(found, right, atol=1e-12)
    middle = drifting.gaussian_marginal(([0.0], [[1.0]]), ([0.0], [[4.0]]), 1.0, 0.5)[1][0, 0]
    assert middle == pytest.approx(2.2807764064, abs=1e-10)
    assert drifting.bw_uvp((np.zeros(2), a), (shift, b)) == pytest.approx(154.634, abs=1e-3)
    assert drifting.bw_uvp((shift, b), (shift, b)) == pytest.approx(0, abs=1e-12)


def test_scores_of_samples_come_near_those_of_moments():
    rng = np.random.default_rng(0)
    rows, other = rng.normal(size=(50_000, 2)), 1 + 2 * rng.normal(size=(50_000, 2))
    exact = 100 * (2 + 2 * (2 - 1) ** 2) / (8 / 2)
    assert drifting.bw_uvp(rows, other) == pytest.approx(exact, rel=0.03)
    draws = rng.normal(size=(5, 20_000, 2))
    means = (np.zeros((5, 2)), np.tile(4 * np.eye(2), (5, 1, 1)))
    assert drifting.cbw_uvp(draws, means, other) == pytest.approx(100 * 2 / 4, rel=0.05)


@pytest.mark.slow
def test_training_finds_a_correlation_with_equal_variances():
    """From diagonal frames the gradient could never turn these."""
    rng = np.random.default_rng(1)
    b = np.array([[1.0, 0.7], [0.7, 1.0]])
    x, y = rng.normal(size=(20_000, 2)), rng.multivariate_normal(np.zeros(2), b, 20_000)
    truth = drifting.gaussian_bridge((np.zeros(2), np.eye(2)), (np.zeros(2), b), 0.5)
    scores = {}
    for covariance in ("diagonal", "full"):
        bridge, history = drifting.train_light_bridge(
            drifting.from_rows(x),
            drifting.from_rows(y),
            potentials=1,
            epsilon=0.5,
            covariance=covariance,
            steps=1000,
            batch=512,
            rate=0.1,
            falling=True,
        )
        assert history[-1] < history[0]
        starts = jnp.asarray(x[:200])
        scores[covariance] = drifting.cbw_uvp(bridge.moments(starts), truth.moments(starts), (np.zeros(2), b))
    assert scores["full"] < 0.3
    assert scores["diagonal"] > 10


def test_pictures_of_maps_and_paths():
    rows = np.random.default_rng(0).normal(size=(30, 2))
    stretch = lambda x: x * jnp.asarray([2.0, 0.5])  # noqa: E731
    paths = straight_paths(stretch, rows, np.array([0.0, 0.5, 1.0]))
    np.testing.assert_allclose(paths[1], rows * [1.5, 0.75])
    assert len(trajectories(paths, np.array([0.0, 0.5, 1.0]), shown=10).axes[0].lines) == 12
    assert len(trajectories(paths[..., :1], np.array([0.0, 0.5, 1.0])).axes[0].lines) == 32
    before, after = map_of_plane(stretch, rows, rows + 1, lines=4).axes
    assert np.allclose(after.lines[-1].get_xdata(), 2 * np.asarray(before.lines[-1].get_xdata()))
    with pytest.raises(SphereflowError, match="image of the map"):
        map_of_plane(lambda x: x[:, :1], rows)
    with pytest.raises(SphereflowError, match="positions"):
        trajectories(paths[:, :0], np.array([0.0, 0.5, 1.0]))


LAW, WIDER = ([0.0], [[1.0]]), ([0.0], [[4.0]])


@pytest.mark.parametrize(
    ("call", "word"),
    [
        (lambda b: drifting.light_bridge([1.0], [[0.0]], [[1.0]], 0.0), "epsilon"),
        (lambda b: drifting.light_bridge([-1.0], [[0.0]], [[1.0]], 1.0), "weights must be positive"),
        (lambda b: drifting.light_bridge([1.0, 1.0], [[0.0]], [[1.0]], 1.0), "weights"),
        (lambda b: drifting.light_bridge([1.0], [[0.0]], [1.0], 1.0), "spreads"),
        (lambda b: drifting.light_bridge([1.0], [[0.0, 0.0]], [[[1.0, 0.5], [0.0, 1.0]]], 1.0), "symmetric"),
        (lambda b: drifting.light_bridge([1.0], [[0.0, 0.0]], [[[1.0, 2.0], [2.0, 1.0]]], 1.0), "positive"),
        (lambda b: drifting.light_bridge([1.0], [[np.nan]], [[1.0]], 1.0), "centres must be finite"),
        (lambda b: drifting.bridge_paths(b, [[0.0]]), "x0 must have the shape"),
        (lambda b: drifting.bridge_paths(b, np.zeros((0, 2))), "x0"),
        (lambda b: drifting.bridge_paths(b, X, saveat=[0.5, 0.5]), "saveat"),
        (lambda b: drifting.bridge_paths(b, X, saveat=[0.5, 1.5]), "saveat"),
        (lambda b: drifting.bridge_paths(b, X, method="heun"), "method"),
        (lambda b: drifting.bridge_paths(b, X, steps=0), "steps"),
        (lambda b: drifting.bridge_log_density(b, X, X, 0.0), "t must be"),
        (lambda b: drifting.gaussian_bridge(LAW, ([0.0], [[0.0]]), 1.0), "positive definite"),
        (lambda b: drifting.gaussian_bridge(LAW, ([0.0, 0.0], np.eye(2)), 1.0), "dimension"),
        (lambda b: drifting.gaussian_marginal(LAW, WIDER, 1.0, 2.0), "t must be"),
        (lambda b: drifting.bw_uvp(np.zeros((1, 2)), LAW), "law"),
        (lambda b: drifting.bw_uvp(LAW, np.zeros((3, 1))), "positive variance"),
        (lambda b: drifting.cbw_uvp(np.zeros((2, 1, 1)), np.zeros((2, 3, 1)), LAW), "two draws"),
        (lambda b: drifting.cbw_uvp(np.zeros((2, 3, 1)), np.zeros((3, 3, 1)), LAW), "same starts"),
        (
            lambda b: drifting.train_light_bridge(drifting.from_rows(X), drifting.from_rows(X), covariance="round"),
            "covariance",
        ),
    ],
)
def test_bad_input_of_bridges_is_named(full, call, word):
    with pytest.raises(SphereflowError, match=word):
        call(full)
