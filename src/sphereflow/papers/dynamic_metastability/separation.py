"""Which random starts are separated: fewer and fewer on the circle, nearly all of them in high dimension."""

from __future__ import annotations

import math

import numpy as np
from scipy import stats

from sphereflow.claims import Check, Run
from sphereflow.claims.check import FALSE_ALARM
from sphereflow.estimates import fraction as share
from sphereflow.metastability import certify, circle_separated
from sphereflow.papers.dynamic_metastability.paper import PAPER
from sphereflow.papers.dynamic_metastability.sources import RANDOM_STARTS

SIZES = (2, 3, 4, 5, 6, 8)
BETAS = (50, 200)
EPSILON = 0.01


def drawn(n: int, beta: float, draws: int, seed: int | list[int]) -> np.ndarray:
    """Which uniform starts on the circle are separated at epsilon = .01."""
    angles = np.random.default_rng(seed).uniform(0, 2 * np.pi, size=(draws, n))
    return circle_separated(angles, beta, EPSILON)


def fraction(n: int, beta: float, draws: int, seed: int) -> float:
    return float(drawn(n, beta, draws, seed).mean())


def scales(n: int, beta: float) -> tuple[float, float]:
    """(distance that centres must have, half width of a cap)."""
    apart = 2 * math.acos(1 - 2 * EPSILON) + math.acos(1 - 8 * EPSILON - math.log(2 * n**2 / EPSILON) / beta)
    return apart, math.acos(1 - EPSILON)


def by_windows(angles: np.ndarray, apart: float, half: float) -> bool:
    """Whether caps can be placed, by loops over all runs of neighbouring groups around the circle."""
    theta = np.sort(angles)
    gaps = np.diff(theta, append=theta[0] + 2 * np.pi)
    cut = np.flatnonzero(gaps >= apart - 2 * half)
    if len(cut) == 0:
        return False
    # Groups of tokens too close for two caps, from the first cut on, as (first, last) angles.
    begins = [theta[(c + 1) % len(theta)] + (2 * np.pi if c + 1 == len(theta) else 0) for c in cut]
    groups = [(b, theta[cut[(i + 1) % len(cut)]]) for i, b in enumerate(begins)]
    groups = [(b, e + 2 * np.pi * math.ceil((b - e) / (2 * np.pi) - 1e-12)) for b, e in groups]
    if any(e - b > 2 * half for b, e in groups):
        return False
    k = len(groups)
    if k == 1:
        return True
    if k * apart > 2 * np.pi:
        return False
    for i in range(k):
        for step in range(1, k):
            first = groups[(i + step) % k][0]
            first += 2 * np.pi * math.ceil((groups[i][1] - first) / (2 * np.pi))
            if first - groups[i][1] + 2 * half < step * apart:
                return False
    return True


@PAPER.claim(
    "circle-fractions",
    says="On the circle the fraction of separated uniform starts falls with the number of tokens, faster than "
    "geometrically: two tokens as an exact formula says, three to six as a count over all runs of neighbours.",
    basis=RANDOM_STARTS,
    formula=r"P_2=1-\frac{D^*-4a}{\pi},\quad D^*=2\arccos(1-2\varepsilon)+\arccos\big(1-8\varepsilon-\tfrac1\beta"
    r"\log\tfrac{2n^2}\varepsilon\big),\quad a=\arccos(1-\varepsilon)",
)
def circle_fractions(run: Run) -> Check:
    draws, counted = (1500, 1500) if run.quick else (40_000, 10_000)
    check = Check(parameters={"draws": draws, "epsilon": EPSILON})
    fixed: dict[str, float] = {}
    geometric: dict[str, float] = {}
    for beta in BETAS:
        for n in SIZES[:5]:
            seen = share(drawn(n, beta, draws, [run.seed, n, int(beta)]))
            apart, half = scales(n, beta)
            name = rf"$\beta={beta}$, $n={n}$"
            if n == 2:
                exact, error, pair = 1 - (apart - 4 * half) / math.pi, 0.0, 1 - (apart - 4 * half) / math.pi
            else:
                rng = np.random.default_rng([run.seed, n, int(beta), 1])
                angles = rng.uniform(0, 2 * np.pi, (counted, n))
                loops = share(np.array([by_windows(a, apart, half) for a in angles]))
                exact, error = float(loops.value), float(loops.error)
            check.row(
                name,
                predicted=exact,
                measured=seen.value,
                error=math.hypot(float(seen.error), error),
                because="binomial errors of both counts" if n > 2 else "binomial error of the count",
            )
            fixed[name] = max(1 - n * apart / (2 * math.pi), 0.0) ** (n - 1)
            geometric[name] = pair ** (n / 2)
    check.rival("caps centred at the tokens, gaps of at least $D^*$", fixed)
    check.rival("the geometric law through two tokens", geometric)
    return check


