r"""Dynamics made of dynamics: sums and multiples.

$$f = f_1 + \dots + f_k,\qquad f = c\,f_1 .$$

If $f_k = \frac{g_k}{w}\nabla E_k$ for all k, the sum is the gradient of $E=\sum_k g_kE_k$.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float

from sphereflow import parameters
from sphereflow.dynamics.base import Dynamics, changed, in_precision, mean_square_speed
from sphereflow.dynamics.traits import Kinks, Traits, each_kink, join
from sphereflow.errors import SphereflowError
from sphereflow.shapes import ArrayLike


class Sum(Dynamics):
    """f = f_1 + ... + f_k on the same tokens: for example attention and a perceptron."""

    terms: tuple[Dynamics, ...]

    def __check_init__(self) -> None:
        if (
            not isinstance(self.terms, tuple)
            or not self.terms
            or not all(isinstance(term, Dynamics) for term in self.terms)
        ):
            raise SphereflowError("a sum needs at least one term, and every term must be a dynamics.")
        join([term.traits for term in self.terms])

    def field(self, t: Float[Array, ""], x: Float[Array, "n d"]) -> Float[Array, "n d"]:
        return sum((term.field(t, x) for term in self.terms[1:]), self.terms[0].field(t, x))

    def kinks(self, t: Float[Array, ""], x: Float[Array, "n d"]) -> tuple:
        return tuple(term.kinks(t, x) for term in self.terms)

    def continued(self, t: Float[Array, ""], sides: Any) -> Sum:
        return changed(self, terms=tuple(term.continued(t, side) for term, side in zip(self.terms, sides, strict=True)))

    @property
    def traits(self) -> Traits:
        records = [term.traits for term in self.terms]
        joined = join(records)
        gradient = all(record.gradient is not None for record in records) and joined.masses != "mixed"
        return joined.but(gradient=1.0 if gradient else None)

    def energy(self, x: Float[Array, "n d"], weights: Float[Array, " n"] | None = None) -> Float[Array, ""]:
        r"""$E = \sum_k g_k E_k$, which increases along the flow."""
        masses = self._require_gradient().weights if weights is None else weights
        energies = [jnp.asarray(term.traits.gradient) * term.energy(x, masses) for term in self.terms]
        return sum(energies[1:], energies[0])

    def energy_rate(self, x: Float[Array, "n d"]) -> Float[Array, ""]:
        r"""$\dot E = \sum_i w_i |\dot x_i|^2$."""
        traits = self._require_gradient()
        return mean_square_speed(self.field(jnp.zeros((), x.dtype), x), traits.weights)

    def _require_gradient(self) -> Traits:
        traits = self.traits
        if traits.masses == "mixed":
            raise SphereflowError("this sum has no energy: its terms are made for tokens of different masses.")
        if traits.gradient is None:
            raise SphereflowError(
                "this sum has no energy: every term must be a gradient flow, and softmax-normalised attention is not "
                "a gradient flow; use unnormalised attention (usa)."
            )
        return traits


class Scaled(Dynamics):
    """f = c f_1: faster, slower, or backwards."""

    factor: Float[Array, ""]
    original: Dynamics

    def __init__(self, factor: ArrayLike, original: Dynamics):
        if not isinstance(original, Dynamics):
            raise SphereflowError(f"only a dynamics has multiples, got {type(original).__name__}.")
        self.factor = parameters.number("the factor of a dynamics", factor)
        self.original = original

    def field(self, t: Float[Array, ""], x: Float[Array, "n d"]) -> Float[Array, "n d"]:
        return in_precision(self.factor, x) * self.original.field(t, x)

    def kinks(self, t: Float[Array, ""], x: Float[Array, "n d"]) -> Kinks | tuple | None:
        return each_kink(lambda kinks: kinks.times(in_precision(self.factor, x)), self.original.kinks(t, x))

    def continued(self, t: Float[Array, ""], sides: Any) -> Scaled:
        return changed(self, original=self.original.continued(t, sides))

    @property
    def traits(self) -> Traits:
        inner = self.original.traits
        size = jnp.maximum(jnp.abs(self.factor), 1.0)  # what varies fast varies faster
        return inner.but(
            max_step=None if inner.max_step is None else inner.max_step / size,
            gradient=None if inner.gradient is None else self.factor * inner.gradient,
        )

    def energy(self, x: Float[Array, "n d"], weights: Float[Array, " n"] | None = None) -> Float[Array, ""]:
        """The energy of the original, which decreases if the factor is negative."""
        return self.original.energy(x, weights)

    def energy_rate(self, x: Float[Array, "n d"]) -> Float[Array, ""]:
        r"""$\dot E = c\,\dot E_1$."""
        return self.factor * self.original.energy_rate(x)
