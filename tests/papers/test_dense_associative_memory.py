"""The paper's claims come out as expected, and the known mistakes are caught by them."""

import numpy as np
import pytest
from verdicts import Verdicts

from sphereflow.claims import Run
from sphereflow.memory import gaussian, overlaps, spherical
from sphereflow.memory import noise as noise_module
from sphereflow.papers import load
from sphereflow.papers.dense_associative_memory import capacity, compact, equilibrium, escape, lines, noise, published

PAPER = load("dense-associative-memory")


class TestVerdicts(Verdicts):
    paper = PAPER
    refuted = ("printed-lsr-line",)
    slow_claims = (
        "capacity-extrapolated",
        "cone-against-full",
        "cone-constant",
        "escape-decades",
        "escape-time",
        "exact-sampling",
        "lost-and-kept",
        "one-memory-in-a-bath",
        "one-step-retrieval",
        "one-step-weight",
        "typical-noise",
    )
    slow_figures = ("escape", "overlap-in-a-bath", "plane-lse", "plane-lsr")


def test_gaussian_g_max_is_caught(monkeypatch):
    """The overlap law of the other layer in one place: capacity, one-step weight and static line all notice."""
    monkeypatch.setattr(spherical, "g_max", lambda beta: np.asarray(beta, dtype=float) ** 2 / 2)
    for measure in (capacity.capacity_layers, capacity.capacity_table, lines.static_line, noise.noise_smooth):
        assert measure(Run()).verdict == "fails"


def test_one_branch_at_all_loads_is_caught(monkeypatch):
    monkeypatch.setattr(spherical, "load_switch", lambda beta: -10.0)
    for measure in (lines.spinodal, lines.equal_depth):
        assert measure(Run()).verdict == "fails"


def test_wrong_exponent_of_the_density_is_caught(monkeypatch):
    right = overlaps.log_density

    def wrong(phi, n):
        return right(phi, n) + np.log1p(-(np.asarray(phi) ** 2))

    monkeypatch.setattr(overlaps, "log_density", wrong)
    assert noise.mean_noise(Run()).verdict == "fails"
    monkeypatch.setattr(
        equilibrium, "lse_mean_overlap", lambda n, t: equilibrium.mean_by_quadrature(n + 2, t * (n + 2) / n)
    )
    assert equilibrium.finite_size_mean(Run()).verdict == "fails"


def test_second_root_is_caught(monkeypatch):
    monkeypatch.setattr(gaussian, "lsr_published_end", lambda b: 2.8007)
    assert published.printed_lsr_end(Run()).verdict == "fails"


def test_printed_line_is_refuted_by_more_than_its_tolerance():
    measurement = published.printed_lsr_line(Run())
    assert measurement.excess(measurement.printed) > 1e5
    np.testing.assert_allclose(measurement.measured, [1.096, 0.372, 0.160, 0.0702], atol=5e-4)


@pytest.mark.slow
def test_kernel_and_bath_temperatures_mixed_are_caught(monkeypatch):
    right = equilibrium.metropolis
    monkeypatch.setattr(equilibrium, "metropolis", lambda place, x, t, *rest: right(place, x, 0.8 * t, *rest))
    assert equilibrium.exact_sampling(Run()).verdict == "fails"


@pytest.mark.slow
def test_missing_factor_in_the_noise_is_caught(monkeypatch):
    right = noise_module.sample_log_noise
    monkeypatch.setattr(noise, "sample_log_noise", lambda n, a, b, k, seed=0: right(n, a, b * 0.95, k, seed))
    assert noise.weight(Run()).verdict == "fails"


def test_gaussian_tail_is_caught(monkeypatch):
    from scipy.stats import norm

    monkeypatch.setattr(overlaps, "log_tail", lambda c, n: norm.logsf(c * np.sqrt(n)))
    assert compact.support_count(Run()).verdict == "fails"


def test_a_boundary_away_from_the_spinodal_would_be_seen(monkeypatch):
    monkeypatch.setattr(escape, "boundary_temperature", lambda n, alpha, duration: 0.2)
    assert escape.kinetic_boundary(Run()).verdict == "fails"
