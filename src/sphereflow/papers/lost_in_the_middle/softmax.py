r"""A decoder with softmax: the same profile, at another speed.

$$\dot\theta_j=\tfrac1\beta\,\partial_\theta\log\sum_{k<j}\omega_{jk}e^{\beta\cos(\theta_j-\theta_k)}:\qquad
  a_n\ \to\ \frac{n^2I_n(\beta)}{\beta I_0(\beta)} .$$

Write the force as $A/(I_0+\delta)$; for uniform tokens A and $\delta$ have mean zero. In $A\delta$ a source meets
another token, over which the mean is zero, or itself, with the weight $\omega^2=O(N^{-2})$: at the order 1/N of
retrieval the denominator is a constant. Prompts with another law have another denominator, at leading order.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from scipy.special import ive

from sphereflow.claims import Check, Run, basis
from sphereflow.estimates import Estimate
from sphereflow.papers.lost_in_the_middle import PAPER, reference
from sphereflow.papers.lost_in_the_middle.monte_carlo import (
    COPIES,
    EXTRAPOLATED,
    LARGE,
    SMALL,
    WAVES,
    extrapolated,
    padded_length,
    row_name,
)
from sphereflow.retrieval.bessel import growth_rates, softmax_slowdown
from sphereflow.retrieval.influence import wave_influence

BETA, TIME, SLOPE = 1.5, 2.0, 1.0
# Wave 2 of early sources has corrections of half its size at these N (measured up to N = 189): the late one only.
CELLS = {2: (1,), 6: (1,), 19: (1, 2)}
MODES = 10  # the force to 1e-8
COLD = 400.0


def softmax_rates(beta: float, count: int = 12) -> np.ndarray:
    r"""$n^2I_n(\beta)/\beta I_0(\beta)$."""
    n = np.arange(1, count + 1)
    return np.asarray(n**2 * ive(n, beta) / (beta * ive(0, beta)))


@cache
def measured(n: int, source: int, repeats: int, seed: int) -> Estimate:
    """N E cos m(theta_N(t) - theta_k(0)) of a decoder with softmax, for waves 1 and 2."""
    return wave_influence(
        n,
        source - 1,
        TIME,
        beta=BETA,
        weights=SLOPE,
        normalise="softmax",
        waves=WAVES,
        repeats=repeats,
        copies=COPIES,
        modes=MODES,
        padded_length=padded_length(n),
        seed=np.random.SeedSequence([seed, n, source, 5]).generate_state(1)[0].item(),
    )


@PAPER.claim(
    "softmax-decoder",
    says="A decoder whose attention is normalised by softmax has the same retrieval profile for uniform tokens, slower "
    "by $\\beta I_0(\\beta)$: in simulated decoders $N$ times the covariance of a source early, in the middle and late "
    "with the last token tends to the closed form with the rates $n^2I_n/\\beta I_0$. The largest of these tends to "
    "$2/e$ as $\\beta$ grows, where those without softmax grow like $e^\\beta$.",
    basis=basis.Extension("the paper's decoder has no softmax denominator; real ones do"),
    formula=r"N\,E\cos n(\theta_N(t)-\theta_k(0))\to g_{a_n}(t,1;\sigma_0),\quad "
    r"a_n=\frac{n^2I_n(\beta)}{\beta I_0(\beta)},\quad \sup_na_n\to\frac2e\ (\beta\to\infty)",
)
def softmax_decoder(run: Run) -> Check:
    repeats = 204 if run.quick else 3000
    check = Check(parameters={"beta": BETA, "slope": SLOPE, "t": TIME, "N": "21 and 63" if run.quick else "63 and 189"})
    a = softmax_rates(BETA)
    kernels = {
        "the rates without the denominator": BETA * float(ive(0, BETA)) * np.exp(BETA) * a,
        "the force keeps its factor $\\beta$": BETA * a,
        "the denominator at its largest, $e^\\beta$": float(ive(0, BETA)) * a,
    }
    rivals: dict[str, dict[str, float]] = {name: {} for name in kernels}
    rivals["one step of attention only"] = {}
    for i, (cell, kept) in enumerate(CELLS.items()):
        small, k = (SMALL, cell) if run.quick else (LARGE, 3 * cell - 1)
        pair = [measured(n, source, repeats, run.seed) for n, source in ((small, k), (3 * small, 3 * k - 1))]
        sigma0 = (k - 0.5) / small
        for n, value, error, later in zip(WAVES, *extrapolated(*pair), strict=True):
            if n not in kept:
                continue
            row = row_name(sigma0, n)
            check.row(
                row,
                predicted=reference.influence(a[n - 1], TIME, 1.0, sigma0, SLOPE),
                measured=value,
                error=error,
                repeats=repeats,
                tolerance=later,
                because=EXTRAPOLATED,
            )
            for name, rates in kernels.items():
                rivals[name][row] = float(reference.influence(rates[n - 1], TIME, 1.0, sigma0, SLOPE))
            once = reference.influence(a[n - 1], TIME, 1.0, sigma0, SLOPE, 1)
            rivals["one step of attention only"][row] = float(once)
        run.notify((i + 1) / len(CELLS), f"source at {sigma0:.2f}")
    check.row(
        f"largest rate at beta={COLD:g}",
        predicted=2 / np.e,
        measured=float(growth_rates(COLD).max()) / softmax_slowdown(COLD),
        tolerance=2 / COLD,
        because="the next term of the Bessel functions, and the best n as a whole number: of order 1/beta",
    )
    for name, values in rivals.items():
        check.rival(name, values)
    return check
