r"""Engines: ways to sum over all pairs of tokens. Each computes what `attend` computes.

| engine | tokens | masks | time |
| --- | --- | --- | --- |
| `Direct()` | any | any | n^2 |
| `Fourier(K)` | unit keys on the circle | none, `Causal`, `Alibi` | n K, $K\approx\sqrt{2\beta\log(n/tol)}$ |
| `Harmonic(L)` | unit keys and queries on S^2 | none, `Causal`, `Alibi` | n L^2, $L\approx\sqrt{2\beta\log(n/tol)}$ |
| `Polynomial(L)` | unit vectors, few dimensions, small beta | none, `Causal`, `Alibi` | n binom(L+d, d) |

Mode counts are fixed before compilation. Whatever their number, rows that do not keep the tolerance of the engine are
summed directly, so that too few modes cost time and not accuracy. `choose` finds engine and modes for a request.
"""

from __future__ import annotations

import abc
from dataclasses import dataclass
from typing import ClassVar

import jax.numpy as jnp

from sphereflow.errors import SphereflowError, whole_number
from sphereflow.interaction.circle import CircleModes
from sphereflow.interaction.direct import Attended, default_block, direct_attention
from sphereflow.interaction.harmonic import SphereModes
from sphereflow.interaction.linear import expand
from sphereflow.interaction.modes import Expansion
from sphereflow.interaction.nufft import CircleNufft, SphereNufft
from sphereflow.interaction.polynomial import Monomials
from sphereflow.interaction.request import Request
from sphereflow.kernels import EXPONENTIAL


class Engine(abc.ABC):
    """A way to sum over pairs: a fixed part of a program, so engines are compared by their numbers."""

    name: ClassVar[str]
    tol: float = 0.0  # of relative errors; zero: rounding only

    @abc.abstractmethod
    def attend(self, request: Request) -> Attended:
        """The average of the values, and log Z."""

    def over(self, engine: Engine) -> Engine:
        """Another engine on the same devices."""
        return engine


@dataclass(frozen=True)
class Direct(Engine):
    """Every pair of tokens, one block of pairs at a time."""

    name: ClassVar[str] = "direct"

    def attend(self, request: Request) -> Attended:
        queries, keys, values = request.queries, request.keys, request.values
        mask, weights = request.mask, request.weights
        symmetric = request.self_attention and queries is keys
        plain = symmetric and values is keys and weights is None
        bounded = request.self_attention and (mask is None or mask.sees_itself)
        dtype = jnp.result_type(queries, keys, values)
        queries, keys, values, beta = (jnp.asarray(x, dtype) for x in (queries, keys, values, request.beta))
        n = keys.shape[0]
        w = jnp.full(n, 1 / n, dtype) if weights is None else jnp.asarray(weights, dtype)
        promises = {"bounded": bounded, "symmetric": symmetric, "plain": plain}
        return direct_attention(
            queries, keys, values, beta, w, mask, **promises, kernel=request.kernel, block=default_block()
        )


DIRECT = Direct()


class Expanding(Engine):
    """An expansion of the kernel, and direct sums for the rows it does not resolve."""

    modes: int
    only_d: ClassVar[int | None] = None

    def __post_init__(self) -> None:
        whole_number("modes", self.modes)

    @abc.abstractmethod
    def expansion(self, d: int) -> Expansion:
        """The expansion for tokens in dimension d."""

    def attend(self, request: Request) -> Attended:
        self.check(request)
        arrays = (request.queries, request.keys, request.values, request.beta)
        options = {"weights": request.weights, "mask": request.mask}
        return expand(self.expansion(request.keys.shape[1]), *arrays, **options, tol=self.tol).attended

    def check(self, request: Request) -> None:
        """Say in one sentence what this engine cannot serve."""
        d = request.keys.shape[1]
        if self.only_d not in (None, d):
            raise SphereflowError(f"the {self.name} engine works in dimension d={self.only_d}, got d={d}.")
        if request.kernel != EXPONENTIAL:
            raise SphereflowError(f"the {self.name} engine serves the exponential kernel: use method='direct'.")


@dataclass(frozen=True)
class Fourier(Expanding):
    """Modes up to K on the circle; `any_query` allows queries that are no unit vectors, `nufft` uses jax-finufft."""

    modes: int
    tol: float = 1e-9
    nufft: bool = False
    any_query: bool = False
    name: ClassVar[str] = "fourier"
    only_d: ClassVar[int] = 2

    def expansion(self, d: int) -> Expansion:
        return (CircleNufft if self.nufft else CircleModes)(self.modes, any_query=self.any_query)


@dataclass(frozen=True)
class Harmonic(Expanding):
    """Spherical harmonics up to degree L on S^2; `nufft` uses jax-finufft."""

    modes: int
    tol: float = 1e-9
    nufft: bool = False
    name: ClassVar[str] = "harmonic"
    only_d: ClassVar[int] = 3

    def expansion(self, d: int) -> Expansion:
        return (SphereNufft if self.nufft else SphereModes)(self.modes)


@dataclass(frozen=True)
class Polynomial(Expanding):
    """Powers of the inner product up to degree L, in any dimension."""

    modes: int
    tol: float = 1e-9
    name: ClassVar[str] = "polynomial"

    def expansion(self, d: int) -> Expansion:
        return Monomials(self.modes, d)
