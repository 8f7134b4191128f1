r"""The random quadratic form with forcing: a companion model with published bounds.

$$dX=P_X\circ dQ\,X+\gamma P_X\circ dW:\qquad D=-2r(1-r^2)+\gamma^2(1-r)(d-2-r),\quad
  Q=2(1-r^2)\big[2(1-r^2)+\gamma^2(1-r)\big].$$
"""

from __future__ import annotations

import numpy as np
from scipy.special import beta as beta_function

from sphereflow.claims import Check, Run, basis
from sphereflow.estimates import fraction
from sphereflow.papers.synchronization_by_noise import PAPER, sources
from sphereflow.synchronisation.backward_equation import Backward
from sphereflow.synchronisation.covariance import of_powers, of_quadratic_form
from sphereflow.synchronisation.network import run_network
from sphereflow.synchronisation.random_fields import QuadraticForm
from sphereflow.synchronisation.two_point import TwoPoint

D = 4
TIMES = (1.0, 2.0, 4.0, 8.0)


def equation(forcing: float, d: int = D, **grid: float) -> Backward:
    """The backward equation of the overlap."""
    return Backward(TwoPoint(d, of_quadratic_form(forcing)), **grid)  # type: ignore[arg-type]


@PAPER.claim(
    "quadratic-form-shares",
    says="In networks of the random quadratic form in dimension 4, pairs of tokens gather at antipodes without "
    "forcing, at one point with forcing 0.2, in the shares of the backward equation at four times.",
    basis=sources.COMPANION,
    formula=r"\gamma=0:\ P(|r|>0.99),\qquad \gamma=0.2:\ P(r>0.99)\qquad\text{at }t=1,2,4,8",
)
def shares(run: Run) -> Check:
    step, pairs = (0.02, 500) if run.quick else (0.005, 10_000)
    x = np.random.default_rng(run.seed).standard_normal((pairs, 2, D))
    x /= np.linalg.norm(x, axis=-1, keepdims=True)
    check = Check(parameters={"d": D, "h": step, "pairs": pairs})
    payoffs = {0.0: lambda r: np.abs(r) > 0.99, 0.2: lambda r: r > 0.99}
    plain: dict[str, float] = {}
    none: dict[str, float] = {}
    for forcing, payoff in payoffs.items():
        frames = run_network(QuadraticForm(forcing), x, layers=round(8 / step), step=step, seed=run.seed, saves=8)
        r = np.sum(np.asarray(frames)[[1, 2, 4, 8]].prod(axis=2), axis=-1)
        found = fraction(payoff(r).T)
        names = [f"forcing {forcing:g}, t={t:g}" for t in TIMES]
        check.series(
            names,
            predicted=equation(forcing).averages(payoff, TIMES),
            measured=found.value,
            error=found.error,
            repeats=pairs,
            tolerance=0.7 * step,
            because="the error bar over pairs; the step, 0.7 h",
        )
        asymmetric = Backward(TwoPoint(D, of_powers([forcing**2, 1.0]))).averages(payoff, TIMES)
        plain.update(zip(names, asymmetric, strict=True))
        if forcing:
            none.update(zip(names, equation(0.0).averages(payoff, TIMES), strict=True))
    check.rival("a matrix without symmetry", plain)
    check.rival("no effect of the forcing", none)
    return check


