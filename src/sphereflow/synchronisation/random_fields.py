r"""Random vector fields that all tokens share: the perceptron of one layer, or its Gaussian limit.

$$\xi_m(x)=\frac1{\sqrt m}\sum_{j=1}^ma_j\,\sigma(\langle w_j,x\rangle+c_j),\qquad
  a_j\sim N(0,s_a^2I),\ w_j\sim N(0,I),\ c_j\sim N(0,s_c^2).$$

A field draws the weights of one layer for a batch of realisations, and is then evaluated at every token of each: the
noise is common by construction. `Independent` gives each token a field of its own, and synchronisation disappears.
"""

from __future__ import annotations

import abc
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from sphereflow.errors import SphereflowError, real_number, whole_number
from sphereflow.synchronisation.activations import Function, resolve
from sphereflow.synchronisation.covariance import Covariance, of_activation, of_powers, of_quadratic_form

Weights = Any

_JITTER = 1e-12


def normals(key: Array, shape: tuple[int, ...]) -> Float[Array, "..."]:
    """Standard normal draws in 24 bits, kept in 64: half the time, and an error of 1e-7 in their moments."""
    # Without the barrier the compiler draws the same numbers again in every expression that uses a part of them.
    return jax.lax.optimization_barrier(jax.random.normal(key, shape, jnp.float32).astype(jnp.float64))


class RandomField(eqx.Module):
    """A law of random vector fields with mean zero, drawn afresh in every layer."""

    @abc.abstractmethod
    def draw(self, key: Array, batch: int, n: int, d: int) -> Weights:
        """The weights of one layer for each of `batch` realisations of n tokens in dimension d."""

    @abc.abstractmethod
    def __call__(self, weights: Weights, x: Float[Array, "r n d"]) -> Float[Array, "r n d"]:
        """The field of each realisation at each of its tokens."""

    @property
    @abc.abstractmethod
    def covariance(self) -> Covariance:
        """The covariance at two points, which is all that the limit of many layers sees."""


class RandomPerceptron(RandomField):
    """A random layer of finite width; `activation` is a name of the table or a function of arrays."""

    activation: str | Function = eqx.field(static=True)
    width: int = eqx.field(static=True)
    scale: float = eqx.field(static=True)
    bias: float = eqx.field(static=True)

    def __init__(self, activation: str | Function, width: int = 1, *, scale: float = 1.0, bias: float = 0.0):
        resolve(activation)
        self.activation = activation
        self.width = whole_number("width", width)
        self.scale = real_number("scale", scale, above=0)
        self.bias = real_number("bias", bias, least=0)

    def draw(self, key: Array, batch: int, n: int, d: int) -> Weights:
        both = normals(key, (batch, self.width, 2 * d + (self.bias > 0)))
        return both[..., :d], both[..., d : 2 * d], both[..., 2 * d :]

    def __call__(self, weights: Weights, x: Float[Array, "r n d"]) -> Float[Array, "r n d"]:
        out, inner, shift = weights
        s = jnp.sum(x[:, :, None, :] * inner[:, None, :, :], axis=-1)
        if self.bias > 0:
            s = s + self.bias * shift[:, None, :, 0]
        active = resolve(self.activation)(s) * (self.scale / self.width**0.5)
        return jnp.sum(active[..., None] * out[:, None, :, :], axis=2)

    @property
    def covariance(self) -> Covariance:
        return of_activation(self.activation, scale=self.scale, bias=self.bias)


class AffineField(RandomField):
    r"""$\xi(x)=c_0a+c_1Wx$ with standard Gaussian a and W: $\kappa(r)=c_0^2+c_1^2r$, exactly Gaussian at any width."""

    constant: Float[Array, ""]
    linear: Float[Array, ""]

    def __init__(self, constant: float, linear: float):
        self.constant, self.linear = jnp.asarray(constant, float), jnp.asarray(linear, float)

    def draw(self, key: Array, batch: int, n: int, d: int) -> Weights:
        both = normals(key, (batch, d + 1, d))
        return both[:, :d], both[:, d]

    def __call__(self, weights: Weights, x: Float[Array, "r n d"]) -> Float[Array, "r n d"]:
        matrix, vector = weights
        turned = jnp.sum(matrix[:, None, :, :] * x[:, :, None, :], axis=-1)
        return self.constant * vector[:, None, :] + self.linear * turned

    @property
    def covariance(self) -> Covariance:
        return of_powers([float(self.constant) ** 2, float(self.linear) ** 2])


