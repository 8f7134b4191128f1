r"""The limit of the staircase: merging times as $\beta\to\infty$, saddles, the distance to the limit orbit."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from scipy.integrate import quad

from sphereflow.claims import Check, Run
from sphereflow.metastability import ClockTimes, SaddlePath, clock_times, saddle_path, well_prepared
from sphereflow.papers.dynamic_metastability.caps import on_circle
from sphereflow.papers.dynamic_metastability.paper import PAPER
from sphereflow.papers.dynamic_metastability.sources import SADDLES, STAIRCASE
from sphereflow.papers.dynamic_metastability.staircase import START, closest_pairs

# Angles that the staircase theorem allows for: the merged left cluster is always the next to merge.
PREPARED = np.array([0.0, 0.4, 1.0, 2.2])


@lru_cache(maxsize=16)
def path(kind: str, beta: float) -> SaddlePath:
    return saddle_path(on_circle(START), beta, kind)


@PAPER.claim(
    "clock-limits",
    says=r"The merging times $T_k(\beta)$ of the modified dynamics converge in the rescaled clock: extrapolated from "
    r"$\beta=500$ to $10^6$, for a start that the theorem allows for and for another, they tend to sums of half the "
    r"inverse masses of the pairs, and in between the energy is the sum of squared masses.",
    basis=STAIRCASE,
    formula=r"T_k(\beta)\to\sum_{l\le k}\frac1{2c_l},\qquad 2\beta E_\beta\to\sum_q\alpha_q^2\ \text{between them}",
)
def clock_limits(run: Run) -> Check:
    betas = (500.0, 4000.0, 1e5, 1e6) if run.quick else tuple(np.geomspace(500, 1e6, 12))
    check = Check(parameters={"beta": betas, "n": "4 and 5"})
    latest: dict[str, float] = {}
    plain: dict[str, float] = {}
    twice: dict[str, float] = {}
    earlier: dict[str, float] = {}
    for start, angles in (("well prepared", PREPARED), ("five tokens", START)):
        found = clock_times(on_circle(angles), betas)
        gaps, masses, levels, _ = closest_pairs(1.0, angles)
        for k in range(len(gaps)):
            name = f"limit of $T_{k + 1}$, {start}"
            check.row(
                name,
                predicted=sum(1 / (2 * m) for m in masses[: k + 1]),
                measured=found.limits[k],
                tolerance=4 * found.errors[k] + 1e-6,
                because="four times the error of the extrapolation, and solver tolerance",
            )
            latest[name], plain[name] = float(found.clocks[-1, k]), _without_double_logarithm(found, k)
            twice[name] = sum(2 / m for m in masses[: k + 1])
            for b in (0, -1):
                level = rf"energy between $T_{k}$ and $T_{k + 1}$, $\beta={found.betas[b]:g}$, {start}"
                check.row(
                    level,
                    predicted=levels[k],
                    measured=found.energies[b, k],
                    tolerance=2e-3 if b == 0 else 1e-9,
                    because="what the next pair feels of itself a third into the plateau",
                )
                earlier[level] = levels[k + 1]
    check.note = (
        f"The theorem's condition holds with c = {well_prepared(PREPARED, betas[0]):.1f} > 1 at the least beta."
    )
    check.rival(r"the times at $\beta=10^6$ taken for the limits", latest)
    check.rival(r"extrapolation without the double logarithm", plain)
    check.rival("2/c for each merger", twice)
    check.rival("every merger one plateau earlier", earlier)
    return check


def _without_double_logarithm(found: ClockTimes, k: int) -> float:
    return float(np.polyfit(1 / np.log(found.betas), found.clocks[:, k], 1)[1])


@PAPER.claim(
    "saddle-index",
    says=r"A plateau of $k$ clusters on the circle has $k-1$ unstable directions, and the run leaves it along the "
    r"closest pair: in USA the two move inversely to their masses, in SA to the squares of them.",
    basis=SADDLES,
    formula=r"\#\{\lambda>0\}=k-1,\qquad v=(m_j,-m_i)\ (\mathrm{USA}),\ (m_j^2,-m_i^2)\ (\mathrm{SA})",
)
def saddle_index(run: Run) -> Check:
    check = Check(parameters={"n": 5, "beta": "100 and 200"}, note="Signs are counted in numbers of up to 300 digits.")
    single: dict[str, float] = {}
    whole: dict[str, float] = {}
    swapped: dict[str, float] = {}
    for kind, beta in (("usa", 100.0), ("sa", 200.0)):
        found = path(kind, beta)
        for k, index in zip(found.count.tolist(), found.index.tolist(), strict=True):
            name = f"index of {k} clusters, {kind.upper()}"
            check.same(name, predicted=k - 1, measured=index)
            single[name], whole[name] = 1.0, float(k)
        # The last pair, of masses 0.6 and 0.4: the second plateau has a near competitor, the others equal masses.
        name = f"cosine with the direction of the last pair, {kind.upper()}"
        check.row(name, predicted=1.0, measured=found.alignment[-1], tolerance=1e-9, because="no other pair: rounding")
        (u, v), (p, q) = ((0.4, 0.6), (0.16, 0.36))
        swapped[name] = (u * p + v * q) / (math.hypot(u, v) * math.hypot(p, q))
    check.rival("one unstable direction at every plateau", single)
    check.rival("one for each cluster", whole)
    check.rival("directions of SA and USA exchanged", swapped)
    return check


@PAPER.claim(
    "heteroclinic-distance",
    says=r"The run from saddle to saddle stays near the polygon of limit orbits. Under USA its distance is "
    r"exponentially small, with a constant that the pull of the next cluster gives; under SA it is of order "
    r"$\beta^{-1/2}$ as soon as unequal clusters merge, with a constant from where they land.",
    basis=SADDLES,
    formula=r"d\sim\frac A\beta e^{-\beta(\cos u-\cos v)}\ (\mathrm{USA}),\qquad "
    r"d\sim\frac{A'}{\sqrt\beta}\ (\mathrm{SA})",
)
def heteroclinic_distance(run: Run) -> Check:
    check = Check(parameters={"n": 5, "stages": "first and second (USA), second to fourth (SA)"})
    bare: dict[str, float] = {}
    heights: dict[str, float] = {}
    still: dict[str, float] = {}
    gaps = closest_pairs(1.0)[0]
    rise = math.cos(gaps[0]) - math.cos(gaps[1])
    for stage, betas in ((0, (100.0,)), (1, (100.0, 200.0, 400.0))):
        (constant, fixed), slope = _pull(stage), _competition(stage)
        for beta in betas:
            name = rf"log distance, stage {stage + 1}, USA, $\beta={beta:g}$"
            check.row(
                name,
                predicted=math.log(constant / beta) - beta * slope,
                measured=math.log(path("usa", beta).distance[stage]),
                tolerance=5 / beta + 0.5 * math.exp(-beta * slope),
                because="the next terms: 1/beta, and the square of the small factor",
            )
            bare[name] = math.log(constant) - beta * slope
            still[name] = math.log(fixed / beta) - beta * slope
            heights[name] = math.log(constant / beta) - beta * rise
    carried: dict[str, float] = {}
    near: dict[str, float] = {}
    for stage, (constant, alone) in _landings().items():
        for beta in (200.0, 1000.0):
            name = rf"$\sqrt\beta$ times the distance, stage {stage}, SA, $\beta={beta:g}$"
            check.row(
                name,
                predicted=constant,
                measured=math.sqrt(beta) * path("sa", beta).distance[stage - 1],
                relative=0.3 / beta,
                because="the next term, smaller by 1/beta",
            )
            carried[name], near[name] = alone, 0.0
    check.rival(r"without the factor $1/\beta$", bare)
    check.rival("the partner of the next cluster standing still", still)
    check.rival("the difference of the first two barriers as the exponent", heights)
    check.rival("exponentially near under SA too", near)
    check.rival("every landing by itself, nothing carried on", {k: v for k, v in carried.items() if "stage 4" in k})
    return check


def _competition(stage: int) -> float:
    """cos u - cos v: the closest pair against the next gap, between its right member and the token beyond."""
    clusters = sorted(closest_pairs(1.0)[3][stage])
    return math.cos(clusters[1][0] - clusters[0][0]) - math.cos(clusters[2][0] - clusters[1][0])


def _pull(stage: int) -> tuple[float, float]:
    r"""(A, the same if the pair's right member stood still) of the first or second stage, by Laplace's method.

    While the pair i, j closes from the gap u, $dt\propto e^{-\beta\cos u}du/(m_i+m_j)\sin u$; token p at the gap v is
    pulled by j like $m_je^{\beta\cos v}\sin v$, and v grows by $m_i/(m_i+m_j)$ of what u loses.
    """
    (a, m_i), (b, m_j), (c, m_p) = sorted(closest_pairs(1.0)[3][stage])[:3]
    u, v, mass = b - a, c - b, m_i + m_j
    share = math.sin(v) / (mass * math.sin(u))
    moving, fixed = share / (math.sin(u) + m_i / mass * math.sin(v)), share / math.sin(u)
    # The token p moves by m_j times this, the mean of the pair by m_j m_p / (m_i + m_j) times this.
    size = math.sqrt(m_p * m_j**2 + mass * (m_j * m_p / mass) ** 2)
    return size * moving, size * fixed


def _landings() -> dict[int, tuple[float, float]]:
    r"""$\sqrt\beta$ times the distance of stages 2 to 4 under SA, and what each landing alone would give.

    Masses 0.4 and 0.2 land $\kappa/\sqrt\beta$ beside the mean by squared mass, and stay there while the third stage
    goes on; in the fourth, masses 0.6 and 0.4 carry 0.36/0.52 of that on and add their own.
    """

    def kappa(a: float, b: float) -> float:
        product, squares = a * b, a * a + b * b
        rest = quad(lambda s: product / (squares * (squares * math.exp(s * s / 2) + 2 * product)), 0, 30)[0]
        return float((a * a - b * b) * rest)

    def along(a: float, b: float) -> float:
        """What projecting on the side leaves of a displacement of the merged pair."""
        return math.sqrt(a + b - a * b * (a - b) ** 2 / (a**3 + b**3))

    first, second = kappa(0.4, 0.2), kappa(0.6, 0.4)
    return {
        2: (along(0.4, 0.2) * first, 0.0),
        3: (math.sqrt(0.6) * first, 0.0),
        4: (along(0.6, 0.4) * (0.36 / 0.52 * first + second), along(0.6, 0.4) * second),
    }
