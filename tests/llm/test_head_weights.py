"""The matrices of a head are those that the model itself uses."""

import numpy as np
import pytest
from scipy.special import softmax

import sphereflow as sf
from sphereflow.errors import SphereflowError

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
from sphereflow.llm.model.head_weights import layer_values
from sphereflow.llm.model.tiny import tiny_model


@pytest.mark.parametrize("name", ["llama, grouped", "gemma, one key/value head"])
def test_heads_add_up_to_what_the_attention_of_the_model_gives(name):
    """At one position for all tokens rotary embeddings do nothing, and without a mask every token sees all."""
    model = tiny_model(name).double()
    layer = model.model.layers[1]
    with torch.no_grad():
        layer.input_layernorm.weight.copy_(torch.linspace(0.5, 1.5, 32))
        x = torch.randn(1, 7, 32, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
        width = layer.self_attn.head_dim
        still = (torch.ones(1, 7, width, dtype=torch.float64), torch.zeros(1, 7, width, dtype=torch.float64))
        wanted = layer.self_attn(layer.input_layernorm(x), position_embeddings=still, attention_mask=None)[0][0]
    unit = x[0].numpy() / np.linalg.norm(x[0].numpy(), axis=1, keepdims=True)
    found = 0.0
    for head in range(4):
        q, k, v = sf.llm.head_matrices(model, 1, head)
        assert q.shape == k.shape == (width, 32)
        found = found + softmax(unit @ q.T @ k @ unit.T, axis=1) @ unit @ v.T
    np.testing.assert_allclose(found, wanted.numpy(), atol=1e-5)  # the norm adds 1e-6 to the mean square
    together = sum(sf.llm.head_matrices(model, 1, head)[2] for head in range(4))
    np.testing.assert_allclose(layer_values(model, 1), together, atol=1e-12)


def test_tokens_of_one_direction_get_the_values_of_the_layer():
    """Gemma 3: normalised queries and keys, and a norm behind attention that leaves the direction of the matrix."""
    model = tiny_model("gemma 3, normed queries").double()
    layer = model.model.layers[1]
    with torch.no_grad():
        for norm in (layer.input_layernorm, layer.post_attention_layernorm):
            norm.weight.copy_(torch.linspace(-0.5, 0.5, 32))
        u = torch.randn(32, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
        x = u.expand(1, 5, 32)
        still = (torch.ones(1, 5, 16, dtype=torch.float64), torch.zeros(1, 5, 16, dtype=torch.float64))
        mixed = layer.self_attn(layer.input_layernorm(x), position_embeddings=still, attention_mask=None)[0]
        wanted = layer.post_attention_layernorm(mixed)[0, 3].numpy()
    found = layer_values(model, 1) @ u.numpy()
    np.testing.assert_allclose(found / np.linalg.norm(found), wanted / np.linalg.norm(wanted), atol=1e-6)
    with pytest.raises(SphereflowError, match="not plain"):
        sf.llm.head_matrices(model, 1, 0)


@pytest.mark.parametrize(
    ("name", "layer", "head", "words"),
    [
        ("llama", 2, 0, "layer must be"),
        ("llama", 0, 4, "head must be"),
        ("gpt-2", 0, 0, "not plain"),
        ("qwen 2", 0, 0, "not plain"),
        ("qwen 3", 0, 0, "not plain"),
    ],
)
def test_what_cannot_be_read_is_refused(name, layer, head, words):
    with pytest.raises(SphereflowError, match=words):
        sf.llm.head_matrices(tiny_model(name), layer, head)
