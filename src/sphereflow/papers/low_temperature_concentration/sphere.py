r"""Two, three and eight dimensions: concentration on the equator in $W_2$ itself, departure, terminal phase."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from scipy.integrate import quad
from scipy.special import ive

from sphereflow.claims import Check, Run, basis
from sphereflow.dynamics import SA
from sphereflow.meanfield import RingFlow, evolve_rings, growth_rates, predict_phases
from sphereflow.papers.low_temperature_concentration import PAPER
from sphereflow.papers.low_temperature_concentration.sources import BOUND, TIMES
from sphereflow.solving import FORWARD, solve
from sphereflow.sphere import fibonacci

VALUE = np.diag([1.0, 1.0, 0.2])
TOKENS = 800
NODES = 72
# V = diag(1, 0.5 I), B = diag(0.2, I): to the equator at the rate c = 0.3, then away from it at g = 0.5.
SPLIT = ((1.0, 0.5), (0.2, 1.0))
CONTRACTION, GROWTH = 0.3, 0.5
LEAST_C = CONTRACTION * GROWTH / (CONTRACTION + GROWTH)


@PAPER.claim(
    "equator",
    says=r"Tokens on the sphere in three dimensions with $V=\mathrm{diag}(1,1,0.2)$ at $\beta=50$ fall to the "
    "equator as the reduction to rings says, faster than at zero temperature.",
    basis=basis.Derived("symmetry about an axis reduces the equation to rings"),
    formula=r"W_2(\mu_\beta(t),\Pi_\#\mu_0)=\big(E\,\mathrm{latitude}^2\big)^{1/2}",
)
def equator(run: Run) -> Check:
    beta, tokens = 50.0, TOKENS if run.quick else 2400
    points = np.asarray(fibonacci(tokens))
    found = solve(SA(beta, value=VALUE), points, np.arange(4.0), tol=1e-3, adjoint=FORWARD)
    latitude = np.sqrt(np.mean(np.arcsin(np.clip(np.asarray(found.xs)[:, :, 2], -1, 1)) ** 2, axis=1))
    rings = evolve_rings(3, beta, (0.2, 1.0), (1.0, 1.0), t1=3.0, saveat=4, nodes=NODES).wasserstein(2)
    frozen = {}
    check = Check(parameters={"n": tokens, "beta": beta})
    for t in (1, 2, 3):
        name = f"$W_2$ at $t={t}$"
        check.row(
            name,
            predicted=rings[t],
            measured=latitude[t],
            relative=0.02,
            because="tokens near the poles, of which few represent many",
        )
        # Zero temperature: the tangent of the latitude falls like e^(-0.8 t).
        start = np.arcsin(points[:, 2])
        frozen[name] = float(np.sqrt(np.mean(np.arctan(np.exp(-0.8 * t) * np.tan(start)) ** 2)))
    check.rival("zero temperature", frozen)
    return check


def tilted(height: np.ndarray) -> np.ndarray:
    return 1 + 0.3 * height


@lru_cache(maxsize=16)
def leave(d: int, beta: float) -> RingFlow:
    """Concentration on the equator, rest, and the way to the pole, in one run sampled every eighth."""
    last = math.ceil(2.7 * math.log(beta) + 8)
    nodes = NODES if beta <= 300 else 2 * NODES
    return evolve_rings(d, beta, *SPLIT, tilted, last, nodes=nodes, saveat=8 * last + 1)


@PAPER.claim(
    "three-phases-on-the-sphere",
    says=r"In two, three and eight dimensions one run shows three phases. The distance $W_2$ to the push-forward has a "
    r"smallest value of order $\beta^{-1/2}$ after $\frac1{2c}\log\beta$; it is left behind after "
    r"$(\frac1{2c}+\frac1{2g})\log\beta$ ($\beta=100$ to 300), so no bound with $C<cg/(c+g)=0.1875$ in its factor "
    r"$e^{Ct}$ can hold; then all mass goes to the leading axis of $V$ in the time that a thin ring takes.",
    basis=TIMES,
    formula=r"\min_tW_2\propto\beta^{-1/2},\quad t_{best}\approx\frac{\log\beta}{2c},\quad "
    r"C\ge\frac{\Delta\log\sqrt\beta}{\Delta t_{exit}}\to\frac{cg}{c+g},\quad "
    r"\dot\theta=-\sin\theta\cos\theta\,\big(v_1-v_2\tfrac{I_{\nu+1}}{I_\nu}(\beta b_2\sin^2\theta)\big)",
)
def three_phases_on_the_sphere(run: Run) -> Check:
    check = Check(parameters={"V": "diag(1, 0.5 I)", "B": "diag(0.2, I)"})
    low, high = 100.0, 300.0 if run.quick else 1000.0
    rivals: dict[str, dict[str, float]] = {name: {} for name in ("order", "c", "g", "small", "M", "V", "top", "slow")}
    order = 0.5 * math.log(math.log(high + 1) / math.log(low + 1)) / math.log(high / low) - 0.5
    for d in (2, 3, 8):
        small, large = leave(d, low), leave(d, high)
        because = "corrections of relative order beta^(-1/2)"
        spread = math.log(high / low)
        exponent, best = f"exponent of the smallest $W_2$, $d={d}$", f"growth of its time, $d={d}$"
        constant = f"least $C$, $d={d}$"
        measured = math.log(large.best()[0] / small.best()[0]) / spread
        check.row(exponent, predicted=-0.5, measured=measured, tolerance=0.02, because=because)
        measured = (large.best()[1] - small.best()[1]) / spread
        check.row(best, predicted=1 / (2 * CONTRACTION), measured=measured, relative=0.15, because=because)
        measured = spread / 2 / (large.exit_time() - small.exit_time())
        check.row(constant, predicted=LEAST_C, measured=measured, tolerance=0.01, because=because)
        rivals["order"][exponent], rivals["slow"][best] = order, 1 / (2 * GROWTH)
        rivals["c"][constant], rivals["g"][constant], rivals["small"][constant] = CONTRACTION, GROWTH, 0.1
        terminal = f"time from 0.5 to 0.1 of the axis of $V$, $d={d}$"
        check.row(
            terminal,
            predicted=thin_ring_time(d, low, 0.5, 0.1),
            measured=_passage(small, 0.1) - _passage(small, 0.5),
            relative=0.005,
            because="interpolation between samples an eighth apart, and what is left of the ring's width",
        )
        for name, rate in (("M", 0.3), ("V", 0.5), ("top", 1.0)):
            rivals[name][terminal] = math.log(math.tan(0.5) / math.tan(0.1)) / rate
    check.rival(r"the order $\sqrt{\log\beta/\beta}$ of the bound", rivals["order"])
    check.rival("a best time at the rate of growth", rivals["slow"])
    check.rival("the rate of contraction for $C$", rivals["c"])
    check.rival("the rate of growth for $C$", rivals["g"])
    check.rival("$C=0.1$", rivals["small"])
    check.rival("terminal phase at the gap of $VB^\\top$", rivals["M"])
    check.rival("terminal phase at the gap of $V$ to the end", rivals["V"])
    check.rival("terminal phase at the leading eigenvalue of $V$", rivals["top"])
    return check


def thin_ring_time(d: int, beta: float, start: float, stop: float) -> float:
    """How long a ring without width takes from one polar angle to another, by quadrature."""
    nu = (d - 3) / 2

    def slowness(theta: float) -> float:
        kappa = beta * math.sin(theta) ** 2
        ratio = float(ive(nu + 1, kappa) / ive(nu, kappa))
        return 1 / (math.sin(theta) * math.cos(theta) * (1 - 0.5 * ratio))

    return float(quad(slowness, stop, start, epsabs=1e-10)[0])


def _passage(flow: RingFlow, level: float) -> float:
    """When the distance to the axis of V falls below a level for the last time."""
    distance = flow.top_distance(2)
    i = int(np.flatnonzero(distance > level)[-1])
    share = math.log(distance[i] / level) / math.log(distance[i] / distance[i + 1])
    return float(flow.ts[i] + share * (flow.ts[i + 1] - flow.ts[i]))


@PAPER.claim(
    "bound",
    says=r"In two, three and eight dimensions $W_2$ to the push-forward obeys the bound with the $C$ and $c$ that the "
    r"eigenvalues of $V$ and $B$ predict ($\beta=30$ to 300): the largest ratio stays below 1.2, and after the best "
    r"moment, up to the pole, it does not grow with $\beta$. With $C=0.1$ it would.",
    basis=BOUND,
    formula=r"W_2\le1.2\Big(\sqrt{\tfrac{\log(\beta+1)}\beta}\,e^{Ct}+e^{-ct}\Big),\quad C=\frac{cg}{c+g}",
)
def bound(run: Run) -> Check:
    check = Check(parameters={"prefactor": 1.2})
    loose: dict[str, float] = {}
    for d in (2, 3, 8):
        matrices = [np.diag([pair[0], *[pair[1]] * (d - 1)]) for pair in SPLIT]
        rates = predict_phases(*matrices)
        ratios = {beta: _ratios(leave(d, beta), rates.least_growth, rates.rate(2)) for beta in (30.0, 100.0, 300.0)}
        because = "a bound whose prefactor the abstract does not give; the accuracy of the flow, as above"
        largest = max(max(pair) for pair in ratios.values())
        check.at_most(f"largest ratio, $d={d}$", bound=1.2, measured=largest, relative=0.005, because=because)
        name = f"growth of the ratio after the best moment with $\\log\\beta$, $d={d}$"
        check.at_most(
            name,
            bound=0.0,
            measured=math.log(ratios[300.0][1] / ratios[30.0][1]) / math.log(10),
            tolerance=2 * 0.005 / math.log(10),
            because="a bound for all beta; the accuracy of two ratios",
        )
        less = [_ratios(leave(d, beta), 0.1, rates.rate(2))[1] for beta in (30.0, 300.0)]
        loose[name] = math.log(less[1] / less[0]) / math.log(10)
    check.null("$C=0.1$ in place of 0.1875", loose)
    return check


def _ratios(flow: RingFlow, growth: float, rate: float) -> tuple[float, float]:
    """W_2 over the bound, the largest before the best moment and after it."""
    allowed = np.sqrt(np.log(flow.beta + 1) / flow.beta) * np.exp(growth * flow.ts) + np.exp(-rate * flow.ts)
    ratio, first = flow.wasserstein(2) / allowed, int(np.argmin(flow.wasserstein(2)))
    return float(ratio[: first + 1].max()), float(ratio[first:].max())


@PAPER.claim(
    "equator-is-unstable",
    says=r"The uniform circle on which tokens rest is itself unstable, at rates up to $2/e$ near the wave number "
    r"$\sqrt{2\beta}$.",
    basis=basis.Derived("linear stability of the uniform law on the circle"),
    formula=r"\max_k\frac{k^2I_k(\beta)}{\beta I_0(\beta)}\to\frac2e",
)
def equator_is_unstable(run: Run) -> Check:
    check = Check()
    waves, diffusive = {}, {}
    for beta in (1000.0, 10_000.0):
        rates = growth_rates(beta, "SA", count=int(3 * np.sqrt(beta)))
        rate, wave = rf"largest rate, $\beta={beta:g}$", rf"its wave number, $\beta={beta:g}$"
        because = "corrections of order 1/beta to the largest rate"
        check.row(rate, predicted=2 / math.e, measured=rates.max(), tolerance=2 / beta, because=because)
        at = int(np.argmax(rates)) + 1
        check.row(wave, predicted=math.sqrt(2 * beta), measured=at, tolerance=1.0, because="whole wave numbers")
        waves[wave] = math.sqrt(beta)
        diffusive[rate] = 1.0
    check.rival(r"the wave number $\sqrt\beta$", waves)
    check.rival("the rate 1 of the value matrix", diffusive)
    return check
