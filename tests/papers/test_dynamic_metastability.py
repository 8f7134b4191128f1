"""Every claim and figure of the paper on dynamic metastability, and the mistakes that must be caught."""

import math

import numpy as np
import pytest
from verdicts import Verdicts

from sphereflow.claims import Run
from sphereflow.metastability import certify, coarsen_to_one, merge_pair
from sphereflow.papers import load
from sphereflow.papers.dynamic_metastability import pairs, separation, staircase
from sphereflow.papers.dynamic_metastability.caps import OFFSETS, on_circle
from sphereflow.papers.dynamic_metastability.reference_solver import integrate
from sphereflow.papers.dynamic_metastability.staircase import START, closest_pairs

PAPER = load("dynamic-metastability")


class TestVerdicts(Verdicts):
    paper = PAPER
    refuted = ("growth-constant", "merge-clock-limit")
    slow_claims = (
        "brackets",
        "circle-fractions",
        "differential-inequality",
        "exit-time",
        "gaussian-mixtures",
        "heteroclinic-distance",
        "high-dimension",
        "kinetic-movie",
        "last-merger-direct",
        "merging-times",
        "one-cluster-in-the-end",
        "relaxation-rates",
        "saddle-index",
        "same-sequence",
        "slow-window",
    )
    slow_figures = (
        "certificates",
        "direct-against-coarse",
        "five-fifty-five-hundred",
        "unglued-and-glued",
        "saddle-to-saddle",
        "separated-fractions",
        "staircase-sharpens",
    )


def test_direct_integration_conserves_the_mean_angle_of_usa():
    final = integrate(START[:3], 4.0, "usa", 1e-3).final
    middle = final.mean(axis=0)
    assert math.atan2(middle[1], middle[0]) == pytest.approx(START[:3].mean(), abs=1e-6)


def test_wrong_merging_times_are_caught(monkeypatch):
    """The run of another temperature in place of the one asked for."""
    right = staircase.merge
    monkeypatch.setattr(staircase, "merge", lambda kind, beta: right(kind, 1.3 * beta))
    assert staircase.plateau_levels(Run()).verdict == "fails"


def test_landing_at_the_mass_mean_is_caught(monkeypatch):
    right = pairs.merge_pair
    monkeypatch.setattr(pairs, "merge_pair", lambda *args, **kw: right(*args[:3], "usa", **kw))
    assert pairs.landing_point(Run()).verdict == "fails"


def test_the_raw_kernel_is_caught(monkeypatch):
    right = pairs.log_merging_time
    monkeypatch.setattr(pairs, "log_merging_time", lambda u, beta, *rest, **kw: right(u, beta, *rest, **kw) - beta)
    assert pairs.laplace_prefactor(Run()).verdict == "fails"


@pytest.mark.slow
def test_greedy_caps_are_caught(monkeypatch):
    """Caps centred at the tokens miss separated starts."""

    def greedy(angles, beta, epsilon):
        theta = np.sort(angles, axis=1)
        gaps = np.diff(theta, axis=1, append=theta[:, :1] + 2 * np.pi)
        return (gaps > separation.scales(angles.shape[1], beta)[0]).all(axis=1)

    monkeypatch.setattr(separation, "circle_separated", greedy)
    assert separation.circle_fractions(Run()).verdict == "fails"


@pytest.mark.slow
def test_tokens_that_need_more_room_are_caught(monkeypatch):
    """A prediction without the widths of the caps, and one with every draw separated."""
    epsilon, apart = separation.least_distance(5, 50.0)
    for wrong in (apart - 4 * math.acos(1 - 2 * epsilon), 0.3):
        monkeypatch.setattr(separation, "least_distance", lambda n, beta, wrong=wrong: (epsilon, wrong))
        assert separation.high_dimension(Run()).verdict != "holds"


def test_fixed_steps_in_time_see_only_the_first_merger():
    # Euler with dt = .1 for 20,000 steps at beta = 50: t = 2000, between e^4.3 and e^21.7.
    theta = START.copy()
    for _ in range(20_000):
        difference = theta[None, :] - theta[:, None]
        weights = np.exp(50 * (np.cos(difference) - 1))
        theta = theta + 0.1 * np.sum(weights * np.sin(difference), axis=1) / weights.sum(axis=1)
    gaps = np.diff(np.sort(theta))
    assert np.sum(gaps > 0.1) == 3


