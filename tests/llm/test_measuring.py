"""Measurements of tiny models against the model's own report, and the particle picture against hand computations."""

import json
import re
import tracemalloc
import warnings

import numpy as np
import pytest
import xarray as xr
from scipy.integrate import solve_ivp

from sphereflow.errors import SphereflowError
from sphereflow.llm.heads.geometry import separation, without_sink
from sphereflow.llm.heads.regimes import FEATURES, SINK_FEATURES
from sphereflow.llm.measurement import record
from sphereflow.llm.measurement.findings import findings
from sphereflow.llm.measurement.heads import SINKS, measure_heads
from sphereflow.llm.measurement.page import measurement_page
from sphereflow.llm.measurement.pictures import draw_maps, draw_sink, draw_theory
from sphereflow.llm.measurement.theory import equiangular_path, layer_theory
from sphereflow.llm.model.capture import capture
from sphereflow.llm.model.tiny import tiny_model

DOCUMENTS = np.random.default_rng(0).integers(1, 90, (3, 40))


@pytest.fixture(scope="module")
def grouped():
    model = tiny_model("llama, grouped")
    return model, measure_heads(model, DOCUMENTS, sizes=(1, 2, 4, 8, 64), repeats=4)


def test_metrics_are_those_of_the_models_own_attention(grouped):
    import torch

    model, heads = grouped
    assert heads.sizes == (1, 2, 4, 8)  # 64 does not fit
    with torch.no_grad():
        told = model(torch.tensor(DOCUMENTS[1:2]), output_attentions=True, use_cache=True)
    for layer in range(2):
        weights = told.attentions[layer][0, :, -1].numpy().astype(float)
        values = np.repeat(told.past_key_values.layers[layer].values[0].numpy().astype(float), 2, axis=0)
        own = separation(weights, values, heads.sizes)
        np.testing.assert_allclose(heads.curve("f")[1, layer], own.f, atol=1e-6)
        np.testing.assert_allclose(heads.features["sink_mass"][1, layer], weights[:, 0], atol=1e-6)
        rest = separation(*without_sink(weights, values), heads.sizes, distance="cosine")
        found = heads.curve("recall", "attention", "without sink", "cosine")[1, layer]
        np.testing.assert_allclose(found, rest.recall, atol=1e-6)
        norms = np.linalg.norm(values, axis=-1)
        expected = norms[:, 0] / np.median(norms[:, 1:], axis=1)
        np.testing.assert_allclose(heads.features["compression"][1, layer], expected, rtol=1e-5)


def test_a_document_is_measured_the_same_alone(grouped):
    model, heads = grouped
    alone = measure_heads(model, DOCUMENTS[:1], sizes=(1, 2, 4, 8), repeats=4)
    for name in heads.metrics:
        np.testing.assert_array_equal(alone.metrics[name], heads.metrics[name][:1])


def test_random_weights_do_not_compress_the_sink(grouped):
    _, heads = grouped
    assert 0.5 < np.median(heads.features["compression"]) < 2


def test_sizes_beyond_a_sliding_window_are_missing():
    heads = measure_heads(tiny_model("mistral, window 8"), DOCUMENTS[:1], sizes=(2, 4, 16), repeats=2)
    assert np.isnan(heads.curve("f")[..., 2]).all()
    assert not np.isnan(heads.curve("f")[..., :2]).any()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        record.summary(heads, {"model": "x"}, repeats=10)


