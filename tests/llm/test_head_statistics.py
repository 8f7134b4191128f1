"""Regimes, fits, error bars and envelopes against independent computations."""

import numpy as np
import pytest
from scipy.special import betainc
from scipy.stats import norm, spearmanr
from sklearn.metrics import adjusted_rand_score

from sphereflow.errors import SphereflowError
from sphereflow.llm.heads.assumptions import fit_norms, fit_similarity, mean_cosines
from sphereflow.llm.heads.bootstrap import document_mean, rank_correlation, spearman
from sphereflow.llm.heads.envelopes import (
    effective_dimension,
    equal_weights_recall,
    expected_inversions,
    expected_recall_precision,
    inversion_bound,
)
from sphereflow.llm.heads.regimes import (
    FEATURES,
    Thresholds,
    adjusted_rand,
    gaussian_mixture,
    head_features,
    mixture,
    regimes,
)
from sphereflow.llm.heads.synthetic import random_directions, sink_heads, textbook_heads


def test_the_mixture_finds_three_clouds():
    rng = np.random.default_rng(0)
    truth = np.repeat([0, 1, 2], 60)
    x = np.array([[0, 0], [6, 0], [0, 6]])[truth] + rng.standard_normal((180, 2)) * np.array([1, 0.5])
    assert adjusted_rand(gaussian_mixture(x, 3).labels, truth) > 0.95


def test_the_mixture_names_components_by_the_rule():
    rng = np.random.default_rng(1)
    kinds = [head_features(*textbook_heads()[name]) for name in ("retriever", "mixer", "reset") for _ in range(20)]
    features = {name: np.array([float(k[name]) for k in kinds]) for name in FEATURES}
    features = {name: values * (1 + 0.01 * rng.standard_normal(60)) for name, values in features.items()}
    found = mixture(features)
    np.testing.assert_array_equal(found.named, np.repeat([0, 1, 2], 20))
    assert found.agreement == 1


def test_thresholds_can_be_set():
    features = {k: np.asarray(v) for k, v in head_features(*textbook_heads()["retriever"]).items()}
    assert regimes(features) == 0
    assert regimes(features, Thresholds(effective_number=2.0)) == 1


def test_a_feature_at_its_threshold_counts():
    at = {"sink_mass": 0.5, "output_ratio": 0.5, "f4": 0.6, "effective_number": 16.0}
    for changed, regime in (({}, 2), ({"sink_mass": 0.4999}, 0), ({"output_ratio": 0.5001, "f4": 0.5999}, 1)):
        assert regimes({name: np.asarray(value) for name, value in (at | changed).items()}) == regime


def test_adjusted_rand_is_the_known_one():
    a, b = np.random.default_rng(2).integers(0, 3, (2, 80))
    np.testing.assert_allclose(adjusted_rand(a, b), adjusted_rand_score(a, b))
    assert adjusted_rand(a, a) == 1


def test_spearman_with_ties():
    a, b = np.random.default_rng(3).integers(0, 5, (2, 40)).astype(float)
    np.testing.assert_allclose(spearman(a, b), spearmanr(a, b).statistic)


def test_the_bootstrap_interval_is_that_of_a_mean():
    values = np.random.default_rng(4).standard_normal((400, 2))
    found = document_mean(values, repeats=4000)
    expected = 2 * 1.96 * values.std(axis=0) / np.sqrt(400)
    np.testing.assert_allclose(found.high - found.low, expected, rtol=0.08)
    np.testing.assert_allclose(found.value, values.mean(axis=0))


@pytest.mark.parametrize(
    ("law", "true", "documents", "said"), [("normal", 0.0, 5, 0.945), ("exponential", 1.0, 6, 0.89)]
)
def test_few_documents_have_the_interval_that_is_said(law, true, documents, said):
    """Shares of 2,000 trials are known to half a per cent (one standard error), quantiles of 500 draws as well."""
    draw = getattr(np.random.default_rng(6), law)
    for level, share in ((0.95, said), (0.99, None)):
        found = document_mean(draw(size=(documents, 2000)), level=level, repeats=500)
        covered = np.mean((found.low <= true) & (true <= found.high))
        assert covered == pytest.approx(share, abs=0.025) if share else covered > said


@pytest.mark.parametrize("wrong", [{"level": 2.0}, {"level": 1.0}, {"repeats": 0}])
def test_levels_and_repeats_that_are_none_are_refused(wrong):
    with pytest.raises(SphereflowError, match=f"{next(iter(wrong))} must be"):
        document_mean(np.ones((4, 2)), **wrong)


