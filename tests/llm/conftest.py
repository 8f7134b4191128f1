"""A tiny model on disk, with a tokenizer of words, as a user would have it."""

import numpy as np
import pytest

WORDS = (
    "the", "code", "of", "table", "river", "window", "is", "garden", "a", "list", "here", "bridge", "mountain",
    ".", "winter", "forest", "island", "kitchen",
)  # fmt: skip


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory):
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    from sphereflow.llm.model.tiny import tiny_model

    folder = tmp_path_factory.mktemp("model")
    tiny_model("llama, grouped").save_pretrained(folder)
    vocabulary = {word: k for k, word in enumerate(["<s>", "<unk>", *WORDS])}
    backend = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(tokenizer_object=backend, bos_token="<s>", unk_token="<unk>").save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def text_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "words.txt"
    path.write_text(" ".join(np.random.default_rng(0).choice(WORDS, 400)))
    return path


def written_out(layer, x, attention=True, mlp=True):
    """A layer of the tiny Llama on one document: norms, rotations, four heads that share two values, gated MLP."""

    def weight(part):
        return part.weight.detach().numpy()

    def normed(x, norm):
        return x / np.sqrt(np.mean(x**2, axis=-1, keepdims=True) + norm.variance_epsilon) * weight(norm)

    length, d = len(x), 8
    angle = np.arange(length)[:, None] / 10000.0 ** (np.arange(0, d, 2) / d)

    def turned(v):
        a, b = v[:, : d // 2], v[:, d // 2 :]
        return np.concatenate([a * np.cos(angle) - b * np.sin(angle), b * np.cos(angle) + a * np.sin(angle)], axis=1)

    y = normed(x, layer.input_layernorm)
    q, k, v = (y @ weight(getattr(layer.self_attn, f"{name}_proj")).T for name in "qkv")
    outputs = []
    for head in range(4):
        at, shared = slice(head * d, (head + 1) * d), slice(head // 2 * d, (head // 2 + 1) * d)
        logits = turned(q[:, at]) @ turned(k[:, shared]).T / np.sqrt(d)
        logits[np.triu_indices(length, 1)] = -np.inf
        weights = np.exp(logits - logits.max(axis=1, keepdims=True))
        outputs.append(weights / weights.sum(axis=1, keepdims=True) @ v[:, shared])
    if attention:
        x = x + np.concatenate(outputs, axis=1) @ weight(layer.self_attn.o_proj).T
    if not mlp:
        return x
    y = normed(x, layer.post_attention_layernorm)
    gate = y @ weight(layer.mlp.gate_proj).T
    return x + (gate / (1 + np.exp(-gate)) * (y @ weight(layer.mlp.up_proj).T)) @ weight(layer.mlp.down_proj).T


@pytest.fixture
def layer_by_hand():
    return written_out
