r"""All stationary measures of a few atoms, with their index, not only minimisers (peak convention).

Two atoms of mass 1/2 at $\theta_1,\theta_2$ are stationary where $F_i=g'(\theta_i)$ vanishes. The zeros of F on the
torus are counted by its winding numbers around small cells, independently of the library's search; the alternating sum
of their indices is the Euler characteristic of the torus, zero.
"""

from __future__ import annotations

import math

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


@PAPER.claim(
    "stationary-pairs",
    says="For two gelu neurons at $\\beta=3$ all stationary pairs of equal atoms are listed, each proved and the list "
    "proved complete: as many of even and of odd index as winding numbers count. They are isolated, and more than the "
    "pairs of critical points of the potential.",
    basis=basis.Derived("Morse theory on the torus of two angles; the paper's theorem says that they are atomic"),
    formula=r"\sum_{\text{stationary}}(-1)^{\mathrm{index}}=\chi(T^2)=0",
)
def stationary_pairs(run: Run) -> Check:
    here = Problem(BETA, OUTER, INNER, activation="gelu")
    found = landscape.critical_points(here, 2, starts=100, seed=run.seed)
    even, odd = winding_counts(500)
    numbers = found.by_index
    check = Check(
        note=f"{numbers.tolist()} points of index 0, 1, 2 (the order of the atoms counts).",
        parameters={"beta": BETA, "cells": found.cells},
    )
    check.same("points of even index", predicted=even, measured=float(numbers[::2].sum()))
    check.same("points of odd index", predicted=odd, measured=float(numbers[1::2].sum()))
    check.same("proved complete", predicted=1, measured=float(found.complete and found.certified))
    least = float(found.margin.min())
    check.at_least("smallest eigenvalue in size", bound=1e-4, measured=least, tolerance=1e-10, because="isolated")
    first, second = found.angles.T
    residual = "largest field at the points, written out"
    left = np.abs([slope(first, second), slope(second, first)]).max()
    check.row(residual, predicted=0.0, measured=left, tolerance=1e-10, because="Newton's method ends in rounding")
    check.null("the potential alone", {residual: float(np.abs(slope(first, second, 0.0)).max())})
    alone = winding_counts(500, interaction=0.0)
    check.rival(
        "pairs of critical points of the potential", {"points of even index": alone[0], "points of odd index": alone[1]}
    )
    check.rival("minimisers only", {"points of odd index": 0})
    return check


@PAPER.claim(
    "stationary-lists",
    says="The lists of stationary measures of one to three equal atoms (four in the paper preset) are proved "
    "complete for gelu and a function that is not built in (silu; tanh and softplus in the paper preset), on the "
    "circle, and of one atom on $S^2$; their indices add up to the Euler characteristic, which the proof does not "
    "use. For relu every Dirac on an arc where no neuron acts is stationary.",
    basis=basis.Extension("all critical points of given masses, not only minimisers"),
    formula=r"\sum_{\text{stationary}}(-1)^{\mathrm{index}}=\chi(S^{d-1})^m",
)
def stationary_lists(run: Run) -> Check:
    check = Check(parameters={"beta": BETA})
    silu = landscape.Activation(lambda s: s / (1 + np.exp(-s)), name="silu", strip=np.pi)
    minima = {}
    kinds: tuple[str | landscape.Activation, ...] = ("gelu", "tanh", "softplus", silu)
    lists: list[tuple[str | landscape.Activation, int]] = [("gelu", 1), ("gelu", 3), (silu, 2)]
    if not run.quick:
        lists = [(kind, m) for kind in kinds for m in (1, 2, 3, 4)]
    for kind, m in lists:
        found = landscape.critical_points(Problem(BETA, OUTER, INNER, activation=kind), m, starts=100, seed=run.seed)
        name = f"{kind}, {m} atom{'s' * (m != 1)}"
        check.same(f"complete, {name}", predicted=1, measured=float(found.complete and found.certified))
        check.same(f"alternating sum, {name}", predicted=0, measured=found.alternating_sum)
        # On a torus there are at least as many points of index k as k-dimensional holes.
        least = int(np.min(found.by_index - [math.comb(m, k) for k in range(m + 1)]))
        check.at_least(f"points beyond the Betti numbers, {name}", bound=0, measured=least, because="Morse inequality")
        minima[f"alternating sum, {name}"] = float(found.by_index[0])
    rng = np.random.default_rng(5)
    inner = rng.normal(size=(3, 3))
    sphere = Problem(BETA, rng.normal(size=3), inner, activation="gelu")
    found = landscape.critical_points(sphere, 1, starts=100, seed=run.seed)
    check.same("complete, gelu on $S^2$", predicted=1, measured=float(found.complete and found.certified))
    check.same("alternating sum, gelu on $S^2$", predicted=2, measured=found.alternating_sum)
    relu = landscape.critical_points(Problem(BETA, OUTER, INNER), 1, starts=20, seed=run.seed)
    for end, predicted in zip(("start", "end"), (2.0 + np.pi / 2, 1.5 * np.pi), strict=True):
        check.row(
            f"{end} of the arc without neurons",
            predicted=predicted,
            measured=relu.arcs[0, int(end == "end")] if len(relu.arcs) else np.nan,
            tolerance=1e-3,
            because="cells next to its ends are split to 1e-4",
        )
    check.rival("minima only", minima)
    check.rival("the Euler characteristic of the circle", {"alternating sum, gelu on $S^2$": 0})
    check.rival("no continuum of stationary Diracs", {"start of the arc without neurons": 1.5 * np.pi})
    return check
