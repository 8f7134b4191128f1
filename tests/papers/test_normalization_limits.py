"""The paper's claims come out as expected, and the known mistakes are caught by them."""

import numpy as np
import pytest
from verdicts import Verdicts

from sphereflow.claims import Run
from sphereflow.normalisation import Softmax
from sphereflow.normalisation import separability as separability_module
from sphereflow.papers import load
from sphereflow.papers.normalization_limits import distances, recorded, sensitivity, separability, weights

PAPER = load("normalization-limits")


class TestVerdicts(Verdicts):
    paper = PAPER
    slow_claims = (
        "distance-collapse",
        "gaussian-logits",
        "jacobian-formula",
        "distance-at-every-share",
        "normalisers-geometry",
        "normalisers-sensitivity",
        "normalisers-weights",
        "separability-law",
        "separability-simulated",
        "typical-sensitivity",
        "sharp-weight-bound",
        "sparse-normalisers",
    )
    slow_figures = ("separable-keys",)


QUICK_FIGURES = [figure for figure in PAPER.figures if "quick" in figure.presets]


def test_weights_renormalised_on_the_selection_are_caught(monkeypatch):
    def renormalised(alpha, x):
        order = np.argsort(-alpha)
        found = []
        for n in range(1, len(alpha) + 1):
            inside, outside = order[:n], order[n:]
            found.append(np.linalg.norm(alpha[outside] @ x[outside] - alpha[inside] @ x[inside] / alpha[inside].sum()))
        return np.array(found)

    monkeypatch.setattr(distances, "distance_profile", renormalised)
    assert distances.orthogonal_tokens(Run()).verdict == "fails"
    assert distances.distance_identity(Run()).verdict == "fails"


def test_a_negative_cosine_taken_for_a_positive_one_is_caught(monkeypatch):
    right = distances.equicorrelated_profile
    monkeypatch.setattr(distances, "equicorrelated_profile", lambda alpha, c: right(alpha, abs(c)))
    assert distances.equicorrelated_tokens(Run()).verdict == "fails"


def test_both_ends_of_the_weights_can_be_lost():
    check = weights.general_normaliser(Run())
    lost = {rival.name for rival in check.rivals if check.excess(rival) > 1}
    assert {f"the bound on the {end} weight a tenth closer" for end in ("largest", "smallest")} <= lost


def test_temperature_in_the_wrong_place_is_caught(monkeypatch):
    right = Softmax.jacobian_product
    monkeypatch.setattr(Softmax, "jacobian_product", lambda self, x, u: right(self, x, u) * self.temperature)
    assert sensitivity.jacobian_formula(Run()).verdict == "fails"


def test_entrywise_bound_taken_for_the_norm_is_caught(monkeypatch):
    monkeypatch.setattr(sensitivity, "spectral_norm", lambda a, t=1.0: np.full(np.shape(a)[:-1], 0.25) / t)
    assert sensitivity.jacobian_norm(Run()).verdict == "fails"
    assert sensitivity.jacobian_sandwich(Run()).verdict == "fails"


def test_temperature_squared_missing_is_caught(monkeypatch):
    monkeypatch.setattr(weights, "Softmax", lambda temperature: Softmax(1.0))
    assert weights.gaussian_logits(Run()).verdict == "fails"


@pytest.mark.slow
def test_dimension_missing_in_the_prediction_is_caught(monkeypatch):
    right = separability_module.expected_separable_fraction
    monkeypatch.setattr(
        separability, "expected_separable_fraction", lambda a, d, counts, **how: right(a, d // 2, counts, **how)
    )
    assert separability.separability_formula(Run()).verdict == "fails"
    assert separability.separability_simulated(Run()).verdict == "fails"


def test_the_closed_form_with_the_cosine_forgotten_is_caught(monkeypatch):
    right = recorded.LengthRecording.equicorrelated
    monkeypatch.setattr(recorded.LengthRecording, "equicorrelated", lambda self: 2 * right(self))
    assert recorded.equicorrelated_heads(Run()).verdict == "fails"
