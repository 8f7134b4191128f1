r"""A dynamics is a vector field on tokens, $\dot x_i = f_i(t, x)$, with its energy where it has one.

On the sphere the field is written for unit tokens and is tangent there; whoever integrates it evaluates it at x/|x|,
which extends it to R^d without changing the flow on the sphere.
"""

from __future__ import annotations

import abc
from typing import ClassVar, Literal

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from sphereflow.errors import SphereflowError

Space = Literal["sphere", "euclidean"]


class Dynamics(eqx.Module):
    """A vector field f(t, x) on tokens x of shape (n, d)."""

    space: ClassVar[Space] = "sphere"
    max_step: ClassVar[float | None] = None

    @abc.abstractmethod
    def field(self, t: Float[Array, ""], x: Float[Array, "n d"]) -> Float[Array, "n d"]:
        """Velocity of every token at time t."""

    def energy(self, x: Float[Array, "n d"], weights: Float[Array, "n"] | None = None) -> Float[Array, ""]:
        """The energy that increases along the flow, where one is known; `weights` are masses other than the model's."""
        raise SphereflowError(f"no energy is known for {type(self).__name__}.")

    def energy_rate(self, x: Float[Array, "n d"]) -> Float[Array, ""]:
        """dE/dt by the dissipation identity, a sum of squared speeds, not by differentiating the energy."""
        raise SphereflowError(f"no dissipation identity is known for {type(self).__name__}.")

    def tuned(self, n: int, d: int, tol: float, dtype: str = "float64", method: str = "auto") -> Dynamics:
        """The same field with the engine for n tokens in dimension d chosen, which compiled code cannot do itself."""
        return self

    @property
    def engine_name(self) -> str:
        """How sums over tokens are done."""
        return "direct"

    @property
    def engine_error(self) -> float:
        """A bound of the relative error of these sums, zero (rounding) for direct ones."""
        return 0.0

    @property
    def token_weights(self) -> Float[Array, "n"] | None:
        """Masses of the tokens, None for equal masses."""
        return None

    @property
    def is_gradient_flow(self) -> bool:
        """Whether each velocity is the gradient of the first variation of the energy, with no extra factor."""
        return False

    @property
    def jump_times(self) -> Float[Array, "k"] | None:
        """Times at which the field is discontinuous."""
        return None

    def __add__(self, other: Dynamics) -> Dynamics:
        return Sum((self, other))

    def __neg__(self) -> Dynamics:
        return Reversed(self)


class Sum(Dynamics):
    """f = f_1 + ... + f_k on the same tokens: for example attention and a perceptron."""

    terms: tuple[Dynamics, ...]

    def __check_init__(self) -> None:
        if len({term.space for term in self.terms}) != 1:
            raise SphereflowError("only dynamics on the same space can be added: all on the sphere, or none.")

    def field(self, t: Float[Array, ""], x: Float[Array, "n d"]) -> Float[Array, "n d"]:
        return sum((term.field(t, x) for term in self.terms[1:]), self.terms[0].field(t, x))

    def tuned(self, n: int, d: int, tol: float, dtype: str = "float64", method: str = "auto") -> Dynamics:
        return Sum(tuple(term.tuned(n, d, tol, dtype, method) for term in self.terms))

    @property
    def engine_name(self) -> str:
        return next((term.engine_name for term in self.terms if term.engine_name != "direct"), "direct")

    @property
    def engine_error(self) -> float:
        return max(term.engine_error for term in self.terms)

    @property
    def token_weights(self) -> Float[Array, "n"] | None:
        return next((term.token_weights for term in self.terms if term.token_weights is not None), None)

    @property
    def is_gradient_flow(self) -> bool:
        return all(term.is_gradient_flow for term in self.terms)

    @property
    def jump_times(self) -> Float[Array, "k"] | None:
        known = [term.jump_times for term in self.terms if term.jump_times is not None]
        return jnp.unique(jnp.concatenate(known)) if known else None

    def energy(self, x: Float[Array, "n d"], weights: Float[Array, "n"] | None = None) -> Float[Array, ""]:
        r"""$E = \sum_k E_k$, for gradient flows."""
        self._require_gradient_flow()
        masses = self.token_weights if weights is None else weights
        energies = [term.energy(x, masses) for term in self.terms]
        return sum(energies[1:], energies[0])

    def energy_rate(self, x: Float[Array, "n d"]) -> Float[Array, ""]:
        r"""$\dot E = \sum_i w_i |\dot x_i|^2$."""
        self._require_gradient_flow()
        return mean_square_speed(self.field(jnp.zeros(()), x), self.token_weights)

    def _require_gradient_flow(self) -> None:
        if not self.is_gradient_flow:
            raise SphereflowError(
                "this sum has no energy: softmax-normalised attention plus another term is not a gradient flow; "
                "use unnormalised attention (usa)."
            )


class Reversed(Dynamics):
    """f = -f_1: descent instead of ascent."""

    forward: Dynamics

    def field(self, t: Float[Array, ""], x: Float[Array, "n d"]) -> Float[Array, "n d"]:
        return -self.forward.field(t, x)

    def tuned(self, n: int, d: int, tol: float, dtype: str = "float64", method: str = "auto") -> Dynamics:
        return Reversed(self.forward.tuned(n, d, tol, dtype, method))

    @property
    def engine_name(self) -> str:
        return self.forward.engine_name

    @property
    def engine_error(self) -> float:
        return self.forward.engine_error

    @property
    def token_weights(self) -> Float[Array, "n"] | None:
        return self.forward.token_weights

    @property
    def jump_times(self) -> Float[Array, "k"] | None:
        return self.forward.jump_times

    def energy(self, x: Float[Array, "n d"], weights: Float[Array, "n"] | None = None) -> Float[Array, ""]:
        return self.forward.energy(x, weights)

    def energy_rate(self, x: Float[Array, "n d"]) -> Float[Array, ""]:
        return -self.forward.energy_rate(x)


def mean_square_speed(velocity: Float[Array, "n d"], weights: Float[Array, "n"] | None) -> Float[Array, ""]:
    r"""$\sum_i w_i |v_i|^2$, with equal weights 1/n if none are given."""
    squares = jnp.sum(velocity**2, axis=-1)
    return jnp.mean(squares) if weights is None else jnp.sum(weights * squares)
