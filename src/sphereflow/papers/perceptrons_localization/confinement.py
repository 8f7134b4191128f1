r"""One relu neuron that repels, $\omega=+1$: finitely many atoms in the inactive half circle (peak convention)."""

from __future__ import annotations

import numpy as np

from sphereflow import landscape
from sphereflow.claims import Check, Run, basis
from sphereflow.landscape import Problem
from sphereflow.landscape.solve import grid_atoms
from sphereflow.papers.perceptrons_localization import PAPER, reference
from sphereflow.papers.perceptrons_localization import linear as linear_neuron
from sphereflow.papers.perceptrons_localization.sources import CIRCLE

GRIDS = (360, 1440, 5760)


def problem(beta: float, weight: float = 1.0) -> Problem:
    return Problem(beta, [weight], [[1.0, 0.0]])


@PAPER.claim(
    "half-circle",
    says="A repelling relu neuron leaves 4, 6, 8 atoms at $\\beta=2,5,10$ (9 and 7 for weaker weights); angles, masses "
    "and energies are those of the conditions of optimality, written out.",
    basis=CIRCLE,
    formula=r"g'(\theta_i)=0,\quad g(\theta_i)=\lambda,\quad g\ge\lambda",
)
def half_circle(run: Run) -> Check:
    check = Check()
    equal, fewer = {}, {}
    for beta, weight in reference.ROUGH:
        right = reference.repelled(beta, weight)
        found = landscape.minimise(problem(beta, weight))
        name = f"$\\beta={beta:g}$, weight ${weight:.4g}$"
        k = len(right.angles)
        check.same(f"atoms, {name}", predicted=k, measured=len(found))
        check.row(
            f"reference below its multiplier, {name}",
            predicted=0.0,
            measured=right.shortfall,
            tolerance=1e-13,
            because="rounding: the reference is optimal",
        )
        if len(found) == k:
            because = "Newton's method to rounding, amplified by 1/curvature"
            for what, wanted, got in (("angle", right.angles, found.angles), ("mass", right.masses, found.masses)):
                names = [f"{what} {i + 1}, {name}" for i in range(k)]
                check.series(names, predicted=wanted, measured=got, tolerance=1e-7, because=because)
        energy = f"energy, {name}"
        check.row(energy, predicted=right.energy, measured=found.energy, tolerance=1e-12, because="rounding")
        check.row(
            f"multiplier, {name}",
            predicted=right.multiplier,
            measured=found.multiplier,
            tolerance=1e-12,
            because="rounding",
        )
        check.row(f"proved gap, {name}", predicted=0.0, measured=found.gap, tolerance=1e-10, because="certified")
        flat = np.full(k, 1 / k)
        g = reference.variation(right.angles, right.angles, flat, beta, weight)[0]
        half = reference.half_potential(right.angles, weight, "relu")[0]
        equal[energy] = float(flat @ (g + half) / 2)
        fewer[f"atoms, {name}"] = k - 1
    check.rival("the same atoms with equal masses", equal)
    check.rival("one atom fewer", fewer)
    return check


@PAPER.claim(
    "grid-independence",
    says="For a repelling relu neuron the number of atoms does not depend on the grid, and on every grid each atom "
    "occupies at most two neighbouring nodes; a linear neuron, whose minimiser is a density, is not so.",
    basis=CIRCLE,
)
def grid_independence(run: Run) -> Check:
    check = Check()
    smooth = {}
    for beta, count in {2.0: 4, 5.0: 6, 10.0: 8}.items():
        for nodes in GRIDS if not run.quick else GRIDS[:2]:
            coarse, occupied = grid_atoms(problem(beta), nodes)
            name = f"$\\beta={beta:g}$, {nodes} nodes"
            check.same(f"atoms on the grid, {name}", predicted=count, measured=len(coarse))
            check.same(
                f"atoms refined, {name}", predicted=count, measured=len(landscape.minimise(problem(beta), nodes))
            )
            check.at_most(f"nodes of an atom, {name}", bound=2, measured=int(occupied.max()), because="a count")
            if beta == 2.0:
                smooth[f"atoms on the grid, {name}"] = len(grid_atoms(linear_neuron.problem(0.5), nodes)[0])
    check.null("a linear neuron with a density", smooth)
    return check


@PAPER.claim(
    "atom-count",
    says=r"With a repelling neuron of fixed weight (peak) the number of atoms grows like $\sqrt\beta$ from "
    r"$\beta=2$ to 80.",
    basis=basis.Derived(
        r"atoms at distances of order $\beta^{-1/2}$; the corollary of thm: bound allows no faster growth"
    ),
    formula=r"\#\text{atoms}\propto\beta^{1/2}",
)
def atom_count(run: Run) -> Check:
    ends = (2.0, 80.0)
    few, many = (len(landscape.minimise(problem(beta))) for beta in ends)
    span = np.log(ends[1] / ends[0])
    check = Check(note=f"{few} and {many} atoms.")
    check.row(
        "exponent of $\\beta$",
        predicted=0.5,
        measured=np.log(many / few) / span,
        tolerance=(1 / few + 1 / many) / span,
        because="one atom more or fewer at either end of the range",
    )
    check.rival(r"growth like $\beta^{1/3}$", 1 / 3)
    check.rival(r"growth like $\beta$", 1.0)
    check.rival("no growth", 0.0)
    return check
