"""Every number of a recording against plain loops over what the model itself reports, and what a recording refuses."""

import math
import tracemalloc

import numpy as np
import pytest
from scipy.stats import norm

import sphereflow as sf
from sphereflow.errors import SphereflowError
from sphereflow.llm.model.tiny import tiny_model
from sphereflow.llm.recorded.statistics import ENVELOPES, HEADS, METRICS, STREAM

TOKENS = np.random.default_rng(0).integers(2, 90, (2, 40))
SIZES = (2, 4)


@pytest.fixture(scope="module", params=["llama, grouped", "bert"])
def recorded(request):
    model = tiny_model(request.param)
    return model, sf.llm.record(model, TOKENS, queries=4, sizes=SIZES)


@pytest.fixture(scope="module")
def told(recorded):
    """(states by depth, attention by layer, values by layer and query head) of the second document."""
    import torch

    model, recording = recorded
    last = []
    layers = model.encoder.layer if recording.bidirectional else model.model.layers
    hook = layers[-1].register_forward_hook(lambda m, a, out: last.append(out[0] if isinstance(out, tuple) else out))
    with torch.no_grad():
        out = model(torch.tensor(TOKENS[1:]), output_attentions=True, output_hidden_states=True)
    hook.remove()
    states = [state[0].double().numpy() for state in (*out.hidden_states[:-1], last[0].reshape(1, 40, 32))]
    values = []
    for k, layer in enumerate(layers):
        if recording.bidirectional:
            source = layer.attention.self.value
            made = source(out.hidden_states[k])[0].detach().double().numpy().reshape(40, 4, 8)
            values.append(np.moveaxis(made, 1, 0))
        else:
            values.append(np.repeat(out.past_key_values.layers[k].values[0].double().numpy(), 2, axis=0))
    return states, [rows[0].double().numpy() for rows in out.attentions], values


def cos(a, b):
    return float(a @ b / math.sqrt((a @ a) * (b @ b)))


def components(unit, threshold=0.9):
    left, count = set(range(len(unit))), 0
    while left:
        count += 1
        reached = [left.pop()]
        while reached:
            i = reached.pop()
            near = {j for j in left if unit[i] @ unit[j] > threshold}
            left -= near
            reached += near
    return count


def entropy(shares):
    return -sum(p * math.log(p) for p in shares if p > 0)