def least_distance(n: int, beta: float) -> tuple[float, float]:
    """(epsilon, distance of centres) where the condition asks for the least distance."""
    tried = np.geomspace(1e-6, 0.06, 2000)
    apart = 2 * np.arccos(1 - 2 * tried) + np.arccos(1 - 8 * tried - np.log(2 * n**2 / tried) / beta)
    return float(tried[apart.argmin()]), float(apart.min())


@PAPER.claim(
    "high-dimension",
    says="Five uniform tokens at $\\beta=50$ are separated, each at the centre of its own cap, unless one of their ten "
    "pairs is closer than the condition allows: this happens to seven draws in a hundred in dimension 10, to two in a "
    "thousand in dimension 20, and never in dimensions 200 and 2000.",
    basis=RANDOM_STARTS,
    formula=r"10p-45p^2\le1-\mathbb P(\text{separated})\le10p,\quad "
    r"p=\mathbb P\big(\langle x_1,x_2\rangle>\cos D^*\big),\quad "
    r"D^*=\min_\varepsilon\Big[2\arccos(1-2\varepsilon)+\arccos\big(1-8\varepsilon-\tfrac1\beta"
    r"\log\tfrac{2n^2}\varepsilon\big)\Big]",
)
def high_dimension(run: Run) -> Check:
    n, beta = 5, 50.0
    sizes = {10: 2000, 20: 400, 200: 100, 2000: 50} if run.quick else {10: 4000, 20: 4000, 200: 400, 2000: 400}
    epsilon, apart = least_distance(n, beta)
    rng = np.random.default_rng(run.seed)
    check = Check(parameters={"n": n, "beta": beta, "epsilon": round(epsilon, 7), "draws": str(sizes)})
    one_pair, gaussian = {}, {}
    for d, draws in sizes.items():
        missed = 0
        for _ in range(draws):
            x = rng.normal(size=(n, d))
            found = certify(x / np.linalg.norm(x, axis=1, keepdims=True), beta, epsilon)
            missed += not (found.separated and len(found.centres) == n)
        # Overlaps of two pairs are independent, so Bonferroni's inequalities bracket the chance of a close pair.
        p = float(stats.beta((d - 1) / 2, (d - 1) / 2).sf((1 + math.cos(apart)) / 2))
        predicted, gap = 10 * p - 22.5 * p**2, 22.5 * p**2
        name = f"not separated of {draws}, $d={d}$"
        if draws * predicted < FALSE_ALARM:
            check.same(name, predicted=0, measured=missed, because=f"a chance of {draws * predicted:.0e}")
            continue
        check.row(
            name,
            predicted=draws * predicted,
            measured=missed,
            tolerance=float(stats.binom.isf(FALSE_ALARM / 2, draws, predicted)) - draws * predicted + draws * gap,
            because="quantile 1e-5 of the binomial law, and half of what the two inequalities leave open",
        )
        one_pair[name] = draws * p
        gaussian[name] = draws * 10 * float(stats.norm.sf(math.cos(apart) * math.sqrt(d)))
    check.rival("one pair in place of ten", one_pair)
    check.rival("Gaussian overlaps of variance $1/d$", gaussian)
    return check
