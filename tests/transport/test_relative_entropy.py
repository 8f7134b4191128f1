"""From one law to another in relative entropy: laws, rearrangements, grids, Gaussianisation, training, the one door."""

import json
import math
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from scipy.integrate import quad

from sphereflow.cli import app
from sphereflow.cli.exit_codes import exit_code
from sphereflow.errors import SphereflowError
from sphereflow.loading import load
from sphereflow.observables import energy_distance
from sphereflow.transport import Schedule
from sphereflow.transport.euclidean import grid
from sphereflow.transport.euclidean.clouds import checked_cloud
from sphereflow.transport.euclidean.comparison import compare
from sphereflow.transport.euclidean.divergences import divergences, obstructions, reverse_pinsker
from sphereflow.transport.euclidean.fitting import fit
from sphereflow.transport.euclidean.gaussianisation import gaussianise
from sphereflow.transport.euclidean.grid import CellGrid, grid_schedule
from sphereflow.transport.euclidean.laws import Histogram, Mixture, StudentT, gaussian
from sphereflow.transport.euclidean.line import kinks, line_divergences
from sphereflow.transport.euclidean.monotone import Rearrangement, piecewise_linear
from sphereflow.transport.euclidean.named_laws import eight_modes, three_modes, two_modes
from sphereflow.transport.learned.schedules import train_schedule


def test_a_mixture_is_what_scipy_says():
    covariances = np.array([[[1.0, 0.3], [0.3, 0.5]], [[0.4, 0.0], [0.0, 2.0]]])
    law = Mixture([[0.0, 1.0], [2.0, -1.0]], weights=[0.3, 0.7], covariances=covariances)
    x = np.random.default_rng(0).normal(size=(20, 2))
    parts = [stats.multivariate_normal(m, c).pdf(x) for m, c in zip(law.means, covariances, strict=True)]
    np.testing.assert_allclose(law.log_density(x), np.log(0.3 * parts[0] + 0.7 * parts[1]), atol=1e-12)
    u = np.array([0.6, 0.8])
    sample = law.sample(100_000, 1)
    assert (sample**2).sum(axis=1).mean() == pytest.approx(law.second_moment, rel=0.02)
    marginal = law.marginal(u)
    assert np.mean(sample @ u <= 0.5) == pytest.approx(float(np.exp(marginal.log_cdf(0.5))), abs=0.008)


@pytest.mark.parametrize("law", [two_modes(), gaussian(1, 2.0, 3.0), StudentT(2.0), Histogram([0, 1, 3], [0.2, 0.8])])
def test_quantiles_undo_the_distribution_function_in_both_tails(law):
    levels = np.array([-60.0, -20.0, -3.0, math.log(0.5)])
    below = law.quantile(levels, np.log1p(-np.exp(levels)))
    above = law.quantile(np.log1p(-np.exp(levels)), levels)
    np.testing.assert_allclose(law.log_cdf(below), levels, rtol=1e-9)
    # Close to an edge at 3 a number has no more digits: 3 - 1e-26 is 3.
    felt = law.log_sf(above) > -15 if isinstance(law, Histogram) else np.full(4, True)
    np.testing.assert_allclose(law.log_sf(above)[felt], levels[felt], rtol=1e-9)


@pytest.mark.parametrize("law", [two_modes(), StudentT(2.5)])
def test_scores_are_derivatives(law):
    y, h = np.linspace(-4, 4, 9), 1e-6
    slope = (law.log_density((y + h)[:, None]) - law.log_density((y - h)[:, None])) / (2 * h)
    np.testing.assert_allclose(law.score(y), slope, atol=1e-7)


