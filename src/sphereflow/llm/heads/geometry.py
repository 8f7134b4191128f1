r"""Do the tokens an attention head selects form a ball around their own sum that no other token enters?

For weights $\alpha_i$ and values $v_i$ let $y_i=\alpha_iv_i$, S the N tokens of largest score (ties: smaller index
first), $s_N=\sum_{i\in S}y_i$ (not renormalised), $D_i=d(y_i,s_N)$, $\rho_{min}=\min_{j\notin S}D_j$,
$\rho_{max}=\max_{i\in S}D_i$. Then

$$P_N=\frac{N}{N+|\{j\notin S:D_j\le\rho_{max}\}|},\qquad R_N=\frac{|\{i\in S:D_i<\rho_{min}\}|}{N},\qquad
  F_N=\frac{2P_NR_N}{P_N+R_N},$$

inversions $=\sum_{i\in S,j\notin S}1\{D_j\le D_i\}$ and margin $=\rho_{min}-\rho_{max}$. P and R use different radii:
F is an extremal summary, not the F-score of a classifier. N = 1 in the Euclidean distance gives F = 1 for any
selection and says nothing.

Tokens are ordered by $z_i=\|y_i\|^2-2\langle s,y_i\rangle=D_i^2-\|s\|^2$: the distances themselves would tie tokens of
tiny weight through rounding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from jaxtyping import Float, Int

from sphereflow.errors import SphereflowError, one_of, whole_number
from sphereflow.results import Result, Variables, recorded_call
from sphereflow.seeds import Seed, rng_from

RANKINGS = ("attention", "contribution")
DISTANCES = ("euclidean", "cosine")
POINTS = ("weighted", "raw")
SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)

# A token of vanishing weight has no direction: with this number in the denominator its cosine distance is 1.
_COSINE_FLOOR = 1e-12

_PORTION_BYTES = 2**21
_TINY = 1e-300


@dataclass(frozen=True, eq=False, repr=False)
class Separation(Result):
    """Metrics of heads for each number N of selected tokens; every array ends in the axis of `sizes`."""

    sizes: tuple[int, ...]
    precision: Float[np.ndarray, "... N"]
    recall: Float[np.ndarray, "... N"]
    f: Float[np.ndarray, "... N"]
    inversions: Float[np.ndarray, "... N"]
    margin: Float[np.ndarray, "... N"]

    def at(self, size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(P, R, F) for this N."""
        k = self.sizes.index(size)
        return self.precision[..., k], self.recall[..., k], self.f[..., k]

    def variables(self) -> Variables:
        axes = tuple(f"axis_{i}" for i in range(self.f.ndim - 1))
        names = ("precision", "recall", "f", "inversions", "margin")
        table: Variables = {name: (("N", *axes), np.moveaxis(getattr(self, name), -1, 0)) for name in names}
        return {"N": ("N", np.array(self.sizes))} | table

    def facts(self) -> list[str]:
        shown = [self.sizes[k] for k in sorted({0, len(self.sizes) // 2, len(self.sizes) - 1})]
        means = [[f"{name} {value.mean():.3f}" for name, value in zip("PRF", self.at(n), strict=True)] for n in shown]
        heads = self.f[..., 0].size
        rows = [f"N = {n}: {', '.join(mean)}" for n, mean in zip(shown, means, strict=True)]
        return [*rows, f"means of {heads} head{'s' * (heads != 1)}"]


@recorded_call
def separation(
    weights: Float[np.ndarray, "*heads L"],
    values: Float[np.ndarray, "*heads L d"],
    sizes: Sequence[int] = SIZES,
    *,
    ranking: str = "attention",
    distance: str = "euclidean",
    points: str = "weighted",
) -> Separation:
    """The metrics of heads given by their weights (one query) and values.

    **Arguments:** `ranking` scores tokens by weight ("attention") or by norm of the contribution ("contribution");
    `points` measures distances of the contributions ("weighted") or of the values themselves ("raw") to the sum.
    """
    one_of("distance", distance, DISTANCES)
    return separations(weights, values, sizes, ranking=ranking, distances=(distance,), points=points)[distance]


def separations(
    weights: Float[np.ndarray, "*heads L"],
    values: Float[np.ndarray, "*heads L d"],
    sizes: Sequence[int] = SIZES,
    *,
    ranking: str = "attention",
    distances: Sequence[str] = DISTANCES,
    points: str = "weighted",
) -> dict[str, Separation]:
    """The metrics in several distances at once, which share most of the work."""
    one_of("ranking", ranking, RANKINGS)
    one_of("points", points, POINTS)
    flat_weights, flat_values, heads = _flat(weights, values)
    sizes = _sizes(sizes, flat_weights.shape[-1])
    found = []
    for part in _portions(flat_values, len(sizes)):
        alpha, v = flat_weights[part], flat_values[part]
        y = alpha[..., None] * v
        order = descending(alpha if ranking == "attention" else np.linalg.norm(y, axis=-1))
        rows = np.arange(len(y))[:, None]
        y = y[rows, order]
        cloud = y if points == "weighted" else v[rows, order]
        blocks = np.add.reduceat(y[:, : sizes[-1]], (0, *sizes[:-1]), axis=1)
        sums = np.cumsum(blocks, axis=1)[:, None]
        found.append(_measured(cloud, sums, None, sizes, distances))
    return _gathered(found, heads, sizes, distances)


def random_controls(
    weights: Float[np.ndarray, "*heads L"],
    values: Float[np.ndarray, "*heads L d"],
    sizes: Sequence[int] = SIZES,
    *,
    repeats: int = 16,
    seed: Seed | np.random.Generator = 0,
    distances: Sequence[str] = DISTANCES,
) -> dict[str, Separation]:
    """The same metrics for random rankings, nested in N, each around its own sum; averaged over the rankings.

    All heads get the same rankings. Inversions and margins are NaN: they are statements about one ranking.
    """
    flat_weights, flat_values, heads = _flat(weights, values)
    length = flat_weights.shape[-1]
    sizes = _sizes(sizes, length)
    rng = seed if isinstance(seed, np.random.Generator) else rng_from(seed)
    orders = rng.permuted(np.tile(np.arange(length), (repeats, 1)), axis=1)
    found = []
    for part in _portions(flat_values, repeats * len(sizes)):
        y = flat_weights[part, :, None] * flat_values[part]
        # Single precision is enough for an average over random sets, and twice as fast; only ratios matter.
        y = (y / np.maximum(np.abs(y).max(axis=(1, 2), keepdims=True), _TINY)).astype(np.float32)
        found.append(_measured(y, partial_sums(y, orders, sizes), orders, sizes, distances))
    return _gathered(found, heads, sizes, distances)


@recorded_call
def random_control(
    weights: Float[np.ndarray, "*heads L"],
    values: Float[np.ndarray, "*heads L d"],
    sizes: Sequence[int] = SIZES,
    *,
    repeats: int = 16,
    seed: Seed | np.random.Generator = 0,
    distance: str = "euclidean",
) -> Separation:
    """`random_controls` in one distance."""
    one_of("distance", distance, DISTANCES)
    return random_controls(weights, values, sizes, repeats=repeats, seed=seed, distances=(distance,))[distance]


def descending(score: Float[np.ndarray, "*heads L"]) -> Int[np.ndarray, "*heads L"]:
    """Indices by falling score; equal scores in order of their index."""
    return np.argsort(-score, axis=-1, kind="stable")


def partial_sums(
    y: Float[np.ndarray, "h L d"], orders: Int[np.ndarray, "k L"], sizes: Sequence[int]
) -> Float[np.ndarray, "h k N d"]:
    """$s_N$ for nested selections: the first N tokens of each order."""
    starts = (0, *sizes[:-1])
    blocks = [y[:, orders[:, a:b]].sum(axis=2) for a, b in zip(starts, sizes, strict=True)]
    return np.cumsum(np.stack(blocks, axis=2), axis=2)


def without_sink(
    weights: Float[np.ndarray, "*heads L"], values: Float[np.ndarray, "*heads L d"]
) -> tuple[np.ndarray, np.ndarray]:
    """Drop the first visible token and scale the other weights to sum one."""
    rest = weights[..., 1:]
    total = rest.sum(axis=-1, keepdims=True)
    return rest / np.where(total > 0, total, 1.0), values[..., 1:, :]


def _measured(
    cloud: np.ndarray, sums: np.ndarray, orders: np.ndarray | None, sizes: tuple[int, ...], distances: Sequence[str]
) -> np.ndarray:
    """(P, R, F, inversions, margin) of h heads, averaged over k rankings: an array (distance, 5, h, N).

    `cloud` is (h, L, d) and `sums` (h, k, N, d). Without `orders` the tokens of the cloud are in the order of the
    only ranking, and inversions and margins are given.
    """
    heads, k, count, d = sums.shape
    inner = (sums.reshape(heads, -1, d) @ np.swapaxes(cloud, 1, 2)).reshape(heads, k, count, -1)
    length2 = np.sum(sums**2, axis=-1)
    square = np.sum(cloud**2, axis=-1)[:, None, None]
    found = np.full((len(distances), 5, heads, count), np.nan)
    z = np.empty_like(inner)  # written in place: tables made anew would cost more than what is done with them
    for at, distance in enumerate(distances):
        if distance == "euclidean":
            np.multiply(inner, -2, out=z)
            z += square
        else:
            np.multiply(np.sqrt(length2)[..., None], np.sqrt(square), out=z)
            z += _COSINE_FLOOR
            np.divide(inner, z, out=z)
            np.negative(z, out=z)
        if orders is not None:
            for r, order in enumerate(orders):
                z[:, r] = np.take(z[:, r], order, axis=-1)
        for m, size in enumerate(sizes):
            inside, outside = z[:, :, m, :size], z[:, :, m, size:]
            far, near = inside.max(axis=-1), outside.min(axis=-1)
            precision = size / (size + _true(outside <= far[..., None]))
            recall = _true(inside < near[..., None]) / size
            table = np.stack([precision, recall, 2 * precision * recall / (precision + recall)])
            found[at, :3, :, m] = table.mean(axis=2)
            if orders is None:
                margin = _margin(near, far, length2[..., m]) if distance == "euclidean" else near - far
                found[at, 3, :, m], found[at, 4, :, m] = _inversions(inside[:, 0], outside[:, 0]), margin[:, 0]
    return found


def _true(mask: np.ndarray) -> np.ndarray:
    """How many are true in each row: by bits, faster than `count_nonzero` along an axis."""
    return np.bitwise_count(np.packbits(mask, axis=-1)).sum(axis=-1, dtype=np.int64)


def _inversions(inside: np.ndarray, outside: np.ndarray) -> list[int]:
    """Per head, the pairs of a selected and an unselected token of which the second is not farther."""
    rows = zip(inside, np.sort(outside, axis=-1), strict=True)
    return [int(np.searchsorted(others, own, side="right").sum()) for own, others in rows]


def _portions(values: np.ndarray, rows: int) -> list[slice]:
    """Heads in portions whose table of scores, `rows` by tokens for each, stays within the cache."""
    heads, length = values.shape[:2]
    step = max(1, _PORTION_BYTES // (8 * rows * length))
    return [slice(start, start + step) for start in range(0, heads, step)]


def _gathered(
    found: list[np.ndarray], heads: tuple[int, ...], sizes: tuple[int, ...], distances: Sequence[str]
) -> dict[str, Separation]:
    """All portions of heads together, then one record per distance."""
    table = np.concatenate(found, axis=2).reshape(len(distances), 5, *heads, len(sizes))
    return {distance: Separation(sizes, *rows) for distance, rows in zip(distances, table, strict=True)}


def _margin(near: np.ndarray, far: np.ndarray, length2: np.ndarray) -> np.ndarray:
    r"""$\sqrt{z_1+|s|^2}-\sqrt{z_2+|s|^2}$ as a quotient, so that its sign is that of z_1 - z_2."""
    total = np.sqrt(np.maximum(near + length2, 0)) + np.sqrt(np.maximum(far + length2, 0))
    return np.where(total > 0, (near - far) / np.where(total > 0, total, 1.0), near - far)


def _flat(weights: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray, tuple[int, ...]]:
    """Heads in one leading axis, in double precision."""
    weights, values = np.asarray(weights, dtype=float), np.asarray(values, dtype=float)
    if not (np.isfinite(weights).all() and np.isfinite(values).all()):
        raise SphereflowError("attention weights and values must be finite numbers.")
    length, d = values.shape[-2:]
    return weights.reshape(-1, length), values.reshape(-1, length, d), weights.shape[:-1]


def _sizes(sizes: Sequence[int], length: int) -> tuple[int, ...]:
    sizes = tuple(whole_number("sizes", n) for n in sizes)
    if not sizes or any(b <= a for a, b in pairwise((0, *sizes))) or sizes[-1] >= length:
        raise SphereflowError(
            f"sizes must be increasing whole numbers from 1 to {length - 1}, one below the {length} visible tokens; "
            f"got {', '.join(map(str, sizes)) or 'none'}."
        )
    return sizes
