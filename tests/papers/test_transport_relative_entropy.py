"""The paper's claims come out as expected, and the known mistakes are caught by them."""

import numpy as np
import pytest
from verdicts import Verdicts

from sphereflow.claims import Run
from sphereflow.papers import load
from sphereflow.papers.transport_relative_entropy import few_switches, learning, line, plane, tails
from sphereflow.papers.transport_relative_entropy import flow as flow_claims
from sphereflow.transport.euclidean import flow, monotone
from sphereflow.transport.euclidean.laws import gaussian
from sphereflow.transport.euclidean.line import line_divergences
from sphereflow.transport.euclidean.monotone import piecewise_linear
from sphereflow.transport.euclidean.named_laws import two_modes
from sphereflow.transport.euclidean.schedule import Schedule
from sphereflow.transport.learned import schedules as training

PAPER = load("transport-relative-entropy")


class TestVerdicts(Verdicts):
    paper = PAPER
    slow_claims = (
        "gaussianisation",
        "gradient",
        "layers",
        "no-flow",
        "plane-errors",
        "plane-rate",
        "plane-round-trip",
        "rate",
        "reverse-pinsker",
        "slice-identity",
        "slice-pieces",
        "switches",
        "switches-for-accuracy",
        "tail-hypothesis",
        "training-frontier",
        "training-stall",
        "training-table",
    )
    slow_figures = ("carried-grid", "frontier")


@pytest.fixture
def fresh():
    """Nothing measured before or during the test is kept: the code under it is wrong on purpose."""
    caches = (line.row, line.problem, flow_claims.errors, learning.gradients)
    for cache in caches:
        cache.cache_clear()
    yield
    for cache in caches:
        cache.cache_clear()


def test_volume_at_points_that_rest_is_caught(fresh, monkeypatch):
    right = flow._one_piece

    def wrong(xp, x, log_det, step, a, b, stretch):
        return right(xp, x, log_det, step, a, b, stretch)[0], log_det + stretch

    monkeypatch.setattr(flow, "_one_piece", wrong)
    assert flow_claims.exact_flow(Run()).verdict == "fails"
    assert line.mass(Run()).verdict == "fails"


def test_missing_branch_at_rate_zero_is_caught(fresh, monkeypatch):
    monkeypatch.setattr(flow, "gain", lambda rate, tau: np.expm1(rate * tau) / np.where(rate == 0, np.inf, rate))
    assert flow_claims.exact_flow(Run()).verdict == "fails"


def test_volume_of_the_inverse_is_caught(fresh, monkeypatch):
    monkeypatch.setattr(Schedule, "pullback", lambda self, y: self.inverse().carry(y))
    assert line.mass(Run()).verdict == "fails"


def test_knots_met_at_their_source_are_caught(monkeypatch):
    right = line.piecewise_linear

    def wrong(x, y, left, end):
        good = right(x, y, left, end)
        b = np.array(good.b)
        b[1 : 1 + len(x)] = -np.asarray(x)[: len(b[1 : 1 + len(x)])]
        return Schedule(good.w, good.a, b, good.tau)

    monkeypatch.setattr(line, "piecewise_linear", wrong)
    assert line.piecewise_linear_map(Run()).verdict == "fails"


def test_an_unresolved_monitor_is_caught(fresh, monkeypatch):
    monkeypatch.setattr(monotone, "_FINE", 60)
    monkeypatch.setattr(monotone, "_COARSE", 60)
    assert line.rate_constant(Run()).verdict == "fails"


def test_a_wrong_monitor_exponent_is_caught(fresh, monkeypatch):
    right = monotone.Rearrangement.monitor.func
    monkeypatch.setattr(monotone.Rearrangement, "monitor", property(lambda self: np.sqrt(right(self))))
    assert line.rate(Run()).verdict == "fails"


