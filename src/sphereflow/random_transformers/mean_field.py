r"""The deterministic limits of the network: the mean attention field, and its first correction in the step.

$$\dot x=b(x)=P_xB(x),\quad B=E[V]\,E_Am_{\beta,A}\qquad\text{(ballistic)},\qquad
  \dot x=b-\tfrac\eta2\nabla_bb-\eta\langle x,B\rangle b\qquad\text{(modified)}.$$

The layer is $N(x+\eta B)=x+\eta b-\eta^2\big(\langle x,B\rangle b+\tfrac12|b|^2x\big)+O(\eta^3)$. Its last tangent
term is what normalising an increment with a part along x does; it is absent from the published modified equation
$b-\frac\eta2\nabla_bb$, which is right for increments that are projected first (`normal=0`).
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from sphereflow.dynamics import Dynamics
from sphereflow.shapes import ArrayLike
from sphereflow.sphere import normalise, project


class MeanField(Dynamics):
    r"""$b=P_xB$ with $B_i=v\,\frac1K\sum_{k\le K}m_{\beta,A_k}(x_i)$, for $E[V]=vI$ and one or several matrices A.

    A random A is replaced by K draws of it (`scores`), the same at all times; an A that is not random is exact.
    """

    beta: Float[Array, ""]
    scores: Float[Array, "K d d"]
    mean: Float[Array, ""]

    def __init__(self, beta: float | Array, scores: ArrayLike, mean: float | Array = 1.0):
        a = jnp.asarray(scores, dtype=float)
        self.beta, self.mean = jnp.asarray(beta, dtype=float), jnp.asarray(mean, dtype=float)
        self.scores = a if a.ndim == 3 else a[None]

    def means(self, x: Float[Array, "n d"]) -> Float[Array, "K n d"]:
        r"""$m_{\beta,A_k}(x_i)$: softmax over the keys of $\beta\langle Ax_i,x_k\rangle$."""
        logits = self.beta * jnp.einsum("ka,hab,ib->hik", x, self.scores, x)
        return jax.nn.softmax(logits, axis=-1) @ x

    def unprojected(self, x: Float[Array, "n d"]) -> Float[Array, "n d"]:
        """B, with its part along x."""
        return self.mean * jnp.mean(self.means(x), axis=0)

    def field(self, t: Float[Array, ""], x: Float[Array, "n d"]) -> Float[Array, "n d"]:
        return project(x, self.unprojected(x))


class Modified(Dynamics):
    """The mean field corrected for a step: agrees with the network to second order in the step at its grid times."""

    base: MeanField
    step: Float[Array, ""]
    normal: Float[Array, ""]

    def __init__(self, base: MeanField, step: float | Array, normal: float | Array = 1.0):
        self.base = base
        self.step, self.normal = jnp.asarray(step, dtype=float), jnp.asarray(normal, dtype=float)

    def field(self, t: Float[Array, ""], x: Float[Array, "n d"]) -> Float[Array, "n d"]:
        def extended(y: Array) -> Array:
            unit = normalise(y)
            return project(unit, self.base.unprojected(unit))

        b = extended(x)
        turning = project(x, jax.jvp(extended, (x,), (b,))[1])
        along = jnp.sum(x * self.base.unprojected(x), axis=-1, keepdims=True)
        return b - self.step * (turning / 2 + self.normal * along * b)
