r"""The staircase: when clusters merge as $\beta\to\infty$, where the energy rests, and which way a plateau is left.

$$\frac{\log T_k}\beta\to h_k=1-\cos u_k,\qquad 2\beta E_\beta\to\sum_q\alpha_q^2,$$

with $u_k$ the smallest gap after k-1 mergers. Merged clusters lie at the mean by mass (USA) or by squared mass (SA).
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np

from sphereflow.claims import Check, Run, basis
from sphereflow.metastability import MergeHistory, coarsen_to_one, slow_modes
from sphereflow.papers.dynamic_metastability.caps import on_circle
from sphereflow.papers.dynamic_metastability.paper import PAPER
from sphereflow.papers.dynamic_metastability.sources import STAIRCASE

START = np.array([0.0, 0.55, 1.35, 2.45, 4.0])


@cache
def merge(kind: str, beta: float) -> MergeHistory:
    """The five-token start of this module, to the single cluster."""
    return coarsen_to_one(kind, on_circle(START), beta, errors=False)


def closest_pairs(
    power: float, start: np.ndarray = START
) -> tuple[list[float], list[float], list[float], list[list[tuple[float, float]]]]:
    """(gaps, masses of the pairs, levels, clusters) of repeated merging of the closest pair of angles, by plain loops.

    A pair lands at the mean weighted by mass to the `power`: 1 for USA, 2 for SA, 0 for the middle.
    """
    clusters = [(float(t), 1 / len(start)) for t in start]
    gaps, masses, levels, seen = [], [], [sum(m * m for _, m in clusters)], [list(clusters)]
    while len(clusters) > 1:
        best = (math.inf, 0, 0, 0.0)
        for i in range(len(clusters)):
            for j in range(i):
                turn = (clusters[i][0] - clusters[j][0] + math.pi) % (2 * math.pi) - math.pi
                best = min(best, (abs(turn), i, j, turn))
        gap, i, j, turn = best
        (_, a), (low, b) = clusters[i], clusters[j]
        landed = low + turn * a**power / (a**power + b**power)
        clusters = [c for k, c in enumerate(clusters) if k not in (i, j)] + [(landed, a + b)]
        gaps.append(gap)
        masses.append(a + b)
        levels.append(sum(m * m for _, m in clusters))
        seen.append(list(clusters))
    return gaps, masses, levels, seen


@PAPER.claim(
    "merging-times",
    says=r"As $\beta$ grows to 4000, $\log T_k/\beta$ of the four mergers of five tokens, corrected for its "
    r"logarithm and extrapolated, tends to $1-\cos$ of the smallest gap, with landing points by mass in USA and by "
    r"squared mass in SA.",
    basis=basis.Derived("Laplace's method at each merger; thm: staircase speaks of a rescaled clock"),
    formula=r"\frac{\log T_k}{\beta}=1-\cos u_k-\frac{\log\beta}\beta+O(\beta^{-1/2})",
)
def merging_times(run: Run) -> Check:
    betas = np.array([500.0, 1000.0, 2000.0, 4000.0])
    check = Check(parameters={"n": 5, "beta": betas.tolist()})
    swapped: dict[str, float] = {}
    still: dict[str, float] = {}
    start = np.sort(1 - np.cos(np.diff(START, append=START[0] + 2 * math.pi)))
    for kind, power in (("usa", 1.0), ("sa", 2.0)):
        times = np.stack([merge(kind, float(b)).log_times for b in betas])
        corrected = (times + np.log(betas)[:, None]) / betas[:, None]
        design = np.stack([np.ones(4), betas**-0.5, 1 / betas], axis=1)
        fit = np.linalg.lstsq(design, corrected, rcond=None)[0][0]
        heights = 1 - np.cos(closest_pairs(power)[0])
        other = 1 - np.cos(closest_pairs(3 - power)[0])
        for k in range(4):
            name = f"{kind.upper()}, merger {k + 1}"
            check.row(
                name,
                predicted=heights[k],
                measured=fit[k],
                tolerance=5e-5,
                because="the next terms of the expansion, of order beta^(-3/2) and beta^(-2)",
            )
            swapped[name] = float(other[k])
            still[name] = float(start[k])
    check.rival("landing points of SA and USA exchanged", swapped)
    check.rival("gaps between the tokens as they started", still)
    return check


@PAPER.claim(
    "plateau-levels",
    says=r"At $\beta=2000$ and at times $e^{\beta h}$ midway between the predicted mergers, the normalised energy "
    "is the sum of squared masses of the clusters that should then exist.",
    basis=STAIRCASE,
    formula=r"2\beta E_\beta=\sum_q\alpha_q^2",
)
def plateau_levels(run: Run) -> Check:
    beta = 2000.0
    check = Check(parameters={"n": 5, "beta": beta})
    late: dict[str, float] = {}
    early: dict[str, float] = {}
    for kind, power in (("usa", 1.0), ("sa", 2.0)):
        gaps, _, levels, _ = closest_pairs(power)
        heights = 1 - np.cos(gaps)
        middles = [heights[0] / 2, *((heights[1:] + heights[:-1]) / 2), heights[-1] + 0.1]
        energy = merge(kind, beta).energy(beta * np.array(middles))
        for k, level in enumerate(levels):
            name = f"{kind.upper()}, plateau {k + 1}"
            because = "clusters feel each other by less than e^-29"
            check.row(name, predicted=level, measured=energy[k], tolerance=1e-9, because=because)
            late[name] = levels[max(k - 1, 0)]
            early[name] = levels[min(k + 1, 4)]
    check.rival("every merger one plateau later", late)
    check.rival("every merger one plateau earlier", early)
    check.rival(r"the energy as first defined, smaller by $2\beta$", check.times(1 / (2 * beta)))
    return check


@PAPER.claim(
    "staircase-clock",
    says=r"With the gluing of the theorem, USA merges in the rescaled clock at the times that each pair alone "
    r"gives, for $\beta=500$ and 4000; as $\beta\to\infty$ these tend to sums of $1/(2c_l)$, $c_l$ the mass of the "
    r"pair.",
    basis=STAIRCASE,
    formula=r"T_k-T_{k-1}=\frac{\log(\tan(u_k/2)/\tan(r_c/2))}{c_k\log\beta},\quad r_c=\frac1{\sqrt{\beta\log\beta}}",
)
def staircase_clock(run: Run) -> Check:
    gaps, masses, _, _ = closest_pairs(1.0)
    check = Check(parameters={"n": 5})
    limit: dict[str, float] = {}
    quadruple: dict[str, float] = {}
    equal: dict[str, float] = {}
    for beta in (500.0, 4000.0):
        radius = 1 / math.sqrt(beta * math.log(beta))
        glued = coarsen_to_one("usa", on_circle(START), beta, radius=2 * math.sin(radius / 2), errors=False)
        clocks = [m.clock for m in glued.merges]
        steps = [math.log(math.tan(u / 2) / math.tan(radius / 2)) / math.log(beta) for u in gaps]
        for k, place in enumerate(np.cumsum([s / m for s, m in zip(steps, masses, strict=True)])):
            name = rf"$\beta={beta:g}$, merger {k + 1}"
            check.row(
                name,
                predicted=place,
                measured=clocks[k],
                relative=2e-3 if beta < 1000 else 2e-4,
                because="the pull of the next cluster, which the pair alone leaves out, and where glued pairs lie",
            )
            limit[name] = sum(1 / (2 * m) for m in masses[: k + 1])
            quadruple[name] = sum(2 / m for m in masses[: k + 1])
            equal[name] = sum(steps[: k + 1]) / masses[0]
    check.rival("the limit of infinite beta at once", limit)
    check.rival("2/c for each merger", quadruple)
    check.rival("every pair as fast as the first", equal)
    return check


@PAPER.claim(
    "unstable-directions",
    says=r"A plateau of $k$ clusters on the circle is left along its closest pair, at the rate that this pair alone "
    r"gives ($\beta=100$).",
    basis=basis.Derived("the linear motion of clusters is a weighted graph Laplacian"),
    formula=r"\lambda_1\approx s\,(\beta\sin^2u-\cos u)\,e^{-\beta(1-\cos u)},\quad s=m_i+m_j\ (\mathrm{USA}),\ "
    r"\tfrac{m_i}{m_j}+\tfrac{m_j}{m_i}\ (\mathrm{SA})",
)
def unstable_directions(run: Run) -> Check:
    beta = 100.0
    gaps, _, _, plateaus = closest_pairs(1.0)
    check = Check(parameters={"beta": beta})
    swapped: dict[str, float] = {}
    flat: dict[str, float] = {}
    for k, (gap, clusters) in enumerate(zip(gaps, plateaus, strict=False)):
        if k == 1:  # the next gap is only .022 away in cosine: not one pair alone
            continue
        x = on_circle(np.array([c[0] for c in clusters]))
        m = np.array([c[1] for c in clusters])
        i, j = divmod(int(np.argmax(x @ x.T - 3 * np.eye(len(x)))), len(x))
        speeds = {"usa": m[i] + m[j], "sa": m[i] / m[j] + m[j] / m[i]}
        for kind, speed in speeds.items():
            name = rf"$\log\lambda_1$, {kind.upper()}, {len(x)} clusters"
            base = math.log(speed) - beta * (1 - math.cos(gap))
            check.row(
                name,
                predicted=base + math.log(beta * math.sin(gap) ** 2 - math.cos(gap)),
                measured=slow_modes(x, m, beta, kind).logs[0],
                tolerance=1e-5,
                because="the pull of other clusters",
            )
            other = speeds["sa" if kind == "usa" else "usa"]
            swapped[name] = check.rows[-1].predicted + math.log(other / speed)
            flat[name] = base + math.log(beta * math.sin(gap) ** 2)
    check.rival("mass factors of SA and USA exchanged", swapped)
    check.rival(r"without $-\cos u$", flat)
    return check
