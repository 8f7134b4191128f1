r"""A ring or atoms on it: told apart far below rounding, against sums with eighty digits (peak convention)."""

from __future__ import annotations

import decimal
import math

import numpy as np

from sphereflow import landscape
from sphereflow.claims import Check, Run
from sphereflow.landscape import Problem
from sphereflow.papers.perceptrons_localization import PAPER
from sphereflow.papers.perceptrons_localization.rings import ring
from sphereflow.papers.perceptrons_localization.sources import MINIMISER

BETA, WEIGHT = 5.0, 0.6
DIRECTIONS = [[1.0, 0.0, 0.0], [-0.6, 0.8, 0.0], [-0.5, -0.3, 0.8]]


def direct(count: int, x: float, beta: float) -> tuple[float, float]:
    """Logarithms of the excess energy of equal atoms over the ring, and of minus g'' at an atom, by plain sums."""
    with decimal.localcontext() as context:
        context.prec = 80
        strength, turn = decimal.Decimal(x), 2 * _pi() / count
        ring_mean, term = decimal.Decimal(1), decimal.Decimal(1)
        for k in range(1, 60):
            term = term * (strength / 2) ** 2 / k**2
            ring_mean += term
        ring_mean *= (-strength).exp()
        energy, bend = decimal.Decimal(0), decimal.Decimal(0)
        for k in range(count):
            cosine = _cosine(turn * k)
            kernel = (strength * (cosine - 1)).exp() / count
            energy += kernel
            bend += kernel * (strength**2 * (1 - cosine**2) - strength * cosine)
        # The other atoms alone bend g by bend / beta; the uniform ring, by symmetry, not at all.
        excess = (energy - ring_mean) / (2 * decimal.Decimal(beta))
        return float(excess.ln()), float((-bend / decimal.Decimal(beta)).ln())


def _pi() -> decimal.Decimal:
    """Machin's formula."""
    total = decimal.Decimal(0)
    for factor, base in ((16, 5), (-4, 239)):
        for k in range(70):
            total += decimal.Decimal(factor * (-1) ** k) / ((2 * k + 1) * decimal.Decimal(base) ** (2 * k + 1))
    return total


def _cosine(angle: decimal.Decimal) -> decimal.Decimal:
    term = total = decimal.Decimal(1)
    for k in range(1, 60):
        term *= -angle * angle / ((2 * k - 1) * (2 * k))
        total += term
    return total


@PAPER.claim(
    "ring-or-atoms",
    says="For three relu neurons in general position on $S^2$ the ring about the first one is certified as the "
    "minimiser; 8, 12 and 24 equal atoms on it have more energy by numbers down to $10^{-43}$, and g is largest, not "
    "smallest, at the atoms, as sums with eighty digits say.",
    basis=MINIMISER,
    formula=r"\mathsf E_M-\mathsf E_\infty=\frac1\beta\sum_{j\ge1}e^{-x}I_{jM}(x),\qquad "
    r"g''=-\frac2\beta\sum_{j\ge1}(jM)^2e^{-x}I_{jM}(x)",
)
def ring_or_atoms(run: Run) -> Check:
    found = landscape.ring_certificate(Problem(BETA, [-WEIGHT, 0.4, 0.3], DIRECTIONS))
    height = ring(BETA, WEIGHT)[0]
    x = BETA * (1 - height**2)
    check = Check(parameters={"beta": BETA, "w": WEIGHT})
    check.row(
        "height of the ring",
        predicted=height,
        measured=float(np.cos(found.polar[0])),
        tolerance=1e-10,
        because="a root of the closed equation",
    )
    because = "g is flat along the ring: cells of finite size"
    check.row("proved gap", predicted=0.0, measured=found.gap, tolerance=1e-6, because=because)
    because = "silent; the height of the ring"
    row = "largest argument of the other neurons"
    check.at_most(row, bound=0.0, measured=found.silence, tolerance=1e-10, because=because)
    alone, first, planar = {}, {}, {}
    for m in (8, 12, 24) if run.quick else (8, 12, 24, 36):
        excess, bend = direct(m, x, BETA)
        for name, predicted, measured in (
            (f"log of the excess energy, {m} atoms", excess, found.log_excess(m)),
            (f"log of minus g'', {m} atoms", bend, found.log_curvature(m)),
        ):
            check.row(name, predicted=predicted, measured=measured, tolerance=1e-8, because="the height of the ring")
        name = f"log of the excess energy, {m} atoms"
        alone[name] = math.log(found.gap)
        first[name] = m * math.log(x / 2) - math.lgamma(m + 1) - math.log(BETA)
        planar[name] = excess - math.log(2)
    check.rival("atoms within the certified gap of the ring", alone)
    check.rival("the leading power of $x$, $(x/2)^M/(\\beta M!)$", first)
    check.rival("half of it", planar)
    return check
