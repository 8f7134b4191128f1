r"""Where y lies given what is known, as pieces that read u and shift: $m(u)=\sum_kw_k(a_k\cdot u+b_k)_++c\cdot u+e$.

Such pieces commute and stretch nothing, so all their heights w together are a ridge regression: normals and rims are
drawn, and the weight $\lambda$ of the penalty is the one that predicts rows kept aside best. What is left of a row that
took part is smaller than that of a new one; the row is left out of its own prediction by

$$r_i=\frac{y_i-m(u_i)}{1-h_i},\qquad h=\mathrm{diag}\,F(F^TF+\lambda I)^{-1}F^T .$$
"""

from __future__ import annotations

import dataclasses

import numpy as np
from jaxtyping import Float
from scipy.linalg import cho_solve, solve_triangular

_SHIFTS = 500
_MOST_READ = 3  # columns of u that a piece reads
_ROWS = 4096
_PENALTIES = 10.0 ** np.arange(-1, 4, 0.5)


@dataclasses.dataclass(frozen=True)
class Location:
    """Normals a and rims b of the pieces, and the heights of the pieces, of the columns of u and of the constant."""

    a: Float[np.ndarray, "m p"]
    b: Float[np.ndarray, " m"]
    heights: Float[np.ndarray, " k"]

    def __call__(self, u: Float[np.ndarray, "n p"]) -> Float[np.ndarray, " n"]:
        return _predicted(u, self.a, self.b, self.heights[:, None])[:, 0]


def fit_location(
    u: Float[np.ndarray, "n p"],
    y: Float[np.ndarray, " n"],
    kept_aside: tuple[Float[np.ndarray, "m p"], Float[np.ndarray, " m"]],
    rng: np.random.Generator,
) -> tuple[Location, Float[np.ndarray, " n"]]:
    """The location of y given u, and what is left of every row when it is left out."""
    n, p = u.shape
    a = rng.standard_normal((_SHIFTS, p))
    ranks = np.argsort(rng.uniform(size=a.shape), axis=1)
    a[ranks >= rng.integers(1, _MOST_READ + 1, size=(_SHIFTS, 1))] = 0.0
    a /= np.linalg.norm(a, axis=1, keepdims=True)
    b = -np.einsum("kp,kp->k", a, u[rng.integers(n, size=_SHIFTS)])
    gram, moments = np.zeros((_SHIFTS + p + 1, _SHIFTS + p + 1)), np.zeros(_SHIFTS + p + 1)
    for rows in _blocks(n):
        table = _table(u[rows], a, b)
        gram += table.T @ table
        moments += table.T @ y[rows]
    roots = [np.linalg.cholesky(gram + penalty * np.eye(len(gram))) for penalty in _PENALTIES]
    heights = np.stack([cho_solve((root, True), moments) for root in roots], axis=1)
    aside, right = kept_aside
    best = int(np.mean((right[:, None] - _predicted(aside, a, b, heights)) ** 2, axis=0).argmin())
    left = y - _predicted(u, a, b, heights[:, [best]])[:, 0]
    for rows in _blocks(n):
        leverage = (solve_triangular(roots[best], _table(u[rows], a, b).T, lower=True) ** 2).sum(axis=0)
        left[rows] /= np.maximum(1 - leverage, 1e-6)
    return Location(a, b, heights[:, best]), left


def _predicted(u: np.ndarray, a: np.ndarray, b: np.ndarray, heights: np.ndarray) -> np.ndarray:
    """What several choices of heights, one per column, give for each row."""
    return np.concatenate([_table(u[rows], a, b) @ heights for rows in _blocks(len(u))])


def _blocks(n: int) -> list[slice]:
    """Rows at a time: a table of all rows would take hundreds of numbers for each."""
    return [slice(low, low + _ROWS) for low in range(0, max(n, 1), _ROWS)]


def _table(u: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.column_stack([np.maximum(u @ a.T + b, 0.0), u, np.ones(len(u))])
