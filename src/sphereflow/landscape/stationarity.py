r"""The stationarity equations of m atoms with given masses, and what proves or excludes their solutions.

$$F_i(x)=\nabla g(x_i)=\sum_{j\ne i}m_j\,k\,T_{x_i}^\top x_j+\tfrac12\nabla v(x_i)=0,\qquad i=1,\dots,m .$$

Along geodesics $\xi_j$ of length at most $r_j$ from a centre, in transported frames, $|F(x)-F(c)-J\xi|\le R$ with

$$R_i=\tfrac12\sum_{j\ne i}m_jC(\psi_{ij})(r_i+r_j)^2+\tfrac12C_vr_i^2+\text{jump}_i\,r_i,\qquad
  C(\psi)=e^{\beta(\cos\psi-1)}(\beta^2\sin^3\psi+3\beta\sin\psi+1),$$

C at its largest within reach. With $Y=J^{-1}$ a zero in the cell has $|\xi_i+(YF)_i|\le\sum_j|Y_{ij}|R_j$. Therefore a
cell is empty if that cannot be; a point is near a zero if the map $-Y(F+\rho)$ takes a small ball into itself
(Brouwer); and the zero is the only one in every ball of radius r with $\sum_j|Y_{ij}|R_j(r)<r$.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from sphereflow.landscape.activation import Activation
from sphereflow.landscape.potential import kink_jumps, respond, third_derivative_bound
from sphereflow.landscape.problem import Problem
from sphereflow.numerics.unit_vectors import angles, exponential, tangent_frames

_TABLE = 4001


class Linearised(NamedTuple):
    """F (B, m, p) and its Jacobian (B, m, p, m, p) at B configurations."""

    value: np.ndarray
    jacobian: np.ndarray


@dataclass(frozen=True, eq=False)
class Equations:
    """F for one problem (in the peak convention) and one vector of masses."""

    problem: Problem
    masses: Float[np.ndarray, " m"]

    @property
    def p(self) -> int:
        return self.problem.d - 1

    def linearised(self, x: Float[np.ndarray, "B m d"]) -> Linearised:
        count, m, d = x.shape
        beta, inner, outer = self.problem.beta, self.problem.inner, self.problem.outer
        frames = tangent_frames(x.reshape(-1, d)).reshape(count, m, d, self.p)
        overlap = np.einsum("bid,bjd->bij", x, x)
        peak = np.exp(beta * (overlap - 1)) * self.masses * (1 - np.eye(m))
        along = np.einsum("bidp,bjd->bijp", frames, x)  # T_i^T x_j
        plain = x @ inner.T
        value, slope = respond(self.problem.activation, (plain + self.problem.bias).reshape(-1, len(outer)))[1:]
        value, slope = value.reshape(plain.shape) * outer, slope.reshape(plain.shape) * outer
        neurons = np.einsum("bidp,ad->biap", frames, inner)
        force = np.einsum("bij,bijp->bip", peak, along) + np.einsum("bia,biap->bip", value, neurons)
        jacobian = np.einsum("bij,bidp,bjdq->bipjq", peak, frames, frames)
        jacobian += beta * np.einsum("bij,bijp,bjiq->bipjq", peak, along, along)
        own = beta * np.einsum("bij,bijp,bijq->bipq", peak, along, along)
        own += np.einsum("bia,biap,biaq->bipq", slope, neurons, neurons)
        turning = np.einsum("bij,bij->bi", peak, overlap) + np.einsum("bia,bia->bi", value, plain)
        own -= turning[:, :, None, None] * np.eye(self.p)
        index = np.arange(m)
        jacobian[:, index, :, index, :] += np.moveaxis(own, 1, 0)
        return Linearised(force, jacobian)

    def remainder(self, x: Float[np.ndarray, "B m d"], radii: Float[np.ndarray, "B m"]) -> Float[np.ndarray, "B m"]:
        """R_i: how much F can differ from its linearisation within these distances."""
        m, d = x.shape[1:]
        reach = radii[:, :, None] + radii[:, None]
        nearest = np.maximum(angles(x[:, :, None], x[:, None]) - reach, 0.0)
        pairs = self.third(nearest) * reach**2 * self.masses * (1 - np.eye(m))
        flat = x.reshape(-1, d)
        arguments = flat @ self.problem.inner.T + self.problem.bias
        jumps = kink_jumps(self.problem, arguments, radii.ravel()).reshape(radii.shape)
        return np.asarray(pairs.sum(axis=2) / 2 + self.potential_third * radii**2 / 2 + jumps * radii)

    def silent(self, x: Float[np.ndarray, "B d"], radii: Float[np.ndarray, " B"]) -> Bool[np.ndarray, " B"]:
        """Whether no neuron acts anywhere within these distances: v is constant there."""
        s = x @ self.problem.inner.T + self.problem.bias
        reach = np.linalg.norm(self.problem.inner, axis=1) * radii[:, None]
        return np.all(_dead(self.problem, s, reach) | (self.problem.outer == 0), axis=1)

    def moved(self, x: Float[np.ndarray, "B m d"], steps: Float[np.ndarray, "B m p"]) -> Float[np.ndarray, "B m d"]:
        count, m, d = x.shape
        points = x.reshape(-1, d)
        tangent = np.einsum("ndp,np->nd", tangent_frames(points), steps.reshape(-1, self.p))
        return exponential(points, tangent).reshape(count, m, d)

    def third(self, nearest: np.ndarray) -> np.ndarray:
        """C, at its largest for angles of at least these."""
        return np.interp(nearest, *self._envelope)

    @cached_property
    def potential_third(self) -> float:
        """C_v, the bound of third derivatives of v / 2."""
        return third_derivative_bound(self.problem)

    @cached_property
    def _envelope(self) -> tuple[np.ndarray, np.ndarray]:
        """C at angles from 0 to pi, each the largest from there on; a little more, for what lies between the nodes."""
        beta = self.problem.beta
        # Nodes crowd at zero, where the kernel is narrow.
        psi = np.pi * np.linspace(0, 1, _TABLE) ** 2
        last = np.sin(psi) if self.p == 1 else np.ones_like(psi)
        bound = np.exp(-2 * beta * np.sin(psi / 2) ** 2) * (
            (beta * np.sin(psi)) ** 2 * np.sin(psi) + 3 * beta * np.sin(psi) + last
        )
        falling = np.maximum.accumulate(bound[::-1])[::-1]
        return psi, np.concatenate([falling[:1], falling[:-1]]) * 1.001


def blocks(matrix: np.ndarray) -> np.ndarray:
    """Sizes (B, m, m) of the p x p blocks of (B, m, p, m, p)."""
    return np.asarray(np.sqrt(np.einsum("bipjq,bipjq->bij", matrix, matrix)))


def inverse(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Inverses of (B, m, p, m, p), and which of them can be trusted."""
    count, m, p = matrix.shape[:3]
    flat = matrix.reshape(count, m * p, m * p)
    with np.errstate(all="ignore"):
        regular = np.linalg.cond(flat) < 1e12
    safe = np.where(regular[:, None, None], flat, np.eye(m * p))
    return np.linalg.inv(safe).reshape(matrix.shape), regular


