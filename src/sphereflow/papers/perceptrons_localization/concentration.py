r"""How concentrated second-order points on the circle can be, and a printed claim about it that fails."""

from __future__ import annotations

import numpy as np
from scipy.optimize import brentq

from sphereflow import landscape
from sphereflow.claims import Check, Run, basis
from sphereflow.landscape import Problem
from sphereflow.landscape.concentration import (
    NAKED_BOUND,
    concave_radius,
    heaviest_window,
    kernel_bend,
    window_bound,
)
from sphereflow.papers.perceptrons_localization import PAPER
from sphereflow.papers.perceptrons_localization.sources import BOUND, CONCAVITY, LEAN
from sphereflow.papers.perceptrons_localization.splitting import problem

BETAS = np.array([0.5, 1.0, 2.0, 4.0, 10.0, 50.0, 200.0, 2000.0])
INSIDE = 0.375 * np.exp(-0.125)


def bend_by_differences(theta: np.ndarray, beta: float) -> np.ndarray:
    """Second difference of the peak kernel, independent of its formula."""
    h = 1e-4 / np.sqrt(beta)

    def k(t: np.ndarray) -> np.ndarray:
        return np.exp(beta * (np.cos(t) - 1))

    return (k(theta + h) - 2 * k(theta) + k(theta - h)) / h**2


@PAPER.claim(
    "kernel-facts",
    says=r"The second derivative of the kernel is at most $2\beta e^{\beta-3/2}$ and, within $1/(2\sqrt\beta)$ of "
    r"zero, at most $-\frac38e^{-1/8}\beta e^\beta$, for $\beta$ from 0.5 (the window: 0.256) to 2000; constants 1 "
    r"% smaller fail.",
    basis=CONCAVITY,
    formula=r"\beta^2\theta_c^2\le\beta+3,\quad K''\le2\beta e^{\beta-3/2},\quad "
    r"K''\le-\tfrac38e^{-1/8}\beta e^\beta\ (|\theta|\le\tfrac1{2\sqrt\beta})",
)
def kernel_facts(run: Run) -> Check:
    check = Check(note="The bound everywhere is proved for beta >= 4 and the one in the window holds from 0.2558 on.")
    smaller, deeper, shorter = {}, {}, {}
    for beta in (0.256, *BETAS):
        theta = np.concatenate([np.linspace(0, min(np.pi, 8 / np.sqrt(beta)), 4001), np.linspace(0, np.pi, 2001)])
        theta = np.append(theta, 0.5 / np.sqrt(beta))
        bend = kernel_bend(theta, beta) / beta
        name = f"$\\beta={beta:g}$"
        window = f"largest $K''$ in the window, {name}"
        edge = float(bend[theta <= 0.5 / np.sqrt(beta)].max())
        # Between two points of the grid, 2e-3 / sqrt(beta) apart, a maximum is missed by h^2/8 of the next derivatives.
        because = "a grid: the square of its step"
        check.at_most(window, bound=-INSIDE, measured=edge, tolerance=1e-6, because=because)
        deeper[window] = -1.01 * INSIDE
        if beta >= 0.5:
            everywhere, size = f"largest $K''$, {name}", f"$\\beta\\theta_c^2-1$, {name}"
            check.at_most(everywhere, bound=2 * np.exp(-1.5), measured=bend.max(), tolerance=1e-6, because=because)
            smaller[everywhere] = 1.98 * np.exp(-1.5)
            value = beta * float(concave_radius(beta)) ** 2 - 1
            rounding = 1e-15 * (1 + beta)
            check.at_most(size, bound=3 / beta, measured=value, tolerance=rounding, because="rounding of a cosine")
            shorter[size] = -0.25 / beta
    check.rival("a constant 1 % smaller everywhere", smaller)
    check.rival("a constant 1 % deeper in the window", deeper)
    check.rival(r"$\beta^2\theta_c^2\le\beta-1/4$", shorter)
    return check


