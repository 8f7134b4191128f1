"""Tiny models with random weights of many architectures: every way in which attention is written in transformers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sphereflow.errors import one_of
from sphereflow.llm.model.loading import require_torch
from sphereflow.seeds import Seed, number_from

_COMMON = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "vocab_size": 97,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
}
_SMALL = {"n_embd": 32, "n_layer": 2, "n_head": 4, "vocab_size": 97}
_GROUPS = {"num_key_value_heads": 2}

# name: (model type of transformers, what differs from its default)
ARCHITECTURES: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("llama", _COMMON),
    "llama, grouped": ("llama", _COMMON | _GROUPS),
    "mistral, window 8": ("mistral", _COMMON | _GROUPS | {"sliding_window": 8}),
    "gemma, one key/value head": ("gemma", _COMMON | {"num_key_value_heads": 1, "head_dim": 16}),
    "gemma 2, soft-capping": (
        "gemma2",
        _COMMON | _GROUPS | {"head_dim": 16, "sliding_window": 8, "attn_logit_softcapping": 5.0},
    ),
    "gemma 3, normed queries": ("gemma3_text", _COMMON | _GROUPS | {"head_dim": 16, "sliding_window": 8}),
    "qwen 2": ("qwen2", _COMMON | _GROUPS),
    "qwen 3": ("qwen3", _COMMON | _GROUPS | {"head_dim": 16}),
    "gpt-2": ("gpt2", _SMALL | {"n_positions": 64}),
    "gpt-neox": ("gpt_neox", _COMMON),
    "phi": ("phi", _COMMON | _GROUPS),
    "phi 3": ("phi3", _COMMON | _GROUPS),
    "falcon, grouped": (
        "falcon",
        {
            "hidden_size": 32,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "vocab_size": 97,
            "new_decoder_architecture": True,
            "num_kv_heads": 2,
        },
    ),
    "bloom": ("bloom", {"hidden_size": 32, "n_layer": 2, "n_head": 4, "vocab_size": 97}),
}
# Encoders: every token sees every other.
ENCODERS: dict[str, tuple[str, dict[str, Any]]] = {"bert": ("bert", _COMMON), "roberta": ("roberta", _COMMON)}


def tiny_model(name: str, seed: Seed = 0) -> Any:
    """A model of this architecture with two layers, four heads and random weights, with eager attention."""
    number = number_from(seed)
    require_torch("a tiny model")
    import torch
    from transformers import AutoConfig, AutoModel, AutoModelForCausalLM

    known = ARCHITECTURES | ENCODERS
    one_of("the architecture", name, tuple(known))
    kind, settings = known[name]
    family = AutoModel if name in ENCODERS else AutoModelForCausalLM
    with torch.random.fork_rng():
        torch.manual_seed(number)
        model = family.from_config(AutoConfig.for_model(kind, **settings), attn_implementation="eager")
    return model.eval()


def tiny_models(names: Sequence[str] | None = None, seed: Seed = 0) -> dict[str, Any]:
    """Several architectures, all by default."""
    return {name: tiny_model(name, seed) for name in (names or ARCHITECTURES)}