@given(st.integers(0, 10_000))
def test_piecewise_linear_maps_along_a_direction(seed):
    rng = np.random.default_rng(seed)
    x, y = np.cumsum(rng.uniform(0.1, 1, 5)), np.cumsum(rng.uniform(0.1, 1, 5)) - 2
    u = rng.normal(size=3)
    u /= np.linalg.norm(u)
    schedule = piecewise_linear(x, y, 0.7, 1.8, direction=u)
    points = rng.normal(size=(50, 3)) * 3
    s = points @ u
    wanted = np.interp(s, x, y) + np.where(s < x[0], 0.7 * (s - x[0]), 1.8 * np.maximum(s - x[-1], 0))
    moved = schedule.apply(points)
    np.testing.assert_allclose(moved @ u, wanted, atol=1e-11)
    np.testing.assert_allclose(moved - np.outer(moved @ u, u), points - np.outer(s, u), atol=1e-11)
    assert schedule.n_pieces <= 7


def test_kinks_are_where_the_slope_jumps():
    schedule = Rearrangement(gaussian(1), two_modes()).schedule(6)
    found = kinks(schedule)
    np.testing.assert_allclose(found, Rearrangement(gaussian(1), two_modes()).knots(6)[0], atol=1e-10)
    left, right = schedule.log_det((found - 1e-7)[:, None]), schedule.log_det((found + 1e-7)[:, None])
    assert (np.abs(left - right) > 1e-3).all()


def test_divergences_of_gaussians_are_the_closed_form():
    """N(0, 1) scaled by 2 and moved by 1, against N(0, 1): KL known, on the line by quadrature, in R^2 by samples."""
    line = piecewise_linear([0.0], [1.0], 2.0, 2.0)
    closed = (4 + 1) / 2 - 0.5 - math.log(2), math.log(2) + (1 + 1) / 8 - 0.5
    found = divergences(line, gaussian(1), gaussian(1))
    assert (found.reverse.value, found.forward.value) == pytest.approx(closed, abs=1e-9)
    tv = quad(lambda t: abs(stats.norm.pdf(t) - stats.norm.pdf(t, 1, 2)) / 2, -15, 15, points=(-1.9, 1.2), limit=200)[0]
    assert found.tv.value == pytest.approx(tv, abs=1e-6)
    plane = piecewise_linear([0.0], [1.0], 2.0, 2.0, direction=[0.6, 0.8])
    sampled = divergences(plane, gaussian(2), gaussian(2), samples=20_000)
    assert abs(sampled.reverse.value - closed[0]) <= 4 * sampled.reverse.error
    assert abs(sampled.forward.value - closed[1]) <= 4 * sampled.forward.error
    assert abs(sampled.tv.value - tv) <= 4 * sampled.tv.error


@given(st.lists(st.floats(0.01, 1), min_size=2, max_size=6), st.integers(0, 1000))
def test_reverse_pinsker_on_finite_laws(weights, seed):
    p = np.array(weights) / np.sum(weights)
    q = np.random.default_rng(seed).dirichlet(np.full(len(p), 2.0))
    kl, tv = float(p @ np.log(p / q)), float(np.abs(p - q).sum() / 2)
    assert kl <= reverse_pinsker(float((p / q).max())) * tv + 1e-12


@pytest.mark.parametrize(
    ("base", "target", "forward", "reverse"),
    [
        (gaussian(1), StudentT(2.0), "second moment", ""),
        (StudentT(1.5), gaussian(1), "", "second moment"),
        (gaussian(2), StudentT(2.0, 2), "second moment", ""),
        (gaussian(1), StudentT(2.1), "", ""),
        (gaussian(1), Histogram([0, 1]), "", "bounded support"),
        (Histogram([0, 1]), gaussian(1), "outside the reach", ""),
        (gaussian(1), two_modes(), "", ""),
    ],
)
def test_tails_that_forbid_are_named(base, target, forward, reverse):
    found = obstructions(base, target)
    assert (forward in found[0], reverse in found[1]) == (True, True)
    assert [bool(f) for f in found] == [bool(forward), bool(reverse)]


