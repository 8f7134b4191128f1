r"""The compact kernel: its threshold on the sphere, exact one-step retrieval, neighbours and centroids.

$$\alpha_{th}=-\tfrac12\ln(1-\phi_c^2),\qquad
  M\cdot\tfrac12I_{1-\phi_c^2}\!\left(\tfrac{N-1}2,\tfrac12\right)\text{ patterns in support}.$$
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from scipy.integrate import quad
from scipy.optimize import minimize_scalar

from sphereflow.claims import Measurement, Run, agreement
from sphereflow.memory import compact, gaussian, overlaps, state
from sphereflow.memory.energies import LSR
from sphereflow.memory.landscapes import random_patterns, state_at
from sphereflow.papers.dense_associative_memory import PAPER

B = state.REFERENCE_B


@PAPER.claim(
    "support-count",
    statement="The mean number of patterns in the support of a random state is an incomplete beta function.",
    source="Threshold of the compact kernel at finite N",
    formula=r"M\cdot\tfrac12I_{1-\phi_c^2}(\tfrac{N-1}2,\tfrac12)",
    falsifier="a Gaussian tail: three times as many at N = 16",
)
def support_count(run: Run) -> Measurement:
    loads, draws = (0.25, 0.3, 0.35, 0.4), 1_000_000
    expected = [0.0026057, 0.0192538, 0.142268, 1.051225]
    share = 7.50887e-4
    rng = np.random.default_rng(run.seed)
    found = float(np.mean(overlaps.sample(rng, 16, draws) > state.wall(B)))
    return agreement(
        [*expected, share, share],
        [
            *(np.exp(compact.log_in_support(40, a, B)) for a in loads),
            np.exp(overlaps.log_tail(state.wall(B), 16)),
            found,
        ],
        absolute=[5.1e-8, 5.1e-8, 5.1e-7, 5.1e-7, 5.1e-10, 4 * np.sqrt(share / draws)],
        because="half a unit of the last digit of the reference; four binomial standard errors of a million overlaps",
        labels=(*[f"N=40, load {a:g}" for a in loads], "N=16, one pattern", "N=16, fraction drawn"),
        parameters={"b": B},
    )


@PAPER.claim(
    "compact-threshold",
    statement="On the sphere the threshold of the compact kernel is 0.34657 (0.25 in the published layer), and is "
    "approached from above as N grows.",
    source="Threshold of the compact kernel",
    formula=r"\alpha_{th}=-\tfrac12\ln(1-\phi_c^2)",
    falsifier="0.25, the Gaussian layer",
)
def compact_threshold(run: Run) -> Measurement:
    sizes = (25, 50, 100, 1000, 10_000)
    return agreement(
        [0.34657, 0.25, 0.4210, 0.3905, 0.3719, 0.3503, 0.3471],
        [compact.threshold(B), gaussian.lsr_threshold(B), *(compact.finite_threshold(n, B) for n in sizes)],
        absolute=[6e-6, 1e-12] + [6e-5] * 5,
        because="reference values with the digits given",
        labels=("spherical", "gaussian", *[f"N={n}" for n in sizes]),
        parameters={"b": B},
    )


def log_mean_sum(n: int, alpha: float) -> float:
    """ln of M times the mean of [1 - b(1 - phi)]_+ over the overlap law, by quadrature."""
    wall = state.wall(B)

    def exponent(phi: float) -> float:
        return float(overlaps.log_density(phi, n) + np.log(1 - B * (1 - phi)))

    top = max(exponent(p) for p in wall + np.geomspace(1e-7, 1 - wall, 4000)[:-1])
    reach = min(60 / n, 1 - wall)
    total = quad(
        lambda p: float(np.exp(exponent(p) - top)) if p > wall else 0.0, wall, wall + reach, epsrel=1e-10, limit=400
    )[0]
    return alpha * n + top + float(np.log(total))


@PAPER.claim(
    "above-threshold",
    statement="Above the threshold the kernel sum of a typical state grows exponentially, so its energy falls like "
    "-N^2 and retrieval is lost at every temperature.",
    source="Compact kernel above threshold",
    formula=r"\tfrac1N\ln E\,S\to\alpha-\alpha_{th},\qquad H\simeq-\tfrac{N^2}b(\alpha-\alpha_{th})",
    falsifier="a limit other than 0.0534",
)
def above_threshold(run: Run) -> Measurement:
    values = [log_mean_sum(n, 0.4) / n for n in (1000, 4000)]
    extrapolated = log_mean_sum(1_000_000, 0.4) / 1_000_000
    return agreement(
        [0.0437, 0.0505, 0.4 - compact.threshold(B)],
        [*values, extrapolated],
        absolute=[6e-5, 6e-5, 4e-5],
        because="reference with 4 decimals; corrections are 2.5 ln(N)/N, 3.5e-5 at N = 1e6",
        labels=("N=1000", "N=4000", "N=1000000 against the limit"),
        parameters={"b": B, "alpha": 0.4},
    )


@PAPER.claim(
    "one-step-retrieval",
    statement="Inside one cap a single gradient step of the right length lands exactly on the pattern.",
    source="Epanechnikov energy: exact retrieval in one step",
    formula=r"x-\eta\nabla H=\xi,\qquad \eta=1-b(1-\phi),\quad \nabla H=(x-\xi)/\eta",
    falsifier="the gradient of x.xi/N in place of the distance: another radial part",
)
def one_step_retrieval(run: Run) -> Measurement:
    n = 64
    patterns = random_patterns(n, 20, run.seed)
    energy = LSR.on_sphere(B, n)
    phi = np.linspace(state.wall(B) + 0.01, 0.999, 12)
    x = jnp.asarray(state_at(patterns[0], phi, run.seed))
    eta = (1 - B * (1 - phi))[:, None]
    stepped = x - eta * energy.gradient(x, jnp.asarray(patterns))
    updated = energy.update(x, jnp.asarray(patterns))
    misses = [np.abs(np.asarray(y) - patterns[0]).max() for y in (stepped, updated)]
    return agreement(
        [0.0, 0.0],
        misses,
        absolute=1e-10,
        because="an identity, to rounding times the largest gradient",
        labels=("gradient step", "mean of the patterns in support"),
        parameters={"N": n, "M": 20, "b": B},
    )


@PAPER.claim(
    "absolute-stability",
    statement="Below a load that falls with temperature no neighbour is within reach of the retrieval shell.",
    source="Entropic escape between caps",
    formula=r"\phi_{min}=\phi_c\phi_{eq}-\sqrt{(1-\phi_c^2)(1-\phi_{eq}^2)},"
    r"\qquad \alpha_{abs}=-\tfrac12\ln(1-\phi_{min}^2)",
    falsifier="values of the Gaussian layer",
)
def absolute_stability(run: Run) -> Measurement:
    t = np.array([0.1, 0.2, 0.3, 0.5, 1.0])
    # Independently: the smallest overlap of a neighbour whose cap the shell of overlap phi_eq reaches at all.
    angle = np.arccos(state.wall(B)) + np.arccos(state.lsr_overlap(t, B))
    return agreement(
        [0.1278, 0.0833, 0.0604, 0.0370, 0.0163, *(-np.log1p(-(np.cos(angle) ** 2)) / 2)],
        [*compact.absolute_stability(t, B)] * 2,
        absolute=[6e-5] * 5 + [1e-12] * 5,
        because="reference with 4 decimals; adding the two angles is the same in other words",
        labels=tuple(f"{w}, T={v:g}" for w in ("reference", "angles") for v in t),
        parameters={"b": B, "layer": "spherical"},
    )


@PAPER.claim(
    "centroids",
    statement="The centroid of two close patterns is a minimum of its own, deeper than a pattern at T = 0 once their "
    "overlap exceeds 0.4571; such pairs exist above load 0.1172, and caps touch at overlap 0.",
    source="Two-pattern centroids of the compact kernel",
    formula=r"\frac1{1-b+b\phi}=\frac{2T\phi}{1+\rho-2\phi^2},\qquad \rho>2(1-\tfrac1{2b})^2-1",
    falsifier="a minimum of the two-pattern free energy elsewhere",
)
def centroids(run: Run) -> Measurement:
    cells = ((0.1, 0.3), (0.3, 0.5), (1.0, 0.4))

    def minimum(t: float, rho: float) -> float:
        # Overlap phi with both patterns leaves the entropy of the part orthogonal to their plane.
        found = minimize_scalar(
            lambda p: -np.log(2 * (1 - B + B * p)) / B - t / 2 * np.log(1 - 2 * p * p / (1 + rho)),
            bounds=(state.wall(B) + 1e-12, np.sqrt((1 + rho) / 2) - 1e-12),
            method="bounded",
            options={"xatol": 1e-12},
        )
        return float(found.x)

    deeper = -np.log(2 * (1 - B + B * compact.centroid_overlap(0.0, compact.centroid_rival(B), B))) / B
    return agreement(
        [0.4571, 0.1172, 0.0, 0.0, *(minimum(t, rho) for t, rho in cells)],
        [
            compact.centroid_rival(B),
            compact.centroid_load(B),
            compact.touching(B),
            deeper,
            *(compact.centroid_overlap(t, rho, B) for t, rho in cells),
        ],
        absolute=[6e-5, 6e-5, 1e-12, 1e-12] + [2e-6] * 3,
        because="reference with 4 decimals; a smooth minimum is located to the square root of rounding",
        labels=(
            "rival overlap",
            "load",
            "touching caps",
            "energy of the rival centroid",
            *[f"centroid, T={t:g}, rho={rho:g}" for t, rho in cells],
        ),
        parameters={"b": B},
    )
