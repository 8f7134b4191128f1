"""A Llama model and its tokenizer straight from a GGUF file, several times faster than the general loader.

The file keeps the rows of the query and key matrices for rotary pairs (0, 1), (2, 3), ...; transformers rotates the
pairs (0, d/2), (1, d/2 + 1), ..., so the rows of each head are put back in that order.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from sphereflow.errors import SphereflowError
from sphereflow.reading import regular_file

# Byte-level BPE with the plain regular expression of GPT-2; other splittings are left to the general loader.
_PLAIN_SPLITTING = ("smollm", "gpt-2")
_CONTROL = 3

_NAMES = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}
_BLOCK_NAMES = {
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


class GgufFile:
    """The fields and tensors of a GGUF file, opened once."""

    def __init__(self, path: Path):
        regular_file(path)
        try:
            self._reader = _bounded_reader()(str(path))
        except EOFError:
            raise SphereflowError(f"{path} is truncated: it ends before the data that its header promises.") from None
        except (ValueError, OSError, IndexError, KeyError) as error:
            raise SphereflowError(f"cannot read {path} as a GGUF file: {error}.") from None
        self.path = path

    def field(self, name: str, default: Any = None) -> Any:
        found = self._reader.fields.get(name)
        return default if found is None else found.contents()

    @property
    def plain_llama(self) -> bool:
        """A Llama whose tensors are all known here, with a tokenizer that can be rebuilt exactly."""
        return (
            self.field("general.architecture") == "llama"
            and self.field("tokenizer.ggml.model") == "gpt2"
            and self.field("tokenizer.ggml.pre") in _PLAIN_SPLITTING
            and all(_name(tensor.name) is not None for tensor in self._reader.tensors)
        )

    def model(self, dtype: Any) -> Any:
        """The causal language model, with eager attention."""
        import torch
        from transformers import LlamaConfig, LlamaForCausalLM
        from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

        config = LlamaConfig(**self._shape() | {"attn_implementation": "eager"})
        with torch.device("meta"):
            model = LlamaForCausalLM(config)
        model.load_state_dict(self._weights(config, dtype), strict=False, assign=True)
        model.tie_weights()
        model.model.rotary_emb = LlamaRotaryEmbedding(config)
        missing = [name for name, weight in model.named_parameters() if weight.is_meta]
        if missing:
            raise SphereflowError(f"{self.path} holds a model without weights: {missing[0]} is missing.")
        return model.eval()

    def tokenizer(self) -> Any:
        from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
        from transformers import PreTrainedTokenizerFast

        words = self.field("tokenizer.ggml.tokens")
        merges = [tuple(pair.split(" ")) for pair in self.field("tokenizer.ggml.merges")]
        backend = Tokenizer(models.BPE({word: k for k, word in enumerate(words)}, merges))
        backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        backend.decoder = decoders.ByteLevel()
        kinds = self.field("tokenizer.ggml.token_type")
        backend.add_special_tokens(
            [
                AddedToken(w, special=True, normalized=False)
                for w, kind in zip(words, kinds, strict=True)
                if kind == _CONTROL
            ]
        )
        special = {
            f"{role}_token": words[self.field(f"tokenizer.ggml.{role}_token_id")]
            for role in ("bos", "eos")
            if self.field(f"tokenizer.ggml.{role}_token_id") is not None
        }
        return PreTrainedTokenizerFast(tokenizer_object=backend, clean_up_tokenization_spaces=False, **special)

    def _shape(self) -> dict[str, Any]:
        heads = self.field("llama.attention.head_count")
        width = self.field("llama.embedding_length")
        tensors = {tensor.name for tensor in self._reader.tensors}
        return {
            "vocab_size": len(self.field("tokenizer.ggml.tokens")),
            "hidden_size": width,
            "intermediate_size": self.field("llama.feed_forward_length"),
            "num_hidden_layers": self.field("llama.block_count"),
            "num_attention_heads": heads,
            "num_key_value_heads": self.field("llama.attention.head_count_kv", heads),
            "head_dim": self.field("llama.rope.dimension_count", width // heads),
            "max_position_embeddings": self.field("llama.context_length"),
            "rope_parameters": {"rope_type": "default", "rope_theta": self.field("llama.rope.freq_base", 1e4)},
            "rms_norm_eps": self.field("llama.attention.layer_norm_rms_epsilon"),
            "tie_word_embeddings": "output.weight" not in tensors,
            "bos_token_id": self.field("tokenizer.ggml.bos_token_id"),
            "eos_token_id": self.field("tokenizer.ggml.eos_token_id"),
        }

    def _weights(self, config: Any, dtype: Any) -> dict[str, Any]:
        import torch
        from gguf import dequantize

        found = {}
        for tensor in self._reader.tensors:
            weight = np.asarray(dequantize(tensor.data, tensor.tensor_type), dtype=np.float32)
            if ".attn_q." in tensor.name:
                weight = half_split(weight, config.num_attention_heads)
            elif ".attn_k." in tensor.name:
                weight = half_split(weight, config.num_key_value_heads)
            found[str(_name(tensor.name))] = torch.from_numpy(np.array(weight)).to(dtype)
        return found


def _bounded_reader() -> Any:
    """The reader of gguf, which would take what lies behind the end of a file for empty, and stumble over it later."""
    from gguf import GGUFReader

    class BoundedReader(GGUFReader):
        def _get(self, offset: Any, dtype: Any, count: Any = 1, *order: Any, **options: Any) -> Any:
            if int(offset) + np.dtype(dtype).itemsize * int(count) > len(self.data):
                raise EOFError
            return super()._get(offset, dtype, count, *order, **options)

    return BoundedReader


def half_split(weight: Float[np.ndarray, "rows columns"], heads: int) -> Float[np.ndarray, "rows columns"]:
    """Rows of each head from interleaved pairs (0, 1), (2, 3), ... to halves: first members, then second members."""
    rows, columns = weight.shape
    return weight.reshape(heads, rows // heads // 2, 2, columns).swapaxes(1, 2).reshape(rows, columns)


def _name(tensor: str) -> str | None:
    """The name of a tensor in transformers, or None if it is not one of a Llama."""
    parts = tensor.split(".")
    if parts[0] == "blk" and len(parts) == 4 and parts[2] in _BLOCK_NAMES:
        return f"model.layers.{parts[1]}.{_BLOCK_NAMES[parts[2]]}.{parts[3]}"
    return _NAMES.get(tensor)
