"""Statistics where tensors lie: against plain loops, with several layers at once, and on a card that is imitated."""

import weakref
from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest

from sphereflow.llm.heads import arrays
from sphereflow.llm.heads.control import control_tables
from sphereflow.llm.heads.geometry import own_tables, separation, without_sink
from sphereflow.llm.measurement import layers as measured_layers
from sphereflow.llm.measurement.heads import measure_heads
from sphereflow.llm.measurement.layers import Measurement
from sphereflow.llm.measurement.theory import joined_counts, theories, theory_queries
from sphereflow.llm.model.capture import capture_tensors
from sphereflow.llm.model.tiny import tiny_model
from sphereflow.observables.clusters import cluster_count
from sphereflow.seeds import rng_from

torch = pytest.importorskip("torch")
TOKENS = 1 + np.random.default_rng(3).permutation(89)[None, :40]  # repeated ones would tie in the first layer
SIZES = (1, 2, 4, 8, 16)


def random_sets_by_loops(weights, values, order, size, distance):
    """(P, R, F) of the first tokens of an order, by loops."""
    y = [w * v for w, v in zip(weights, values, strict=True)]
    inside, outside = order[:size], order[size:]
    s = sum(y[i] for i in inside)

    def away(p):
        if distance == "euclidean":
            return np.linalg.norm(p - s)
        scale = np.linalg.norm(p) * np.linalg.norm(s)
        return 1 - (p @ s / scale if scale > 0 else 0)

    d = [away(p) for p in y]
    far, near = max(d[i] for i in inside), min(d[j] for j in outside)
    precision = size / (size + sum(d[j] <= far for j in outside))
    recall = sum(d[i] < near for i in inside) / size
    return precision, recall, 2 * precision * recall / (precision + recall) if precision + recall else np.nan


@pytest.mark.parametrize("distance", ["euclidean", "cosine"])
@pytest.mark.parametrize("sinks", [1.0, 40.0])
def test_one_set_of_rankings_gives_both_controls(distance, sinks):
    rng = np.random.default_rng(4)
    weights, values = rng.exponential(size=(2, 12)), rng.standard_normal((12, 5))
    weights[:, 0] *= sinks
    weights /= weights.sum(axis=-1, keepdims=True)
    keys = rng.random((6, 12))
    sizes = (1, 2, 5, 9)
    found = control_tables(weights[None, None], values[None, None], keys[None], sizes, (distance,), sink=True)
    orders = np.argsort(keys, axis=-1)
    for head in range(2):
        rest, others = (each for each in without_sink(weights[head], values))
        for k, size in enumerate(sizes):
            whole = [random_sets_by_loops(weights[head], values, list(o), size, distance) for o in orders]
            without = [random_sets_by_loops(rest, others, [i - 1 for i in o if i > 0], size, distance) for o in orders]
            for table, expected in zip(found, (whole, without), strict=True):
                np.testing.assert_allclose(table[0, :, 0, 0, head, k], np.mean(expected, axis=0), rtol=1e-6)


def test_sets_without_the_first_token_are_those_of_the_others():
    rng = np.random.default_rng(5)
    weights, values = rng.random((2, 3, 20)), rng.standard_normal((2, 20, 4))
    rest, others = without_sink(weights, values[:, None])
    padded = np.concatenate([np.zeros((2, 3, 1)), rest], axis=-1)
    table = own_tables(np.concatenate([weights, padded], axis=1), values, (1, 4, 11), sinkless=3)
    for distance, found in enumerate(table):
        name = ("euclidean", "cosine")[distance]
        expected = separation(rest, np.broadcast_to(others, (2, 1, 19, 4)), (1, 4, 11), distance=name)
        for row, metric in zip(found, ("precision", "recall", "f", "inversions", "margin"), strict=True):
            np.testing.assert_allclose(row[:, 3:], getattr(expected, metric), rtol=1e-12, atol=1e-14)


