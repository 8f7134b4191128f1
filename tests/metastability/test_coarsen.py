"""Runs to the single cluster: against direct integration, invariants, saddles, perceptrons, storage."""

import dataclasses
import json
import math

import numpy as np
import pytest

import sphereflow as sf
from sphereflow.errors import SphereflowError
from sphereflow.metastability import Outcome, coarsen_to_one, crowd, log_merging_time, staircase, well_prepared
from sphereflow.metastability.staircases import limit

START = np.array([0.0, 0.55, 1.35, 2.45, 4.0])


def circle(theta):
    return np.stack([np.cos(theta), np.sin(theta)], axis=-1)


@pytest.fixture(scope="module")
def history():
    return coarsen_to_one("sa", circle(START), 50.0, seed=3)


def test_energy_rises_and_plateaus_are_sums_of_squared_masses(history):
    assert history.outcome is Outcome.ONE_CLUSTER
    assert [round(p.level, 12) for p in history.plateaus] == [0.2, 0.28, 0.44, 0.52, 1.0]
    assert np.all(np.diff(history.curve[:, 1]) > -1e-12)
    assert np.all(np.diff(history.curve[:, 0]) >= 0)
    # One atom of mass m at x has the energy m^2 e^{beta(|x|^2 - 1)}. Normalising leaves |x|^2 wrong by at most (d + 4)
    # half-ulps, which the exponent multiplies by beta; adding five masses, each already rounded by their division, and
    # squaring costs a dozen more.
    rounding = (history.beta * (history.d + 4) / 2 + 12) * np.finfo(float).eps
    assert history.merges[-1].energy_after == pytest.approx(1.0, abs=rounding)


@pytest.mark.slow
def test_the_error_estimate_covers_a_tighter_run(history):
    tight = coarsen_to_one("sa", circle(START), 50.0, tol=1e-12, errors=False)
    difference = np.abs(tight.log_times - history.log_times)
    assert np.all(difference <= [m.error for m in history.merges])
    assert all(m.resolved for m in history.merges)
    assert history.sequence() == tight.sequence()


def test_rotations_do_not_matter_and_dimension_does_not_either(history):
    matrix = np.linalg.qr(np.random.default_rng(0).normal(size=(4, 4)))[0]
    turned = coarsen_to_one("sa", circle(START) @ matrix[:2], 50.0, errors=False)
    np.testing.assert_allclose(turned.log_times, history.log_times, rtol=1e-7)
    assert turned.sequence() == history.sequence()


def test_equal_tokens_count_as_one_heavier_token():
    doubled = coarsen_to_one("sa", circle(np.repeat(START, [2, 1, 1, 1, 1])), 30.0, errors=False)
    weighted = coarsen_to_one("sa", circle(START), 30.0, masses=[2, 1, 1, 1, 1], errors=False)
    assert doubled.log_times[0] == -math.inf
    np.testing.assert_allclose(doubled.log_times[1:], weighted.log_times, rtol=1e-10)


def test_gluing_keeps_mass_and_puts_the_atom_at_the_mean():
    near = coarsen_to_one("usa", circle(np.array([0.0, 2.0, 1e-4])), 9.0, masses=[0.3, 0.2, 0.5], errors=False)
    first = near.merges[0]
    assert (first.left, first.right, first.node, first.log_time) == (0, 2, 3, -math.inf)
    assert (first.mass_left, first.mass_right) == pytest.approx((0.3, 0.5))
    assert math.atan2(first.position[1], first.position[0]) == pytest.approx(1e-4 * 5 / 8, rel=1e-6)


def test_the_mean_angle_is_conserved_by_usa():
    history = coarsen_to_one("usa", circle(START), 500.0, errors=False)
    # 4.0 joins 2.45 before they meet the others across the angle 0, as -2.283 and 4.0 - 2 pi would.
    middle, other = START[:3].mean(), START[3:].mean()
    gap = middle + 2 * np.pi - other
    landed = other + gap * 3 / 5
    final = math.atan2(history.final[0, 1], history.final[0, 0]) % (2 * np.pi)
    assert final == pytest.approx(landed if gap < np.pi else START.mean(), abs=1e-7)


def test_symmetric_starts_stay_on_their_saddle_until_perturbed():
    start = circle(2 * np.pi * np.arange(4) / 4)
    assert coarsen_to_one("sa", start, 9.0).outcome is Outcome.SADDLE
    assert coarsen_to_one("sa", circle(np.array([0.0, np.pi])), 9.0).outcome is Outcome.SADDLE
    assert coarsen_to_one("sa", start, 9.0, perturb=1e-6).outcome is Outcome.ONE_CLUSTER


