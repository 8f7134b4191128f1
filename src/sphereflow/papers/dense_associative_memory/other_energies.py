r"""Beside the two kernels of the paper: polynomial energies, and the same bath at half the load.

$$x'\propto\sum_\mu(\phi^\mu)^{k-1}\xi^\mu:\qquad A=1+(M-1)m_k,\quad B=(M-1)(m_{2k-2}-m_{2k}),\quad
  m_{2j}=\frac{(2j-1)!!}{N(N+2)\cdots(N+2j-2)},$$

A along the stored pattern at which the state lies and B the mean square across it, for uniform patterns on the sphere:
$B\approx(2k-3)!!\,M/N^{k-1}$, so that the load which a step can bear grows like $N^{k-1}$.
"""

from __future__ import annotations

import math

import numpy as np

from sphereflow.claims import Check, Run, basis
from sphereflow.estimates import mean
from sphereflow.memory.energies import PolynomialEnergy
from sphereflow.memory.landscapes import random_patterns
from sphereflow.papers.dense_associative_memory import PAPER
from sphereflow.papers.dense_associative_memory.simulations import kept_overlaps
from sphereflow.papers.dense_associative_memory.sources import SOURCE

CASES = ((2, 60, 60), (3, 24, 500), (4, 12, 1500))  # power, N, M
HALF = 100


def moment(power: int, n: int) -> float:
    """The mean of a power of one coordinate of a uniform unit vector."""
    if power % 2:
        return 0.0
    odd = math.prod(range(1, power, 2))
    return odd / math.prod(n + 2 * j for j in range(power // 2))


def step_parts(k: int, n: int, patterns: int, draws: int, seed: int) -> np.ndarray:
    """A and B of a step from the first of so many stored patterns, by the energy's gradient: (draws, 2)."""
    parts = []
    energy = PolynomialEnergy(k)
    for draw in range(draws):
        stored = np.asarray(random_patterns(n, patterns, [seed, k, draw]), dtype=float)
        x = stored[:1]
        force = -np.asarray(energy.gradient(x, stored))[0] / k
        along = float(force @ x[0]) / n
        parts.append((along, float(force @ force) / n - along**2))
    return np.array(parts)


@PAPER.claim(
    "polynomial-step",
    says="The force of a polynomial energy of degree 2, 3 and 4 at a stored pattern has the part along the pattern and "
    "the mean square across it that the exact moments of overlaps on the sphere give: noise of order $M/N^{k-1}$, and "
    "for even degrees a share of the other patterns that points along the stored one.",
    basis=basis.Extension("polynomial energies, the older ones, beside the two kernels of the paper"),
    formula=r"A=1+(M-1)m_k,\qquad B=(M-1)(m_{2k-2}-m_{2k})",
)
def polynomial_step(run: Run) -> Check:
    draws = 100 if run.quick else 2000
    check = Check(parameters={"draws": draws, "k, N, M": CASES})
    linear, alone, gaussian = {}, {}, {}
    for k, n, patterns in CASES:
        found = mean(step_parts(k, n, patterns, draws, run.seed))
        others = patterns - 1
        along, across = 1 + others * moment(k, n), others * (moment(2 * k - 2, n) - moment(2 * k, n))
        names = [f"k={k}: along the pattern", f"k={k}: mean square across it"]
        check.series(
            names,
            predicted=[along, across],
            measured=found.value,
            error=found.error,
            repeats=draws,
            because="the error bar over draws",
        )
        linear[names[1]] = others / n
        alone[names[0]] = 1.0
        gaussian[names[1]] = others * math.prod(range(1, 2 * k - 2, 2)) / n ** (k - 1)
    check.rival("noise of M/N for every degree", {name: linear[name] for name in linear if "k=2" not in name})
    check.rival("nothing from the others along the pattern", {name: alone[name] for name in alone if "k=3" not in name})
    check.rival("overlaps of a normal law", gaussian)
    return check


@PAPER.claim(
    "bath-at-half-the-load",
    says="At half the load, with the same 148 patterns at $N=100$, the overlap of a kept memory is that of one pattern "
    "again: for LSE up to $T=0.5$, for LSR up to $T=2$.",
    basis=basis.Figure("of overlap against temperature at load 0.05 and N = 100", via=SOURCE),
    formula=r"\alpha=0.05:\quad\langle\phi\rangle_{M=148}=\langle\phi\rangle_{M=1}",
)
def bath_at_half_the_load(run: Run) -> Check:
    return kept_overlaps(run, HALF)