@PAPER.claim(
    "kernel-numbers",
    says="The radius of concavity and the largest second derivative of the kernel are those of its second differences; "
    "the constant of the mass bound is 0.5742, and its window argument works from $\\beta=0.2558$ on.",
    basis=CONCAVITY,
    formula=r"\cos\theta_c=\frac{\sqrt{1+4\beta^2}-1}{2\beta},\qquad "
    r"\frac{2e^{-3/2}}{2e^{-3/2}+\frac38e^{-1/8}}=0.574192",
)
def kernel_numbers(run: Run) -> Check:
    check = Check()
    limit, bound = {}, {}
    for beta in (4.0, 10.0, 50.0, 200.0):
        theta = np.linspace(0, 6 / np.sqrt(beta), 60001)
        bend = bend_by_differences(theta, beta)
        inside = int(np.argmax(bend > 0))
        root = float(np.interp(0.0, bend[inside - 1 : inside + 1], theta[inside - 1 : inside + 1])) * np.sqrt(beta)
        radius, peak = (f"{what}, $\\beta={beta:g}$" for what in (r"$\theta_c\sqrt\beta$", "largest $K''$ scaled"))
        got = float(concave_radius(beta)) * np.sqrt(beta)
        check.row(radius, predicted=root, measured=got, tolerance=1e-6, because="second differences")
        most = float(kernel_bend(theta, beta).max()) / (2 * beta * np.exp(-1.5))
        differences = float(bend.max()) / (2 * beta * np.exp(-1.5))
        check.row(peak, predicted=differences, measured=most, tolerance=1e-6, because="second differences")
        limit[radius] = 1.0
        bound[peak] = 1.0

    def window_excess(beta: float) -> float:
        return float(np.max(kernel_bend(np.linspace(0, 0.5 / np.sqrt(beta), 2001), beta)) / beta + INSIDE)

    def plain(beta: float) -> float:
        """The same at the edge of the window, from the formula."""
        edge = 0.5 / np.sqrt(beta)
        return float(np.exp(beta * (np.cos(edge) - 1)) * (beta * np.sin(edge) ** 2 - np.cos(edge)) + INSIDE)

    smallest = brentq(window_excess, 0.1, 1.0, xtol=1e-10)
    name = "smallest $\\beta$ of the window argument"
    right = brentq(plain, 0.1, 1.0, xtol=1e-12)
    check.row(name, predicted=right, measured=smallest, tolerance=1e-6, because="bisection")
    outside = 2 * np.exp(-1.5)
    constant = "constant of the mass bound"
    check.row(constant, predicted=outside / (outside + INSIDE), measured=NAKED_BOUND, tolerance=1e-12, because="exact")
    check.rival(r"the limit $\theta_c=\beta^{-1/2}$", limit)
    check.rival("the bound attained", bound)
    check.rival("3/4 in place of 3/8", {constant: outside / (outside + 2 * INSIDE)})
    return check


def heaviest_pair(beta: float, w: float) -> float:
    """The mass of a pair at distance 1/(2 sqrt beta) that a neuron of weight w holds, the rest being at pi."""
    d = 1 / (4 * np.sqrt(beta))
    push, far = np.sin(2 * d) * np.exp(beta * (np.cos(2 * d) - 1)) / 2, np.sin(d) * np.exp(-beta * (1 + np.cos(d)))
    return float((w * np.sin(d) * np.cos(d) + far) / (push + far))


