"""The paper's claims come out as expected, and the known mistakes are caught by them."""

from dataclasses import replace

import jax.numpy as jnp
import pytest
from verdicts import Verdicts

from sphereflow.claims import Run
from sphereflow.drifting import Quality, radial
from sphereflow.papers import load
from sphereflow.papers.drifting_with_friction import (
    bridges,
    compute,
    estimators,
    friction,
    identifiability,
    recovery,
    surrogate,
)

PAPER = load("drifting-with-friction")


class TestVerdicts(Verdicts):
    paper = PAPER
    slow_claims = (
        "antisymmetry",
        "bridge-drift",
        "bridge-optimum",
        "bridge-paths",
        "compact-mass-blind",
        "contraction-threshold",
        "curl",
        "few-particles-diverge",
        "finite-horizon-bound",
        "fission",
        "flow-matching-gradient",
        "flow-matching-optimum",
        "gaussian-closed-form",
        "laplace-not-local",
        "loss-says-little",
        "product-form",
        "recovery-against-noise",
        "scaled-forces",
        "spurious-limit",
        "stop-gradient",
        "swiss-roll",
        "three-normalisations",
    )
    slow_figures = ("cloud-radius", "fields", "phase-portrait", "quality-against-compute", "toy-samples", "translated")


@pytest.mark.slow
def test_friction_that_is_switched_off_is_caught(monkeypatch):
    right = friction.Friction
    monkeypatch.setattr(friction, "Friction", lambda mode="gain", *rest, **named: right("none", *rest, **named))
    assert friction.finite_horizon_bound(Run()).verdict == "fails"
    assert friction.finite_gain(Run()).verdict == "fails"


@pytest.mark.parametrize("always", ["mask", "include"])
def test_negatives_that_forget_how_a_sample_counts_are_caught(monkeypatch, always):
    right = recovery.PopulationField
    monkeypatch.setattr(recovery, "PopulationField", lambda kernel, tau, itself: right(kernel, tau, itself=always))
    assert recovery.guidance(Run()).verdict == "fails"


def test_friction_one_step_ahead_is_caught(monkeypatch):
    right = friction.product
    monkeypatch.setattr(friction, "product", lambda step, end, horizon, first=0: right(step, end, horizon, first=1))
    assert friction.certain_decay(Run()).verdict == "fails"


def test_bounds_on_friction_need_their_conditions():
    for claim, rival in (
        (friction.certain_decay, "steps of two"),
        (friction.finite_gain, "steps of 40"),
        (friction.finite_horizon_bound, "a restoring force of six per step"),
    ):
        check = claim(Run())
        assert check.excess({each.name: each for each in check.rivals}[rival]) > 1


def test_the_wrong_root_is_caught(monkeypatch):
    monkeypatch.setattr(surrogate, "pair", lambda d, a, seed=0: _half(d, a, seed))
    assert surrogate.contraction_threshold(Run()).verdict == "fails"


def _half(dimension, a, seed, right=surrogate.pair):
    """The distance a taken for the separation of the two particles."""
    return right(dimension, a / 2, seed)


def test_masks_exchanged_are_caught(monkeypatch):
    right = estimators.PopulationField
    other = {"include": "mask", "mask": "include"}
    exchanged = lambda kernel, width, *, itself: right(kernel, width, itself=other[itself])  # noqa: E731
    monkeypatch.setattr(estimators, "PopulationField", exchanged)
    monkeypatch.setattr(identifiability, "PopulationField", exchanged)
    assert estimators.three_normalisations(Run()).verdict == "fails"
    assert identifiability.fission(Run()).verdict == "fails"


def test_a_squared_distance_in_the_laplace_kernel_is_caught():
    squares = jnp.asarray([0.0, 4.0])
    assert float(radial.log_kernel("laplace", squares, 2.0)[1]) == pytest.approx(-1.0)
    assert float(radial.log_kernel("gaussian", squares, 2.0)[1]) == pytest.approx(-0.5)


@pytest.mark.slow
def test_what_is_recorded_is_what_training_gives():
    """Two cells of the record, trained again: counts to their digits, distances to what rounding does to training."""
    again = compute.trained(2, 3, (16,), ("drift-friction", "ofm", "affine")).points
    kept = {(p.method, p.steps, p.seed): p for p in compute.recorded(2).points}
    for point in again:
        right = kept[point.method, point.steps, 3]
        assert point.passes == pytest.approx(right.passes, rel=0.05 if point.method == "ofm" else 1e-5)
        assert point.sliced == pytest.approx(right.sliced, rel=0.05)


def test_compute_without_the_inner_problem_is_caught(monkeypatch):
    """Flow matching that spends as little as drifting does would not be beaten."""

    def cheap(point):
        return replace(point, passes=256.0 * point.steps) if point.method == "ofm" else point

    changed = {d: Quality([cheap(point) for point in compute.recorded(d).points]) for d in (2, 8)}
    monkeypatch.setattr(compute, "recorded", changed.get)
    assert compute.compute_to_equal_quality(Run()).verdict == "fails"


@pytest.mark.slow
def test_a_recovery_that_ignores_the_field_is_caught(monkeypatch):
    right = recovery.recover_law
    blind = lambda kernel, x, v, *rest, **named: right(kernel, x, 0 * v, *rest, **named)  # noqa: E731
    monkeypatch.setattr(recovery, "recover_law", blind)
    assert recovery.recovery_against_noise(Run()).verdict == "fails"


def test_an_adversary_who_stays_in_sight_is_caught(monkeypatch):
    right = recovery.hidden_law
    farther = lambda *rest, **named: right(*rest, **named | {"distance": 1.1 * named["distance"]})  # noqa: E731
    monkeypatch.setattr(recovery, "hidden_law", farther)
    assert recovery.hidden_laws(Run()).verdict == "fails"


@pytest.mark.slow
def test_a_doubled_epsilon_is_caught(monkeypatch):
    right = bridges.gaussian_bridge
    monkeypatch.setattr(bridges, "gaussian_bridge", lambda source, target, epsilon: right(source, target, 2 * epsilon))
    assert bridges.paths_between_gaussians(Run()).verdict == "fails"
    assert bridges.gaussian_benchmark(Run()).verdict == "fails"


@pytest.mark.parametrize(("printed", "verdict"), [(100.0, "fails"), (50.0, "obeyed")])
def test_a_multiple_of_the_compute_that_the_seeds_do_not_give_is_caught(monkeypatch, printed, verdict):
    """In dimension 8 the multiply-adds are 54 times as many by the median; 50 times is within its interval."""
    monkeypatch.setattr(compute, "PRINTED", printed)
    check = compute.compute_to_equal_quality(Run())
    (row,) = (row for row in check.rows if row.name.startswith("multiply-adds over") and row.name.endswith("$d=8$"))
    assert check.verdict == verdict
    assert row.excess() > 1 if verdict == "fails" else 0 < row.measured < row.tolerance