def test_target_mass_outside_the_image_makes_an_infinite_entropy():
    shifted = Histogram([0.5, 1.5])
    found = divergences(Schedule.empty(1), Histogram([0, 1]), shifted)
    assert math.isinf(found.forward.value)
    assert math.isinf(found.reverse.value)
    assert str(found).count("is infinite because some mass") == 2
    assert found.tv.value == pytest.approx(0.5, abs=1e-12)


def test_a_grid_without_isolation_gets_worse_than_no_flow(monkeypatch):
    fine = divergences(grid_schedule(three_modes(), CellGrid(4, 8)), gaussian(2), three_modes(), samples=4000)
    assert fine.forward.value < 0.2
    monkeypatch.setattr(grid, "_isolate", lambda sides, axis, d, drop: Schedule.empty(d))
    wrong = divergences(grid_schedule(three_modes(), CellGrid(4, 8)), gaussian(2), three_modes(), samples=4000)
    assert wrong.forward.value > 0.69


def test_shears_that_are_not_undone_are_noticed(monkeypatch):
    right = grid._serve

    def wrong_serve(source, sides, axis, d, asked):
        return right(source, sides, axis, d, asked) + grid._isolate(sides, axis, d, 1.0)

    monkeypatch.setattr(grid, "_serve", wrong_serve)
    wrong = divergences(grid_schedule(three_modes(), CellGrid(4, 8)), gaussian(2), three_modes(), samples=4000)
    assert wrong.forward.value > 0.69


def test_grid_in_three_dimensions_and_from_samples():
    solid = Mixture([[1.0, 0.0, 0.8], [-1.0, 0.5, -0.8]], 0.6)
    before = divergences(Schedule.empty(3), gaussian(3), solid, samples=4000).forward.value
    after = divergences(grid_schedule(solid, CellGrid(4, 8)), gaussian(3), solid, samples=4000).forward.value
    assert after < before / 2
    turned = Mixture([[1.0, 0.5], [-1.0, -0.5]], covariances=[[[0.4, 0.24], [0.24, 0.32]]] * 2)
    before = divergences(Schedule.empty(2), gaussian(2), turned, samples=4000).forward.value
    after = divergences(grid_schedule(turned, CellGrid(6, 12)), gaussian(2), turned, samples=4000).forward.value
    assert after < before / 4


def test_a_box_that_is_too_small_is_refused():
    with pytest.raises(SphereflowError, match="outside reach"):
        grid_schedule(three_modes(), CellGrid(4, 8, box=1.0))
    with pytest.raises(SphereflowError, match="two dimensions"):
        grid_schedule(two_modes())


def test_gaussianisation_wins_what_it_says():
    cloud = three_modes().sample(8000, 0)
    found = gaussianise(cloud, frames=3, knots=8, held_out=three_modes().sample(8000, 1))
    left = divergences(found.schedule, gaussian(2), three_modes(), samples=8000)
    whole = 0.688611  # by quadrature
    assert sum(found.gains) + left.forward.value == pytest.approx(whole, abs=0.03)
    assert all(gain > 0 for gain in found.gains)
    stopped = gaussianise(cloud, frames=10, knots=4, least_gain=0.05)
    assert len(stopped.gains) < 5


@pytest.mark.parametrize(
    ("cloud", "sentence"),
    [
        (np.zeros((0, 2)), "neither zero"),
        (np.ones((50, 2)), "one point repeated"),
        (np.outer(np.arange(50.0), [1, 2]), "singular covariance"),
        (np.full((50, 2), np.nan), "NaN"),
        (np.zeros((2, 2)), "too few"),
        ([["a"]], "numbers"),
        (np.repeat(np.random.default_rng(0).normal(size=(3, 2)), 30, axis=0), "atoms"),
    ],
)
def test_degenerate_clouds_are_told_why(cloud, sentence):
    with pytest.raises(SphereflowError, match=sentence):
        gaussianise(cloud, frames=1, knots=4)


