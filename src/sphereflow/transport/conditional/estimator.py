r"""Conditional densities of tables, as a scikit-learn estimator: `fit`, `sample`, `score_samples`.

$$\log p(y\mid x)=\log\sum_j\alpha_j\,p_j(y\mid x),\qquad
p_j(y\mid x)=\prod_iN(z_i)\,\frac{\partial z_i}{\partial y_i},\quad
z_i=\Theta_{ij}\big(\Phi^{-1}F_j(r_i\mid x,r_{<i})\big),\quad
r_i=\frac{y_i-m_{ij}(x,y_{<i})}{s_{ij}},$$

coordinate after coordinate (Knothe and Rosenblatt). $F_j$ is the conditional law of a Gaussian mixture of the rows
(x, r); $m_{ij}$ is a sum of ReLU pieces that only shift (or zero, with s = 1), and $\Theta_{ij}$ a schedule of pieces
that moves the one coordinate $z_i$ and reads $(x,r_{<i})$, so x is frozen exactly. Each member is fitted without one of
the folds; the folds stop the pieces and choose the shares $\alpha$ of mixtures of different size, shifted or not.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.special import logsumexp

from sphereflow.errors import SphereflowError, whole_number
from sphereflow.reading import real_array, whole_numbers
from sphereflow.seeds import LARGEST, Seed, number_from, rng_from
from sphereflow.shapes import ArrayLike
from sphereflow.transport.conditional.boosting import Pieces, boost
from sphereflow.transport.conditional.location import Location, fit_location
from sphereflow.transport.conditional.mixture import JointMixture, fit_mixture
from sphereflow.transport.conditional.sampler import refuse_atoms

_FEWEST = 50
_ROWS_PER_COMPONENT = 4
_LOWEST_SHARE = 0.01  # members with less are left out
_TELLING = 500  # rows of a fold that say which kinds of members not to fit again: those with less than this share of it
_OUTRUN = 0.05
_NARROWEST = 1e-6  # spread of what a regression leaves of standardised y

Kind = tuple[bool, int]  # whether y is shifted first, and the size of the mixture
Shift = tuple[Location, float]  # m and s of one coordinate


@dataclasses.dataclass(frozen=True)
class Member:
    """Shifts of the coordinates of y (or none), a mixture of the rows (x, r), and the pieces of every r after it."""

    shifts: tuple[Shift, ...]
    mixture: JointMixture
    pieces: tuple[Pieces, ...]

    def log_density(self, rows: Float[np.ndarray, "n d"]) -> Float[np.ndarray, " n"]:
        """log p(y | x) at standardised rows (x, y)."""
        dx = rows.shape[1] - len(self.pieces)
        rows = _shifted(rows, self.shifts)
        total = np.zeros(len(rows)) - sum(math.log(scale) for _, scale in self.shifts)
        for i, pieces in enumerate(self.pieces, start=dx):
            start = self.mixture.conditional(i, rows[:, :i])
            z = start.normal_score(rows[:, i])
            moved, log_det = pieces.carry(rows[:, :i], z)
            total += start.log_density(rows[:, i]) + log_det + 0.5 * (z**2 - moved**2)
        return total

    def push(self, x: Float[np.ndarray, "n dx"], z: Float[np.ndarray, "n dy"]) -> Float[np.ndarray, "n dy"]:
        """y from x and standard normal z."""
        rows = x
        for pieces, normal in zip(self.pieces, z.T, strict=True):
            start = self.mixture.conditional(rows.shape[1], rows)
            rows = np.column_stack([rows, start.quantile(pieces.back(rows, normal))])
        for i, (location, scale) in enumerate(self.shifts, start=x.shape[1]):
            rows[:, i] = location(rows[:, :i]) + scale * rows[:, i]
        return rows[:, x.shape[1] :]


class ConditionalFlow:
    """The law of y given x, from a table: an estimator that scikit-learn's tools accept.

    ```python
    flow = ConditionalFlow().fit(x, y)       # rows of pairs
    flow.score_samples(x, y)                 # log p(y | x), one for each row
    flow.sample(x[:5], 1000)                 # 1000 draws of y for each of five rows
    cross_val_score(flow, x, y)              # mean log p(y | x) of rows left out
    ```

    `components` are the sizes of the mixtures that start the members, each of y itself and of what a regression on x
    leaves of it; `pieces` the most pieces of a coordinate of y after that; `folds` how many parts the rows are split
    into, each left out of one fit in turn. After `fit`, `shares_` holds the share of every mixture size,
    `shifted_` that of all members with a regression, `held_out_` the mean log-density of rows by members that did
    not see them.
    """

    def __init__(
        self, *, components: int | Sequence[int] = (1, 4, 16, 32), pieces: int = 300, folds: int = 5, seed: Seed = 0
    ) -> None:
        self.components = components
        self.pieces = pieces
        self.folds = folds
        self.seed = seed

    def fit(self, X: ArrayLike, y: ArrayLike) -> ConditionalFlow:
        """Fit to pairs: rows of X (n, dx) and of y (n, dy) or (n,)."""
        x, target = _table("X", X), _table("y", y)
        if len(x) != len(target):
            raise SphereflowError(f"X and y must be rows of pairs, got {len(x)} and {len(target)} rows.")
        if len(x) < _FEWEST:
            raise SphereflowError(f"{len(x)} rows are too few to learn a conditional law; give at least {_FEWEST}.")
        refuse_atoms(target)
        folds = whole_number("folds", self.folds, least=2, most=len(x))
        pieces = whole_number("pieces", self.pieces, least=0)
        rng = rng_from(number_from(self.seed, most=LARGEST - 1))
        rows = np.column_stack([x, target])
        self.centre_, self.scale_ = rows.mean(axis=0), _spread(rows)
        self.n_features_in_ = x.shape[1]
        self._flat = np.ndim(y) == 1
        rows = (rows - self.centre_) / self.scale_
        sizes = self._sizes(len(rows) * (folds - 1) // folds)
        kinds: list[Kind] = [(shifted, size) for shifted in (False, True) for size in sizes]
        fold = rng.permutation(len(rows)) % folds
        seen: dict[Kind, np.ndarray] = {kind: np.empty(len(rows)) for kind in kinds}
        members: dict[Kind, list[Member]] = {kind: [] for kind in kinds}
        for k in range(folds):
            kept, aside = rows[fold != k], rows[fold == k]
            shifts, rest = _located(kept, aside, x.shape[1], rng) if any(kind[0] for kind in kinds) else ((), kept)
            for kind in kinds:
                used, given = (shifts, rest) if kind[0] else ((), kept)
                member = _fitted(used, given, aside, x.shape[1], kind[1], pieces, rng)
                seen[kind][fold == k] = member.log_density(aside)
                members[kind].append(member)
            if k == 0 and len(aside) >= _TELLING:
                first = _stacked(np.stack([seen[kind][fold == 0] for kind in kinds], axis=1))
                kinds = [kind for kind, share in zip(kinds, first, strict=True) if share >= _OUTRUN]
        log_densities = np.stack([seen[kind] for kind in kinds], axis=1)
        shares = _stacked(log_densities)
        self.shares_ = dict.fromkeys(sizes, 0.0)
        for (_, size), share in zip(kinds, shares.tolist(), strict=True):
            self.shares_[size] += share
        self.shifted_ = float(sum(share for (shifted, _), share in zip(kinds, shares, strict=True) if shifted))
        mixed = logsumexp(log_densities + np.log(np.maximum(shares, 1e-300)), axis=1)
        self.held_out_ = float(mixed.mean() - self._log_volume)
        chosen = [
            (share / folds, member) for share, kind in zip(shares, kinds, strict=True) for member in members[kind]
        ]
        chosen = [(share, member) for share, member in chosen if share * folds >= _LOWEST_SHARE]
        weights = np.array([share for share, _ in chosen])
        self.weights_, self.members_ = weights / weights.sum(), tuple(member for _, member in chosen)
        return self

    def score_samples(self, X: ArrayLike, y: ArrayLike) -> Float[np.ndarray, " n"]:
        """log p(y | x) for every row, in the units of y."""
        x, target = self._given(X), _table("y", y)
        if target.shape != (len(x), len(self.scale_) - self.n_features_in_):
            raise SphereflowError(
                f"y must have {len(x)} rows as X and the columns it was fitted to, got {np.shape(y)}."
            )
        rows = np.column_stack([x, (target - self.centre_[-target.shape[1] :]) / self.scale_[-target.shape[1] :]])
        terms = [np.log(w) + member.log_density(rows) for w, member in zip(self.weights_, self.members_, strict=True)]
        return logsumexp(terms, axis=0) - self._log_volume

    def score(self, X: ArrayLike, y: ArrayLike) -> float:
        """Mean of log p(y | x) in nats: larger is better."""
        return float(self.score_samples(X, y).mean())

    def sample(self, X: ArrayLike, m: int = 1, seed: Seed = 0) -> Float[np.ndarray, "..."]:
        """m draws of y for every row of X: shape (n, m, dy), or (n, m) if y was given without an axis for columns."""
        x = np.repeat(self._given(X), whole_number("m", m), axis=0)
        rng = rng_from(seed)
        dy = len(self.scale_) - self.n_features_in_
        z, which = rng.standard_normal((len(x), dy)), rng.choice(len(self.weights_), len(x), p=self.weights_)
        y = np.empty_like(z)
        for j, member in enumerate(self.members_):
            if (which == j).any():
                y[which == j] = member.push(x[which == j], z[which == j])
        y = (y * self.scale_[-dy:] + self.centre_[-dy:]).reshape(-1, m, dy)
        return y[..., 0] if self._flat else y

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The arguments of the constructor, as they were given."""
        return {name: getattr(self, name) for name in ("components", "pieces", "folds", "seed")}

    def set_params(self, **params: Any) -> ConditionalFlow:
        for name, value in params.items():
            if name not in self.get_params():
                raise SphereflowError(f"ConditionalFlow has no parameter {name!r}; it has {list(self.get_params())}.")
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        return f"ConditionalFlow({', '.join(f'{name}={value!r}' for name, value in self.get_params().items())})"

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "members_")

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import Tags, TargetTags  # only scikit-learn itself asks for this

        return Tags(estimator_type="density_estimator", target_tags=TargetTags(required=True, multi_output=True))

    @property
    def _log_volume(self) -> float:
        return float(np.log(self.scale_[self.n_features_in_ :]).sum())

    def _sizes(self, rows: int) -> list[int]:
        """The mixture sizes that were asked for, as far as there are rows for them."""
        asked = self.components if np.iterable(self.components) else [self.components]
        sizes = sorted(set(whole_numbers("components", asked)))
        if not sizes:
            raise SphereflowError("components must name at least one size of a mixture, got none.")
        most = max(1, rows // (_ROWS_PER_COMPONENT * len(self.scale_)))
        return sorted({min(k, most) for k in sizes})

    def _given(self, X: ArrayLike) -> np.ndarray:
        if not self.__sklearn_is_fitted__():
            raise SphereflowError("this ConditionalFlow is not fitted yet: call fit(X, y) first.")
        x = _table("X", X)
        dx = self.n_features_in_
        if x.shape[1] != dx:
            raise SphereflowError(f"X must have the {dx} columns it was fitted to, got shape {np.shape(X)}.")
        return (x - self.centre_[:dx]) / self.scale_[:dx]


def _table(name: str, given: ArrayLike) -> Float[np.ndarray, "n d"]:
    table = real_array(name, given)
    table = table[:, None] if table.ndim == 1 else table
    if table.ndim != 2 or 0 in table.shape:
        raise SphereflowError(f"{name} must have shape (rows, columns) with neither zero, got {table.shape}.")
    if np.abs(table).max() > 1e100:
        raise SphereflowError(f"{name} must be numbers whose squares are finite, got {np.abs(table).max():.3g}.")
    return table


def _spread(rows: np.ndarray) -> np.ndarray:
    """Standard deviations, one where a column is constant; squares of tiny numbers would be zero."""
    away = rows - rows.mean(axis=0)
    largest = np.abs(away).max(axis=0)
    largest = np.where(largest > 0, largest, 1.0)
    found = largest * (away / largest).std(axis=0)
    return np.where(found > 0, found, 1.0)


def _located(
    rows: np.ndarray, kept_aside: np.ndarray, dx: int, rng: np.random.Generator
) -> tuple[tuple[Shift, ...], np.ndarray]:
    """The shifts of all coordinates, and the rows (x, r) with every r as if its row had been left out."""
    shifts, rest = [], rows.copy()
    for i in range(dx, rows.shape[1]):
        aside = kept_aside[:, :i], kept_aside[:, i]
        location, left = fit_location(rows[:, :i], rows[:, i], aside, rng)
        scale = max(float(left.std()), _NARROWEST)
        shifts.append((location, scale))
        rest[:, i] = left / scale
    return tuple(shifts), rest


def _shifted(rows: np.ndarray, shifts: tuple[Shift, ...]) -> np.ndarray:
    """Rows (x, r) of rows (x, y)."""
    rest = rows.copy()
    for i, (location, scale) in enumerate(shifts, start=rows.shape[1] - len(shifts)):
        rest[:, i] = (rows[:, i] - location(rows[:, :i])) / scale
    return rest


def _fitted(
    shifts: tuple[Shift, ...],
    rows: np.ndarray,
    kept_aside: np.ndarray,
    dx: int,
    size: int,
    pieces: int,
    rng: np.random.Generator,
) -> Member:
    """A member from rows (x, r), stopped by rows (x, y) kept aside."""
    mixture, kept_aside = fit_mixture(rows, size, rng), _shifted(kept_aside, shifts)
    found = []
    for i in range(dx, rows.shape[1]):
        z, y = (mixture.conditional(i, part[:, :i]).normal_score(part[:, i]) for part in (rows, kept_aside))
        found.append(boost(rows[:, :i], z, (kept_aside[:, :i], y), pieces, rng))
    return Member(shifts, mixture, tuple(found))


def _stacked(log_densities: Float[np.ndarray, "n m"], steps: int = 300) -> Float[np.ndarray, " m"]:
    """Shares of m densities that make their mixture most likely at rows none of them has seen."""
    shares = np.full(log_densities.shape[1], 1 / log_densities.shape[1])
    for _ in range(steps):
        terms = log_densities + np.log(np.maximum(shares, 1e-300))
        shares = np.exp(terms - logsumexp(terms, axis=1, keepdims=True)).mean(axis=0)
    return shares
