r"""The parts of a Transformer layer, with the shapes in which weights are written down.

$$A(x)_i = \sum_h O_h \sum_j \frac{p_{ij}\,e^{s\langle Q_hx_i,\,K_hx_j\rangle}}
                                   {\sum_l p_{il}\,e^{s\langle Q_hx_i,\,K_hx_l\rangle}}\, V_h x_j, \qquad
  M(x)_i = W_2\,\sigma(W_1 x_i).$$

Q, K and V have the shape (h, d_head, d), one matrix per head. Tokens are any vectors. Weights keep the precision in
which they are given and are used in that of the tokens.
"""

from __future__ import annotations

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from sphereflow import parameters
from sphereflow.dynamics.activations import ACTIVATIONS, activation
from sphereflow.errors import SphereflowError, one_of, real_number
from sphereflow.interaction import Causal, Mask, Product, attend
from sphereflow.shapes import ArrayLike

# Besides those that make a perceptron a gradient: real networks also have these.
_SIGMAS = {"silu": jax.nn.silu, "gelu_tanh": lambda s: jax.nn.gelu(s, approximate=True)}
MLP_ACTIVATIONS: tuple[str, ...] = (*ACTIVATIONS, *_SIGMAS)


class LayerNorm(eqx.Module):
    r"""$g\,(x-\bar x)/\sqrt{\mathrm{var}(x)+\varepsilon} + b$ for each token; `scale` is g (1), `bias` is b (0)."""

    scale: Float[Array, " d"] | None
    bias: Float[Array, " d"] | None
    eps: float = eqx.field(static=True)

    def __init__(self, scale: ArrayLike | None = None, bias: ArrayLike | None = None, eps: float = 1e-5):
        self.scale, self.bias = weight("scale", scale, "d"), weight("bias", bias, "d")
        self.eps = real_number("eps", eps, least=0)
        same_length("d", {"scale": (self.scale, 0), "bias": (self.bias, 0)})

    @property
    def dimension(self) -> int | None:
        """d of the tokens, None where any will do."""
        return _length(self.scale, self.bias)

    def __call__(self, x: Float[Array, "*n d"]) -> Float[Array, "*n d"]:
        centred = x - jnp.mean(x, axis=-1, keepdims=True)
        return _scaled(centred, jnp.mean(centred**2, axis=-1, keepdims=True), self.eps, self.scale, self.bias)


class RMSNorm(eqx.Module):
    r"""$g\,x/\sqrt{|x|^2/d+\varepsilon}$ for each token; `scale` is g (1)."""

    scale: Float[Array, " d"] | None
    eps: float = eqx.field(static=True)

    def __init__(self, scale: ArrayLike | None = None, eps: float = 1e-6):
        self.scale, self.eps = weight("scale", scale, "d"), real_number("eps", eps, least=0)

    @property
    def dimension(self) -> int | None:
        """d of the tokens, None where any will do."""
        return _length(self.scale)

    def __call__(self, x: Float[Array, "*n d"]) -> Float[Array, "*n d"]:
        return _scaled(x, jnp.mean(x**2, axis=-1, keepdims=True), self.eps, self.scale, None)


Norm = LayerNorm | RMSNorm


class MLP(eqx.Module):
    r"""$W_2\,\sigma(W_1x+b_1)+b_2$, or with a gate $W_2\,(\sigma(Gx+c)\odot(W_1x+b_1))+b_2$ (SwiGLU with silu).

    **Arguments:**

    - `up`: $W_1$ of shape (m, d); `down`: $W_2$ of shape (d, m); `gate`: $G$ of shape (m, d), if there is one.
    - `activation`: relu, gelu (exact), gelu_tanh, silu, tanh, linear, leaky_relu or softplus.
    """

    up: Float[Array, "m d"]
    down: Float[Array, "d m"]
    gate: Float[Array, "m d"] | None
    up_bias: Float[Array, " m"] | None
    down_bias: Float[Array, " d"] | None
    gate_bias: Float[Array, " m"] | None
    activation: str = eqx.field(static=True)

    def __init__(
        self,
        up: ArrayLike,
        down: ArrayLike,
        activation: str,
        *,
        gate: ArrayLike | None = None,
        up_bias: ArrayLike | None = None,
        down_bias: ArrayLike | None = None,
        gate_bias: ArrayLike | None = None,
    ):
        self.up, self.down = needed("up", up, "m d"), needed("down", down, "d m")
        self.gate, self.gate_bias = weight("gate", gate, "m d"), weight("gate_bias", gate_bias, "m")
        self.up_bias, self.down_bias = weight("up_bias", up_bias, "m"), weight("down_bias", down_bias, "d")
        self.activation = one_of("activation", activation, MLP_ACTIVATIONS)
        if gate is None and gate_bias is not None:
            raise SphereflowError("gate_bias needs a gate.")
        wide = {"up": (self.up, 0), "down": (self.down, 1), "gate": (self.gate, 0)}
        same_length("m", wide | {"up_bias": (self.up_bias, 0), "gate_bias": (self.gate_bias, 0)})
        flat = {"up": (self.up, 1), "down": (self.down, 0), "gate": (self.gate, 1)}
        same_length("d", flat | {"down_bias": (self.down_bias, 0)})

    def __call__(self, x: Float[Array, "n d"]) -> Float[Array, "n d"]:
        hidden = _plus(x @ self.up.T, self.up_bias)
        if self.gate is None:
            hidden = self._sigma(hidden)
        else:
            hidden = self._sigma(_plus(x @ self.gate.T, self.gate_bias)) * hidden
        return _plus(hidden @ self.down.T, self.down_bias)

    def _sigma(self, s: Array) -> Array:
        return _SIGMAS[self.activation](s) if self.activation in _SIGMAS else activation(self.activation, s)


