"""The paper's claims come out as expected, and the known mistakes are caught by them."""

import math

import numpy as np
import pytest
from scipy.integrate import quad
from verdicts import Verdicts

from sphereflow.claims import Run
from sphereflow.papers import load
from sphereflow.papers.diffeomorphism_pushforward import (
    banana,
    chain,
    conditionals,
    exact_parts,
    failures,
    permutations,
    pipeline,
    random_play,
)
from sphereflow.transport.conditional import maurey
from sphereflow.transport.euclidean import affine
from sphereflow.transport.euclidean.schedule import Schedule
from sphereflow.transport.maps import cell_permutations as router
from sphereflow.transport.maps import cell_slides as slides
from sphereflow.transport.maps import diffeomorphism, lagrange, scores, space_cycles

PAPER = load("diffeomorphism-pushforward")


class TestVerdicts(Verdicts):
    paper = PAPER
    slow_claims = (
        "banana-error",
        "conditional-banana",
        "conditional-from-samples",
        "conditional-guarantee",
        "fall-together",
        "fitted-neurons",
        "knothe-rosenblatt-rate",
        "learned-map",
        "map-in-space",
        "map-rate",
        "maurey-slope",
        "rotation-trap",
        "routing-in-space",
        "trap-conditional",
        "without-replacement",
    )
    slow_figures = ("banana-conditional", "both-errors", "cells-being-carried", "map-frontier", "random-play-errors")


@pytest.fixture
def fresh():
    """Nothing measured before or during the test is kept: the code under it is wrong on purpose."""
    caches = (pipeline.built, pipeline.errors, random_play.played, banana.squared_errors, banana.trap, chain.squares)
    for cache in caches:
        cache.cache_clear()
    yield
    for cache in caches:
        cache.cache_clear()


@pytest.mark.slow
def test_a_distance_that_is_too_small_is_caught(monkeypatch):
    """The bound alone would not notice: that it is attained for shifted laws does."""
    right = conditionals.wasserstein
    monkeypatch.setattr(conditionals, "wasserstein", lambda *laws, **how: right(*laws, **how) / 2)
    assert conditionals.conditional_guarantee(Run()).verdict == "fails"


@pytest.mark.slow
def test_neurons_drawn_independently_in_every_play_are_caught(monkeypatch):
    right = random_play.map_error
    monkeypatch.setattr(random_play, "map_error", lambda n, sampling, count, seed: right(n, "iid", count, seed))
    assert random_play.fitted_neurons(Run()).verdict == "obeyed"  # no gain: its error bar reaches zero


@pytest.mark.slow
def test_ranks_that_do_not_look_at_the_place_are_caught():
    check = conditionals.conditional_from_samples(Run())
    blind = {rival.name: rival.values for rival in check.rivals}["$y$ sampled without looking at $x$"]
    (row,) = (row for row in check.rows if row.name == "gap of the ranks")
    assert blind["gap of the ranks"] > row.tolerance > row.measured


def test_a_shear_on_one_side_is_caught(monkeypatch):
    def one_sided(p, q, amount, d):
        return Schedule(amount * np.eye(d)[[p]], np.eye(d)[[q]], np.zeros(1))

    monkeypatch.setattr(affine, "shear", one_sided)
    assert exact_parts.affine_exact(Run()).verdict == "fails"


def test_a_commutator_in_the_wrong_order_is_caught(monkeypatch):
    right = slides.commutator
    monkeypatch.setattr(slides, "commutator", lambda first, second: right(second, first))
    assert permutations.three_cycle(Run()).verdict == "fails"


def test_a_commutator_that_undoes_itself_is_caught(monkeypatch):
    back = slides.backwards
    monkeypatch.setattr(slides, "commutator", lambda a, b: [*a, *b, *back(b), *back(a)])
    assert permutations.three_cycle(Run()).verdict == "fails"


@pytest.mark.slow
def test_a_line_that_is_not_lifted_out_of_its_sheet_is_caught(monkeypatch):
    right = space_cycles._lift
    monkeypatch.setattr(space_cycles, "_lift", lambda c, p, q, reach, *rest: right(c, p, q, 0.0, *rest))
    assert permutations.cube_cycle(Run()).verdict == "fails"
    assert permutations.routing_in_space(Run()).verdict == "fails"


def test_an_interpolant_on_cells_instead_of_simplices_is_caught(monkeypatch):
    """A map that is constant on cells is off by one order more."""
    right = lagrange.LagrangeInterpolant._simplex

    def coarse(self, x):
        local, node, order = right(self, x)
        return 0 * local, node, order

    monkeypatch.setattr(lagrange.LagrangeInterpolant, "_simplex", coarse)
    assert pipeline.lagrange(Run()).verdict == "fails"


@pytest.mark.slow
def test_errors_that_grow_with_the_dimension_are_caught(fresh, monkeypatch):
    right = chain.fields
    monkeypatch.setattr(chain, "fields", lambda d: [maurey.Neurons(f.c * 1.05, f.a, f.b) for f in right(d)])
    assert chain.knothe_rosenblatt_rate(Run()).verdict == "fails"


