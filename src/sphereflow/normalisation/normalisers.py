r"""Ways to turn logits into weights, with one interface.

$$ \alpha = \nu(l),\qquad J u=\frac{d}{d\epsilon}\,\nu(l+\epsilon u)\Big|_{\epsilon=0}, $$

for logits along the last axis; masked keys have the logit $-\infty$ and get the weight 0. The Jacobian, an $L\times L$
array, is never formed: `jacobian_product` costs $O(L)$. Every exact zero of `weights` is a key that is not selected, so
`selected` is a property of the map for sparsemax and entmax, and all visible keys for softmax.
"""

from __future__ import annotations

import abc
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from sphereflow.errors import SphereflowError, real_number, whole_number

_BISECTIONS = 64  # more than the 53 bits of a float64


class Normaliser(abc.ABC):
    """Logits in, weights out; see the module."""

    @abc.abstractmethod
    def weights(self, logits: Float[Array, "... L"]) -> Float[Array, "... L"]:
        """The weights of the keys."""

    @abc.abstractmethod
    def jacobian_product(
        self, logits: Float[Array, "... L"], direction: Float[Array, "... L"]
    ) -> Float[Array, "... L"]:
        """J u: how the weights answer to a small change of the logits along `direction`."""

    def selected(self, logits: Float[Array, "... L"]) -> Int[Array, "..."]:
        """How many keys get any weight."""
        return jnp.sum(self.weights(logits) > 0, axis=-1)


@dataclass(frozen=True)
class Softmax(Normaliser):
    r"""$\alpha_i=e^{l_i/T}/\sum_je^{l_j/T}$ and $Ju=\frac1T(\alpha\odot u-\alpha\langle\alpha,u\rangle)$.

    ```python
    import jax.numpy as jnp
    from sphereflow.normalisation import Softmax
    Softmax(temperature=0.5).weights(jnp.array([1.0, 0.0]))
    ```
    """

    temperature: float = 1.0

    def __post_init__(self) -> None:
        real_number("temperature", self.temperature, above=0.0)

    def weights(self, logits: Float[Array, "... L"]) -> Float[Array, "... L"]:
        return _softmax(logits, self.temperature)

    def jacobian_product(
        self, logits: Float[Array, "... L"], direction: Float[Array, "... L"]
    ) -> Float[Array, "... L"]:
        return _centred(self.weights(logits), direction) / self.temperature


@dataclass(frozen=True)
class ScalableSoftmax(Normaliser):
    r"""SSMax: $\alpha_i\propto L^{\varsigma l_i}$, softmax at temperature $1/(\varsigma\ln L)$ for $L$ visible keys."""

    scale: float = 1.0

    def __post_init__(self) -> None:
        real_number("scale", self.scale, above=0.0)

    def weights(self, logits: Float[Array, "... L"]) -> Float[Array, "... L"]:
        return _scalable_softmax(logits, self.scale)

    def jacobian_product(
        self, logits: Float[Array, "... L"], direction: Float[Array, "... L"]
    ) -> Float[Array, "... L"]:
        return _centred(self.weights(logits), direction) * _sharpness(logits, self.scale)


@dataclass(frozen=True)
class Entmax(Normaliser):
    r"""$\alpha_i=\big[(a-1)l_i/T-\tau\big]_+^{1/(a-1)}$ with $\tau$ such that the weights sum to one.

    $a=2$ is sparsemax, $a\to1$ softmax. With $s_i=\alpha_i^{2-a}$ on the support,
    $Ju=\frac1T\big(s\odot u-s\,\langle s,u\rangle/\textstyle\sum s\big)$.
    """

    order: float = 2.0
    temperature: float = 1.0

    def __post_init__(self) -> None:
        real_number("temperature", self.temperature, above=0.0)
        if not 1.0 < self.order <= 4.0:
            raise SphereflowError(
                f"order must be above 1 (softmax) and at most 4, and 2 is sparsemax; got {self.order}."
            )

    def weights(self, logits: Float[Array, "... L"]) -> Float[Array, "... L"]:
        return _entmax_program(self.order, logits, self.temperature)

    def jacobian_product(
        self, logits: Float[Array, "... L"], direction: Float[Array, "... L"]
    ) -> Float[Array, "... L"]:
        return _entmax_product(self.order, logits, direction, self.temperature)


@dataclass(frozen=True)
class TopK(Normaliser):
    r"""Softmax on the $k$ largest logits, zero elsewhere; the kept weights sum to one only if `renormalise`."""

    k: int
    temperature: float = 1.0
    renormalise: bool = True

    def __post_init__(self) -> None:
        real_number("temperature", self.temperature, above=0.0)
        whole_number("k", self.k)

    def weights(self, logits: Float[Array, "... L"]) -> Float[Array, "... L"]:
        return _top(logits, self.k, self.temperature, self.renormalise)

    def jacobian_product(
        self, logits: Float[Array, "... L"], direction: Float[Array, "... L"]
    ) -> Float[Array, "... L"]:
        if self.renormalise:
            return _centred(self.weights(logits), direction) / self.temperature
        whole = jax.nn.softmax(logits / self.temperature, axis=-1)
        return jnp.where(_among_largest(logits, self.k), _centred(whole, direction), 0.0) / self.temperature