class MultiHeadAttention(eqx.Module):
    r"""Softmax attention with h heads.

    **Arguments:**

    - `query`: (h, d_head, d). `key`: (g, d_head, d) and `value`: (g, d_value, d), where g is h or divides it: then
      h/g neighbouring heads share keys and values.
    - `output`: (h, d, d_value), or all heads side by side, (d, h d_value); None adds the heads up (d_value = d).
    - `query_bias` (h, d_head), `key_bias` (g, d_head), `value_bias` (g, d_value), `output_bias` (d,).
    - `scale`: the factor s of the inner products, $1/\sqrt{d_\mathrm{head}}$ by default.
    - `causal`, `mask`: which tokens a token sees; both together mean both. A token that sees none receives 0.
    - `rotary`: the base of rotary positions, for example 10000: queries and keys at position i are turned in the planes
      of coordinates (c, c + d_head/2) by the angle $i\,\mathrm{base}^{-2c/d_\mathrm{head}}$.

    No array of size n^2 is held when there are many tokens.
    """

    query: Float[Array, "h k d"]
    key: Float[Array, "g k d"]
    value: Float[Array, "g v d"]
    output: Float[Array, "h d v"] | None
    query_bias: Float[Array, "h k"] | None
    key_bias: Float[Array, "g k"] | None
    value_bias: Float[Array, "g v"] | None
    output_bias: Float[Array, " d"] | None
    scale: Float[Array, ""]
    mask: Mask | None
    rotary: float | None = eqx.field(static=True)

    def __init__(
        self,
        query: ArrayLike,
        key: ArrayLike,
        value: ArrayLike,
        output: ArrayLike | None = None,
        *,
        query_bias: ArrayLike | None = None,
        key_bias: ArrayLike | None = None,
        value_bias: ArrayLike | None = None,
        output_bias: ArrayLike | None = None,
        scale: ArrayLike | None = None,
        causal: bool = False,
        mask: Mask | None = None,
        rotary: float | None = None,
    ):
        self.query, self.key = needed("query", query, "h d_head d"), needed("key", key, "g d_head d")
        self.value = needed("value", value, "g d_value d")
        self.output = _by_head(output, self.query.shape[0], self.value.shape[1])
        self.query_bias = weight("query_bias", query_bias, "h d_head")
        self.key_bias = weight("key_bias", key_bias, "g d_head")
        self.value_bias = weight("value_bias", value_bias, "g d_value")
        self.output_bias = weight("output_bias", output_bias, "d")
        natural = 1 / math.sqrt(self.query.shape[1])
        self.scale = parameters.number("scale", natural if scale is None else scale, least=0)
        self.mask = _joined(causal, mask)
        self.rotary = None if rotary is None else real_number("rotary", rotary, above=1)
        self._check_shapes()

    def _check_shapes(self) -> None:
        q, k, v, o = (("query", self.query), ("key", self.key), ("value", self.value), ("output", self.output))
        out = {"output_bias": (self.output_bias, 0)}
        same_length("d", {name: (m, 2) for name, m in (q, k, v)} | {"output": (o[1], 1)} | out)
        same_length(
            "d_head",
            {"query": (q[1], 1), "key": (k[1], 1), "query_bias": (self.query_bias, 1), "key_bias": (self.key_bias, 1)},
        )
        same_length("d_value", {"value": (v[1], 1), "output": (o[1], 2), "value_bias": (self.value_bias, 1)})
        same_length("h", {"query": (q[1], 0), "output": (o[1], 0), "query_bias": (self.query_bias, 0)})
        grouped = {"key": (k[1], 0), "value": (v[1], 0)}
        same_length("g", grouped | {"key_bias": (self.key_bias, 0), "value_bias": (self.value_bias, 0)})
        h, g = self.query.shape[0], self.key.shape[0]
        if h % g:
            raise SphereflowError(f"the heads of key and value must divide those of query, got {g} for {h} heads.")
        if self.output is None and self.value.shape[1] != self.value.shape[2]:
            raise SphereflowError(f"without output, value must have the shape (h, d, d), got {self.value.shape}.")
        if self.rotary is not None and self.query.shape[1] % 2:
            raise SphereflowError(f"rotary turns pairs of coordinates: d_head must be even, got {self.query.shape[1]}.")

    def __call__(self, x: Float[Array, "n d"]) -> Float[Array, "n d"]:
        q = _heads(x, self.query, self.query_bias)
        k = _heads(x, self.key, self.key_bias)
        v = _heads(x, self.value, self.value_bias)
        if self.rotary is not None:
            q, k = _turned(q, self.rotary), _turned(k, self.rotary)

        def one_head(q: Array, k: Array, v: Array) -> Array:
            return attend(q, k, v, self.scale, mask=self.mask, method="direct").average

        groups = q.reshape(k.shape[0], -1, *q.shape[1:])  # (g, h/g, n, d_head): heads that share keys are neighbours
        average = jax.vmap(jax.vmap(one_head, in_axes=(0, None, None)))(groups, k, v)
        average = average.reshape(q.shape[0], *average.shape[2:])
        out = jnp.sum(average, axis=0) if self.output is None else jnp.einsum("hdv,hnv->nd", self.output, average)
        return _plus(out, self.output_bias)


