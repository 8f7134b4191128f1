r"""Engines: ways to sum over all pairs of tokens. Each computes what `attend` computes.

| engine | tokens | masks | time |
| --- | --- | --- | --- |
| `Direct()` | any | any | n^2 |
| `Fourier(K)` | unit keys on the circle | none, `Causal`, `Alibi` | n K, $K\approx\sqrt{2\beta\log(n/tol)}$ |
| `Harmonic(L)` | unit keys on S^2 | none, `Causal`, `Alibi` | n L^2, $L\approx\sqrt{2\beta\log(n/tol)}$ |
| `Polynomial(L)` | unit vectors, few dimensions, small beta | none, `Causal`, `Alibi` | n binom(L+d, d) |
| `Clustered(k, p)` | any that have gathered in k clusters | none | n k binom(p+d, d) |
| `Adaptive()` | any | any | n^2, and less once they have gathered, without a mask |

Mode counts are fixed before compilation. Whatever their number, rows that do not keep the tolerance of the engine are
summed directly, so that too few modes cost time and not accuracy. `choose` finds engine and modes for a request.

Expansions serve the exponential (the modes above), and any other kernel whose series they resolve: where beta is known,
one that leaves more than the tolerance is refused.
"""

from __future__ import annotations

import abc
from dataclasses import dataclass
from typing import ClassVar

import jax.numpy as jnp

from sphereflow.errors import SphereflowError, real_number, whole_number
from sphereflow.interaction.circle import CircleModes
from sphereflow.interaction.direct import Attended, default_block, direct_attention
from sphereflow.interaction.far_field import Plan, far_field_attention, moments
from sphereflow.interaction.harmonic import SphereModes
from sphereflow.interaction.harmonic_ball import SphereBall
from sphereflow.interaction.linear import expand
from sphereflow.interaction.modes import Expansion
from sphereflow.interaction.nufft import CircleNufft, SphereNufft
from sphereflow.interaction.polynomial import Monomials, monomials
from sphereflow.interaction.request import Request
from sphereflow.interaction.series import samples
from sphereflow.kernels import EXPONENTIAL, Kernel
from sphereflow.parameters import known

# Clusters, the order of their moments, and keys beside them, that an engine may have.
MOST_CLUSTERS, MOST_ORDER, MOST_APART = 1024, 8, 2**20
# Numbers that the moments of all clusters, as seen from all, may be.
MOST_MOMENTS = 2**24
# Numbers per token that the polynomial engine may form.
MOST_FEATURES = 1_000_000


class Engine(abc.ABC):
    """A way to sum over pairs: a fixed part of a program, so engines are compared by their numbers."""

    name: ClassVar[str]
    tol: float = 0.0  # of relative errors; zero: rounding only
    any_query: bool = False  # an expansion that takes queries that are no unit vectors, if not keys
    all_pairs: bool = False  # sums every pair, whatever the queries and keys are

    @abc.abstractmethod
    def attend(self, request: Request) -> Attended:
        """The average of the values, and log Z."""

    def over(self, engine: Engine) -> Engine:
        """Another engine on the same devices."""
        return engine

    def check_kernel(self, kernel: Kernel, beta: float) -> None:  # noqa: B027  # the direct sum takes any
        """Say in one sentence why this engine cannot serve a kernel at a known beta."""


@dataclass(frozen=True)
class Direct(Engine):
    """Every pair of tokens, one block of pairs at a time."""

    name: ClassVar[str] = "direct"
    all_pairs: ClassVar[bool] = True  # type: ignore[misc]

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
            queries,
            keys,
            values,
            beta,
            w,
            mask,
            **promises,
            kernel=request.kernel,
            divide=request.divide,
            block=default_block(),
        )


DIRECT = Direct()


@dataclass(frozen=True)
class Adaptive(Direct):
    """Every pair, until tokens have gathered: `evolve` then goes on with `Clustered` sums, where they are faster.

    That is asked between the spans of a run (see `gathering`); whoever asks for a single sum gets that of all pairs.
    """

    tol: float = 1e-9
    name: ClassVar[str] = "adaptive"

    def __post_init__(self) -> None:
        object.__setattr__(self, "tol", _tolerance(self.tol))


class Expanding(Engine):
    """An expansion of the kernel, and direct sums for the rows it does not resolve."""

    modes: int
    only_d: ClassVar[int | None] = None
    most: ClassVar[int]  # modes, beyond which tables do not fit memory, or rounding spoils the coefficients

    def __post_init__(self) -> None:
        # Plain numbers, so that engines that were given the same ones are equal.
        object.__setattr__(self, "modes", whole_number("modes", self.modes, most=self.most))
        object.__setattr__(self, "tol", _tolerance(self.tol))
        for name in ("nufft", "any_query"):
            if not isinstance(getattr(self, name, False), bool):
                raise SphereflowError(f"{name} must be True or False, got {getattr(self, name)!r}.")

    @abc.abstractmethod
    def expansion(self, d: int) -> Expansion:
        """The expansion for tokens in dimension d."""

    def attend(self, request: Request) -> Attended:
        self.check(request)
        arrays = (request.queries, request.keys, request.values, request.beta)
        options = {"weights": request.weights, "mask": request.mask, "tol": self.tol, "divide": request.divide}
        return expand(self.expansion(request.keys.shape[1]).of(request.kernel), *arrays, **options).attended

    def check(self, request: Request) -> None:
        """Say in one sentence what this engine cannot serve."""
        d = request.keys.shape[1]
        if self.only_d not in (None, d):
            raise SphereflowError(f"the {self.name} engine works in dimension d={self.only_d}, got d={d}.")
        if known(request.beta):
            self.check_kernel(request.kernel, float(request.beta))
        elif request.kernel != EXPONENTIAL:
            self._check_queries()

    def check_kernel(self, kernel: Kernel, beta: float) -> None:
        if kernel == EXPONENTIAL:
            return
        self._check_queries()
        sampled = samples(kernel, beta)
        if sampled is None:
            return  # it is not known yet, or not finite, which the results will show
        reached = sampled.missed(self.modes, on_sphere=self.only_d == 3)
        if reached > self.tol:
            raise SphereflowError(
                f"the {self.name} engine with {self.modes} modes reaches an error of {reached:.1e} of the kernel"
                f" '{kernel.name}', above tol={self.tol:g}: give more modes, or use method='direct'."
            )

    def _check_queries(self) -> None:
        if self.any_query:
            raise SphereflowError("any_query is for the exponential kernel: another is expanded for unit queries.")


