r"""Modes in the plane and in space: the density of maxima of a Gaussian field.

$$\varrho_2=\frac\beta{4\sqrt3\,\pi},\qquad \varrho_3=\frac{29-6\sqrt6}{48\sqrt6\,\pi^2}\beta^{3/2}.$$
"""

from __future__ import annotations

import math

import numpy as np

from sphereflow.claims import Check, Run, basis
from sphereflow.estimates import mean
from sphereflow.modes import find_modes_in_space
from sphereflow.papers.kde_modes import PAPER

EDGE = 4.0


def blocks(d: int, per_bandwidth: float, side: int, parts: int, seed: list[int]) -> tuple[np.ndarray, float]:
    """Modes per volume (in bandwidths) in blocks inside a box of uniform samples; and the share that is proved."""
    rng = np.random.default_rng(seed)
    found = find_modes_in_space(rng.uniform(0, side, (int(per_bandwidth * side**d), d)), 1.0)
    width = (side - 2 * EDGE) / parts
    place = np.floor((found.positions - EDGE) / width).astype(int)
    inside = np.all((place >= 0) & (place < parts), axis=1)
    index = np.ravel_multi_index(tuple(place[inside].T), (parts,) * d)
    return np.bincount(index, minlength=parts**d) / width**d, found.proved / len(found)


@PAPER.claim(
    "modes-in-space",
    says="Many uniform samples in the plane (and in space in the paper preset) have modes at the density of maxima of "
    "a Gaussian field, each proved or nearly all; it is not a power of the density on the line.",
    basis=basis.Extension("the paper treats the line"),
    formula=r"\varrho_2=\frac\beta{4\sqrt3\,\pi},\qquad \varrho_3=\frac{29-6\sqrt6}{48\sqrt6\,\pi^2}\beta^{3/2}",
)
def modes_in_space(run: Run) -> Check:
    line = math.sqrt(1.5) / (2 * math.pi)
    exact = {2: 1 / (4 * math.sqrt(3) * math.pi), 3: (29 - 6 * math.sqrt(6)) / (48 * math.sqrt(6) * math.pi**2)}
    check = Check()
    power, critical = {}, {}
    for d, side, parts, samples in ((2, 80, 6, 3),) if run.quick else ((2, 200, 12, 6), (3, 36, 4, 8)):
        found = [blocks(d, 4.0, side, parts, [run.seed, d, k]) for k in range(samples)]
        rates = np.concatenate([rate for rate, _ in found])
        counted = mean(rates)
        name = f"modes per bandwidth to the power {d}"
        check.row(
            name,
            predicted=exact[d],
            measured=counted.value,
            error=counted.error,
            repeats=len(rates),
            relative=0.03,
            because="standard error of the blocks, and 3 % for four samples per bandwidth",
        )
        share = float(np.mean([proved for _, proved in found]))
        because = "Kantorovich's condition; rounding of a share"
        check.at_least(f"share proved, d = {d}", bound=0.95, measured=share, tolerance=1e-12, because=because)
        power[name], critical[name] = line**d, 2**d * exact[d]
    check.rival("the power of the density on the line", power)
    check.rival("all critical points", critical)
    return check
