"""Every claim of the paper comes out, and the mistakes it names do not pass."""

import numpy as np
import pytest
from verdicts import Verdicts

from sphereflow.claims import Run
from sphereflow.modes import kac_rice, moments
from sphereflow.modes.find import Modes
from sphereflow.papers.kde_modes import PAPER, formulas, limit, regimes, small_cases, table


class TestVerdicts(Verdicts):
    paper = PAPER
    refuted = ("slope-suppression",)
    slow_claims = (
        "attention-clusters",
        "joint-law",
        "kac-rice",
        "mean-shift",
        "monotone-in-bandwidth",
        "monte-carlo-table",
        "saturated-interval",
        "sparse-rate",
        "two-random-samples",
        "uniform-predictor",
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


def test_a_coarse_grid_is_caught(monkeypatch):
    """Sign changes on a grid tied to the range of the data lose modes as the bandwidth shrinks."""

    def coarse(samples, betas):
        counts = []
        for sample, beta in zip(samples, betas, strict=True):
            t = np.linspace(sample.min() - 0.1, sample.max() + 0.1, 400)
            u = np.subtract.outer(t, sample)
            signs = np.sign(np.sum(u * np.exp(-beta / 2 * u**2), axis=1))
            counts.append(int(np.sum((signs[:-1] < 0) & (signs[1:] > 0))))
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


def test_no_truncation_is_caught(monkeypatch):
    right = kac_rice.gaussian_modes
    monkeypatch.setattr(table, "gaussian_modes", lambda n, beta: right(n, beta, -8.0, 8.0))
    assert table.gaussian_values(Run()).verdict == "fails"
    assert table.kac_rice(Run()).verdict == "fails"


def test_another_merging_distance_is_caught(monkeypatch):
    right = formulas.simulated_rate
    monkeypatch.setattr(formulas, "simulated_rate", lambda x, length, seed: right(1.1 * x, length // 4, seed))
    assert formulas.sparse_rates(Run()).verdict == "fails"


def test_the_constant_is_no_prediction_at_feasible_n():
    for a in (0.5, 0.75, 1.0, 1.5):
        assert abs(limit.ratio(1e4, a) / kac_rice.limit_constant(a) - 1) > 0.03


def test_the_script_with_n_squared_is_far_off():
    measurement = regimes.slope_suppression(Run())
    assert measurement.excess(measurement.printed) > 8
