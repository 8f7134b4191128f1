"""The paper's claims come out as expected, and the known mistakes are caught by them."""

import dataclasses

import jax
import numpy as np
import pytest
from verdicts import Verdicts

from sphereflow.claims import Run
from sphereflow.papers import load
from sphereflow.papers.synchronization_by_noise import (
    attention,
    energies,
    gram_matrix,
    meeting,
    pathwise,
    quadratic_form,
    spectrum,
)
from sphereflow.synchronisation.covariance import of_powers
from sphereflow.synchronisation.network import run_network

PAPER = load("synchronization-by-noise")


class TestVerdicts(Verdicts):
    paper = PAPER
    slow_claims = (
        "strong-order-on-the-sphere",
        "activation-table",
        "attention-shifts-the-exponent",
        "bias-and-the-ratio",
        "brackets-of-pairs",
        "gram-consistency",
        "lyapunov-spectrum",
        "chaos-with-attention",
        "chaotic-networks",
        "contraction-of-networks",
        "dissipation-threshold",
        "energy-curve",
        "energy-outside-grows",
        "energy-with-attention",
        "independent-noise",
        "invariant-law",
        "law-given-the-noise",
        "limits-commute",
        "moment-exponents",
        "one-path-meets",
        "pair-drift-and-diffusion",
        "quadratic-form-bounds",
        "quadratic-form-shares",
        "strong-order",
        "thresholds",
        "tokens-given-the-noise",
        "width-order",
    )
    slow_figures = ("classification", "energy", "one-noise-path", "threshold-against-attention")


@pytest.mark.parametrize("factor", [-1.0, 10.0], ids=["sign", "root of h"])
def test_attention_of_the_wrong_sign_or_size_is_caught(monkeypatch, factor):
    def wrong(field, x, *, strength, **options):
        return run_network(field, x, strength=factor * strength, **options)

    monkeypatch.setattr(attention, "run_network", wrong)
    attention.pair_rates.cache_clear()
    try:
        assert attention.attention_shifts(Run()).verdict == "fails"
    finally:
        attention.pair_rates.cache_clear()


@pytest.mark.slow
def test_noise_of_its_own_for_every_token_is_caught(monkeypatch):
    """Token k of each cloud is taken from a realisation k places on: no two have met the same noise."""
    frames = meeting.one_path(True, 0)
    alone = np.stack([np.roll(frames[:, :, k], k, axis=1) for k in range(frames.shape[2])], axis=2)
    monkeypatch.setattr(meeting, "one_path", lambda quick, seed: alone)
    assert meeting.one_path_meets(Run()).verdict == "fails"


@pytest.mark.slow
def test_a_lost_part_of_the_noise_is_caught(monkeypatch):
    monkeypatch.setattr(energies, "of_powers", lambda squares: of_powers([0.64 * c for c in squares]))
    energies.pair_gaps.cache_clear()
    try:
        assert energies.energy_with_attention(Run()).verdict == "fails"
    finally:
        energies.pair_gaps.cache_clear()


@pytest.mark.slow
def test_fresh_weights_for_the_deeper_network_are_caught(monkeypatch):
    right = pathwise.deep

    def uncoupled(*request):
        found = right(*request)
        return dataclasses.replace(found, depth=np.broadcast_to(2 * (1 - found.overlap[-1]), found.depth.shape))

    monkeypatch.setattr(pathwise, "deep", uncoupled)
    assert pathwise.strong_order(Run()).verdict == "fails"


def test_merging_is_not_quadratic_in_the_forcing(monkeypatch):
    monkeypatch.setattr(quadratic_form, "merging_rate", lambda d, forcing: forcing**2 * (d - 1) / 2)
    assert quadratic_form.two_stages(Run()).verdict == "fails"


@pytest.mark.slow
def test_exponents_that_are_spaced_by_half_are_caught(monkeypatch):
    right = spectrum.lyapunov_spectrum

    def squeezed(field, d, **request):
        found = right(field, d, **request)
        first = found.samples[:, :1]
        return dataclasses.replace(found, samples=first + (found.samples - first) / 2)

    monkeypatch.setattr(spectrum, "lyapunov_spectrum", squeezed)
    assert spectrum.spectrum_of_layers(Run()).verdict == "fails"


@pytest.mark.slow
def test_a_bracket_of_pairs_without_its_second_projection_is_caught(monkeypatch):
    def once(gram, first, second):
        return sum(
            float(gram_matrix.relu_kappa(gram[i, k])) * (gram[j, m] - gram[k, m] * gram[j, k])
            for i, j in (first, first[::-1])
            for k, m in (second, second[::-1])
        )

    monkeypatch.setattr(gram_matrix, "bracket", once)
    assert gram_matrix.brackets_of_pairs(Run()).verdict == "fails"


@pytest.mark.slow
def test_pairs_with_noise_of_their_own_are_caught(monkeypatch):
    right = gram_matrix.run_gram

    def apart(law, start, key, *request, **sizes):
        """Each overlap from a run of its own."""
        runs = [np.asarray(right(law, start, each, *request, **sizes)) for each in jax.random.split(key, 3)]
        return np.stack([each[:, k] for k, each in enumerate(runs)], axis=1)

    monkeypatch.setattr(gram_matrix, "run_gram", apart)
    assert gram_matrix.gram_consistency(Run()).verdict == "fails"
