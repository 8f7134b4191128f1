r"""Attention from normal tokens on the line: modes and clusters as functions of time, beside both predictions.

$$N(t)=\mathbb E\#\,\frac{\sqrt{m_4(t)/m_2(t)}}{\sqrt{m_4(0)/m_2(0)}}\ \text{while the motion is linear},\qquad
  N(\infty)=\sqrt{4/3}\;\mathbb E\#\ \text{for the fastest wave}.$$
"""

from __future__ import annotations

import math

import numpy as np

from sphereflow.claims import Check, Run, basis
from sphereflow.estimates import mean
from sphereflow.modes import expected_modes, line_attention, linear_growth
from sphereflow.papers.kde_modes import PAPER

N, BETA = 1000, 300.0


@PAPER.claim(
    "gaussian-tokens",
    says="Under attention from normal tokens the modes of the density estimate start at the Kac-Rice number, rise "
    "as the linear theory says within 5 % up to $t=4$, never reach the number of the fastest wave, and fall again. "
    "Clusters by distance are several times as many at the start and meet the modes only at late times: no time is "
    "chosen.",
    basis=basis.Extension("the abstract sees in modes the metastable clusters of attention; both are followed here"),
    formula=r"m_p=\int k^pe^{-k^2+2tk^2e^{-k^2/2}}dk",
)
def gaussian_tokens(run: Run) -> Check:
    times = [0.0, 0.25, 2.0, 4.0] if run.quick else [0.0, 0.25, 0.5, 1.0, 2.0, 3.0, 4.0]
    later = [4.0, 16.0] if run.quick else [4.0, 6.0, 10.0, 16.0, 20.0]
    repeats, few, dt = (180, 72, 0.5) if run.quick else (1000, 72, 0.1)
    start = np.random.default_rng([run.seed, 50]).normal(size=(repeats, N))
    found, late = line_attention(start, BETA, times, dt=dt), line_attention(start[:few], BETA, later, dt=dt)
    first = expected_modes(N, BETA, edgeworth=True)
    check = Check(parameters={"n": N, "beta": BETA, "repeats": [repeats, few]})
    constant, fastest = {}, {}
    for index, t in enumerate(times):
        counted = found.mean_modes(index)
        name = f"modes, $t={t:g}$"
        check.row(
            name,
            predicted=first * linear_growth(t),
            measured=counted.value,
            error=counted.error,
            repeats=repeats,
            relative=0.02 if t == 0 else 0.03 if t < 0.5 else 0.05,
            because="standard error; 2 % for the predictor, up to 5 % where noise that has grown widens the belt too",
        )
        if t > 0:
            constant[name], fastest[name] = first, first * math.sqrt(4 / 3)
    most, because = (
        max((found.mean_modes(i) for i in range(len(times))), key=lambda each: float(each.value)),
        "error bar",
    )
    check.at_most(
        "most modes at any time",
        bound=first * math.sqrt(4 / 3),
        measured=most.value,
        error=most.error,
        repeats=repeats,
        because=because,
    )
    fall = mean(late.modes[0] - late.modes[-1])
    row = "fall of the modes from $t=4$ on"
    check.positive(row, measured=fall.value, error=fall.error, repeats=late.modes.shape[1], because=because)
    ratio = f"clusters over modes, $t={later[-1]:g}$"
    check.row(
        ratio,
        predicted=1.0,
        measured=float(late.clusters[-1].mean() / late.modes[-1].mean()),
        tolerance=0.08,
        because="a cluster has one mode, up to tokens that are still on their way",
    )
    check.rival("constant in time", constant)
    check.rival("the fastest wave at once", fastest)
    check.null("clusters at the start", {ratio: float(found.mean_clusters(0).value / found.mean_modes(0).value)})
    return check
