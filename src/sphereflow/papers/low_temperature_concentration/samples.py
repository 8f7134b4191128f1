r"""What equal tokens add to the law: one of them may stay at the divide for ever.

Tokens near the divide move away from it while they see each other. Once they are farther apart than the kernel is wide,
a token that is still close to the divide attends to itself alone, follows $\dot x=P_xVx$, and is pulled back to the
divide, which is the leading axis of V. Each of k such tokens stays a right angle away from the limit points. Few starts
have one, for it must begin within half a percent or so of its distance to the next; but 1/n is as much as $D^2$.
"""

from __future__ import annotations

import numpy as np

from sphereflow.claims import Check, Run, basis
from sphereflow.meanfield import concentrate
from sphereflow.meanfield.initial import starting_law
from sphereflow.papers.low_temperature_concentration import PAPER
from sphereflow.papers.low_temperature_concentration.particles import (
    FRAMES,
    SPLIT_B,
    SPLIT_V,
    TOKENS,
    axis_distance,
    follow,
)
from sphereflow.papers.low_temperature_concentration.phases import HALF, best_moment

BETA = 300.0


def even(theta: np.ndarray) -> np.ndarray:
    r"""$1+0.3\cos\theta$: both divides, 0 and $\pi$, are where symmetry puts them at every temperature."""
    return np.asarray(1 + 0.3 * np.cos(theta))


def starts(n: int, at_divide: int, nudge: np.ndarray) -> np.ndarray:
    """Quantile points, one or two of them at a divide up to a nudge in units of their distances there."""
    law = starting_law(even)
    angles = law.quantiles(np.mod(law.cumulative(np.zeros(1)) + np.arange(n) / n, 1))
    gaps = 2 * np.pi / n / even(np.array([0.0, np.pi]))
    angles[0] += nudge[0] * gaps[0]
    # With one token at 0, the one at the other divide starts halfway to its neighbour.
    angles[n // 2] += (nudge[1] if at_divide == 2 else 0.5) * gaps[1]
    return np.asarray(angles)


@PAPER.claim(
    "caught-at-the-divide",
    says=r"Of $n$ equal tokens, $k$ that start on a divide, up to a thousandth of their distance to the next, stay "
    r"there at $\beta=300$: they attend to themselves alone. The smallest distance of the tokens is then "
    r"$\sqrt{D^2+\pi^2k/4n}$ with that of the law, $D$; when they start three percent off, it is $D$.",
    basis=basis.Derived("attention to itself alone, for a token far from all others"),
    formula=r"\min_tD_n^2=\min_tD^2+\frac{\pi^2}4\frac kn",
)
def caught_at_the_divide(run: Run) -> Check:
    sizes, times = (TOKENS,) if run.quick else (300, 400, 500, 600, 700), 0.25 * np.arange(FRAMES)
    law = concentrate(SPLIT_V, SPLIT_B, BETA, even, 16.5, saveat=FRAMES, tol=1e-5)
    least, nudges = law.support_distance().min(), np.random.default_rng(run.seed).choice([-1, 1], (len(sizes), 2))
    check = Check(parameters={"n": sizes, "beta": BETA}, note=f"Smallest D of the law: {least:.4f}.")
    free, noise, half = {}, {}, {}
    for n, nudge in zip(sizes, nudges, strict=True):
        for k, off in ((1, 1e-3), (2, 1e-3), (0, 0.03)):
            name = f"smallest distance, {k} caught of {n}"
            angles = follow(BETA, SPLIT_V, SPLIT_B, starts(n, k or 2, off * nudge), times, 0.25)
            check.row(
                name,
                predicted=np.sqrt(least**2 + k * HALF**2 / n),
                measured=best_moment(times, axis_distance(angles, HALF))[0],
                relative=1.13 * (2 * np.pi / n) ** 0.6 / 2.2,
                because="the last tokens to leave: a sum for the integral of x^(-0.4), zeta(0.4) = -1.13",
            )
            free[name] = least
            noise[name] = least * (1 + 1 / np.sqrt(n))
            half[name] = np.sqrt(least**2 + k * (HALF / 2) ** 2 / n)
    check.rival("every token leaves the divide, as at zero temperature", free)
    check.rival(r"a sampling error of relative size $n^{-1/2}$", noise)
    check.rival("tokens caught halfway", half)
    return check
