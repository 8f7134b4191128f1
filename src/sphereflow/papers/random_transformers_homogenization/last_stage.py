r"""The last stage of collapse: all tokens close, one rate for every temperature and every number of tokens.

$$\frac d{d\tau}E\log(1-R)=-\frac{d-1}d,\qquad \frac d{d\tau}\log E(1-R)=-\frac{d-3}d.$$
"""

from __future__ import annotations

from functools import lru_cache

import jax
import numpy as np

from sphereflow.claims import Check, Run, basis
from sphereflow.estimates import Estimate, growth_rate
from sphereflow.papers.random_transformers_homogenization import PAPER, independent
from sphereflow.random_transformers.depth_observables import mean_log_gap
from sphereflow.random_transformers.gram_chain import run_gram
from sphereflow.random_transformers.network import RandomNetwork
from sphereflow.random_transformers.pair_equation import pair_expectation
from sphereflow.random_transformers.weight_laws import weights

DISTANCE = 1e-3
_log_gap = jax.jit(mean_log_gap)


@lru_cache(maxsize=32)
def collapse_rate(d: int, n: int, s: float, heads: int, networks: int, step: float, tau: float, seed: int) -> Estimate:
    """Lyapunov exponent of 1 - R from tokens at a small distance."""
    network = RandomNetwork(weights("product", d=d), s, step, heads)
    depths = [0, round(tau * heads / step**2)]
    gram = np.ones((n, n)) - DISTANCE**2 * (1 - np.eye(n))
    seen = run_gram(network, gram, d, depths, networks, observe=_log_gap, seed=seed)
    return growth_rate(seen.values, seen.layers * step**2 / heads)


NEAR = basis.Derived("the overlap equation where tokens nearly coincide: attention is flat there")


@PAPER.claim(
    "final-collapse-rate",
    says="Close tokens of networks in dimension 6 meet at one rate, whatever the temperature ($s=0.5$ and 5), the "
    "number of tokens (3 and 5) and of heads (1 and 2): that of one layer, which tends to $-(d-1)/d$ with the step.",
    basis=NEAR,
    formula=r"\frac{d}{d\tau}E\log(1-R)=-\frac{d-1}d",
)
def final_rate(run: Run) -> Check:
    d = 6
    cases = [(5, 0.5, 1), (3, 5.0, 2)]
    networks, step, tau = 1000, 0.2, 2.0
    if not run.quick:
        cases = [(n, s, h) for n in (3, 5) for s in (0.5, 5.0) for h in (1, 2)]
        networks, step, tau = 2000, 0.1, 5.0
    check = Check(parameters={"d": d, "eta": step, "tau": tau, "distance": DISTANCE, "networks": networks})
    slow, fewer = {}, {}
    for k, (n, s, heads) in enumerate(cases):
        run.notify(k / len(cases), f"n={n}, s={s:g}, H={heads}")
        found = collapse_rate(d, n, s, heads, networks, step, tau, run.seed + k)
        row = f"n={n}, s={s:g}, H={heads}"
        check.row(
            row,
            predicted=independent.log_growth_of_a_layer(d, step / np.sqrt(heads * d)) * heads / step**2,
            measured=found.value,
            error=found.error,
            repeats=networks,
            tolerance=0.005,
            because="the error bar over networks; tokens at a finite distance of 0.001",
        )
        slow[row], fewer[row] = -(d - 3) / d, -(d - 2) / d
    limit = independent.log_growth_of_a_layer(d, 1e-3 / np.sqrt(d)) / 1e-6
    check.row(
        "one layer as eta tends to 0", predicted=-(d - 1) / d, measured=limit, tolerance=1e-5, because="order eta^2"
    )
    check.rival("the rate of the mean gap, -(d-3)/d", slow)
    check.rival("one direction too few, -(d-2)/d", fewer)
    return check


@PAPER.claim(
    "mean-gap-rate",
    says="By the two-token equation the mean gap decays slower than a typical one: in dimensions 4, 6 and 16 at the "
    "rate $(d-3)/d$, not at all for $d=3$, and for $d=2$ it grows.",
    basis=NEAR,
    formula=r"\frac{d}{d\tau}\log E(1-R)=-\frac{d-3}d",
)
def mean_rate(run: Run) -> Check:
    dimensions, near, tau = (2, 3, 4, 6, 16), 1e-4, 0.5
    check = Check(parameters={"n": 2, "s": 0, "gap": near, "tau": tau})
    for d in dimensions:
        check.row(
            f"d={d}",
            predicted=-(d - 3) / d,
            measured=np.log(pair_expectation(lambda r: 1 - r, 1 - near, tau, d, 0.0) / near) / tau,
            tolerance=3e-4,
            because="a start at gap 1e-4, where the equation is linear up to a few times that relative order",
        )
    check.rival("the rate of a typical gap", [-(d - 1) / d for d in dimensions])
    check.rival("half the spread of the logarithm", [-(d - 2) / d for d in dimensions])
    return check
