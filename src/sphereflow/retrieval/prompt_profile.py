r"""The retrieval profile of a prompt with a law of its own, by the equation of the covariance and by simulation.

$$\text{excess}(\sigma_0)=N\,\Big(E\,h\big(\theta_N(t)-\theta_{\sigma_0}(0)\big)-E\,h\big(\theta_N(t)-\theta'\big)\Big)
  =s\sum_n\omega_n\,N\,\mathrm{Re}\,\mathrm{Cov}\big(e^{in\theta_N(t)},e^{in\theta_{\sigma_0}(0)}\big),$$

$\theta'$ an independent draw from the law of the source: what the last token says about this source beyond what it says
about the law. For uniform tokens it is the excess of the closed form over chance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from sphereflow.errors import SphereflowError, real_number, whole_number
from sphereflow.estimates import Estimate
from sphereflow.results import Result, Variables, recorded_call
from sphereflow.retrieval import closed_form
from sphereflow.retrieval.bessel import growth_rates
from sphereflow.retrieval.circle import CausalCircle
from sphereflow.retrieval.closed_form import Profile, Readout, readout_weights
from sphereflow.retrieval.influence import circle_advance, source_average
from sphereflow.retrieval.layered import Prompt, layered_flow
from sphereflow.retrieval.task import hard_hit, soft_hit
from sphereflow.seeds import Seed, number_from

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_POSITIONS = (0.05, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.95)


@dataclass(frozen=True, eq=False, repr=False)
class PromptProfile(Result):
    """The excess by position `sigma0` of the source: of the equation, and `measured` with n tokens if asked for.

    Simulated sources are the tokens whose centre (k - 1/2)/n is nearest; `measured_at` are these centres.
    """

    sigma0: Float[np.ndarray, " s"]
    excess: Float[np.ndarray, " s"]
    uniform: Float[np.ndarray, " s"]
    readout: str
    n: int | None
    measured_at: Float[np.ndarray, " m"]
    measured: Estimate

    def facts(self) -> list[str]:
        worst, best = np.argmin(self.excess), np.argmax(self.excess)
        facts = [
            f"excess from {self.excess[worst]:.4g} at sigma0 = {self.sigma0[worst]:.3g} to {self.excess[best]:.4g} at "
            f"{self.sigma0[best]:.3g}, {self.readout} readout",
            f"{np.mean(self.excess / self.uniform):.3g} of that of uniform tokens on average",
        ]
        if self.n is not None:
            away = np.abs(self.measured.value - np.interp(self.measured_at, self.sigma0, self.excess))
            facts.append(f"{self.n} simulated tokens differ by at most {away.max():.2g}, of order 1/n")
        return facts

    def variables(self) -> Variables:
        return {
            "sigma0": ("sigma0", self.sigma0),
            "excess": ("sigma0", self.excess),
            "uniform": ("sigma0", self.uniform),
            "measured": ("measured_at", self.measured.value),
            "measured_error": ("measured_at", self.measured.error),
            "measured_at": ("measured_at", self.measured_at),
        }

    def plot(self) -> Figure:
        """The excess against the position of the source, beside that of uniform tokens and what was simulated."""
        from sphereflow.pictures import styled_figure

        with styled_figure(5.6, 3.6) as figure:
            axes = figure.subplots()
            axes.plot(self.sigma0, self.excess, "o-", label="this prompt")
            axes.plot(self.sigma0, self.uniform, ":", color="0.5", label="uniform tokens")
            if self.n is not None:
                axes.errorbar(
                    self.measured_at, self.measured.value, self.measured.error, fmt="s", label=f"n = {self.n}"
                )
            axes.set(xlabel="position of the source", ylabel="N (accuracy - baseline)")
            axes.legend()
        return figure


@recorded_call
def profile(
    beta: float,
    slope: float,
    t: float,
    vocab: int = 8,
    *,
    readout: Readout = "soft",
    weight: float = 1.0,
    prompt: Prompt | None = None,
    positions: Sequence[float] = _POSITIONS,
    n: int | None = None,
    repeats: int = 200,
    seed: Seed = 0,
) -> Profile | PromptProfile:
    """The profile of a single head: in closed form for independent uniform tokens, or for a `prompt` of your own.

    **Arguments:** with a `prompt` (`density_prompt`, `codeword_prompt`) the excess at the given `positions` in (0, 1)
    comes from the equation of the covariance on top of the layered mean field; with `n` tokens it is simulated as well,
    `repeats` environments for each source.
    """
    number = number_from(seed, most=2**62)
    curve = closed_form.profile(beta, slope, t, vocab, readout=readout, weight=weight)
    if prompt is None:
        return curve
    if not isinstance(prompt, Prompt):
        raise SphereflowError(
            f"prompt must be a Prompt (density_prompt, codeword_prompt), got {type(prompt).__name__}."
        )
    places = np.array([real_number("each of positions", s, above=1e-6, most=0.999) for s in positions])
    if not len(places) or np.any(np.diff(places) <= 0):
        raise SphereflowError(f"positions must be increasing, got {tuple(positions)}.")
    scale = weight * (np.sqrt(2 * np.pi) / vocab if readout == "soft" else 1.0)
    rates = growth_rates(beta)
    omega = readout_weights(vocab, len(rates), readout)
    size = np.abs(omega) * rates
    waves = np.flatnonzero(size > 1e-7 * size.max()) + 1
    waves = waves[waves < len(prompt.nodes) / 2] if len(prompt.nodes) > 2 else waves[:1]
    flows = [
        layered_flow(prompt, t, beta=beta, slope=slope, source=s, waves=tuple(int(w) for w in waves), tol=1e-8)
        for s in places
    ]
    excess = scale * np.array([omega[waves - 1] @ flow.two_time_covariance()[:, -1] for flow in flows])
    at, measured = np.zeros(0), Estimate(np.zeros(0), np.zeros(0))
    if n is not None:
        n = whole_number("n", n, least=2, most=10**5)
        sources = np.unique(np.clip(np.rint(places * n - 0.5).astype(int), 0, n - 2))
        at = (sources + 0.5) / n
        by_start = [
            simulated(prompt, n, int(k), t, beta, slope, vocab, readout, repeats, number + i)
            for i, k in enumerate(sources)
        ]
        measured = Estimate(*(weight * np.array([getattr(e, part) for e in by_start]) for part in ("value", "error")))
    return PromptProfile(places, excess, curve.excess(places), readout, n, at, measured)


def simulated(
    prompt: Prompt,
    n: int,
    source: int,
    t: float,
    beta: float,
    slope: float,
    vocab: int,
    readout: Readout,
    repeats: int,
    seed: Seed,
    *,
    padded_length: int | None = None,
    modes: int | None = None,
) -> Estimate:
    """The excess of n tokens drawn from the prompt, the token `source` (from zero) running through its whole law."""
    number, sigma = number_from(seed), (np.arange(n) + 0.5) / n
    masses = prompt.rows(sigma)
    steps, law = np.cumsum(masses, axis=1), masses[source] / masses[source].sum()
    hit = soft_hit if readout == "soft" else hard_hit

    def draw(rng: np.random.Generator, count: int) -> np.ndarray:
        chosen = (rng.uniform(size=(count, n, 1)) > steps / steps[:, -1:]).sum(axis=2)
        return np.asarray(prompt.nodes[chosen])

    def points(rng: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray]:
        return np.tile(prompt.nodes, (count, 1)), law

    def above(target: np.ndarray, start: np.ndarray) -> np.ndarray:
        elsewhere = hit(target[..., None] - prompt.nodes, vocab) @ law
        return np.asarray((hit(target - start, vocab) - elsewhere)[None])

    model = CausalCircle(beta, slope, length=n, modes=modes)
    average = source_average(
        circle_advance(model, t, padded_length), draw, points, above, source=source, repeats=repeats, seed=number
    ).scaled(n)
    return Estimate(average.value[0], average.error[0])