def test_two_heads_by_hand():
    """Every number of a head, own and control, from the rows the model hands out."""
    model = tiny_model("llama, grouped")
    heads = measure_heads(model, TOKENS, sizes=SIZES, repeats=3, seed=7)
    with torch.no_grad():
        told = model(torch.tensor(TOKENS), output_attentions=True, use_cache=True)
    for layer, head in ((0, 1), (1, 3)):
        weights = told.attentions[layer][0, head, -1].double().numpy()
        values = told.past_key_values.layers[layer].values[0, head // 2].double().numpy()
        orders = np.argsort(rng_from(7, 0, layer).random((3, 40)), axis=-1)
        pairs = ((weights, values), without_sink(weights, values))
        for sink, (alpha, v) in enumerate(pairs):
            for at, distance in enumerate(("euclidean", "cosine")):
                own = separation(alpha, v, SIZES, distance=distance)
                for k, size in enumerate(SIZES):
                    for name in ("precision", "recall", "f", "inversions", "margin"):
                        found = heads.metrics[name][0, layer, head, 0, sink, at, k]
                        np.testing.assert_allclose(found, getattr(own, name)[k], rtol=1e-6, atol=1e-6)
                    ranked = [[i - sink for i in order if i >= sink] for order in orders]
                    each = [random_sets_by_loops(alpha, v, order, size, distance) for order in ranked]
                    found = [
                        heads.metrics[name][0, layer, head, 1, sink, at, k] for name in ("precision", "recall", "f")
                    ]
                    np.testing.assert_allclose(found, np.mean(each, axis=0), rtol=1e-6, atol=1e-6)


def test_layers_at_once_are_as_one_after_the_other(monkeypatch):
    """Groups of layers, in one model with and without a sliding window, give what each layer gives alone."""
    documents = np.random.default_rng(6).integers(1, 90, (2, 40))
    for name in ("llama, grouped", "gemma 2, soft-capping"):
        model = tiny_model(name)
        alone = measure_heads(model, documents, sizes=SIZES, repeats=3)
        with monkeypatch.context() as patched:
            patched.setitem(measured_layers._WAITING_BYTES, "cpu", 2**26)
            together = measure_heads(model, documents, sizes=SIZES, repeats=3)
        for found, expected in ((together.metrics, alone.metrics), (together.features, alone.features)):
            for key in expected:
                np.testing.assert_allclose(found[key], expected[key], rtol=1e-9, atol=1e-12)
        for key in ("mean_cosine", "participation", "clusters", "step", "histogram"):
            np.testing.assert_allclose(together.by_depth(key), alone.by_depth(key), rtol=1e-6)


def test_arrays_and_tensors_give_the_same():
    rng = np.random.default_rng(8)
    state = rng.standard_normal((2, 30, 12)).astype(np.float32)
    rows = rng.dirichlet(np.ones(30), (2, 3, 4)).astype(np.float32)
    seen, queries = np.ones((3, 30), dtype=bool), np.array([10, 20, 29])
    ours = theories(state, rows, seen, queries, [0.5, 0.25])
    same = theories(torch.tensor(state), torch.tensor(rows), seen, queries, [0.5, 0.25])
    for one, other in zip(ours, same, strict=True):
        for name in ("mean_cosine", "sink_cosine", "participation", "spread", "clusters", "step"):
            np.testing.assert_allclose(getattr(one, name), getattr(other, name), rtol=1e-5)
        for name in ("histogram", "beta", "alignment", "entropy", "logit_spread"):
            np.testing.assert_allclose(getattr(one, name), getattr(other, name), rtol=1e-5)


def test_clusters_by_squares_are_connected_components():
    """Long chains need all the squares; separate groups stay apart."""
    rng = np.random.default_rng(9)
    angle = np.concatenate([np.arange(40) * 0.4, 9.0 + np.arange(25) * 0.4, rng.uniform(0, 6, 15)])
    flat = np.stack([np.cos(angle / 10), np.sin(angle / 10)], axis=-1)
    x = rng.permutation(np.concatenate([flat, np.zeros((80, 1))], axis=1))
    spread = np.linalg.qr(rng.standard_normal((90, 90)))[0][:30]
    for points in (x, spread, np.concatenate([spread, spread + 1e-3, -spread])):
        points = points / np.linalg.norm(points, axis=-1, keepdims=True)
        cosines = torch.tensor(points @ points.T, dtype=torch.float32)[None]
        assert int(joined_counts(cosines)[0]) == cluster_count(points, 0.9)
    chain = np.zeros((61, 62))  # neighbours at cosine .905, each turned into a dimension of its own
    chain[0, 0] = 1
    for k in range(1, 61):
        chain[k] = np.cos(0.44) * chain[k - 1]
        chain[k, k] = np.sin(0.44)
    assert int(joined_counts(torch.tensor(chain @ chain.T, dtype=torch.float32)[None])[0]) == 1


def test_settings_of_precision_are_set_for_the_statistics_and_set_back():
    place = torch.backends.mkldnn.matmul
    before = place.fp32_precision
    try:
        place.fp32_precision = "bf16"
        with torch.autocast("cpu", dtype=torch.bfloat16):
            with arrays.full_precision(torch.device("cpu")):
                assert place.fp32_precision == "ieee"
                assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == torch.float32
            assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == torch.bfloat16
        assert place.fp32_precision == "bf16"
        with pytest.raises(ZeroDivisionError), arrays.full_precision(torch.device("cpu")):
            raise ZeroDivisionError
        assert place.fp32_precision == "bf16"
    finally:
        place.fp32_precision = before


def test_only_small_tables_leave_a_card(monkeypatch):
    """A card is imitated by tensors without numbers, from which nothing can be read, or mixed with those in memory.

    All that may happen is that a finished table is copied, and what is copied is far less than what was captured.
    """
    from sphereflow.llm.measurement import theory
    from sphereflow.llm.model import tensors

    length = 512
    tokens = np.random.default_rng(10).integers(1, 90, (1, length))
    captured, copied, received = [], [], []
    capture_tensors(tiny_model("llama, grouped"), tokens, captured.append, queries=theory_queries(length)[None])

    def to_host(x):
        if isinstance(x, np.ndarray | np.generic):
            return np.asarray(x)
        copied.append(x.numel() * x.element_size())
        if not x.is_meta:  # which tokens are visible has to be known
            assert x.dtype == torch.bool
            return x.numpy()
        return np.zeros(tuple(x.shape), str(x.dtype).removeprefix("torch."))

    for module in (measured_layers, theory, tensors):
        monkeypatch.setattr(module, "to_host", to_host)
    monkeypatch.setattr(measured_layers, "refuse_misread", lambda *told: None)
    monkeypatch.setattr(measured_layers, "full_precision", lambda device: nullcontext())
    monkeypatch.setitem(arrays.PORTION_BYTES, "meta", 2**26)
    monkeypatch.setitem(measured_layers._WAITING_BYTES, "meta", 2**26)
    # There is no kernel of these two without numbers; what they take and give has a shape.
    monkeypatch.setattr(torch, "histc", lambda row, bins, low, high: row.new_empty(bins))
    measurement = Measurement(0, SIZES, 16, 0, True, received.append)
    for layer in captured:
        names = ("rows", "values", "outputs", "state", "update")
        measurement.add(replace(layer, **{name: getattr(layer, name).to("meta") for name in names}))
    measurement.finish()
    assert [numbers.index for numbers in received] == [0, 1]
    assert received[0].metrics.shape == (2, 2, 2, 5, 4, len(SIZES))
    read = sum(layer.bytes for layer in captured)
    assert 0 < sum(copied) < read / 4, (sum(copied), read)
    assert len(copied) < 60


def test_statistics_take_less_memory_than_one_layer_of_attention():
    """Every tensor that an operation makes is counted until its memory is given back."""
    from torch.utils._python_dispatch import TorchDispatchMode

    length = 768
    tokens = np.random.default_rng(11).integers(1, 90, (1, length))
    captured = []
    capture_tensors(tiny_model("llama, grouped"), tokens, captured.append, queries=theory_queries(length)[None])
    live, peak, known = [0], [0], set()

    def given_back(key, size):
        known.discard(key)
        live[0] -= size

    class Counted(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            made = function(*args, **(kwargs or {}))
            for each in made if isinstance(made, tuple | list) else (made,):
                if isinstance(each, torch.Tensor) and each.untyped_storage()._cdata not in known:
                    storage = each.untyped_storage()
                    key, size = storage._cdata, storage.nbytes()
                    known.add(key)
                    live[0] += size
                    peak[0] = max(peak[0], live[0])
                    weakref.finalize(storage, given_back, key, size)
            return made

    received = []
    with Counted():
        Measurement(0, SIZES, 16, 0, True, received.append).add(captured[0])
    assert len(received) == 1
    assert 2**20 < peak[0] < 4 * length**2 * 4
