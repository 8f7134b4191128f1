r"""What is known exactly about modes: two samples, bounds, monotony in the bandwidth, fixed points of mean shift.

$$n=2:\ \text{one mode iff}\ |X_1-X_2|\le2h,\qquad \mathbb E\#=1+\operatorname{erfc}(\beta^{-1/2}).$$
"""

from __future__ import annotations

import numpy as np
from scipy.special import erfc

from sphereflow.claims import Check, Run, basis
from sphereflow.modes import find_modes, mean_shift, merged, sample_modes
from sphereflow.papers.kde_modes import PAPER


@PAPER.claim(
    "two-samples",
    says="Two samples make one mode up to a distance of two bandwidths and two beyond; one sample makes one.",
    basis=basis.Derived("the sign of the second derivative half way between two samples"),
    formula=r"|X_1-X_2|\le 2\beta^{-1/2}\iff\text{one mode}",
)
def two_samples(run: Run) -> Check:
    check = Check()
    nearer, minima = {}, {}
    for beta in (0.25, 1.0, 300.0):
        h = beta**-0.5
        for half, modes in ((0.0, 1), (0.999, 1), (1.001, 2), (1 + 1e-6, 2), (50.0, 2)):
            name = f"$\\beta={beta:g}$, half distance ${half:g}h$"
            count = int(find_modes([-half * h, half * h], beta).counts[0])
            check.same(name, predicted=modes, measured=count)
            nearer[name] = 1 if half <= 0.5 else 2
            minima[name] = 2 * modes - 1
    check.same("one sample", predicted=1, measured=int(find_modes([0.3], 300.0).counts[0]))
    check.rival("samples merge within one bandwidth", nearer)
    check.rival("minima counted as well", minima)
    return check


@PAPER.claim(
    "two-random-samples",
    says=r"Two normal samples have $1+\operatorname{erfc}(\beta^{-1/2})$ modes on average.",
    basis=basis.Derived("the law of the distance of two normal samples"),
    formula=r"\mathbb E\#=1+\operatorname{erfc}(\beta^{-1/2})",
)
def two_random_samples(run: Run) -> Check:
    betas = np.array([1.0, 4.0, 25.0])
    draws = 20_000 if run.quick else 100_000
    check = Check(parameters={"draws": draws})
    for beta in betas:
        counted = sample_modes(2, float(beta), draws, seed=run.seed + 11).everywhere
        check.row(
            f"$\\beta={beta:g}$",
            predicted=1 + erfc(beta**-0.5),
            measured=counted.value,
            error=counted.error,
            repeats=draws,
            because="standard error of the draws",
        )
    check.rival("samples merge within one bandwidth", 1 + erfc(betas**-0.5 / 2))
    check.rival(r"bandwidth $1/\beta$", 1 + erfc(1 / betas))
    return check


@PAPER.claim(
    "bounds",
    says="There are never more modes than samples, they lie between the extreme samples, and for narrow kernels every "
    "sample has its own.",
    basis=basis.Derived("standard facts on mixtures of Gaussians on the line"),
    formula=r"\#\text{modes}\le n,\qquad \text{modes}\subset[\min X,\max X]",
)
def bounds(run: Run) -> Check:
    n = 50
    samples = np.random.default_rng(run.seed + 12).standard_normal((40, n))
    check = Check(parameters={"n": n, "samples": len(samples)})
    inner = {}
    for beta in (0.5, 30.0, 1e3, 1e6):
        modes = find_modes(samples, beta)
        low, high = samples.min(axis=1)[modes.run], samples.max(axis=1)[modes.run]
        beyond = np.max(np.maximum(low - modes.positions, modes.positions - high))
        check.at_most(f"modes, $\\beta={beta:g}$", bound=n, measured=modes.counts.max(), because="a count")
        name = f"beyond the extremes, $\\beta={beta:g}$"
        check.at_most(name, bound=0.0, measured=beyond, tolerance=1e-12, because="rounding of positions")
        inner[name] = -(beta**-0.5)
    closest = np.diff(np.sort(samples, axis=1), axis=1).min(axis=1)
    narrow = find_modes(samples, (2.5 / closest) ** 2).counts
    check.at_most("modes, narrow kernels", bound=n, measured=narrow.max(), because="a count")
    check.at_least("fewest modes, narrow kernels", bound=n, measured=narrow.min(), because="a count")
    check.rival("one mode fewer than samples at most", {"modes, narrow kernels": n - 1})
    check.rival("a bandwidth away from the extremes", inner)
    return check


def coarse_counts(sample: np.ndarray, betas: np.ndarray, points: int = 400) -> np.ndarray:
    """Up-crossings of F on one grid over the range of the data, whatever the bandwidth."""
    t = np.linspace(sample.min() - 0.1, sample.max() + 0.1, points)
    u = np.subtract.outer(t, sample)
    signs = np.array([np.sign(np.sum(u * np.exp(-beta / 2 * u**2), axis=1)) for beta in betas])
    return np.sum((signs[:, :-1] < 0) & (signs[:, 1:] > 0), axis=1)


@PAPER.claim(
    "monotone-in-bandwidth",
    says="For a fixed sample the number of modes never falls as the bandwidth shrinks.",
    basis=basis.Derived("the variation-diminishing property of the Gaussian kernel"),
    formula=r"\beta\mapsto\#\text{modes is non-decreasing}",
)
def monotone_in_bandwidth(run: Run) -> Check:
    betas = np.geomspace(0.1, 1e5, 200)
    check = Check(parameters={"n": 300, "bandwidths": len(betas)})
    coarse = {}
    for k in range(3 if run.quick else 30):
        sample = np.random.default_rng(run.seed + 100 + k).standard_normal(300)
        modes = find_modes(np.tile(sample, (len(betas), 1)), betas)
        name = f"falls, sample {k + 1}"
        check.at_most(name, bound=0, measured=np.sum(np.diff(modes.counts) < 0), because="a count")
        check.same(f"places not certain, sample {k + 1}", predicted=0, measured=modes.undecided)
        if k < 3:
            coarse[name] = float(np.sum(np.diff(coarse_counts(sample, betas)) < 0))
    check.null("counted on a grid of 400 points", coarse)
    return check


@PAPER.claim(
    "mean-shift",
    says="Mean shift started at every sample ends at the modes that are counted, and at all of them.",
    basis=basis.Abstract("modes are where mean shift, hence attention, first drives tokens"),
    formula=r"t\leftarrow\sum_iX_iw_i/\sum_iw_i,\quad w_i=e^{-\beta(t-X_i)^2/2}",
)
def mean_shift_agrees(run: Run) -> Check:
    n, beta = 500 if run.quick else 1000, 300.0
    check = Check(parameters={"n": n, "beta": beta})
    samples = {}
    for k in range(1 if run.quick else 10):
        sample = np.random.default_rng(run.seed + k).standard_normal(n)
        modes = find_modes(sample, beta).positions
        ends = merged(mean_shift(sample, beta), 1e-4 * beta**-0.5)
        number, distance = f"ends, sample {k + 1}", f"largest distance to a mode in $h$, sample {k + 1}"
        check.same(number, predicted=len(modes), measured=len(ends))
        apart = np.abs(ends[:, None] - modes).min(axis=1).max() * beta**0.5
        because = "steps below 1e-12 h leave less than 1e-6 h to the mode"
        check.row(distance, predicted=0.0, measured=apart, tolerance=1e-6, because=because)
        samples[distance] = float(np.abs(modes[:, None] - sample).min(axis=1).max() * beta**0.5)
    check.rival("ends at the samples nearest to the modes", samples)
    return check
