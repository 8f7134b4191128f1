r"""Do the tokens an attention head selects form a ball around their own sum that no other token enters?

For weights $\alpha_i$ and values $v_i$ let $y_i=\alpha_iv_i$, S the N tokens of largest score (ties: smaller index
first), $s_N=\sum_{i\in S}y_i$ (not renormalised), $D_i=d(y_i,s_N)$, $\rho_{min}=\min_{j\notin S}D_j$,
$\rho_{max}=\max_{i\in S}D_i$. Then

$$P_N=\frac{N}{N+|\{j\notin S:D_j\le\rho_{max}\}|},\qquad R_N=\frac{|\{i\in S:D_i<\rho_{min}\}|}{N},\qquad
  F_N=\frac{2P_NR_N}{P_N+R_N},$$

inversions $=\sum_{i\in S,j\notin S}1\{D_j\le D_i\}$ and margin $=\rho_{min}-\rho_{max}$. P and R use different radii:
F is an extremal summary, not the F-score of a classifier. N = 1 in the Euclidean distance gives F = 1 for any
selection and says nothing.

Tokens of one value, as repeated ones are in the first layer, tie in the cosine distance: there rounding decides.
Tokens are ordered by $z_i=\|y_i\|^2-2\langle s,y_i\rangle=D_i^2-\|s\|^2$: the distances themselves would tie tokens of
tiny weight through rounding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from sphereflow.errors import SphereflowError, one_of, whole_number
from sphereflow.llm.heads.arrays import PORTION_BYTES, along, beside, library, ranks, rising, where_it_lies
from sphereflow.llm.heads.control import control_tables
from sphereflow.llm.heads.counting import counted, inversions, scores
from sphereflow.results import Result, Variables, recorded_call
from sphereflow.seeds import Seed, rng_from

RANKINGS = ("attention", "contribution")
DISTANCES = ("euclidean", "cosine")
POINTS = ("weighted", "raw")
SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)

# A token of vanishing weight has no direction: with this number in the denominator its cosine distance is 1.
_COSINE_FLOOR = 1e-12


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
    values: Float[np.ndarray, "*shared L d"],
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
    values: Float[np.ndarray, "*shared L d"],
    sizes: Sequence[int] = SIZES,
    *,
    ranking: str = "attention",
    distances: Sequence[str] = DISTANCES,
    points: str = "weighted",
) -> dict[str, Separation]:
    """The metrics in several distances at once, which share most of the work.

    Heads that share their values may have an axis of length one there: weights (g, r, L), values (g, 1, L, d).
    """
    one_of("ranking", ranking, RANKINGS)
    one_of("points", points, POINTS)
    alpha, v, heads = _grouped(weights, values)
    sizes = _sizes(sizes, alpha.shape[-1])
    return _gathered(own_tables(alpha, v, sizes, distances, ranking, points), heads, sizes, distances)


def random_controls(
    weights: Float[np.ndarray, "*heads L"],
    values: Float[np.ndarray, "*shared L d"],
    sizes: Sequence[int] = SIZES,
    *,
    repeats: int = 16,
    seed: Seed | np.random.Generator = 0,
    distances: Sequence[str] = DISTANCES,
) -> dict[str, Separation]:
    """The same metrics for random rankings, nested in N, each around its own sum; averaged over the rankings.

    All heads get the same rankings. Inversions and margins are NaN: they are statements about one ranking.
    """
    alpha, v, heads = _grouped(weights, values)
    sizes = _sizes(sizes, alpha.shape[-1])
    rng = seed if isinstance(seed, np.random.Generator) else rng_from(seed)
    orders = rng.permuted(np.tile(np.arange(alpha.shape[-1]), (repeats, 1)), axis=1)
    found = control_tables(alpha[None], v[None], ranks(orders)[None], sizes, distances)[0][:, :, 0]
    unknown = np.full((len(distances), 2, *found.shape[2:]), np.nan)
    return _gathered(np.concatenate([found, unknown], axis=1), heads, sizes, distances)


@recorded_call
def random_control(
    weights: Float[np.ndarray, "*heads L"],
    values: Float[np.ndarray, "*shared L d"],
    sizes: Sequence[int] = SIZES,
    *,
    repeats: int = 16,
    seed: Seed | np.random.Generator = 0,
    distance: str = "euclidean",
) -> Separation:
    """`random_controls` in one distance."""
    one_of("distance", distance, DISTANCES)
    return random_controls(weights, values, sizes, repeats=repeats, seed=seed, distances=(distance,))[distance]


def descending(score: Float[Any, "*heads L"]) -> Int[Any, "*heads L"]:
    """Indices by falling score; equal scores in order of their index."""
    return rising(-score)


def selections(orders: Int[Any, "*k L"], sizes: Sequence[int]) -> Bool[Any, "*k N L"]:
    """Whether a token is among the first N of each order, for every N."""
    return ranks(orders)[..., None, :] < beside(orders, np.asarray(sizes)[:, None])


def without_sink(weights: Float[Any, "*heads L"], values: Float[Any, "*shared L d"]) -> tuple[Any, Any]:
    """Drop the first visible token and scale the other weights to sum one."""
    rest = weights[..., 1:]
    total = rest.sum(axis=-1)[..., None]
    return rest / library(rest).where(total > 0, total, 1.0), values[..., 1:, :]


def own_tables(
    alpha: Float[Any, "g r L"],
    v: Float[Any, "g L d"],
    sizes: tuple[int, ...],
    distances: Sequence[str] = DISTANCES,
    ranking: str = "attention",
    points: str = "weighted",
    *,
    sinkless: int = 0,
) -> Float[Any, "distance 5 g r N"]:
    """(P, R, F, inversions, margin) around the sums of the tokens a head selects, r heads sharing each values.

    For the last `sinkless` heads of each group the first token is none: neither selected nor in anybody's way.
    """
    groups, shared, length = alpha.shape
    step = max(1, PORTION_BYTES[where_it_lies(alpha)] // (8 * len(sizes) * shared * length))
    starts = range(0, groups, step)
    parts = [_own(alpha[i : i + step], v[i : i + step], sizes, distances, ranking, points, sinkless) for i in starts]
    return parts[0] if len(parts) == 1 else library(alpha).concatenate(parts, axis=2)


def _own(
    alpha: Any, v: Any, sizes: tuple[int, ...], distances: Sequence[str], ranking: str, points: str, sinkless: int
) -> Float[Any, "distance 5 g r N"]:
    lib = library(alpha)
    norm2 = (v * v).sum(axis=-1)[:, None]
    score = -alpha if ranking == "attention" else -alpha * lib.sqrt(norm2)
    if sinkless:
        score[:, -sinkless:, 0] = np.inf
    inside = selections(rising(score), sizes)
    shape = inside.shape
    sums = (inside * alpha[:, :, None]).reshape(len(v), -1, shape[-1]) @ v
    inner = (sums @ lib.swapaxes(v, 1, 2)).reshape(shape)
    square = lib.broadcast_to(norm2, alpha.shape)[:, :, None]
    if points == "weighted":
        inner *= alpha[:, :, None]
        square = square * alpha[:, :, None] ** 2
    length2 = (sums * sums).sum(axis=-1).reshape(shape[:3])
    z = {
        "euclidean": lambda: square - 2 * inner,
        "cosine": lambda: -inner / (lib.sqrt(length2)[..., None] * lib.sqrt(square) + _COSINE_FLOOR),
    }
    table = lib.stack([z[distance]() for distance in distances])
    if sinkless:
        table[:, :, -sinkless:, :, 0] = np.inf
    far, near, within, before = counted(table, inside)
    margin = (along(table, near[..., None]) - along(table, far[..., None]))[..., 0]
    if "euclidean" in distances:
        # z_1 - z_2 over the sum of the distances: its sign is exact. These are taken as norms of differences, since
        # the root of a small difference of squares would lose half of the digits.
        at = list(distances).index("euclidean")
        own = lib.ones_like(alpha) if points == "raw" else alpha
        away = sum(_away(own, v, sums.reshape(*shape[:3], -1), k[at]) for k in (near, far))
        margin[at] /= lib.where(away > 0, away, 1.0)
    return lib.stack([*scores(within, before, sizes), inversions(table, inside, sizes), margin], axis=1)


def _away(alpha: Any, v: Any, sums: Any, k: Any) -> Any:
    """$|\\alpha_kv_k-s|$ for one token k of each selection."""
    group = np.arange(len(v))[:, None, None]
    y = along(alpha[:, :, None], k[..., None]) * v[beside(v, group), k]
    return library(v).linalg.norm(y - sums, axis=-1)


def _gathered(
    table: np.ndarray, heads: tuple[int, ...], sizes: tuple[int, ...], distances: Sequence[str]
) -> dict[str, Separation]:
    """One record per distance."""
    table = table.reshape(len(distances), 5, *heads, len(sizes))
    return {distance: Separation(sizes, *rows) for distance, rows in zip(distances, table, strict=True)}


def _grouped(weights: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray, tuple[int, ...]]:
    """Weights (g, r, L) and values (g, L, d) in double precision, r heads sharing the values; the axes of heads."""
    weights, values = np.asarray(weights, dtype=float), np.asarray(values, dtype=float)
    if not (np.isfinite(weights).all() and np.isfinite(values).all()):
        raise SphereflowError("attention weights and values must be finite numbers.")
    length, d = values.shape[-2:]
    heads = weights.shape[:-1]
    shared = heads[-1] if heads and values.shape[:-2] == (*heads[:-1], 1) else 1
    if (values.shape[:-2] != heads and shared == 1) or weights.shape[-1] != length:
        raise SphereflowError(f"weights of shape {weights.shape} do not fit values of shape {values.shape}.")
    return weights.reshape(-1, shared, length), values.reshape(-1, length, d), heads


def _sizes(sizes: Sequence[int], length: int) -> tuple[int, ...]:
    sizes = tuple(whole_number("sizes", n) for n in sizes)
    if not sizes or any(b <= a for a, b in pairwise((0, *sizes))) or sizes[-1] >= length:
        raise SphereflowError(
            f"sizes must be increasing whole numbers from 1 to {length - 1}, one below the {length} visible tokens; "
            f"got {', '.join(map(str, sizes)) or 'none'}."
        )
    return sizes