@PAPER.claim(
    "quadratic-form-bounds",
    says="By the backward equation moments of the gap obey the published bound, in dimensions 4 and 8 from two "
    "starts, and would violate one that knew only the rate near agreement; the mean distance to the attractor obeys "
    "its bound.",
    basis=sources.COMPANION,
    formula=r"E(1-r)^p\le(1-r_0)^pe^{-p\alpha t},\ \alpha=\min\{\gamma^2(d-1),\gamma^2(d-1)+4-2p(\gamma^2+4)\},\qquad "
    r"E\,\mathrm{dist}\le\pi e^{-2\gamma^2(d-1)t/(\gamma^2+4)}",
)
def bounds(run: Run) -> Check:
    check = Check()
    times = np.array([0.5, 2.0, 6.0])
    near, first = {}, {}
    for d, g in ((4, 0.2), (8, 1.0)):
        law = equation(g, d, right=60.0)
        top = (g**2 * (d - 1) + 4) / (2 * (g**2 + 4))
        for p in (0.25, 0.9 * top):
            close = g**2 * (d - 1) + 4 - 2 * p * (g**2 + 4)
            rate = min(g**2 * (d - 1), close)
            for r0 in (-0.9, 0.5):
                moments = law.averages(lambda r, p=p: (1 - r) ** p, times.tolist(), start=r0)  # type: ignore[misc]
                for t, moment in zip(times, moments, strict=True):
                    row = f"d={d}, forcing {g:g}, p={p:.3g}, from r={r0:g}, t={t:g}"
                    bound = (1 - r0) ** p * np.exp(-p * rate * t)
                    check.at_most(row, bound=bound, measured=moment, relative=1e-4, because="the accuracy of the grid")
                    near[row] = (1 - r0) ** p * np.exp(-p * close * t)
        # The attractor is a token that has been there for ever: uniform, and independent of a fixed start.
        distances = law.averages(lambda r: np.arccos(np.clip(r, -1, 1)), times.tolist())
        for t, distance in zip(times, distances, strict=True):
            row = f"d={d}, forcing {g:g}, distance to the attractor, t={t:g}"
            bound = np.pi * np.exp(-2 * g**2 * (d - 1) / (g**2 + 4) * t)
            check.at_most(row, bound=bound, measured=distance, relative=1e-4, because="the accuracy of the grid")
            if g < 1:
                first[row] = np.pi * np.exp(-t / 2)
    check.rival("only the rate near agreement", near)
    check.rival("the distance to the attractor falls at the rate of the first stage, 1/2", first)
    return check


def merging_rate(d: int, forcing: float) -> float:
    r"""$4\gamma/(\pi\,\mathrm B(\tfrac{d-1}2,\tfrac12))$: escape from the neighbourhood of the antipode.

    Near r = -1 put $1+r=\gamma^2y$: the scale function has derivative $y^{-(d-1)/2}(1+2y)^{(d-2)/2}$, the speed measure
    the mass $\tfrac14 2^{-(d-1)/2}\mathrm B(\tfrac{d-1}2,\tfrac12)$; the way across costs
    $2^{(d-1)/2}\gamma^{-1}\int\mathrm{sech}=2^{(d-1)/2}\pi/\gamma$.
    """
    return float(4 * forcing / (np.pi * beta_function((d - 1) / 2, 0.5)))


@PAPER.claim(
    "quadratic-form-two-stages",
    says="For small forcing in dimension 4 tokens first gather at two antipodes, at rate 1/2 times a power "
    "$t^{-3/2}$, and then merge at a rate linear in the forcing, hence faster than the published bound, which is "
    "quadratic.",
    basis=basis.Derived("escape from the neighbourhood of the antipode, by scale function and speed measure"),
    formula=r"\gamma\to0:\quad \text{rate}\approx\frac{4\gamma}{\pi B(\frac{d-1}2,\frac12)}\ge\tfrac12\gamma^2(d-1)",
)
def two_stages(run: Run) -> Check:
    check = Check(parameters={"d": D})
    first = equation(0.0, cells=2000, left=30.0, right=30.0).averages(
        lambda r: np.arccos(np.minimum(np.abs(r), 1)), [30.0, 40.0]
    )
    check.row(
        "rate of the first stage, t=30 to 40",
        predicted=-0.5 - 1.5 * np.log(4 / 3) / 10,
        measured=np.log(first[1] / first[0]) / 10,
        tolerance=10 / 30**2,
        because="the next order, about 10/t^2",
    )
    check.rival("no power beside the exponential", {"rate of the first stage, t=30 to 40": -0.5})
    square = {}
    for g in (0.02, 0.01, 0.005):
        decay = equation(g, cells=2000, left=12.0, right=20.0).averages(lambda r: 1.0 * (r < 0), [50.0, 100.0])
        rate = np.log(decay[0] / decay[1]) / 50
        row = f"merging rate, forcing {g:g}"
        check.row(
            row,
            predicted=merging_rate(D, g),
            measured=rate,
            relative=g * np.log(1 / g),
            because="the way across takes a time of order log(1/gamma), against 1/gamma for the escape",
        )
        because = "the published bound; the square of the cells' width"
        check.at_least(f"bound, forcing {g:g}", bound=1.5 * g**2, measured=rate, relative=1e-3, because=because)
        square[row] = 1.5 * g**2
    check.rival("merging at the quadratic rate of the bound", square)
    check.rival("half the linear rate", check.times(0.5, list(square)))
    check.rival("twice the linear rate", check.times(2.0, list(square)))
    return check
