"""The estimator: exact densities and samples, scikit-learn's tools, and one sentence for what it cannot fit."""

import pickle

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.base import clone
from sklearn.mixture import GaussianMixture
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sphereflow.errors import SphereflowError
from sphereflow.transport import ConditionalFlow
from sphereflow.transport.conditional.boosting import Pieces, boost
from sphereflow.transport.conditional.location import fit_location
from sphereflow.transport.conditional.mixture import JointMixture, fit_mixture


def two_modes(n, seed):
    """y given x is 1.2 + 0.4 sin x or minus that, each with noise of 0.3."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=n)
    return x, rng.choice([-1, 1], n) * (1.2 + 0.4 * np.sin(x)) + 0.3 * rng.normal(size=n)


def truth(x, y):
    at = 1.2 + 0.4 * np.sin(x)
    return np.log(0.5 * norm.pdf(y, at, 0.3) + 0.5 * norm.pdf(y, -at, 0.3))


SMALL = {"components": (1, 4), "pieces": 40, "folds": 2}


@pytest.fixture(scope="module")
def fitted():
    return ConditionalFlow(components=(1, 4), pieces=100).fit(*two_modes(1500, 0))


def test_two_modes_are_within_a_twentieth_of_the_truth(fitted):
    x, y = two_modes(4000, 1)
    assert truth(x, y).mean() - fitted.score(x, y) < 0.05
    assert abs(fitted.held_out_ - fitted.score(x, y)) < 0.1
    assert sum(fitted.shares_.values()) == pytest.approx(1.0)


def test_densities_integrate_to_one_in_the_units_of_y(fitted):
    y = np.linspace(-5, 5, 4001)
    for x0 in (-1.5, 0.3):
        density = np.exp(fitted.score_samples(np.full(len(y), x0), y))
        assert np.trapezoid(density, y) == pytest.approx(1.0, abs=1e-4)


def test_samples_have_the_density(fitted):
    drawn = np.sort(fitted.sample([0.5], 4000, seed=3)[0])
    grid = np.linspace(-4, 4, 2001)
    density = np.exp(fitted.score_samples(np.full(len(grid), 0.5), grid))
    below = np.interp(
        drawn, grid, np.concatenate([[0.0], np.cumsum(0.5 * (density[1:] + density[:-1]) * np.diff(grid))])
    )
    # Kolmogorov's statistic of 4000 draws exceeds 0.031 once in a thousand.
    assert np.abs(below - (np.arange(4000) + 0.5) / 4000).max() < 0.031


@pytest.mark.slow
def test_several_coordinates_keep_their_dependence():
    rng = np.random.default_rng(1)
    x, noise = rng.normal(size=(2, 1000, 2))
    y = np.stack([x[:, 0] + noise[:, 0], np.abs(x[:, 1]) + noise[:, 0] + 0.5 * noise[:, 1]], axis=1)
    found = ConditionalFlow(**SMALL).fit(x, y)
    drawn = found.sample([[1.0, -1.0]], 3000)
    assert drawn.shape == (1, 3000, 2)
    np.testing.assert_allclose(drawn[0].mean(axis=0), [1.0, 1.0], atol=0.25)
    np.testing.assert_allclose(np.cov(drawn[0].T), [[1.0, 1.0], [1.0, 1.25]], atol=0.35)
    assert found.score_samples(x[:5], y[:5]).shape == (5,)


@pytest.mark.slow
def test_scikit_learn_clones_searches_and_cross_validates():
    x, y = two_modes(240, 2)
    flow = ConditionalFlow(**SMALL)
    again = clone(flow)
    assert again.get_params() == flow.get_params()
    assert again is not flow
    scores = cross_val_score(flow, x[:, None], y, cv=2)
    assert scores.shape == (2,)
    assert np.isfinite(scores).all()
    searched = GridSearchCV(make_pipeline(StandardScaler(), flow), {"conditionalflow__pieces": [0, 20]}, cv=2)
    searched.fit(x[:, None], y)
    assert searched.best_params_["conditionalflow__pieces"] in (0, 20)
    assert np.isfinite(searched.score(x[:, None], y))
    assert not flow.__sklearn_is_fitted__()


@pytest.mark.slow
def test_units_of_x_and_y_change_the_density_by_the_jacobian_only():
    x, y = two_modes(300, 3)
    plain, scaled = ConditionalFlow(**SMALL).fit(x, y), ConditionalFlow(**SMALL).fit(5 * x - 2, 100 * y + 7)
    np.testing.assert_allclose(scaled.score_samples(5 * x - 2, 100 * y + 7), plain.score_samples(x, y) - np.log(100))


@pytest.mark.slow
def test_the_seed_decides_everything():
    x, y = two_modes(200, 4)
    one, two, other = (ConditionalFlow(**SMALL, seed=s).fit(x, y) for s in (0, 0, 1))
    np.testing.assert_array_equal(one.score_samples(x, y), two.score_samples(x, y))
    assert not np.array_equal(one.score_samples(x, y), other.score_samples(x, y))
    kept = pickle.loads(pickle.dumps(one))
    np.testing.assert_array_equal(kept.sample(x[:3], 5, seed=1), one.sample(x[:3], 5, seed=1))


@pytest.mark.slow
def test_columns_that_say_nothing_do_no_harm():
    x, y = two_modes(300, 5)
    table = np.column_stack([x, np.ones(len(x)), 2 * x])
    assert np.isfinite(ConditionalFlow(**SMALL).fit(table, y).score(table, y))


@pytest.mark.parametrize("unit", [1e-200, 1e90])
def test_units_whose_squares_are_no_numbers_change_the_density_by_the_jacobian_only(unit):
    """Of numbers like 1e-200 the variance is zero in doubles: they were not scaled, 430 nats were lost in silence."""
    x, y = two_modes(120, 3)
    flow = ConditionalFlow(components=1, pieces=0, folds=2)
    plain = flow.fit(x, y).score_samples(x, y)
    np.testing.assert_allclose(flow.fit(unit * x, unit * y).score_samples(unit * x, unit * y), plain - np.log(unit))


def test_a_regression_first_finds_a_bent_mean_that_one_gaussian_cannot_have():
    """Of y = sin(3 x) + noise of 0.1 the best possible is log N of the noise; a joint Gaussian is far from it."""
    rng = np.random.default_rng(8)
    x = rng.uniform(-2, 2, size=(900, 1))
    y = np.sin(3 * x[:, 0]) + 0.1 * rng.normal(size=900)
    found = ConditionalFlow(components=1, pieces=0, folds=3).fit(x[:600], y[:600])
    best = norm.logpdf(y[600:], np.sin(3 * x[600:, 0]), 0.1).mean()
    assert found.shifted_ > 0.9
    assert best - found.score(x[600:], y[600:]) < 0.15
    drawn = found.sample([[0.5]], 4000, seed=1)[0]
    assert drawn.mean() == pytest.approx(np.sin(1.5), abs=0.05)
    assert drawn.std() == pytest.approx(0.1, abs=0.03)


def test_two_coordinates_with_regressions_integrate_to_one():
    rng = np.random.default_rng(9)
    x = rng.uniform(-2, 2, size=(300, 1))
    y = np.column_stack([np.sin(2 * x[:, 0]), x[:, 0] ** 2]) + 0.2 * rng.normal(size=(300, 2))
    y[:, 1] += np.abs(y[:, 0])
    found = ConditionalFlow(components=1, pieces=20, folds=2).fit(x, y)
    assert found.shifted_ > 0.5
    side = np.linspace(-4, 8, 401)
    at = np.stack(np.meshgrid(side, side, indexing="ij"), axis=-1).reshape(-1, 2)
    density = np.exp(found.score_samples(np.full((len(at), 1), 0.7), at)).reshape(401, 401)
    assert np.trapezoid(np.trapezoid(density, side), side) == pytest.approx(1.0, abs=2e-3)
    drawn = found.sample([[0.7]], 4000, seed=2)[0]
    means = [np.trapezoid(np.trapezoid(density * part, side), side) for part in np.meshgrid(side, side, indexing="ij")]
    # Five standard errors of a mean of 4000 draws.
    assert np.all(np.abs(drawn.mean(axis=0) - means) < 5 * drawn.std(axis=0) / np.sqrt(4000) + 2e-3)


def test_a_row_left_out_of_its_regression_is_predicted_as_if_it_were_not_there():
    """The closed form of the residual against fitting again without each row, heights from the same penalty."""
    rng = np.random.default_rng(3)
    u, y = rng.normal(size=(30, 2)), rng.normal(size=30)
    location, left = fit_location(u, y, (u[:5] + 0.1, y[:5]), np.random.default_rng(0))
    table = np.column_stack([np.maximum(u @ location.a.T + location.b, 0), u, np.ones(30)])
    gram, moments = table.T @ table, table.T @ y

    def heights(penalty, row=None):
        away = 0 if row is None else np.outer(table[row], table[row])
        pull = 0 if row is None else table[row] * y[row]
        return np.linalg.solve(gram - away + penalty * np.eye(len(gram)), moments - pull)

    penalties = 10.0 ** np.arange(-1, 4, 0.5)
    penalty = min(penalties, key=lambda p: np.abs(heights(p) - location.heights).max())
    np.testing.assert_allclose(heights(penalty), location.heights, atol=1e-8)
    alone = [y[i] - table[i] @ heights(penalty, i) for i in range(30)]
    np.testing.assert_allclose(left, alone, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (lambda x, y: ConditionalFlow().fit(x[:10], y[:10]), "10 rows are too few"),
        (lambda x, y: ConditionalFlow().fit(x[:60], y), "60 and 100 rows"),
        (lambda x, y: ConditionalFlow().fit(x, np.round(y)), "different values"),
        (lambda x, y: ConditionalFlow().fit(np.where(x > 0, np.nan, x), y), "X"),
        (lambda x, y: ConditionalFlow(folds=1).fit(x, y), "folds"),
        (lambda x, y: ConditionalFlow(pieces=-1).fit(x, y), "pieces"),
        (lambda x, y: ConditionalFlow(components=()).fit(x, y), "components"),
        (lambda x, y: ConditionalFlow(components=(0, 2)).fit(x, y), "components"),
        (lambda x, y: ConditionalFlow().score(x, y), "not fitted"),
        (lambda x, y: ConditionalFlow().set_params(knots=3), "no parameter"),
    ],
)
def test_what_cannot_be_fitted_is_said_in_one_sentence(given, words):
    with pytest.raises(SphereflowError, match=words):
        given(*two_modes(100, 6))


def test_wrong_columns_are_refused(fitted):
    with pytest.raises(SphereflowError, match="1 columns"):
        fitted.sample(np.zeros((3, 2)))
    with pytest.raises(SphereflowError, match="3 rows"):
        fitted.score_samples(np.zeros(3), np.zeros(4))


def test_the_mixture_agrees_with_scikit_learns():
    x, y = two_modes(1500, 7)
    rows = np.column_stack([x, y])
    ours = fit_mixture(rows, 2, np.random.default_rng(0))
    theirs = GaussianMixture(2, random_state=0, tol=1e-6, max_iter=500).fit(rows)
    order, other = np.argsort(ours.means[:, 1]), np.argsort(theirs.means_[:, 1])
    np.testing.assert_allclose(ours.means[order], theirs.means_[other], atol=0.02)
    np.testing.assert_allclose(ours.weights[order], theirs.weights_[other], atol=0.01)
    np.testing.assert_allclose(ours.covariances[order], theirs.covariances_[other], atol=0.02)


def test_a_conditional_of_one_component_is_the_regression():
    covariance = np.array([[2.0, 0.8], [0.8, 1.0]])
    law = JointMixture(np.ones(1), np.array([[1.0, -1.0]]), covariance[None]).conditional(1, np.array([[0.0], [2.0]]))
    y = np.array([0.3, -0.4])
    centre, spread = np.array([-1.4, -0.6]), np.sqrt(1 - 0.64 / 2)
    np.testing.assert_allclose(law.log_density(y), norm.logpdf(y, centre, spread))
    np.testing.assert_allclose(law.normal_score(y), (y - centre) / spread)
    np.testing.assert_allclose(law.quantile(np.array([-3.0, 9.0])), centre + spread * np.array([-3.0, 9.0]))


def test_pieces_are_undone_and_know_their_derivative():
    rng = np.random.default_rng(0)
    u, z = rng.normal(size=(50, 2)), rng.normal(size=50)
    pieces = Pieces(rng.normal(size=(6, 2)), rng.normal(size=6), rng.normal(size=6), 0.3 * rng.normal(size=6))
    moved, log_det = pieces.carry(u, z)
    np.testing.assert_allclose(pieces.back(u, moved), z, atol=1e-12)
    slope = (pieces.carry(u, z + 1e-6)[0] - pieces.carry(u, z - 1e-6)[0]) / 2e-6
    np.testing.assert_allclose(np.log(slope), log_det, atol=1e-6)


def test_boosting_finds_a_shift_and_leaves_noise_alone():
    rng = np.random.default_rng(2)
    u, z = rng.normal(size=(2000, 1)), rng.normal(size=2000)
    bent = z + np.abs(u[:, 0])
    pieces = boost(u[:1500], bent[:1500], (u[1500:], bent[1500:]), 150, rng)
    rest = pieces.carry(u, bent)[0]
    assert np.corrcoef(rest, z)[0, 1] > 0.99
    assert len(boost(u[:1500], z[:1500], (u[1500:], z[1500:]), 150, rng)) < 30