def test_laws_refuse_nonsense():
    with pytest.raises(SphereflowError, match="singular"):
        Mixture([[0.0, 0.0]], covariances=[[[1.0, 1.0], [1.0, 1.0]]])
    with pytest.raises(SphereflowError, match="weights"):
        Mixture([[0.0], [1.0]], weights=[0.5, 0.6])
    with pytest.raises(SphereflowError, match="empty bin"):
        Histogram([0, 1, 2], [1.0, 0.0])
    with pytest.raises(SphereflowError, match="increasing"):
        piecewise_linear([0, 1], [1, 0], 1.0, 1.0)
    with pytest.raises(SphereflowError, match="line"):
        Rearrangement(gaussian(2), three_modes())


@pytest.mark.slow
def test_training_begins_where_it_is_told_to():
    start = Rearrangement(gaussian(1), two_modes()).schedule(6)
    found = train_schedule(two_modes(), start.n_pieces, start=start, steps=100, rate=1e-3)
    assert found.schedule.n_pieces == start.n_pieces
    before = line_divergences(start, gaussian(1), two_modes()).forward
    assert line_divergences(found.schedule, gaussian(1), two_modes()).forward < before
    entropy = -float(np.mean(two_modes().log_density(two_modes().sample(100_000, 0))))
    assert found.losses[0] == pytest.approx(entropy + before, abs=0.1)


@pytest.mark.slow
def test_training_towards_a_density_and_from_a_cloud():
    reverse = train_schedule(gaussian(1, 1.0, 0.5), 3, loss="reverse_kl", steps=300, batch=500)
    assert divergences(reverse.schedule, gaussian(1), gaussian(1, 1.0, 0.5)).reverse.value < 0.02
    cloud = gaussian(1, 1.0, 0.5).sample(2000, 0)
    learned = train_schedule(cloud, 3, gradient="boundary", steps=300, batch=500)
    assert divergences(learned.schedule, gaussian(1), gaussian(1, 1.0, 0.5)).forward.value < 0.03
    with pytest.raises(SphereflowError, match="density"):
        train_schedule(cloud, 3, loss="reverse_kl")


def test_comparisons_are_sorted_and_readable():
    line = Rearrangement(gaussian(1), two_modes())
    rows = compare({"many": line.schedule(16), "few": line.schedule(4)}, gaussian(1), two_modes()).rows
    assert [row.name for row in rows] == ["few", "many"]
    assert rows[0].errors.forward.value > rows[1].errors.forward.value
    assert "5 switches" in str(rows[0])


@pytest.mark.slow
def test_the_door_takes_laws_and_clouds():
    rng = np.random.default_rng(0)
    on_line = fit(gaussian(1), two_modes(), 18)
    assert on_line.schedule.n_pieces == 18
    assert on_line.divergences.forward.value == pytest.approx(7.805e-3, rel=0.005)
    assert "C/S^2" in on_line.bound
    clouds = fit(rng.normal(size=(2000, 1)), 3 + rng.exponential(size=(2000, 1)), 20)
    assert clouds.schedule.n_pieces <= 20
    assert clouds.energy < 0.02
    ring = np.stack([np.cos(t := rng.uniform(0, 6.3, 4000)), np.sin(t)], axis=1) * rng.normal(2, 0.2, (4000, 1))
    around = fit(gaussian(2), ring, 200)
    assert around.schedule.n_pieces <= 200
    # The Gaussian with the same moments has entropy 1 + log(2 pi sigma^2) with sigma^2 = 2.02.
    assert around.cross_entropy.value < 1 + math.log(2 * math.pi * 2.02) - 0.2
    through = fit(ring, eight_modes(), 400)
    assert through.energy < 0.05
    assert "through N(0, I)" in str(through)
    assert "boundary term" in fit(gaussian(1), two_modes(), 6, "train", steps=100).route


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((gaussian(1), three_modes(), 20), "one dimension"),
        ((gaussian(1), two_modes(), 2), "at least 3"),
        ((gaussian(1), two_modes(), 20, "magic"), "construct, train"),
        ((two_modes(), gaussian(1), 20, "train"), "standard Gaussian"),
        ((gaussian(2), np.zeros((10, 2)), 20), "one point repeated"),
        ((gaussian(2), np.random.default_rng(0).normal(size=(20, 2)), 20), "at least 40"),
        ((gaussian(3), np.random.default_rng(0).normal(size=(90, 3)), 10), "at least 18 pieces"),
    ],
)
def test_the_door_says_why_not(arguments, sentence):
    with pytest.raises(SphereflowError, match=sentence):
        fit(*arguments)


