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

from typing import TypedDict, Unpack

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Array, Float

from sphereflow import parameters
from sphereflow.dynamics.base import Dynamics, changed, in_precision, mean_square_speed
from sphereflow.dynamics.traits import Traits, of_masses
from sphereflow.errors import SphereflowError, one_of
from sphereflow.interaction import (
    DIRECT,
    Adaptive,
    Causal,
    Choice,
    Engine,
    Mask,
    Product,
    Sharded,
    attend,
    choose,
)
from sphereflow.interaction.gathering import LEAST_PAIRS, choose_clusters
from sphereflow.kernels import EXPONENTIAL, KERNEL_SCALES, Function, Kernel, Potential, as_kernel, log_scale
from sphereflow.shapes import AnyArray, ArrayLike
from sphereflow.sphere import project

# An inner product of unit vectors is known to 2e-16; times beta, that is the relative error of every exponential.
_MOST_BETA = 1e8


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
    - `kernel`: a function k(s, beta) of the inner product instead of $e^{\beta(s-1)}$; weights are then k itself
      (mean), or divided by their sum (softmax).
    - `engine`: how sums over tokens are done, such as `Direct()`; `tuned` chooses the fastest.
    """

    beta: Float[Array, ""]
    query: Float[Array, "h k d"] | None
    key: Float[Array, "h k d"] | None
    value: Float[Array, "h d d"] | None
    mask: Mask | None
    weights: Float[Array, " n"] | None
    normalise: str = eqx.field(static=True)
    kernel_scale: str = eqx.field(static=True)
    engine: Engine = eqx.field(static=True)
    kernel: Kernel = eqx.field(static=True)

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
        engine: Engine = DIRECT,
        kernel: Kernel | Function = EXPONENTIAL,
    ):
        one_of("normalise", normalise, ("softmax", "mean"))
        one_of("kernel_scale", kernel_scale, KERNEL_SCALES)
        if mask is not None and not isinstance(mask, Mask):
            raise SphereflowError(f"mask must be a mask such as Causal(), got {type(mask).__name__}.")
        why = ": rounding of the inner products alone would change exp(beta <x, y>)"
        self.beta = parameters.number("beta", beta, least=0, most=_MOST_BETA, why=why)
        self.query, self.key = (_as_heads(name, m, "k d") for name, m in (("query", query), ("key", key)))
        self.value = _as_heads("value", value, "d d")
        self.mask = mask
        self.weights = parameters.masses(weights)
        self.normalise = normalise
        self.kernel_scale = kernel_scale
        if not isinstance(engine, Engine):
            raise SphereflowError(f"engine must be an engine such as Direct(), got {engine!r}.")
        self.engine = engine
        self.kernel = as_kernel(kernel)
        if self.kernel != EXPONENTIAL and kernel_scale == "raw":
            raise SphereflowError("kernel_scale is for the exponential kernel; another is taken as it is.")
        self._check_matrices()
        if self._through_matrices and not (engine.all_pairs or engine.any_query):
            raise SphereflowError(
                f"the {engine.name} engine sums over unit tokens: with query or key, leave engine to be direct,"
                " or give one for queries of any length."
            )

    @property
    def _through_matrices(self) -> bool:
        """Whether inner products are of images of the tokens: <Qx, Ky> = <K^T Q x, y>, a query of any length."""
        return self.query is not None or self.key is not None

    def _check_matrices(self) -> None:
        """Heads, the dimension of tokens, and that of queries and keys must agree among the matrices."""
        named = {"query": self.query, "key": self.key, "value": self.value}
        shapes = {name: m.shape for name, m in named.items() if m is not None}
        described = " and ".join(f"{name} {shape}" for name, shape in shapes.items())
        if len({shape[0] for shape in shapes.values()}) > 1:
            raise SphereflowError(f"query, key and value must have the same number of heads, got {described}.")
        if len({shape[2] for shape in shapes.values()}) > 1:
            raise SphereflowError(f"query, key and value must act on tokens of one dimension, got {described}.")
        d = next((shape[2] for shape in shapes.values()), 0)
        if shapes.get("query", (1, d, d))[1] != shapes.get("key", (1, d, d))[1]:
            raise SphereflowError(f"queries and keys must have the same dimension, got {described}.")

    def check(self, n: int, d: int) -> None:
        for name, m in (("query", self.query), ("key", self.key), ("value", self.value)):
            if m is not None and m.shape[-1] != d:
                raise SphereflowError(f"{name} acts on tokens of dimension {m.shape[-1]}, but these have d={d}.")
        if self.weights is not None and self.weights.shape[-1] != n:
            raise SphereflowError(f"weights must be one mass per token: {self.weights.shape[-1]} for n={n} tokens.")

    @property
    def traits(self) -> Traits:
        traits = of_masses(self.weights)
        return traits.but(gradient=self._direction()) if self.normalise == "mean" and self._has_energy() else traits

    def with_masses(self, masses: Float[AnyArray, " n"]) -> Attention:
        return changed(self, weights=jnp.asarray(masses, dtype=float))

    def tuned(self, n: int, d: int, tol: float, dtype: str = "float64", method: str | Engine = "auto") -> Attention:
        if not parameters.known(self.beta) or any(not parameters.known(m) for m in self._matrices[:2]):
            return self
        if method == "auto" and self.engine != DIRECT:
            method = self.engine  # one that was given is used
        if isinstance(method, Engine):
            if self._through_matrices and not (method.all_pairs or method.any_query):
                return self
            method.check_kernel(self.kernel, float(np.max(np.asarray(self.beta))))
            return changed(self, engine=method)
        chosen = Attention.choice(self, n, d, tol, dtype, method).engine
        if method == "auto" and chosen == DIRECT and self._may_gather(n):
            chosen = Adaptive(_accuracy(tol, dtype))
        return self if chosen == self.engine else changed(self, engine=chosen)

    def gathered(self, x: Float[Array, "n d"]) -> Attention:
        if not isinstance(self.engine, Adaptive) or not self._clusters_serve:
            return self
        queries = [x @ form.T for form in self._forms(x.shape[1])] if self._through_matrices else [x]
        chosen = choose_clusters(queries, x, float(self.beta), self.engine.tol, str(x.dtype))
        return self if chosen is None else changed(self, engine=chosen)

    def _may_gather(self, n: int) -> bool:
        """Whether sums through clusters may pay for this attention of n tokens, of which none is known yet."""
        return self._clusters_serve and n * n >= LEAST_PAIRS and jax.default_backend() == "cpu"

    @property
    def _clusters_serve(self) -> bool:
        return self.mask is None and self.kernel == EXPONENTIAL and np.ndim(self.beta) == 0  # no stack of pieces

    def choice(self, n: int, d: int, tol: float, dtype: str = "float64", method: str = "auto") -> Choice:
        """Which engine a solver with this tolerance is given, what it is predicted to cost, and why it is taken."""
        shortest, longest = Attention._query_lengths(self, d)
        return choose(
            n,
            n,
            d,
            float(np.max(np.asarray(self.beta))),  # of all pieces, where this attention is a stack of them
            mask=self.mask,
            kernel=self.kernel,
            tol=_accuracy(tol, dtype),
            dtype=dtype,
            self_attention=self.weights is None and not self._through_matrices,
            unit_queries=not self._through_matrices,
            shortest_query=shortest,
            longest_query=longest,
            method=method,
        )

    def _query_lengths(self, d: int) -> tuple[float, float]:
        """Between which |K^T Q x| lies for unit tokens, over all heads: the singular values."""
        if not self._through_matrices:
            return 1.0, 1.0
        sizes = np.linalg.svd(np.asarray(self._forms(d)), compute_uv=False)
        return float(sizes.min()), max(float(sizes.max()), 1e-12)

    def _forms(self, d: int) -> Array:
        """K^T Q of every head (and of all pieces)."""
        q, k = (jnp.eye(d) if m is None else m for m in (self.query, self.key))
        return jnp.swapaxes(k, -1, -2) @ q

    def sharded(self, mesh: Mesh) -> Attention:
        return changed(self, engine=Sharded(self.engine, mesh))

    @property
    def engine_name(self) -> str:
        return self.engine.name

    @property
    def engine_error(self) -> float:
        return self.engine.tol

    @property
    def heads(self) -> int:
        return max((m.shape[0] for m in (self.query, self.key, self.value) if m is not None), default=1)

    def field(self, t: Float[Array, ""], x: Float[Array, "n d"]) -> Float[Array, "n d"]:
        return project(x, self.pull(x))

    def pull(self, x: Float[Array, "n d"]) -> Float[Array, "n d"]:
        """The attention output before projection, summed over heads."""
        self.check(*x.shape)
        model = in_precision(self, x)
        if self.heads == 1:
            q, k, v = (None if m is None else m[0] for m in model._matrices)
            return model._one_head(x, q, k, v)
        per_head = jax.vmap(model._one_head, in_axes=(None, *(None if m is None else 0 for m in self._matrices)))
        return jnp.sum(per_head(x, *model._matrices), axis=0)

    @property
    def _matrices(self) -> tuple[Array | None, Array | None, Array | None]:
        return self.query, self.key, self.value

    def _one_head(self, x: Array, query: Array | None, key: Array | None, value: Array | None) -> Array:
        # A kernel of both signs has a mean also where its sum Z vanishes, so that nothing may be divided by it.
        divide = self.normalise == "softmax" or self.kernel == EXPONENTIAL
        average, log_partition = self._attend(x, query, key, divide)
        if self.normalise == "mean":
            scaled = log_partition + log_scale(self.beta, self.kernel_scale)
            log_speed = scaled if divide else jnp.zeros_like(log_partition)
            if self.mask is not None:  # an average over what is visible, not over all n
                log_speed = log_speed - self._visible(x)
            average = average * jnp.exp(jnp.where(jnp.isfinite(log_speed), log_speed, -jnp.inf))[:, None]
        return average if value is None else average @ value.T

    def _visible(self, x: Array) -> Array:
        """log of the mass that each token sees."""
        engine = self.engine.over(DIRECT)
        return attend(x, x, x[:, :1], 0.0, weights=self.weights, mask=self.mask, method=engine).log_partition

    def _attend(self, x: Array, query: Array | None, key: Array | None, divide: bool) -> tuple[Array, Array]:
        options: dict = {"weights": self.weights, "mask": self.mask, "kernel": self.kernel, "divide": divide}
        if query is None and key is None:
            # Unit tokens of equal mass that see themselves: no row can have a small denominator.
            plain = self.weights is None
            return attend(x, x, x, self.beta, self_attention=plain, method=self.engine, **options)
        q = x if query is None else x @ query.T
        if self.engine.any_query:
            return attend(q if key is None else q @ key, x, x, self.beta, method=self.engine, **options)
        k = x if key is None else x @ key.T
        return attend(q, k, x, self.beta, method=self.engine.over(DIRECT), **options)

    # --- energy -------------------------------------------------------------------------------------------------

    def energy(self, x: Float[Array, "n d"], weights: Float[Array, " n"] | None = None) -> Float[Array, ""]:
        r"""$E = \frac{1}{2\beta}\sum_{ij} w_i w_j e^{\beta(\langle x_i, B x_j\rangle-1)}$, $B=Q^\top K$.

        With a kernel of one's own, $E=\frac12\sum_{ij}w_iw_jK(\langle x_i,Bx_j\rangle)$ with its potential K. Times
        e^beta with the raw kernel. Increases along the flow if V = B and decreases if V = -B (B symmetric); at beta = 0
        it is the limit of $E - 1/(2\beta)$, that is $\frac12\sum_{ij}w_iw_j\langle x_i,Bx_j\rangle$.
        """
        self._require_energy()
        model = in_precision(self, x)
        masses = model._masses(x, weights)
        q, k = model._single_query_key(x)
        if self.kernel != EXPONENTIAL:
            of, ones = Potential(self.kernel), jnp.ones_like(q[:, :1])
            engine = self.engine if q is x and k is x else self.engine.over(DIRECT)
            sums, _ = attend(q, k, ones, model.beta, weights=masses, kernel=of, divide=False, method=engine)
            return masses @ sums[:, 0] / 2
        scaled = jnp.exp(model._log_partition(x, masses) + log_scale(model.beta, self.kernel_scale))
        at_zero = jnp.dot(masses @ q, masses @ k) / 2
        return jnp.where(model.beta == 0, at_zero, masses @ scaled / (2 * jnp.where(model.beta == 0, 1.0, model.beta)))

    def energy_rate(self, x: Float[Array, "n d"]) -> Float[Array, ""]:
        r"""$\dot E = \pm\sum_i w_i |\dot x_i|^2$ (USA), $\dot E = \pm\sum_i w_i Z_i|\dot x_i|^2$ (SA).

        $Z_i=\sum_j w_j e^{\beta\langle x_i,Bx_j\rangle}$ in the convention of the energy; minus for V = -B.
        """
        self._require_energy()
        model = in_precision(self, x)
        velocity = model.field(jnp.zeros((), x.dtype), x)
        masses = model._masses(x, None)
        if self.normalise == "softmax":
            masses = masses * jnp.exp(model._log_partition(x, masses) + log_scale(model.beta, self.kernel_scale))
        return model._direction() * mean_square_speed(velocity, masses)

    def _log_partition(self, x: Array, masses: Array) -> Array:
        r"""$\log\sum_j w_j e^{\beta(\langle x_i,Bx_j\rangle-1)}$."""
        q, k = self._single_query_key(x)
        engine = self.engine if q is x and k is x else self.engine.over(DIRECT)
        return attend(q, k, k[:, :1], self.beta, weights=masses, kernel=self.kernel, method=engine).log_partition

    def _masses(self, x: Array, weights: Array | None) -> Array:
        chosen = self.weights if weights is None else weights
        return jnp.full(x.shape[0], 1 / x.shape[0], x.dtype) if chosen is None else jnp.asarray(chosen, x.dtype)

    def _single_query_key(self, x: Array) -> tuple[Array, Array]:
        return (x if self.query is None else x @ self.query[0].T, x if self.key is None else x @ self.key[0].T)

    def _form_and_value(self) -> tuple[Array, Array] | None:
        """B = Q^T K and V of the single head, None if all matrices are the identity."""
        given = [m[0] for m in self._matrices if m is not None]
        if not given:
            return None
        identity = jnp.eye(given[0].shape[-1], dtype=given[0].dtype)
        q, k, v = (identity if m is None else m[0] for m in self._matrices)
        return q.T @ k, v

    def _direction(self) -> Float[Array, ""]:
        """+1 or -1: whether V = B or V = -B, in a form that can be traced."""
        pair = self._form_and_value()
        return jnp.ones(()) if pair is None else jnp.sign(jnp.vdot(pair[1], pair[0]))

    def _has_energy(self) -> bool:
        """One head, no mask, and V = Q^T K (ascent) or V = -Q^T K (descent), symmetric.

        Matrices that are being traced cannot be looked at: they are taken to have been checked before.
        """
        if self.mask is not None or self.heads != 1:
            return False
        if any(not parameters.known(m) for m in self._matrices):
            return True
        with jax.ensure_compile_time_eval():  # numbers to look at, also while the tokens are being traced
            pair = self._form_and_value()
        if pair is None:
            return True
        form, value = (np.asarray(m) for m in pair)
        slack = 1e-12 * max(1.0, float(np.abs(form).max()))
        return any(np.allclose(form, other, rtol=0, atol=slack) for other in (value, -value)) and np.allclose(
            form, form.T, rtol=0, atol=slack
        )

    def _require_energy(self) -> None:
        if not self._has_energy():
            raise SphereflowError(
                "this attention has no energy: one head, no mask, and V = Q^T K or V = -Q^T K symmetric are needed."
            )


class Options(TypedDict, total=False):
    """What `SA` and `USA` take besides beta and causal, as `Attention` does."""

    query: ArrayLike | None
    key: ArrayLike | None
    value: ArrayLike | None
    mask: Mask | None
    weights: ArrayLike | None
    kernel_scale: str
    engine: Engine
    kernel: Kernel | Function


def SA(beta: ArrayLike, *, causal: bool = False, **options: Unpack[Options]) -> Attention:
    """Softmax-normalised self-attention; options as for `Attention`, `causal` together with a mask means both."""
    return Attention(beta, "softmax", **_masked(causal, options))


def USA(beta: ArrayLike, *, causal: bool = False, **options: Unpack[Options]) -> Attention:
    """Unnormalised self-attention; options as for `Attention`, `causal` together with a mask means both."""
    return Attention(beta, "mean", **_masked(causal, options))


def _masked(causal: bool, options: Options) -> Options:
    mask = options.get("mask")
    if not isinstance(causal, (bool, np.bool_)):
        raise SphereflowError(f"causal must be True or False, got {causal!r}.")
    if not causal or (mask is not None and mask.causal):
        return options
    return {**options, "mask": Causal() if mask is None else Product((Causal(), mask))}


def _as_heads(name: str, matrix: ArrayLike | None, shape: str) -> Float[Array, "h r c"] | None:
    if matrix is None:
        return None
    array = parameters.array(name, matrix, shape, f"h {shape}")
    return array if array.ndim == 3 else array[None]


def _accuracy(tol: float, dtype: str) -> float:
    """What sums are asked for: their error acts at all times, and is kept well below the tolerance of the solver."""
    return max(tol * 1e-2, 1e-13 if dtype == "float64" else 1e-7)
