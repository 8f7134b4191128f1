r"""Attention without layer normalisation, tokens in R^d, and its rescaled variables.

$$\dot x_i = \sum_j P_{ij} V x_j,\qquad P_{ij} \propto w_j\, e^{\langle Q x_i, K x_j\rangle},\qquad \sum_j P_{ij}=1.$$

Tokens grow like e^{tV}. With any matrix G that commutes with V, the variables $y = e^{-tG} x$ obey

$$\dot y_i = V \sum_j P_{ij} y_j - G y_i, \qquad
  P_{ij} \propto w_j\, e^{\langle Q e^{tG} y_i, K e^{tG} y_j\rangle} .$$

G = V gives the variables $z = e^{-tV}x$ of the papers, in which limits exist. Directions of V with negative eigenvalues
expand in z; taking for G the part of V with eigenvalues of positive real part leaves those directions as they are.
"""

from __future__ import annotations

from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy
from jaxtyping import Array, Bool, Float

from sphereflow import parameters
from sphereflow.dynamics.activations import ACTIVATIONS, activation, continued, kink
from sphereflow.dynamics.base import Dynamics, changed, in_precision
from sphereflow.dynamics.traits import Kinks, Traits, of_masses
from sphereflow.errors import SphereflowError, one_of, whole_number
from sphereflow.interaction import attend
from sphereflow.shapes import AnyArray, ArrayLike

Directions = Literal["all", "growing"]
_FAST_SWITCHES = 0.05


class EuclideanAttention(Dynamics):
    """Tokens in R^d, no normalisation, no beta: exactly the first equation above.

    **Arguments:** `value` of shape (d, d), `query` and `key` of shape (k, d), None is the identity; `weights` are the
    masses of the tokens, None is 1/n each. A token of mass zero sees the others and is not seen.
    """

    query: Float[Array, "k d"] | None
    key: Float[Array, "k d"] | None
    value: Float[Array, "d d"] | None
    weights: Float[Array, " n"] | None

    def __init__(
        self,
        value: ArrayLike | None = None,
        *,
        query: ArrayLike | None = None,
        key: ArrayLike | None = None,
        weights: ArrayLike | None = None,
    ):
        self.query, self.key = _matrix("query", query, "k d"), _matrix("key", key, "k d")
        self.value = _matrix("value", value, "d d")
        self.weights = parameters.masses(weights)
        q, k = (None if m is None else m.shape[0] for m in (self.query, self.key))
        d = next((m.shape[1] for m in (self.query, self.key, self.value) if m is not None), 0)
        self.check(0 if self.weights is None else self.weights.shape[0], d)
        if (q or d) != (k or d):
            raise SphereflowError(f"queries and keys must have the same dimension, got {q or d} and {k or d}.")

    @property
    def traits(self) -> Traits:
        return of_masses(self.weights).but(space="euclidean")

    def check(self, n: int, d: int) -> None:
        for name, m in (("query", self.query), ("key", self.key), ("value", self.value)):
            if m is not None and m.shape[-1] != d:
                raise SphereflowError(f"{name} acts on tokens of dimension {m.shape[-1]}, but the others have d={d}.")
        if self.weights is not None and self.weights.shape[-1] != n:
            raise SphereflowError(f"weights must be one mass per token: {self.weights.shape[-1]} for n={n} tokens.")

    def with_masses(self, masses: Float[AnyArray, " n"]) -> EuclideanAttention:
        return changed(self, weights=jnp.asarray(masses, dtype=float))

    def field(self, t: Float[Array, ""], x: Float[Array, "n d"]) -> Float[Array, "n d"]:
        model = in_precision(self, x)
        average = model._average(x, x)
        return average if model.value is None else average @ model.value.T

    def attention_matrix(self, t: Float[Array, ""] | float, x: Float[Array, "n d"]) -> Float[Array, "n n"]:
        """P_ij at time t for tokens x, as a dense matrix."""
        return in_precision(self, x)._average(x, jnp.eye(x.shape[0], dtype=x.dtype))

    def _average(self, x: Array, values: Array) -> Array:
        self.check(*x.shape)
        q = x if self.query is None else x @ self.query.T
        k = x if self.key is None else x @ self.key.T
        return attend(q, k, values, 1.0, weights=self.weights).average


