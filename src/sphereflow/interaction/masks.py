r"""Which keys a query may see, and with what positional weight.

A mask is a function of two positions, $\log p(i, j)$: the logarithm of the weight with which the token at position i
sees the token at position j, minus infinity where it sees nothing. Masks work on index arrays, so that an engine can
ask for one block at a time.
"""

from __future__ import annotations

import abc
from collections.abc import Callable

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from sphereflow.parameters import number
from sphereflow.shapes import ArrayLike


class Mask(eqx.Module):
    """Positional weights p(i, j) >= 0 of key j for query i."""

    @abc.abstractmethod
    def log_weight(self, i: Int[Array, "..."], j: Int[Array, "..."]) -> Float[Array, "..."]:
        """log p(i, j), minus infinity where the key is hidden."""

    @property
    def causal(self) -> bool:
        """Is p(i, j) = 0 for every j > i? Engines then skip half of the pairs."""
        return False

    @property
    def sees_itself(self) -> bool:
        """Is p(i, j) <= p(i, i) = 1? Engines then know the largest weight of a row of self-attention."""
        return False


class _LooksBack(Mask):
    """A mask in which tokens see those before them, and themselves unless `strict`."""

    strict: eqx.AbstractVar[bool]

    def _visible(self, i: Int[Array, "..."], j: Int[Array, "..."]) -> Array:
        return j < i if self.strict else j <= i

    @property
    def causal(self) -> bool:
        return True

    @property
    def sees_itself(self) -> bool:
        return not self.strict


class Causal(_LooksBack):
    """p(i, j) = 1 for j <= i (for j < i if strict), else 0."""

    strict: bool = eqx.field(static=True, default=False)

    def log_weight(self, i: Int[Array, "..."], j: Int[Array, "..."]) -> Float[Array, "..."]:
        return jnp.where(self._visible(i, j), 0.0, -jnp.inf)


class Alibi(_LooksBack):
    r"""$p(i,j) = e^{-\lambda (i-j)}$ for j <= i (for j < i if strict): linear bias against distance, slope >= 0."""

    slope: Float[Array, ""]
    strict: bool = eqx.field(static=True)

    def __init__(self, slope: ArrayLike, strict: bool = False):
        self.slope = number("slope", slope, least=0)
        self.strict = strict

    def log_weight(self, i: Int[Array, "..."], j: Int[Array, "..."]) -> Float[Array, "..."]:
        return jnp.where(self._visible(i, j), -self.slope * (i - j), -jnp.inf)


class PositionWeights(Mask):
    """Any weights: `log_p(i, j)` is called on broadcast integer arrays and returns log p(i, j).

    `causal` and `sees_itself` may be set where they hold (see `Mask`): they make the sums faster.
    """

    log_p: Callable[[Array, Array], Array] = eqx.field(static=True)
    causal: bool = eqx.field(static=True, default=False)
    sees_itself: bool = eqx.field(static=True, default=False)

    def log_weight(self, i: Int[Array, "..."], j: Int[Array, "..."]) -> Float[Array, "..."]:
        return self.log_p(i, j)


class Product(Mask):
    """p(i, j) = p_1(i, j) p_2(i, j) ...: visible where all of the masks let see."""

    factors: tuple[Mask, ...]

    def log_weight(self, i: Int[Array, "..."], j: Int[Array, "..."]) -> Float[Array, "..."]:
        logs = [mask.log_weight(i, j) for mask in self.factors]
        return sum(logs[1:], logs[0])

    @property
    def causal(self) -> bool:
        return any(mask.causal for mask in self.factors)

    @property
    def sees_itself(self) -> bool:
        return all(mask.sees_itself for mask in self.factors)
