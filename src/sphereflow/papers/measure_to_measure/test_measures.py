"""The inputs and targets on which the paper's statements are tried, and the interpolations of them, made once."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from jaxtyping import Float

from sphereflow.numerics.unit_vectors import unit
from sphereflow.transport.sphere.construction import random_orthogonal_units
from sphereflow.transport.sphere.interpolation import interpolate
from sphereflow.transport.sphere.result import Interpolation

A, B, C = unit(np.array([[3.0, 4.0, 1.0], [4.0, 3.0, 2.0], [1.0, 3.0, 4.0]]))
SHARED = (np.stack([A, B]), np.stack([A, C]))
SHARED_POINTS = tuple(unit(np.array([[1.0, -1.0, 0.3], [-1.0, 0.2, -1.0]])))
SHARED_TARGETS = (
    unit(np.array([[-3.0, 1.0, -2.0], [-1.0, 2.0, -1.0]])),
    unit(np.array([[-3.0, 1.0, -2.0], [-2.0, -1.0, -3.0]])),
)


def cap(rng: np.random.Generator, centre: np.ndarray, radius: float, n: int) -> Float[np.ndarray, "n d"]:
    """Points of a cap, uniform in the tangent disc."""
    around = random_orthogonal_units(rng, n, centre[None])
    angle = radius * rng.uniform(size=(n, 1)) ** (1 / (len(centre) - 1))
    return np.cos(angle) * centre + np.sin(angle) * around


def overlapping_caps(d: int, N: int, n: int, seed: int) -> list[Float[np.ndarray, "n d"]]:
    """Samples of N caps of radius 0.9 whose centres are close to each other: every two of them overlap."""
    rng = np.random.default_rng(seed)
    return [cap(rng, centre, 0.9, n) for centre in cap_centres(d, N, seed)]


def cap_centres(d: int, N: int, seed: int) -> Float[np.ndarray, "N d"]:
    rng = np.random.default_rng([seed, d, N])
    return unit(unit(rng.normal(size=d)) + 0.35 * rng.normal(size=(N, d)) / np.sqrt(d))


def chords(first: float, second: float, n: int = 40) -> list[Float[np.ndarray, "n 3"]]:
    """Two arcs that cross at right angles in their common midpoint: equal directions of the barycentres."""
    centre = unit(np.ones(3))
    along = unit(np.array([1.0, -1.0, 0.0]))
    arcs = []
    for direction, half in ((along, first), (np.cross(centre, along), second)):
        angle = np.linspace(-half, half, n)[:, None]
        arcs.append(np.cos(angle) * centre + np.sin(angle) * direction)
    return arcs


def points(count: int, d: int, seed: int) -> list[Float[np.ndarray, " d"]]:
    """Uniform points of the sphere."""
    return list(unit(np.random.default_rng(1000 + seed).normal(size=(count, d))))


@lru_cache(maxsize=16)
def dirac(d: int, N: int, n: int, seed: int) -> Interpolation:
    """Overlapping caps to one random point each, by the construction of the proof, for these particles alone."""
    return interpolate(overlapping_caps(d, N, n, seed), points(N, d, seed), seed=seed, margins=False)


@lru_cache(maxsize=8)
def atomic(m: int, n: int, seed: int) -> Interpolation:
    """Three overlapping caps on the two-sphere to m random atoms each."""
    atoms = np.stack(points(3 * m, 3, seed)).reshape(3, m, 3)
    return interpolate(overlapping_caps(3, 3, n, seed), list(atoms), seed=seed)


@lru_cache(maxsize=2)
def shared_atom() -> Interpolation:
    """Two measures with one atom in common to two points."""
    return interpolate(SHARED, SHARED_POINTS, margins=False)


@lru_cache(maxsize=2)
def shared_targets() -> Interpolation:
    """Two measures with one atom in common to two targets with one atom in common (Theorem 1.2)."""
    return interpolate(SHARED, SHARED_TARGETS)
