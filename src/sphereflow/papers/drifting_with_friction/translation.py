r"""Translation of one mixture into another, for the figures: quality against compute.

Every method is trained here, stopped at a ladder of budgets, with seeds, and measured on held-out points. The two laws
are mixtures of Gaussians with random means, in 64 dimensions with the larger preset: in the 512 of the paper a
step of flow matching takes a second. No claim is made of it: the paper's comparison is on latents of faces, which are
not available, and three seeds do not settle a factor.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from jaxtyping import Float

from sphereflow.drifting.translation import Point, quality_against_compute

COMPARED = ("drift", "drift-friction", "drift-schedule", "drift-effective", "ofm", "lightsb", "affine")


def mixtures(dimension: int, count: int, seed: int) -> tuple[Float[np.ndarray, "n D"], Float[np.ndarray, "n D"]]:
    """Two mixtures of ten Gaussians with random means of unit variance a coordinate and spread 0.5."""
    rng = np.random.default_rng(seed)
    made = []
    for shift in (0.0, 0.5):
        means = rng.normal(size=(10, dimension)) + shift
        made.append(means[rng.integers(0, 10, count)] + 0.5 * rng.normal(size=(count, dimension)))
    return made[0], made[1]


def pair(quick: bool, seed: int) -> tuple[Float[np.ndarray, "n D"], Float[np.ndarray, "n D"]]:
    return mixtures(2, 6000, seed) if quick else mixtures(64, 12_000, seed)


@cache
def points(quick: bool, seed: int) -> list[Point]:
    """The whole comparison, made once."""
    source, target = pair(quick, seed)
    if quick:
        return quality_against_compute(
            source,
            target,
            methods=COMPARED,
            budgets=(50, 100),
            seeds=(0, 1),
            batch=64,
            hidden=64,
            epsilon=0.5,
            progress=False,
        ).points
    return quality_against_compute(
        source,
        target,
        methods=COMPARED,
        budgets=(30, 100, 300, 1000),
        seeds=(0, 1, 2),
        batch=128,
        hidden=128,
        epsilon=1.0,
        progress=False,
    ).points
