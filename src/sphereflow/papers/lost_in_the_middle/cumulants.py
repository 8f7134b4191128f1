r"""Sizes of cumulants in N: the second of order 1/N, the third of order 1/N^2, with their constants.

$$E\cos\big(n_1\theta_N(t)+n_2\theta_j(0)+n_3\theta_k(0)\big)=F_N(t)+O(N^{-3}),\qquad n_1+n_2+n_3=0 .$$
"""

from __future__ import annotations

import numpy as np

from sphereflow.claims import Check, Run, basis
from sphereflow.estimates import mean
from sphereflow.papers.lost_in_the_middle import PAPER, reference
from sphereflow.papers.lost_in_the_middle.monte_carlo import EXTRAPOLATED, extrapolated, padded_length
from sphereflow.papers.lost_in_the_middle.sources import LEAN
from sphereflow.papers.lost_in_the_middle.volterra import MODES
from sphereflow.retrieval.circle import CausalCircle
from sphereflow.retrieval.influence import circle_advance

WAVES = ((2, -1, -1), (1, 1, -2))
SIZES = (20, 60)
PHASES = 5  # of each source: waves up to 2 are told apart, and what does not depend on both sources averages to zero


def samples(n: int, repeats: int, seed: int) -> np.ndarray:
    """Per environment: the second cumulant with the source at n/4, and the third ones with those at n/4 and 3n/4."""
    rng = np.random.default_rng([seed, n])
    j, k = n // 4 - 1, 3 * n // 4 - 1
    start = np.tile(rng.uniform(0, 2 * np.pi, (repeats, 1, 1, n)), (1, PHASES, PHASES, 1))
    turns = 2 * np.pi * np.arange(PHASES) / PHASES
    start[..., j] += turns[:, None]
    start[..., k] += turns
    advance = circle_advance(CausalCircle(1.0, 1.0, length=n, modes=MODES), 1.0, padded_length=padded_length(n))
    last = advance(start.reshape(-1, n)).reshape(start.shape)[..., -1]
    rows = [np.cos(last - start[..., j])]
    rows += [np.cos(a * last + b * start[..., j] + c * start[..., k]) for a, b, c in WAVES]
    return np.array([row.mean(axis=(1, 2)) for row in rows])


@PAPER.claim(
    "third-cumulants",
    says="In simulated decoders of 20 and 60 tokens the cumulant of the last token with the start of one source falls "
    "like $1/N$, that with the starts of two sources like $1/N^2$, and its constant is that of the linear equation "
    "with two pairings, for two choices of waves.",
    basis=basis.Theorem("cumulant bounds of order 1/i and 1/(ij); the constant derived here", via=LEAN),
    formula=r"\dot F=a_{n_1}\omega F-n_1\big[n_3I_{n_3}\,u_2\odot(\omega u_3)+n_2I_{n_2}\,u_3\odot(\omega u_2)\big]",
)
def third_cumulants(run: Run) -> Check:
    repeats = 60 if run.quick else 2000
    check = Check(parameters={"beta": 1, "slope": 1, "t": 1, "N": "20 and 60", "environments": repeats})
    found = {n: mean((samples(n, repeats, run.seed) * np.array([[n], [n**2], [n**2]])).T) for n in SIZES}
    small, large = (found[n] for n in SIZES)
    value, error, later = extrapolated(small, large)
    rivals: dict[str, dict[str, float]] = {"first": {}, "second": {}}
    for i, waves in enumerate(WAVES, start=1):
        name = f"$N^2\\kappa_3$, waves {waves}"

        def limit(pairings: tuple[int, int], waves: tuple[int, int, int] = waves) -> float:
            low, high = (reference.third_cumulant(n, (n // 4, 3 * n // 4), waves, pairings=pairings) for n in SIZES)
            return (3 * high - low) / 2

        check.row(
            name,
            predicted=limit((1, 1)),
            measured=value[i],
            error=error[i],
            repeats=repeats,
            tolerance=later[i],
            because=EXTRAPOLATED,
        )
        rivals["first"][name], rivals["second"][name] = limit((1, 0)), limit((0, 1))
    orders = {"order of the second cumulant": (0, -1.0), "order of the third cumulant": (2, -2.0)}
    for name, (i, power) in orders.items():
        spread = np.hypot(small.error[i] / small.value[i], large.error[i] / large.value[i]) / np.log(3)
        check.row(
            name,
            predicted=power,
            measured=power + np.log(large.value[i] / small.value[i]) / np.log(3),
            error=spread,
            repeats=repeats,
            tolerance=0.08,
            because="standard error, and relative terms of order 1/N between 20 and 60 tokens",
        )
    check.rival("only the pairing of a token with the first source", rivals["first"])
    check.rival("only the pairing of a token with the second source", rivals["second"])
    check.rival("a third cumulant of order $N^{-3/2}$", {"order of the third cumulant": -1.5})
    check.rival("a third cumulant of order $1/N$, like the second", {"order of the third cumulant": -1.0})
    check.rival("half of the third cumulants", {r.name: r.predicted / 2 for r in check.rows if "kappa" in r.name})
    return check
