"""Hooks on tiny models of many architectures: the identity, and the mistakes it must catch."""

import tracemalloc

import numpy as np
import pytest

from sphereflow.errors import SphereflowError
from sphereflow.llm.model import capture as capturing
from sphereflow.llm.model.anatomy import AttentionPlace, attention_places, sharing
from sphereflow.llm.model.capture import capture
from sphereflow.llm.model.tiny import ARCHITECTURES, tiny_model

TOKENS = np.random.default_rng(0).integers(1, 90, (2, 20))


def layers_of(model, tokens=TOKENS, **options):
    found = []
    capture(model, tokens, found.append, **options)
    return found


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_weights_times_values_enter_the_output_projection(name):
    everywhere = np.tile(np.arange(20), (2, 1))
    for layer in layers_of(tiny_model(name), queries=everywhere):
        assert layer.identity_error < 1e-5
        np.testing.assert_allclose(layer.rows.sum(axis=-1), 1, atol=1e-6)
        assert np.all(layer.rows[..., ~np.tri(20, dtype=bool)] == 0)
        assert np.all(np.where(layer.visible[:, None], 0, layer.rows) == 0)
        assert layer.rows.shape == (2, 4, 20, 20)


@pytest.mark.parametrize("name", ["llama, grouped", "qwen 2", "gemma 2, soft-capping", "phi 3", "falcon, grouped"])
def test_tiled_key_value_heads_are_caught(name, monkeypatch):
    def tiled(rows, groups):
        return np.swapaxes(rows.reshape(*rows.shape[:-2], -1, groups, rows.shape[-1]), -3, -2)

    monkeypatch.setattr(capturing, "sharing", tiled)
    with pytest.raises(SphereflowError, match="not understood"):
        layers_of(tiny_model(name))


def test_neighbouring_heads_share_values():
    np.testing.assert_array_equal(sharing(np.arange(6.0)[:, None], 2)[..., 0], [[0, 1, 2], [3, 4, 5]])
    with pytest.raises(SphereflowError, match="6 query heads cannot share 4"):
        sharing(np.ones((6, 1)), 4)


def test_a_wrong_layout_is_caught(monkeypatch):
    right = AttentionPlace.split
    monkeypatch.setattr(AttentionPlace, "split", lambda self, x, width, heads: right(self, x.flip(-1), width, heads))
    with pytest.raises(SphereflowError, match="not understood"):
        layers_of(tiny_model("gpt-neox"))


def test_a_sliding_window_is_seen():
    layer = layers_of(tiny_model("mistral, window 8"))[0]
    np.testing.assert_array_equal(np.flatnonzero(layer.visible[0, 0]), np.arange(12, 20))
    weights, values = layer.head_rows(0)
    assert weights.shape == (4, 8)
    assert values.shape == (4, 8, 8)


@pytest.mark.parametrize("name", ["llama, grouped", "gpt-neox"])
@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_changes_nothing(name, side):
    model = tiny_model(name)
    pad = np.zeros((2, 5), dtype=int)
    padded = np.concatenate([pad, TOKENS] if side == "left" else [TOKENS, pad], axis=1)
    plain, other = layers_of(model)[1], layers_of(model, padded, attention_mask=(padded > 0).astype(int))[1]
    for document in range(2):
        for a, b in zip(plain.head_rows(document), other.head_rows(document), strict=True):
            np.testing.assert_allclose(a, b, atol=2e-6)


def test_what_is_captured_belongs_to_the_receiver():
    layers = layers_of(tiny_model("llama"))
    kept = [layer.values.copy() for layer in layers]
    layers[0].values[:] = -1
    np.testing.assert_array_equal(layers[1].values, kept[1])
    assert not np.shares_memory(layers[0].state, layers[1].state)


def test_the_rows_are_those_the_model_reports():
    import torch

    model = tiny_model("qwen 3")
    with torch.no_grad():
        told = model(torch.tensor(TOKENS), output_attentions=True, output_hidden_states=True)
    final = []
    layers = []
    capture(model, TOKENS, layers.append, final_state=final.append)
    for k, layer in enumerate(layers):
        np.testing.assert_allclose(layer.rows[:, :, 0], told.attentions[k][:, :, -1].numpy(), atol=1e-7)
        np.testing.assert_allclose(layer.state, told.hidden_states[k].numpy(), atol=1e-6)
    norm = model.model.norm(torch.tensor(final[0])).detach().numpy()
    np.testing.assert_allclose(norm, told.hidden_states[-1].numpy(), atol=1e-5)


def test_fused_attention_is_refused():
    model = tiny_model("llama")
    model.set_attn_implementation("sdpa")
    with pytest.raises(SphereflowError, match="eager"):
        layers_of(model)


def test_no_hook_is_left_behind():
    model = tiny_model("llama")
    layers_of(model)
    with pytest.raises(ZeroDivisionError):
        capture(model, TOKENS, lambda layer: 1 / 0)
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())


def test_less_memory_than_one_layer_of_attention():
    model = tiny_model("llama, grouped")
    model.config.max_position_embeddings = 1024
    tokens = np.random.default_rng(1).integers(1, 90, (1, 512))
    capture(model, tokens, lambda layer: None)
    tracemalloc.start()
    capture(model, tokens, lambda layer: None)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 * 512 * 512 * 4


@pytest.mark.parametrize("tokens", [np.ones((1, 1), dtype=int), np.ones((1, 0), dtype=int)])
def test_too_few_tokens(tokens):
    with pytest.raises(SphereflowError, match="at least two"):
        layers_of(tiny_model("llama"), tokens)


def test_queries_outside_the_window():
    with pytest.raises(SphereflowError, match="from 0 to 19"):
        layers_of(tiny_model("llama"), queries=np.array([[20], [20]]))


def test_a_model_without_attention():
    import torch

    with pytest.raises(SphereflowError, match="no attention"):
        attention_places(torch.nn.Linear(2, 2))


def test_nothing_of_a_layer_stays_behind():
    import weakref

    seen = []

    def observe(layer):
        assert all(ref() is None for ref in seen)
        seen.extend(weakref.ref(array) for array in (layer.state, layer.rows, layer.values, layer.outputs))

    capture(tiny_model("llama"), TOKENS, observe)
    assert len(seen) == 8