# --- small steps ----------------------------------------------------------------------------------------------------


def weight(name: str, given: ArrayLike | None, *shapes: str) -> Array | None:
    """Finite numbers of one of the shapes, in float32 if they are given in at most that; None stays None."""
    if given is None:
        return None
    checked = parameters.array(name, given, *shapes)
    kind = getattr(given, "dtype", None)
    narrow = kind is not None and jnp.issubdtype(kind, jnp.floating) and jnp.dtype(kind).itemsize <= 4
    return checked.astype(jnp.float32) if narrow else checked


def needed(name: str, given: ArrayLike, *shapes: str) -> Array:
    """As `weight`, for what cannot be left out."""
    matrix = weight(name, given, *shapes)
    if matrix is None:
        raise SphereflowError(f"{name} is missing.")
    return matrix


def same_length(letter: str, axes: dict[str, tuple[Array | None, int]]) -> None:
    """One sentence unless these axes of the arrays that are there have one length."""
    lengths = {name: m.shape[axis] for name, (m, axis) in axes.items() if m is not None}
    if len(set(lengths.values())) > 1:
        described = ", ".join(f"{length} in {name}" for name, length in lengths.items())
        raise SphereflowError(f"{letter} must be the same number in all weights, got {described}.")


def _length(*vectors: Array | None) -> int | None:
    return next((len(v) for v in vectors if v is not None), None)


def _by_head(output: ArrayLike | None, h: int, v: int) -> Array | None:
    matrix = weight("output", output, "d h*d_value", "h d d_value")
    if matrix is None or matrix.ndim == 3:
        return matrix
    if matrix.shape[1] != h * v:
        raise SphereflowError(
            f"output must have h d_value = {h * v} columns or the shape (h, d, d_value), got {matrix.shape}."
        )
    return matrix.reshape(-1, h, v).swapaxes(0, 1)


def _joined(causal: bool, mask: Mask | None) -> Mask | None:
    if not isinstance(causal, (bool, np.bool_)):
        raise SphereflowError(f"causal must be True or False, got {causal!r}.")
    if mask is not None and not isinstance(mask, Mask):
        raise SphereflowError(f"mask must be a mask such as Causal(), got {type(mask).__name__}.")
    if not causal or (mask is not None and mask.causal):
        return mask
    return Causal() if mask is None else Product((Causal(), mask))


def _heads(x: Array, matrices: Array, bias: Array | None) -> Array:
    mapped = jnp.einsum("hkd,nd->hnk", matrices, x)
    return mapped if bias is None else mapped + bias[:, None, :]


def _plus(x: Array, bias: Array | None) -> Array:
    return x if bias is None else x + bias


def _scaled(x: Array, square: Array, eps: float, scale: Array | None, bias: Array | None) -> Array:
    unit = x / jnp.sqrt(square + eps)
    unit = unit if scale is None else unit * scale.astype(x.dtype)
    return unit if bias is None else unit + bias.astype(x.dtype)


def _turned(x: Float[Array, "h n k"], base: float) -> Float[Array, "h n k"]:
    """Rotary positions; angles are known in float64 whatever the precision of the tokens."""
    n, half = x.shape[1], x.shape[2] // 2
    angles = np.arange(n)[:, None] * base ** (-np.arange(half) / half)
    cos, sin = (jnp.asarray(f(angles), x.dtype) for f in (np.cos, np.sin))
    a, b = x[..., :half], x[..., half:]
    return jnp.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)
