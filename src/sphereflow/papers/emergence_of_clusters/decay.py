r"""V = -I: tokens decay to the origin, algebraically.

$$\dot x_i=-\sum_jP_{ij}x_j,\qquad Q^\top K=I:\qquad x_i\to0 .$$

On the line, expanding the weights, $\dot x_i = -(m + x_i\,\mathrm{Var} + x_i^2\kappa_3/2+\dots)$: the variance decays
like 1/(2t), and the mean is slaved to it, $m\approx-\mathrm{Var}\,\kappa_3/2$.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.integrate

from sphereflow.claims import Check, Run, basis
from sphereflow.papers.emergence_of_clusters import PAPER, sources
from sphereflow.papers.emergence_of_clusters.flow import original, start

STARTS = {"four": np.array([-1, 0.2, 0.5, 1.3])[:, None], "five": np.array([-0.8, 0.1, 0.9, 2, 2.1])[:, None]}
TIMES = (0.0, 20.0, 200.0, 2000.0)


def _decay(name: str) -> np.ndarray:
    return original(STARTS[name], TIMES, value=-np.eye(1), tol=1e-13)[:, :, 0]


RATES = basis.Derived("the weights expanded for small tokens, V = -I and Q = K = I")


@PAPER.claim(
    "decay-rate",
    says="With $V=-I$ on the line the variance of four and of five tokens falls like $1/(2t)$: "
    "$\\mathrm{Var}\\,(2t+1/\\mathrm{Var}_0)$ is 1 up to $5/t$ at $t=200$ and 2000, and the largest token tends to 0.",
    basis=basis.Theorem("V = -I: tokens tend to the origin", via=sources.LEAN),
    formula=r"\mathrm{Var}(x)\,\Big(2t+\tfrac1{\mathrm{Var}(x(0))}\Big)\to1",
)
def decay_rate(run: Run) -> Check:
    check, double, root = Check(parameters={"n": "4 and 5", "d": 1, "t1": 2000}), {}, {}
    for name in STARTS:
        x = _decay(name)
        variance = x.var(axis=1)
        for k, t in ((2, 200.0), (3, 2000.0)):
            row = f"{name} tokens, t={t:g}"
            scaled = variance[k] * (2 * t + 1 / variance[0])
            check.row(row, predicted=1.0, measured=scaled, tolerance=5 / t, because="corrections of order log(t)/t")
            double[row] = (2 * t + 1 / variance[0]) / (t + 1 / variance[0])
            root[row] = (2 * t + 1 / variance[0]) / (4 * t + 1 / variance[0])
        largest = np.abs(x[-1]).max()
        row, because = f"{name} tokens, largest at t=2000", "2/sqrt(2t) and more; the accuracy of the solver"
        check.at_most(row, bound=0.05, measured=largest, tolerance=1e-6, because=because)
    check.rival("a variance like 1/t", double)
    check.rival("a variance like 1/(4t)", root)
    return check


@PAPER.claim(
    "decay-mean",
    says="With $V=-I$ on the line the mean of four tokens is $-\\frac12\\mathrm{Var}\\,\\kappa_3$ up to $5/t$, "
    "$\\kappa_3$ the third central moment.",
    basis=RATES,
    formula=r"m\approx-\tfrac12\,\mathrm{Var}\,\kappa_3,\qquad m=O(t^{-5/2})",
)
def decay_mean(run: Run) -> Check:
    x, check = _decay("four")[2:], Check(parameters={"n": 4, "d": 1})
    mean = x.mean(axis=1)
    third = ((x - mean[:, None]) ** 3).mean(axis=1)
    for t, ratio in zip((200.0, 2000.0), mean / (-x.var(axis=1) * third / 2), strict=True):
        because = "the next term of the expansion is of order 1/t"
        check.row(f"ratio, t={t:g}", predicted=1.0, measured=ratio, tolerance=5 / t, because=because)
    check.rival("without the factor 1/2", 2.0)
    check.rival("the other sign", -1.0)
    check.rival("a third of the moment in place of a half", 2 / 3)
    return check


@PAPER.claim(
    "decay-pair",
    says="With $V=-I$ a symmetric pair from 0.7 obeys one scalar equation, here at $t=5$.",
    basis=basis.Derived("the symmetry of a pair"),
    formula=r"\dot u=-u\tanh(u^2)",
)
def decay_pair(run: Run) -> Check:
    def end(rate: Callable[[np.ndarray], np.ndarray]) -> float:
        solved = scipy.integrate.solve_ivp(
            lambda _t, u: rate(u), (0, 5), [0.7], method="DOP853", rtol=1e-13, atol=1e-14
        )
        return float(solved.y[0, -1])

    x = original(np.array([[-0.7], [0.7]]), (0.0, 5.0), value=-np.eye(1))[-1, :, 0]
    check, because = Check(parameters={"n": 2, "d": 1, "u0": 0.7}), "two solvers at 1e-11 or tighter"
    exact = end(lambda u: -u * np.tanh(u**2))
    check.row("u(5)", predicted=exact, measured=x[1], tolerance=1e-9, because=because)
    check.row("sum of the pair", predicted=0.0, measured=x.sum(), tolerance=1e-12, because="symmetry, up to rounding")
    twice = end(lambda u: -u * (2 * np.exp(u**2) - np.exp(-(u**2))) / (2 * np.exp(u**2) + np.exp(-(u**2))))
    check.rival("a token that counts itself twice", {"u(5)": twice})
    check.rival("the leading order -u^3", {"u(5)": 0.7 / np.sqrt(1 + 2 * 0.49 * 5)})
    return check


@PAPER.claim(
    "decay-plane",
    says="With $V=-I$ the covariance of twelve tokens in the plane falls like $1/(2t)$ in all directions, up to "
    "$2/t$ at $t=200$ and 2000.",
    basis=RATES,
    formula=r"\dot C\approx-2C^2:\qquad C\,(2t\,I+C_0^{-1})\to I,\quad C=\mathrm{Cov}(x)",
)
def decay_plane(run: Run) -> Check:
    times, check = np.array([200.0, 2000.0]), Check(parameters={"n": 12, "d": 2, "t1": 2000})
    x = original(start(12, 2, 1.0), (0.0, *times), value=-np.eye(2), tol=1e-13)
    first, *later = (np.cov(frame.T, bias=True) for frame in x)
    for c, t in zip(later, times, strict=True):
        values = np.sort(np.real(np.linalg.eigvals(c @ (2 * t * np.eye(2) + np.linalg.inv(first)))))
        names = [f"{which} eigenvalue, t={t:g}" for which in ("smaller", "larger")]
        check.series(names, predicted=1.0, measured=values, tolerance=2 / t, because="corrections of order 1/t")
    check.rival("a covariance like 1/t", 2.0)
    check.rival("a covariance that falls by its trace, 1/(4t)", 0.5)
    return check