def test_one_token_and_beta_zero():
    assert len(coarsen_to_one("sa", circle(np.array([0.3])), 5.0)) == 0
    met = coarsen_to_one("sa", circle(np.array([0.0, 1.0])), 0.0)
    # At beta = 0 the angle obeys u' = -sin u.
    expected = math.log(math.tan(0.5) / math.tan(met.radius / 2))
    assert math.exp(met.log_times[0]) == pytest.approx(expected, rel=1e-6)


@pytest.mark.slow
def test_a_crowd_is_followed_in_time_first_and_ends_as_the_same_tokens_in_one_piece():
    few = circle(START)
    rng = np.random.default_rng(5)
    crowd = np.repeat(few, 20, axis=0) + 0.02 * rng.normal(size=(100, 2))
    crowd /= np.linalg.norm(crowd, axis=1, keepdims=True)
    history = coarsen_to_one("sa", crowd, 60.0, errors=False)
    assert history.outcome is Outcome.ONE_CLUSTER
    assert {m.way for m in history.merges} >= {"time", "arclength"}
    assert [p.level for p in history.plateaus][-5:] == pytest.approx([0.2, 0.28, 0.44, 0.52, 1.0])
    alone = coarsen_to_one("sa", few, 60.0, errors=False)
    # Cluster centres differ from the five angles by about .02/sqrt(20): log T by beta times that.
    np.testing.assert_allclose(history.log_times[-3:], alone.log_times[-3:], atol=60 * 0.02)


@pytest.mark.slow
def test_a_perceptron_can_hold_two_clusters_apart():
    poles = sf.Perceptron(np.array([3.0, 3.0]), np.array([[1.0, 0.0], [-1.0, 0.0]]), activation="relu")
    start = circle(np.array([0.3, -0.4, 2.9, 3.5]))
    history = coarsen_to_one("usa", start, 30.0, perceptron=poles)
    assert history.outcome is Outcome.STATIONARY
    assert history.count == 2
    assert sorted(np.round(history.final[:, 0], 6)) == [-1.0, 1.0]
    with pytest.raises(SphereflowError, match="usa"):
        coarsen_to_one("sa", start, 30.0, perceptron=poles)


def test_histories_come_back_from_disk_exactly(history, tmp_path):
    again = sf.load(history.save(tmp_path / "run.npz"))
    assert again == history
    assert np.array_equal(again.curve, history.curve)
    assert again.seed == 3
    assert repr(again) == repr(history)
    assert history.tree[history.merges[-1].node] == (0, 1, 2, 3, 4)
    table = history.to_xarray()
    np.testing.assert_array_equal(table["log_time"], history.log_times)
    assert "beta = 50" in history.summary()
    history.plot().savefig(tmp_path / "run.png")
    (tmp_path / "cut.json").write_text('{"format": "sphere')
    with pytest.raises(SphereflowError, match="damaged, or no result"):
        sf.load(tmp_path / "cut.json")
    with pytest.raises(SphereflowError, match="there is no file"):
        sf.load(tmp_path / "missing.json")


def test_histories_that_earlier_releases_wrote_as_json_are_still_read(history, tmp_path):
    fields = {f.name: getattr(history, f.name) for f in dataclasses.fields(history) if f.name != "parameters"}
    fields |= {"merges": [dataclasses.asdict(m) for m in history.merges], "outcome": history.outcome.name}
    text = json.dumps({"format": "sphereflow merge history 1", **fields}, default=np.ndarray.tolist)
    (tmp_path / "old.json").write_text(text)
    assert sf.load(tmp_path / "old.json") == dataclasses.replace(history, parameters={})


def test_staircases_tend_to_repeated_merging_of_the_closest_pair(tmp_path):
    for kind in ("sa", "usa"):
        heights, levels = limit(circle(START), kind)
        assert levels == pytest.approx([0.28, 0.44, 0.52, 1.0])
        slow = staircase(beta=10_000.0, model=kind, x0=circle(START))
        np.testing.assert_allclose(slow.unglued.log_times / 1e4, heights, atol=3e-3)
        # Each plateau ends when its unstable direction has grown: log t and log 1/lambda agree to a few units.
        lives = [modes.log_lifetime for modes in slow.modes]
        np.testing.assert_allclose(lives, slow.unglued.log_times[1:], atol=10)
        np.testing.assert_allclose(slow.glued.log_times, slow.unglued.log_times, rtol=1e-4)
    slow.plot().savefig(tmp_path / "stairs.png")


