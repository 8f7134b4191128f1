r"""All stationary pairs of atoms on the circle, with their index, not only minimisers (peak convention).

Two atoms of mass 1/2 at $\theta_1,\theta_2$ are stationary where $F_i=g'(\theta_i)$ vanishes. The zeros of F on the
torus are counted by its winding numbers around small cells, and found by Newton's method with the library's Hessian;
the alternating sum of their indices is the Euler characteristic of the torus, zero.
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtr

from sphereflow import landscape
from sphereflow.claims import Check, Run, basis
from sphereflow.landscape import Problem
from sphereflow.papers.perceptrons_localization import PAPER

BETA = 3.0
OUTER = np.array([1.0, -0.8])
INNER = np.array([[1.0, 0.0], [1.5 * np.cos(2.0), 1.5 * np.sin(2.0)]])


def slope(theta: np.ndarray, other: np.ndarray, interaction: float = 1.0) -> np.ndarray:
    """g' at one atom of an equal pair, for two gelu neurons, written out."""
    x, turned = np.stack([np.cos(theta), np.sin(theta)]), np.stack([-np.sin(theta), np.cos(theta)])
    pull = np.zeros_like(theta)
    for weight, a in zip(OUTER, INNER, strict=True):
        s = np.tensordot(a, x, 1)
        pull += weight * s * ndtr(s) * np.tensordot(a, turned, 1)
    apart = theta - other
    return np.asarray(pull - interaction * np.sin(apart) * np.exp(BETA * (np.cos(apart) - 1)) / 2)


def winding_counts(cells: int, interaction: float = 1.0) -> tuple[int, int]:
    """How many cells of a grid on the torus have winding number +1 and -1: zeros of even and of odd index."""
    theta = 2 * np.pi * (np.arange(cells) + 0.37) / cells
    first, second = np.meshgrid(theta, theta + 0.21 * 2 * np.pi / cells, indexing="ij")
    angle = np.arctan2(slope(second, first, interaction), slope(first, second, interaction))
    corners = [np.roll(angle, shift, (0, 1)) for shift in ((0, 0), (-1, 0), (-1, -1), (0, -1))]
    turns = sum(
        np.mod(b - a + np.pi, 2 * np.pi) - np.pi for a, b in zip(corners, [*corners[1:], corners[0]], strict=True)
    )
    winding = np.rint(turns / (2 * np.pi))
    return int(np.sum(winding > 0)), int(np.sum(winding < 0))


def newton(here: Problem, start: np.ndarray) -> np.ndarray | None:
    """A zero of the field near a start, by Newton's method with steps of at most 0.3; None without convergence."""
    theta = start.copy()
    for _ in range(60):
        x = np.stack([np.cos(theta), np.sin(theta)], axis=1)
        pull = np.sum(landscape.field(here, x) * np.stack([-np.sin(theta), np.cos(theta)], axis=1), axis=1)
        if np.abs(pull).max() < 1e-11:
            return np.mod(theta, 2 * np.pi)
        # The Hessian is that of the energy, whose gradient is the field times the masses.
        step = np.linalg.lstsq(2 * landscape.hessian(here, theta), pull, rcond=1e-12)[0]
        theta = theta - step * min(1.0, 0.3 / max(np.abs(step).max(), 1e-300))
    return None


@PAPER.claim(
    "stationary-pairs",
    says="For two gelu neurons at $\\beta=3$ the stationary pairs of equal atoms are isolated; Newton's method "
    "finds as many of even and of odd index as winding numbers count, and their alternating sum is zero. They are "
    "more than the pairs of critical points of the potential.",
    basis=basis.Derived("Morse theory on the torus of two angles; the paper's theorem says that they are atomic"),
    formula=r"\sum_{\text{stationary}}(-1)^{\mathrm{index}}=\chi(T^2)=0",
)
def stationary_pairs(run: Run) -> Check:
    here = Problem(BETA, OUTER, INNER, activation="gelu")
    side = 9 if run.quick else 18
    starts = 2 * np.pi * (np.arange(side) + 0.5) / side
    found: list[np.ndarray] = []
    for i, a in enumerate(starts):
        for b in starts[i:]:
            theta = newton(here, np.array([a, b + 0.01]))
            for point in [] if theta is None else [theta, theta[::-1]]:
                if not any(np.abs(np.exp(1j * point) - np.exp(1j * known)).max() < 1e-6 for known in found):
                    found.append(point)
    spectra = [np.linalg.eigvalsh(landscape.hessian(here, point)) for point in found]
    index = np.array([int(np.sum(values < 0)) for values in spectra])
    even, odd = winding_counts(500)
    check = Check(
        note=f"{[int(np.sum(index == k)) for k in range(3)]} points of index 0, 1, 2 (the order of the atoms counts).",
        parameters={"beta": BETA, "starts": side * (side + 1) // 2},
    )
    check.same("points of even index", predicted=even, measured=float(np.sum(index % 2 == 0)))
    check.same("points of odd index", predicted=odd, measured=float(np.sum(index % 2 == 1)))
    check.same("alternating sum of the indices", predicted=0, measured=float(np.sum((-1.0) ** index)))
    least = min(float(np.abs(values).min()) for values in spectra)
    check.at_least("smallest eigenvalue in size", bound=1e-4, measured=least, because="isolated")
    first, second = np.array(found).T
    residual = "largest field at the points, written out"
    left = np.abs([slope(first, second), slope(second, first)]).max()
    check.row(residual, predicted=0.0, measured=left, tolerance=1e-10, because="Newton's method stops at 1e-11")
    check.null("the potential alone", {residual: float(np.abs(slope(first, second, 0.0)).max())})
    alone = winding_counts(500, interaction=0.0)
    check.rival(
        "pairs of critical points of the potential", {"points of even index": alone[0], "points of odd index": alone[1]}
    )
    check.rival("minimisers only", {"points of odd index": 0})
    return check
