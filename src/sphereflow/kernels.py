r"""Kernels: functions of the inner product that say how strongly tokens attend to each other.

$$k(x,y) = e^{\beta(\langle x,y\rangle - 1)} \le 1 \qquad\text{("peak")}, \qquad
  k_{\mathrm{raw}}(x,y) = e^{\beta\langle x,y\rangle} = e^{\beta} k(x,y) \qquad\text{("raw")}.$$

The exponential kernel of attention is computed in the peak convention, which never overflows: it is bounded by one on
the sphere. The raw convention of some papers differs by the factor e^beta, which multiplies energies and the speed of
unnormalised attention; it is carried separately, as its logarithm, and applied last.

Any other function k(s, beta) of the inner product s can take its place; its potential K, with $\partial_s K = k$, gives
the energy $\frac12\sum_{ij}w_iw_jK(\langle x_i,x_j\rangle)$.
"""

from __future__ import annotations

import abc
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from sphereflow.errors import SphereflowError
from sphereflow.numerics.bessel import funk_hecke
from sphereflow.numerics.quadrature import interval
from sphereflow.shapes import AnyArray

KERNEL_SCALES: tuple[str, ...] = ("peak", "raw")
Function = Callable[[Float[Array, "..."], Float[Array, ""]], Float[Array, "..."]]

# Nodes of the quadrature that makes a potential from a kernel: exact to rounding for kernels that are smooth on each
# side of s = 0, where the integral starts.
_NODES = 64


class Kernel(abc.ABC):
    """k(s, beta), a function of inner products s; a fixed part of a program, so it is compared by equality."""

    name: ClassVar[str] = "kernel"

    def __call__(self, s: Float[AnyArray, "..."], beta: Float[Array, ""] | float) -> Float[Array, "..."]:
        """k(s, beta) in the precision of s, whatever that of the constants in it."""
        s = jnp.asarray(s)
        return jnp.asarray(self.value(s, jnp.asarray(beta, s.dtype)), s.dtype)

    @abc.abstractmethod
    def value(self, s: Float[Array, "..."], beta: Float[Array, ""]) -> Float[Array, "..."]:
        """k(s, beta), number by number."""

    @abc.abstractmethod
    def potential(self, s: Float[Array, "..."], beta: Float[Array, ""]) -> Float[Array, "..."]:
        """A K with dK/ds = k."""


@dataclass(frozen=True)
class Exponential(Kernel):
    r"""$e^{\beta(s-1)}$, the kernel of softmax attention."""

    name: ClassVar[str] = "exponential"

    def value(self, s: Float[Array, "..."], beta: Float[Array, ""]) -> Float[Array, "..."]:
        return jnp.exp(beta * (s - 1))

    def potential(self, s: Float[Array, "..."], beta: Float[Array, ""]) -> Float[Array, "..."]:
        return jnp.exp(beta * (s - 1)) / beta


@dataclass(frozen=True)
class FunctionKernel(Kernel):
    r"""A kernel of one's own: `function(s, beta)`, made of functions of JAX, finite for $-1\le s\le 1$.

    `antiderivative(s, beta)` is its potential; without it, $K(s)=\int_0^s k$ is computed by quadrature.
    """

    function: Function
    antiderivative: Function | None = None

    @property
    def name(self) -> str:  # type: ignore[override]
        return getattr(self.function, "__name__", "function")

    def value(self, s: Float[Array, "..."], beta: Float[Array, ""]) -> Float[Array, "..."]:
        return self.function(s, beta)

    def potential(self, s: Float[Array, "..."], beta: Float[Array, ""]) -> Float[Array, "..."]:
        if self.antiderivative is not None:
            return self.antiderivative(s, beta)

        def add(total: Array, node: Array) -> tuple[Array, None]:
            u, w = node
            return total + w * self(u * s, beta), None

        rule = jnp.asarray(np.stack(interval(0, 1, _NODES), axis=1), s.dtype)
        return s * jax.lax.scan(add, jnp.zeros_like(s), rule)[0]


@dataclass(frozen=True)
class Potential(Kernel):
    """The potential of a kernel, as a kernel."""

    of: Kernel

    def value(self, s: Float[Array, "..."], beta: Float[Array, ""]) -> Float[Array, "..."]:
        return self.of.potential(s, beta)

    def potential(self, s: Float[Array, "..."], beta: Float[Array, ""]) -> Float[Array, "..."]:
        raise NotImplementedError


@dataclass(frozen=True)
class Derivative(Kernel):
    r"""$\partial_s k$, or $\partial_\beta k$ if `by_beta`, as a kernel."""

    of: Kernel
    by_beta: bool = False

    def value(self, s: Float[Array, "..."], beta: Float[Array, ""]) -> Float[Array, "..."]:
        if self.by_beta:
            return jax.jvp(lambda b: self.of(s, b), (beta,), (jnp.ones_like(beta),))[1]
        return jax.jvp(lambda t: self.of(t, beta), (s,), (jnp.ones_like(s),))[1]

    def potential(self, s: Float[Array, "..."], beta: Float[Array, ""]) -> Float[Array, "..."]:
        raise NotImplementedError


EXPONENTIAL = Exponential()


def as_kernel(given: Kernel | Function) -> Kernel:
    """A kernel, or a function k(s, beta) as one, tried out on the interval of inner products."""
    if isinstance(given, Exponential):
        return EXPONENTIAL
    kernel = given if isinstance(given, Kernel) else FunctionKernel(given) if callable(given) else None
    if kernel is None:
        raise SphereflowError(f"kernel must be a function k(s, beta) of the inner product, got {given!r}.")
    s = np.linspace(-1, 1, 9)
    try:
        values = jax.eval_shape(kernel.value, s, np.float64(1.0))
        shape, kind = tuple(values.shape), values.dtype
    except Exception as error:
        raise SphereflowError(f"kernel must be a function k(s, beta) made of functions of JAX: {error}.") from None
    if shape != s.shape:
        raise SphereflowError(f"kernel must return one number per inner product, got shape {shape} for 9 of them.")
    if not (jnp.issubdtype(kind, np.floating) or jnp.issubdtype(kind, np.integer)):
        raise SphereflowError(f"kernel must return real numbers, got values of type {kind}.")
    return kernel


def peak(inner: Float[AnyArray, "..."], beta: Float[Array, ""] | float) -> Float[Array, "..."]:
    r"""$e^{\beta(s-1)}$ for inner products s."""
    return jnp.exp(beta * (inner - 1))


def log_scale(beta: Float[Array, ""] | float, kernel_scale: str) -> Float[Array, ""] | float:
    """Logarithm of the factor between the convention asked for and the peak convention: 0 or beta."""
    return beta if kernel_scale == "raw" else 0.0


def uniform_mean(d: int, beta: float) -> float:
    r"""Mean of the peak kernel over a uniform point: $\Gamma(d/2)(2/\beta)^{d/2-1}\, e^{-\beta}I_{d/2-1}(\beta)$.

    The smallest possible normalised energy of probability measures on the sphere is attained there.
    """
    if beta == 0:
        return 1.0
    return float(funk_hecke(d, beta, 0))
