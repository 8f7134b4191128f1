r"""Where the printed capacity 1/2 is the maximum: Gaussian overlaps with a sharp kernel, and single points elsewhere.

$$\alpha_c=\tfrac12\ (\text{Gaussian overlaps},\ \beta\ge1),\qquad
  \alpha_c=\beta-g_{max}(\beta)\ (\text{LSE on the sphere}),\qquad
  \alpha_{th}=-\tfrac12\ln(1-(1-\tfrac1b)^2)\ (\text{LSR on the sphere}).$$
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import brentq
from scipy.special import erfcinv, logsumexp, ndtri_exp
from scipy.stats import norm

from sphereflow.claims import Check, Run
from sphereflow.estimates import mean
from sphereflow.memory import gaussian, spherical
from sphereflow.memory.boundaries import boundary
from sphereflow.memory.noise import median_crossing
from sphereflow.papers.dense_associative_memory import PAPER
from sphereflow.papers.dense_associative_memory.sources import CAPACITY

SHARP = 2.0
# Sum over k of Gamma_k^-2, for the arrivals of a Poisson process, has a Levy law of scale pi/2; this is its median.
LEVY_MEDIAN = np.pi / 2 / (2 * float(erfcinv(0.5)) ** 2)


def gaussian_crossing(n: int, draws: int, rng: np.random.Generator) -> float:
    r"""The load at which the median of $\sum e^{-\beta N(1-\phi)}$ over Gaussian overlaps of variance 1/N is 1."""
    arrivals = np.log(np.cumsum(rng.exponential(size=(draws, 400)), axis=1))

    def median(alpha: float) -> float:
        phi = -ndtri_exp(np.minimum(arrivals - alpha * n, -1e-3)) / np.sqrt(n)
        return float(np.median(logsumexp(SHARP * n * (phi - 1), axis=1)))

    return float(brentq(median, 0.3, 1.2, xtol=1e-6))


@PAPER.claim(
    "where-one-half-is-the-capacity",
    says=r"The load 1/2 is the capacity of Gaussian overlaps with a sharp kernel: at $\beta=2$ the simulated load at "
    r"which a pattern stops dominating tends to 1/2 like $\ln N/(2N)$. On the sphere it is the capacity of one "
    r"sharpness only, $\beta=0.71327$ for LSE and $b=4.8795$ for LSR, and no maximum: it is exceeded beyond.",
    basis=CAPACITY,
    formula=r"\alpha_{1/2}(N)=\frac{-\ln\Pr(g>\sqrt N)-\frac12\ln3.453}{N}\to\tfrac12,\qquad "
    r"\beta-g_{max}(\beta)=\tfrac12,\quad 1-e^{-1}=(1-\tfrac1b)^2",
)
def one_half(run: Run) -> Check:
    draws, repeats = (120, 8) if run.quick else (2000, 20)
    rng = np.random.default_rng(run.seed)
    check = Check(parameters={"Gaussian overlaps, beta": SHARP, "draws": draws, "repeats": repeats})
    sphere, distance, flat = {}, {}, {}
    for n in (100, 400):
        found = mean(np.array([gaussian_crossing(n, draws, rng) for _ in range(repeats)]))
        name = f"Gaussian overlaps, $N={n}$"
        check.row(
            name,
            predicted=(-norm.logsf(np.sqrt(n)) - np.log(LEVY_MEDIAN) / SHARP) / n,
            measured=found.value,
            error=found.error,
            repeats=repeats,
            tolerance=0.4 / n**1.5,
            because="error over repeats; the tail is exponential near overlap 1 only up to 1/N",
        )
        sphere[name] = float(spherical.capacity(SHARP))
        distance[name] = np.log1p(SHARP) / 2 + SHARP / (2 * (1 + SHARP))
        flat[name] = 0.5
    beta = brentq(lambda v: float(spherical.capacity(v)) - 0.5, 0.1, 2.0)
    sizes = np.array([32, 64, 128])
    points, spreads = np.array([median_crossing(int(n), beta, draws, run.seed) for n in sizes]).T
    (_, value), covariance = np.polyfit(1 / sizes, points, 1, w=1 / (spreads + 0.3 / sizes**2), cov="unscaled")
    lse = rf"LSE on the sphere, $\beta={beta:.5f}$"
    because = "error of the fit in 1/N"
    check.row(lse, predicted=0.5, measured=value, error=np.sqrt(covariance[1, 1]), because=because)
    b = 1 / (1 - np.sqrt(-np.expm1(-1.0)))
    limit = boundary(
        "lsr", b, temperature=1.0, sizes=(100, 200, 400), states=draws // 4, repeats=repeats, seed=run.seed
    ).limit
    lsr = f"LSR on the sphere, $b={b:.4f}$"
    check.row(lsr, predicted=0.5, measured=limit.value, error=limit.error, tolerance=1e-3, because=because)
    check.rival("the sphere for Gaussian overlaps", sphere)
    check.rival("Gaussian patterns with the kernel of distances", distance)
    check.rival("1/2 at every N", flat)
    check.rival("Gaussian overlaps for the sphere", {lse: gaussian.lse_capacity(beta), lsr: gaussian.lsr_threshold(b)})
    return check
