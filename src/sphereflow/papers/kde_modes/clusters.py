r"""Modes of the density estimate beside the clusters that attention forms from uniform tokens on the circle.

$$N_0=\sqrt{\textstyle\sum k^4I_k^2/\sum k^2I_k^2}\to\sqrt{3\beta/2}\quad\text{(noise)},\qquad
  \sqrt{2\beta}\quad\text{(fastest harmonic)}:$$

the same exponent with constants 1.225 and 1.414.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from sphereflow.claims import Measurement, Run, agreement
from sphereflow.modes import SideBySide, circle_modes, fastest_harmonic, modes_and_clusters, sample_modes
from sphereflow.papers.kde_modes import PAPER

TOKENS, BETAS = 128, (16.0, 36.0, 81.0)
TIMES = (0.0, 1.0, 2.0, 4.0, 6.0, 8.0, 10.0, 12.0)
FORMED = 6  # index of t = 10: clusters are tight, and mergers have hardly begun


@lru_cache(maxsize=4)
def runs_of_attention(quick: bool, seed: int) -> tuple[SideBySide, ...]:
    """For each beta, independent runs of attention from uniform tokens; Euler steps when quick, else error control."""
    count, dt = (48, 0.05) if quick else (480, None)
    return tuple(modes_and_clusters(TOKENS, b, count, np.array(TIMES), seed=seed + 5, dt=dt) for b in BETAS)


@PAPER.claim(
    "circle-modes",
    statement="The density estimate of uniform tokens on the circle has the number of modes that Rice's formula gives "
    "for its noise, close to sqrt(3 beta / 2).",
    source="Saturated density of modes, on the circle with the kernel of attention",
    formula=r"N_0=\sqrt{\frac{\sum_kk^4I_k(\beta)^2}{\sum_kk^2I_k(\beta)^2}}\to\sqrt{3\beta/2}",
    falsifier="another kernel, or both maxima and minima counted",
)
def circle_counts(run: Run) -> Measurement:
    betas = (10.0, 100.0, 1000.0)
    found = [
        sample_modes(4000, b, 100 if run.quick else 2000, seed=run.seed + 3, space="circle").everywhere for b in betas
    ]
    predicted = np.array([circle_modes(b) for b in betas])
    return agreement(
        [*predicted, 1.0],
        [*(float(e.value) for e in found), predicted[-1] / np.sqrt(1.5 * betas[-1])],
        absolute=[*(4 * float(e.error) for e in found), 1 / betas[-1]],
        because="four standard errors; the limit is approached like 1/beta",
        labels=(*(f"beta={b:g}" for b in betas), "formula over sqrt(3 beta / 2)"),
        parameters={"n": 4000},
    )


@PAPER.claim(
    "attention-clusters",
    statement="Attention gathers 128 uniform tokens into about as many clusters as their density estimate had modes, "
    "fewer than the fastest harmonic has crests.",
    source="Motivation: modes as first metastable clusters; both counts side by side",
    formula=r"\#\text{clusters}\approx N_0<\sqrt{2\beta}",
    falsifier="a count nearer to sqrt(2 beta)",
)
def attention_clusters(run: Run) -> Measurement:
    both = runs_of_attention(run.quick, run.seed)
    noise = np.array([circle_modes(b) for b in BETAS])
    rival = np.sqrt(2 * np.array(BETAS))
    start, formed = [r.mean_modes(0) for r in both], [r.mean_clusters(FORMED) for r in both]
    slope = np.polyfit(np.log(BETAS), np.log([e.value for e in formed]), 1)[0]
    wobble = max(e.error / e.value for e in formed) / np.log(BETAS[-1] / BETAS[0]) * 2
    return agreement(
        [*noise, *noise, 0.5],
        [*(e.value for e in start), *(e.value for e in formed), slope],
        absolute=[*(4 * float(e.error) for e in start), *((rival - noise) / 2), 4 * wobble],
        because="four standard errors at the start; half the way to sqrt(2 beta) for clusters: tells the two apart",
        labels=(
            *(f"modes at t=0, beta={b:g}" for b in BETAS),
            *(f"clusters at t=10, beta={b:g}" for b in BETAS),
            "exponent of beta",
        ),
        note=f"fastest harmonics {[fastest_harmonic(b) for b in BETAS]}; clusters {formed}",
        parameters={"n": TOKENS, "runs": len(both[0].modes[0])},
    )
