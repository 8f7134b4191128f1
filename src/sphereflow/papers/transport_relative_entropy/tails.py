r"""Tails: finitely many pieces are affine near infinity, so the base's tails stay what they are.

Base N(0, 1), target Student with two degrees of freedom: for equal end slopes m the relative entropy of the target,
integrated up to $|y|\le R$, grows like $m^{-2}\ln R$. In the other direction it is finite and tends to zero.
"""

from __future__ import annotations

import math

import numpy as np

from sphereflow.claims import Check, Run, basis
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


TAILS = basis.Abstract("an assumption on the relative decay of the tails of both densities is needed")


@PAPER.claim(
    "tail-growth",
    says=r"Gaussian base, Student target with two degrees of freedom: the relative entropy up to $R$ grows by "
    r"$\ln10/m^2$ with every decade of $R$, $m$ the end slope.",
    basis=TAILS,
    formula=r"\int_{|y|\le R}\rho_*\log\frac{\rho_*}{\rho_\theta}\,dy\simeq\frac{\ln R}{m^2}",
)
def tail_growth(run: Run) -> Check:
    check = Check()
    reaches = 10.0 ** np.arange(3, 8)
    linear: dict[str, float] = {}
    for m in SLOPES:
        because = "corrections of order (ln R)/R, and of the size of the end knots over R"
        scaled = np.diff(truncated(stretched(m, 1), reaches))
        fitted = np.diff(truncated(stretched(m, 8), 1e2 * reaches))[-2:]
        names = [f"scaling by {m:g}, $R=10^{k}$ to $10^{k + 1}$" for k in range(3, 7)]
        names += [f"8 knots, slope {m:g}, $R=10^{k}$ to $10^{k + 1}$" for k in (7, 8)]
        predicted = math.log(10) / m**2
        check.series(names, predicted=predicted, measured=[*scaled, *fitted], relative=0.002, because=because)
        linear |= {name: math.log(10) / m for name in names}
    check.rival("the integral converges", 0.0)
    check.rival("growth by $\\ln10/m$", linear)
    return check


@PAPER.claim(
    "tail-flag",
    says="For such a pair the relative entropy is reported as infinite, with the reason, in the direction in which it "
    "is; in the other direction it is finite and falls with the number of knots.",
    basis=basis.Derived("finitely many pieces are affine near infinity: the second moment of the heavier law decides"),
    formula=r"\int|y|^2\rho_*=\infty\ \Rightarrow\ \mathrm{KL}(\rho_*\|\rho_\theta)=\infty",
)
def tail_flag(run: Run) -> Check:
    heavy, light = StudentT(2.0), gaussian(1)
    there = [divergences(Rearrangement(light, heavy).schedule(k), light, heavy) for k in (8, 32)]
    back = divergences(Rearrangement(heavy, light).schedule(8), heavy, light)
    fine = divergences(Rearrangement(light, StudentT(3.0)).schedule(32), light, StudentT(3.0))
    check = Check()
    for name, infinite, value in (
        ("Gaussian to Student 2, KL(target||image)", 1, there[0].forward),
        ("Gaussian to Student 2, KL(image||target)", 0, there[0].reverse),
        ("Student 2 to Gaussian, KL(image||target)", 1, back.reverse),
        ("Student 2 to Gaussian, KL(target||image)", 0, back.forward),
        ("Gaussian to Student 3, KL(target||image)", 0, fine.forward),
    ):
        check.same(f"infinite: {name}", predicted=infinite, measured=float(math.isinf(value.value)), because="a flag")
    names = [row.name for row in check.rows]
    reasons = ("second moment" in there[0].forward_reason) + ("second moment" in back.reverse_reason)
    check.same("reasons given", predicted=2, measured=reasons)
    fall = float(there[0].reverse.value / there[1].reverse.value)
    row, because = "fall of KL(image||target), 8 to 32 knots", "like $K^{-2}$, corrections of relative order 1/K"
    check.row(row, predicted=16.0, measured=fall, relative=1 / 8, because=because)
    check.rival("the other direction falls like $1/K$", {row: 4.0})
    # Where the target's fourth moment decided, three degrees of freedom would be infinite too.
    check.rival("every Student law is out of reach", dict(zip(names, (1, 0, 1, 0, 1), strict=True)))
    check.rival("a finite number from samples", dict.fromkeys(names, 0.0))
    check.rival("the same in both directions", dict(zip(names, (1, 1, 1, 1, 0), strict=True)))
    return check
