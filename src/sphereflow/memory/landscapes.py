r"""Three ways to hold $e^{\alpha N}$ patterns behind one interface: a landscape is a function H(x) on the sphere.

- `Full`: every pattern stored.
- `Cone` (LSE): the patterns with an overlap above `keep` with the target are stored, their number is Poisson, and all
  others enter as one constant, $\ln C=\alpha N+\ln\int_{-1}^{keep}h(\phi)e^{-\beta N(1-\phi)}d\phi$. It is that
  of a state near the target; after an escape it is biased.
- `Bulk` (LSE): no pattern but the target, the noise floor in place of all others. H depends on one overlap only.
"""

from __future__ import annotations

import abc

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.integrate import quad
from scipy.interpolate import PchipInterpolator

from sphereflow.errors import SphereflowError, real_number, whole_number
from sphereflow.memory.energies import Energy, products
from sphereflow.memory.overlaps import Numbers, Values, log_density, log_tail
from sphereflow.numerics.unit_vectors import unit
from sphereflow.seeds import Seed, number_from, rng_from

_ASIDE = 20_011
_MOST_STORED = 50_000_000  # numbers in the kept patterns


class Landscape(eqx.Module):
    """An energy on the sphere of radius sqrt(N); the first pattern, `target`, is the one to keep."""

    @property
    @abc.abstractmethod
    def target(self) -> Float[Array, " N"]: ...

    @abc.abstractmethod
    def __call__(self, x: Float[Array, " N"]) -> Float[Array, ""]:
        """H(x)."""

    def gradient(self, x: Float[Array, " N"]) -> Float[Array, " N"]:
        return jax.grad(lambda y: self(y))(x)


class Full(Landscape):
    """All patterns stored; the target is the first. A leading axis holds many landscapes for `metropolis_each`."""

    energy: Energy
    patterns: Float[Array, "*many M N"]

    @property
    def target(self) -> Float[Array, " N"]:
        return self.patterns[0]

    def __call__(self, x: Float[Array, " N"]) -> Float[Array, ""]:
        return self.energy.energy(x, self.patterns)

    def gradient(self, x: Float[Array, " N"]) -> Float[Array, " N"]:
        return self.energy.gradient(x, self.patterns)


class Cone(Landscape):
    """The target, the patterns near it, and one constant for all others (LSE)."""

    beta: float
    patterns: Float[Array, "K N"]
    log_rest: float

    @property
    def target(self) -> Float[Array, " N"]:
        return self.patterns[0]

    def __call__(self, x: Float[Array, " N"]) -> Float[Array, ""]:
        inner, half = products(x, self.patterns)
        near = jax.nn.logsumexp(self.beta * (inner - half))
        return -jnp.logaddexp(near, self.log_rest) / self.beta


class Bulk(Landscape):
    """The target and the noise floor (LSE): exact in one dimension, see `escape` and `chains`."""

    beta: float
    centre: Float[Array, " N"]
    noise: float

    @property
    def target(self) -> Float[Array, " N"]:
        return self.centre

    def __call__(self, x: Float[Array, " N"]) -> Float[Array, ""]:
        n = x.shape[-1]
        phi = x @ self.centre / n
        return n - jnp.logaddexp(self.beta * n * phi, self.beta * n * self.noise) / self.beta


def random_patterns(n: int, count: int, seed: Seed | list[Seed] = 0) -> Float[np.ndarray, "count n"]:
    r"""Independent uniform patterns on the sphere of radius $\sqrt n$; a list of seeds is a seed of its own."""
    n, count = whole_number("n", n, most=10**9), whole_number("count", count, most=10**9)
    numbers = [number_from(part) for part in seed] if isinstance(seed, list) else number_from(seed)
    draws = np.random.default_rng(numbers).standard_normal((count, n))
    return np.sqrt(n) * unit(draws)


def log_rest(n: int, alpha: float, beta: float, keep: float) -> float:
    r"""$\ln C$: the mean kernel sum, at the target, over patterns with an overlap below `keep`."""

    def exponent(phi: Numbers) -> Values:
        return log_density(phi, n) - beta * n * (1 - np.asarray(phi))

    grid = np.linspace(-1, keep, 2001)[1:-1]
    top = float(np.max(exponent(grid)))
    peak = float(grid[np.argmax(exponent(grid))])
    reach = 12 / np.sqrt(n)
    total = quad(
        lambda p: float(np.exp(exponent(p) - top)), max(-1.0, peak - reach), keep, epsabs=0, epsrel=1e-13, limit=400
    )[0]
    if peak - reach > -1:
        total += quad(lambda p: float(np.exp(exponent(p) - top)), -1.0, peak - reach, epsabs=1e-14, epsrel=1e-10)[0]
    return alpha * n + top + float(np.log(total))


def draw_cone(n: int, alpha: float, beta: float, keep: float = 0.4, seed: Seed = 0) -> Cone:
    """A cone landscape drawn from its law: a Poisson number of kept patterns around a random target."""
    whole_number("n", n, least=4)
    real_number("keep", keep, least=0, most=0.999)
    alpha, beta = real_number("alpha", alpha, above=0), real_number("beta", beta, above=0, most=1e6)
    rng = rng_from(seed, n)
    log_expected = alpha * n + float(log_tail(keep, n))
    if log_expected + np.log(n) > np.log(_MOST_STORED):
        raise SphereflowError(
            f"a cone above overlap {keep:g} holds e^{log_expected:.0f} patterns at n={n}, alpha={alpha:g}; "
            "raise keep, or use the bulk landscape."
        )
    count = rng.poisson(np.exp(log_expected))
    grid = np.linspace(keep, 1, 4001)[:-1]
    # The logarithm of the tail probability is uniform up to an exponential variable; the table inverts it.
    tails = log_tail(grid, n)
    overlap_of = PchipInterpolator(tails[::-1], grid[::-1])
    overlaps = overlap_of(np.maximum(tails[0] - rng.exponential(size=count), tails[-1]))
    target = random_patterns(n, 1, [seed, n, 1])[0] / np.sqrt(n)
    sideways = rng.standard_normal((count, n))
    sideways -= np.outer(sideways @ target, target)
    sideways = unit(sideways)
    kept = overlaps[:, None] * target + np.sqrt(1 - overlaps**2)[:, None] * sideways
    patterns = np.sqrt(n) * np.concatenate([target[None], kept])
    return Cone(beta, jnp.asarray(patterns), log_rest(n, alpha, beta, keep))


def state_at(
    target: Float[np.ndarray, " N"], overlap: Float[np.ndarray, " c"], seed: Seed | list[Seed] = 0
) -> Float[np.ndarray, "c N"]:
    """States with given overlaps with the target, otherwise random."""
    target = np.asarray(target)
    n = target.shape[-1]
    # Patterns are drawn from the bare seed: the same numbers again would point along the target.
    numbers = [number_from(part) for part in (seed if isinstance(seed, list) else [seed])]
    rng = np.random.default_rng([_ASIDE, *numbers])
    sideways = rng.standard_normal((len(overlap), n))
    sideways -= np.outer(sideways @ target, target) / n
    sideways *= np.sqrt(n) / np.linalg.norm(sideways, axis=1, keepdims=True)
    return overlap[:, None] * target + np.sqrt(1 - overlap**2)[:, None] * sideways