def test_ramps_outside_the_row_are_caught(monkeypatch):
    right = permutations.slide_schedule

    def wide(chosen, side, ramp, d=2):
        good = right(chosen, side, ramp, d)
        return Schedule(good.w, good.a, good.b + np.tile([1, 1, -1, -1], len(chosen)) * ramp * side)

    monkeypatch.setattr(permutations, "slide_schedule", wide)
    assert permutations.three_cycle(Run()).verdict == "fails"


def test_finished_cells_that_are_displaced_are_caught(monkeypatch):
    """Without the memory of what is finished contents are torn out again: wrong places, or no end."""
    monkeypatch.setattr(router, "_step", lambda p, q, finished, top: _careless(p, q))
    assert permutations.routing(Run()).verdict == "fails"


def _careless(p, q):
    if p[0] != q[0] and p[1] != q[1]:
        return slides.Cycle((p[0], q[1]), q, p, True)
    if p[0] == q[0]:
        return slides.Cycle(p, (p[0] - 1, p[1]), q, True)
    return slides.Cycle(q, p, (q[0], q[1] - 1), True)


@pytest.mark.slow
def test_columns_off_the_fine_lattice_are_caught(fresh, monkeypatch):
    right = diffeomorphism.piecewise_linear

    def real_slopes(x, y, left, end, direction):
        means = np.linspace(0.53, 1.47, len(x) - 1)
        return right(x, np.append(0.0, np.cumsum(means * np.diff(x))), left, end, direction=direction)

    monkeypatch.setattr(diffeomorphism, "piecewise_linear", real_slopes)
    monkeypatch.setattr(pipeline, "QUICK", ((4, 4), (8, 2)))
    assert pipeline.map_rate(Run()).verdict == "fails"
    assert pipeline.volume_bookkeeping(Run()).verdict == "fails"


@pytest.mark.slow
def test_deterministic_play_is_not_maurey(fresh, monkeypatch):
    right = random_play.ensemble
    monkeypatch.setattr(
        random_play, "ensemble", lambda *given, sampling, seed: right(*given, sampling="swept", seed=seed)
    )
    monkeypatch.setattr(random_play, "REPETITIONS", 2)
    assert random_play.maurey_slope(Run()).verdict == "fails"


@pytest.mark.slow
def test_a_missing_importance_weight_is_caught(fresh, monkeypatch):
    right = banana.profiles
    monkeypatch.setattr(banana, "profiles", lambda offsets, at: -0.5 + (right(offsets, at) + 0.5) / (2 * banana.REACH))
    assert banana.banana_error(Run()).verdict == "fails"
    assert conditionals.conditional_banana(Run()).verdict == "fails"


@pytest.mark.slow
def test_a_wrong_constant_piece_is_caught(fresh, monkeypatch):
    right = banana.profiles
    monkeypatch.setattr(banana, "profiles", lambda offsets, at: right(offsets, at) + 0.5)
    assert banana.banana_error(Run()).verdict == "fails"
    assert conditionals.conditional_banana(Run()).verdict == "fails"


@pytest.mark.slow
def test_missing_chances_in_play_are_caught(fresh, monkeypatch):
    right = maurey.sample_schedule

    def unweighted(fields, n, **rest):
        good = right(fields, n, **rest)
        return Schedule(good.w / 64, good.a, good.b, good.tau)

    monkeypatch.setattr(maurey, "sample_schedule", unweighted)
    monkeypatch.setattr(random_play, "REPETITIONS", 2)
    assert random_play.maurey_slope(Run()).verdict == "fails"


def test_a_score_of_the_push_forward_alone_is_caught(fresh, monkeypatch):
    monkeypatch.setattr(scores.ScoreCard, "trapped", property(lambda self: self.push_forward.tv.value > 0.01))
    assert banana.rotation_trap(Run()).verdict == "fails"


def test_the_constants_of_the_banana_by_quadrature():
    """Variance of one neuron over s, integrated over the Gaussian and over its conditionals."""
    r = banana.REACH

    def one(y):
        second = 2 * r * (quad(lambda s: max(y - s, 0) ** 2, 0, r)[0] + quad(lambda s: max(s - y, 0) ** 2, -r, 0)[0])
        return second - (0.5 * y * y) ** 2

    inside = quad(lambda y: one(y) * math.exp(-0.5 * y * y) / math.sqrt(2 * math.pi), -r, r)[0]
    assert inside == pytest.approx(banana.MAP_CONSTANT, abs=2e-2)
    for x0, known in ((-1.0, 2.41667), (0.0, 0.0), (1.5, 7.734375)):
        assert one(x0) == pytest.approx(known, abs=1e-5)
    assert pytest.approx(3.5054, abs=1e-4) == banana.MAP_CONSTANT


def test_the_turned_bananas_distance_by_moments():
    difference = [(-1.0, -1.0), (0.0, 0.5), (1.5, 0.875)]
    for x0, gap in difference:
        assert conditionals.turned_w1(x0) >= abs(gap) - 1e-3


def test_thin_ramps_in_the_place_of_wide_ones_are_caught(monkeypatch):
    right = failures.gaps
    monkeypatch.setattr(failures, "gaps", lambda ramp, points, seed: right(failures.THIN, points, seed))
    assert failures.wide_ramps(Run()).verdict == "fails"
