"""The matrices of a head are those that the model itself uses."""

import numpy as np
import pytest
from scipy.special import softmax

import sphereflow as sf
from sphereflow.errors import SphereflowError

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
from sphereflow.llm.model.tiny import tiny_model


def test_heads_add_up_to_what_the_attention_of_the_model_gives():
    """At one position for all tokens rotary embeddings do nothing, and without a mask every token sees all."""
    model = tiny_model("llama, grouped").double()
    layer = model.model.layers[1]
    with torch.no_grad():
        layer.input_layernorm.weight.copy_(torch.linspace(0.5, 1.5, 32))
        x = torch.randn(1, 7, 32, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
        still = (torch.ones(1, 7, 8, dtype=torch.float64), torch.zeros(1, 7, 8, dtype=torch.float64))
        wanted = layer.self_attn(layer.input_layernorm(x), position_embeddings=still, attention_mask=None)[0][0]
    unit = x[0].numpy() / np.linalg.norm(x[0].numpy(), axis=1, keepdims=True)
    found = 0.0
    for head in range(4):
        q, k, v = sf.llm.head_matrices(model, 1, head)
        assert q.shape == k.shape == (8, 32)
        found = found + softmax(unit @ q.T @ k @ unit.T, axis=1) @ unit @ v.T
    np.testing.assert_allclose(found, wanted.numpy(), atol=1e-5)  # the norm adds 1e-6 to the mean square


@pytest.mark.parametrize(
    ("name", "layer", "head", "words"),
    [
        ("llama", 2, 0, "layer must be"),
        ("llama", 0, 4, "head must be"),
        ("gpt-2", 0, 0, "not plain"),
        ("qwen 2", 0, 0, "not plain"),
        ("qwen 3", 0, 0, "not plain"),
        ("gemma, one key/value head", 0, 0, "not that of Llama"),
    ],
)
def test_what_cannot_be_read_is_refused(name, layer, head, words):
    with pytest.raises(SphereflowError, match=words):
        sf.llm.head_matrices(tiny_model(name), layer, head)
