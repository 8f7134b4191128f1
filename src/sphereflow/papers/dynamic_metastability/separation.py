"""Which random starts are separated: fewer and fewer on the circle, all of them in high dimension."""

from __future__ import annotations

import math

import numpy as np

from sphereflow.claims import Check, Run
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
    draws, counted = (1500, 1500) if run.quick else (100_000, 20_000)
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


@PAPER.claim(
    "high-dimension",
    says="In dimension 20 to 2000 five uniform tokens are always separated, each in its own cap; in dimension 3 "
    "they are not.",
    basis=RANDOM_STARTS,
    formula=r"\mathbb P(\text{separated})\to1\quad(d\to\infty)",
)
def high_dimension(run: Run) -> Check:
    draws = 12 if run.quick else 200
    rng = np.random.default_rng(run.seed)

    def separated(d: int) -> int:
        good = 0
        for _ in range(draws):
            x = rng.normal(size=(5, d))
            found = certify(x / np.linalg.norm(x, axis=1, keepdims=True), 50.0)
            good += found.separated and len(found.centres) == 5
        return good

    check = Check(parameters={"n": 5, "beta": 50, "draws": draws})
    for d in (20, 200, 2000):
        check.same(
            f"separated of {draws}, $d={d}$", predicted=draws, measured=separated(d), because="every draw counts"
        )
    check.null("three dimensions", {row.name: float(separated(3)) for row in check.rows})
    return check