def empty(equations: Equations, x: np.ndarray, radii: np.ndarray) -> np.ndarray:
    """Which cells, products of balls, are proved to hold no stationary configuration."""
    value, jacobian = equations.linearised(x)
    rest = equations.remainder(x, radii)
    size = np.linalg.norm(value, axis=2)
    excluded = np.any(size > np.einsum("bij,bj->bi", blocks(jacobian), radii) + rest, axis=1)
    left = np.flatnonzero(~excluded)
    if len(left):
        back, regular = inverse(jacobian[left])
        newton = np.linalg.norm(np.einsum("bipjq,bjq->bip", back, value[left]), axis=2)
        spread = np.einsum("bij,bj->bi", blocks(back), rest[left])
        excluded[left] = regular & np.any(newton > radii[left] + spread, axis=1)
    return excluded


def proved(equations: Equations, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For each configuration: a radius within which a zero exists (NaN if not proved), and one with no other (0)."""
    value, jacobian = equations.linearised(x)
    back, regular = inverse(jacobian)
    newton = np.linalg.norm(np.einsum("bipjq,bjq->bip", back, value), axis=2).max(axis=1)
    size, ones = blocks(back), np.ones(x.shape[:2])

    def spread(radius: np.ndarray) -> np.ndarray:
        rest = equations.remainder(x, radius[:, None] * ones)
        return np.asarray(np.einsum("bij,bj->bi", size, rest).max(axis=1))

    existence = np.full(len(x), np.nan)
    rounding = 1e-15 * size.sum(axis=2).max(axis=1)
    for factor in (2.0, 8.0, 32.0):
        radius = factor * (newton + rounding)
        good = regular & (newton + rounding + spread(radius) <= radius) & np.isnan(existence)
        existence[good] = radius[good]
    low, high = np.zeros(len(x)), np.full(len(x), np.pi / 2)
    for _ in range(40):
        middle = (low + high) / 2
        fits = spread(middle) < 0.99 * middle - newton
        low, high = np.where(fits, middle, low), np.where(fits, high, middle)
    return existence, np.where(np.isnan(existence), 0.0, low)


def newton(equations: Equations, x: np.ndarray, steps: int = 60, longest: float = 0.3) -> tuple[np.ndarray, np.ndarray]:
    """Regularised Newton steps from all configurations at once; where they ended, and the largest |F| there."""
    flat = (len(equations.masses) * equations.p,)
    for _ in range(steps):
        value, jacobian = equations.linearised(x)
        f, matrix = value.reshape(len(x), *flat), jacobian.reshape(len(x), *flat, *flat)
        square = np.einsum("bki,bkj->bij", matrix, matrix)
        shift = 1e-3 * np.sum(f**2, axis=1) + 1e-13 * np.einsum("bii->b", square) + 1e-200
        square += shift[:, None, None] * np.eye(*flat)
        move = -np.linalg.solve(square, np.einsum("bki,bk->bi", matrix, f)[..., None])[..., 0]
        longest_move = np.abs(move).max(axis=1, keepdims=True)
        move *= np.minimum(1.0, longest / np.maximum(longest_move, 1e-300))
        x = equations.moved(x, move.reshape(value.shape))
    return x, np.linalg.norm(equations.linearised(x).value, axis=2).max(axis=1)


def _dead(problem: Problem, s: np.ndarray, reach: np.ndarray) -> np.ndarray:
    if problem.activation == "relu":
        return s + reach <= 0
    if isinstance(problem.activation, Activation):
        dead = np.zeros(s.shape, dtype=bool)
        for piece in problem.activation.pieces(float((np.abs(s) + reach).max(initial=0.0))):
            if np.abs(piece.series[1]).max() == 0:
                dead |= (s - reach >= piece.low) & (s + reach <= piece.high)
        return dead
    return np.zeros(s.shape, dtype=bool)
