r"""Energies of a dense associative memory: functions of the squared distances, or of the products, with the patterns.

$$g_\mu=\tfrac12|x-\xi^\mu|^2,\qquad
  H_{\mathrm{LSE}}=-\tfrac1\beta\ln\sum_\mu e^{-\beta g_\mu},\qquad
  H_{\mathrm{LSR}}=-\tfrac1\beta\ln\Big(\epsilon+\sum_\mu[1-\beta g_\mu]_+\Big),\qquad
  H_k=-N^{1-k}\sum_\mu(x\cdot\xi^\mu)^k.$$

Vectors are those of R^N. On the sphere they have length $\sqrt N$, so that $g_\mu=N(1-\phi^\mu)$ with the overlap
$\phi^\mu=x\cdot\xi^\mu/N$, and the compact kernel has the parameter $b=N\beta$ (`LSR.on_sphere`).
"""

from __future__ import annotations

import abc

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from sphereflow.errors import real_number, whole_number
from sphereflow.shapes import AnyArray
from sphereflow.sphere import normalise


class Energy(eqx.Module):
    """A function of the inner products with all patterns; `half` is (|x|^2 + |xi|^2)/2 for each of them."""

    @abc.abstractmethod
    def value(self, inner: Float[Array, "*b M"], half: Float[Array, "*b M"], n: int) -> Float[Array, "*b"]:
        """H."""

    @abc.abstractmethod
    def pulls(self, inner: Float[Array, "*b M"], half: Float[Array, "*b M"], n: int) -> Float[Array, "*b M"]:
        r"""$w_\mu=-\partial H/\partial(x\cdot\xi^\mu)$: how strongly each pattern pulls."""

    @abc.abstractmethod
    def shares(self, inner: Float[Array, "*b M"], half: Float[Array, "*b M"], n: int) -> Float[Array, "*b M"]:
        """The part of each pattern in the sum over all: at most 1 in total, 0 where nothing acts."""

    def energy(self, x: Float[AnyArray, "*b N"], patterns: Float[AnyArray, "M N"]) -> Float[Array, "*b"]:
        """H(x)."""
        return self.value(*products(x, patterns), x.shape[-1])

    def gradient(self, x: Float[AnyArray, "*b N"], patterns: Float[AnyArray, "M N"]) -> Float[Array, "*b N"]:
        r"""$\nabla H(x)=\sum_\mu w_\mu(x-\xi^\mu)$, in R^N; on the sphere only its tangential part acts."""
        weights = self.pulls(*products(x, patterns), x.shape[-1])
        return jnp.sum(weights, axis=-1, keepdims=True) * x - weights @ patterns

    def update(self, x: Float[AnyArray, "*b N"], patterns: Float[AnyArray, "M N"]) -> Float[Array, "*b N"]:
        r"""One step of the concave-convex rule, $x'=\sum_\mu w_\mu\xi^\mu/\sum_\mu w_\mu$.

        For LSE this is softmax attention; for LSR it is the mean of the patterns that see x. A state that nothing
        pulls stays where it is.
        """
        weights = self.pulls(*products(x, patterns), x.shape[-1])
        total = jnp.sum(weights, axis=-1, keepdims=True)
        return jnp.where(total > 0, weights @ patterns / jnp.where(total > 0, total, 1), x)


def _positive(name: str, value: Array | float) -> None:
    """Refuse a sharpness that is none; inside a compiled program it is not known yet."""
    if not isinstance(value, jax.core.Tracer):
        real_number(name, value, above=0, most=1e12)


class LSE(Energy):
    """The Gaussian kernel: the energy of attention."""

    beta: Float[Array, ""] | float

    def __check_init__(self) -> None:
        _positive("beta", self.beta)

    def value(self, inner: Float[Array, "*b M"], half: Float[Array, "*b M"], n: int) -> Float[Array, "*b"]:
        return -jax.nn.logsumexp(self.beta * (inner - half), axis=-1) / self.beta

    def pulls(self, inner: Float[Array, "*b M"], half: Float[Array, "*b M"], n: int) -> Float[Array, "*b M"]:
        return jax.nn.softmax(self.beta * (inner - half), axis=-1)

    def shares(self, inner: Float[Array, "*b M"], half: Float[Array, "*b M"], n: int) -> Float[Array, "*b M"]:
        return self.pulls(inner, half, n)


