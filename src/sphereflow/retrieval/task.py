r"""The retrieval task: read the last token at time t, return the nearest of M codewords, compare with the source.

$$\vartheta_m=\frac{2\pi m}M,\qquad
  \text{hard}=P\big(|\theta_N(t)-\theta_k(0)|_{\mathbb T}\le\tfrac\pi M\big),\qquad
  \text{soft}=E\sum_{j\in\mathbb Z}\exp\Big(-\frac{M^2}{2\pi^2}(\theta_N(t)-\theta_k(0)-2\pi j)^2\Big).$$
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from sphereflow.errors import SphereflowError, one_of, real_number, whole_number
from sphereflow.estimates import Estimate
from sphereflow.progress import Progress, reporting
from sphereflow.reading import real_array
from sphereflow.results import Result, Variables, recorded_call
from sphereflow.retrieval.circle import CausalCircle
from sphereflow.retrieval.influence import (
    Draw,
    Points,
    circle_advance,
    equidistant,
    source_average,
    uniform_angles,
)
from sphereflow.retrieval.positions import CausalWeights
from sphereflow.seeds import Seed, number_from

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PROMPTS = ("uniform", "codewords")


def codewords(vocab: int) -> Float[np.ndarray, " m"]:
    r"""$\vartheta_m=2\pi m/M$, m = 0, ..., M-1."""
    return 2 * np.pi * np.arange(whole_number("vocab", vocab)) / vocab


def decode(angles: Float[np.ndarray, "..."], vocab: int) -> np.ndarray:
    """The index of the nearest codeword."""
    vocab = whole_number("vocab", vocab)
    return np.rint(_moderate(angles) * vocab / (2 * np.pi)).astype(int) % vocab


def _moderate(angles: np.ndarray) -> np.ndarray:
    """Angles that still mean a point of the circle: beyond 1e15 a double skips whole turns."""
    array = real_array("angles", angles)
    if np.abs(array).max(initial=0.0) > 1e15:
        raise SphereflowError("angles must be within [-1e15, 1e15].")
    return array


def hard_hit(difference: Float[np.ndarray, "..."], vocab: int) -> Float[np.ndarray, "..."]:
    """1 where an angle, wrapped to [-pi, pi), is at most pi/M from zero, else 0."""
    wrapped = np.abs((_moderate(difference) + np.pi) % (2 * np.pi) - np.pi)
    return (wrapped <= np.pi / whole_number("vocab", vocab)).astype(float)


def soft_hit(difference: Float[np.ndarray, "..."], vocab: int) -> Float[np.ndarray, "..."]:
    """The periodic Gaussian of standard deviation pi/M with value about 1 at zero."""
    wrapped, vocab = (_moderate(difference) + np.pi) % (2 * np.pi) - np.pi, whole_number("vocab", vocab)
    return np.sum([np.exp(-((vocab * (wrapped - 2 * np.pi * j) / np.pi) ** 2) / 2) for j in range(-5, 6)], axis=0)


@dataclass(frozen=True, eq=False, repr=False)
class MeasuredProfile(Result):
    """Accuracies by source position; position k of N (from one) is sigma0 = (k - 1/2)/N."""

    n: int
    vocab: int
    sources: tuple[int, ...]
    hard: Estimate
    soft: Estimate
    repeats: int

    @property
    def sigma0(self) -> Float[np.ndarray, " s"]:
        return (np.asarray(self.sources) - 0.5) / self.n

    def excess(self, readout: str = "soft") -> Estimate:
        """N (accuracy - baseline)."""
        one_of("readout", readout, ("soft", "hard"))
        if readout == "soft":
            return Estimate(self.soft.value - np.sqrt(np.pi / 2) / self.vocab, self.soft.error).scaled(self.n)
        return Estimate(self.hard.value - 1 / self.vocab, self.hard.error).scaled(self.n)

    def variables(self) -> Variables:
        columns = {"source": np.asarray(self.sources)}
        for name in ("hard", "soft"):
            measured, above = getattr(self, name), self.excess(name)
            columns |= {name: measured.value, f"{name}_error": measured.error}
            columns |= {f"{name}_excess": above.value, f"{name}_excess_error": above.error}
        return {"sigma0": ("sigma0", self.sigma0)} | {name: ("sigma0", column) for name, column in columns.items()}

    def facts(self) -> list[str]:
        value, error = self.soft
        extremes = np.argsort(value)[[0, -1]]
        ends = [f"{value[k]:.4g} +- {error[k]:.1g} at sigma0 = {self.sigma0[k]:.3g}" for k in extremes]
        return [
            f"soft accuracy from {ends[0]} to {ends[1]}",
            f"{self.n} tokens, {self.vocab} codewords, {len(self.sources)} sources, {self.repeats} repeats",
        ]

    def plot(self) -> Figure:
        """N (accuracy - baseline) of both readouts against the position of the source."""
        from sphereflow.retrieval.plots import plot_measured

        return plot_measured(self)


@recorded_call
def measure_profile(
    n: int,
    t: float,
    *,
    beta: float,
    weights: CausalWeights | float,
    vocab: int,
    sources: tuple[int, ...],
    normalise: str = "mean",
    prompt: str = "uniform",
    repeats: int = 500,
    padded_length: int | None = None,
    modes: int | None = None,
    seed: Seed = 0,
    progress: Progress = None,
) -> MeasuredProfile:
    """Simulate prompts of n tokens and read the last one, for each source position (from one, before the last).

    `prompt` is "uniform" (independent uniform angles) or "codewords" (independent uniform codewords). The source runs
    through a multiple of M equidistant angles, which makes the baseline of the hard accuracy exact.
    """
    one_of("prompt", prompt, PROMPTS)
    n, vocab = whole_number("n", n, least=2, most=10**6), whole_number("vocab", vocab, most=10**5)
    t, number = real_number("t", t, above=0, most=1e4), number_from(seed, most=2**62)
    sources = tuple(whole_number("each of sources", k, most=n - 1) for k in np.atleast_1d(np.asarray(sources, object)))
    if not sources:
        raise SphereflowError(f"sources must be positions from 1 to n - 1 = {n - 1}, got {tuple(sources)}.")
    copies = vocab * max(1, -(-16 // vocab))
    model = CausalCircle(beta, weights, normalise, length=n, modes=modes)
    advance = circle_advance(model, t, padded_length)
    draw, points = (uniform_angles(n), equidistant(copies)) if prompt == "uniform" else _codeword_prompt(n, vocab)

    def hits(target: np.ndarray, start: np.ndarray) -> np.ndarray:
        return np.stack([hard_hit(target - start, vocab), soft_hit(target - start, vocab)])

    accuracies: list[Estimate] = []
    with reporting("sources", progress) as report:
        for index, k in enumerate(sources):

            def report_source(share: float, words: str, index: int = index, k: int = k) -> None:
                report((index + share) / len(sources), f"source {k} of {n}: {words}")

            accuracies.append(
                source_average(
                    advance,
                    draw,
                    points,
                    hits,
                    source=k - 1,
                    repeats=repeats,
                    seed=number + index,
                    progress=report_source,
                )
            )
    means, errors = np.array([e.value for e in accuracies]).T, np.array([e.error for e in accuracies]).T
    hard, soft = (Estimate(*pair) for pair in zip(means, errors, strict=True))
    return MeasuredProfile(n, vocab, tuple(sources), hard, soft, repeats)


def _codeword_prompt(n: int, vocab: int) -> tuple[Draw, Points]:
    words = codewords(vocab)

    def draw(rng: np.random.Generator, count: int) -> np.ndarray:
        return words[rng.integers(vocab, size=(count, n))]

    def points(rng: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray]:
        return np.tile(words, (count, 1)), np.full(vocab, 1 / vocab)

    return draw, points
