r"""What is known exactly about modes: two samples, bounds, monotony in the bandwidth, fixed points of mean shift.

$$n=2:\ \text{one mode iff}\ |X_1-X_2|\le2h,\qquad \mathbb E\#=1+\operatorname{erfc}(\beta^{-1/2}).$$
"""

from __future__ import annotations

import numpy as np
from scipy.special import erfc

from sphereflow.claims import Measurement, Run, agreement, at_most
from sphereflow.modes import find_modes, mean_shift, merged, sample_modes
from sphereflow.papers.kde_modes import PAPER


@PAPER.claim(
    "two-samples",
    statement="Two samples make one mode up to a distance of two bandwidths and two beyond; one sample makes one.",
    source="Model; elementary",
    formula=r"|X_1-X_2|\le 2\beta^{-1/2}\iff\text{one mode}",
    falsifier="minima counted as well, or a bandwidth of beta or 1/beta",
)
def two_samples(run: Run) -> Measurement:
    counts, expected, labels = [], [], []
    for beta in (0.25, 1.0, 300.0):
        h = beta**-0.5
        for half, modes in ((0.0, 1), (0.999, 1), (1.001, 2), (1 + 1e-6, 2), (50.0, 2)):
            counts.append(int(find_modes([-half * h, half * h], beta).counts[0]))
            expected.append(modes)
            labels.append(f"beta={beta:g}, half distance {half:g} h")
    counts.append(int(find_modes([0.3], 300.0).counts[0]))
    return agreement([*expected, 1], counts, absolute=0, because="exact", labels=(*labels, "one sample"))


@PAPER.claim(
    "two-random-samples",
    statement="Two normal samples have 1 + erfc(beta^(-1/2)) modes on average.",
    source="Exact case n = 2",
    formula=r"\mathbb E\#=1+\operatorname{erfc}(\beta^{-1/2})",
    falsifier="another bandwidth",
)
def two_random_samples(run: Run) -> Measurement:
    betas = (1.0, 4.0, 25.0)
    draws = 20_000 if run.quick else 100_000
    found = [sample_modes(2, b, draws, seed=run.seed + 11).everywhere for b in betas]
    return agreement(
        1 + erfc(np.array(betas) ** -0.5),
        [e.value for e in found],
        absolute=[4 * e.error for e in found],
        because=f"four standard errors of {draws} draws",
        labels=tuple(f"beta={b:g}" for b in betas),
    )


@PAPER.claim(
    "bounds",
    statement="There are never more modes than samples, they lie between the extreme samples, and for narrow kernels "
    "every sample has its own.",
    source="Standard facts quoted in the paper",
    formula=r"\#\text{modes}\le n,\qquad \text{modes}\subset[\min X,\max X]",
    falsifier="a mode lost or invented in an empty gap",
)
def bounds(run: Run) -> Measurement:
    samples = np.random.default_rng(run.seed + 12).standard_normal((40, 50))
    excess, outside = [], []
    for beta in (0.5, 30.0, 1e3, 1e6):
        modes = find_modes(samples, beta)
        excess.append(np.max(modes.counts - 50))
        low, high = samples.min(axis=1)[modes.run], samples.max(axis=1)[modes.run]
        outside.append(np.max(np.maximum(low - modes.positions, modes.positions - high)))
    closest = np.diff(np.sort(samples, axis=1), axis=1).min(axis=1)
    missing = 50 - find_modes(samples, (2.5 / closest) ** 2).counts.min()
    return at_most(
        np.zeros(9),
        [*excess, *outside, missing],
        slack=[0.0] * 4 + [1e-12] * 4 + [0.0],
        because="whole numbers; positions to rounding",
    )


@PAPER.claim(
    "monotone-in-bandwidth",
    statement="For a fixed sample the number of modes never falls as the bandwidth shrinks.",
    source="Variation-diminishing property of the Gaussian kernel",
    formula=r"\beta\mapsto\#\text{modes is non-decreasing}",
    falsifier="a grid tied to the range of the data instead of the bandwidth",
)
def monotone_in_bandwidth(run: Run) -> Measurement:
    betas = np.geomspace(0.1, 1e5, 200)
    falls, doubtful = [], 0
    for k in range(3 if run.quick else 30):
        sample = np.random.default_rng(run.seed + 100 + k).standard_normal(300)
        modes = find_modes(np.tile(sample, (len(betas), 1)), betas)
        falls.append(int(np.sum(np.diff(modes.counts) < 0)))
        doubtful += modes.undecided
    return at_most(
        0,
        [*falls, doubtful],
        because="whole numbers; the last entry counts places that are not certain",
        parameters={"n": 300, "bandwidths": 200},
    )


@PAPER.claim(
    "mean-shift",
    statement="Mean shift started at every sample ends at the modes that are counted, and at all of them.",
    source="Motivation: attention drives tokens to the modes",
    formula=r"t\leftarrow\sum_iX_iw_i/\sum_iw_i,\quad w_i=e^{-\beta(t-X_i)^2/2}",
    falsifier="a grid too coarse for the bandwidth",
)
def mean_shift_agrees(run: Run) -> Measurement:
    n, beta = 1000, 300.0
    differences, gaps = [], []
    for k in range(1 if run.quick else 10):
        sample = np.random.default_rng(run.seed + k).standard_normal(n)
        modes = find_modes(sample, beta).positions
        ends = merged(mean_shift(sample, beta), 1e-4 * beta**-0.5)
        differences.append(len(ends) - len(modes))
        same = len(ends) == len(modes)
        gaps.append(np.abs(ends - modes).max() * beta**0.5 if same else np.inf)
    return agreement(
        np.zeros(2),
        [np.abs(differences).max(), max(gaps)],
        absolute=[0, 1e-6],
        because="steps below 1e-12 h leave less than 1e-6 h to the mode",
        labels=("difference in number", "distance in h"),
        parameters={"n": n, "beta": beta},
    )
