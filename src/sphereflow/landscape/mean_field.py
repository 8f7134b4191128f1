r"""The mean-field limit of the flow with a perceptron, measured: how fast N particles approach their law.

$$\dot\theta_i=\pm g'[\mu^N](\theta_i),\qquad W_1(\mu^N_t,\mu_t)\le e^{Ct}\,W_1(\mu^N_0,\mu_0)$$

(Dobrushin: the field is Lipschitz, for relu too). So the rate in N is that of the start: $N^{-1/2}$ for independent
tokens on the circle, $1/N$ for equally spaced ones. The law itself is represented by many equally spaced tokens. Forces
are summed in Fourier modes, $g'=\frac2\beta\operatorname{Re}\sum_kik\,\tilde I_k\,\hat\mu_ke^{ik\theta}+\frac12v'$.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy.integrate import solve_ivp
from scipy.special import ive

from sphereflow.errors import SphereflowError, one_of, real_number, whole_number
from sphereflow.estimates import Estimate, fit_power, mean
from sphereflow.landscape.flows import SIGNS
from sphereflow.landscape.potential import respond
from sphereflow.landscape.problem import Problem
from sphereflow.observables import circle_wasserstein
from sphereflow.results import Result, Variables, recorded_call
from sphereflow.seeds import Seed, rng_from
from sphereflow.shapes import ArrayLike

_NEGLIGIBLE = 1e-14
_MOST_MODES = 4000


@dataclass(frozen=True, eq=False, repr=False)
class MeanFieldLimit(Result):
    """Distances `w1` (sizes, 2, repeats) of N particles to their law, at the start and at the end."""

    problem: Problem
    sizes: Float[np.ndarray, " s"]
    t1: float
    w1: Float[np.ndarray, "s 2 repeats"]

    def distance(self, at: int = 1) -> Estimate:
        """Mean W_1 for each size, at the start (0) or at the end (1)."""
        return mean(np.moveaxis(self.w1[:, at], 1, 0))

    def exponent(self, at: int = 1) -> Estimate:
        """The power of N in the mean W_1."""
        distances = self.distance(at)
        bars = None if np.all(distances.error <= 1e-12 * distances.value) else distances.error
        fit = fit_power(self.sizes, distances.value, bars)
        return Estimate(np.asarray(fit.exponent), np.asarray(fit.error))

    @property
    def amplification(self) -> Estimate:
        """W_1 at the end over W_1 at the start, for each size: what e^{Ct} bounds."""
        return mean(np.moveaxis(self.w1[:, 1] / self.w1[:, 0], 1, 0))

    def variables(self) -> Variables:
        return {"n": ("n", self.sizes), "w1": (("n", "moment", "repeat"), self.w1)}

    def facts(self) -> list[str]:
        return [
            f"W_1 falls like N^({self.exponent(1)}) at t = {self.t1:g}, N^({self.exponent(0)}) at the start",
            f"N = {', '.join(f'{n:g}' for n in self.sizes)}; {self.w1.shape[2]} repeats",
        ]


@recorded_call
def mean_field_limit(
    problem: Problem,
    sizes: ArrayLike,
    t1: float,
    repeats: int = 32,
    *,
    sign: str = "descent",
    start: str = "independent",
    reference: int = 4096,
    tol: float = 1e-7,
    seed: Seed = 0,
) -> MeanFieldLimit:
    """How far N particles are from their mean-field limit on the circle, from uniform tokens, at time t1.

    **Arguments:** `sizes`: the numbers N; `start`: "independent" or "spaced" (equally, turned by a random angle);
    `reference`: how many equally spaced tokens stand for the law, well above every N (they are off by 1.6 over this).

    ```python
    landscape.mean_field_limit(problem, [32, 128, 512], t1=4.0).exponent()
    ```
    """
    one_of("sign", sign, SIGNS)
    one_of("start", start, ("independent", "spaced"))
    t1, tol = real_number("t1", t1, above=0), real_number("tol", tol, above=0, most=1e-2)
    repeats = whole_number("repeats", repeats, least=2)
    counts = [whole_number("sizes", n, most=1_000_000) for n in np.atleast_1d(np.asarray(sizes)).tolist()]
    if problem.d != 2:
        raise SphereflowError(f"the mean-field limit is measured on the circle, d=2, got d={problem.d}.")
    if len(counts) < 2 or max(counts) * 2 > whole_number("reference", reference, least=8):
        raise SphereflowError("sizes must be at least two numbers, each at most half the reference.")
    rng = rng_from(seed)
    groups = [2 * np.pi * (np.arange(reference) + 0.5) / reference]
    for n in counts:
        for _ in range(repeats):
            spaced = 2 * np.pi * (np.arange(n) + rng.uniform()) / n
            groups.append(rng.uniform(0, 2 * np.pi, n) if start == "independent" else spaced)
    ends = _flow(problem, groups, t1, 1.0 if sign == "ascent" else -1.0, tol)
    w1 = np.empty((len(counts), 2, repeats))
    for moment, state in enumerate((groups, ends)):
        for i in range(len(counts)):
            for j in range(repeats):
                w1[i, moment, j] = circle_wasserstein(state[1 + i * repeats + j], state[0], 1.0)
    return MeanFieldLimit(problem, np.array(counts, dtype=float), t1, w1)


def _flow(problem: Problem, groups: list[np.ndarray], t1: float, sign: float, tol: float) -> list[np.ndarray]:
    """All groups moved together, each in its own field."""
    peak, speed = problem.converted("peak"), problem.factor
    modes = np.arange(1, _MOST_MODES)
    weight = ive(modes, peak.beta) * modes
    waves = int(np.argmax(np.cumsum(weight[::-1])[::-1] < _NEGLIGIBLE)) or _MOST_MODES - 1
    weight = weight[:waves] * 2 / peak.beta
    sizes = np.array([len(group) for group in groups])
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    owner = np.repeat(np.arange(len(groups)), sizes)
    length = np.linalg.norm(peak.inner, axis=1)
    phase = np.arctan2(peak.inner[:, 1], peak.inner[:, 0])

    def field(_: float, theta: np.ndarray) -> np.ndarray:
        turned = np.exp(1j * theta)
        power, force = np.ones_like(turned), np.zeros(len(theta))
        for k in range(waves):
            power = power * turned
            moment = np.conj(np.add.reduceat(power, starts)) / sizes
            force -= weight[k] * np.imag(power * moment[owner])
        apart = theta[:, None] - phase
        hidden = respond(peak.activation, length * np.cos(apart) + peak.bias)[1]
        return np.asarray(sign * speed * (force - (hidden * np.sin(apart)) @ (peak.outer * length)))

    solved = solve_ivp(field, (0.0, t1), np.concatenate(groups), "DOP853" if tol < 1e-6 else "RK45", rtol=tol, atol=tol)
    if not solved.success:
        raise SphereflowError(f"the particles could not be followed to t1={t1:g}: {solved.message}")
    return np.split(solved.y[:, -1], starts[1:])