def test_energy_distance_is_zero_for_equal_clouds_only():
    x = np.random.default_rng(0).normal(size=(300, 2))
    assert energy_distance(x, x, unbiased=False) == pytest.approx(0, abs=1e-12)
    assert energy_distance(x, x + 1) > 0.3
    assert checked_cloud(np.arange(5.0)).shape == (5, 1)


@pytest.mark.slow
def test_command_line_fits_and_applies(tmp_path):
    run = subprocess.run(
        [sys.executable, "-m", "sphereflow", "transport", "fit", "--source", "gaussian", "--target", "student-t",
         "--pieces", "12", "--out", "s.json"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert "KL(target||image) is infinite because" in run.stdout
    assert json.loads((tmp_path / "s.json").read_text())["space"] == "euclid"
    assert (tmp_path / "s.png").stat().st_size > 5000
    np.savetxt(tmp_path / "x.csv", np.linspace(-1, 1, 11), delimiter=",")
    arguments = ["transport", "apply", str(tmp_path / "s.json"), str(tmp_path / "x.csv"), "--out"]
    assert exit_code(app, [*arguments, str(tmp_path / "y.npy"), "--picture", str(tmp_path / "p.png")]) == 0
    moved = np.load(tmp_path / "y.npy")
    np.testing.assert_allclose(moved[:, 0], load(tmp_path / "s.json").apply(np.linspace(-1, 1, 11)[:, None])[:, 0])
    back = ["transport", "apply", str(tmp_path / "s.json"), str(tmp_path / "y.npy"), "--inverse", "--out"]
    assert exit_code(app, [*back, str(tmp_path / "z.npy")]) == 0
    np.testing.assert_allclose(np.load(tmp_path / "z.npy")[:, 0], np.linspace(-1, 1, 11), atol=1e-12)


def test_command_line_takes_the_accuracy(tmp_path, capsys):
    arguments = ["transport", "fit", "--source", "gaussian", "--target", "two-modes", "--kl", "0.1"]
    assert exit_code(app, [*arguments, "--out", str(tmp_path / "s.json")]) == 0
    assert "proved" in capsys.readouterr().out
    assert load(tmp_path / "s.json").n_pieces < 16


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["fit", "--source", "gaussian", "--target", "nowhere"], "neither a file nor one of the laws"),
        (["fit", "--source", "two-modes", "--target", "three-modes"], "share one dimension"),
        (["fit", "--source", "gaussian", "--target", "empty.npy"], "neither zero"),
        (["fit", "--source", "gaussian", "--target", "two-modes", "--out", "s.txt"], ".json or a .npz"),
        (["fit", "--source", "gaussian", "--target", "two-modes", "--kl", "0"], "kl must be"),
        (["fit", "--source", "gaussian", "--target", "two-modes", "--kl", "1", "--pieces", "9"], "either pieces or kl"),
        (["apply", "absent.json", "empty.npy"], "there is no file absent.json"),
        (["apply", "empty.npy", "empty.npy"], "no result saved by sphereflow"),
    ],
)
def test_command_line_speaks_in_one_sentence(arguments, sentence, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    np.save("empty.npy", np.zeros((0, 2)))
    assert exit_code(app, ["transport", *arguments]) == 2
    assert sentence in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty.npy"]