def test_gluing_in_the_clock_takes_half_over_c():
    # The first pair of USA closes at c = 2/n in the clock of the theorem, to r_c: log(tan(u/2)/tan(r/2))/(c log beta).
    beta = 3000.0
    stairs = staircase(beta=beta, model="usa", x0=circle(START))
    radius = 1 / math.sqrt(beta * math.log(beta))
    expected = math.log(math.tan(0.55 / 2) / math.tan(radius / 2)) / (0.4 * math.log(beta))
    assert stairs.glued.merges[0].clock == pytest.approx(expected, rel=1e-3)
    assert stairs.unglued.merges[0].clock == pytest.approx(expected, rel=1e-3)


def test_well_prepared_starts():
    assert well_prepared(np.array([0.0, 0.2, 0.9, 2.2]), 2000.0) > 1
    assert well_prepared(np.array([0.0, 0.5, 0.9]), 2000.0) < 0
    with pytest.raises(SphereflowError, match="increase"):
        well_prepared(np.array([0.5, 0.1]), 10.0)


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"model": "softmax"}, "one of"),
        ({"x0": np.ones((3, 2))}, "unit"),
        ({"x0": np.ones(3)}, "shape"),
        ({"beta": -1.0}, "beta"),
        ({"beta": math.inf}, "beta"),
        ({"masses": [1.0, 2.0]}, "masses"),
        ({"tol": 1.0}, "tol"),
        ({"radius": 0.0}, "radius"),
        ({"checkpoint": "/nowhere/file.json"}, "does not exist"),
    ],
)
def test_what_makes_no_sense_is_said(change, word):
    with pytest.raises(SphereflowError, match=word):
        coarsen_to_one(**{"model": "sa", "x0": circle(START), "beta": 9.0, **change})


def test_the_energy_between_steps_lies_within_its_bounds():
    beta, start = 20.0, 1.2
    pair = coarsen_to_one("usa", circle(np.array([0.0, start])), beta, errors=False)
    ends = np.geomspace(2 * pair.radius, 0.999 * start, 40)
    log_t = np.array([log_merging_time(start, beta, model="usa", end=end) for end in ends])
    exact = (1 + np.exp(-2 * beta * np.sin(ends / 2) ** 2)) / 2
    low, high = pair.energy_bounds(log_t)
    # The curve is good to the tolerance of the run; log t, of size 20, is known to eps, and the energy steep in it.
    assert np.all(low <= exact + 1e-8)
    assert np.all(exact <= high + 1e-8)
    told = pair.energy(log_t)
    assert np.all((low <= told) & (told <= high))
    assert np.abs(told - exact).max() < 0.02
    # Before the second row the energy grows linearly in time from its first value.
    first = (1 + np.exp(-2 * beta * np.sin(start / 2) ** 2)) / 2
    assert pair.energy(-30.0) == pytest.approx(first, rel=1e-12)
    assert pair.energy(-np.inf) == pytest.approx(first, rel=1e-12)
    with pytest.raises(SphereflowError, match="log_t"):
        pair.energy(np.nan)


@pytest.mark.parametrize("kind", ["sa", "usa"])
@pytest.mark.parametrize("pushed", [False, True])
def test_the_state_of_a_crowd_is_its_energy_and_its_largest_speed(kind, pushed):
    """Both come from one pass over the sums; against plain sums over all pairs."""
    beta, rng = 3.0, np.random.default_rng(0)
    x, w = np.asarray(sf.draw("uniform", 9, 3, seed=2)), rng.dirichlet(np.ones(9))
    perceptron = sf.Perceptron([0.7], [[0.0, 0.0, 1.0]]) if pushed else None
    energy, speed = crowd._state((sf.SA if kind == "sa" else sf.USA)(beta, weights=w), perceptron, x, 1e-9)
    kernel = np.exp(beta * (x @ x.T - 1)) * w
    pull = kernel @ x / (kernel.sum(axis=1, keepdims=True) if kind == "sa" else 1.0)
    if pushed:
        pull = pull + 0.7 * np.maximum(x[:, 2:], 0) * np.array([0.0, 0.0, 1.0])
    velocity = pull - np.sum(pull * x, axis=1, keepdims=True) * x
    assert energy == pytest.approx(w @ kernel.sum(axis=1), rel=1e-12)
    assert speed == pytest.approx(np.linalg.norm(velocity, axis=1).max(), rel=1e-12)