@dataclass(frozen=True)
class Fourier(Expanding):
    """Modes up to K on the circle; `any_query` allows queries that are no unit vectors, `nufft` uses jax-finufft."""

    modes: int
    tol: float = 1e-9
    nufft: bool = False
    any_query: bool = False
    name: ClassVar[str] = "fourier"
    only_d: ClassVar[int] = 2
    most: ClassVar[int] = 1_000_000

    def expansion(self, d: int) -> Expansion:
        return (CircleNufft if self.nufft else CircleModes)(self.modes, any_query=self.any_query)


@dataclass(frozen=True)
class Harmonic(Expanding):
    """Spherical harmonics up to degree L on S^2; `nufft` uses jax-finufft.

    Queries are unit vectors, or have `lengths` in an interval, of which `radial` Chebyshev polynomials are made.
    """

    modes: int
    tol: float = 1e-9
    nufft: bool = False
    lengths: tuple[float, float] | None = None
    radial: int = 0
    name: ClassVar[str] = "harmonic"
    only_d: ClassVar[int] = 3
    most: ClassVar[int] = 256

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "radial", whole_number("radial", self.radial, least=0, most=1000))
        if self.lengths is None:
            return
        low, high = (real_number("lengths", each, least=0) for each in self.lengths)
        if not low <= high or high == 0 or self.nufft:
            raise SphereflowError(f"lengths must be an interval above 0, without nufft, got {self.lengths}.")
        object.__setattr__(self, "lengths", (low, high))

    @property
    def any_query(self) -> bool:  # type: ignore[override]
        return self.lengths is not None

    def expansion(self, d: int) -> Expansion:
        if self.lengths is not None:
            return SphereBall(self.modes, lengths=self.lengths, radial=self.radial)
        return (SphereNufft if self.nufft else SphereModes)(self.modes)


@dataclass(frozen=True)
class Polynomial(Expanding):
    """Powers of the inner product up to degree L, in any dimension."""

    modes: int
    tol: float = 1e-9
    name: ClassVar[str] = "polynomial"
    most: ClassVar[int] = 40

    def expansion(self, d: int) -> Expansion:
        if monomials(self.modes, d) > MOST_FEATURES:
            raise SphereflowError(
                f"the polynomial engine with {self.modes} modes has {monomials(self.modes, d)} monomials in dimension"
                f" d={d}, more than {MOST_FEATURES}: give fewer modes, or use method='direct'."
            )
        return Monomials(self.modes, d)


@dataclass(frozen=True)
class Clustered(Engine):
    """Moments up to order p of k clusters, found anew for every sum, and `apart` keys that are summed one by one."""

    clusters: int
    order: int = 2
    apart: int = 256
    tol: float = 1e-9
    name: ClassVar[str] = "clustered"
    any_query: ClassVar[bool] = True  # type: ignore[misc]

    def __post_init__(self) -> None:
        for name, most in (("clusters", MOST_CLUSTERS), ("order", MOST_ORDER), ("apart", MOST_APART)):
            object.__setattr__(self, name, whole_number(name, getattr(self, name), most=most))
        object.__setattr__(self, "tol", _tolerance(self.tol))

    def attend(self, request: Request) -> Attended:
        if request.mask is not None:
            raise SphereflowError(f"the {self.name} engine takes no mask: use method='direct'.")
        self.check_kernel(request.kernel, 0.0)
        n, d = request.keys.shape
        if moments(self.clusters, self.order, d, request.values.shape[1] + 1) > MOST_MOMENTS:
            raise SphereflowError(
                f"{self.clusters} clusters with moments of order {self.order} in dimension d={d} need more than"
                f" {MOST_MOMENTS} numbers: give fewer clusters or a lower order, or use method='direct'."
            )
        queries = None if request.queries is request.keys else request.queries
        weights = jnp.full(n, 1 / n, request.keys.dtype) if request.weights is None else request.weights
        plan = Plan(self.clusters, self.order, self.apart, self.tol)
        beta = jnp.asarray(request.beta)
        return far_field_attention(plan, request.divide, queries, request.keys, request.values, beta, weights)

    def check_kernel(self, kernel: Kernel, beta: float) -> None:
        if kernel != EXPONENTIAL:
            raise SphereflowError(
                f"the {self.name} engine serves the exponential kernel, got '{kernel.name}': use method='direct'."
            )


def _tolerance(tol: float) -> float:
    """The tolerance of an engine as a plain number, so that engines that were given the same one are equal."""
    if isinstance(tol, (bool, str)):
        raise SphereflowError(f"tol must be a finite number above 0, got {tol!r}.")
    return real_number("tol", tol, above=0)
