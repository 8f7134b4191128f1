r"""The last stage of collapse: all tokens close, one rate for every temperature and every number of tokens.

$$\frac d{d\tau}E\log(1-R)=-\frac{d-1}d,\qquad \frac d{d\tau}\log E(1-R)=-\frac{d-3}d.$$
"""

from __future__ import annotations

from functools import lru_cache

import jax
import numpy as np

from sphereflow.claims import Measurement, Run, agreement
from sphereflow.estimates import Estimate, growth_rate
from sphereflow.papers.random_transformers_homogenization import PAPER
from sphereflow.random_transformers.depth_observables import mean_log_gap
from sphereflow.random_transformers.gram_chain import run_gram
from sphereflow.random_transformers.network import RandomNetwork
from sphereflow.random_transformers.pair_equation import pair_bracket, pair_drift, pair_expectation
from sphereflow.random_transformers.time_scales import layer_time
from sphereflow.random_transformers.weight_laws import weights

DISTANCE = 1e-3
_log_gap = jax.jit(mean_log_gap)


@lru_cache(maxsize=32)
def collapse_rate(d: int, n: int, s: float, heads: int, networks: int, step: float, tau: float, seed: int) -> Estimate:
    """Lyapunov exponent of 1 - R from tokens at a small distance, on the clock of one token."""
    network = RandomNetwork(weights("product", d=d), s, step, heads)
    depths = [0, round(tau * heads / step**2)]
    gram = np.ones((n, n)) - DISTANCE**2 * (1 - np.eye(n))
    seen = run_gram(network, gram, d, depths, networks, observe=_log_gap, seed=seed)
    return growth_rate(seen.values, seen.layers * layer_time(d, step, heads))


@PAPER.claim(
    "final-collapse-rate",
    statement="Close tokens meet at one rate, independent of temperature, number of tokens and heads.",
    source="Overlap equation near coincidence",
    formula=r"\frac{d}{d\tau}E\log(1-R)=-\frac{d-1}d",
    falsifier="a rate that depends on s, n or H; the rate -(d-3)/d of the mean",
)
def final_rate(run: Run) -> Measurement:
    cases = [(32, 8, 0.5, 1), (32, 8, 20.0, 1)]
    networks, step, tau = 400, 0.2, 2.0
    if not run.quick:
        cases = [(6, n, s, h) for n in (2, 4, 5) for s in (0.5, 5.0) for h in (1, 2)]
        networks, step, tau = 2000, 0.1, 8.0
    found = []
    for k, case in enumerate(cases):
        run.notify(k / len(cases), "d={}, n={}, s={:g}, H={}".format(*case))
        found.append(collapse_rate(*case, networks, step, tau, run.seed + k))
    bars = np.array([float(e.error) for e in found])
    rates = np.array([(d - 1) / d for d, *_ in cases])
    return agreement(
        -rates,
        [float(e.value) for e in found],
        absolute=3 * bars + 0.03 * rates,
        because="three standard errors, and three per cent for the step",
        labels=tuple(f"d={d}, n={n}, s={s:g}, H={h}" for d, n, s, h in cases),
        note=f"standard errors {bars.min():.3f} to {bars.max():.3f}.",
        parameters={"eta": step, "tau": tau, "distance": DISTANCE, "networks": networks},
    )


@PAPER.claim(
    "mean-gap-rate",
    statement="The mean gap decays slower than a typical one: not at all for d = 3, and for d = 2 it grows.",
    source="Overlap equation near coincidence",
    formula=r"\frac{d}{d\tau}\log E(1-R)=-\frac{d-3}d",
    falsifier="a decay of the mean at d = 3",
)
def mean_rate(run: Run) -> Measurement:
    dimensions, near, tau = (2, 3, 4, 6, 16), 1e-4, 0.5
    rates = [np.log(pair_expectation(lambda r: 1 - r, 1 - near, tau, d, 0.0) / near) / tau for d in dimensions]
    return agreement(
        [-(d - 3) / d for d in dimensions],
        rates,
        absolute=3e-4,
        because="the start is at gap 1e-4, where the equation is linear up to a few times that relative order",
        labels=tuple(f"d={d}" for d in dimensions),
        parameters={"n": 2, "s": 0, "gap": near, "tau": tau},
    )


@PAPER.claim(
    "two-token-boundaries",
    statement="At s = 0 opposite tokens do not move; they repel slightly displaced ones for d > 3 only.",
    source="Closed equation of two tokens: boundary behaviour",
    formula=r"\text{near }r=-1:\ \frac{d}{d\tau}E\log(1+r)=\frac{d-3}d",
    falsifier="noise or drift at r = -1 and s = 0",
)
def boundaries(run: Run) -> Measurement:
    e = 1e-6
    log_rate = [
        float(pair_drift(-1 + e, d, 0.0) / e - pair_bracket(-1 + e, d, 0.0) / (2 * e * e)) for d in (2, 3, 5, 8)
    ]
    other = [float(-pair_drift(1 - e, d, 0.0) / e - pair_bracket(1 - e, d, 0.0) / (2 * e * e)) for d in (4, 6)]
    fixed = [float(pair_drift(-1.0, 5, 0.0)), float(pair_bracket(-1.0, 5, 0.0))]
    checked = [float(pair_drift(-0.9, 5, 0.0)), float(pair_bracket(-0.9, 5, 0.0))]
    return agreement(
        [*[(d - 3) / d for d in (2, 3, 5, 8)], *[-(d - 1) / d for d in (4, 6)], 0.0, 0.0, 0.0741, 0.00722],
        [*log_rate, *other, *fixed, *checked],
        absolute=[1e-5] * 6 + [1e-15] * 2 + [1e-9] * 2,
        because="terms of first order in the displacement 1e-6; closed forms otherwise",
        labels=(
            *[f"repulsion from -1, d={d}" for d in (2, 3, 5, 8)],
            *[f"attraction to 1, d={d}" for d in (4, 6)],
            "drift at -1",
            "variance at -1",
            "drift at -0.9, d=5",
            "variance at -0.9, d=5",
        ),
    )