def naive_stream(x):
    n = len(x)
    unit = [row / np.linalg.norm(row) for row in x[1:]]
    centre = sum(unit) / len(unit)
    centred = [(u - centre) / np.linalg.norm(u - centre) for u in unit]
    found = {"sink_cosine": np.mean([cos(x[0], u) for u in unit])}
    for name, rows in (("", unit), ("centred_", centred)):
        pairs = [cos(a, b) for i, a in enumerate(rows) for b in rows[:i]]
        squares = np.linalg.svd(np.array(rows), compute_uv=False) ** 2
        found[f"{name}clusters"] = components(rows)
        found[f"{name}rank"] = math.exp(entropy(squares / squares.sum()))
        found["mean_cosine" if name == "" else "centred_cosine"] = np.mean(pairs)
        found.setdefault("histogram", np.histogram(pairs, 100, (-1, 1))[0] / len(pairs))
    norms = sorted(math.sqrt(row @ row) for row in x[1:])
    middle = (norms[(n - 2) // 2] + norms[(n - 1) // 2]) / 2
    return found | {"first_norm": math.sqrt(x[0] @ x[0]), "median_norm": middle, "largest_norm": norms[-1]}


def test_the_residual_stream(recorded, told):
    _, recording = recorded
    for depth, state in enumerate(told[0]):
        naive = naive_stream(state)
        np.testing.assert_allclose(recording.histogram[1, depth], naive.pop("histogram"), atol=1e-6)
        assert {*naive, "step"} == set(STREAM) == set(recording.stream)
        for name, value in naive.items():
            np.testing.assert_allclose(recording.stream[name][1, depth], value, rtol=1e-6, atol=1e-6, err_msg=name)
    step = recording.stream["step"][1]
    assert np.isnan(step).all() if recording.bidirectional else np.isnan(step).tolist() == [False, False, True]


def naive_separation(y, chosen, total):
    away = [np.linalg.norm(row - total) for row in y]
    far, near = max(away[i] for i in chosen), min(away[j] for j in range(len(y)) if j not in chosen)
    intruders = sum(away[j] <= far for j in range(len(y)) if j not in chosen)
    precision, recall = len(chosen) / (len(chosen) + intruders), sum(away[i] < near for i in chosen) / len(chosen)
    return precision, recall, 2 * precision * recall / (precision + recall) if recall else 0.0


def naive_row(alpha, v, t, seen):
    """One query of one head; `seen` are its visible positions."""
    a = [alpha[i] for i in seen]
    v = [v[i] for i in seen]
    output = sum(w * x for w, x in zip(a, v, strict=True))
    others = output - a[0] * v[0]
    order = sorted(range(len(a)), key=lambda i: -a[i])
    chosen = order[:4]
    total = sum(a[i] * v[i] for i in chosen)
    y = [w * x for w, x in zip(a, v, strict=True)]
    outside = min(np.linalg.norm(y[j] - total) for j in range(len(a)) if j not in chosen)
    typical = np.median([np.linalg.norm(x) for x in v[1:]])
    rest = 1 - a[0]
    found = {
        "sink_mass": a[0],
        "effective_number": 1 / sum(w * w for w in a),
        "entropy_number": math.exp(entropy(a)),
        "sink_cosine": cos(v[0], total),
        "sink_output_cosine": cos(v[0], output),
        "sink_others_cosine": cos(v[0], others),
        "last_output_cosine": cos(v[-1], output),
        "output_ratio": np.linalg.norm(output) / typical,
        "compression": np.linalg.norm(v[0]) / typical,
        "sink_selected": float(0 in chosen),
        "sink_recalled": float(0 in chosen and np.linalg.norm(y[0] - total) < outside),
        "self_mass": alpha[t],
        "near_mass": sum(alpha[i] for i in seen if i > 0 and abs(i - t) < 8),
        "mean_distance": sum(alpha[i] * abs(i - t) for i in seen if i > 0) / rest,
    }
    for sink in range(2):
        b = a if sink == 0 else [w / rest for w in a[1:]]
        u = v[sink:]
        best = sorted(range(len(b)), key=lambda i: -b[i])
        for k, size in enumerate(SIZES):
            top = best[:size]
            scores = naive_separation([w * x for w, x in zip(b, u, strict=True)], top, sum(b[i] * u[i] for i in top))
            found |= {(name, sink, k): score for name, score in zip(METRICS, scores, strict=True)}
    return found


def test_the_attention_of_every_head(recorded, told):
    _, recording = recorded
    states, attentions, values = told
    edges = recording.distance_edges
    assert set(recording.heads) == set(HEADS)
    for layer, rows in enumerate(attentions):
        unit = [x / np.linalg.norm(x) for x in states[layer]]
        for head in range(4):
            naive = []
            weights = [[] for _ in edges[1:]]
            x, y = [], []
            for t in recording.queries:
                seen = list(range(40)) if recording.bidirectional else list(range(t + 1))
                alpha = rows[head, t]
                naive.append(naive_row(alpha, values[layer][head], t, seen))
                for i in seen[1:]:
                    weights[max(k for k in range(len(edges) - 1) if edges[k] <= abs(t - i))].append(alpha[i])
                used = [i for i in seen[1:] if i != t]
                own = np.array([[unit[t] @ unit[i], math.log(alpha[i])] for i in used])
                x += list(own[:, 0] - own[:, 0].mean())
                y += list(own[:, 1] - own[:, 1].mean())
            xx, xy, yy = (sum(a * b for a, b in zip(p, q, strict=True)) for p, q in ((x, x), (x, y), (y, y)))
            here = {name: found[1, layer, head] for name, found in recording.heads.items()}
            expected = {
                "beta": (yy / xx) ** 0.5,
                "alignment": xy / (xx * yy) ** 0.5,
                "logit_spread": (yy / len(y)) ** 0.5,
            }
            for name in naive[0]:
                if isinstance(name, tuple):
                    here[name] = recording.metrics[name[0]][1, layer, head, name[1], name[2]]
                expected[name] = np.mean([row[name] for row in naive])
            end = [rows[head, t, -1] for t in recording.queries]
            expected["end_mass"] = np.mean(end) if recording.bidirectional else np.nan
            assert set(here) == set(expected)
            for name in expected:
                np.testing.assert_allclose(here[name], expected[name], rtol=1e-6, atol=1e-6, err_msg=str(name))
            profile = [np.mean(found) if found else np.nan for found in weights]
            np.testing.assert_allclose(recording.profile[1, layer, head], profile, rtol=1e-6)


def naive_law(alpha, size, d):
    """(R, P) of independent values with these weights, by sums over fine steps, token by token."""
    a = sorted(alpha, reverse=True)
    inside, outside = np.array(a[:size]), np.array(a[size:])
    total = sum(w * w for w in inside)
    centre, spread = -(inside**2), 2 * inside * np.sqrt((total - inside**2) / d)
    other, wide = outside**2, 2 * outside * math.sqrt(total / d)
    g = np.linspace(-9, 9, 6_001)
    density = np.exp(-g * g / 2) / np.exp(-g * g / 2).sum()
    kept = []
    for i in range(size):
        z = centre[i] + spread[i] * g
        kept.append(density @ np.exp(sum(norm.logsf(z, m, s) for m, s in zip(other, wide, strict=True))))
    m = np.unique(np.concatenate([c + s * np.linspace(-9, 9, 6_001) for c, s in zip(centre, spread, strict=True)]))
    law = np.prod([norm.cdf(m, c, s) for c, s in zip(centre, spread, strict=True)], axis=0)
    middle = (m[1:] + m[:-1]) / 2
    intruders = sum(norm.cdf(middle, c, s) for c, s in zip(other, wide, strict=True))
    return np.mean(kept), np.diff(law) @ (size / (size + intruders))


def test_envelopes_of_some_documents_only(recorded):
    model, _ = recorded
    made = sf.llm.record(model, np.concatenate([TOKENS, TOKENS]), queries=2, sizes=(2,), envelope_documents=2)
    asked = [np.isfinite(made.envelopes["width_recall"][i]).all() for i in range(4)]
    assert asked == [True, False, True, False]


def test_the_envelopes_of_two_heads(recorded, told):
    _, recording = recorded
    _, attentions, values = told
    assert set(recording.envelopes) == set(ENVELOPES)
    for layer, head in ((0, 1), (1, 2)):
        here = {name: rows[1, layer, head] for name, rows in recording.envelopes.items()}
        found = {name: np.zeros((2, len(SIZES))) for name in ENVELOPES}
        for t in (recording.queries[1], recording.queries[3]):
            seen = 40 if recording.bidirectional else t + 1
            alpha, v = attentions[layer][head, t, :seen], values[layer][head][:seen]
            squares = [cos(v[i], v[j]) ** 2 for i in range(1, seen) for j in range(1, seen) if i != j]
            row = naive_row(attentions[layer][head, t], values[layer][head], t, list(range(seen)))
            for sink in range(2):
                b = alpha if sink == 0 else alpha[1:] / alpha[1:].sum()
                for k, size in enumerate(SIZES):
                    for name in ("precision", "recall"):
                        found[name][sink, k] += row[name, sink, k] / 2
                    for kind, d in (("width", 8), ("effective", 1 / np.mean(squares))):
                        r, p = naive_law(b, size, d)
                        found[f"{kind}_recall"][sink, k] += r / 2
                        found[f"{kind}_precision"][sink, k] += p / 2
        for name, rows in found.items():
            # The library's precision is a rule on panels, good to 5e-6.
            tol = 5e-6 if name.endswith("_precision") else 1e-6
            np.testing.assert_allclose(here[name], rows, rtol=0, atol=tol, err_msg=name)


def test_the_values(recorded, told):
    _, recording = recorded
    groups = recording.value_norms.shape[2]
    for layer, values in enumerate(told[2]):
        for group in range(groups):
            v = values[group * 4 // groups]
            norms = [np.linalg.norm(row) for row in v]
            at = (1, layer, group)
            expected = [norms[i] for i in recording.positions]
            np.testing.assert_allclose(recording.value_norms[at], expected, rtol=1e-6)
            similar = [np.mean([cos(v[i], v[i + lag]) for i in range(1, 40 - lag)]) for lag in recording.lags]
            np.testing.assert_allclose(recording.similarity[at], similar, atol=1e-6)
            squares = [cos(v[i], v[j]) ** 2 for i in range(1, 40) for j in range(1, 40) if i != j]
            named = {
                "norm_variation": np.std(norms[1:]) / np.mean(norms[1:]),
                "norm_median": np.median(norms[1:]),
                "effective_dimension": 1 / np.mean(squares),
            }
            assert set(recording.values) == set(named)
            for name, value in named.items():
                np.testing.assert_allclose(recording.values[name][at], value, rtol=1e-6, err_msg=name)


def test_a_document_is_recorded_the_same_alone(recorded):
    model, recording = recorded
    alone = sf.llm.record(model, TOKENS[1:], queries=4, sizes=SIZES)
    np.testing.assert_array_equal(alone.profile[0], recording.profile[1])
    for name in STREAM:
        np.testing.assert_array_equal(alone.stream[name][0], recording.stream[name][1])
    assert alone.source["weights"] == recording.source["weights"]
    assert alone.source["texts"] != recording.source["texts"]


def test_other_weights_have_another_digest(recorded):
    _, recording = recorded
    kind = "bert" if recording.bidirectional else "llama, grouped"
    other = sf.llm.record(tiny_model(kind, seed=1), TOKENS[:1], queries=2, sizes=SIZES)
    assert other.source["weights"] != recording.source["weights"]


def test_a_saved_recording_comes_back(recorded, tmp_path):
    _, recording = recorded
    again = sf.load(recording.save(tmp_path / "recording.npz"))
    assert again == recording
    assert again.record()["source"]["texts"]["tokens"].startswith("sha256:")


def test_a_sliding_window_says_nothing_about_the_sink():
    recording = sf.llm.record(tiny_model("mistral, window 8"), TOKENS[:1], queries=3, sizes=(2, 4, 16))
    for name in ("sink_mass", "sink_others_cosine", "compression"):
        assert np.isnan(recording.heads[name]).all()
    assert np.isnan(recording.metrics["f"][..., 2]).all()
    assert np.isfinite(recording.metrics["f"][..., :2]).all()
    assert np.isnan(recording.profile[..., recording.distance_edges[:-1] >= 8]).all()
    assert "0 of 2 layers see the first token" in recording.summary()
    assert not sf.llm.value_norms(recording).asked.any()
    assert "no layer sees" in sf.llm.value_norms(recording).summary()
    for verb in (sf.llm.sink_and_recall, sf.llm.found_regimes):
        with pytest.raises(SphereflowError, match=r"see[s]? the first token|recorded sizes"):
            verb(recording)


def test_memory_does_not_grow_like_the_square_of_the_length():
    model = tiny_model("llama, grouped")

    def peak(length):
        tokens = np.random.default_rng(1).integers(2, 90, (1, length))
        tracemalloc.start()
        made = sf.llm.record(model, tokens, queries=2, sizes=(2,))
        highest = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return highest, sum(np.asarray(rows).nbytes for _, rows in made.variables().values())

    peak(64)
    (short, kept), (long, kept_long) = peak(512), peak(1536)
    assert long - short < 1536 * 1536 * 4  # one head of one layer in single precision
    assert kept_long < 1.1 * kept
