"""Fits, envelopes, the sink's correlation and found regimes, each recomputed by plain means on the recordings."""

import dataclasses
import math
from itertools import pairwise

import numpy as np
import pytest
from scipy.optimize import curve_fit, least_squares
from scipy.stats import spearmanr

import sphereflow as sf
from sphereflow.errors import SphereflowError
from sphereflow.llm.heads.forms import aicc
from sphereflow.llm.heads.regimes import adjusted_rand, gaussian_mixture

MADE = sf.llm.recording("stories15m")
_LEVEL = (math.log(1e-8), math.log(10))
_BOX = {
    "plateau + exponential": ([math.log(0.3), _LEVEL[0], -99], [math.log(1e4), _LEVEL[1], 99]),
    "power": ([-3, -99], [6, 99]),
    "plateau + power": ([0.05, _LEVEL[0], -99], [6, _LEVEL[1], 99]),
    "flat": ([-99], [99]),
}


def naive_aicc(squares, n, k):
    return n * math.log(squares / n) + 2 * (k + 1) + 2 * (k + 1) * (k + 2) / (n - k - 2)


def test_norms_of_two_heads():
    found = sf.llm.value_norms(MADE)
    for layer, group in ((1, 2), (4, 0)):
        kappas, others = [], []
        for document in range(8):
            norms = [float(x) for x in MADE.value_norms[document, layer, group]]
            middle = sorted(norms[1:])[len(norms[1:]) // 2]
            if len(norms[1:]) % 2 == 0:
                middle = (middle + sorted(norms[1:])[len(norms[1:]) // 2 - 1]) / 2
            kappas.append(norms[0] / middle)
            others.append([x / middle for x in norms[1:]])
        means = [sum(float(x) for x in column) / 8 for column in MADE.value_norms[:, layer, group].T]
        assert found.compression[layer, group] == pytest.approx(sum(kappas) / 8, rel=1e-6)
        assert found.rank[layer, group] == sum(x < means[0] for x in means[1:]) / (len(means) - 1)
        np.testing.assert_allclose(found.other[layer, group], np.mean(others, axis=0), rtol=1e-6)
    assert found.short == np.mean(found.compression < 1)


def test_similarity_of_two_heads_by_general_least_squares():
    found = sf.llm.similarity_decay(MADE)
    k = MADE.lags.astype(float)
    for at in (3, 20):
        layer, group = found.heads[at]
        y = np.mean([MADE.similarity[i, layer, group].astype(float) for i in range(8)], axis=0)
        forms = {
            "exponential": (lambda k, c, a: c * np.exp(-a * k), (0.2, 0.05)),
            "exponential with floor": (lambda k, f, c, a: f + c * np.exp(-a * k), (0.1, 0.2, 0.1)),
            "power": (lambda k, c, p: c * k**-p, (0.2, 0.2)),
            "constant": (lambda k, c: c + 0 * k, (0.1,)),
        }
        for name, (form, start) in forms.items():
            fitted, _ = curve_fit(form, k, y, start, maxfev=20_000)
            left = sum((a - b) ** 2 for a, b in zip(y, form(k, *fitted), strict=True))
            row = found.names.index(name)
            mine = found.aicc[row, at]
            # The fit of the library is a global one inside its box: never worse, except where the box ends.
            assert mine <= naive_aicc(left, len(k), len(start)) + 1e-6 or np.exp(-9.2) > fitted[-1]
            if abs(mine - naive_aicc(left, len(k), len(start))) < 1e-3:
                assert mine == pytest.approx(naive_aicc(left, len(k), len(start)), abs=1e-6)
                inside = found.parameters_of[name][at]
                assert not len(inside) or math.exp(inside[0]) == pytest.approx(fitted[-1], rel=1e-3)


def test_attention_of_two_heads_by_general_least_squares():
    found = sf.llm.attention_decay(MADE, leave_out=False)
    edges = MADE.distance_edges[1:]
    bins = [np.arange(a, b) for a, b in pairwise(edges)]
    bins = [np.unique(np.linspace(b[0], b[-1], 8).round()) if len(b) > 8 else b for b in bins]
    for at in (0, 20):
        layer, head = found.heads[at]
        logs = [np.log(MADE.profile[i, layer, head, 1:].astype(float)) for i in range(8)]
        y = np.mean(logs, axis=0)
        forms = {
            "plateau + exponential": (lambda k, p: np.exp(p[1]) + np.exp(-k / np.exp(p[0])), 2),
            "power": (lambda k, p: k ** -p[0], 1),
            "plateau + power": (lambda k, p: np.exp(p[1]) + k ** -p[0], 2),
            "flat": (lambda k, p: 1 + 0 * k, 0),
        }
        for name, (form, count) in forms.items():

            def off(p, form=form, y=y):
                return np.array([math.log(np.mean(form(b, p))) for b in bins]) + p[-1] - y

            best = min(
                least_squares(off, [*start[:count], 0.0], bounds=_BOX[name], xtol=1e-14, ftol=1e-14).cost * 2
                for start in ((1.0, -5.0), (2.0, -3.0), (0.5, -7.0))
            )
            mine = found.aicc[found.names.index(name), at]
            assert mine == pytest.approx(naive_aicc(best, len(y), count + 1), abs=1e-5), name


def test_documents_left_out():
    curves = MADE.similarity.astype(float)
    found = sf.llm.similarity_decay(MADE)
    k = MADE.lags
    for at in (3, 20):
        layer, group = found.heads[at]
        squares = []
        for out in range(8):
            rest = np.mean([curves[i, layer, group] for i in range(8) if i != out], axis=0)
            squares += [(x - rest.mean()) ** 2 for x in curves[out, layer, group]]
        assert found.held_out[3, at] == pytest.approx(math.sqrt(sum(squares) / len(squares)), rel=1e-6)
    assert found.share.sum() == pytest.approx(1)
    assert len(k) == curves.shape[-1]


def test_envelopes_of_two_heads():
    found = sf.llm.envelope_agreement(MADE)
    e = MADE.envelopes
    n = np.array(MADE.sizes)
    for layer, head in ((0, 1), (5, 3)):
        for k in range(len(n)):
            p, r, q, s = (
                sum(float(e[name][i, layer, head, 0, k]) for i in range(8)) / 8
                for name in ("precision", "recall", "effective_precision", "effective_recall")
            )
            np.testing.assert_allclose(found.measured[:, layer, head, k], [p, r, 2 * p * r / (p + r)], rtol=1e-6)
            np.testing.assert_allclose(found.expected[0, :, layer, head, k], [q, s, 2 * q * s / (q + s)], rtol=1e-6)
            d = sum(float(MADE.values["effective_dimension"][i, layer, head]) for i in range(8)) / 8
            phi = 0.5 * math.erfc(-math.sqrt(d / (8 * (n[k] - 1))))
            floor = max(phi ** n[k], n[k] / 256)
            np.testing.assert_allclose(found.expected[2, :2, layer, head, k], [floor, phi], rtol=1e-6)
    gaps = found.expected[0, 1] - found.measured[1]
    assert found.inside[0, 1] == np.mean(np.abs(gaps) <= 0.1)
    assert found.signed[0, 1] == pytest.approx(gaps.mean())


def test_the_sinks_correlation():
    found = sf.llm.sink_and_recall(MADE, repeats=200, seed=3)
    cosine = [[np.mean(MADE.heads["sink_others_cosine"][:, i, j].astype(float)) for j in range(6)] for i in range(6)]
    recall = [[np.mean(MADE.metrics["recall"][:, i, j, 0, 1].astype(float)) for j in range(6)] for i in range(6)]
    assert found.correlation == pytest.approx(spearmanr(np.ravel(cosine), np.ravel(recall)).statistic, abs=1e-6)
    away = [abs(x - found.null.mean()) >= abs(found.correlation - found.null.mean()) for x in found.null]
    assert found.p == (1 + sum(away)) / 201
    # A relation inside every layer is found, one between layers only is not.
    planted = np.argsort(np.argsort(np.array(cosine), axis=1), axis=1).astype(np.float32)
    inside = _with_recall(planted)
    between = _with_recall(np.repeat(np.mean(cosine, axis=1)[:, None], 6, axis=1).astype(np.float32))
    assert sf.llm.sink_and_recall(inside, repeats=500).holds
    assert not sf.llm.sink_and_recall(between, repeats=500).holds


def _with_recall(table):
    recall = MADE.metrics["recall"].copy()
    recall[..., 0, 1] = table
    return dataclasses.replace(MADE, metrics=MADE.metrics | {"recall": recall})


def test_found_regimes():
    found = sf.llm.found_regimes(MADE, most=3, restarts=2)
    means = {name: rows.astype(float).mean(axis=0).ravel() for name, rows in MADE.heads.items()}
    f4 = MADE.metrics["f"][..., 0, 1].astype(float).mean(axis=0).ravel()
    for head in (4, 30):
        reset = means["sink_mass"][head] >= 0.5 and means["output_ratio"][head] <= 0.5
        retriever = f4[head] >= 0.6 and means["effective_number"][head] <= 16
        assert found.rule[head] == (2 if reset else 0 if retriever else 1)
        columns = [
            np.log(means["sink_mass"]),
            np.log(means["effective_number"]),
            f4,
            means["sink_output_cosine"],
            means["last_output_cosine"],
            np.log(means["output_ratio"]),
        ]
        expected = [(c[head] - np.mean(c)) / np.std(c) for c in columns]
        np.testing.assert_allclose(found.features[head], expected, rtol=1e-6, atol=1e-6)
    assert found.depth().sum() == 36
    assert found.agreement == adjusted_rand(found.components, found.rule)


def test_the_mixture_is_that_of_scikit_learn():
    mixture = pytest.importorskip("sklearn.mixture")
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.normal(m, 1.0, size=(60, 3)) for m in (-4.0, 0.0, 4.0)])
    for k in (1, 3):
        other = mixture.GaussianMixture(k, reg_covar=1e-3, n_init=4, random_state=0, tol=1e-8).fit(x)
        mine = gaussian_mixture(x, k)
        assert mine.likelihood == pytest.approx(other.score(x), abs=1e-4)
        assert adjusted_rand(mine.labels, other.predict(x)) == pytest.approx(1)


def test_the_criterion():
    assert aicc(np.array([2.0]), 12, 3)[0] == pytest.approx(naive_aicc(2.0, 12, 3))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: sf.llm.envelope_agreement(MADE, sink="no"), "sink must be"),
        (lambda: sf.llm.sink_and_recall(MADE, size=3), "size must be one of the recorded sizes"),
        (lambda: sf.llm.sink_and_recall(MADE, repeats=1), "repeats"),
        (lambda: sf.llm.found_regimes(MADE, most=2), "most"),
        (lambda: sf.llm.length_recording("nobody"), "the recording"),
    ],
)
def test_bad_input_in_one_sentence(call, words):
    with pytest.raises(SphereflowError, match=words) as raised:
        call()
    assert "\n" not in str(raised.value)


def test_the_picture_of_forms_has_their_shares():
    found = sf.llm.similarity_decay(sf.llm.recording("stories15m"), leave_out=False)
    shares, layers = found.plot().axes
    np.testing.assert_allclose([bar.get_width() for bar in shares.patches], found.share)
    assert [label.get_text() for label in shares.get_yticklabels()] == list(found.names)
    # Every head stands in its layer once: two key/value heads or more in each of six layers, stacked by form.
    tops = {}
    for bar in layers.patches:
        centre = round(bar.get_x() + bar.get_width() / 2)
        tops[centre] = max(tops.get(centre, 0), bar.get_y() + bar.get_height())
    assert tops == {layer: np.sum(found.heads[:, 0] == layer) for layer in range(6)}


def test_the_picture_of_norms_has_every_head_and_leaves_out_what_is_hidden():
    for name in ("smollm2", "gemma3-270m"):
        found = sf.llm.value_norms(sf.llm.recording(name))
        variation, lengths = found.plot().axes
        np.testing.assert_array_equal(variation.lines[0].get_ydata(), found.variation.ravel())
        np.testing.assert_array_equal(lengths.lines[0].get_ydata(), found.compression.ravel())
