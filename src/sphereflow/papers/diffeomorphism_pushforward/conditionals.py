r"""Conditional samples: x frozen to the last bit, and errors that the error of the map controls.

For the banana the sampled law given $x_1=x_0$ is $N(f_n(x_0),1)$, so its distance W1 = W2 to the true conditional is
$|f_n(x_0)-\frac12(x_0^2-1)|$, with mean square $\frac1n[\frac{2R}3|x_0|^3-\frac14x_0^4]$.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np
from scipy.special import ndtri
from scipy.stats import chi2, norm

from sphereflow.claims import Measurement, Run, agreement, at_most
from sphereflow.observables import wasserstein
from sphereflow.papers.diffeomorphism_pushforward import PAPER, banana
from sphereflow.transport.conditional.sampler import ConditionalFit, ConditionalSampler, fit_conditional
from sphereflow.transport.euclidean.affine import rotation
from sphereflow.transport.euclidean.gaussianisation import gaussianise
from sphereflow.transport.euclidean.laws import gaussian
from sphereflow.transport.euclidean.schedule import Schedule

PLACES = (-1.0, 0.0, 1.5)
QUANTILES = ndtri((np.arange(2000) + 0.5) / 2000)


def w1(schedule: Schedule, x0: float) -> float:
    """Distance of the samples at x0 to N((x0^2 - 1)/2, 1), quantile to quantile."""
    made = np.sort(ConditionalSampler(schedule, 1).push(x0, QUANTILES[:, None])[:, 0])
    return float(np.abs(made - QUANTILES - 0.5 * (x0**2 - 1)).mean())


@PAPER.claim(
    "conditional-banana",
    statement="The mean squared distance between sampled and true conditional laws of the banana has a closed form, "
    "and vanishes at zero exactly; x is frozen exactly.",
    source="Conditional sampling",
    formula=r"n\,E\,W_1^2(x_0)=\frac{2R}3|x_0|^3-\frac14x_0^4",
    falsifier="a flow that matches the joint law only; an error at zero",
)
def conditional_banana(run: Run) -> Measurement:
    seeds, n = (4000, banana.PLAYS) if run.quick else (20_000, 256)
    few = 40
    r = banana.REACH
    offsets = np.random.default_rng(run.seed + 7).uniform(-r, r, (seeds, n))
    places = np.array(PLACES)
    squares = (banana.profiles(offsets, places) - 0.5 * (places**2 - 1)) ** 2
    known = 2 * r / 3 * np.abs(places) ** 3 - places**4 / 4
    # The closed form of the profile is what the schedule does: checked on some of the draws, through samples.
    made = np.array([[w1(banana.flow(row), x0) ** 2 for x0 in PLACES] for row in offsets[:few]])
    drift = max(ConditionalSampler(banana.flow(row), 1).drift(x0) for row in offsets[:3] for x0 in PLACES)
    return agreement(
        [*known, 0, 0],
        [*(n * squares.mean(axis=0)), np.abs(made - squares[:few]).max(), drift],
        absolute=[*(4 * math.sqrt(2 / seeds) * known), 1e-12, 0],
        because="four standard errors of a mean of squares of Gaussians; rounding; zero is exact",
        labels=(*[f"n E W1^2 at x0={x0:g}" for x0 in PLACES], "samples against the profile", "drift of x"),
        parameters={"R": r, "n": n, "draws": seeds},
    )


@PAPER.claim(
    "conditional-guarantee",
    statement="With x frozen, the mean square over x of W2 between conditional laws is at most the squared error of "
    "the map.",
    source="Conditional sampling",
    formula=r"E_x\,W_2^2(\text{conditional}_\theta(x),\text{conditional}(x))\le\|\varphi_\theta-S\|^2_{L^2}",
    falsifier="a conditional error above the error of the map",
)
def conditional_guarantee(run: Run) -> Measurement:
    plays = (16, 256) if run.quick else (16, 64, 256, 1024)
    made = {f"n={n}": banana.drawn(n, run.seed) for n in plays}
    made["fitted to samples"] = from_samples(pairs(run), run.seed)[0].schedule
    places, z = ndtri((np.arange(32) + 0.5) / 32), QUANTILES[::10]
    fed = np.stack(np.meshgrid(places, z, indexing="ij"), axis=-1)
    wanted = banana.forward(fed.reshape(-1, 2)).reshape(fed.shape)
    distances, errors = [], []
    for schedule in made.values():
        image = np.asarray(schedule.apply(fed))
        squares = [wasserstein(a[:, 1:], b[:, 1:], metric="euclidean") ** 2 for a, b in zip(image, wanted, strict=True)]
        distances.append(math.sqrt(np.mean(squares)))
        errors.append(math.sqrt(((image - wanted) ** 2).sum(axis=-1).mean()))
    return at_most(
        errors,
        distances,
        slack=1e-12,
        labels=tuple(made),
        because="both over the same pairs (x, z), where the inequality is exact; rounding",
    )


def turned_w1(x0: float) -> float:
    """W1 between x0 + (Z^2 - 1)/2, what the turned banana samples at x0, and N((x0^2 - 1)/2, 1); by quantiles."""
    level = (np.arange(200_000) + 0.5) / 200_000
    return float(np.abs(x0 + 0.5 * (chi2.ppf(level, 1) - 1) - norm.ppf(level) - 0.5 * (x0**2 - 1)).mean())


@PAPER.claim(
    "trap-conditional",
    statement="The turned banana, right in its push-forward, samples wrong conditional laws: x drifts, and the "
    "distance to the true conditional is that between a shifted chi-square and a Gaussian.",
    source="Why both at once",
    formula=r"W_1\big(x_0+\tfrac12(Z^2-1),\ N(\tfrac12(x_0^2-1),1)\big)>0",
    falsifier="a sampler that is accepted because its joint law is right",
)
def trap_conditional(run: Run) -> Measurement:
    turned = rotation(0, 1, math.pi / 2, 2) + banana.dense()
    sampler = ConditionalSampler(turned, 1)
    return agreement(
        [*map(turned_w1, PLACES), 0, 1],
        [*(w1(turned, x0) for x0 in PLACES), float(sampler.frozen), float(sampler.drift(0.0) > 1)],
        absolute=[0.01, 0.01, 0.01, 0, 0],
        because="2000 quantiles instead of all; flags",
        labels=(*[f"W1 at x0={x0:g}" for x0 in PLACES], "x frozen", "drift is seen"),
    )


def pairs(run: Run) -> int:
    return 4000 if run.quick else 20_000


@cache
def from_samples(count: int, seed: int) -> tuple[ConditionalFit, Schedule]:
    """(sampler fitted to pairs, schedule fitted to their joint law only)."""
    samples = banana.forward(gaussian(2).sample(count, seed + 11))
    joint = gaussianise(samples, frames=8, knots=12, seed=seed).schedule
    return fit_conditional(samples[:, 0], samples[:, 1], seed=seed), joint


@PAPER.claim(
    "conditional-from-samples",
    statement="From pairs alone a schedule is fitted that samples y given x; a schedule fitted to the joint law of the "
    "same pairs does not.",
    source="Conditional sampling",
    formula=r"y=S_2(x_0,z),\ z\sim N(0,1)",
    falsifier="x that moves; conditional errors beyond those of the samples",
)
def conditional_from_samples(run: Run) -> Measurement:
    count = pairs(run)
    found, joint = from_samples(count, run.seed)
    # As many samples as count for one place: their mean is uncertain by one over the root of it.
    spread = 3 / math.sqrt(2 * (0.8 * count) ** 0.6)
    loss = found.log_loss
    best = 0.5 * math.log(2 * math.pi * math.e)
    other = float(np.mean([w1(joint, x0) for x0 in PLACES]))
    made = [w1(found.schedule, x0) for x0 in PLACES]
    return at_most(
        [spread, spread, spread, 0, best + 4 * float(loss.error) + 0.05, found.rank_gap_by_chance, -spread],
        [*made, found.drift(1.5), float(loss.value), found.rank_gap, -other],
        because="three standard errors of the mean of the neighbours, for the joint fit the other way round; the "
        "entropy of N(0, 1), four standard errors and 0.05; Kolmogorov's bound at 99 %",
        labels=(
            *[f"W1 at x0={x0:g}" for x0 in PLACES],
            "drift of x",
            "mean of -log density",
            "gap of the ranks",
            "minus W1 of the joint fit",
        ),
        note=f"Energy distance of sampled to held-out pairs {found.energy:.2g}; {found.schedule.n_switches} switches.",
        parameters={"pairs": count},
    )
