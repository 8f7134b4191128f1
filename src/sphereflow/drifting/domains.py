"""Two kinds of images to translate between, from what is installed: a benchmark without a download.

Fashion-MNIST (the Debian package `dataset-fashion-mnist`): sandals and ankle boots; else the digits of scikit-learn, 3
and 8; else discs and rings drawn here. The name says which.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from sphereflow.drifting.latents import read_idx
from sphereflow.seeds import Seed, rng_from

FASHION = Path("/usr/share/datasets/fashion-mnist")
_SANDAL, _BOOT = 5, 9


class Domains(NamedTuple):
    """Rows of two kinds of square images with values in [0, 1], and how many principal components to work in."""

    name: str
    first: Float[np.ndarray, "n P"]
    second: Float[np.ndarray, "m P"]
    components: int


def two_domains(largest: int = 6000, folder: Path = FASHION) -> Domains:
    """At most `largest` images of each kind."""
    if (folder / "train-images-idx3-ubyte.gz").exists():
        images, labels = (read_idx(folder / f"train-{what}-ubyte.gz") for what in ("images-idx3", "labels-idx1"))
        chosen = [images[labels == kind][:largest] for kind in (_SANDAL, _BOOT)]
        sandals, boots = (each.reshape(len(each), -1) / 255.0 for each in chosen)
        return Domains("Fashion-MNIST, sandals to ankle boots", sandals, boots, 32)
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        return Domains("discs to rings", drawn(min(largest, 1000), 0.0), drawn(min(largest, 1000), 0.6), 16)
    digits = load_digits()
    threes, eights = (digits.data[digits.target == kind][:largest] / 16.0 for kind in (3, 8))
    return Domains("digits, 3 to 8", threes, eights, 16)


def drawn(count: int, hole: float, side: int = 16, seed: Seed = 0) -> Float[np.ndarray, "n P"]:
    """Discs of random size and place with a hole, a share of their radius."""
    rng = rng_from(seed, round(100 * hole))
    radius = rng.uniform(0.25, 0.4, (count, 1, 1)) * side
    centre = side / 2 + rng.uniform(-0.1, 0.1, (2, count, 1, 1)) * side
    row, column = np.mgrid[:side, :side] + 0.5
    away = np.hypot(row - centre[0], column - centre[1])
    inside = np.clip(radius - away + 0.5, 0, 1) - (np.clip(hole * radius - away + 0.5, 0, 1) if hole else 0.0)
    return np.asarray(inside).reshape(count, -1)