_Eigen = tuple[Float[Array, " d"], Float[Array, " d"], Float[Array, "d d"], Float[Array, "d d"], Float[Array, "d d"]]


class RescaledAttention(Dynamics):
    """The same flow in the variables y = e^{-tG} x; `x(t, y)` and `y(t, x)` convert.

    `directions="all"` takes G = V (the papers' z); `directions="growing"` takes the part of V that expands.
    """

    original: EuclideanAttention
    generator: Float[Array, "d d"]
    _eigen: _Eigen | None

    def __init__(self, original: EuclideanAttention, d: int, directions: Directions = "all"):
        if not isinstance(original, EuclideanAttention):
            raise SphereflowError(f"original must be a EuclideanAttention, got {type(original).__name__}.")
        value = np.eye(whole_number("d", d)) if original.value is None else np.asarray(original.value)
        if value.shape != (d, d):
            raise SphereflowError(f"the value matrix must have shape ({d}, {d}), got {value.shape}.")
        one_of("directions", directions, ("all", "growing"))
        self.original = original
        generator = value if directions == "all" else _growing_part(value)
        self.generator = jnp.asarray(generator)
        self._eigen = _well_conditioned_eigen(generator)

    @property
    def traits(self) -> Traits:
        # Attention weights switch within times e^{-2t}, which an error estimate can step over unseen.
        return self.original.traits.but(max_step=_FAST_SWITCHES)

    def check(self, n: int, d: int) -> None:
        super().check(n, d)
        if self.generator.shape[-1] != d:
            raise SphereflowError(f"these rescaled variables are made for d={self.generator.shape[-1]}, got d={d}.")

    def propagator(self, t: Float[Array, ""] | float) -> Float[Array, "d d"]:
        """e^{tG}."""
        if self._eigen is None:
            return jax.scipy.linalg.expm(t * self.generator)
        rates, turns, right, turned, left = self._eigen
        growth = jnp.exp(t * rates)
        return (right * (growth * jnp.cos(t * turns)) + turned * (growth * jnp.sin(t * turns))) @ left

    def x(self, t: Float[Array, ""] | float, y: Float[Array, "n d"]) -> Float[Array, "n d"]:
        """Original tokens from rescaled ones."""
        return y @ self.propagator(t).T

    def y(self, t: Float[Array, ""] | float, x: Float[Array, "n d"]) -> Float[Array, "n d"]:
        """Rescaled tokens from original ones."""
        return x @ self.propagator(-t).T

    def field(self, t: Float[Array, ""], x: Float[Array, "n d"]) -> Float[Array, "n d"]:
        self.check(*x.shape)
        model = in_precision(self, x)
        # The propagator is taken in the precision of the time, the tokens stay in theirs.
        average = model.original._average(self.x(t, x).astype(x.dtype), x)
        pulled = average if model.original.value is None else average @ model.original.value.T
        return pulled - x @ model.generator.T

    def attention_matrix(self, t: Float[Array, ""] | float, y: Float[Array, "n d"]) -> Float[Array, "n n"]:
        """P_ij at time t for rescaled tokens y."""
        return self.original.attention_matrix(t, self.x(t, y))


