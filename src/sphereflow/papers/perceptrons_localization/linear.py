r"""The exception: a linear activation, a density below a threshold and atoms above it.

On the circle $v=c+B\cos2(\theta-\psi)$. For $|B|\le B_c=2I_2(\beta)/\beta$ (raw) the minimiser is the density
$\frac1{2\pi}(1+c\cos2(\theta-\psi))$, $c=-\beta B/(2I_2(\beta))$; beyond, it is atomic.
"""

from __future__ import annotations

import numpy as np
from scipy.special import iv, ive, roots_jacobi

from sphereflow import landscape
from sphereflow.claims import Measurement, Run, agreement
from sphereflow.landscape import Problem
from sphereflow.landscape.linear import density
from sphereflow.papers.perceptrons_localization import PAPER

BETA = 3.0


def threshold(beta: float) -> float:
    """B_c in the peak convention."""
    return float(2 * ive(2, beta) / beta)


def problem(ratio: float, beta: float = BETA) -> Problem:
    """One linear neuron along the first axis with B = ratio times the threshold: v = 2 B cos^2."""
    return Problem(beta, [2 * ratio * threshold(beta)], [[1.0, 0.0]], activation="linear")


def closed_energy(ratio: float, beta: float = BETA) -> float:
    """The energy of the density with constant part B, written with Bessel functions (peak)."""
    b = ratio * threshold(beta)
    return float(ive(0, beta) / (2 * beta) + b / 2 - beta * b**2 / (16 * ive(2, beta)))


@PAPER.claim(
    "linear-density",
    statement="With a linear activation and weak weights the minimiser is a density, a trigonometric polynomial of "
    "degree two, with flat first variation.",
    source="Remark on genericity: linear activation is the exception",
    formula=r"\rho=\frac{1+c\cos2\theta}{2\pi},\quad c=-\frac{\beta B}{2I_2(\beta)},\quad "
    r"|B|\le\frac{2I_2(\beta)}\beta",
    falsifier="a factor 2 in 1/(2 beta) or in v/2",
)
def linear_density(run: Run) -> Measurement:
    ratios = (0.3, 0.9)
    grid = 2 * np.pi * np.arange(720) / 720
    points = np.stack([np.cos(grid), np.sin(grid)], axis=1)
    flatness, by_density, by_solver, closed = [], [], [], []
    for ratio in ratios:
        here = problem(ratio)
        rho = density(here)
        masses = rho(points) / 720
        g = landscape.first_variation(here, points, masses, points)
        flatness.append(np.ptp(g))
        by_density.append(landscape.energy(here, points, masses))
        by_solver.append(landscape.minimise(here, 720).energy)
        closed.append(closed_energy(ratio))
    return agreement(
        [0.0, 0.0, *closed, *closed],
        [*flatness, *by_density, *by_solver],
        absolute=[1e-12] * 4 + [1e-8] * 2,
        because="sums over 720 equally spaced nodes are exact to rounding; the solver bounds its own error by 1e-8",
        labels=tuple(
            f"{what}, B = {r:g} B_c"
            for what in ("variation of g", "energy of the density", "energy found")
            for r in ratios
        ),
        parameters={"beta": BETA},
    )


@PAPER.claim(
    "linear-atoms",
    statement="Beyond the threshold the minimiser becomes atomic: 12, 4 and 2 atoms at 1.1, 2 and 5 times the "
    "threshold, with an energy above the formula of the density.",
    source="Remark on genericity, beyond the threshold",
    formula=r"B=2B_c:\ \theta=\tfrac\pi2\pm0.295940,\ \tfrac{3\pi}2\pm0.295940;\qquad B=5B_c:\ \theta=\pm\tfrac\pi2",
    falsifier="a density that persists, or atoms whose first variation has no curvature",
)
def linear_atoms(run: Run) -> Measurement:
    found = {ratio: landscape.minimise(problem(ratio)) for ratio in (1.1, 2.0, 5.0)}
    raw = np.exp(BETA)
    excess = [raw * (found[r].energy - closed_energy(r)) for r in (1.1, 2.0, 5.0)]
    quarter = np.pi / 2
    places = np.concatenate([found[2.0].angles, found[5.0].angles])
    expected = [
        quarter - 0.295940,
        quarter + 0.295940,
        3 * quarter - 0.295940,
        3 * quarter + 0.295940,
        quarter,
        3 * quarter,
    ]
    return agreement(
        [12, 4, 2, 6.461e-9, 3.7567e-2, 1.79998, 0.0154, 0.246, *expected],
        [*(len(found[r]) for r in (1.1, 2.0, 5.0)), *excess, found[2.0].curvature, found[5.0].curvature, *places],
        absolute=[0, 0, 0, 1e-12, 6e-7, 6e-6, 6e-5, 6e-4] + [6e-7] * 6,
        because="reference values with the digits given; counts are exact",
        labels=(
            "atoms at 1.1",
            "atoms at 2",
            "atoms at 5",
            "raw excess at 1.1",
            "raw excess at 2",
            "raw excess at 5",
            "curvature at 2",
            "curvature at 5",
            *(f"angle {i + 1}" for i in range(6)),
        ),
        parameters={"beta": BETA, "threshold (raw)": round(float(2 * iv(2, BETA) / BETA), 6)},
    )


@PAPER.claim(
    "linear-any-dimension",
    statement="In every dimension a weak linear perceptron has a quadratic polynomial as minimiser, with its energy "
    "given by two Funk-Hecke eigenvalues.",
    source="Remark on genericity, extended to all dimensions",
    formula=r"\mathsf E_{min}=\frac{\Lambda_0}{2\beta}+\frac{\mathrm{tr}M}{2d}-\frac{\beta\,\mathrm{tr}M_0^2}"
    r"{4\Lambda_2d(d+2)}",
    falsifier="an eigenvalue of another degree or dimension",
)
def linear_any_dimension(run: Run) -> Measurement:
    cases = [(3, 4.0, 0.02), (5, 3.0, -0.01)] + [(16, 2.0, 0.002)] * (not run.quick)
    here = [Problem(beta, [w], np.eye(1, d), activation="linear") for d, beta, w in cases]
    closed = [_energy_by_quadrature(*case) for case in cases]
    return agreement(
        [*closed, *closed],
        [*(density(p).energy for p in here), *(landscape.minimise(p).energy for p in here)],
        absolute=[1e-12] * len(cases) + [1e-10] * len(cases),
        because="quadrature to 1e-13; the solver certifies its energy to about 1e-11 where the first variation is flat",
        labels=tuple(
            f"{what}, d={d}, beta={b:g}, weight {w:g}" for what in ("closed form", "solver") for d, b, w in cases
        ),
    )


def _energy_by_quadrature(d: int, beta: float, w: float) -> float:
    """The formula for one neuron, M = w e e^T, its two eigenvalues as means of the peak kernel over the sphere."""
    nodes, mass = roots_jacobi(80, (d - 3) / 2, (d - 3) / 2)
    kernel = mass / mass.sum() * np.exp(beta * (nodes - 1))
    constant, second = kernel.sum(), kernel @ ((d * nodes**2 - 1) / (d - 1))
    return float(constant / (2 * beta) + w / (2 * d) - beta * w**2 * (1 - 1 / d) / (4 * second * d * (d + 2)))
