"""Tokens in clusters: where the centres are, which is nearest to each token, and tokens put in order by cluster."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

# Tokens among which centres are looked for.
POOL = 1024
# Numbers in the features of a block of tokens, and how many tokens a block has at least and at most.
_FEATURES, _ACCELERATOR_FEATURES = 2**17, 2**24
_LEAST, _MOST = 64, 1024


class Clusters(NamedTuple):
    """Centres, and of every token the nearest one and how far away it is."""

    centres: Float[Array, "k d"]
    nearest: Int[Array, " n"]
    away: Float[Array, " n"]


def selection(n: int, most: int, moved: float = 0.0) -> np.ndarray:
    """The places of an even selection of so many tokens at most; `moved` by a share of its spacing."""
    size = min(most, n)
    return ((np.arange(size) + moved) * n / size).astype(int)


def find_centres(tokens: Float[Array, "n d"], within: Float[Array, ""], count: int) -> Float[Array, "k d"]:
    """Centres, infinite where none is needed any more.

    Among an even selection of the tokens the one with most others within the radius stands for a cluster: the mean of
    these is its centre, they are taken away, and so on.
    """
    pool = tokens[selection(len(tokens), POOL)]
    lengths = jnp.sum(pool**2, axis=1)
    near = (lengths[:, None] + lengths - 2 * pool @ pool.T <= within**2).astype(jnp.float32)

    def step(left: Array, _: None) -> tuple[Array, Array]:
        members = near[jnp.argmax((near @ left) * left)] * left
        mass = jnp.sum(members)
        centre = jnp.where(mass > 0, members.astype(pool.dtype) @ pool / jnp.maximum(mass, 1), jnp.inf)
        return left * (1 - members), centre

    return jax.lax.scan(step, jnp.ones(len(pool), near.dtype), length=count)[1]


def squared_distances(tokens: Float[Array, "n d"], centres: Float[Array, "k d"]) -> Float[Array, "n k"]:
    """To every centre, up to rounding of squares; infinite to those that are not needed."""
    used = jnp.isfinite(centres[:, 0])
    finite = jnp.where(used[:, None], centres, 0)
    squares = jnp.sum(tokens**2, axis=1)[:, None] + jnp.sum(finite**2, axis=1) - 2 * tokens @ finite.T
    return jnp.where(used, squares, jnp.inf)


def clustered(tokens: Float[Array, "n d"], within: Float[Array, ""], count: int) -> Clusters:
    """The tokens around as many centres as they have within this radius, or `count`."""
    centres = find_centres(tokens, within, count)
    nearest = jnp.argmin(squared_distances(tokens, centres), axis=1)
    centres = jnp.where(jnp.isfinite(centres), centres, 0)
    return Clusters(centres, nearest, jnp.sqrt(jnp.sum((tokens - centres[nearest]) ** 2, axis=1)))


class Blocks(NamedTuple):
    """Tokens in blocks of one cluster each: the `cluster` of a block, the `place` of a token among all places."""

    cluster: Int[Array, " blocks"]
    place: Int[Array, " n"]
    size: int

    def arranged(self, x: Float[Array, "n ..."]) -> Float[Array, "blocks b ..."]:
        """Rows in their places, zeros where there is none."""
        length = len(self.cluster) * self.size
        rows = jnp.zeros((length, *x.shape[1:]), x.dtype).at[self.place].set(x, unique_indices=True)
        return rows.reshape(-1, self.size, *x.shape[1:])


def blocks_of(nearest: Int[Array, " n"], count: int, features: int) -> Blocks:
    """Blocks for so many clusters, as long as is good where a token has so many features."""
    numbers = _FEATURES if jax.default_backend() == "cpu" else _ACCELERATOR_FEATURES
    n, size = len(nearest), int(np.clip(numbers // features, _LEAST, _MOST))
    members = jnp.zeros(count, int).at[nearest].add(1)
    blocks = -(-members // size)
    first = jnp.cumsum(blocks) - blocks  # of each cluster
    order = jnp.argsort(nearest, stable=True)
    within = jnp.arange(n) - (jnp.cumsum(members) - members)[nearest[order]]
    place = jnp.zeros(n, int).at[order].set(first[nearest[order]] * size + within, unique_indices=True)
    most = n // size + count  # there are never more blocks
    return Blocks(jnp.searchsorted(first, jnp.arange(most), side="right") - 1, place, size)
