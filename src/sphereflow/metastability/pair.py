r"""Two clusters on their great circle: the exact merging time, in logarithms, for any beta.

With masses $\alpha_1,\alpha_2$ at angle $\theta$ and $S=\beta(1-\cos\theta)$,

$$\dot\theta=-\sin\theta\,(q_1+q_2),\qquad
  q_1=\frac{1}{1+(\alpha_1/\alpha_2)e^{S}},\ q_2=\frac{1}{1+(\alpha_2/\alpha_1)e^{S}}\ \text{(SA)},\qquad
  q_1=\alpha_2e^{-S},\ q_2=\alpha_1e^{-S}\ \text{(USA)};$$

cluster k moves towards the other at speed $q_k\sin\theta$. In $z=\log\tan(\theta/2)$, $dz=d\theta/\sin\theta$, the time
is $T=\int dz/(q_1+q_2)$: smooth, and large only within $\Delta S\sim 45$ of the start. The integral is taken over
panels on which neither S nor z changes by more than a fraction, by Gauss-Legendre, with $e^{S(\theta_0)}$ taken out.

In the USA of the paper the kernel is $e^{\beta(\langle x,y\rangle-1)}$. Masses need not sum to one: with other clusters
far away, USA moves a pair at its own total mass, SA at its mass ratio only.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from sphereflow.dynamics import Dynamics, attention_name
from sphereflow.errors import SphereflowError, real_number
from sphereflow.numerics.quadrature import panels
from sphereflow.results import Result, Variables, recorded_call

# Below this an angle has no logarithm in doubles; above that beta squares of it are no numbers.
_LEAST_ANGLE, _MOST_BETA = 1e-300, 1e150
# Contributions e^{-45} below the largest are below rounding.
_DEEP = 45.0
_ORDER = 16


@dataclass(frozen=True, eq=False, repr=False)
class PairMerger(Result):
    """How two clusters meet.

    `log_time` is log T; `moved` the angles that the first and the second travelled; `log_times`, `thetas`, `clocks`
    and `lengths` follow the motion: at angle thetas[k] the log of the time spent, the time in the rescaled clock
    $\\int e^{-S}dt$ (times $1/\\log\\beta$ it is the clock of the staircase), and the length of the path.
    """

    log_time: float
    moved: tuple[float, float]
    thetas: Float[np.ndarray, " m"]
    log_times: Float[np.ndarray, " m"]
    clocks: Float[np.ndarray, " m"]
    lengths: Float[np.ndarray, " m"]

    def variables(self) -> Variables:
        motion = {"log_time": self.log_times, "clock": self.clocks, "length": self.lengths}
        return {"theta": ("theta", self.thetas)} | {name: ("theta", values) for name, values in motion.items()}

    def facts(self) -> list[str]:
        travelled = " and ".join(f"{angle:.6g}" for angle in self.moved)
        return [f"the two clusters meet at log t = {self.log_time:.6g}", f"after angles of {travelled}"]


@recorded_call
def merge_pair(
    theta: float,
    beta: float,
    masses: tuple[float, float] = (0.5, 0.5),
    model: str | Dynamics = "sa",
    *,
    end: float = 1e-3,
    clock_stops: float = 0.0,
) -> PairMerger:
    """Follow two clusters from angle `theta` to angle `end` > 0; the clock stops at angle `clock_stops`.

    At the end a pair closes exponentially: the angle 0 takes for ever, and is refused.
    """
    kind = attention_name(model, beta)
    theta, beta, masses, end = _checked(theta, beta, masses, end)
    inside = min(max(real_number("clock_stops", clock_stops, least=0), end), theta)
    stretches = [_stretch(hi, lo, beta, masses, kind) for hi, lo in _regions(theta, end, beta, masses, inside)]
    panels = {name: np.concatenate([s[name] for s in stretches]) for name in stretches[0]}
    log_times = np.logaddexp.accumulate(panels["log_time"])
    if _beginning_is_below_rounding(theta, beta, masses):
        log_times = np.logaddexp(log_times, laplace_log_time(theta, beta, masses, kind))
    ticking = panels["theta"] >= inside * (1 - 1e-12)
    first = float(np.sum(panels["first"]))
    return PairMerger(
        float(log_times[-1]),
        (first, theta - end - first),
        panels["theta"],
        log_times,
        np.cumsum(np.where(ticking, panels["clock"], 0.0)),
        np.cumsum(panels["length"]),
    )


def log_merging_time(
    theta: float,
    beta: float,
    masses: tuple[float, float] = (0.5, 0.5),
    model: str | Dynamics = "sa",
    *,
    end: float = 1e-3,
) -> float:
    r"""$\log T$, $T=\int_{\mathrm{end}}^{\theta}d\theta/(\sin\theta\,(q_1+q_2))$: exact, for any beta."""
    return merge_pair(theta, beta, masses, model, end=end).log_time


def laplace_log_time(
    theta: float, beta: float, masses: tuple[float, float] = (0.5, 0.5), model: str | Dynamics = "sa"
) -> float:
    r"""Leading asymptotics as $\beta\to\infty$, as a logarithm:

    $$T\sim\frac{e^{\beta(1-r_0)}}{\beta(1-r_0^2)\,m},\quad m=\alpha_1/\alpha_2+\alpha_2/\alpha_1\ \text{(SA)},\quad
      m=\alpha_1+\alpha_2\ \text{(USA)}.$$
    """
    kind = attention_name(model, beta)
    theta, beta, masses, _ = _checked(theta, beta, masses, _LEAST_ANGLE)
    real_number("beta", beta, above=0)
    first, second = masses
    rate = first / second + second / first if kind == "sa" else first + second
    return _steepness(theta, beta) - math.log(beta * math.sin(theta) ** 2 * rate)


def _checked(
    theta: float, beta: float, masses: tuple[float, float], end: float
) -> tuple[float, float, tuple[float, float], float]:
    if np.shape(masses) != (2,):
        raise SphereflowError(f"masses must be two positive numbers, got {masses!r}.")
    first, second = (real_number("each of masses", m, least=1e-100, most=1e100) for m in masses)
    theta = real_number("theta", theta, above=0)
    if theta >= math.pi:
        raise SphereflowError(f"theta must lie below pi (opposite clusters never move), got {theta!r}.")
    end = real_number("end", end, least=_LEAST_ANGLE)
    if end >= theta:
        raise SphereflowError(f"the final angle end={end!r} must lie below the initial angle theta={theta!r}.")
    return theta, real_number("beta", beta, least=0, most=_MOST_BETA), (first, second), end


def _steepness(theta: float, beta: float) -> float:
    """S = beta (1 - cos theta), without cancellation."""
    return 2 * beta * math.sin(theta / 2) ** 2


def _angle_at(steepness: float, beta: float) -> float:
    return 2 * math.asin(min(1.0, math.sqrt(steepness / (2 * beta))))


def _beginning_is_below_rounding(theta: float, beta: float, masses: tuple[float, float]) -> bool:
    """Whether all of the time passes within one ulp of theta: panels cannot resolve it, and need not (Laplace)."""
    top = _steepness(theta, beta)
    return top - _DEEP > _moderate(masses) and _angle_at(top - _DEEP, beta) >= theta * (1 - 1e-14)


def _moderate(masses: tuple[float, float]) -> float:
    """The steepness below which both terms of the softmax count."""
    return _DEEP + abs(math.log(masses[0] / masses[1]))


def _regions(
    theta: float, end: float, beta: float, masses: tuple[float, float], inside: float
) -> list[tuple[float, float]]:
    """Where the integrands vary: near the start (the time) and where S is moderate (the split of the motion).

    Between the two, which exist only if S starts above some 90, both rates are proportional to e^{-S}.
    """
    cuts = {theta, end, inside}
    top = _steepness(theta, beta)
    moderate = _moderate(masses)
    if top - _DEEP > moderate:
        cuts |= {_angle_at(top - _DEEP, beta), _angle_at(moderate, beta)}
    cuts_inside = sorted((c for c in cuts if end <= c <= theta), reverse=True)
    regions = itertools.pairwise(cuts_inside)
    return [r for r in regions if r[1] < r[0] * (1 - 1e-14)]  # at extreme beta the first region is below rounding


def _stretch(start: float, stop: float, beta: float, masses: tuple[float, float], kind: str) -> dict[str, np.ndarray]:
    """Integrals over panels from angle `start` down to `stop`, and the angle at which each panel ends."""
    upper, lower = _steepness(start, beta), _steepness(stop, beta)
    if lower > (1 - 1e-9) * _moderate(masses) and upper - lower > 2 * _DEEP:
        # Deep inside, q_k is proportional to e^{-S}: the time no longer counts, and what does is smooth in z.
        borders = _borders(start, stop, 0.0, 0.0, beta)
    else:
        borders = _borders(start, stop, upper, lower, beta)
    z = np.log(np.tan(borders / 2))
    at, weigh = panels(z, _ORDER)
    weigh = -weigh  # from larger angles to smaller ones
    theta = 2 * np.arctan(np.exp(at))
    steep = 2 * beta * np.sin(theta / 2) ** 2
    first, second = _log_rates(steep, masses, kind)
    total = np.logaddexp(first, second)
    top = -total.min(axis=1, keepdims=True)
    share = np.exp(first - total)
    sine = np.sin(theta)
    return {
        "theta": borders[1:],
        "log_time": (top[:, 0] + np.log(np.sum(weigh * np.exp(-total - top), axis=1))),
        "first": np.sum(weigh * sine * share, axis=1),
        "length": np.sum(weigh * sine * np.hypot(share, 1 - share), axis=1),
        "clock": np.sum(weigh * np.exp(-steep - total), axis=1),
    }


def _borders(start: float, stop: float, upper: float, lower: float, beta: float) -> np.ndarray:
    """Panel borders: steps of at most 1 in S and of at most 1/2 in z, from `start` down to `stop`."""
    by_height = np.linspace(upper, lower, 2 + int(upper - lower))[1:-1]
    height_angles = 2 * np.arcsin(np.minimum(1, np.sqrt(by_height / (2 * beta)))) if beta > 0 else by_height
    zs = np.log(np.tan(np.array([start, stop]) / 2))
    by_z = 2 * np.arctan(np.exp(np.linspace(zs[0], zs[1], 2 + int(2 * (zs[0] - zs[1])))[1:-1]))
    inner = np.concatenate([height_angles, by_z])
    inner = inner[(inner < start) & (inner > stop)]
    return np.concatenate([[start], np.unique(inner)[::-1], [stop]])


def _log_rates(steep: np.ndarray, masses: tuple[float, float], kind: str) -> tuple[np.ndarray, np.ndarray]:
    ratio = math.log(masses[0] / masses[1])
    if kind == "sa":
        return -np.logaddexp(0, ratio + steep), -np.logaddexp(0, steep - ratio)
    return math.log(masses[1]) - steep, math.log(masses[0]) - steep
