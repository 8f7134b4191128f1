r"""The exception: a linear activation, a density below a threshold and atoms above it.

On the circle $v=c+B\cos2(\theta-\psi)$. For $|B|\le B_c=2I_2(\beta)/\beta$ (raw) the minimiser is the density
$\frac1{2\pi}(1+c\cos2(\theta-\psi))$, $c=-\beta B/(2I_2(\beta))$; beyond, it is atomic.
"""

from __future__ import annotations

import numpy as np
from scipy.special import ive, roots_jacobi

from sphereflow import landscape
from sphereflow.claims import Check, Run, basis
from sphereflow.landscape import Problem
from sphereflow.landscape.linear import density
from sphereflow.papers.perceptrons_localization import PAPER, reference
from sphereflow.papers.perceptrons_localization.sources import LINEAR

BETA = 3.0


def threshold(beta: float) -> float:
    """B_c in the peak convention."""
    return float(2 * ive(2, beta) / beta)


def problem(ratio: float, beta: float = BETA) -> Problem:
    """One linear neuron along the first axis with B = ratio times the threshold: v = 2 B cos^2."""
    return Problem(beta, [2 * ratio * threshold(beta)], [[1.0, 0.0]], activation="linear")


def closed_energy(ratio: float, beta: float = BETA, gain: float = 16.0) -> float:
    """The energy of the density with constant part B, written with Bessel functions (peak); the right gain is 16."""
    b = ratio * threshold(beta)
    return float(ive(0, beta) / (2 * beta) + b / 2 - beta * b**2 / (gain * ive(2, beta)))


@PAPER.claim(
    "linear-density",
    says="With a linear activation and weak weights the minimiser on the circle is a density, a trigonometric "
    "polynomial of degree two, with flat first variation.",
    basis=LINEAR,
    formula=r"\rho=\frac{1+c\cos2\theta}{2\pi},\quad c=-\frac{\beta B}{2I_2(\beta)},\quad "
    r"|B|\le\frac{2I_2(\beta)}\beta",
)
def linear_density(run: Run) -> Check:
    grid = 2 * np.pi * np.arange(720) / 720
    points = np.stack([np.cos(grid), np.sin(grid)], axis=1)
    check = Check(parameters={"beta": BETA})
    uniform, other = {}, {}
    for ratio in (0.3, 0.9):
        here = problem(ratio)
        masses = density(here)(points) / 720

        def flatness(m: np.ndarray, here: Problem = here) -> float:
            return float(np.ptp(landscape.first_variation(here, points, m, points)))

        flat, by_density, by_solver = (
            f"{what}, $B={ratio:g}B_c$" for what in ("variation of g", "energy of the density", "energy found")
        )
        closed = closed_energy(ratio)
        check.row(flat, predicted=0.0, measured=flatness(masses), tolerance=1e-12, because="720 nodes: exact")
        energy = landscape.energy(here, points, masses)
        check.row(by_density, predicted=closed, measured=energy, tolerance=1e-12, because="720 nodes: exact")
        found = landscape.minimise(here, 720).energy
        check.row(by_solver, predicted=closed, measured=found, tolerance=1e-8, because="the proved gap of the solver")
        uniform[flat] = flatness(np.full(720, 1 / 720))
        other[by_density] = closed_energy(ratio, gain=8.0)
    check.null("the uniform density", uniform)
    check.rival("twice the gain in energy", other)
    return check


