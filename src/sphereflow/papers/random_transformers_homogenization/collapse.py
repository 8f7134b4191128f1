r"""Equiangular tokens: the network against the closed equations, the logistic curve, and the clock.

$$\dot\gamma=D(\gamma)=\tfrac1d\big((d-2+\gamma^2)S-(d-1)\gamma P\big),\qquad \tau=\eta^2L/H.$$
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.integrate import solve_ivp

from sphereflow.claims import Check, Run, basis
from sphereflow.estimates import Estimate, mean
from sphereflow.papers.random_transformers_homogenization import PAPER, independent, sources
from sphereflow.random_transformers.depth_observables import pair_overlap
from sphereflow.random_transformers.equiangular import overlap_path
from sphereflow.random_transformers.gram_chain import run_gram
from sphereflow.random_transformers.network import RandomNetwork
from sphereflow.random_transformers.weight_laws import weights

N, START = 8, 0.1
TIMES = (2.0, 4.0)
GRID = (0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0)
SIMPLEX = basis.Theorem("simplex data", via=sources.LEAN)


class NetworkPath(NamedTuple):
    """Mean overlaps at the times `GRID`, and the Gram matrices of one realisation there."""

    overlap: Estimate
    gram: np.ndarray


@jax.jit
def _watch(x: jax.Array) -> dict[str, jax.Array]:
    one = x[:1] @ jnp.swapaxes(x[:1], 1, 2)
    return {"overlap": pair_overlap(x), "gram": one}


@lru_cache(maxsize=16)
def network_path(d: int, step: float, heads: int, s: float, networks: int, seed: int) -> NetworkPath:
    """Equiangular tokens through the network, as far as tau = 4."""
    network = RandomNetwork(weights("product", d=d), s, step, heads)
    depths = [round(t * heads / step**2) for t in GRID]
    gram = (1 - START) * np.eye(N) + START
    seen = run_gram(network, gram, d, depths, networks, observe=_watch, seed=seed).values
    return NetworkPath(mean(seen["overlap"]), seen["gram"][0])


def network_overlaps(d: int, step: float, heads: int, s: float, networks: int, seed: int) -> Estimate:
    """Mean overlap at tau = 2 and 4."""
    path = network_path(d, step, heads, s, networks, seed).overlap
    at = [GRID.index(t) for t in TIMES]
    return Estimate(path.value[at], path.error[at])


def second_order_equation(d: float, s: float, *, lost: bool = False) -> np.ndarray:
    r"""Overlaps at both times, f and g to second order in s: $nf=1+s^2(1-\gamma)(1-\frac1n)$, $ng=1+\gamma(nf-1)$."""

    def rhs(t: float, y: np.ndarray) -> np.ndarray:
        rest = s * s * (1 - y) * (1 - 1 / N)
        one, two = y + (1 - y) * (1 + rest) / N, y + (1 - y) * (1 + y * rest) / N
        square = 0.0 if lost else y * y
        return np.asarray(two - y * one + (((square - 2) * two + y * one) / d if math.isfinite(d) else 0.0))

    return np.asarray(solve_ivp(rhs, (0, 4), [START], t_eval=TIMES, rtol=1e-10, atol=1e-12).y[0])


@PAPER.claim(
    "simplex-equation",
    says="The closed equation of eight equiangular tokens at $s=0.2$ in dimension 32, 64, 256 and infinity agrees with "
    "one whose attention weights are expanded to second order in s.",
    basis=SIMPLEX,
    formula=r"\dot\gamma=\tfrac1d\left((d-2+\gamma^2)S-(d-1)\gamma P\right)\to S-\gamma P",
)
def simplex_equation(run: Run) -> Check:
    check = Check(parameters={"n": N, "s": 0.2, "start": START})
    wide: dict[str, float] = {}
    lost: dict[str, float] = {}
    for d in (32, 64, 256, math.inf):
        rows = [f"d={d:g}, tau={t:g}" for t in TIMES]
        check.series(
            rows,
            predicted=second_order_equation(d, 0.2),
            measured=overlap_path(np.array(TIMES), N, 0.2, d, START),
            tolerance=5e-5,
            because="the fourth order in s, and quasi-Monte-Carlo points",
        )
        if math.isfinite(d):
            wide.update(zip(rows, second_order_equation(math.inf, 0.2), strict=True))
            lost.update(zip(rows, second_order_equation(d, 0.2, lost=True), strict=True))
    check.rival("the drift of infinite dimension", wide)
    check.rival("the term with gamma squared lost", lost)
    return check


@PAPER.claim(
    "logistic-collapse",
    says="In the limit equation of high dimension the mean overlap of eight equiangular tokens follows the logistic "
    "curve, exactly at $s=0$ and up to $s^4$ at $s=0.2$; at $s=2$ it does not.",
    basis=basis.Theorem("small beta: logistic collapse", via=sources.LEAN),
    formula=r"\dot u=u(1-u),\qquad u=m=\tfrac{1+(n-1)\gamma}{n}",
)
def logistic_collapse(run: Run) -> Check:
    times = np.array(TIMES)
    m0 = (1 + (N - 1) * START) / N
    curve = (N * m0 / (m0 + (1 - m0) * np.exp(-times)) - 1) / (N - 1)
    check = Check(parameters={"n": N, "start": START})
    slower = (N * m0 / (m0 + (1 - m0) * np.exp(-times * (1 - 1 / N))) - 1) / (N - 1)
    rivals: dict[str, dict[str, float]] = {"cold": {}, "slower": {}}
    cold = overlap_path(times, N, 2.0, math.inf, START)
    for s, tolerance in ((0.0, 1e-7), (0.2, 1e-4)):
        rows = [f"s={s:g}, tau={t:g}" for t in TIMES]
        measured = overlap_path(times, N, s, math.inf, START)
        check.series(rows, predicted=curve, measured=measured, tolerance=tolerance, because="exact at s = 0; s^4")
        rivals["slower"].update(zip(rows, slower, strict=True))
        if s:
            rivals["cold"].update(zip(rows, cold, strict=True))
    check.null("attention at s = 2", rivals["cold"])
    check.rival("the rate 1 - 1/n", rivals["slower"])
    return check


@PAPER.claim(
    "networks-follow-the-simplex",
    says="Eight equiangular tokens in networks of dimension 32 at $s=0.2$ have the mean overlap of the equation for "
    "the logarithm of the mean overlap with its noise of order $1/d$, at $\\tau=2$ and 4, with one head and with "
    "16: step, heads and depth enter through $\\tau=\\eta^2L/H$.",
    basis=basis.Derived("the simplex theorem, with the fluctuation of the overlaps to first order in 1/d"),
    formula=r"dy=\Big(1-\frac{4-3m}d\Big)d\tau+\frac2{\sqrt d}dB,\quad y=\log\frac m{1-m},\qquad \tau=\eta^2L/H",
)
def follow_the_simplex(run: Run) -> Check:
    cases = [(32, 0.2, 1, 400), (32, 0.8, 16, 40)]
    if not run.quick:
        cases = [(32, 0.1, 1, 1000), (32, 0.8, 16, 500), (32, 1.6, 64, 300), (64, 0.1, 1, 500), (256, 0.1, 1, 400)]
    check = Check(parameters={"n": N, "s": 0.2, "start": START, "networks": tuple(c[-1] for c in cases)})
    wide: dict[str, float] = {}
    root: dict[str, float] = {}
    layers: dict[str, float] = {}
    for k, (d, step, heads, networks) in enumerate(cases):
        run.notify(k / len(cases), f"d={d}, eta={step:g}, H={heads}")
        found = network_overlaps(d, step, heads, 0.2, networks, run.seed + k)
        rows = [f"d={d}, H={heads}, eta={step:.3g}, tau={t:g}" for t in TIMES]
        check.series(
            rows,
            predicted=independent.mean_overlaps(N, d, START, TIMES),
            measured=found.value,
            error=found.error,
            repeats=networks,
            tolerance=2 / (N * d),
            because="the error bar over networks; the next order, 1/(nd)",
        )
        wide.update(zip(rows, second_order_equation(math.inf, 0.2), strict=True))
        if heads > 1:
            # From tau = 12 on the overlap is 1 up to 1e-4.
            for rival, factor in ((root, heads), (layers, heads**0.5)):
                late = [min(t * factor, 12.0) for t in TIMES]
                rival.update(zip(rows, independent.mean_overlaps(N, d, START, late), strict=True))
    check.rival("the equation of infinite dimension", wide)
    check.rival("heads averaged by the root of their number", root)
    check.rival("a clock eta^2 L / sqrt(H)", layers)
    return check


@PAPER.claim(
    "colder-is-slower",
    says="Networks of dimension 32 at $s=20$ have collapsed less at $\\tau=4$ than at $s=0.2$, by the difference "
    "that the closed equation gives.",
    basis=basis.Derived("the simplex equation at two temperatures; its lag of order 1/d is left as a tolerance"),
    formula=r"\gamma_{s=0.2}(4)-\gamma_{s=20}(4)",
)
def colder_is_slower(run: Run) -> Check:
    d, networks, step = (32, 400, 0.2) if run.quick else (256, 400, 0.1)
    warm, cold = (network_overlaps(d, step, 1, s, networks, run.seed) for s in (0.2, 20.0))
    exact = [overlap_path(np.array(TIMES), N, s, d, START)[1] for s in (0.2, 20.0)]
    check = Check(parameters={"d": d, "n": N, "eta": step, "networks": networks})
    check.row(
        "difference of the overlaps",
        predicted=exact[0] - exact[1],
        measured=warm.value[1] - cold.value[1],
        error=math.hypot(warm.error[1], cold.error[1]),
        repeats=networks,
        tolerance=1.5 / d,
        because="the error bars; each network lags behind its equation by an amount of order 1/d",
    )
    check.rival("no effect of the temperature", 0.0)
    limit = [overlap_path(np.array(TIMES), N, s, math.inf, START)[1] for s in (0.2, 2.0)]
    check.rival("as if s = 2", limit[0] - limit[1])
    return check