# Definitions and identities: nothing to measure, so they are tests and no claims.


def three_caps(scale=1.0):
    centres = 2 * np.pi * np.arange(3) / 3
    return on_circle((centres[:, None] + scale * np.array(OFFSETS)).ravel()), on_circle(centres)


@pytest.mark.parametrize(("beta", "epsilon", "scale"), [(60.0, 0.004, 1.0), (30.0, 0.01, 1.0), (100.0, 0.002, 0.5)])
def test_the_constants_of_a_certificate(beta, epsilon, scale):
    x, centres = three_caps(scale)
    found = certify(x, beta, epsilon, centres=centres)
    # The ends of two neighbouring arcs of the larger caps are the nearest points.
    half = math.acos(1 - 2 * epsilon)
    alpha = math.cos(2 * math.pi / 3 - 2 * half)
    assert found.alpha == pytest.approx(alpha, abs=1e-12)
    assert found.gamma == pytest.approx(1 - alpha - 8 * epsilon - math.log(2 * 81 / epsilon) / beta, abs=1e-12)
    assert found.lambda_max == pytest.approx(
        1 - alpha - 8 * epsilon - math.log(2 * 81 / (1 - 8 * epsilon)) / beta, abs=1e-12
    )
    assert found.log_T2 == pytest.approx((1 - alpha) * beta + math.log(epsilon / 9), abs=1e-9)
    bound = 18 * math.exp(8 * epsilon * beta) + math.e * 9 * 0.3 * beta**2 / (beta - 1)
    assert found.T1_bound(0.3) == pytest.approx(bound, rel=1e-12)


@pytest.mark.parametrize(("beta", "epsilon"), [(30.0, 0.01), (60.0, 0.004)])
def test_the_first_condition_on_lambda_says_that_the_bound_on_T1_is_below_T2(beta, epsilon):
    x, centres = three_caps()
    found = certify(x, beta, epsilon, centres=centres)
    end = math.exp((1 - found.alpha) * beta) * -math.expm1(-found.gamma * beta)
    end *= (beta - 1) * epsilon / (beta**2 * found.n**2 * math.e)
    # The bound on T1 is affine in lambda: read off at two admissible ones, it is continued to the end.
    low, high = found.T1_bound(0.1), found.T1_bound(0.5)
    assert low + (high - low) / 0.4 * (end - 0.1) == pytest.approx(math.exp(found.log_T2), rel=1e-10)


@pytest.mark.slow
def test_pairs_suffice_at_large_beta():
    """At beta = 2000 the run agrees with one pair quadrature after another, every pair named by hand."""
    beta = 2000.0
    end = 1e-3 / math.sqrt(beta)

    def closed(left, right, kind):
        (p, a), (q, b) = left, right
        met = merge_pair(q - p, beta, (a, b), kind, end=end)
        return met.log_time, (p + met.moved[0] + end * b / (a + b), a + b)

    for kind in ("sa", "usa"):
        tokens = [(float(t), 0.2) for t in START]
        first, pair = closed(tokens[0], tokens[1], kind)
        second, triple = closed(pair, tokens[2], kind)
        third, other = closed(tokens[3], tokens[4], kind)
        if other[0] - triple[0] > math.pi:
            last, _ = closed(other, (triple[0] + 2 * math.pi, triple[1]), kind)
        else:
            last, _ = closed(triple, other, kind)
        by_hand = np.logaddexp.accumulate([first, second, third, last])
        np.testing.assert_allclose(coarsen_to_one(kind, on_circle(START), beta).log_times, by_hand, atol=1e-6)


def test_closest_pairs_by_hand():
    gaps, masses, levels, _ = closest_pairs(1.0)
    assert gaps == pytest.approx([0.55, 1.075, 1.55, 3.225 - 1.9 / 3])
    assert masses == pytest.approx([0.4, 0.6, 0.4, 1.0])
    assert levels == pytest.approx([0.2, 0.28, 0.44, 0.52, 1.0])


def test_the_condition_for_high_dimension_holds_at_two_thousand():
    d, n, beta = 2000, 5, 50
    small = math.log(d) / d
    assert 4 * math.sqrt(4 * small) + 48 * small + math.log(n**2 / (2 * small)) / beta < 1
