r"""Networks of real architectures with fresh Gaussian weights, run on a few tokens.

For fixed tokens Y (rows) and a matrix W of independent normals of variance $\sigma^2$, the rows of $YW^T$ are jointly
Gaussian and
$$YW^T\ \overset{\text{law}}{=}\ \sigma\,(YY^T)^{1/2}G,$$
G having as many rows as there are tokens. Every matrix of a network at initialisation is used once, so a network of any
width is run exactly in law by drawing n numbers for each column of a product instead of D.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from sphereflow.numerics.unit_vectors import unit
from sphereflow.random_transformers.blocks import Blocks, states
from sphereflow.seeds import Seed, rng_from


def weight_deviations(blocks: Blocks) -> dict[str, tuple[int, float]]:
    """For each matrix of a layer: columns of the product, and the deviation of its entries."""
    shared = blocks.groups * blocks.head_width
    return {
        "q": (blocks.mixed, blocks.sigma),
        "k": (shared, blocks.sigma),
        "v": (shared, blocks.sigma),
        "output": (blocks.width, blocks.attention_sigma),
        "gate": (blocks.hidden, blocks.sigma),
        "up": (blocks.hidden, blocks.sigma),
        "down": (blocks.width, blocks.mlp_sigma),
    }


def run_cosines(blocks: Blocks, n: int, seed: Seed) -> Float[np.ndarray, " depth"]:
    """The mean cosine of two of n different tokens, before the first layer and after each, in one network."""
    rng = rng_from(seed)
    shapes = weight_deviations(blocks)

    def project(layer: int, name: str, y: np.ndarray) -> np.ndarray:
        columns, sigma = shapes[name]
        return sigma * _root(y @ y.T) @ rng.standard_normal((len(y), columns))

    start = rng.standard_normal((n, blocks.width)) * blocks.embedding_sigma * np.sqrt(blocks.tables)
    return np.array([mean_cosine(x) for x in states(blocks, start, project)])


def mean_cosine(x: Float[np.ndarray, "n D"]) -> float:
    """The mean over pairs of different tokens."""
    n = len(x)
    return float((np.sum(np.sum(unit(x), axis=0) ** 2) - n) / (n * (n - 1)))


def _root(gram: Float[np.ndarray, "n n"]) -> Float[np.ndarray, "n n"]:
    """The symmetric square root."""
    values, vectors = np.linalg.eigh(gram)
    return (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
