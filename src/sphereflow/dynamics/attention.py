r"""Self-attention on the sphere, softmax-normalised (SA) or not (USA).

$$\dot x_i = P_{x_i} \sum_h V_h \frac{\sum_j w_j p_{ij} e^{\beta\langle Q_h x_i, K_h x_j\rangle} x_j}
                                   {\sum_j w_j p_{ij} e^{\beta\langle Q_h x_i, K_h x_j\rangle}}\ \text{(SA)},\qquad
  \dot x_i = P_{x_i} \sum_h V_h \frac{\sum_j w_j p_{ij} e^{\beta(\langle Q_h x_i, K_h x_j\rangle-1)} x_j}
                                   {\sum_j w_j p_{ij}}\ \text{(USA)}.$$

Sums include j = i. The weights w_j are masses (1/n by default) and p_ij positional weights (1 by default). With
`kernel_scale="raw"` the factor e^{-beta} of USA is dropped, which multiplies its speed by e^{beta}; SA does not see
the difference.
"""

from __future__ import annotations

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from sphereflow.dynamics.base import Dynamics, mean_square_speed
from sphereflow.errors import SphereflowError, one_of
from sphereflow.interaction import Causal, Choice, Mask, attend, choose
from sphereflow.kernels import KERNEL_SCALES, log_scale
from sphereflow.shapes import ArrayLike
from sphereflow.sphere import project


