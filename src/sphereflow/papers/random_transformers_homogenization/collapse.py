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

from sphereflow.claims import Measurement, Run, agreement, at_least
from sphereflow.estimates import Estimate, extrapolate, mean
from sphereflow.papers.random_transformers_homogenization import PAPER
from sphereflow.random_transformers.depth_observables import pair_overlap
from sphereflow.random_transformers.equiangular import logistic, mean_overlap, overlap_path
from sphereflow.random_transformers.gram_chain import run_gram
from sphereflow.random_transformers.network import RandomNetwork
from sphereflow.random_transformers.weight_laws import weights

N, START = 8, 0.1
TIMES = (2.0, 4.0)
GRID = (0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0)
# The equation of dimension d at tau = 2 and 4 for s = 0.2, five digits.
EXACT = {32: (0.58040, 0.90241), 64: (0.59946, 0.91566), 256: (0.61359, 0.92457), math.inf: (0.61827, 0.92736)}


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


@PAPER.claim(
    "simplex-equation",
    statement="The closed equation of equiangular tokens in dimension d takes its known values.",
    source="Theorem: simplex data, with the exact drift in dimension d",
    formula=r"\dot\gamma=\tfrac1d\left((d-2+\gamma^2)S-(d-1)\gamma P\right)",
    falsifier="the drift of infinite dimension used at d = 32: .6183 instead of .5804",
)
def simplex_equation(run: Run) -> Measurement:
    measured = [overlap_path(np.array(TIMES), N, 0.2, d, START) for d in EXACT]
    return agreement(
        np.ravel(list(EXACT.values())),
        np.ravel(measured),
        absolute=2e-5,
        because="digits of the reference",
        labels=tuple(f"d={d:g}, tau={t:g}" for d in EXACT for t in TIMES),
        parameters={"n": N, "s": 0.2, "start": START},
    )


@PAPER.claim(
    "logistic-collapse",
    statement="At high temperature the mean overlap follows the logistic curve; at s = 2 it does not.",
    source="Theorem: logistic collapse for small beta",
    formula=r"\dot u=u(1-u),\qquad u=m=\tfrac{1+(n-1)\gamma}{n}",
    falsifier="a temperature in the equation at order s^2",
)
def logistic_collapse(run: Run) -> Measurement:
    times = np.array(TIMES)
    curve = (N * logistic(times, float(mean_overlap(START, N))) - 1) / (N - 1)
    measured = [overlap_path(times, N, s, math.inf, START) for s in (0.0, 0.2)]
    cold = overlap_path(times, N, 2.0, math.inf, START)
    departs = float(np.max(np.abs(cold - curve)) > 0.01)
    return agreement(
        [*curve, *curve, 0.61827, 0.92736, 1.0],
        [*np.ravel(measured), *curve, departs],
        absolute=[1e-7] * 2 + [1e-4] * 2 + [1e-5] * 2 + [0.0],
        because="exact at s = 0; the s^2 term cancels, so s = 0.2 differs by s^4; digits of the reference",
        labels=("s=0, tau=2", "s=0, tau=4", "s=0.2, tau=2", "s=0.2, tau=4", "curve, 2", "curve, 4", "s=2 departs"),
        note=f"at s = 2 the overlaps are {cold[0]:.4f} and {cold[1]:.4f} instead of {curve[0]:.4f} and {curve[1]:.4f}.",
    )


@PAPER.claim(
    "network-follows-the-simplex",
    statement="Equiangular tokens in the network follow the equation of dimension d, with a lag that vanishes with d.",
    source="Theorem: simplex data",
    formula=r"\left|E\,R-\gamma(\tau)\right|\le 3\sigma+0.7/d",
    falsifier="a distance that does not shrink with d",
)
def follows_simplex(run: Run) -> Measurement:
    cases = [(32, 0.2, 400)] if run.quick else [(32, 0.1, 1000), (64, 0.1, 500), (64, 0.05, 200), (256, 0.1, 400)]
    predicted, measured, tolerance, labels = [], [], [], []
    for k, (d, step, networks) in enumerate(cases):
        run.notify(k / len(cases), f"d={d}, eta={step:g}")
        found = network_overlaps(d, step, 1, 0.2, networks, run.seed)
        predicted += list(EXACT[d])
        measured += list(found.value)
        tolerance += list(3 * found.error + 0.7 / d)
        labels += [f"d={d}, eta={step:g}, tau={t:g}" for t in TIMES]
    return agreement(
        predicted,
        measured,
        absolute=tolerance,
        because="three standard errors, and the lag of the mean behind the equation, which is of order 1/d",
        labels=tuple(labels),
        parameters={"n": N, "s": 0.2, "start": START, "networks": tuple(c[2] for c in cases)},
    )