@PAPER.claim(
    "linear-atoms",
    says="Well beyond the threshold the minimiser is atomic: 4 and 2 atoms at 2 and 5 times the threshold, with more "
    "energy than the formula of the density.",
    basis=basis.Derived("the conditions of optimality for one linear neuron"),
    formula=r"B=2B_c:\ \theta=\tfrac\pi2\pm0.295940,\ \tfrac{3\pi}2\pm0.295940;\qquad B=5B_c:\ \theta=\pm\tfrac\pi2",
)
def linear_atoms(run: Run) -> Check:
    q = np.pi / 2
    rough = {2.0: (q - 0.3, q + 0.3, 3 * q - 0.3, 3 * q + 0.3), 5.0: (q, 3 * q)}
    check = Check(parameters={"beta": BETA})
    persists, pair = {}, {}
    for ratio, start in rough.items():
        weight = 2 * ratio * threshold(BETA)
        right = reference.minimiser(BETA, weight, start, (1 / len(start),) * len(start), "linear")
        found = landscape.minimise(problem(ratio))
        name = f"$B={ratio:g}B_c$"
        check.same(f"atoms, {name}", predicted=len(start), measured=len(found))
        check.row(
            f"reference below its multiplier, {name}",
            predicted=0.0,
            measured=right.shortfall,
            tolerance=1e-12,
            because="rounding: the reference is optimal",
        )
        if len(found) == len(start):
            check.series(
                [f"angle {i + 1}, {name}" for i in range(len(start))],
                predicted=right.angles,
                measured=found.angles,
                tolerance=1e-8,
                because="Newton's method to rounding, amplified by 1/curvature",
            )
        check.row(f"energy, {name}", predicted=right.energy, measured=found.energy, tolerance=1e-12, because="rounding")
        row = f"curvature of g at the atoms, {name}"
        check.at_least(row, bound=0.01, measured=found.curvature, relative=1e-6, because="isolated; rounding")
        persists[f"energy, {name}"] = closed_energy(ratio)
        pair[f"atoms, {name}"] = 2
    check.rival("the density persists", persists)
    check.rival("two atoms at once", pair)
    return check


@PAPER.claim(
    "linear-any-dimension",
    says="In dimensions 3 and 5 (16 in the paper preset) a weak linear neuron has a quadratic polynomial as "
    "minimiser, with its energy given by two Funk-Hecke eigenvalues.",
    basis=LINEAR,
    formula=r"\mathsf E_{min}=\frac{\Lambda_0}{2\beta}+\frac{\mathrm{tr}M}{2d}-\frac{\beta\,\mathrm{tr}M_0^2}"
    r"{4\Lambda_2d(d+2)}",
)
def linear_any_dimension(run: Run) -> Check:
    cases = [(3, 4.0, 0.02), (5, 3.0, -0.01)] + [(16, 2.0, 0.002)] * (not run.quick)
    check = Check()
    lower, trace = {}, {}
    for d, beta, w in cases:
        here = Problem(beta, [w], np.eye(1, d), activation="linear")
        right = _energy_by_quadrature(d, beta, w)
        closed, solved = (f"{what}, $d={d}$, $\\beta={beta:g}$" for what in ("closed form", "solver"))
        check.row(closed, predicted=right, measured=density(here).energy, tolerance=1e-12, because="quadrature")
        found = landscape.minimise(here).energy
        check.row(solved, predicted=right, measured=found, tolerance=1e-10, because="flat first variation: 1e-11")
        lower[closed] = _energy_by_quadrature(d, beta, w, degree=1)
        trace[closed] = _energy_by_quadrature(d, beta, w, whole=True)
    check.rival("the eigenvalue of degree one", lower)
    check.rival("the trace not taken off", trace)
    return check


def _energy_by_quadrature(d: int, beta: float, w: float, *, degree: int = 2, whole: bool = False) -> float:
    """The formula for one neuron, M = w e e^T, its two eigenvalues as means of the peak kernel over the sphere."""
    nodes, mass = roots_jacobi(80, (d - 3) / 2, (d - 3) / 2)
    kernel = mass / mass.sum() * np.exp(beta * (nodes - 1))
    constant, second = kernel.sum(), kernel @ ((d * nodes**2 - 1) / (d - 1) if degree == 2 else nodes)
    square = w**2 if whole else w**2 * (1 - 1 / d)
    return float(constant / (2 * beta) + w / (2 * d) - beta * square / (4 * second * d * (d + 2)))