@pytest.fixture(scope="module")
def windowed():
    """Three layers, of which the middle one sees everything and the others the last eight tokens."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    kinds = ["sliding_attention", "full_attention", "sliding_attention"]
    config = AutoConfig.for_model(
        "gemma3_text",
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=16,
        vocab_size=97,
        max_position_embeddings=64,
        pad_token_id=0,
        sliding_window=8,
        layer_types=kinds,
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval()


def test_nothing_is_said_about_a_sink_that_is_out_of_sight(windowed):
    heads = measure_heads(windowed, DOCUMENTS, sizes=(2, 4, 16), repeats=2)
    assert heads.sees_sink.tolist() == [[False] * 4, [True] * 4, [False] * 4]
    for name in SINK_FEATURES:
        assert np.isfinite(heads.features[name]).all(axis=(0, 2)).tolist() == [False, True, False], name
        assert np.isnan(heads.features[name][:, [0, 2]]).all(), name
    for name in set(FEATURES) - set(SINK_FEATURES):
        assert np.isfinite(heads.features[name]).all(), name
    # Nothing is left out where there is no sink to leave out; what the window shows is the same either way.
    both = [heads.curve("f", "attention", sink)[:, [0, 2]] for sink in SINKS]
    np.testing.assert_array_equal(*both)
    assert not np.array_equal(*(heads.curve("f", "attention", sink)[:, 1] for sink in SINKS))


def test_sentences_about_the_sink_are_about_the_heads_that_see_it(windowed):
    heads = measure_heads(windowed, DOCUMENTS, sizes=(2, 4), repeats=2)
    told = record.summary(heads, {"model": "x"}, repeats=50)
    seen = heads.features["compression"][:, 1].mean(axis=0)
    assert told["compression_median"] == pytest.approx(np.median(seen))
    assert (told["heads_that_see_the_sink"], told["layers_that_see_the_sink"], told["heads"], told["layers"]) == (
        4,
        1,
        12,
        3,
    )
    assert json.loads(json.dumps(told, allow_nan=False)) is not None
    sentence = findings(told)[1]
    assert sentence.startswith("4 of 12 heads, all in 1 of 3 layers, see the first token from the last one;")
    assert f"the first value is {np.median(seen):.2f} times as long" in sentence
    assert set(record.head_table(heads)["regime"][:4]) <= {"retriever", "mixer"}
    # A shorter document fits the window, and every head sees its first token.
    short = record.summary(measure_heads(windowed, DOCUMENTS[:, :8], sizes=(2, 4), repeats=2), {}, repeats=50)
    assert short["heads_that_see_the_sink"] == 12
    assert findings(short)[1].startswith("Sink compression")


def test_a_model_none_of_whose_heads_sees_the_first_token():
    heads = measure_heads(tiny_model("mistral, window 8"), DOCUMENTS, sizes=(2, 4), repeats=2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        told = record.summary(heads, {"model": "x"}, repeats=50)
        lines = findings(told)
        page = measurement_page(
            told | {"model": {"model": "x", "layers": 2, "heads": 4, "key_value_heads": 2}},
            lines,
            [],
            record.head_table(heads),
            [],
        )
        draw_maps(heads)
        draw_sink(heads)
    assert lines[1].startswith("Nothing is said about the sink")
    assert lines[2] == "Too few heads see the first token for a correlation of its direction with recall."
    assert "Too few heads see the first token" in lines[3]
    json.dumps(told, allow_nan=False)
    assert b"nan" not in page.split(b"<table")[1]


def test_one_document_gives_no_interval(grouped):
    model, _ = grouped
    told = record.summary(measure_heads(model, DOCUMENTS[:1], sizes=(2, 4), repeats=2), {"model": "x"}, repeats=50)
    curve = told["curves"]["f, attention, with sink, euclidean"]
    assert None not in curve["value"]
    assert (curve["low"], curve["high"]) == ([None] * 2, [None] * 2)
    assert told["sink_cosine_recall_correlation"]["low"] is None
    lines = findings(told)
    assert "(no interval: that needs at least two documents), random sets" in lines[0]
    assert lines[2].count("(no interval: that needs at least two documents)") == 3


def test_layers_and_heads_are_counted_from_zero(grouped):
    _, heads = grouped
    assert record.head_table(heads)["layer"] == [0] * 4 + [1] * 4
    assert record.head_table(heads)["head"] == [0, 1, 2, 3] * 2
    map_ = draw_maps(heads).axes[0]
    for axis, count in ((map_.yaxis, heads.layers), (map_.xaxis, heads.heads)):
        places = [place for place in axis.get_ticklocs() if 0 <= place < count]
        labels = axis.get_major_formatter().format_ticks(places)
        assert [int(re.search(r"\d+", label)[0]) for label in labels] == places
    bars = draw_sink(heads).axes[1]
    assert sorted({round(bar.get_x() + bar.get_width() / 2) for bar in bars.patches}) == [0, 1]
    lines = draw_theory(heads).axes[3].lines
    assert lines[-1].get_xdata().tolist() == [0, 1]
    told = record.summary(heads, {"model": "x"}, repeats=50) | {"entropy": [0.5, 0.25, 0.75]}
    assert "lowest 0.25 in layer 1 (counted from 0)" in " ".join(findings(told))


@pytest.mark.parametrize("kind", ["bfloat16", "float16"])
def test_half_precision_models(kind, grouped):
    import torch

    model = tiny_model("llama, grouped").to(getattr(torch, kind))
    heads = measure_heads(model, DOCUMENTS[:1], sizes=(2, 4), repeats=2)
    exact = grouped[1].features["compression"][:1]
    np.testing.assert_allclose(heads.features["compression"], exact, rtol=0.05)
    assert heads.metrics["f"].dtype == np.float64


def test_no_size_fits():
    with pytest.raises(SphereflowError, match="fits a window"):
        measure_heads(tiny_model("llama"), DOCUMENTS, sizes=(64,))


def test_statistics_take_less_memory_than_one_layer_of_attention():
    model = tiny_model("llama, grouped")
    tokens = np.random.default_rng(1).integers(1, 90, (1, 768))
    measure_heads(model, tokens[:, :64], repeats=1)
    tracemalloc.start()
    measure_heads(model, tokens, repeats=16)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 * 768 * 768 * 4


def test_the_dataset_keeps_everything(grouped):
    import io

    _, heads = grouped
    stored = bytes(heads.to_xarray().to_netcdf(engine="scipy"))
    data = xr.open_dataset(io.BytesIO(stored), engine="scipy")
    one = data.f.sel(selection="random", sink="without sink", distance="cosine", N=4).values
    np.testing.assert_allclose(one, heads.curve("f", "random", "without sink", "cosine")[..., 2], rtol=1e-6)
    assert data.attrs["window"] == 40
    assert data.cosine_histogram.sum("cosine").values == pytest.approx(1, abs=1e-5)


def test_tables_have_one_row_per_head(grouped):
    _, heads = grouped
    table = record.head_table(heads)
    lines = record.as_csv(table).decode().splitlines()
    assert len(lines) == 1 + 2 * 4
    assert lines[0].startswith("layer,head,regime,sink_mass")
    curves = record.curve_table(heads)
    k = next(
        k
        for k in range(10**6)
        if (
            curves["layer"][k],
            curves["head"][k],
            curves["N"][k],
            curves["selection"][k],
            curves["sink"][k],
            curves["distance"][k],
        )
        == (1, 2, 4, "random", "with sink", "cosine")
    )
    expected = heads.curve("precision", "random", "with sink", "cosine").mean(axis=0)[1, 2, 2]
    assert curves["precision"][k] == expected


def test_findings_name_disagreement(grouped):
    _, heads = grouped
    told = record.summary(heads, {"model": "tiny"}, repeats=50)
    told["mean_cosine"], told["equiangular_cosine"] = [0.1, 0.5], [0.1, 1.0]
    told["alignment_median"] = 0.1
    text = " ".join(findings(told))
    assert "They disagree (by up to 0.50)" in text
    assert "explain only 1 %" in text


def test_the_effective_beta_of_a_kernel_is_its_beta():
    from sphereflow.llm.model.capture import LayerCapture

    rng = np.random.default_rng(2)
    x = rng.standard_normal((60, 8)).astype(np.float32)
    unit = x / np.linalg.norm(x, axis=-1, keepdims=True)
    rows = np.exp(7.0 * unit @ unit.T)
    rows = np.where(np.tri(60, dtype=bool), rows, 0)
    rows = (rows / rows.sum(axis=-1, keepdims=True)).astype(np.float32)
    queries = np.array([[30, 45, 59]])
    layer = LayerCapture(
        0,
        "",
        queries,
        rows[None, None, queries[0]],
        np.tri(60, dtype=bool)[queries],
        np.ones((1, 1, 60, 2), np.float32),
        np.ones((1, 1, 3, 2), np.float32),
        x[None],
        0.1,
    )
    found = layer_theory(layer)
    np.testing.assert_allclose((found.beta[0], found.alignment[0]), (7, 1), rtol=1e-4)
    rest = unit[1:].astype(float)
    cosines = (rest @ rest.T)[np.triu_indices(59, 1)]
    np.testing.assert_allclose(found.mean_cosine, cosines.mean(), atol=1e-6)
    np.testing.assert_allclose(found.histogram.sum(), 1)
    assert found.clusters == 59


@pytest.mark.parametrize("name", ["llama, grouped", "mistral, window 8"])
def test_temperatures_match_loops_over_rows(name):
    """Without the first visible token and the query itself; rows that see fewer than four others say nothing."""
    layers = []
    queries = np.array([[3, 5, 20, 39]])
    capture(tiny_model(name), DOCUMENTS[:1], layers.append, queries=queries)
    layer = layers[1]
    found = layer_theory(layer)
    unit = layer.state[0].astype(float) / np.linalg.norm(layer.state[0].astype(float), axis=-1, keepdims=True)
    for head in range(4):
        x, y, entropy = [], [], []
        for q, query in enumerate(queries[0]):
            seen = np.flatnonzero(layer.visible[0, q])
            row = layer.rows[0, head, q].astype(float)
            entropy.append(-sum(row[k] * np.log(row[k]) for k in seen) / np.log(len(seen)))
            others = [k for k in seen if k not in (seen[0], query)]
            if len(others) >= 4:
                cosines, logs = [unit[k] @ unit[query] for k in others], [np.log(row[k]) for k in others]
                x.extend(cosines - np.mean(cosines))
                y.extend(logs - np.mean(logs))
        expected = (np.std(y) / np.std(x), np.corrcoef(x, y)[0, 1], np.mean(entropy), np.std(y))
        got = (found.beta, found.alignment, found.entropy, found.logit_spread)
        np.testing.assert_allclose([each[head] for each in got], expected, rtol=1e-5)


def test_the_equiangular_path_solves_its_equation():
    n, beta = 50, 3.0
    path = equiangular_path(0.1, n, [beta] * 4, [0.5] * 4)
    exact = solve_ivp(
        lambda t, g: 2 * (1 - g) * ((n - 1) * g + 1) / (np.exp(beta * (1 - g)) + n - 1),
        (0, 2),
        [0.1],
        t_eval=[0, 0.5, 1, 1.5, 2],
        rtol=1e-10,
        atol=1e-12,
    ).y[0]
    np.testing.assert_allclose(path, exact, atol=1e-6)