@PAPER.claim(
    "mass-bound",
    says=r"A pair of atoms at distance $1/(2\sqrt\beta)$, held by a relu neuron of weight $w$ while the rest of the "
    r"mass is opposite, is a second-order point for one mass in closed form, which obeys the bound with the weights "
    r"in it; 0.5742 alone is no bound at weights of order one (peak).",
    basis=BOUND,
    formula=r"\sum_{i\in S}m_i\le\frac{2e^{-3/2}+C}{2e^{-3/2}+\frac38e^{-1/8}},\qquad C=\sum_j|\omega_j||a_j|^2",
)
def mass_bound(run: Run) -> Check:
    check = Check(note="The bound is about three times what the pair attains: it is not sharp.")
    no_far, naked = {}, {}
    for beta, w in ((1.0, 0.25), (5.0, 0.25), (20.0, 0.25), (20.0, 0.6)):
        here = problem(beta, w)
        d = 1 / (4 * np.sqrt(beta))
        angles = np.array([-d, d, np.pi])

        def force(mass: float, here: Problem = here, angles: np.ndarray = angles) -> float:
            x = np.stack([np.cos(angles), np.sin(angles)], axis=1)
            pull = landscape.field(here, x, np.array([mass / 2, mass / 2, 1 - mass]))[1]
            return float(pull @ [-np.sin(angles[1]), np.cos(angles[1])])

        name = f"$\\beta={beta:g}$, $w={w:g}$"
        root = brentq(force, 1e-6, 1 - 1e-6, xtol=1e-14)
        held, second = f"mass of the pair, {name}", f"second-order, {name}"
        check.row(held, predicted=heaviest_pair(beta, w), measured=root, tolerance=1e-10, because="bisection")
        found = landscape.inspect(here, angles, [root / 2, root / 2, 1 - root])
        check.same(second, predicted=1, measured=float(found.second_order and found.stationarity < 1e-10))
        within = heaviest_window(found.angles, found.masses, 2 * d + 1e-12)
        limit = f"mass in the window, {name}"
        check.at_most(limit, bound=window_bound(here), measured=within, tolerance=1e-10, because="bisection")
        no_far[held] = float(w * np.exp(2 * beta * np.sin(d) ** 2))
        if w > 0.5:
            naked[limit] = NAKED_BOUND
    check.rival("the rest of the mass exerts no force", no_far)
    check.rival("0.5742 whatever the weights", naked)
    return check


@PAPER.claim(
    "single-cluster",
    says=r"Without a perceptron, two antipodal atoms at $\beta=0.02$ are a second-order point within one window of "
    r"$1/(2\sqrt\beta)$, as for every $\beta\le1/(4\pi^2)$; the argument for the statement works from $\beta=0.2558$ "
    r"on.",
    prints=r"If $\sum_j|\omega_j||a_j|^2<0.16547$, then for any $\beta>0$ the support of a second-order point is "
    r"never one cluster of diameter $1/(2\sqrt\beta)$.",
    basis=basis.Theorem("remark after thm: bound", via=LEAN),
    formula=r"\omega=0,\ "
    r"\mu=\tfrac12(\delta_0+\delta_\pi):\quad\mathrm{Hess}=\tfrac14e^{-\beta}(\xi_1-\xi_2)^2\ge0,\quad"
    r"\pi\le\frac1{2\sqrt\beta}\iff\beta\le\frac1{4\pi^2}",
)
def single_cluster(run: Run) -> Check:
    beta = 0.02
    here = Problem(beta, [0.0], [[1.0, 0.0]], kernel_scale="raw")
    found = landscape.inspect(here, [0.0, np.pi])
    window = 1 / (2 * np.sqrt(beta))
    exists = found.stationarity < 1e-14 and found.second_order and np.pi <= window
    check = Check(
        note="Equal atoms at 0 and pi: diameter 3.1416 below 3.5355.",
        parameters={"beta": beta, "sum |omega||a|^2": 0},
    )
    flag = "a second-order point within one window exists"
    check.same(flag, predicted=1, measured=float(exists), because="yes (1) or no (0)")
    coefficient = float(landscape.hessian(here, [0.0, np.pi])[0, 0])
    name = "coefficient of the Hessian"
    check.row(name, predicted=np.exp(-beta) / 4, measured=coefficient, tolerance=1e-12, because="rounding")
    check.rival("antipodal atoms attract", {name: -np.exp(-beta) / 4})
    check.printed({flag: 0})
    return check
