r"""The perceptron (MLP) block with tied output weights, which is a gradient on the sphere.

$$\dot x_i = P_{x_i} \sum_j \omega_j\, \sigma(\langle a_j, x_i\rangle + b_j)\, a_j, \qquad
  E = \frac12 \sum_i w_i v(x_i), \quad
  v(x) = \sum_j \omega_j \varphi(\langle a_j, x\rangle + b_j),\quad \varphi' = 2\sigma.$$
"""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from sphereflow import parameters
from sphereflow.dynamics.activations import ACTIVATIONS, activation, continued, kink, primitive
from sphereflow.dynamics.base import Dynamics, in_precision, mean_square_speed
from sphereflow.dynamics.traits import Kinks, Traits
from sphereflow.errors import SphereflowError, one_of
from sphereflow.shapes import ArrayLike
from sphereflow.sphere import project


class Perceptron(Dynamics):
    """J neurons: outer weights (J,), inner weights (J, d), biases (J,), an activation by name."""

    outer: Float[Array, " J"]
    inner: Float[Array, "J d"]
    bias: Float[Array, " J"]
    activation: str = eqx.field(static=True)

    def __init__(self, outer: ArrayLike, inner: ArrayLike, bias: ArrayLike | None = None, activation: str = "relu"):
        self.activation = one_of("activation", activation, ACTIVATIONS)
        self.outer = parameters.array("outer", outer, "J")
        self.inner = parameters.array("inner", inner, "J d")
        if self.outer.shape != self.inner.shape[:1]:
            raise SphereflowError(
                "a perceptron needs outer weights of shape (J,) and inner weights of shape (J, d), "
                f"got {self.outer.shape} and {self.inner.shape}."
            )
        self.bias = jnp.zeros_like(self.outer) if bias is None else parameters.array("bias", bias, "J")
        if self.bias.shape != self.outer.shape:
            raise SphereflowError(f"the biases must have shape {self.outer.shape}, got {self.bias.shape}.")

    def check(self, n: int, d: int) -> None:
        if self.inner.shape[-1] != d:
            raise SphereflowError(f"these neurons act on tokens of dimension {self.inner.shape[-1]}, but d={d}.")

    @property
    def traits(self) -> Traits:
        return Traits(masses="any", gradient=1.0)

    def field(self, t: Float[Array, ""], x: Float[Array, "n d"]) -> Float[Array, "n d"]:
        return self._pull(x, activation(self.activation, self._input(x)))

    def kinks(self, t: Float[Array, ""], x: Float[Array, "n d"]) -> Kinks | None:
        if kink(self.activation) == 0:
            return None
        model, values = in_precision(self, x), self._input(x)
        sizes = kink(self.activation) * jnp.abs(model.outer) * jnp.linalg.norm(model.inner, axis=1)
        return Kinks(values, jnp.broadcast_to(sizes, values.shape))

    def continued(self, t: Float[Array, ""], sides: Bool[Array, "n J"] | None) -> Dynamics:
        return self if sides is None else _Beside(self, sides)

    def _input(self, x: Float[Array, "n d"]) -> Float[Array, "n J"]:
        self.check(*x.shape)
        model = in_precision(self, x)
        return x @ model.inner.T + model.bias

    def _pull(self, x: Float[Array, "n d"], hidden: Float[Array, "n J"]) -> Float[Array, "n d"]:
        model = in_precision(self, x)
        return project(x, (hidden * model.outer) @ model.inner)

    def potential(self, x: Float[Array, "n d"]) -> Float[Array, " n"]:
        r"""$v(x) = \sum_j\omega_j\varphi(\langle a_j,x\rangle+b_j)$; its spherical gradient is twice the field."""
        return primitive(self.activation, self._input(x)) @ in_precision(self.outer, x)

    def energy(self, x: Float[Array, "n d"], weights: Float[Array, " n"] | None = None) -> Float[Array, ""]:
        r"""$E = \frac12\sum_i w_i v(x_i)$."""
        potential = self.potential(x)
        return (jnp.mean(potential) if weights is None else weights @ potential) / 2

    def energy_rate(self, x: Float[Array, "n d"]) -> Float[Array, ""]:
        r"""$\dot E = \frac1n\sum_i|\dot x_i|^2$."""
        return mean_square_speed(self.field(jnp.zeros((), x.dtype), x), None)


class _Beside(Dynamics):
    """A perceptron whose neurons stay active, or inactive, for each token."""

    perceptron: Perceptron
    active: Bool[Array, "n J"]

    def field(self, t: Float[Array, ""], x: Float[Array, "n d"]) -> Float[Array, "n d"]:
        model = self.perceptron
        return model._pull(x, continued(model.activation, model._input(x), self.active))
