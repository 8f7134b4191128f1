"""Laws on the circle from values of a density at equally spaced angles: independent tokens, tokens at quantiles."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from sphereflow.errors import SphereflowError
from sphereflow.reading import real_array
from sphereflow.shapes import ArrayLike

Array = np.ndarray


def on_circle(density: ArrayLike) -> Float[Array, " k"]:
    """The values of a density at k equally spaced angles from 0, with mean 1 (so divided by 2 pi it has mass 1)."""
    values = real_array("density", density, shape=("k",))
    if len(values) < 4 or values.min() < 0 or not values.sum() > 0:
        raise SphereflowError("density must be at least 4 values at equally spaced angles, none negative, not all 0.")
    return np.asarray(values / values.mean())


def quantiles(density: Float[Array, " k"] | None, count: int) -> Float[Array, "count 2"]:
    """Tokens at the quantiles (i + 1/2)/count of the law, uniform if None."""
    return _points(_inverse(density, (np.arange(count) + 0.5) / count))


def draw_angles(
    rng: np.random.Generator, density: Float[Array, " k"] | None, shape: tuple[int, ...]
) -> Float[Array, "*shape 2"]:
    """Independent tokens with this density, uniform if None."""
    return _points(_inverse(density, rng.uniform(size=shape)))


def _inverse(density: Array | None, share: Array) -> Array:
    if density is None:
        return np.asarray(2 * np.pi * share)
    # Trapezia between the given angles: exact for densities that are linear there.
    fine = np.linspace(0, 2 * np.pi, 32 * len(density) + 1)
    coarse = 2 * np.pi * np.arange(len(density) + 1) / len(density)
    values = np.interp(fine, coarse, [*density, density[0]])
    below = np.concatenate([[0.0], np.cumsum((values[1:] + values[:-1]) / 2)])
    return np.interp(share, below / below[-1], fine)


def _points(angle: Array) -> Array:
    return np.stack([np.cos(angle), np.sin(angle)], axis=-1)