@PAPER.claim(
    "finite-dimension-drift",
    statement="At d = 32 the network is closer to the equation of dimension d than to that of infinite dimension.",
    source="Theorem: simplex data; the stated drift has an error of order 1/d",
    formula=r"|E R-\gamma_d|<|E R-\gamma_\infty|",
    falsifier="the published form fitting better at small d",
)
def finite_dimension(run: Run) -> Measurement:
    d = 32
    found = network_overlaps(d, 0.2, 1, 0.2, 400 if run.quick else 1500, run.seed)
    near, far = (np.abs(found.value - np.array(EXACT[key])) for key in (d, math.inf))
    return at_least(
        0.0,
        far - near - 3 * found.error,
        because="three standard errors of the network's mean",
        labels=tuple(f"tau={t:g}" for t in TIMES),
        note=f"network {found}; d = 32: {EXACT[32]}, infinite: {EXACT[math.inf]}.",
        parameters={"d": d, "n": N, "eta": 0.2},
    )


@PAPER.claim(
    "one-clock",
    statement="Step, heads and depth enter through eta^2 L / H only.",
    source="Diffusive clock",
    formula=r"\tau=\eta^2L/H",
    falsifier="a dependence on H at the same tau (1/sqrt(H) averaging)",
)
def one_clock(run: Run) -> Measurement:
    cases = ((0.2, 1), (0.2 * math.sqrt(2), 2)) if run.quick else ((0.1, 1), (0.2, 4), (0.2, 1))
    networks = (400, 200) if run.quick else (1000,) * 3
    found = [
        network_overlaps(32, step, heads, 0.2, each, run.seed + k)
        for k, ((step, heads), each) in enumerate(zip(cases, networks, strict=True))
    ]
    values, errors = np.array([e.value for e in found]), np.array([e.error for e in found])
    return agreement(
        np.tile(values[0], len(cases) - 1),
        np.ravel(values[1:]),
        absolute=np.ravel(3 * np.hypot(errors[0], errors[1:]) + 0.005),
        because="three standard errors of the difference, and the weak error of order eta^2/H",
        labels=tuple(f"eta={e:g}, H={h}, tau={t:g}" for e, h in cases[1:] for t in TIMES),
        note="compared with " + f"eta={cases[0][0]:g}, H={cases[0][1]}.",
        parameters={"d": 32, "n": N, "s": 0.2, "networks": networks},
    )


@PAPER.claim(
    "colder-is-slower",
    statement="Colder networks have collapsed less at tau = 4; the lag behind the equation shrinks with the dimension.",
    source="Simplex data at s = 2 and s = 20",
    formula=r"\gamma_{s=20}(4)<\gamma_{s=2}(4)<\gamma_{s=0.2}(4)",
    falsifier="overlaps that do not depend on the temperature",
)
def colder_is_slower(run: Run) -> Measurement:
    d, networks = (32, 400) if run.quick else (256, 400)
    levels = (20.0,) if run.quick else (2.0, 20.0)
    exact = np.array([overlap_path(np.array(TIMES), N, s, d, START)[1] for s in levels])
    # Reference runs of 40 networks at d = 64: the equation minus the network, with standard errors; a lag of order 1/d.
    lag, lag_error = (np.array(v[-len(levels) :]) * 64 / d for v in ((0.033, 0.035), (0.009, 0.020)))
    steps = (0.2,) if run.quick else (0.2, 0.1)
    found = [[network_overlaps(d, step, 1, s, networks, run.seed) for step in steps] for s in levels]
    last = [Estimate(np.array([e.value[1] for e in each]), np.array([e.error[1] for e in each])) for each in found]
    # The error of the step is of second order: two steps take it away.
    end = [e if len(steps) == 1 else extrapolate(np.array(steps), e, 2) for e in last]
    value, bars = (np.array([np.ravel(getattr(e, part))[0] for e in end]) for part in ("value", "error"))
    warm = network_overlaps(d, steps[-1], 1, 0.2, networks, run.seed)
    # Each level against the next warmer one: what it exceeds that by, up to three standard errors of the difference.
    warmer, warmer_bars = np.r_[warm.value[1], value[:-1]], np.r_[warm.error[1], bars[:-1]]
    order = np.maximum(value - warmer + 3 * np.hypot(bars, warmer_bars), 0)
    return agreement(
        [*(exact - lag), *np.zeros(len(levels))],
        [*value, *order],
        absolute=[*(3 * np.hypot(bars, lag_error)), *np.zeros(len(levels))],
        because="three standard errors of the network and of the reference lag, scaled as 1/d; the order must be clear "
        "by three standard errors",
        labels=(*(f"s={s:g}, tau=4" for s in levels), *(f"s={s:g} not below the next warmer" for s in levels)),
        note="the equation itself gives " + ", ".join(f"{v:.4f}" for v in exact) + ".",
        parameters={"d": d, "n": N, "eta": steps, "networks": networks},
    )