@dataclass(frozen=True)
class Sigmoid(Normaliser):
    r"""$\alpha_i=1/(1+e^{-(l_i-b)/T})$: no normalisation at all, for contrast; the weights do not sum to one."""

    bias: float = 0.0
    temperature: float = 1.0

    def __post_init__(self) -> None:
        real_number("bias", self.bias)
        real_number("temperature", self.temperature, above=0.0)

    def weights(self, logits: Float[Array, "... L"]) -> Float[Array, "... L"]:
        return jax.nn.sigmoid((logits - self.bias) / self.temperature)

    def jacobian_product(
        self, logits: Float[Array, "... L"], direction: Float[Array, "... L"]
    ) -> Float[Array, "... L"]:
        weights = self.weights(logits)
        return weights * (1 - weights) * direction / self.temperature


# Each map is one program: operation by operation a first call would compile half a dozen.
@jax.jit
def _softmax(logits: Float[Array, "... L"], temperature: float | Array) -> Float[Array, "... L"]:
    return jax.nn.softmax(logits / temperature, axis=-1)


@jax.jit
def _scalable_softmax(logits: Float[Array, "... L"], scale: float | Array) -> Float[Array, "... L"]:
    return jax.nn.softmax(jnp.where(_visible(logits), logits * _sharpness(logits, scale), -jnp.inf), axis=-1)


@jax.jit
def _top(
    logits: Float[Array, "... L"], k: int | Array, temperature: float | Array, renormalise: bool | Array
) -> Float[Array, "... L"]:
    selected = _among_largest(logits, k)
    # A NaN ranks last; it stays in the sum, so that no weight hides it.
    whole = jnp.where(selected | jnp.logical_not(renormalise) | jnp.isnan(logits), logits, -jnp.inf)
    return jnp.where(selected, jax.nn.softmax(whole / temperature, axis=-1), 0.0)


def _among_largest(logits: Float[Array, "... L"], k: int | Array) -> Array:
    # A stable sort of -l keeps the smaller index first among ties.
    order = jnp.argsort(-logits, axis=-1, stable=True)
    ranks = jnp.argsort(order, axis=-1, stable=True)
    return (ranks < k) & _visible(logits)


def _visible(logits: Float[Array, "... L"]) -> Bool[Array, "... L"]:
    """Which keys are not masked: what is not finite otherwise shows in the weights."""
    return logits != -jnp.inf


def _sharpness(logits: Float[Array, "... L"], scale: float | Array) -> Float[Array, "... 1"]:
    visible = jnp.sum(_visible(logits), axis=-1, keepdims=True)
    return scale * jnp.log(visible.astype(logits.dtype))


@jax.jit
def _centred(weights: Float[Array, "... L"], direction: Float[Array, "... L"]) -> Float[Array, "... L"]:
    """(diag a - a a^T) u."""
    return weights * (direction - jnp.sum(weights * direction, axis=-1, keepdims=True))


# The order is an argument and no constant of the program: all orders share one.
@jax.custom_jvp
def _entmax(order: Float[Array, ""], logits: Float[Array, "... L"]) -> Float[Array, "... L"]:
    power = 1.0 / (order - 1.0)
    height = (order - 1.0) * (logits - jnp.max(logits, axis=-1, keepdims=True))

    # The mass falls as tau rises from -1, where the largest weight alone is one, to 0, where nothing is left.
    def halve(_: Any, bounds: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        low, high = bounds
        middle = (low + high) / 2
        heavy = jnp.sum(jnp.maximum(height - middle, 0.0) ** power, axis=-1, keepdims=True) > 1.0
        return jnp.where(heavy, middle, low), jnp.where(heavy, high, middle)

    edge = jnp.zeros_like(height[..., :1])
    low, high = jax.lax.fori_loop(0, _BISECTIONS, halve, (edge - 1.0, edge))
    powers = jnp.maximum(height - (low + high) / 2, 0.0) ** power
    return powers / jnp.sum(powers, axis=-1, keepdims=True)


@_entmax.defjvp
def _entmax_jvp(primals: tuple[Array, Array], tangents: tuple[Array, Array]) -> tuple[Array, Array]:
    # A bisection has no derivative of its own; the root it finds has one. The order is never differentiated.
    weights = _entmax(*primals)
    return weights, _entmax_slope(primals[0], weights, tangents[1])


@jax.jit
def _entmax_program(
    order: float | Array, logits: Float[Array, "... L"], temperature: float | Array
) -> Float[Array, "... L"]:
    return _entmax(jnp.asarray(order, logits.dtype), logits / temperature)


@jax.jit
def _entmax_product(
    order: float | Array, logits: Float[Array, "... L"], direction: Float[Array, "... L"], temperature: float | Array
) -> Float[Array, "... L"]:
    return _entmax_slope(order, _entmax_program(order, logits, temperature), direction) / temperature


def _entmax_slope(
    order: float | Array, weights: Float[Array, "... L"], direction: Float[Array, "... L"]
) -> Float[Array, "... L"]:
    chosen = weights > 0
    slope = jnp.where(chosen, jnp.where(chosen, weights, 1.0) ** (2.0 - order), 0.0)
    share = slope / jnp.sum(slope, axis=-1, keepdims=True)
    return slope * (direction - jnp.sum(share * direction, axis=-1, keepdims=True))
