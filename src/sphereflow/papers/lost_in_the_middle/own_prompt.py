r"""Prompts with a law of their own: simulated retrieval against the equation of the covariance.

$$\text{excess}(\sigma_0)=s\sum_n\omega_n\,N\,\mathrm{Re}\,
  \mathrm{Cov}\big(e^{in\theta_N(t)},e^{in\theta_{\sigma_0}(0)}\big).$$
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sphereflow.claims import Check, Run
from sphereflow.papers.lost_in_the_middle import PAPER, reference
from sphereflow.papers.lost_in_the_middle.monte_carlo import EXTRAPOLATED, extrapolated, padded_length
from sphereflow.papers.lost_in_the_middle.sources import EXPANSION
from sphereflow.papers.lost_in_the_middle.volterra import MODES, SOURCE, layers
from sphereflow.retrieval.closed_form import readout_weights
from sphereflow.retrieval.layered import density_prompt
from sphereflow.retrieval.prompt_profile import simulated

VOCAB = 4  # the waves after the third add 5e-4 of the excess
NODES = 8  # on as many angles the law has the same force up to I_8(1) I_8(2)/I_0(2)
SIZES = ((15, 4), (45, 13))  # tokens, and the source (from zero) whose centre is 0.3


def turning(sigma: np.ndarray, theta: np.ndarray) -> np.ndarray:
    return np.asarray(np.exp(np.cos(theta - np.pi * sigma)))


def alike(sigma: np.ndarray, theta: np.ndarray) -> np.ndarray:
    return np.asarray(np.exp(2 * np.cos(theta)) + 0 * sigma)


@PAPER.claim(
    "retrieval-from-an-own-prompt",
    says="Simulated tokens that are not uniform (von Mises of concentration 2 about a fixed angle; with the larger "
    "preset also of concentration 1 about $\\pi\\sigma$) have the soft accuracy above their baseline that the equation "
    "of the covariance gives for a source at 0.3 and four codewords; it is not that of uniform tokens.",
    basis=EXPANSION,
    formula=r"N\,\mathrm{Re}\,\mathrm{Cov}\big(e^{in\theta_N(t)},e^{in\theta_k(0)}\big)",
)
def retrieval_from_an_own_prompt(run: Run) -> Check:
    repeats = 128 if run.quick else 4000
    scale, rates = np.sqrt(2 * np.pi) / VOCAB, reference.rates(1.0)[:3]
    angle = 2 * np.pi * np.arange(64) / 64

    def excess(covariance: Sequence[float] | np.ndarray) -> float:
        return float(scale * readout_weights(VOCAB, 3) @ np.asarray(covariance))

    def series(left_out: str = "") -> float:
        """The prompt whose law does not depend on position, by a power series and without the layered solver."""
        law = alike(np.zeros(1), angle)
        kept = {"left_out": left_out} if left_out else {}
        return excess([float(reference.prompt_covariance(law, 1.0, 1.0, 1.0, n, SOURCE, **kept)) for n in (1, 2, 3)])

    check = Check(parameters={"beta": 1, "slope": 1, "t": 1, "vocab": VOCAB, "N": "15 and 45", "source": SOURCE})
    fixed, turns = "about a fixed angle", "about an angle that turns"
    cases = {fixed: (alike, series())}
    if not run.quick:
        cases[turns] = (turning, excess(layers(turning).two_time_covariance()[:, -1]))
    for i, (name, (law, predicted)) in enumerate(cases.items()):
        prompt, seed = density_prompt(law, NODES), run.seed + 1000 * i
        pair = [
            simulated(
                prompt,
                n,
                k,
                1.0,
                1.0,
                1.0,
                VOCAB,
                "soft",
                repeats,
                seed + n,
                padded_length=padded_length(n),
                modes=MODES,
            )
            for n, k in SIZES
        ]
        value, error, later = extrapolated(*pair)
        check.row(
            name,
            predicted=predicted,
            measured=float(value),
            error=float(error),
            repeats=repeats,
            tolerance=float(later),
            because=EXTRAPOLATED,
        )
        run.notify((i + 1) / len(cases), name)
    uniform = excess(reference.influence(rates, 1.0, 1.0, SOURCE, 1.0))
    check.rival("the closed form of uniform tokens", dict.fromkeys(cases, uniform))
    check.rival("half of it", check.times(0.5))
    check.rival("without the transport of C by the mean field", {fixed: series("transport of C")})
    return check
