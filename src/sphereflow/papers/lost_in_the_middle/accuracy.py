r"""The accuracy of retrieval itself: nearest codeword (hard) and periodic Gaussian (soft).

$$P\big(|\theta_N(t)-\theta_k(0)|\le\tfrac\pi M\big)=\frac1M+
  \frac2N\sum_n\frac{\sin(n\pi/M)}{\pi n}\,g_{a_n}(t,1;\sigma_0)+\cdots$$
"""

from __future__ import annotations

import numpy as np

from sphereflow.claims import Measurement, Run, agreement
from sphereflow.papers.lost_in_the_middle import PAPER
from sphereflow.papers.lost_in_the_middle.monte_carlo import room
from sphereflow.papers.lost_in_the_middle.volterra import MODES
from sphereflow.retrieval.closed_form import Readout, profile, readout_weights
from sphereflow.retrieval.task import measure_profile

# M: minimum of the hard and of the soft profile, and N (accuracy - baseline) there; beta = slope = t = 1.
_KNOWN = {
    4: (0.2679, 0.2763, 0.5340, 0.4348),
    8: (0.2511, 0.2593, 0.3496, 0.3745),
    16: (0.2465, 0.2493, 0.1873, 0.2245),
}


@PAPER.claim(
    "hard-accuracy",
    statement="The hard accuracy is U-shaped as well, with its minimum close to that of the soft one.",
    source="Fourier series of the indicator; beta = slope = t = 1",
    formula=r"P(\mathrm{hit})=\frac1M+\frac2N\sum_n\frac{\sin(n\pi/M)}{\pi n}\,g_{a_n}(t,1;\sigma_0)",
)
def hard_accuracy(run: Run) -> Measurement:
    measured = []
    for vocab in _KNOWN:
        curves = [profile(1.0, 1.0, 1.0, vocab, readout=readout) for readout in ("hard", "soft")]  # type: ignore[arg-type]
        turns = [curve.turns() for curve in curves]
        positions = [turn[0].sigma0 if len(turn) == 1 else np.nan for turn in turns]
        measured += [*positions, *(float(c.excess(s)) for c, s in zip(curves, positions, strict=True))]
    names = ("hard minimum", "soft minimum", "hard excess", "soft excess")
    return agreement(
        np.ravel(list(_KNOWN.values())),
        measured,
        absolute=5.1e-5,
        because="four printed digits",
        labels=tuple(f"M={vocab}: {name}" for vocab in _KNOWN for name in names),
    )


@PAPER.claim(
    "accuracy-simulated",
    statement="Simulated retrieval has the predicted accuracy above chance, hard and soft.",
    source="Expansion of the accuracy to order 1/N; beta = slope = t = 1, vocabulary 8",
    formula=r"N\,(\mathrm{accuracy}-\mathrm{baseline})",
    falsifier="A baseline off by O(1/N), or the covariance of the wrong times.",
)
def accuracy_simulated(run: Run) -> Measurement:
    cases: list[tuple[int, tuple[int, ...], int]] = [(64, (19, 58), 160)]
    if not run.quick:
        cases = [(64, (19, 58, 3), 3000), (128, (38, 125), 3000)]
    predicted, measured, tolerance, labels = [], [], [], []
    readouts: tuple[Readout, Readout] = ("hard", "soft")
    for n, sources, repeats in cases:
        found = measure_profile(
            n,
            1.0,
            beta=1.0,
            weights=1.0,
            vocab=8,
            sources=sources,
            repeats=repeats,
            modes=MODES,
            room=room(n),
            seed=run.seed,
            notify=run.notify,
        )
        for readout in readouts:
            curve = profile(1.0, 1.0, 1.0, 8, readout=readout)
            value, error = found.excess(readout)
            predicted.append(curve.excess(found.sigma0))
            measured.append(value)
            tolerance.append(3 * error + next_order(8, n, found.sigma0, readout))
            labels += [f"{readout}, N={n} k={k}" for k in sources]
    return agreement(
        np.concatenate(predicted),
        np.concatenate(measured),
        absolute=np.concatenate(tolerance),
        because="three standard errors and the next order of the waves 1 to 3, weighed as in the readout",
        labels=tuple(labels),
    )


def next_order(vocab: int, n: int, sigma0: np.ndarray, readout: Readout) -> np.ndarray:
    """The next order of the expansion: that of each wave, n^2 (0.4 + 0.15/sigma0)/N, with its weight in the readout."""
    waves = np.arange(1, 4)
    weights = np.abs(readout_weights(vocab, len(waves), readout))
    scale = np.sqrt(2 * np.pi) / vocab if readout == "soft" else 1.0
    return scale * np.sum(weights * waves**2) * (0.4 + 0.15 / sigma0) / n