def test_one_minus_the_distribution_function_is_caught(fresh, monkeypatch):
    def naive(self, y):
        with np.errstate(divide="ignore"):
            return np.log1p(-np.exp(self.log_cdf(y)))

    monkeypatch.setattr(type(gaussian(1)), "log_sf", naive)
    with np.errstate(all="ignore"):
        odd = line.problem().forward(np.array([-12.0, 12.0]))
    assert not abs(odd.sum()) < 1e-6


def test_end_slopes_of_one_are_caught(fresh, monkeypatch):
    right = monotone.Rearrangement.schedule
    monkeypatch.setattr(
        monotone.Rearrangement, "schedule", lambda self, knots, **rest: right(self, knots, end_slopes=(1.0, 1.0))
    )
    assert line.rate(Run()).verdict == "fails"


def test_a_finite_number_for_heavy_tails_is_caught(monkeypatch):
    from sphereflow.transport.euclidean import divergences as entropy

    monkeypatch.setattr(entropy, "obstructions", lambda base, target: ("", ""))
    assert tails.tail_flag(Run()).verdict == "fails"


def test_training_without_the_boundary_term_is_caught(fresh, monkeypatch):
    monkeypatch.setattr(training, "_active", lambda s, size, gradient: (s > 0).astype(s.dtype))
    assert learning.gradient(Run()).verdict == "fails"


def test_growth_by_the_field_at_the_start_is_caught(monkeypatch):
    monkeypatch.setattr(flow, "gain", lambda rate, tau: tau)
    check = flow_claims.shears(Run())
    assert [row.name for row in check.rows if row.excess() > 1] == [
        "area of small triangles behind one piece that stretches"
    ]


@pytest.mark.slow
def test_wide_layers_are_no_rate(monkeypatch):
    right = plane.row
    monkeypatch.setattr(plane, "row", lambda n, count, seed, layer: right(n, count, seed, layer=0.05 * n / 4))
    assert plane.plane_rate(Run()).verdict == "fails"


def test_a_kink_that_is_no_corner_is_caught(monkeypatch):
    right = line.kinks
    monkeypatch.setattr(line, "kinks", lambda schedule: np.append(right(schedule), 40.0))
    assert line.switches_needed(Run()).verdict == "fails"
    monkeypatch.setattr(line, "kinks", lambda schedule: right(schedule)[:1])
    assert line.switches_needed(Run()).verdict == "fails"


@pytest.mark.slow
def test_a_bound_without_its_factor_is_caught(monkeypatch):
    monkeypatch.setattr(plane, "reverse_pinsker", np.log)
    assert plane.reverse_pinsker_bound(Run()).verdict == "fails"


def test_end_slopes_of_another_size_are_caught(monkeypatch):
    right = line.Rearrangement.schedule
    monkeypatch.setattr(
        line.Rearrangement,
        "schedule",
        lambda self, k, end_slopes=None, **how: right(
            self, k, end_slopes=None if end_slopes is None else tuple(1.2 * m for m in end_slopes), **how
        ),
    )
    assert line.end_slopes(Run()).verdict == "fails"


def test_end_slopes_of_one_are_caught_at_two_knots(monkeypatch):
    x, y, _ = few_switches.knot()
    found = piecewise_linear([-x, x], [-y, y], 1.0, 1.0)
    rows = found, line_divergences(found, gaussian(1), two_modes())
    monkeypatch.setattr(few_switches.line, "row", lambda knots: rows)
    assert few_switches.three_switches(Run()).verdict == "fails"


def test_the_law_written_out_is_that_of_the_library():
    for y in (-3.0, 0.2, 2.7):
        at = np.array([[y]])
        assert few_switches.log_target(y) == pytest.approx(float(two_modes().log_density(at)[0]), abs=1e-12)
    assert few_switches.gaussian_in_the_plane() == pytest.approx(0.6318, abs=1e-3)


@pytest.mark.slow
def test_training_that_stalls_is_caught(monkeypatch):
    right = few_switches.trained
    monkeypatch.setattr(few_switches, "trained", lambda d, k, kind, *rest: right(d, k, "naive", *rest))
    assert few_switches.training_table(Run()).verdict == "fails"
