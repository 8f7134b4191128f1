r"""Tails: finitely many pieces are affine near infinity, so the base's tails stay what they are.

Base N(0, 1), target Student with two degrees of freedom: for equal end slopes m the relative entropy of the target,
integrated up to $|y|\le R$, grows like $m^{-2}\ln R$. In the other direction it is finite and tends to zero.
"""

from __future__ import annotations

import math

import numpy as np

from sphereflow.claims import Measurement, Run, agreement, at_most
from sphereflow.papers.transport_relative_entropy import PAPER
from sphereflow.transport.euclidean.divergences import divergences
from sphereflow.transport.euclidean.laws import StudentT, gaussian
from sphereflow.transport.euclidean.line import gauss_legendre
from sphereflow.transport.euclidean.monotone import Rearrangement, piecewise_linear
from sphereflow.transport.euclidean.schedule import Schedule

SLOPES = (1.0, 2.0, 4.0)


def stretched(slope: float, knots: int) -> Schedule:
    """This slope beyond the end knots: everywhere for one knot, and a good map in the bulk for more."""
    if knots == 1:
        return piecewise_linear([0.0], [0.0], slope, slope)
    return Rearrangement(gaussian(1), StudentT(2.0)).schedule(knots, end_slopes=(slope, slope))


def truncated(schedule: Schedule, reaches: np.ndarray) -> np.ndarray:
    """The relative entropy of the target integrated over |y| <= R, for every R."""
    target = StudentT(2.0)
    edges = np.concatenate([np.linspace(0, 10, 400), np.geomspace(10, reaches[-1], 100 * len(reaches))[1:], reaches])
    edges = np.unique(edges)
    y, weight = gauss_legendre(edges)
    total = np.zeros(len(y))
    for side in (y, -y):
        wanted = target.log_density(side[:, None])
        total += np.exp(wanted) * (wanted - schedule.density(gaussian(1)).log_density(side[:, None]))
    return np.array([(weight * total)[y < r].sum() for r in reaches])


@PAPER.claim(
    "tail-growth",
    statement="Gaussian base, Student target with two degrees of freedom: the relative entropy up to R grows by ln 10 "
    "over the square of the end slope with every decade of R, without end.",
    source="Tail obstruction",
    formula=r"\int_{|y|\le R}\rho_*\log\frac{\rho_*}{\rho_\theta}\,dy\simeq\frac{\ln R}{m^2}",
    falsifier="an integral that converges",
)
def tail_growth(run: Run) -> Measurement:
    reaches = 10.0 ** np.arange(3, 8)
    scaled = [np.diff(truncated(stretched(m, 1), reaches)) for m in SLOPES]
    fitted = [np.diff(truncated(stretched(m, 8), 1e2 * reaches))[-2:] for m in SLOPES]
    limits = [math.log(10) / m**2 for m in SLOPES]
    return agreement(
        np.concatenate([np.repeat(limits, 4), np.repeat(limits, 2)]),
        np.concatenate([np.ravel(scaled), np.ravel(fitted)]),
        relative=0.002,
        because="corrections of order (ln R)/R, and of the size of the end knots over R",
        labels=(
            *[f"scaling by {m:g}, R=1e{k}..1e{k + 1}" for m in SLOPES for k in range(3, 7)],
            *[f"8 knots, slope {m:g}, R=1e{k}..1e{k + 1}" for m in SLOPES for k in (7, 8)],
        ),
    )


@PAPER.claim(
    "tail-flag",
    statement="For such a pair the relative entropy is reported as infinite, with the reason, in the direction in "
    "which it is; in the other direction it is finite and falls with the number of knots.",
    source="Tail obstruction",
    formula=r"\int|y|^2\rho_*=\infty\ \Rightarrow\ \mathrm{KL}(\rho_*\|\rho_\theta)=\infty",
    falsifier="a finite number from samples or from an integral that was cut off",
)
def tail_flag(run: Run) -> Measurement:
    heavy, light = StudentT(2.0), gaussian(1)
    there = [divergences(Rearrangement(light, heavy).schedule(k), light, heavy) for k in (8, 32)]
    back = divergences(Rearrangement(heavy, light).schedule(8), heavy, light)
    told = ("second moment" in there[0].forward_reason) + ("second moment" in back.reverse_reason)
    fine = divergences(Rearrangement(light, StudentT(3.0)).schedule(32), light, StudentT(3.0)).forward
    infinite = [math.isinf(e.value) for e in (there[0].forward, there[1].forward, back.reverse)]
    fourfold = there[0].reverse.value / there[1].reverse.value
    return at_most(
        [0, 0, 0, 0, -8],
        [3 - sum(infinite), 2 - told, float(math.isinf(back.forward.value)), float(math.isinf(fine.value)), -fourfold],
        because="flags; four times the knots leave about a sixteenth, half of that is asked for",
        labels=(
            "infinite ones not flagged",
            "flags without a reason",
            "Student to Gaussian, finite direction flagged",
            "three degrees of freedom flagged",
            "minus the fall of KL(image||target), K=8 to 32",
        ),
    )
