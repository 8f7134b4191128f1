r"""Pre-norm Transformer blocks of real architectures, GPT-2's and Llama's, with given weights.

$$x\mathrel{+}=W_O\,\mathrm{heads}\bigl(W_Vy,\ \mathrm{softmax}\tfrac{\langle W_Qy_i,W_Ky_j\rangle}{\sqrt k}\bigr),\quad
  x\mathrel{+}=W_{\rm down}\,\phi(W_{\rm up}y')\ \text{ or }\ W_{\rm down}\,[\phi(W_{\rm gate}y')\,W_{\rm up}y'],$$
y and y' being x after LayerNorm (GPT-2, gelu) or division by its root mean square (Llama, silu, rotary positions).
Gains are one and biases zero, as at initialisation. The weights are asked for one product at a time, so that they may
be real matrices or products drawn in law (`initial_network`).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.special import expit

from sphereflow.errors import SphereflowError, one_of, real_number, whole_number
from sphereflow.reading import file_text, plain_data

# The product of the tokens (rows) with a named matrix of a layer.
Project = Callable[[int, str, np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Blocks:
    """The shape of a network and the deviations of its weights; `family` is "gpt2" or "llama".

    `sigma` is that of all weights except the projections into the residual stream (`attention_sigma`, `mlp_sigma`) and
    the embeddings (`embedding_sigma`, of each of the tables that are added).
    """

    family: str
    layers: int
    width: int
    heads: int
    groups: int
    head_width: int
    hidden: int
    sigma: float
    attention_sigma: float
    mlp_sigma: float
    embedding_sigma: float
    eps: float
    theta: float = 10_000.0
    causal: bool = True
    mlp: bool = True

    def __post_init__(self) -> None:
        one_of("the family", self.family, ("gpt2", "llama"))
        for name in ("layers", "width", "heads", "groups", "head_width", "hidden"):
            whole_number(name, getattr(self, name), most=10**6)
        for name in ("sigma", "attention_sigma", "mlp_sigma", "embedding_sigma", "theta"):
            real_number(name, getattr(self, name), above=0, most=1e6)
        real_number("eps", self.eps, least=0)
        if self.heads % self.groups:
            raise SphereflowError(f"{self.heads} query heads cannot share {self.groups} key/value heads.")
        if self.family == "llama" and self.head_width % 2:
            raise SphereflowError(f"rotary positions need heads of even width, got {self.head_width}.")

    @property
    def mixed(self) -> int:
        """The width of all heads together, which enters the output projection."""
        return self.heads * self.head_width

    @property
    def tables(self) -> int:
        """Tables of embeddings whose rows are added: GPT-2 has one for positions."""
        return 2 if self.family == "gpt2" else 1

    @property
    def score_deviation(self) -> float:
        """The standard deviation of a logit of attention, small where attention is flat."""
        return self.sigma**2 * self.width

    def scaled(self, *, attention: float = 1.0, mlp: float = 1.0, embedding: float = 1.0) -> Blocks:
        """The same network with projections into the residual stream, or embeddings, times these factors."""
        return dataclasses.replace(
            self,
            attention_sigma=self.attention_sigma * attention,
            mlp_sigma=self.mlp_sigma * mlp,
            embedding_sigma=self.embedding_sigma * embedding,
        )


def read_blocks(
    config: str | Path | dict[str, Any], *, layers: int | None = None, width: int | None = None, scale: float = 1.0
) -> Blocks:
    """The network of "gpt2", "llama", a config.json of transformers, or its content.

    `layers` and `width` replace those of the config (the hidden width of the MLP in proportion, the number of heads as
    it is); `scale` multiplies the projections into the residual stream. GPT-2's own rule, a division by the square root
    of 2L there, is applied to the depth that is used.
    """
    given = _content(config)
    family = given.get("model_type")
    real_number("scale", scale, above=0, most=1e6)
    if family == "gpt2":
        get = {"L": "n_layer", "D": "n_embd", "H": "n_head", "F": "n_inner", "eps": "layer_norm_epsilon"}
        usual = {"L": 12, "D": 768, "H": 12, "F": None, "eps": 1e-5}
        activation = given.get("activation_function", "gelu_new")
    elif family in ("llama", "mistral", "qwen2"):
        get = {"L": "num_hidden_layers", "D": "hidden_size", "H": "num_attention_heads", "F": "intermediate_size"}
        get["eps"] = "rms_norm_eps"
        usual = {"L": 32, "D": 4096, "H": 32, "F": {"llama": 11008, "mistral": 14336, "qwen2": 22016}[family]}
        usual["eps"] = 1e-6
        activation = given.get("hidden_act", "silu")
    else:
        raise SphereflowError(f"the config must be of model_type gpt2, llama, mistral or qwen2, got {family!r}.")
    wanted = "gelu_new" if family == "gpt2" else "silu"
    if activation != wanted:
        raise SphereflowError(f"the activation of a {family} config must be {wanted}, got {activation!r}.")
    entries = {name: given.get(key) if given.get(key) is not None else usual[name] for name, key in get.items()}
    own = whole_number("the width of the config", entries["D"])
    heads = whole_number("the heads of the config", entries["H"])
    d = own if width is None else whole_number("width", width)
    depth = whole_number("the layers of the config", entries["L"]) if layers is None else whole_number("layers", layers)
    hidden = 4 * own if entries["F"] is None else whole_number("the hidden width of the config", entries["F"])
    if d % heads:
        raise SphereflowError(f"the width must be a multiple of the number of heads, {heads}; got {d}.")
    head = d // heads if width is not None else int(given.get("head_dim") or d // heads)
    groups = given.get("num_key_value_heads") or (8 if family == "mistral" else heads)
    sigma = real_number("initializer_range", given.get("initializer_range", 0.02), above=0)
    out = scale * sigma / (math.sqrt(2 * depth) if family == "gpt2" else 1.0)
    rotary = given.get("rope_parameters") or {}
    theta = float(rotary.get("rope_theta") or given.get("rope_theta") or 10_000.0)
    return Blocks(
        "gpt2" if family == "gpt2" else "llama",
        depth,
        d,
        heads,
        int(groups),
        head,
        max(round(hidden * d / own), 1),
        sigma,
        out,
        out,
        sigma,
        real_number("eps of the config", entries["eps"], least=0),
        theta,
    )


def _content(config: str | Path | dict[str, Any]) -> dict[str, Any]:
    if isinstance(config, dict):
        return config
    if not isinstance(config, (str, Path)):
        raise SphereflowError(f"config must be 'gpt2', 'llama', a config.json or a dict, got {type(config).__name__}.")
    if str(config) in ("gpt2", "llama"):
        return {"model_type": str(config)}
    if not Path(config).exists():
        raise SphereflowError(f"config must be 'gpt2', 'llama' or a config.json of transformers; there is no {config}.")
    text = file_text(config)
    try:
        content = plain_data(text)
    except ValueError as error:
        raise SphereflowError(f"cannot read {config}: {error}.") from None
    if not isinstance(content, dict):
        raise SphereflowError(f"{config} is no config of transformers: it holds {type(content).__name__}.")
    return content


def states(blocks: Blocks, start: Float[np.ndarray, "n D"], project: Project) -> Iterator[Float[np.ndarray, "n D"]]:
    """The residual stream before the first layer and after each."""
    x = start
    yield x
    for layer in range(blocks.layers):
        y = normed(blocks, x)
        x = x + project(layer, "output", attention(blocks, *(project(layer, part, y) for part in ("q", "k", "v"))))
        if blocks.mlp:
            y = normed(blocks, x)
            inner = activation(blocks, project(layer, "gate", y))
            inner = inner * project(layer, "up", y) if blocks.family == "llama" else inner
            x = x + project(layer, "down", inner)
        yield x


def normed(blocks: Blocks, x: Float[np.ndarray, "n D"]) -> Float[np.ndarray, "n D"]:
    """LayerNorm, or division by the root mean square."""
    centred = x - x.mean(axis=-1, keepdims=True) if blocks.family == "gpt2" else x
    return centred / np.sqrt(np.mean(centred**2, axis=-1, keepdims=True) + blocks.eps)


def activation(blocks: Blocks, a: Float[np.ndarray, "*s"]) -> Float[np.ndarray, "*s"]:
    """gelu in the form of GPT-2 (with tanh), or silu."""
    if blocks.family == "gpt2":
        return 0.5 * a * (1 + np.tanh(math.sqrt(2 / math.pi) * (a + 0.044715 * a**3)))
    return a * expit(a)


def attention(
    blocks: Blocks, q: Float[np.ndarray, "n HK"], k: Float[np.ndarray, "n GK"], v: Float[np.ndarray, "n GK"]
) -> Float[np.ndarray, "n HK"]:
    """All heads side by side."""
    n, width = len(q), blocks.head_width
    q, k, v = (part.reshape(n, -1, width).transpose(1, 0, 2) for part in (q, k, v))
    if blocks.family == "llama":
        q, k = rotated(q, blocks.theta), rotated(k, blocks.theta)
    k, v = (np.repeat(part, blocks.heads // blocks.groups, axis=0) for part in (k, v))
    scores = q @ k.transpose(0, 2, 1) / math.sqrt(width)
    if blocks.causal:
        scores = np.where(np.tri(n, dtype=bool), scores, -np.inf)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    return (weights @ v).transpose(1, 0, 2).reshape(n, -1)


def rotated(x: Float[np.ndarray, "h n k"], theta: float) -> Float[np.ndarray, "h n k"]:
    """Rotary positions: coordinate f and f + k/2 turn by the position times theta^(-2f/k)."""
    half = x.shape[-1] // 2
    angles = np.arange(x.shape[1])[:, None] * theta ** (-np.arange(half) / half)
    cos, sin = np.cos(angles), np.sin(angles)
    a, b = x[..., :half], x[..., half:]
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)
