r"""Capacity at zero temperature: the load at which a pattern stops dominating its own softmax.

$$\alpha_c(\beta,0)=\beta-g_{max}(\beta),\qquad \text{Gaussian layer: } \tfrac12\ (\beta\ge1).$$
"""

from __future__ import annotations

import numpy as np
from scipy.special import softmax

from sphereflow.claims import Measurement, Run, agreement, at_most
from sphereflow.memory import gaussian, spherical
from sphereflow.memory.landscapes import random_patterns
from sphereflow.memory.noise import median_crossing
from sphereflow.papers.dense_associative_memory import PAPER


@PAPER.claim(
    "capacity-layers",
    statement="At beta = 1 the capacity is 0.5 in the published layer and 0.6225719 on the sphere.",
    source="Zero-temperature capacity, both layers",
    formula=r"\alpha_c^{\mathrm{Gauss}}=\tfrac12,\qquad \alpha_c=\beta-g_{max}(\beta)",
    falsifier="the layers confused",
)
def capacity_layers(run: Run) -> Measurement:
    return agreement(
        [0.5, 0.375, 0.6225719],
        [gaussian.lse_capacity(1.0), gaussian.lse_capacity(0.5), float(spherical.capacity(1.0))],
        absolute=[1e-12, 1e-12, 5.1e-8],
        because="the Gaussian layer is exact; reference with 7 decimals",
        labels=("gaussian, beta=1", "gaussian, beta=0.5: beta(1-beta/2)", "spherical, beta=1"),
    )


@PAPER.claim(
    "capacity-table",
    statement="On the sphere the capacity grows without bound with the sharpness of the kernel, and lies above the "
    "bound from separated patterns.",
    source="Zero-temperature capacity, exact layer; separation bound",
    formula=r"\alpha_c\simeq\beta\ (\beta\to0),\qquad \tfrac12\ln\beta+\tfrac12\ (\beta\to\infty)",
    falsifier="saturation at 1/2, the value of the Gaussian layer",
)
def capacity_table(run: Run) -> Measurement:
    betas = np.array([0.1, 0.25, 0.5, 1, 2, 4, 10])
    values = spherical.capacity(betas)
    bounds = np.array([spherical.separation_bound(b) for b in betas])
    large = float(spherical.capacity(1e6) - np.log(1e6) / 2)
    return agreement(
        [0.09502, 0.21965, 0.38701, 0.62257, 0.90875, 1.22436, 1.66379, 0.31575, 0.0, 0.5],
        [*values, bounds[3], np.maximum(bounds - values, 0).max(), large],
        absolute=[6e-6] * 8 + [0.0, 1e-6],
        because="reference values with 5 decimals; the last is the limit, off by 1/(2 beta) = 5e-7",
        labels=(*[f"beta={b:g}" for b in betas], "separation bound, beta=1", "bound above capacity", "large beta"),
    )


@PAPER.claim(
    "capacity-finite",
    statement="At finite N the mean noise sum reaches 1 slightly below the capacity.",
    source="Exact noise sum on the sphere",
    formula=r"-\tfrac1N\ln(E\,S_{nr}/M)",
    falsifier="values of the Gaussian layer, near 0.5",
)
def capacity_finite(run: Run) -> Measurement:
    sizes = (12, 16, 20)
    return agreement(
        [0.61606, 0.61767, 0.61865],
        [spherical.finite_capacity(n, 1.0) for n in sizes],
        absolute=5.1e-6,
        because="reference with 5 decimals",
        labels=tuple(f"N={n}" for n in sizes),
        parameters={"beta": 1},
    )


@PAPER.claim(
    "capacity-extrapolated",
    statement="The load at which the median one-step weight is 1/2, measured at several N and extrapolated in 1/N, is "
    "the capacity.",
    source="One attention step from a stored pattern",
    formula=r"\alpha_{1/2}(N)=\alpha_c(\beta,0)+\frac{\ln\sqrt{1-\phi^{*4}}}{N}+O(N^{-2})",
    falsifier="an extrapolation to 1/2 at beta = 1",
)
def capacity_extrapolated(run: Run) -> Measurement:
    sizes = np.array([24, 32, 48, 96, 192])
    fitted, errors, slopes = [], [], []
    for beta in (0.5, 1.0):
        points, spreads = zip(
            *(median_crossing(int(n), beta, 400 if run.quick else 4000, run.seed) for n in sizes), strict=True
        )
        # Noise fluctuates little at large N; what remains there is the next term of the expansion, 1/N^2.
        sigma = np.array(spreads) + 0.3 / sizes**2
        coefficients, covariance = np.polyfit(1 / sizes, points, 1, w=1 / sigma, cov="unscaled")
        fitted.append(coefficients[1])
        slopes.append(coefficients[0])
        errors.append(4 * np.sqrt(covariance[1, 1]))
    return agreement(
        spherical.capacity(np.array([0.5, 1.0])),
        fitted,
        absolute=errors,
        because="four standard errors of the weighted fit, which include a term of order 1/N^2",
        labels=("beta=0.5", "beta=1"),
        note="Measured slopes in 1/N: "
        + ", ".join(f"{s:.4f}" for s in slopes)
        + "; predicted: "
        + ", ".join(f"{np.log1p(-(spherical.saddle(b) ** 4)) / 2:.4f}" for b in (0.5, 1.0))
        + ".",
        parameters={"N": sizes.tolist()},
    )


def iterated(n: int, alpha: float, beta: float, steps: int, seed: int, projected: bool) -> float:
    """Overlap with the first pattern after `steps` attention updates from it."""
    patterns = random_patterns(n, round(np.exp(alpha * n)), seed)
    x = patterns[0]
    for _ in range(steps):
        x = softmax(beta * patterns @ x) @ patterns
        x = np.sqrt(n) * x / np.linalg.norm(x) if projected else x
    return float(x @ patterns[0] / n)


@PAPER.claim(
    "iterated-update",
    statement="Iterating the update is no test of capacity: brought back to the sphere after each step the state stays "
    "at the pattern, left alone at beta = 0.5 it collapses to the mean although one step keeps a weight of 0.66.",
    source="Attention update and its iteration",
    formula=r"x'=\sum_\mu\mathrm{softmax}_\mu(\beta x\cdot\xi^\mu)\,\xi^\mu",
    falsifier="a projected state that leaves at loads 0.4 and 0.5, or an unprojected one that stays",
)
def iterated_update(run: Run) -> Measurement:
    draws = 6 if run.quick else 20
    stays = [min(iterated(16, a, 1.0, 30, run.seed + k, True) for k in range(draws)) for a in (0.4, 0.5)]
    collapses = float(np.mean([iterated(18, 0.35, 0.5, 100, run.seed + k, False) for k in range(20)]))
    return at_most(
        [0.1, 0.1, 0.03],
        [1 - stays[0], 1 - stays[1], abs(collapses)],
        because="reference: overlap above 0.9 in every draw, and below 0.03; what is left of it at the mean of all "
        "patterns has a random sign, so it is averaged over draws",
        labels=(
            "projected, N=16, beta=1, load 0.4: 1 - overlap",
            "projected, load 0.5: 1 - overlap",
            "unprojected, N=18, beta=0.5, load 0.35: |mean overlap|",
        ),
        parameters={"steps": [30, 30, 100], "draws": draws},
    )
