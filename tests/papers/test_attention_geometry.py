"""The paper's claims come out as expected, and the known mistakes are caught by them."""

import numpy as np
from verdicts import Verdicts

from sphereflow.claims import Run
from sphereflow.llm.heads import envelopes, geometry
from sphereflow.papers import load
from sphereflow.papers.attention_geometry import extraction, independent, metrics, model, structure

PAPER = load("attention-geometry")


class TestVerdicts(Verdicts):
    paper = PAPER
    slow_claims = (
        "above-control",
        "attention-profile",
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
    """The metrics with their ordered distances changed before they are compared."""
    right = geometry._measured
    monkeypatch.setattr(geometry, "_measured", lambda *args, **options: change(right, *args, **options))


def test_a_renormalised_sum_is_caught(monkeypatch):
    def renormalised(right, cloud, sums, *rest, **options):
        return right(cloud, sums / 0.8, *rest, **options)

    broken(monkeypatch, renormalised)
    assert metrics.worked_example(Run()).verdict == "fails"


def test_reversed_ties_are_caught(monkeypatch):
    monkeypatch.setattr(geometry, "descending", lambda score: np.argsort(score, kind="stable")[::-1])
    assert metrics.brute_force(Run()).verdict == "fails"


def test_strict_comparisons_exchanged_are_caught(monkeypatch):
    def exchanged(right, cloud, sums, orders, sizes, distances):
        found = right(cloud, sums, orders, sizes, distances)
        found[:, 1] = np.where(found[:, 0] < 1, found[:, 1] + 1 / np.array(sizes), found[:, 1])
        return found

    broken(monkeypatch, exchanged)
    assert metrics.brute_force(Run()).verdict == "fails"


def test_distances_instead_of_the_stable_form_are_caught(monkeypatch):
    right = geometry._measured

    def rooted(cloud, sums, orders, sizes, distances):
        found = right(cloud, sums, orders, sizes, distances)
        for m, size in enumerate(sizes):
            d = np.linalg.norm(cloud[0] - sums[0, 0, m], axis=-1)
            precision = size / (size + np.sum(d[size:] <= d[:size].max()))
            recall = np.mean(d[:size] < d[size:].min())
            found[0, 2, 0, m] = 2 * precision * recall / (precision + recall)
        return found

    monkeypatch.setattr(geometry, "_measured", rooted)
    assert structure.exact_separation(Run()).verdict == "fails"


def test_a_wrong_variance_is_caught(monkeypatch):
    right = envelopes.expected_recall_precision
    monkeypatch.setattr(independent, "expected_recall_precision", lambda w, sizes, d: right(w, sizes, 0.99 * d))
    assert independent.semi_analytic_values(Run()).verdict == "fails"


def test_a_selection_that_is_no_better_than_the_control_is_caught(monkeypatch):
    monkeypatch.setattr(model, "separation", lambda w, v, sizes: geometry.random_control(w, v, sizes, seed=5))
    assert model.above_control(Run()).verdict == "fails"


def test_tiled_heads_are_caught(monkeypatch):
    monkeypatch.setattr(extraction, "expand", lambda v, heads: np.tile(v, (1, heads // v.shape[1], 1, 1)))
    assert extraction.identity(Run()).verdict == "fails"


def test_the_mean_of_f_is_not_f_of_the_means():
    _, found = independent.cells(True, 0)["1/i", 64]
    precision, recall = found.precision[:, 0].mean(), found.recall[:, 0].mean()
    assert abs(found.f[:, 0].mean() - 0.606) < 0.06
    assert 2 * precision * recall / (precision + recall) - found.f[:, 0].mean() > 0.05
