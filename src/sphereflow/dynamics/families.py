"""How three families of Transformers name and lay out the weights of a layer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from sphereflow.dynamics.blocks import Block
from sphereflow.dynamics.sublayers import MLP, LayerNorm, MultiHeadAttention, Norm, RMSNorm
from sphereflow.errors import SphereflowError
from sphereflow.interaction import Mask

Weights = dict[str, Array]
T = TypeVar("T")


@dataclass(frozen=True)
class Configuration:
    """What the user says about a network because its weights do not."""

    heads: int
    activation: str | None
    norm_first: bool | None
    eps: float | None
    rotary: float | None
    causal: bool | None
    mask: Mask | None


@dataclass(frozen=True)
class Family:
    """A way of naming weights.

    `key` is the entry by which it is known; `weights` are the entries of a layer with their shapes; `biases` those that
    may be left out, each group as a whole; `tables` are the names of what is around the layers, of which `needed` must
    be there, where {base} is what stands before the name of the `stack` of layers and {root} what stands before
    `inner`. The final norm has a bias if layers have a `norm_bias`. `buffers` are constants that some versions save:
    each is compared with what it must be. `unused` are arguments without a meaning.
    """

    title: str
    key: str
    stack: str
    inner: str
    weights: dict[str, str]
    biases: tuple[tuple[str, ...], ...]
    tables: dict[str, str]
    needed: tuple[str, ...]
    build: Callable[[Weights, Configuration], Block]
    norm: Callable[[Array, Array | None, Configuration], Norm]
    norm_bias: str | None
    buffers: dict[str, Callable[[np.ndarray, Block], bool]]
    unused: tuple[str, ...]


def _asked(value: T | None, name: str, family: str) -> T:
    """What must be given, because the weights do not show it."""
    if value is None:
        raise SphereflowError(f"{name} must be given for weights named as in {family}: they do not show it.")
    return value


def _layer_norm(scale: Array, bias: Array | None, config: Configuration) -> LayerNorm:
    return LayerNorm(scale, bias, 1e-5 if config.eps is None else config.eps)


def _thirds(name: str, rows: Array) -> list[Array]:
    """Queries, keys and values that are stored one below the other."""
    if len(rows) % 3:
        raise SphereflowError(f"{name} must hold queries, keys and values one below the other, got {rows.shape}.")
    return jnp.split(rows, 3)


def _heads(
    w: Weights, config: Configuration, matrices: list[Array], biases: list[Array] | None, output: str, *, causal: bool
) -> MultiHeadAttention:
    """Attention from matrices whose rows go head by head; keys and values may have fewer heads than queries."""
    q, k, v = rows = [len(m) for m in matrices]
    size, rest = divmod(q, config.heads)
    groups = 0 if rest else k // size
    if groups == 0 or k % size or v % groups:
        raise SphereflowError(
            f"{q} rows of queries, {k} of keys, {v} of values do not make heads={config.heads} heads."
        )
    counts = (config.heads, groups, groups)
    query, key, value = (m.reshape(h, -1, m.shape[1]) for m, h in zip(matrices, counts, strict=True))
    added: dict[str, Array] = {}
    if biases is not None:
        if [len(bias) for bias in biases] != rows:
            raise SphereflowError(f"biases of {rows} rows are needed, got {[len(bias) for bias in biases]}.")
        names = ("query_bias", "key_bias", "value_bias")
        added = {name: bias.reshape(h, -1) for name, bias, h in zip(names, biases, counts, strict=True)}
    return MultiHeadAttention(
        query,
        key,
        value,
        w[f"{output}.weight"],
        query_bias=added.get("query_bias"),
        key_bias=added.get("key_bias"),
        value_bias=added.get("value_bias"),
        output_bias=w.get(f"{output}.bias"),
        causal=causal if config.causal is None else config.causal,
        mask=config.mask,
        rotary=config.rotary,
    )


# --- torch.nn.TransformerEncoder ------------------------------------------------------------------------------------


def _torch_layer(w: Weights, config: Configuration) -> Block:
    first = _asked(config.norm_first, "norm_first", TORCH.title)
    if not isinstance(first, (bool, np.bool_)):
        raise SphereflowError(f"norm_first must be True or False, got {first!r}.")
    matrices = _thirds("in_proj_weight", w["self_attn.in_proj_weight"])
    biases = _thirds("in_proj_bias", w["self_attn.in_proj_bias"]) if "self_attn.in_proj_bias" in w else None
    return Block(
        _heads(w, config, matrices, biases, "self_attn.out_proj", causal=False),
        MLP(
            w["linear1.weight"],
            w["linear2.weight"],
            _asked(config.activation, "activation", TORCH.title),
            up_bias=w.get("linear1.bias"),
            down_bias=w.get("linear2.bias"),
        ),
        placement="pre" if first else "post",
        attention_norm=_layer_norm(w["norm1.weight"], w.get("norm1.bias"), config),
        mlp_norm=_layer_norm(w["norm2.weight"], w.get("norm2.bias"), config),
    )


# --- GPT-2 ----------------------------------------------------------------------------------------------------------

_GPT2_MATRICES = ("attn.c_attn", "attn.c_proj", "mlp.c_fc", "mlp.c_proj")


def _gpt2_layer(w: Weights, config: Configuration) -> Block:
    d = len(w["ln_1.weight"])
    # transformers keeps these matrices transposed, nanoGPT does not; the first one shows which, the rest must agree.
    transposed = w["attn.c_attn.weight"].shape == (d, 3 * d)
    if transposed:
        w = w | {f"{name}.weight": w[f"{name}.weight"].T for name in _GPT2_MATRICES}
    sigma = config.activation or ("gelu_tanh" if transposed else None)
    matrices = _thirds("c_attn.weight", w["attn.c_attn.weight"])
    biases = _thirds("c_attn.bias", w["attn.c_attn.bias"]) if "attn.c_attn.bias" in w else None
    return Block(
        _heads(w, config, matrices, biases, "attn.c_proj", causal=True),
        MLP(
            w["mlp.c_fc.weight"],
            w["mlp.c_proj.weight"],
            _asked(sigma, "activation", "nanoGPT"),
            up_bias=w.get("mlp.c_fc.bias"),
            down_bias=w.get("mlp.c_proj.bias"),
        ),
        placement="pre",
        attention_norm=_layer_norm(w["ln_1.weight"], w.get("ln_1.bias"), config),
        mlp_norm=_layer_norm(w["ln_2.weight"], w.get("ln_2.bias"), config),
    )


def _is_causal_mask(buffer: np.ndarray, block: Block) -> bool:
    n = buffer.shape[-1] if buffer.ndim else 0
    return buffer.shape == (1, 1, n, n) and np.array_equal(buffer[0, 0] != 0, np.tri(n, dtype=bool))


def _hides(buffer: np.ndarray, block: Block) -> bool:
    return buffer.size == 1 and buffer.item() <= -1e4  # exp of it is 0 beside any other score


# --- Llama ----------------------------------------------------------------------------------------------------------


def _llama_layer(w: Weights, config: Configuration) -> Block:
    _asked(config.rotary, "rotary (the base, rope_theta)", LLAMA.title)
    parts = [f"self_attn.{part}_proj" for part in "qkv"]
    matrices = [w[f"{part}.weight"] for part in parts]
    biases = [w[f"{part}.bias"] for part in parts] if f"{parts[0]}.bias" in w else None
    return Block(
        _heads(w, config, matrices, biases, "self_attn.o_proj", causal=True),
        MLP(
            w["mlp.up_proj.weight"],
            w["mlp.down_proj.weight"],
            config.activation or "silu",
            gate=w["mlp.gate_proj.weight"],
            up_bias=w.get("mlp.up_proj.bias"),
            down_bias=w.get("mlp.down_proj.bias"),
            gate_bias=w.get("mlp.gate_proj.bias"),
        ),
        placement="pre",
        attention_norm=_rms_norm(w["input_layernorm.weight"], None, config),
        mlp_norm=_rms_norm(w["post_attention_layernorm.weight"], None, config),
    )


def _rms_norm(scale: Array, bias: Array | None, config: Configuration) -> RMSNorm:
    return RMSNorm(scale, _asked(config.eps, "eps (rms_norm_eps)", LLAMA.title))


def _has_frequencies(buffer: np.ndarray, block: Block) -> bool:
    """Whether these are the frequencies of plain rotary positions with this base, up to the rounding of bfloat16."""
    half, base = block.attention.query.shape[1] // 2, block.attention.rotary
    if base is None or buffer.shape != (half,):
        return False
    return bool(np.allclose(buffer.astype(float), base ** (-np.arange(half) / half), rtol=1e-2))


# --- names ----------------------------------------------------------------------------------------------------------

_MATRIX, _VECTOR = "rows columns", "d"
TORCH = Family(
    title="torch.nn.TransformerEncoder",
    key="self_attn.in_proj_weight",
    stack="layers.",
    inner="",
    weights={
        "self_attn.in_proj_weight": _MATRIX,
        "self_attn.out_proj.weight": _MATRIX,
        "linear1.weight": _MATRIX,
        "linear2.weight": _MATRIX,
        "norm1.weight": _VECTOR,
        "norm2.weight": _VECTOR,
    },
    biases=(
        (
            "self_attn.in_proj_bias",
            "self_attn.out_proj.bias",
            "linear1.bias",
            "linear2.bias",
            "norm1.bias",
            "norm2.bias",
        ),
    ),
    tables={"final_norm": "{base}norm.weight"},
    needed=(),
    build=_torch_layer,
    norm=_layer_norm,
    norm_bias="norm1.bias",
    buffers={},
    unused=("rotary",),
)
GPT2 = Family(
    title="GPT-2",
    key="attn.c_attn.weight",
    stack="h.",
    inner="transformer.",
    weights={f"{name}.weight": _MATRIX for name in _GPT2_MATRICES} | {"ln_1.weight": _VECTOR, "ln_2.weight": _VECTOR},
    biases=(tuple(f"{name}.bias" for name in (*_GPT2_MATRICES, "ln_1", "ln_2")),),
    tables={
        "embedding": "{base}wte.weight",
        "positions": "{base}wpe.weight",
        "final_norm": "{base}ln_f.weight",
        "unembedding": "{root}lm_head.weight",
    },
    needed=("embedding", "positions", "final_norm"),
    build=_gpt2_layer,
    norm=_layer_norm,
    norm_bias="ln_1.bias",
    buffers={"attn.bias": _is_causal_mask, "attn.masked_bias": _hides},
    unused=("norm_first", "rotary"),
)
LLAMA = Family(
    title="Llama",
    key="self_attn.q_proj.weight",
    stack="layers.",
    inner="model.",
    weights={
        **{f"self_attn.{x}_proj.weight": _MATRIX for x in "qkvo"},
        **{f"mlp.{name}_proj.weight": _MATRIX for name in ("gate", "up", "down")},
        "input_layernorm.weight": _VECTOR,
        "post_attention_layernorm.weight": _VECTOR,
    },
    biases=(
        tuple(f"self_attn.{x}_proj.bias" for x in "qkv"),
        ("self_attn.o_proj.bias",),
        tuple(f"mlp.{name}_proj.bias" for name in ("gate", "up", "down")),
    ),
    tables={
        "embedding": "{base}embed_tokens.weight",
        "final_norm": "{base}norm.weight",
        "unembedding": "{root}lm_head.weight",
    },
    needed=("embedding", "final_norm"),
    build=_llama_layer,
    norm=_rms_norm,
    norm_bias=None,
    buffers={"self_attn.rotary_emb.inv_freq": _has_frequencies},
    unused=("norm_first",),
)
FAMILIES = (TORCH, GPT2, LLAMA)
