r"""Wasserstein distances with a certificate: a plan from above, dual potentials from below.

$$\sum_ia_iu_i+\sum_jb_jv_j\ \le\ W_p^p\ \le\ \sum_{ij}\pi_{ij}\,\rho(x_i,y_j)^p,\qquad u_i+v_j\le\rho(x_i,y_j)^p .$$

Any plan is a bound from above, any potentials that satisfy the inequality one from below; nothing has to be believed of
the solver. For equal numbers of equal masses the plan is an assignment and the potentials are shortest paths in its
residual graph; otherwise both come from a linear programme. Potentials are lowered until they are feasible in doubles.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy
from jaxtyping import Float

from sphereflow.errors import SphereflowError, real_number
from sphereflow.numerics.unit_vectors import angles, unit
from sphereflow.reading import real_array

_MOST_PAIRS = 150_000  # of a linear programme
_MOST_EQUAL = 3000


class Bounds(NamedTuple):
    """Between these lies W_p of the two clouds."""

    lower: float
    upper: float


def wasserstein_bounds(
    x: Float[np.ndarray, "n d"],
    y: Float[np.ndarray, "m d"],
    p: float = 2.0,
    *,
    x_weights: Float[np.ndarray, " n"] | None = None,
    y_weights: Float[np.ndarray, " m"] | None = None,
) -> Bounds:
    """Certified bounds on W_p along the sphere between two clouds, of equal masses unless weights are given."""
    p = real_number("p", p, least=1)
    first, second = (real_array(name, cloud) for name, cloud in (("x", x), ("y", y)))
    if first.ndim != 2 or second.ndim != 2 or first.shape[1] != second.shape[1] or 0 in (len(first), len(second)):
        raise SphereflowError(f"two clouds (n, d) of one dimension are compared; got {first.shape}, {second.shape}.")
    if min(np.linalg.norm(first, axis=1).min(), np.linalg.norm(second, axis=1).min()) == 0:
        raise SphereflowError("the clouds must lie on the sphere: a point is zero.")
    alike = len(first) == len(second) and x_weights is None and y_weights is None
    if len(first) * len(second) > (_MOST_EQUAL**2 if alike else _MOST_PAIRS):
        raise SphereflowError(
            f"bounds take clouds of at most {_MOST_EQUAL} equal masses, or {_MOST_PAIRS} pairs with weights, "
            f"got {len(first)} and {len(second)} points."
        )
    a, b = masses("x_weights", x_weights, len(first)), masses("y_weights", y_weights, len(second))
    cost = angles(unit(first)[:, None], unit(second)[None]) ** p
    upper, potential = _assigned(cost) if alike else _programmed(cost, a, b)
    # Feasible by construction: the largest u for this v, then the largest v for that u.
    u = np.min(cost - potential, axis=1)
    v = np.min(cost - u[:, None], axis=0)
    rounding = 1e-15 * max(float(cost.max()), 1e-300) * 4
    lower = float(a @ u + b @ v) - rounding
    return Bounds(max(lower, 0.0) ** (1 / p), max(upper, 0.0) ** (1 / p))


def masses(name: str, weights: object, n: int) -> np.ndarray:
    """Masses of n points that sum to one, 1/n each unless they are given."""
    if weights is None:
        return np.full(n, 1 / n)
    given = real_array(name, weights)
    if given.shape != (n,) or given.min() < 0 or given.sum() <= 0:
        raise SphereflowError(f"{name} must be {n} numbers, not negative, with a positive sum.")
    return given / given.sum()


def _assigned(cost: np.ndarray) -> tuple[float, np.ndarray]:
    """(cost of the best assignment, potentials of the columns) by Bellman and Ford on the residual graph."""
    rows, columns = scipy.optimize.linear_sum_assignment(cost)
    used = cost[rows, columns]
    v = np.zeros(len(cost))
    slack = cost - used[:, None]  # row i, matched with column c(i), lets v_j exceed v_{c(i)} by at most slack[i, j]
    for _ in range(len(cost)):
        lowered = np.min(slack + v[columns][:, None], axis=0)
        if not (lowered < v - 1e-15).any():
            break
        v = np.minimum(v, lowered)
    return float(used.mean()), v


def _programmed(cost: np.ndarray, a: np.ndarray, b: np.ndarray) -> tuple[float, np.ndarray]:
    """(cost of a plan with these masses, potentials of the columns) by a linear programme."""
    n, m = cost.shape
    i, j = np.divmod(np.arange(n * m), m)
    ones = np.ones(2 * n * m)
    table = scipy.sparse.coo_matrix(
        (ones, (np.concatenate([i, n + j]), np.tile(np.arange(n * m), 2))), shape=(n + m, n * m)
    )
    # SciPy takes sparse tables here, its annotations do not say so.
    optimum = scipy.optimize.linprog(cost.ravel(), A_eq=table.tocsr(), b_eq=np.concatenate([a, b]))  # type: ignore[call-overload]
    if optimum.x is None:
        raise SphereflowError(f"the transport problem could not be solved: {optimum.message}")
    plan = _with_masses(np.maximum(optimum.x.reshape(n, m), 0), a, b)
    return float(np.sum(plan * cost)), np.asarray(optimum.eqlin.marginals[n:])


def _with_masses(plan: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The plan, scaled down where it carries too much and filled up by a product where too little."""
    rows = plan.sum(axis=1)
    plan = plan * np.minimum(1, a / np.where(rows > 0, rows, 1))[:, None]
    columns = plan.sum(axis=0)
    plan = plan * np.minimum(1, b / np.where(columns > 0, columns, 1))
    left, right = a - plan.sum(axis=1), b - plan.sum(axis=0)
    missing = left.sum()
    return plan + np.outer(left, right) / missing if missing > 0 else plan
