"""Samples of y given x: exact conditioning, honest scores, and one sentence where there is no law to sample."""

import numpy as np
import pytest
from scipy.stats import norm

from sphereflow.errors import SphereflowError
from sphereflow.loading import load
from sphereflow.transport import ConditionalSampler, fit_conditional
from sphereflow.transport.conditional.sampler import _conditional_normals
from sphereflow.transport.euclidean.schedule import Schedule


def heteroscedastic(n, seed):
    """y given x is N(sin 2x, (0.5 + 0.3 x^2 / (1 + x^2))^2)."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-2, 2, n)
    return x, np.sin(2 * x) + spread(x) * rng.normal(size=n)


def spread(x):
    return 0.5 + 0.3 * x**2 / (1 + x**2)


@pytest.fixture(scope="module")
def fitted():
    return fit_conditional(*heteroscedastic(4000, 0))


def test_the_conditional_law_is_found(fitted):
    z = norm.ppf((np.arange(400) + 0.5) / 400)[:, None]
    for x0 in (-1.0, 0.0, 0.8):
        drawn = np.sort(fitted.push(x0, z)[:, 0])
        assert np.abs(drawn - np.sin(2 * x0) - spread(x0) * z[:, 0]).mean() < 0.15
    truth = -norm.logpdf(fitted.held_out[:, 1], np.sin(2 * fitted.held_out[:, 0]), spread(fitted.held_out[:, 0]))
    assert fitted.log_loss.value < truth.mean() + 0.04
    assert fitted.log_loss.value < fitted.gaussian_loss - 0.2
    assert fitted.rank_gap < fitted.rank_gap_by_chance
    assert fitted.energy < 0.02
    assert "x frozen exactly" in str(fitted)


def test_x_is_frozen_to_the_last_bit(fitted):
    assert fitted.frozen
    assert fitted.drift(0.7) == 0.0


def test_densities_integrate_to_one(fitted):
    y = np.linspace(-6, 6, 4001)
    for x0 in (-1.5, 0.3):
        assert np.trapezoid(np.exp(fitted.log_density(y[:, None], x0)), y) == pytest.approx(1.0, abs=2e-3)


def test_samplers_are_saved_and_loaded(fitted, tmp_path):
    fitted.save(tmp_path / "sampler.npz")
    again = load(tmp_path / "sampler.npz")
    assert again == fitted
    np.testing.assert_array_equal(again.sample(0.5, 20, 3), fitted.sample(0.5, 20, 3))


@pytest.mark.slow
def test_several_coordinates_on_both_sides():
    rng = np.random.default_rng(1)
    x, noise = rng.normal(size=(2, 2000, 2))
    y = np.stack([x[:, 0] + noise[:, 0], np.abs(x[:, 1]) + noise[:, 0] + 0.5 * noise[:, 1]], axis=1)
    found = fit_conditional(x, y)
    assert found.frozen
    drawn = found.sample([1.0, -1.0], 4000)
    np.testing.assert_allclose(drawn.mean(axis=0), [1.0, 1.0], atol=0.2)
    np.testing.assert_allclose(np.cov(drawn.T), [[1.0, 1.0], [1.0, 1.25]], atol=0.25)
    assert found.push(x[:5], noise[:5]).shape == (5, 2)


def test_ranks_given_x_are_normal_and_free_of_x():
    x, y = heteroscedastic(3000, 2)
    z = _conditional_normals(x[:, None], y[:, None], 150, np.random.default_rng(0))
    expected = (y - np.sin(2 * x)) / spread(x)
    assert np.corrcoef(z[:, 0], expected)[0, 1] > 0.98
    assert abs(np.corrcoef(z[:, 0], x)[0, 1]) < 0.05
    assert z.std() == pytest.approx(1.0, abs=0.03)


X, Y = heteroscedastic(400, 0)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: fit_conditional(X, Y[:-1]), "rows of pairs, got 400 and 399"),
        (lambda: fit_conditional(X[:50], Y[:50]), "at least 200"),
        (lambda: fit_conditional(X, 2 * X + 1), "linear function of x"),
        (lambda: fit_conditional(0 * X, Y), "one point repeated"),
        (lambda: fit_conditional(X, np.round(Y)), "different values"),
        (lambda: fit_conditional(np.stack([X, 2 * X], axis=1), Y), "singular covariance"),
        (lambda: fit_conditional(X, np.where(Y > 1, np.nan, Y)), "finite"),
        (lambda: fit_conditional([], []), "neither zero"),
        (lambda: fit_conditional(X, Y, pieces=20), "pieces"),
        (lambda: fit_conditional(X, Y, sampling="often"), "sampling"),
        (lambda: ConditionalSampler(Schedule.empty(2), 2), "dx"),
        (lambda: ConditionalSampler(Schedule.empty(2), 1).push(0.0, [np.nan]), "z must be finite"),
        (lambda: ConditionalSampler(Schedule.empty(2), 1).push(0.0, [[1.0, 2.0]]), "z must be rows of 1"),
        (lambda: ConditionalSampler(Schedule.empty(2), 1).log_density([np.nan], [0.0]), "y must be finite"),
        (lambda: ConditionalSampler(Schedule.empty(2), 1).log_density([[1.0, 2.0]], [[1.0], [2.0]]), "y must be rows"),
        (lambda: ConditionalSampler(Schedule.empty(2), 1).sample([1.0, 2.0], 3), "one finite point of 1"),
        (lambda: ConditionalSampler(Schedule([[1.0, 0]], [[0, 1.0]], [0.0]), 1).log_density(0.0, 0.0), "moves x"),
    ],
)
def test_one_sentence(call, said):
    with pytest.raises(SphereflowError, match=said) as told:
        call()
    assert str(told.value).count(". ") == 0


def test_the_command_line_learns_and_samples(tmp_path):
    from typer.testing import CliRunner

    from sphereflow.cli.transport import app

    np.save(tmp_path / "x.npy", X)
    np.savetxt(tmp_path / "y.csv", Y, delimiter=",")
    out, samples = tmp_path / "sampler.npz", tmp_path / "samples.npy"
    asked = ["conditional", str(tmp_path / "x.npy"), str(tmp_path / "y.csv"), "--pieces", "150", "--at", "0.5",
             "--count", "30", "--out", str(out), "--samples", str(samples)]  # fmt: skip
    told = CliRunner().invoke(app, asked, catch_exceptions=False)
    assert told.exit_code == 0
    assert "x frozen exactly" in told.output
    drawn = np.load(samples)
    np.testing.assert_array_equal(drawn, load(out).sample(0.5, 30))
    wrong = CliRunner().invoke(app, [*asked, "--at", "here"])
    assert isinstance(wrong.exception, SphereflowError)