class Attention(Dynamics):
    r"""Attention as a vector field on the sphere.

    **Arguments:**

    - `beta`: inverse temperature, multiplies the inner product.
    - `normalise`: "softmax" (SA) or "mean" (USA).
    - `query`, `key`: matrices of shape (k, d), or (heads, k, d); None is the identity.
    - `value`: matrix of shape (d, d), or (heads, d, d); None is the identity.
    - `mask`: positional weights, for example `Causal()`; None lets every token see every token.
    - `weights`: masses of the tokens, shape (n,), summing to one; None is 1/n each.
    - `kernel_scale`: "peak" or "raw", matters for USA and for the energy.
    - `engine`: how sums over tokens are done, as chosen by `tuned`; None is the direct sum.
    """

    beta: Float[Array, ""]
    query: Float[Array, "h k d"] | None
    key: Float[Array, "h k d"] | None
    value: Float[Array, "h d d"] | None
    mask: Mask | None
    weights: Float[Array, "n"] | None
    normalise: str = eqx.field(static=True)
    kernel_scale: str = eqx.field(static=True)
    engine: Choice | None = eqx.field(static=True)

    def __init__(
        self,
        beta: ArrayLike,
        normalise: str = "softmax",
        *,
        query: ArrayLike | None = None,
        key: ArrayLike | None = None,
        value: ArrayLike | None = None,
        mask: Mask | None = None,
        weights: ArrayLike | None = None,
        kernel_scale: str = "peak",
        engine: Choice | None = None,
    ):
        one_of("normalise", normalise, ("softmax", "mean"))
        one_of("kernel_scale", kernel_scale, KERNEL_SCALES)
        self.beta = jnp.asarray(beta, dtype=float)
        self.query, self.key, self.value = (_as_heads(m) for m in (query, key, value))
        self.mask = mask
        self.weights = None if weights is None else jnp.asarray(weights, dtype=float)
        self.normalise = normalise
        self.kernel_scale = kernel_scale
        self.engine = engine

    def tuned(self, n: int, d: int, tol: float, dtype: str = "float64", method: str = "auto") -> Attention:
        if self.query is not None or self.key is not None or isinstance(self.beta, jax.core.Tracer):
            return self
        # The error of the field acts at all times: it is kept well below the tolerance of the solver.
        accuracy = max(tol * 1e-2, 1e-13)
        equal = self.weights is None
        request = {"mask": self.mask, "tol": accuracy, "dtype": dtype, "self_attention": equal, "method": method}
        choice = choose(n, n, d, float(self.beta), **request)  # type: ignore[arg-type]
        if choice.expansion is None:
            return self
        # What the choice says of itself depends on beta; kept out, programs are compiled per expansion, not per beta.
        return dataclasses.replace(self, engine=dataclasses.replace(choice, predicted_seconds=0.0, reason="tuned"))

    @property
    def engine_name(self) -> str:
        return "direct" if self.engine is None else self.engine.engine

    @property
    def engine_error(self) -> float:
        return 0.0 if self.engine is None else self.engine.error_bound

    @property
    def heads(self) -> int:
        return max((m.shape[0] for m in (self.query, self.key, self.value) if m is not None), default=1)

    @property
    def token_weights(self) -> Float[Array, "n"] | None:
        return self.weights

    def field(self, t: Float[Array, ""], x: Float[Array, "n d"]) -> Float[Array, "n d"]:
        return project(x, self.pull(x))

    def pull(self, x: Float[Array, "n d"]) -> Float[Array, "n d"]:
        """The attention output before projection, summed over heads."""
        if self.heads == 1:
            q, k, v = (None if m is None else m[0] for m in (self.query, self.key, self.value))
            return self._one_head(x, q, k, v)
        per_head = jax.vmap(self._one_head, in_axes=(None, *(None if m is None else 0 for m in self._matrices)))
        return jnp.sum(per_head(x, *self._matrices), axis=0)

    @property
    def _matrices(self) -> tuple[Array | None, Array | None, Array | None]:
        return self.query, self.key, self.value

    def _one_head(self, x: Array, query: Array | None, key: Array | None, value: Array | None) -> Array:
        average, log_partition = self._attend(x, query, key)
        if self.normalise == "mean":
            log_speed = log_partition + log_scale(self.beta, self.kernel_scale)
            if self.mask is not None:  # an average over what is visible, not over all n
                log_speed = log_speed - attend(x, x, x[:, :1], 0.0, weights=self.weights, mask=self.mask).log_partition
            average = average * jnp.exp(jnp.where(jnp.isfinite(log_speed), log_speed, -jnp.inf))[:, None]
        return average if value is None else average @ value.T

    def _attend(self, x: Array, query: Array | None, key: Array | None) -> tuple[Array, Array]:
        if query is None and key is None:
            # Unit tokens of equal mass that see themselves: no row can have a small denominator.
            plain = self.weights is None
            options: dict = {"weights": self.weights, "mask": self.mask, "engine": self.engine}
            return attend(x, x, x, self.beta, self_attention=plain, **options)
        q = x if query is None else x @ query.T
        k = x if key is None else x @ key.T
        return attend(q, k, x, self.beta, weights=self.weights, mask=self.mask)

    # --- energy -------------------------------------------------------------------------------------------------

    @property
    def is_gradient_flow(self) -> bool:
        return self.normalise == "mean" and self._gradient_sign() == 1

    def energy(self, x: Float[Array, "n d"], weights: Float[Array, "n"] | None = None) -> Float[Array, ""]:
        r"""$E = \frac{1}{2\beta}\sum_{ij} w_i w_j e^{\beta(\langle x_i, B x_j\rangle-1)}$, $B=Q^\top K$.

        Times e^beta with the raw kernel. Increases along the flow if V = B and decreases if V = -B (B symmetric); at
        beta = 0 it is the limit of $E - 1/(2\beta)$, that is $\frac12\sum_{ij}w_iw_j\langle x_i,Bx_j\rangle$.
        """
        self._require_energy()
        masses = self._masses(x, weights)
        q, k = self._single_query_key(x)
        scaled = jnp.exp(self._log_partition(x, masses) + log_scale(self.beta, self.kernel_scale))
        at_zero = jnp.dot(masses @ q, masses @ k) / 2
        return jnp.where(self.beta == 0, at_zero, masses @ scaled / (2 * jnp.where(self.beta == 0, 1.0, self.beta)))

    def energy_rate(self, x: Float[Array, "n d"]) -> Float[Array, ""]:
        r"""$\dot E = \pm\sum_i w_i |\dot x_i|^2$ (USA), $\dot E = \pm\sum_i w_i Z_i|\dot x_i|^2$ (SA).

        $Z_i=\sum_j w_j e^{\beta\langle x_i,Bx_j\rangle}$ in the convention of the energy; minus for V = -B.
        """
        self._require_energy()
        velocity = self.field(jnp.zeros(()), x)
        masses = self._masses(x, None)
        if self.normalise == "softmax":
            masses = masses * jnp.exp(self._log_partition(x, masses) + log_scale(self.beta, self.kernel_scale))
        return self._direction(x) * mean_square_speed(velocity, masses)

    def _direction(self, x: Array) -> Array:
        """+1 or -1: whether V = B or V = -B, in a form that can be traced."""
        if all(m is None for m in self._matrices):
            return jnp.ones(())
        d = x.shape[1]
        q, k, v = (jnp.eye(d) if m is None else m[0] for m in self._matrices)
        return jnp.sign(jnp.vdot(v, q.T @ k))

    def _log_partition(self, x: Array, masses: Array) -> Array:
        r"""$\log\sum_j w_j e^{\beta(\langle x_i,Bx_j\rangle-1)}$."""
        q, k = self._single_query_key(x)
        engine = self.engine if q is x and k is x else None
        return attend(q, k, k[:, :1], self.beta, weights=masses, engine=engine).log_partition

    def _masses(self, x: Array, weights: Array | None) -> Array:
        chosen = self.weights if weights is None else weights
        return jnp.full(x.shape[0], 1 / x.shape[0], x.dtype) if chosen is None else chosen

    def _single_query_key(self, x: Array) -> tuple[Array, Array]:
        return (x if self.query is None else x @ self.query[0].T, x if self.key is None else x @ self.key[0].T)

    def _gradient_sign(self) -> int:
        """+1 if V = Q^T K is symmetric (ascent), -1 if V = -Q^T K (descent), 0 if there is no energy.

        Matrices that are being traced cannot be looked at: they are taken to have been checked before.
        """
        if self.mask is not None or self.heads != 1:
            return 0
        if any(isinstance(m, jax.core.Tracer) for m in self._matrices):
            return 1
        given = [np.asarray(m[0]) for m in self._matrices if m is not None]
        if not given:
            return 1
        identity = np.eye(given[0].shape[-1])
        q, k, v = (identity if m is None else np.asarray(m[0]) for m in self._matrices)
        form = q.T @ k
        slack = 1e-12 * max(1.0, float(np.abs(form).max()))
        if not np.allclose(form, form.T, rtol=0, atol=slack):
            return 0
        return 1 if np.allclose(v, form, rtol=0, atol=slack) else -int(np.allclose(v, -form, rtol=0, atol=slack))

    def _require_energy(self) -> None:
        if self._gradient_sign() == 0:
            raise SphereflowError(
                "this attention has no energy: one head, no mask, and V = Q^T K or V = -Q^T K symmetric are needed."
            )


def SA(beta: ArrayLike, *, causal: bool = False, **options: object) -> Attention:
    """Softmax-normalised self-attention; options as for `Attention`."""
    return _named("softmax", beta, causal, options)


def USA(beta: ArrayLike, *, causal: bool = False, **options: object) -> Attention:
    """Unnormalised self-attention; options as for `Attention`."""
    return _named("mean", beta, causal, options)


def _named(normalise: str, beta: ArrayLike, causal: bool, options: dict) -> Attention:
    if causal:
        options = {"mask": Causal(), **options}
    return Attention(beta, normalise, **options)


def _as_heads(matrix: ArrayLike | None) -> Float[Array, "h r c"] | None:
    if matrix is None:
        return None
    array = jnp.asarray(matrix, dtype=float)
    if array.ndim not in (2, 3):
        raise SphereflowError(f"query, key and value must be matrices, one or a stack; got shape {array.shape}.")
    return array if array.ndim == 3 else array[None]
