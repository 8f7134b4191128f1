r"""The random control: the same metrics for the first N tokens of random rankings, with and without the first token.

A random ranking of all tokens is one of the others when the first, the sink, is left out. So one set of rankings gives
both controls: the N tokens "without sink" are those "with sink" unless the sink is among them, and around the same sum
the same distances order the tokens, since leaving out the sink only scales the other weights. With z of all tokens,

$$\rho_{max}=\max_{S\setminus0}z,\quad\rho_{min}=\min_{S^c\setminus0}z$$

are those without the sink, and $z_0$ joins one of the two where it counts. The cosine distance is that to the direction
of a token; one without weight has none, and cosine 0.

Single precision is enough for an average over random sets, and twice as fast; only ratios matter, so the largest
coordinate of a head is 1.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int, Real

from sphereflow.llm.heads.arrays import PORTION_BYTES, along, beside, library, ranks, rising, single, where_it_lies
from sphereflow.llm.heads.counting import edge, scores

_LEAST_SHARE = 1e-15
_TABLES = 4  # of a portion at once


@dataclass(frozen=True)
class Sets:
    """Random sets of tokens, one per row: for each ranking and N, then those that differ where the sink is left out.

    `far` and `near` are infinite so that an extreme leaves out the other side, and the sink if there is one; `place`
    are the rows of the sets without it.
    """

    chosen: Float[Any, "layer 1 row L"]
    far: Float[Any, "layer 1 row L"]
    near: Float[Any, "layer 1 row L"]
    has_first: Bool[Any, "layer 1 row"]
    place: Int[Any, "layer 1 kN"] | None

    def of(self, layer: slice) -> Sets:
        place = None if self.place is None else self.place[layer]
        return Sets(self.chosen[layer], self.far[layer], self.near[layer], self.has_first[layer], place)


def control_tables(
    alpha: Float[Any, "layer g r L"],
    v: Float[Any, "layer g L d"],
    keys: Real[np.ndarray, "layer k L"],
    sizes: tuple[int, ...],
    distances: Sequence[str],
    *,
    sink: bool = False,
) -> list[Float[Any, "distance 3 layer g r N"]]:
    """(P, R, F) averaged over the k rankings of each layer by rising key; with `sink` a second table without it."""
    layers, groups, shared, length = alpha.shape
    repeats, count = keys.shape[1], len(sizes)
    sets = _sets(alpha, keys, sizes, sink)
    lib = library(alpha)
    found: list[list[Any]] = [[] for _ in range(1 + sink)]
    for layer, group in _portions(alpha, sets.chosen.shape[2]):
        y = _contributions(alpha[layer, group], v[layer, group], sink)
        counts = _counts(y.reshape(len(y), -1, length, y.shape[-1]), sets.of(layer), distances, repeats * count)
        for tables, each in zip(found, counts, strict=True):
            within, before = (part.reshape(len(distances), -1, shared, repeats, count) for part in each)
            tables.append(lib.stack(scores(within, before, sizes), axis=1).mean(axis=-2))
    full = (len(distances), 3, layers, groups, shared, count)
    return [lib.concatenate(tables, axis=2).reshape(full) for tables in found]


def _sets(alpha: Any, keys: np.ndarray, sizes: Sequence[int], sink: bool) -> Sets:
    """The first N tokens of each ranking; with `sink` also those of the ranking without the first token."""
    layers, _, length = keys.shape
    lib = library(alpha)
    rank = ranks(rising(beside(alpha, keys)))[:, :, None]
    bound = beside(alpha, np.asarray(sizes)[:, None])
    rows, place = (rank < bound).reshape(layers, -1, length), None
    if sink:
        # How many sets the sink is in is known in main memory, where the keys come from.
        among = (keys < keys[..., :1]).sum(axis=-1)[..., None] < np.asarray(sizes)
        among = among.reshape(layers, -1)
        most, own = int(among.sum(axis=-1).max()), among.shape[1]
        differing = np.argsort(~among, axis=-1, kind="stable")[:, :most]
        place = beside(alpha, np.where(among, own + np.cumsum(among, axis=-1) - 1, np.arange(own)))[:, None]
        rest = rank - lib.where(rank > rank[..., :1], 1, 0)
        rest[..., 0] = length
        without = (rest < bound).reshape(layers, -1, length)
        at = beside(alpha, np.arange(layers)[:, None]), beside(alpha, differing)
        rows = lib.concatenate([rows, without[at]], axis=1)
    rows = rows[:, None]
    chosen = single(rows)
    far = edge(rows, chosen)
    near = far + 0
    if sink:
        far[..., 0], near[..., 0] = -np.inf, np.inf
    return Sets(chosen, far, near, rows[..., 0], place)


def _portions(alpha: Any, rows: int) -> Iterator[tuple[slice, slice]]:
    """Layers and groups of heads of which the tables have about the bytes of a portion."""
    layers, groups, shared, length = alpha.shape
    fitting = max(1, PORTION_BYTES[where_it_lies(alpha)] // (4 * _TABLES * rows * length * shared))
    several = max(1, fitting // groups)
    for layer in range(0, layers, several):
        for group in range(0, groups, min(groups, fitting)):
            yield slice(layer, layer + several), slice(group, group + min(groups, fitting))


def _contributions(alpha: Any, v: Any, sink: bool) -> Any:
    """The contributions of tokens in single precision, (layer, g, r, L, d), the largest coordinate of a head 1.

    Beside a sink it is that of the other tokens, whose squares would vanish if they were measured by a sink that is
    far longer; its own squares stay finite.
    """
    lib = library(alpha)
    size = alpha * lib.amax(abs(v), axis=-1)[:, :, None]
    scale = lib.amax(size, axis=-1)[..., None]
    if sink:
        scale = lib.maximum(lib.amax(size[..., 1:], axis=-1)[..., None], _LEAST_SHARE * scale)
    return single(alpha / lib.where(scale > 0, scale, 1.0))[..., None] * single(v)[:, :, None]


def _counts(
    y: Float[Any, "layer h L d"], sets: Sets, distances: Sequence[str], own: int
) -> list[tuple[Float[Any, "distance layer h kN"], Float[Any, "distance layer h kN"]]]:
    """Tokens within the farthest selected, and before the nearest other; then the same without the sink."""
    lib = library(y)
    square = (y * y).sum(axis=-1)
    length = lib.sqrt(square)
    directed = 1 / lib.where(length > 0, length, np.inf)
    inner = (-2 * (sets.chosen @ y)) @ lib.swapaxes(y, -1, -2)
    spare = lib.empty_like(inner)
    found = []
    for k, distance in enumerate(distances):
        last = k == len(distances) - 1
        z = inner if last else lib.empty_like(inner)
        if distance == "euclidean":
            lib.add(inner, square[..., None, :], out=z)
        else:
            lib.multiply(inner, directed[..., None, :], out=z)
        found.append(_tallied(z, sets, spare, own))
    return [tuple(lib.stack(each) for each in zip(*pair, strict=True)) for pair in zip(*found, strict=True)]


def _tallied(z: Any, sets: Sets, spare: Any, own: int) -> list[tuple[Any, Any]]:
    """The counts (within, before) of each row for one distance."""
    lib = library(z)

    def tally(compare: Any, rows: slice, bound: Any) -> Any:
        # Ones are written and added as numbers of z's own kind, which is several times as fast as with truth values.
        return compare(z[..., rows, :], bound[..., None], out=spare[..., rows, :]).sum(axis=-1)

    far = lib.amax(lib.minimum(z, sets.far, out=spare), axis=-1)
    near = lib.amin(lib.maximum(z, sets.near, out=spare), axis=-1)
    every, first = slice(None), slice(own)
    if sets.place is None:
        return [(tally(lib.less_equal, every, far), tally(lib.less, every, near))]
    of_sink = z[..., 0]
    joined = lib.where(sets.has_first, lib.maximum(far, of_sink), far)
    nearest = lib.where(sets.has_first, near, lib.minimum(near, of_sink))
    within, before = tally(lib.less_equal, every, joined), tally(lib.less, every, near)
    whole = within[..., first], tally(lib.less, first, nearest[..., first])
    place = lib.broadcast_to(sets.place, (*z.shape[:2], own))
    rest = within - single(of_sink <= joined), before - single(of_sink < near)
    return [whole, (along(rest[0], place), along(rest[1], place))]
