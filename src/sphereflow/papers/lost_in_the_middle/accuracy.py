r"""The accuracy of retrieval itself: nearest codeword (hard) and periodic Gaussian (soft).

$$P\big(|\theta_N(t)-\theta_k(0)|\le\tfrac\pi M\big)=\frac1M+
  \frac2N\sum_n\frac{\sin(n\pi/M)}{\pi n}\,g_{a_n}(t,1;\sigma_0)+\cdots$$
"""

from __future__ import annotations

import numpy as np

from sphereflow.claims import Check, Run, basis
from sphereflow.papers.lost_in_the_middle import PAPER, reference
from sphereflow.papers.lost_in_the_middle.monte_carlo import EXTRAPOLATED, LARGE, SMALL, extrapolated, padded_length
from sphereflow.papers.lost_in_the_middle.sources import EXPANSION
from sphereflow.papers.lost_in_the_middle.volterra import MODES
from sphereflow.retrieval.circle import CausalCircle
from sphereflow.retrieval.closed_form import Readout, profile
from sphereflow.retrieval.influence import circle_advance, equidistant, source_average, uniform_angles
from sphereflow.retrieval.task import hard_hit, soft_hit

COPIES, FINE = 9, 2048  # waves up to the fourth: the fifth of the force is 0.002 of the first
READOUTS: tuple[Readout, Readout] = ("hard", "soft")


def excess(vocab: int, sigma0: float, readout: Readout, hops: int = 70) -> float:
    """N (accuracy - baseline) to leading order at beta = slope = t = 1."""
    scale = 1.0 if readout == "hard" else np.sqrt(2 * np.pi) / vocab
    return float(scale * reference.score(1.0, 1.0, 1.0, vocab, sigma0, hops, hard=readout == "hard"))


@PAPER.claim(
    "hard-accuracy",
    says="The accuracy of the nearest codeword is U-shaped as well at inverse temperature 1, slope 1 and time 1, with "
    "its minimum a little before that of the soft accuracy.",
    basis=basis.Derived("the Fourier series of the indicator in place of that of the Gaussian"),
    formula=r"P(\mathrm{hit})=\frac1M+\frac2N\sum_n\frac{\sin(n\pi/M)}{\pi n}\,g_{a_n}(t,1;\sigma_0)",
)
def hard_accuracy(run: Run) -> Check:
    check = Check()
    swapped = {}
    for vocab in (4, 8, 16):
        places = {}
        for readout in READOUTS:
            hard = readout == "hard"
            (at,) = reference.turns(lambda s, m=vocab, h=hard: reference.tilt(1.0, 1.0, 1.0, m, s, hard=h))  # type: ignore[misc]
            places[readout] = at
            curve = profile(1.0, 1.0, 1.0, vocab, readout=readout)
            found = curve.minimiser or np.nan
            label = f"{readout}, $M={vocab}$"
            check.row(f"minimum at, {label}", predicted=at, measured=found, relative=1e-8, because="a root to 1e-12")
            check.row(
                f"excess there, {label}",
                predicted=excess(vocab, at, readout),
                measured=float(curve.excess(at)),
                relative=1e-10,
                because="rounding",
            )
        for readout in READOUTS:
            swapped[f"minimum at, {readout}, $M={vocab}$"] = places["soft" if readout == "hard" else "hard"]
    check.rival("the minimum of the other readout", swapped)
    return check


@PAPER.claim(
    "accuracy-simulated",
    says="Simulated retrieval has the predicted accuracy above chance, hard and soft, with 8 codewords; early and late "
    "sources are retrieved better than one between them.",
    basis=EXPANSION,
    formula=r"N\,(\mathrm{accuracy}-\mathrm{baseline})",
)
def accuracy_simulated(run: Run) -> Check:
    vocab, cells = 8, (2, 6, 19)
    repeats = 113 if run.quick else 3000
    baselines = np.array([1 / vocab, np.sqrt(np.pi / 2) / vocab])[:, None, None]

    def hits(target: np.ndarray, start: np.ndarray) -> np.ndarray:
        """Above chance, from the target as a trigonometric polynomial of the source: hits are then counted finely."""
        turned = np.fft.irfft(np.fft.rfft(target), FINE) * (FINE / COPIES)
        gap = turned - start[..., :1] - 2 * np.pi * np.arange(FINE) / FINE
        both = np.stack([hard_hit(gap, vocab), soft_hit(gap, vocab)]).mean(axis=-1, keepdims=True) - baselines
        return np.broadcast_to(both, (2, *target.shape))

    check = Check(parameters={"beta": 1, "slope": 1, "t": 1, "vocab": vocab, "N": f"{SMALL} and {LARGE}"})
    direct = {}
    for i, k in enumerate(cells):
        pair = [
            source_average(
                circle_advance(CausalCircle(1.0, 1.0, length=n, modes=MODES), 1.0, padded_length=padded_length(n)),
                uniform_angles(n),
                equidistant(COPIES),
                hits,
                source=source - 1,
                repeats=repeats,
                seed=run.seed + n + source,
            ).scaled(n)
            for n, source in ((SMALL, k), (LARGE, 3 * k - 1))
        ]
        sigma0 = (k - 0.5) / SMALL
        for readout, *numbers in zip(READOUTS, *extrapolated(*pair), strict=True):
            value, error, later = numbers
            name = f"{readout}, $\\sigma_0={sigma0:.3f}$"
            check.row(
                name,
                predicted=excess(vocab, sigma0, readout),
                measured=value,
                error=error,
                repeats=repeats,
                tolerance=later,
                because=EXTRAPOLATED,
            )
            direct[name] = excess(vocab, sigma0, readout, 1)
        run.notify((i + 1) / len(cells), f"source at {sigma0:.2f}")
    flat = {
        f"{readout}, $\\sigma_0={(k - 0.5) / SMALL:.3f}$": excess(vocab, 5.5 / SMALL, readout)
        for readout in READOUTS
        for k in (2, 19)
    }
    check.rival("early and late sources retrieved like the one between them", flat)
    check.rival("no retrieval at this order, as in the mean field", 0.0)
    check.rival("one step of attention only", direct)
    check.rival("half of the hard excess", {r.name: r.predicted / 2 for r in check.rows if r.name.startswith("hard")})
    check.rival("half of the soft excess", {r.name: r.predicted / 2 for r in check.rows if r.name.startswith("soft")})
    return check
