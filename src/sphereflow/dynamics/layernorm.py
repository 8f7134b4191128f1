r"""Where the layer normalisation sits decides how fast tokens move.

A token is $x_j = r_j\theta_j$ with $|\theta_j|=1$, and $A_j$ is the softmax average of $V\theta_k$ seen by token j:

$$\dot\theta_j = \frac{1}{s_j} P_{\theta_j} A_j, \qquad \dot x_j = \dot r_j\,\theta_j + r_j\,\dot\theta_j .$$

| scheme | $s_j$ | $\dot r_j$ |
|---|---|---|
| post | 1 | 0 |
| pre | $r_j$ | $\langle\theta_j,A_j\rangle$ |
| mix (switch at tau) | post until tau, then pre | |
| peri | $r_j\,\lvert A_j\rvert$ | $\langle\theta_j,A_j\rangle/\lvert A_j\rvert$ |
| ngpt (step alpha) | $\lvert A_j\rvert/\alpha_t$ | 0 |
| sqrt | $\sqrt{t+1}$ | 0 |
| ln-scaling | $r_j\sqrt{t+1}$ | $\langle\theta_j,A_j\rangle/\sqrt{t+1}$ |
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Unpack

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from sphereflow import parameters
from sphereflow.dynamics.attention import Attention, Options
from sphereflow.dynamics.base import Dynamics
from sphereflow.dynamics.traits import Traits
from sphereflow.errors import one_of
from sphereflow.shapes import ArrayLike
from sphereflow.sphere import project

SCHEMES = ("post", "pre", "mix", "peri", "ngpt", "sqrt", "ln-scaling")


class LayerNormAttention(Dynamics):
    """Softmax attention under a normalisation scheme; the state is x = r theta in R^d."""

    attention: Attention
    scheme: str = eqx.field(static=True)
    tau: Float[Array, ""]
    alpha: Float[Array, ""] | Callable[[Array], Array]

    def __init__(
        self,
        beta: ArrayLike,
        scheme: str = "post",
        *,
        tau: ArrayLike = 1.0,
        alpha: ArrayLike | Callable[[Array], Array] = 1.0,
        **matrices: Unpack[Options],
    ):
        """`tau` is the switching time of "mix", `alpha` the step of "ngpt" (a number or a function of time)."""
        self.scheme = one_of("scheme", scheme, SCHEMES)
        self.attention = Attention(beta, "softmax", **matrices)
        self.tau = parameters.number("tau", tau)
        self.alpha = alpha if callable(alpha) else parameters.number("alpha", alpha)

    @property
    def traits(self) -> Traits:
        jumps = self.tau[None] if self.scheme == "mix" else None
        return self.attention.traits.but(space="euclidean", jump_times=jumps, gradient=None)

    def field(self, t: Float[Array, ""], x: Float[Array, "n d"]) -> Float[Array, "n d"]:
        radius = jnp.linalg.norm(x, axis=-1, keepdims=True)
        theta = x / radius
        pull = self.attention.pull(theta)
        radial = jnp.sum(theta * pull, axis=-1, keepdims=True)
        slowness, growth = self._speed(t, radius, radial, jnp.linalg.norm(pull, axis=-1, keepdims=True))
        velocity = growth * theta + radius / slowness * project(theta, pull)
        return velocity.astype(x.dtype)  # times and steps keep their own precision

    def _speed(self, t: Array, radius: Array, radial: Array, size: Array) -> tuple[Array, Array]:
        """(s_j, dr_j/dt) of the table above."""
        one, still = jnp.ones_like(radius), jnp.zeros_like(radius)
        if self.scheme == "post":
            return one, still
        if self.scheme == "pre":
            return radius, radial
        if self.scheme == "mix":
            before = t < self.tau
            return jnp.where(before, one, radius), jnp.where(before, still, radial)
        if self.scheme == "peri":
            return radius * size, radial / size
        if self.scheme == "ngpt":
            return size / (self.alpha(t) if callable(self.alpha) else self.alpha), still
        root = jnp.sqrt(t + 1)
        return (root * one, still) if self.scheme == "sqrt" else (radius * root, radial / root)
