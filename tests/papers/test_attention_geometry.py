"""The paper's claims come out as expected, and the known mistakes are caught by them."""

import numpy as np
from verdicts import Verdicts

from sphereflow.claims import Run
from sphereflow.llm.heads import envelopes, geometry
from sphereflow.llm.sparse.comparison import SparsityComparison
from sphereflow.papers import load
from sphereflow.papers.attention_geometry import (
    cosine,
    extraction,
    independent,
    metrics,
    model,
    recorded,
    sparsification,
    structure,
)

PAPER = load("attention-geometry")


class TestVerdicts(Verdicts):
    paper = PAPER
    slow_claims = (
        "above-control",
        "attention-profile",
        "cosine-distance",
        "equal-weights",
        "inversions",
        "most-separable-size",
        "semi-analytic-law",
        "semi-analytic-values",
        "sink-recall",
    )
    slow_figures = ("independent-values", "synthetic-sink")


def test_quick_claims_say_that_no_model_was_run():
    assert "no language model was run" in model.above_control(Run()).note


def broken(monkeypatch, change):
    """The metrics of given heads, changed: `change` gets the right function and its arguments."""
    right = geometry._own
    monkeypatch.setattr(geometry, "_own", lambda *args: change(right, *args))


def by_loops(scale=1.0, rooted=False):
    """The five numbers by their definition, with the sum multiplied, or compared by distances instead of z."""

    def scores(right, alpha, v, sizes, *rest):
        found = right(alpha, v, sizes, *rest)
        for g, r in np.ndindex(alpha.shape[:2]):
            y = alpha[g, r][:, None] * v[g]
            order = np.argsort(-alpha[g, r], kind="stable")
            for m, size in enumerate(sizes):
                s = scale * y[order[:size]].sum(axis=0)
                far = np.linalg.norm(y - s, axis=1)[order]
                z = far if rooted else (np.sum(y**2, axis=1) - 2 * y @ s)[order]
                inside, outside = z[:size], z[size:]
                precision = size / (size + np.sum(outside <= inside.max()))
                recall = np.mean(inside < outside.min())
                both = precision + recall
                f = 2 * precision * recall / both if both else 0.0
                inverted = np.sum(outside[None] <= inside[:, None])
                found[0, :, g, r, m] = precision, recall, f, inverted, far[size:].min() - far[:size].max()
        return found

    return scores


def test_the_loops_are_right(monkeypatch):
    broken(monkeypatch, by_loops())
    for claim in (metrics.worked_example, metrics.brute_force, structure.exact_separation):
        assert claim(Run()).verdict == "holds"


def test_a_renormalised_sum_is_caught(monkeypatch):
    broken(monkeypatch, by_loops(scale=1 / 0.8))
    assert metrics.worked_example(Run()).verdict == "fails"


def test_reversed_ties_are_caught(monkeypatch):
    monkeypatch.setattr(geometry, "rising", lambda score: np.argsort(-score, kind="stable")[..., ::-1])
    assert metrics.brute_force(Run()).verdict == "fails"


def test_strict_comparisons_exchanged_are_caught(monkeypatch):
    def exchanged(right, alpha, v, sizes, *rest):
        found = right(alpha, v, sizes, *rest)
        found[:, 1] = np.where(found[:, 0] < 1, found[:, 1] + 1 / np.array(sizes), found[:, 1])
        return found

    broken(monkeypatch, exchanged)
    assert metrics.brute_force(Run()).verdict == "fails"


def test_distances_instead_of_the_stable_form_are_caught(monkeypatch):
    broken(monkeypatch, by_loops(rooted=True))
    assert structure.exact_separation(Run()).verdict == "fails"


def test_a_negative_common_cosine_is_not_separated():
    check = structure.exact_separation(Run())
    (opposed,) = (rival for rival in check.rivals if "nine tenths of the least" in rival.name)
    assert opposed.values["least F, cosine 0.3"] < 0.9


def test_a_wrong_variance_is_caught(monkeypatch):
    right = envelopes.expected_recall_precision
    monkeypatch.setattr(independent, "expected_recall_precision", lambda w, sizes, d: right(w, sizes, 0.99 * d))
    assert independent.semi_analytic_values(Run()).verdict == "fails"


def test_a_selection_that_is_no_better_than_the_control_is_caught(monkeypatch):
    monkeypatch.setattr(model, "separation", lambda w, v, sizes: geometry.random_control(w, v, sizes, seed=5))
    assert model.above_control(Run()).verdict in ("inconclusive", "fails")


def test_tiled_heads_are_caught(monkeypatch):
    monkeypatch.setattr(extraction, "expand", lambda v, heads: np.tile(v, (1, heads // v.shape[1], 1, 1)))
    assert extraction.identity(Run()).verdict == "fails"


def test_the_mean_of_f_is_not_f_of_the_means():
    _, found = independent.cells(True, 0)["1/i", 64]
    precision, recall = found.precision[:, 0].mean(), found.recall[:, 0].mean()
    assert abs(found.f[:, 0].mean() - 0.606) < 0.06
    assert 2 * precision * recall / (precision + recall) - found.f[:, 0].mean() > 0.05


def test_rules_exchanged_are_caught(monkeypatch):
    right = SparsityComparison.difference
    monkeypatch.setattr(
        SparsityComparison, "difference", lambda self, rule, other, **how: right(self, other, rule, **how)
    )
    assert sparsification.values_better_than_weights(Run()).verdict == "fails"


def test_the_sink_where_the_last_position_is_loses():
    check = recorded.sink_compression(Run())
    name = "stories15m: the same, above the last position's"
    assert 1 < min(check.excess(rival) for rival in check.rivals if name in rival.values) < 2


def test_the_euclidean_distance_in_the_place_of_cosines_is_caught(monkeypatch):
    def euclidean(*request, **options):
        found = geometry.separations(*request, **options)
        return found | {"cosine": found["euclidean"]}

    monkeypatch.setattr(cosine, "separations", euclidean)
    assert cosine.cosine_distance(Run()).verdict == "fails"


def test_the_law_of_two_selected_tokens_for_others_far_behind():
    """In a high dimension both are separated, and with one other token the counts are those of three cosines."""
    np.testing.assert_allclose(cosine.law_of_two(0.5, 0.4, 50, 2000), [1, 1, 1, 0], atol=1e-9)
    values = np.random.default_rng(0).standard_normal((200_000, 3, 3))
    values /= np.linalg.norm(values, axis=-1, keepdims=True)
    s = 0.5 * values[:, 0] + 0.4 * values[:, 1]
    inner = np.einsum("kid,kd->ki", values, s)
    before = (inner[:, 2:] >= inner[:, :2]).sum(axis=1)
    by_hand = [np.where(before > 0, 2 / 3, 1), 1 - before / 2, np.array([1, 4 / 7, 0])[before], before]
    np.testing.assert_allclose(cosine.law_of_two(0.5, 0.4, 1, 3), np.mean(by_hand, axis=1), atol=5e-3)
