r"""Modes of the density estimate of tokens that attention moves, from uniform tokens on the circle.

$$N(t)=\sqrt{\frac{\sum k^4I_k^2e^{2\lambda_kt}}{\sum k^2I_k^2e^{2\lambda_kt}}},\qquad
  N(0)\to\sqrt{3\beta/2},\qquad N(\infty)=\text{the fastest harmonic}\approx\sqrt{2\beta}.$$
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from sphereflow.claims import Check, Run, basis
from sphereflow.estimates import mean
from sphereflow.modes import CircleAttention, circle_modes, fastest_harmonic, modes_and_clusters, sample_modes
from sphereflow.papers.kde_modes import PAPER

BETA = 36.0
EARLY, LATE = (0.0, 2.0), (0.0, 2.0, 4.0, 8.0, 12.0)


@lru_cache(maxsize=4)
def runs_of_attention(quick: bool, seed: int) -> tuple[CircleAttention, CircleAttention]:
    """Independent runs from uniform tokens: many short ones, and fewer long ones; Euler steps when quick."""
    dt = 0.1 if quick else None
    early = modes_and_clusters(
        384, BETA, 384 if quick else 1920, np.array(EARLY), seed=seed + 5, dt=0.2 if quick else None
    )
    return early, modes_and_clusters(128, BETA, 64 if quick else 320, np.array(LATE), seed=seed + 6, dt=dt)


@PAPER.claim(
    "circle-modes",
    says="The density estimate of uniform tokens on the circle has the number of modes that Rice's formula gives for "
    r"its noise, close to $\sqrt{3\beta/2}$.",
    basis=basis.Extension("the saturated density of modes on the circle, with the kernel of attention"),
    formula=r"N_0=\sqrt{\frac{\sum_kk^4I_k(\beta)^2}{\sum_kk^2I_k(\beta)^2}}\to\sqrt{3\beta/2}",
)
def circle_counts(run: Run) -> Check:
    betas = np.array([10.0, 100.0, 1000.0])
    repeats = 200 if run.quick else 4000
    check = Check(parameters={"n": 4000, "repeats": repeats})
    for beta in betas:
        counted = sample_modes(4000, float(beta), repeats, seed=run.seed + 3, space="circle").everywhere
        check.row(
            f"$\\beta={beta:g}$",
            predicted=circle_modes(float(beta)),
            measured=counted.value,
            error=counted.error,
            repeats=repeats,
            because="standard error",
        )
    check.rival(r"$\sqrt{2\beta}$, the fastest harmonic", np.sqrt(2 * betas))
    check.rival(r"$\sqrt{\beta/2}$, zeros of the field", np.sqrt(betas / 2))
    return check


@PAPER.claim(
    "modes-under-attention",
    says="While attention acts on uniform tokens, the modes of their density estimate grow in number as the linear "
    "theory says up to $t=2$; later they are no more than at the start, and never more than in the fastest harmonic.",
    basis=basis.Extension("modes as the first clusters of attention, followed in time"),
    formula=r"N(t)=\sqrt{\sum k^4I_k^2e^{2\lambda_kt}/\sum k^2I_k^2e^{2\lambda_kt}}",
)
def modes_under_attention(run: Run) -> Check:
    early, late = runs_of_attention(run.quick, run.seed)
    check = Check(parameters={"n": [384, 128], "beta": BETA, "repeats": [early.modes.shape[1], late.modes.shape[1]]})
    for index, t in enumerate(EARLY):
        counted = early.mean_modes(index)
        check.row(
            f"modes, $t={t:g}$",
            predicted=circle_modes(BETA, t),
            measured=counted.value,
            error=counted.error,
            repeats=early.modes.shape[1],
            relative=0.015,
            because="standard error, and 1.5 % for 384 tokens and steps of 0.2",
        )
    names = [row.name for row in check.rows]
    repeats, because = late.modes.shape[1], "error bar over repeats"
    change, name = mean(late.modes[-1] - late.modes[0]), "change from start to $t=12$"
    check.at_most(name, bound=0.0, measured=change.value, error=change.error, repeats=repeats, because=because)
    most = max((late.mean_modes(index) for index in range(len(LATE))), key=lambda each: float(each.value))
    check.at_most(
        "most modes at any time",
        bound=fastest_harmonic(BETA),
        measured=most.value,
        error=most.error,
        repeats=repeats,
        because=because,
    )
    check.rival("constant in time", {name: circle_modes(BETA) for name in names})
    check.rival("the fastest harmonic at once", {name: float(fastest_harmonic(BETA)) for name in names})
    return check
