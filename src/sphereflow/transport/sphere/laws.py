r"""Laws on the sphere: what can be sampled again, where a cloud of points is all there is.

```python
from sphereflow.transport import SphereLaw
cap = SphereLaw.cap([0, 0, 1], 0.5)
tilted = SphereLaw.of_density(lambda x: np.exp(3 * x[:, 2]), d=3)
turned = cap.pushed(lambda x: x @ rotation.T)      # the law of T(X)
```
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from sphereflow.errors import SphereflowError, real_number, whole_number
from sphereflow.numerics.unit_vectors import unit
from sphereflow.seeds import Seed, rng_from
from sphereflow.shapes import ArrayLike
from sphereflow.sphere import tokens
from sphereflow.transport.sphere.construction import random_orthogonal_units

_CANDIDATES = 200_000  # uniform points on which the height of a density is found
_ROUNDS = 400  # of 200,000 candidates, after which a density is too narrow for rejection


@dataclass(frozen=True, eq=False)
class SphereLaw:
    """A law on the sphere of R^d by its sampler: `sampler(rng, n)` returns n independent unit vectors (n, d)."""

    sampler: Callable[[np.random.Generator, int], Any]
    d: int

    def __post_init__(self) -> None:
        if not callable(self.sampler):
            raise SphereflowError(
                f"the sampler of a law must be a function of (rng, n), got {type(self.sampler).__name__}."
            )
        whole_number("d", self.d, least=2)

    def sample(self, n: int, seed: Seed = 0) -> Float[np.ndarray, "n d"]:
        """Independent points."""
        return self.drawn(whole_number("n", n), rng_from(seed))

    def drawn(self, n: int, rng: np.random.Generator) -> Float[np.ndarray, "n d"]:
        """Independent points from a generator under way."""
        points = np.asarray(tokens(self.sampler(rng, n), "the points of a sampler"), dtype=float)
        if points.shape != (n, self.d):
            raise SphereflowError(f"a sampler asked for {n} points must return ({n}, {self.d}), got {points.shape}.")
        return unit(points)

    def pushed(self, map: Callable[[np.ndarray], Any]) -> SphereLaw:
        """The law of T(X) for a map T of arrays (n, d)."""
        if not callable(map):
            raise SphereflowError(f"a law is pushed forward by a function of points, got {type(map).__name__}.")
        return SphereLaw(lambda rng, n: map(self.drawn(n, rng)), self.d)

    @classmethod
    def cap(cls, centre: ArrayLike, radius: float) -> SphereLaw:
        """Points about a centre with a uniform direction and, in the tangent ball of this radius, a uniform place."""
        if np.ndim(centre) != 1 or np.size(centre) < 2:
            raise SphereflowError(f"the centre of a cap is one point (d,), got shape {np.shape(centre)}.")
        middle = unit(np.asarray(tokens(np.asarray(centre)[None], "centre"), dtype=float)[0])
        real_number("radius", radius, above=0, most=np.pi)

        def sampler(rng: np.random.Generator, n: int) -> np.ndarray:
            around = random_orthogonal_units(rng, n, middle[None])
            angle = radius * rng.uniform(size=(n, 1)) ** (1 / (len(middle) - 1))
            return np.cos(angle) * middle + np.sin(angle) * around

        return cls(sampler, len(middle))

    @classmethod
    def of_density(cls, density: Callable[[np.ndarray], Any], d: int) -> SphereLaw:
        """The law with a density proportional to this function of points (n, d), by rejection from the uniform law.

        The height of the density is taken from 200,000 uniform points and a tenth more: in high dimension give a
        sampler instead.
        """
        d = whole_number("d", d, least=2)
        height = 1.1 * _heights(density, unit(np.random.default_rng(0).normal(size=(_CANDIDATES, d)))).max()
        if not height > 0:
            raise SphereflowError("the density is zero at 200,000 uniform points: give a sampler instead.")

        def sampler(rng: np.random.Generator, n: int) -> np.ndarray:
            kept: list[np.ndarray] = []
            for _ in range(_ROUNDS):
                tried = unit(rng.normal(size=(_CANDIDATES, d)))
                kept.append(tried[rng.uniform(size=_CANDIDATES) * height < _heights(density, tried)])
                if sum(map(len, kept)) >= n:
                    return np.concatenate(kept)[:n]
            raise SphereflowError("the density is too narrow to be sampled by rejection: give a sampler instead.")

        return cls(sampler, d)


def _heights(density: Callable[[np.ndarray], Any], points: np.ndarray) -> np.ndarray:
    values = np.asarray(density(points), dtype=float)
    if values.shape != (len(points),) or not np.isfinite(values).all() or (values < 0).any():
        raise SphereflowError(
            f"a density must return one finite number, not negative, per point; for {len(points)} points it returned "
            f"an array of shape {values.shape}."
        )
    return values
