r"""How much weight a token gives to those before it: normalised causal weights.

$$\omega_{jk} = \frac{p\big(\tfrac{j-k}{N}\big)}{\sum_{l<j}p\big(\tfrac{j-l}{N}\big)},\qquad k<j,$$

with zero weight on the token itself and on all later ones; the first token sees none. The function p of the distance
is a sum of exponentials, for which sums over the past are recursions, or any function.
"""

from __future__ import annotations

import abc
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from sphereflow.errors import SphereflowError
from sphereflow.reading import real_array
from sphereflow.shapes import ArrayLike

_STEEPEST = 1e4  # the largest amplitude or slope: e^{-slope} must stay a number


class CausalWeights(eqx.Module):
    """Weights that depend on the distance (j - k)/N between two tokens, j after k."""

    @abc.abstractmethod
    def raw(self, distance: Float[Array, "..."]) -> Float[Array, "..."]:
        """p(s) at distances s > 0, before normalisation."""

    def matrix(self, n: int, length: Float[Array, ""] | float | None = None) -> Float[Array, "n n"]:
        """All weights of n tokens: strictly lower triangular, rows summing to one except the first, which is zero.

        `length` is the N of the distances, n by default.
        """
        index = jnp.arange(n)
        steps = index[:, None] - index[None, :]
        visible = steps > 0
        p = jnp.where(visible, self.raw(jnp.where(visible, steps, 1) / (n if length is None else length)), 0.0)
        total = jnp.sum(p, axis=1, keepdims=True)
        return p / jnp.where(total > 0, total, 1.0)


class Exponentials(CausalWeights):
    r"""$p(s)=\sum_q c_q e^{-\lambda_q s}$; one term is ALiBi, slope zero is plain causal attention."""

    amplitudes: Float[Array, " q"]
    slopes: Float[Array, " q"]

    def __init__(self, amplitudes: ArrayLike, slopes: ArrayLike):
        self.amplitudes, self.slopes = _numbers("amplitudes", amplitudes), _numbers("slopes", slopes)
        if self.amplitudes.ndim != 1 or self.amplitudes.shape != self.slopes.shape:
            raise SphereflowError(
                f"a sum of exponentials needs one slope per amplitude, got shapes {self.amplitudes.shape} and "
                f"{self.slopes.shape}."
            )

    def raw(self, distance: Float[Array, "..."]) -> Float[Array, "..."]:
        return jnp.exp(-distance[..., None] * self.slopes) @ self.amplitudes

    def normalisers(self, past: Float[Array, " n"], length: Float[Array, ""] | float) -> Float[Array, " n"]:
        r"""$Z=\sum_q c_q\sum_{m=1}^{J}e^{-\lambda_q m/N}$ for J past tokens, by the geometric series."""
        rate = self.slopes / length
        flat = rate == 0
        safe = jnp.where(flat, 1.0, rate)
        sums = jnp.where(flat, past[:, None], -jnp.expm1(-past[:, None] * safe) / jnp.expm1(safe))
        return sums @ self.amplitudes


class AnyKernel(CausalWeights):
    """p(s) any non-negative function of the distance, called on arrays; sums over the past are matrix products."""

    p: Callable[[Array], Array] = eqx.field(static=True)

    def raw(self, distance: Float[Array, "..."]) -> Float[Array, "..."]:
        return self.p(distance)


def alibi(slope: ArrayLike) -> Exponentials:
    r"""$p(s)=e^{-\lambda s}$: attention with a linear bias against distance."""
    return Exponentials([1.0], jnp.reshape(_numbers("slope", slope), (1,)))


def _numbers(name: str, value: ArrayLike) -> Array:
    """A list of numbers; inside a compiled program they are not known yet."""
    if not isinstance(value, jax.core.Tracer) and np.abs(real_array(name, value)).max(initial=0.0) > _STEEPEST:
        raise SphereflowError(f"{name} must be within [-{_STEEPEST:g}, {_STEEPEST:g}], got {value!r}.")
    return jnp.atleast_1d(jnp.asarray(value, dtype=float))