class QuadraticForm(RandomField):
    r"""$\xi(x)=Qx+\gamma w$, $Q=(G+G^\top)/\sqrt2$: a linear layer with symmetric weights, forced by a common bias.

    $E\,\xi(x)\xi(y)^\top=(r+\gamma^2)I+yx^\top$.
    """

    forcing: Float[Array, ""]

    def __init__(self, forcing: float):
        self.forcing = jnp.asarray(forcing, float)

    def draw(self, key: Array, batch: int, n: int, d: int) -> Weights:
        both = normals(key, (batch, d + 1, d))
        matrix = both[:, :d]
        return (matrix + jnp.swapaxes(matrix, 1, 2)) / jnp.sqrt(2.0), both[:, d]

    def __call__(self, weights: Weights, x: Float[Array, "r n d"]) -> Float[Array, "r n d"]:
        matrix, vector = weights
        turned = jnp.sum(matrix[:, None, :, :] * x[:, :, None, :], axis=-1)
        return turned + self.forcing * vector[:, None, :]

    @property
    def covariance(self) -> Covariance:
        return of_quadratic_form(float(self.forcing))


class GaussianField(RandomField):
    r"""The limit of infinite width: at the tokens, $\xi=K^{1/2}Z$ with $K_{ij}=\kappa(\langle x_i,x_j\rangle)$.

    For two tokens the root is written with $\kappa(1)-\kappa(r)$ taken from $|x-y|^2/2$, and holds down to the smallest
    distances. For more, a Cholesky root of $K+10^{-12}I$ is used: the addition is independent noise of size 1e-6 per
    unit root time, so that distances below 1e-5 are not to be trusted; `jitter_pairs` shows the effect on two.
    """

    law: Covariance
    jitter_pairs: bool = eqx.field(static=True)

    def __init__(self, law: Covariance, *, jitter_pairs: bool = False):
        if float(law.b) != 0:
            raise SphereflowError("a Gaussian field is drawn for covariances kappa(r) I only; use QuadraticForm.")
        self.law = law
        self.jitter_pairs = jitter_pairs

    def draw(self, key: Array, batch: int, n: int, d: int) -> Weights:
        return normals(key, (batch, n, d))

    def __call__(self, weights: Weights, x: Float[Array, "r n d"]) -> Float[Array, "r n d"]:
        n = x.shape[1]
        if n == 1:
            return jnp.sqrt(self.law.at_one) * weights
        if n == 2 and not self.jitter_pairs:
            return self._pair(weights, x)
        gram = self.law(jnp.sum(x[:, :, None, :] * x[:, None, :, :], axis=-1))
        root = jnp.linalg.cholesky(gram + _JITTER * jnp.eye(n))
        return jnp.sum(root[..., None] * weights[:, None, :, :], axis=2)

    def _pair(self, z: Array, x: Array) -> Array:
        length = jnp.minimum(jnp.linalg.norm(x[:, 1] - x[:, 0], axis=-1, keepdims=True), 2.0)
        one = self.law.at_one
        lost = length**2 / 2 * self.law.slope(2 * jnp.arcsin(length / 2))  # kappa(1) - kappa(r)
        first = jnp.sqrt(one) * z[:, 0]
        rest = jnp.sqrt(jnp.maximum(lost * (2 * one - lost), 0) / one)
        return jnp.stack([first, (1 - lost / one) * first + rest * z[:, 1]], axis=1)

    @property
    def covariance(self) -> Covariance:
        return self.law


class Independent(RandomField):
    r"""A field of its own for every token: overlaps relax to 0, $dE r/dt=-(d-1)\kappa(1)E r$, and tokens never meet."""

    field: RandomField

    def draw(self, key: Array, batch: int, n: int, d: int) -> Weights:
        return self.field.draw(key, batch * n, 1, d)

    def __call__(self, weights: Weights, x: Float[Array, "r n d"]) -> Float[Array, "r n d"]:
        r, n, d = x.shape
        return self.field(weights, x.reshape(r * n, 1, d)).reshape(r, n, d)

    @property
    def covariance(self) -> Covariance:
        return self.field.covariance