class RescaledFeedForward(Dynamics):
    r"""Attention followed by a perceptron, in the rescaled variables, as the paper defines it:

    $$\dot z_i = W \sigma\Big(V \sum_j P_{ij}(z_j - z_i)\Big),\qquad
      P_{ij} \propto w_j\, e^{\langle Qe^{tV}z_i, Ke^{tV}z_j\rangle}.$$
    """

    rescaled: RescaledAttention
    output: Float[Array, "d d"] | None
    activation: str = eqx.field(static=True)

    def __init__(
        self, original: EuclideanAttention, d: int, activation: str = "relu", *, output: ArrayLike | None = None
    ):
        self.activation = one_of("activation", activation, ACTIVATIONS)
        self.rescaled = RescaledAttention(original, d)
        self.output = _matrix("output", output, "d d")
        if self.output is not None and self.output.shape[0] != d:
            raise SphereflowError(f"output must have shape ({d}, {d}), got {self.output.shape}.")

    def field(self, t: Float[Array, ""], x: Float[Array, "n d"]) -> Float[Array, "n d"]:
        return self._out(activation(self.activation, self.rescaled.field(t, x)))

    def kinks(self, t: Float[Array, ""], x: Float[Array, "n d"]) -> Kinks | None:
        if kink(self.activation) == 0:
            return None
        values = self.rescaled.field(t, x)
        sizes = 1.0 if self.output is None else jnp.linalg.norm(in_precision(self.output, x), axis=0)
        return Kinks(values, jnp.broadcast_to(kink(self.activation) * sizes, values.shape).astype(x.dtype))

    def continued(self, t: Float[Array, ""], sides: Bool[Array, "n d"] | None) -> Dynamics:
        return self if sides is None else _Beside(self, sides)

    def _out(self, hidden: Float[Array, "n d"]) -> Float[Array, "n d"]:
        return hidden if self.output is None else hidden @ in_precision(self.output, hidden).T


class _Beside(Dynamics):
    """The same with neurons that stay active, or inactive, for each token."""

    original: RescaledFeedForward
    active: Bool[Array, "n d"]

    def field(self, t: Float[Array, ""], x: Float[Array, "n d"]) -> Float[Array, "n d"]:
        model = self.original
        return model._out(continued(model.activation, model.rescaled.field(t, x), self.active))


def _matrix(name: str, given: ArrayLike | None, shape: str) -> Float[Array, "k d"] | None:
    return None if given is None else parameters.array(name, given, shape)


def _growing_part(value: np.ndarray) -> np.ndarray:
    """V restricted to its invariant subspace with Re(eigenvalue) > 0, and zero on the complementary one."""
    schur, basis, count = scipy.linalg.schur(value, sort="rhp", output="real")
    upper, mixed, lower = schur[:count, :count], schur[:count, count:], schur[count:, count:]
    if count in (0, value.shape[0]):
        return value if count else np.zeros_like(value)
    # The spectral projector onto the growing subspace along the other one, from a Sylvester equation.
    tilt = scipy.linalg.solve_sylvester(upper, -lower, -mixed)
    projector = np.zeros_like(value)
    projector[:count, :count] = np.eye(count)
    projector[:count, count:] = -tilt
    return value @ (basis @ projector @ basis.T)


def _well_conditioned_eigen(matrix: np.ndarray) -> _Eigen | None:
    r"""$M = R\,(\mathrm{diag}(a) + \mathrm{diag}(b)J)\,R^{-1}$ as $(a, b, R, RJ, R^{-1})$; None if (nearly) defective.

    Eigenvalues $a \pm ib$ stand side by side and J turns their plane by a right angle, so that
    $e^{tM} = R\,e^{ta}(\cos tb + J \sin tb)\,R^{-1}$ in real numbers: what a solver carries has no complex parts.
    """
    d = len(matrix)
    turn = np.zeros((d, d))
    if np.array_equal(matrix, matrix.T):
        rates, right = np.linalg.eigh(matrix)
        left, turns = right.T, np.zeros(d)
    else:
        values, vectors = np.linalg.eig(matrix)
        if np.linalg.cond(vectors) > 1e6:
            return None
        blocks, right = scipy.linalg.cdf2rdf(values, vectors)
        left, rates = np.linalg.inv(right), np.diag(blocks)
        above = np.diag(blocks, 1)
        turns = np.append(above, 0) + np.append(0, above)  # both of a pair
        turn[np.arange(d - 1), np.arange(1, d)] = above != 0
    return tuple(jnp.asarray(a) for a in (rates, turns, right, right @ (turn - turn.T), left))  # type: ignore[return-value]