class LSR(Energy):
    """The compact (Epanechnikov) kernel: beyond the distance sqrt(2/beta) a pattern does not act at all.

    With `floor` = 0 the energy is +infinity where no pattern acts; gradient methods may want a small floor.
    """

    beta: Float[Array, ""] | float
    floor: float = 0.0

    def __check_init__(self) -> None:
        _positive("beta", self.beta)
        real_number("floor", self.floor, least=0, most=1)

    @classmethod
    def on_sphere(cls, b: float, n: int, floor: float = 0.0) -> LSR:
        r"""The kernel $[1-b(1-\phi)]_+$ on the sphere of radius $\sqrt n$."""
        return cls(float(b) / n, floor)

    def value(self, inner: Float[Array, "*b M"], half: Float[Array, "*b M"], n: int) -> Float[Array, "*b"]:
        return -jnp.log(self._sum(inner, half)) / self.beta

    def pulls(self, inner: Float[Array, "*b M"], half: Float[Array, "*b M"], n: int) -> Float[Array, "*b M"]:
        total = self._sum(inner, half)[..., None]
        return jnp.where(self.beta * (half - inner) < 1, 1 / jnp.where(total > 0, total, 1), 0.0)

    def shares(self, inner: Float[Array, "*b M"], half: Float[Array, "*b M"], n: int) -> Float[Array, "*b M"]:
        total = self._sum(inner, half)[..., None]
        return self._terms(inner, half) / jnp.where(total > 0, total, 1)

    def _terms(self, inner: Array, half: Array) -> Array:
        return jnp.maximum(1 - self.beta * (half - inner), 0)

    def _sum(self, inner: Array, half: Array) -> Array:
        return self.floor + jnp.sum(self._terms(inner, half), axis=-1)


class PolynomialEnergy(Energy):
    """Inner products to a power: degree 2 is Hopfield's energy. Bounded below on the sphere only."""

    degree: int = eqx.field(static=True, default=2)

    def __check_init__(self) -> None:
        whole_number("degree", self.degree, most=1000)

    def value(self, inner: Float[Array, "*b M"], half: Float[Array, "*b M"], n: int) -> Float[Array, "*b"]:
        return -n * jnp.sum((inner / n) ** self.degree, axis=-1)

    def pulls(self, inner: Float[Array, "*b M"], half: Float[Array, "*b M"], n: int) -> Float[Array, "*b M"]:
        return self.degree * (inner / n) ** (self.degree - 1)

    def shares(self, inner: Float[Array, "*b M"], half: Float[Array, "*b M"], n: int) -> Float[Array, "*b M"]:
        terms = jnp.abs(inner / n) ** self.degree
        total = jnp.sum(terms, axis=-1, keepdims=True)
        return terms / jnp.where(total > 0, total, 1)

    def gradient(self, x: Float[AnyArray, "*b N"], patterns: Float[AnyArray, "M N"]) -> Float[Array, "*b N"]:
        return -self.pulls(*products(x, patterns), x.shape[-1]) @ patterns

    def update(self, x: Float[AnyArray, "*b N"], patterns: Float[AnyArray, "M N"]) -> Float[Array, "*b N"]:
        r"""$x'\propto\sum_\mu(x\cdot\xi^\mu)^{k-1}\xi^\mu$ with the length of x: the weights have no fixed sign."""
        return _like(x, self.pulls(*products(x, patterns), x.shape[-1]) @ patterns)


def products(
    x: Float[AnyArray, "*b N"], patterns: Float[AnyArray, "M N"]
) -> tuple[Float[Array, "*b M"], Float[Array, "*b M"]]:
    """Inner products with all patterns, and half the sums of the squared lengths."""
    x, patterns = jnp.asarray(x), jnp.asarray(patterns)
    half = (jnp.sum(x**2, axis=-1)[..., None] + jnp.sum(patterns**2, axis=-1)) / 2
    return x @ patterns.T, half


def to_sphere(x: Float[AnyArray, "*b N"]) -> Float[Array, "*b N"]:
    r"""The point of the sphere of radius $\sqrt N$ in the direction of x."""
    return jnp.sqrt(x.shape[-1]) * normalise(x)


def _like(x: AnyArray, direction: Array) -> Array:
    return jnp.linalg.norm(x, axis=-1, keepdims=True) * normalise(direction)
