r"""One relu neuron that repels, $\omega=+1$: finitely many atoms in the inactive half circle (peak convention)."""

from __future__ import annotations

import numpy as np

from sphereflow import landscape
from sphereflow.claims import Measurement, Run, agreement
from sphereflow.landscape import Problem
from sphereflow.landscape.concentration import window_bound
from sphereflow.landscape.solve import grid_atoms
from sphereflow.papers.perceptrons_localization import PAPER

# (beta, weight): angles up to pi, their masses, energy, margin kappa. The rest is the mirror image.
REFERENCE = {
    (2.0, 1.0): ((1.511940, 2.690346), (0.310326, 0.189674), 0.0966291762, 0.136629),
    (5.0, 1.0): ((1.543370, 2.333566, 2.909076), (0.229887, 0.155386, 0.114727), 0.0270340918, 0.051810),
    (10.0, 1.0): (
        (1.556058, 2.126005, 2.576574, 2.962816),
        (0.176536, 0.125629, 0.105413, 0.092422),
        0.0102389347,
        0.021280,
    ),
    (5.0, 0.1): (
        (0.962262, 1.435621, 2.124913, 2.691340, np.pi),
        (0.064035, 0.154832, 0.131305, 0.106184, 0.087288),
        0.0253867382,
        0.020444,
    ),
    (2.0, float(np.exp(-2.0))): (
        (0.489783, 1.339385, 2.392244, np.pi),
        (0.063262, 0.221481, 0.156144, 0.118227),
        0.0895755203,
        0.010847,
    ),
}
MULTIPLIERS = {(2.0, 1.0): 0.1921845933, (5.0, 1.0): 0.0538953018}
GRIDS = (360, 1440, 5760)


def problem(beta: float, weight: float = 1.0) -> Problem:
    return Problem(beta, [weight], [[1.0, 0.0]])


@PAPER.claim(
    "half-circle",
    statement="A repelling relu neuron leaves a finite number of atoms in the half circle where it is silent, with "
    "angles, masses, energies and margins as computed independently.",
    source="Theorem on the circle (relu): finitely many atoms; reference solutions",
    formula=r"\omega=1:\quad4,\ 6,\ 8\text{ atoms at }\beta=2,5,10",
    falsifier="atoms elsewhere, or a density",
)
def half_circle(run: Run) -> Measurement:
    predicted, measured, tolerance, labels = [], [], [], []
    for (beta, weight), (angles, masses, energy, margin) in REFERENCE.items():
        found = landscape.minimise(problem(beta, weight))
        half = found.angles <= np.pi + 1e-9
        name = f"beta={beta:g}, weight {weight:.4g}"
        if np.count_nonzero(half) != len(angles):
            return agreement(
                len(angles), np.count_nonzero(half), absolute=0, because="counts are exact", labels=(name,)
            )
        predicted += [*angles, *masses, energy, margin, 0.0]
        measured += [*found.angles[half], *found.masses[half], found.energy, found.margin, found.gap]
        tolerance += [6e-7] * (2 * len(angles)) + [6e-11, 6e-7, 1e-10]
        labels += [f"{what} {i + 1}, {name}" for what in ("angle", "mass") for i in range(len(angles))]
        labels += [f"{what}, {name}" for what in ("energy", "margin", "gap")]
        if (beta, weight) in MULTIPLIERS:
            predicted.append(MULTIPLIERS[beta, weight])
            measured.append(found.multiplier)
            tolerance.append(6e-11)
            labels.append(f"multiplier, {name}")
    return agreement(
        predicted,
        measured,
        absolute=tolerance,
        because="reference values with 6 and 10 decimals; the gap is proved",
        labels=tuple(labels),
    )


@PAPER.claim(
    "grid-independence",
    statement="The number of atoms does not depend on the grid, and on every grid each atom occupies at most two "
    "neighbouring nodes: atoms, not a density.",
    source="Theorem on the circle (relu): finitely many atoms",
    falsifier="a number of atoms that grows with the number of nodes",
)
def grid_independence(run: Run) -> Measurement:
    betas = {2.0: 4, 5.0: 6, 10.0: 8}
    predicted, measured, labels = [], [], []
    for beta, count in betas.items():
        for nodes in GRIDS:
            coarse, occupied = grid_atoms(problem(beta), nodes)
            refined = landscape.minimise(problem(beta), nodes)
            predicted += [count, count, 0]
            measured += [len(coarse), len(refined), max(0, int(occupied.max()) - 2)]
            labels += [
                f"{what}, beta={beta:g}, {nodes} nodes"
                for what in ("atoms on the grid", "atoms refined", "nodes beyond two")
            ]
    return agreement(predicted, measured, absolute=0, because="counts are exact", labels=tuple(labels))


@PAPER.claim(
    "atom-count",
    statement="With a repelling neuron of fixed weight against the peak of the kernel the number of atoms grows like "
    "the square root of beta; heavy atoms are no more than the corollary allows, a bound that is far from sharp.",
    source="Corollary of the mass bound: heavy atoms",
    formula=r"\#\{m_i\ge\varepsilon\}\le\frac M\varepsilon(1+2L\sqrt\beta)\cdot\frac{2e^{-3/2}+C}"
    r"{2e^{-3/2}+\frac38e^{-1/8}}",
    falsifier="a number of atoms that grows like beta, or more heavy atoms than the bound allows",
)
def atom_count(run: Run) -> Measurement:
    ends = (2.0, 80.0)
    few, many = (len(landscape.minimise(problem(beta))) for beta in ends)
    octaves = np.log(ends[1] / ends[0])
    # Beyond beta = 12 the raw weight 1 is too small against the kernel for the minimiser to be resolved.
    betas = (2.0, 4.0, 6.0, 8.0) if run.quick else (2.0, 4.0, 6.0, 8.0, 12.0)
    counts, bounds, labels = [], [], []
    for beta in betas:
        found = landscape.minimise(Problem(beta, [1.0], [[1.0, 0.0]], kernel_scale="raw"))
        heavy = float(np.median(found.masses))
        gaps = np.diff(found.angles, append=found.angles[0] + 2 * np.pi)
        arc = 2 * np.pi - float(gaps.max())
        # Each window of the corollary holds one atom or has its mass bounded; here masses are far below 0.5742.
        bounds.append((1 + 2 * arc * np.sqrt(beta)) * window_bound(found.problem) / heavy)
        counts.append(int(np.sum(found.masses >= heavy)))
        labels.append(f"heavy atoms beyond the bound, beta={beta:g}, raw")
    excess = np.maximum(np.array(counts) - np.array(bounds), 0)
    told = ", ".join(f"{c} against {b:.0f}" for c, b in zip(counts, bounds, strict=True))
    return agreement(
        [0.5, *np.zeros(len(betas))],
        [np.log(many / few) / octaves, *excess],
        absolute=[(1 / few + 1 / many) / octaves, *np.zeros(len(betas))],
        because="one atom more or fewer at either end of the range; counts are exact",
        labels=(f"exponent of beta, {ends[0]:g} to {ends[1]:g}", *labels),
        note=f"{few} and {many} atoms. Heavy atoms against the bound: {told}, in the raw convention with weight 1; "
        "heavy means at least the median mass.",
    )
