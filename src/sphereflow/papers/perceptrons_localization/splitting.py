r"""One relu neuron that attracts, $\omega=-w$: the splitting of a Dirac into two atoms, then three (peak convention).

$$w<1:\quad\cos2\delta=1-\frac{\ln(1/w)}\beta,\qquad \mathsf E=\frac{1+w}{4\beta}-\frac w2\cos^2\delta .$$
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import brentq

from sphereflow import landscape
from sphereflow.claims import Check, Run
from sphereflow.landscape import Problem
from sphereflow.landscape.solve import grid_atoms
from sphereflow.papers.perceptrons_localization import PAPER, reference
from sphereflow.papers.perceptrons_localization.sources import EXAMPLE

BETAS, WEIGHTS = (5.0, 10.0, 20.0), (0.98, 0.9, 0.7, 0.5)
NODES = 1440


def problem(beta: float, w: float, d: int = 2) -> Problem:
    """One relu neuron along the first axis with outer weight -w."""
    return Problem(beta, [-w], np.eye(1, d))


def half_angle(beta: float, w: float) -> float:
    return float(np.arccos(1 + np.log(w) / beta) / 2)


def pair_energy(beta: float, w: float) -> float:
    return float((1 + w) / (4 * beta) - w / 2 * np.cos(half_angle(beta, w)) ** 2)


def _name(beta: float, w: float) -> str:
    return f"$\\beta={beta:g}$, $w={w:g}$"


@PAPER.claim(
    "splitting",
    says=r"At $\beta=5$, 10 and 20, for weights from 0.98 down to $w=1/2$, the minimiser is two equal atoms at a "
    "distance given in closed form. (Below a smaller weight there is a third atom.)",
    basis=EXAMPLE,
    formula=r"\cos2\delta=1-\frac{\ln(1/w)}\beta,\qquad\mathsf E=\frac{1+w}{4\beta}-\frac w2\cos^2\delta",
)
def splitting(run: Run) -> Check:
    check = Check(parameters={"nodes": NODES})
    dirac, whole = {}, {}
    for beta in BETAS:
        for w in WEIGHTS:
            found = landscape.minimise(problem(beta, w), NODES)
            name, delta = _name(beta, w), half_angle(beta, w)
            check.same(f"atoms, {name}", predicted=2, measured=len(found))
            angles = np.sort(np.mod(found.angles + np.pi, 2 * np.pi) - np.pi)
            because = "Newton's method to rounding, amplified by 1/curvature"
            for what, right, got in (("-delta", -delta, angles[0]), ("delta", delta, angles[-1])):
                check.row(f"{what}, {name}", predicted=right, measured=got, tolerance=1e-9, because=because)
            check.row(f"mass, {name}", predicted=0.5, measured=found.masses[0], tolerance=1e-9, because=because)
            right = pair_energy(beta, w)
            check.row(f"energy, {name}", predicted=right, measured=found.energy, tolerance=1e-12, because="rounding")
            dirac[f"energy, {name}"] = 1 / (2 * beta) - w / 2
            whole[f"delta, {name}"] = 2 * delta
    check.rival("the Dirac stays the minimiser", dirac)
    check.rival(r"$\cos\delta$ in place of $\cos2\delta$", whole)
    return check


@PAPER.claim(
    "splitting-on-a-grid",
    says="The convex program on the grid alone finds the two atoms within half a grid step, each on at most two nodes.",
    basis=EXAMPLE,
)
def splitting_on_a_grid(run: Run) -> Check:
    check = Check(parameters={"nodes": NODES})
    merged, whole = {}, {}
    for beta in BETAS:
        for w in WEIGHTS:
            atoms, nodes = grid_atoms(problem(beta, w), NODES)
            angles = np.abs(np.arctan2(atoms.points[:, 1], atoms.points[:, 0]))
            energy = landscape.energy(problem(beta, w), atoms.points, atoms.masses)
            name, delta = _name(beta, w), half_angle(beta, w)
            check.same(f"atoms, {name}", predicted=2, measured=len(atoms))
            check.at_most(f"nodes of an atom, {name}", bound=2, measured=int(nodes.max()), because="a count")
            step = np.pi / NODES
            got = angles.max()
            check.row(f"delta, {name}", predicted=delta, measured=got, tolerance=step, because="half a grid step")
            right = pair_energy(beta, w)
            check.row(f"energy, {name}", predicted=right, measured=energy, tolerance=1e-6, because="the step squared")
            merged[f"delta, {name}"] = 0.0
            whole[f"delta, {name}"] = 2 * delta
    check.rival("one atom", merged)
    check.rival(r"$\cos\delta$ in place of $\cos2\delta$", whole)
    return check


@PAPER.claim(
    "dirac-threshold",
    says=r"The Dirac at the neuron is a strict second-order point at $w=1/2$ and $2$, but the global minimiser only "
    r"from a threshold on: the larger of 1 and $2(1-e^{-2\beta})/\beta$, for seven $\beta$ from 0.5 to 10.",
    basis=EXAMPLE,
    formula=r"w_c=\max\Big(1,\ \frac{2(1-e^{-2\beta})}\beta\Big),\qquad\mathrm{Hess}=w",
)
def dirac_threshold(run: Run) -> Check:
    betas = np.array([0.5, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0])
    nodes = np.linspace(0, np.pi, 4001)[1:]
    circle = np.stack([np.cos(nodes), np.sin(nodes)], axis=1)
    north = np.array([[1.0, 0.0]])

    def least(beta: float, w: float) -> float:
        """The smallest (g - lambda) / (1 - cos), negative where the Dirac is not optimal."""
        g = landscape.first_variation(problem(beta, w), north, [1.0], np.concatenate([circle, north]))
        return float(np.min((g[:-1] - g[-1]) / (1 - np.cos(nodes))))

    check = Check()
    names = [f"threshold at $\\beta={b:g}$" for b in betas]
    far = 2 * -np.expm1(-2 * betas) / betas
    check.series(
        names,
        predicted=np.maximum(1, far),
        measured=[brentq(lambda w, b=b: least(b, w), 0.3, 4.0, xtol=1e-9) for b in betas],
        tolerance=5e-6,
        because="the nearest node resolves the threshold to beta/2 times its 1 - cos, 1.5e-6",
    )
    for w in (0.5, 2.0):
        margin = landscape.inspect(problem(5.0, w), north).margin
        check.row(
            f"second-order margin at $w={w:g}$", predicted=w, measured=margin, tolerance=1e-12, because="rounding"
        )
    check.rival("one at every temperature", dict.fromkeys(names, 1.0))
    check.rival(r"$\max(1,2/\beta)$", dict(zip(names, np.maximum(1, 2 / betas), strict=True)))
    check.rival("from every positive Hessian on", dict.fromkeys(names, 0.0))
    return check


@PAPER.claim(
    "third-atom",
    says=r"A third atom appears where the first variation of the pair touches its minimum at the middle, or, at "
    r"$\beta=3$, on the far side of the circle first.",
    basis=EXAMPLE,
    formula=r"g(0)=\lambda\quad\text{or}\quad g(\pi)=\lambda,\qquad\lambda=\tfrac{1+w}{2\beta}-\tfrac w2\cos^2\delta",
)
def third_atom(run: Run) -> Check:
    betas = (3.0, 5.0, 10.0, 20.0, 100.0)

    def excess(beta: float, w: float) -> float:
        delta = half_angle(beta, w)
        at = np.array([[1.0, 0.0], [np.cos(delta), np.sin(delta)]])
        g = landscape.first_variation(problem(beta, w), np.array([delta, -delta]), [0.5, 0.5], at)
        return float(g[0] - g[1])

    def plain(beta: float, w: float, far: bool = False) -> float:
        """g - lambda of the pair at the middle, or on the far side, from its closed form."""
        c = np.cos(half_angle(beta, w))
        multiplier = (1 + w) / (2 * beta) - w / 2 * c**2
        return float(np.exp(beta * (-c - 1 if far else c - 1)) / beta - (0 if far else w / 2) - multiplier)

    middle = {b: brentq(lambda w, b=b: plain(b, w), 0.2, 0.6, xtol=1e-13) for b in betas}
    first = middle | {3.0: brentq(lambda w: plain(3.0, w, True), 0.51, 0.9, xtol=1e-13)}
    check = Check(note=f"At beta = 3 the pair is undercut at the far side from w = {first[3.0]:.6f} on.")
    for b in betas:
        root = brentq(lambda w, b=b: excess(b, w), 0.2, 0.6, xtol=1e-12)
        check.row(f"middle, $\\beta={b:g}$", predicted=middle[b], measured=root, tolerance=1e-9, because="bisection")
        for side, shift, count in (("above", 2e-4, 2), ("below", -2e-4, 3)):
            found = len(landscape.minimise(problem(b, first[b] + shift)))
            check.same(f"atoms {side} the transition, $\\beta={b:g}$", predicted=count, measured=found)
    right = reference.minimiser(5.0, -0.3, (-0.5, 0.0, 0.5), (0.3, 0.4, 0.3))
    three = landscape.minimise(problem(5.0, 0.3))
    check.same(f"atoms, {_name(5, 0.3)}", predicted=3, measured=len(three))
    check.row(
        f"energy, {_name(5, 0.3)}", predicted=right.energy, measured=three.energy, tolerance=1e-12, because="exact"
    )
    check.row("multiplier", predicted=right.multiplier, measured=three.multiplier, tolerance=1e-11, because="exact")
    check.row(
        "heaviest mass", predicted=right.masses.max(), measured=three.masses.max(), tolerance=1e-9, because="exact"
    )
    check.rival("the middle first at $\\beta=3$ too", {"atoms below the transition, $\\beta=3$": 2})
    limit = brentq(lambda w: w**0.25 - (1 + w) / 2 + w / 4 * np.log(w), 0.1, 0.6)
    check.rival(r"the limit $\beta\to\infty$", {f"middle, $\\beta={b:g}$": limit for b in betas})
    return check
