r"""Weighted atoms: tokens that have collapsed, as points $x_k$ with masses $\alpha_k$, $\sum_k\alpha_k=1$.

$$\dot x_i = P_{x_i}\frac{\sum_{j\ne i}\alpha_j e^{L_{ij}}x_j}{\alpha_i+\sum_{j\ne i}\alpha_j e^{L_{ij}}}\ \text{(SA)},
  \qquad \dot x_i = P_{x_i}\sum_{j\ne i}\alpha_j e^{L_{ij}}x_j\ \text{(USA)},
  \qquad L_{ij}=\beta(\langle x_i,x_j\rangle-1).$$

The factors $e^{L}$ fall below the smallest double once $\beta(1-\cos)>745$. So the common factor $e^{C}$,
$C=\max_{i\ne j}L_{ij}$, is carried apart: the true velocity is $e^C$ times the one returned.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import minimum_spanning_tree
from scipy.spatial import cKDTree

from sphereflow.errors import SphereflowError
from sphereflow.numerics.unit_vectors import angles
from sphereflow.sphere import tokens

# A velocity this much smaller than the pulls it is the sum of is rounding: the atoms balance on a saddle.
_BALANCED = 1e-12


class ScaledField(NamedTuple):
    """Velocities divided by $e^{C}$, the scale C, the size of the pulls that were added up, and all exponents."""

    velocity: Float[np.ndarray, "k d"]
    scale: float
    pull: float
    exponents: Float[np.ndarray, "k k"]

    @property
    def log_speed(self) -> float:
        r"""$\log\sqrt{\sum_i|\dot x_i|^2}$, also where the speed itself underflows."""
        size = float(np.linalg.norm(self.velocity))
        return self.scale + float(np.log(size)) if size > 0 else -np.inf

    @property
    def balanced(self) -> bool:
        """Whether the pulls cancel to rounding, as in a symmetric configuration."""
        return bool(np.linalg.norm(self.velocity) <= _BALANCED * self.pull)


@dataclass(frozen=True, eq=False)
class Atoms:
    """Positions (k, d), masses (k,), and the name (a number) that each atom has in the merge tree."""

    positions: Float[np.ndarray, "k d"]
    masses: Float[np.ndarray, " k"]
    names: Int[np.ndarray, " k"]

    def __len__(self) -> int:
        return len(self.masses)

    @property
    def d(self) -> int:
        return self.positions.shape[1]


def exponents(x: np.ndarray, beta: float) -> np.ndarray:
    r"""$L_{ij}=\beta(\langle x_i,x_j\rangle-1)$ with $-\infty$ on the diagonal."""
    table = beta * (x @ x.T - 1)
    table.flat[:: len(x) + 1] = -np.inf
    return table


def scaled_field(x: Float[np.ndarray, "k d"], masses: Float[np.ndarray, " k"], beta: float, kind: str) -> ScaledField:
    """Velocity of unit atoms without its common exponential factor."""
    table = exponents(x, beta)
    scale = float(table.max())
    weights = np.exp(table - scale) * masses
    pull = weights @ x
    # Removing the radial part of each pull leaves the tangent one; |pull - <pull, x> x| has no large cancellation
    # because a pull and its radial part differ at first order in the angle.
    velocity = pull - np.einsum("kd,kd->k", pull, x)[:, None] * x
    strength = weights.sum(axis=1)
    if kind == "sa":
        denominators = masses + np.exp(scale) * strength
        velocity /= denominators[:, None]
        strength = strength / denominators
    size = math.sqrt(strength @ strength)
    return ScaledField(velocity, scale, size, table)


def real_tokens(name: str, x: object) -> Float[np.ndarray, "n d"]:
    """Tokens as a user gives them: real unit vectors in one system."""
    points = np.asarray(tokens(x, name), dtype=float)
    if points.ndim != 2 or np.iscomplexobj(np.asarray(x)):
        raise SphereflowError(f"{name} must be real numbers of the shape (n, d), got the shape {points.shape}.")
    return points


def normalised_energy(x: Float[np.ndarray, "k d"], masses: Float[np.ndarray, " k"], beta: float) -> float:
    r"""$2\beta E_\beta=\sum_{kl}\alpha_k\alpha_l e^{\beta(\langle x_k,x_l\rangle-1)}\in(0,1]$; 1 for one cluster."""
    total = 0.0
    for start in range(0, len(x), 2048):  # never an array of more than 2048 rows
        rows = slice(start, start + 2048)
        gaps = np.minimum(x[rows] @ x.T - 1, 0)
        total += float(masses[rows] @ np.exp(beta * gaps) @ masses)
    return total


def all_angles(x: Float[np.ndarray, "k d"]) -> Float[np.ndarray, "k k"]:
    """Geodesic distances of all pairs, infinite on the diagonal."""
    table = angles(x[:, None], x)
    np.fill_diagonal(table, np.inf)
    return table


def close_pairs(x: Float[np.ndarray, "k d"], radius: float) -> list[tuple[float, int, int]]:
    """(distance, i, j), i < j, for pairs nearer than `radius`, nearest first.

    All of them while there are at most as many as atoms; beyond that a spanning forest, which connects the same atoms.
    """
    pairs = cKDTree(x).query_pairs(radius, output_type="ndarray")
    lengths = np.linalg.norm(x[pairs[:, 0]] - x[pairs[:, 1]], axis=1)
    if len(pairs) > len(x):
        stored = lengths + 1e-200  # a stored zero would mean "no edge"
        forest = minimum_spanning_tree(coo_matrix((stored, pairs.T), shape=(len(x), len(x)))).tocoo()
        pairs, lengths = np.stack([forest.row, forest.col], axis=1), forest.data
    order = np.argsort(lengths, kind="stable")
    return [(float(lengths[k]), int(min(pairs[k])), int(max(pairs[k]))) for k in order]