def test_the_correlation_is_over_heads_of_means_over_documents():
    rng = np.random.default_rng(5)
    x = rng.standard_normal((6, 50))
    y = x + 0.5 * rng.standard_normal((6, 50))
    found = rank_correlation(x, y, repeats=300)
    np.testing.assert_allclose(found.value, spearmanr(x.mean(axis=0), y.mean(axis=0)).statistic)
    assert found.low < found.value < found.high
    with pytest.raises(SphereflowError, match="at least 3 heads"):
        rank_correlation(x[:, :2], y[:, :2])


def test_the_fits_recover_what_was_put_in():
    _, values = sink_heads(np.random.default_rng(6), 1, decay=0.05, compression=0.3, cosine=0.2, length=4096, d=64)
    norms = fit_norms(values[0])
    np.testing.assert_allclose((norms.median, norms.compression), (1, 0.3))
    found = fit_similarity(values[0], reach=30)
    assert abs(found.decay - 0.05) < 0.01
    assert abs(found.scale - 1) < 0.05
    assert found.error < 0.05


def test_mean_cosines_are_averages_over_pairs():
    v = np.random.default_rng(7).standard_normal((20, 3))
    unit = v[1:] / np.linalg.norm(v[1:], axis=-1, keepdims=True)
    expected = [np.mean([unit[i] @ unit[i + k] for i in range(19 - k)]) for k in (1, 2, 3)]
    np.testing.assert_allclose(mean_cosines(v, 3), expected, atol=1e-12)


def test_the_effective_dimension_of_uniform_directions_is_the_dimension():
    v = random_directions(np.random.default_rng(8), 4000, 12)
    np.testing.assert_allclose(effective_dimension(v), 12, rtol=0.03)
    np.testing.assert_allclose(effective_dimension(np.ones((5, 3))), 1)


def test_one_selected_token_is_certain():
    recall, precision = expected_recall_precision(np.array([0.9, 0.05, 0.05]), (1,), 1e6)
    np.testing.assert_allclose((recall, precision), 1, atol=1e-6)


def test_a_sink_that_is_recalled_passes_the_bar():
    weights, values = sink_heads(np.random.default_rng(9), 30, decay=0.3, compression=0.5, cosine=0.4, length=200, d=32)
    found = head_features(weights, values)
    y = weights[..., None] * values
    for h in range(30):
        order = np.argsort(-weights[h], kind="stable")
        s = y[h, order[:4]].sum(axis=0)
        away = np.linalg.norm(y[h] - s, axis=-1)
        recalled = 0 in order[:4] and away[0] < away[order[4:]].min()
        assert found["sink_recalled"][h] == recalled
    np.testing.assert_array_equal(found["sink_selected"], 1)
    assert (found["sink_cosine"] > found["sink_bar"])[found["sink_recalled"] == 1].all()
    length = [np.linalg.norm(np.sort(weights[h])[::-1][:4] @ values[h][np.argsort(-weights[h])[:4]]) for h in range(30)]
    np.testing.assert_allclose(found["sink_bar"], np.linalg.norm(y[:, 0], axis=-1) / (2 * np.array(length)))


def test_inversions_pair_by_pair():
    """A pair is inverted with the probability of a normal tail, of which exp(-x^2/2) is the bound."""
    alpha, size, d = np.array([0.4, 0.25, 0.2, 0.1, 0.05]), 2, 7.0
    mass2 = np.sum(alpha[:size] ** 2)
    sigmas = np.array(
        [
            np.sqrt(d) * (a**2 + b**2) / (2 * np.sqrt(a**2 * (mass2 - a**2) + b**2 * mass2))
            for a in alpha[:size]
            for b in alpha[size:]
        ]
    )
    assert expected_inversions(alpha, size, d) == pytest.approx(norm.sf(sigmas).sum(), rel=1e-12)
    assert inversion_bound(alpha, size, d) == pytest.approx(np.exp(-(sigmas**2) / 2).sum(), rel=1e-12)


def test_two_equal_weights_are_recalled_unless_they_point_away():
    """|y_1|^2 < 2 <y_1, y_1 + y_2> asks for a cosine above -1/2, whose law is a Beta law."""
    for d in (16, 64):
        exact = 1 - betainc((d - 1) / 2, 0.5, 0.75) / 2
        assert equal_weights_recall(2, d) == pytest.approx(exact, abs=0.01)
