"""Every claim of the paper comes out, and the mistakes it names do not pass."""

import numpy as np
import pytest
from verdicts import Verdicts

from sphereflow.claims import Run
from sphereflow.modes import kac_rice, moments
from sphereflow.modes.find import Modes
from sphereflow.papers.kde_modes import PAPER, formulas, limit, powers, small_cases, table


class TestVerdicts(Verdicts):
    paper = PAPER
    slow_claims = (
        "modes-under-attention",
        "joint-law",
        "kac-rice",
        "logarithm-in-the-count",
        "mean-shift",
        "monotone-in-bandwidth",
        "million",
        "saturated-interval",
        "slope-suppression",
        "sparse-rate",
        "two-random-samples",
        "uniform-predictor",
        "belt",
        "circle-modes",
        "counts-along-powers",
        "edgeworth",
        "gaussian-tokens",
        "modes-in-space",
    )
    slow_figures = ("clusters", "numbers")


@pytest.mark.parametrize("power", [2.0, -1.0])
def test_another_bandwidth_is_caught(monkeypatch, power):
    """Bandwidth 1/beta or sqrt(beta) instead of beta^{-1/2}."""
    right = small_cases.find_modes
    monkeypatch.setattr(small_cases, "find_modes", lambda x, beta: right(x, np.asarray(beta) ** power))
    assert small_cases.two_samples(Run()).verdict == "fails"
    sampled = small_cases.sample_modes
    monkeypatch.setattr(small_cases, "sample_modes", lambda n, b, runs, **k: sampled(n, b**power, 4000, **k))
    assert small_cases.two_random_samples(Run()).verdict == "fails"


def test_minima_counted_as_well_are_caught(monkeypatch):
    right = small_cases.find_modes

    def both(x, beta):
        modes = right(x, beta)
        return Modes(np.repeat(modes.positions, 2)[1:], np.repeat(modes.run, 2)[1:], modes.runs, 0)

    monkeypatch.setattr(small_cases, "find_modes", both)
    assert small_cases.two_samples(Run()).verdict == "fails"


@pytest.mark.slow
def test_a_coarse_grid_is_caught(monkeypatch):
    """Sign changes on a grid tied to the range of the data lose modes as the bandwidth shrinks."""

    def coarse(samples, betas):
        counts = small_cases.coarse_counts(samples[0], betas)
        run = np.repeat(np.arange(len(counts)), counts)
        return Modes(np.zeros(len(run)), run, len(counts), 0)

    monkeypatch.setattr(small_cases, "find_modes", coarse)
    assert small_cases.monotone_in_bandwidth(Run()).verdict == "fails"


def test_slips_in_the_moments_are_caught(monkeypatch):
    right = moments.normal_moments

    def slipped(t, beta):
        m = right(t, beta)
        less = m.slope_square - 3 * (beta / (2 * beta + 1)) ** 2
        return moments.Moments(m.log_scale, m.mean, m.mean_slope, m.square, m.product, less)

    monkeypatch.setattr(formulas, "normal_moments", slipped)
    assert formulas.moments(Run()).verdict == "fails"

    def uncorrelated(t, beta):
        m = right(t, beta)
        return moments.Moments(m.log_scale, m.mean, m.mean_slope, m.square, m.mean * m.mean_slope, m.slope_square)

    monkeypatch.setattr(kac_rice, "normal_moments", uncorrelated)
    assert table.gaussian_values(Run()).verdict == "fails"


@pytest.mark.slow
def test_no_truncation_is_caught(monkeypatch):
    right = kac_rice.gaussian_modes
    monkeypatch.setattr(table, "gaussian_modes", lambda n, beta: right(n, beta, -8.0, 8.0))
    assert table.gaussian_values(Run()).verdict == "fails"
    assert table.kac_rice(Run()).verdict == "fails"


def test_another_merging_distance_is_caught(monkeypatch):
    right = formulas.simulated_rate
    monkeypatch.setattr(formulas, "simulated_rate", lambda x, length, seed: right(1.1 * x, length // 4, seed))
    assert formulas.sparse_rates(Run()).verdict == "fails"


@pytest.mark.slow
def test_a_gaussian_law_is_caught(monkeypatch):
    right = powers.edgeworth_density
    monkeypatch.setattr(powers, "edgeworth_density", lambda t, n, beta, order: right(t, n, beta, order=2))
    assert powers.edgeworth(Run()).verdict == "fails"


def test_the_constant_is_no_prediction_at_feasible_n():
    for a in (0.5, 0.75, 1.0, 1.5):
        assert abs(limit.ratio(1e4, a) / kac_rice.limit_constant(a) - 1) > 0.03


@pytest.mark.parametrize(
    ("n", "beta", "line", "inside"),
    [(1000, 30.0, 2.235, 1.705), (10000, 300.0, 13.967, 11.668), (3000, 54772.0, 252.119, 204.732)],
)
def test_the_uniform_predictor_has_the_digits_of_an_independent_program(n, beta, line, inside):
    """Three decimals of a second implementation of the formula, with its kink at 0.02 samples per bandwidth."""
    reach = kac_rice.edge(n, beta)
    assert kac_rice.expected_modes(n, beta) == pytest.approx(line, abs=6e-4 + 5e-5 * line)
    assert kac_rice.expected_modes(n, beta, -reach, reach) == pytest.approx(inside, abs=6e-4 + 5e-5 * inside)


@pytest.mark.parametrize(("a", "near", "far"), [(0.5, 0.1928, 0.2610), (0.75, 0.4844, 0.5072), (1.5, 0.2801, 0.2294)])
def test_the_predictor_neither_overflows_nor_cancels(a, near, far):
    assert limit.ratio(1e4, a) == pytest.approx(near, abs=1.5e-4)
    assert limit.ratio(1e60, a) == pytest.approx(far, abs=1.5e-4)
