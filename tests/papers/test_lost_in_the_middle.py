"""The paper's claims come out as expected, and the known mistakes are caught by them."""

import numpy as np
import pytest
from scipy import special
from verdicts import Verdicts

from sphereflow import retrieval
from sphereflow.claims import Run
from sphereflow.papers import load
from sphereflow.papers.lost_in_the_middle import (
    mean_field,
    real_models,
    reference,
    shape,
    softmax,
    thresholds,
    volterra,
)
from sphereflow.retrieval import circle_movie
from sphereflow.retrieval.layered import density_prompt, layered_flow
from sphereflow.retrieval.profile_fit import wave

PAPER = load("lost-in-the-middle")


class TestVerdicts(Verdicts):
    paper = PAPER
    slow_claims = (
        "cumulants-at-all-positions",
        "accuracy-simulated",
        "double-well",
        "finite-tokens",
        "fluctuations",
        "layered-covariance",
        "layers-alike",
        "minimum-outlives-recency",
        "particles",
        "particles-other-temperature",
        "profile-of-a-real-decoder",
        "prompt-that-turns",
        "retrieval-from-an-own-prompt",
        "similar-tokens",
        "softmax-decoder",
        "sphere",
        "third-cumulants",
        "u-shape-theorem",
        "unique-minimum",
        "wave-growth",
    )
    slow_figures = ("particles-on-the-closed-form", "u-shapes", "worst-position")


def test_references_are_what_other_libraries_compute():
    """Bessel functions for the rates and the power series, and digits of an independent program for the thresholds."""
    n = np.arange(1, 12)
    np.testing.assert_allclose(reference.rates(1.5)[:11], n**2 * special.iv(n, 1.5), rtol=1e-12, atol=1e-13)
    c, y = 0.7, 3.0
    exact = np.sqrt(c / y) * special.iv(1, 2 * np.sqrt(c * y))
    np.testing.assert_allclose(reference.psi(c, y), exact, rtol=1e-14)
    assert reference.critical_time(1.0, 1.0, 8) == pytest.approx(2.457489, abs=5e-7)
    assert reference.folding_slope(1.0, 8) == pytest.approx(1.472270, abs=5e-7)
    assert reference.fold_time(1.0, 3.0, 8) == pytest.approx(4.4707, abs=2e-4)


def test_the_reference_for_other_prompts_is_the_closed_form_for_uniform_ones():
    found = reference.prompt_covariance(np.ones(32), 1.0, 1.0, 1.0, 2, [0.1, 0.6])
    exact = reference.influence(reference.rates(1.0)[1], 1.0, 1.0, np.array([0.1, 0.6]), 1.0)
    np.testing.assert_allclose(found, exact, rtol=1e-7)


@pytest.mark.slow
def test_the_averages_of_a_prompt_that_turns_are_those_of_many_more_layers():
    """Chords between the layers of the claim are off by 0.002, which its error bars see at the sizes of the paper."""
    prompt = density_prompt(lambda sigma, theta: np.exp(np.cos(theta - np.pi * sigma)))
    flow = layered_flow(prompt, 1.0, beta=1.0, slope=1.0, panel=0.2)
    sigma = (np.arange(120) + 0.5) / 120
    exact = [np.interp(sigma[90:], flow.sigma, flow.mean(h)).mean() for h in (np.cos, np.sin)]
    told = [row.predicted for row in mean_field.prompt_that_turns(Run()).rows]
    np.testing.assert_allclose(told, exact, atol=2e-4)


def test_positions_off_by_half_a_cell_are_caught(monkeypatch):
    """With the source at k/N instead of the centre of its cell the two sizes do not look at the same place."""
    right = volterra.row
    monkeypatch.setattr(volterra, "row", lambda n, slope=1.0: np.roll(right(n, slope), 1))
    assert volterra.finite_tokens(Run()).verdict != "holds"


def test_a_profile_of_too_few_steps_of_attention_is_caught(monkeypatch):
    right = thresholds.profile

    class Cut:
        def __init__(self, t):
            self.t, self.curve = t, right(1.0, 1.0, t)

        def turns(self):
            return self.curve.turns()

        def score(self, sigma0):
            return reference.score(1.0, 1.0, self.t, 8, sigma0, 6)

    monkeypatch.setattr(thresholds, "profile", lambda beta, slope, t: Cut(t))
    assert thresholds.profiles(Run()).verdict == "fails"


def test_another_convexity_is_caught(monkeypatch):
    right = shape.log_psi
    monkeypatch.setattr(shape, "log_psi", lambda c, y, order=1: right(1.001 * c, y, order=order))
    assert shape.convexity(Run()).verdict == "fails"


@pytest.mark.slow
def test_movie(tmp_path):
    path = circle_movie(tmp_path / "circle.gif", n=12, t1=0.6)
    assert path.stat().st_size > 1000


def test_a_model_without_recency_is_noticed(monkeypatch):
    """The recorded profiles with their places sorted: nothing rises at the end any more."""
    found = real_models.recorded_rows("smollm2")
    falling = {name: (-np.sort(-rows, axis=1), places) for name, (rows, places) in found.items()}
    monkeypatch.setattr(real_models, "recorded_rows", lambda model: falling)
    assert real_models.real_decoder_is_u_shaped(Run()).verdict == "fails"


def test_a_model_that_follows_the_theory_is_noticed(monkeypatch):
    """Profiles made from the closed form: free exponentials do not win by ten, and no fit is at the edge."""
    found = real_models.recorded_rows("smollm2")
    made = {}
    for name, (rows, places) in found.items():
        noise = rows - rows.mean(axis=0)
        made[name] = (1.0 + 1e-2 * noise / np.abs(noise).max() + wave(places, 0.7, 1.1), places)
    monkeypatch.setattr(real_models, "recorded_rows", lambda model: made)
    assert real_models.profile_of_a_real_decoder(Run()).verdict == "fails"


@pytest.mark.slow
def test_a_decoder_without_softmax_is_caught(monkeypatch):
    right = softmax.wave_influence
    monkeypatch.setattr(softmax, "wave_influence", lambda *a, normalise, **k: right(*a, normalise="mean", **k))
    softmax.measured.cache_clear()
    try:
        assert softmax.softmax_decoder(Run()).verdict == "fails"
    finally:
        softmax.measured.cache_clear()


def test_the_slowdown_of_softmax_is_a_bessel_function():
    for beta in (0.1, 1.0, 7.0):
        assert retrieval.softmax_slowdown(beta) == pytest.approx(beta * special.iv(0, beta), rel=1e-13)
        rates = retrieval.growth_rates(beta, 12) / retrieval.softmax_slowdown(beta)
        np.testing.assert_allclose(rates, softmax.softmax_rates(beta), rtol=1e-12)
