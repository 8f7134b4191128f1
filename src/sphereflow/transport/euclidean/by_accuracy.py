r"""The number of switches that a given relative entropy needs: found by counting up from what theory predicts.

On the line $K=\sqrt{C/\varepsilon}$ knots, the smallest for which the bound is proved. For a product of d laws the
knots are shared out by $K_k\propto C_k^{1/3}$, which makes $\sum C_k/K_k^2$ smallest, $K=\sqrt{dC/\varepsilon}$ if all
are equal. Other targets in space by Gaussianisation, where the bound rests on samples: with q the mean of target and
image and $r=\rho_*/\rho_\theta$,

$$\mathrm{KL}(\rho_*\|\rho_\theta)=E_q[g],\quad g=\frac{2(r\ln r-r+1)}{r+1},\quad 0\le g\le2\max(1,\sup\ln r).$$
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from sphereflow.errors import SphereflowError, real_number, whole_number
from sphereflow.reading import real_array
from sphereflow.results import Result, Variables, recorded_call
from sphereflow.seeds import Seed, number_from
from sphereflow.transport.abstract import MOST_PIECES
from sphereflow.transport.euclidean.certificates import KLBounds, line_certificate, provable
from sphereflow.transport.euclidean.divergences import obstructions
from sphereflow.transport.euclidean.gaussianisation import gaussianise
from sphereflow.transport.euclidean.laws import Law, Mixture
from sphereflow.transport.euclidean.line import line_divergences
from sphereflow.transport.euclidean.monotone import Rearrangement, piecewise_linear
from sphereflow.transport.euclidean.products import ProductLaw
from sphereflow.transport.euclidean.schedule import Schedule

_FRAMES = ((4, 8), (8, 12), (16, 16), (32, 24))  # frames and knots of the Gaussianisations tried in turn
_POINTS = 40_000
_RISK = 1e-3
_SUPREMUM = 6.0  # assumed of the log-ratio, or twice the largest one seen

Found = tuple[Schedule, str, KLBounds]


def schedule_for_kl(source: Any, target: Any, kl: float, number: int = 0) -> Found:
    """(schedule, how it was found, certificate) with KL(target||image) <= `kl`, or a sentence that says why not."""
    if not (isinstance(source, Law) and isinstance(target, Law)):
        raise SphereflowError("kl is a bound between laws: source and target must have densities, not points only.")
    if source.d != target.d:
        raise SphereflowError(f"source and target must share one dimension, got {source.d} and {target.d}.")
    real_number("kl", kl, least=1e-5)  # finer, and the proof takes minutes
    if infinite := _infinite(source, target):
        raise SphereflowError(f"no number of switches reaches kl = {kl:g}: {infinite}.")
    if source.d == 1:
        return _on_axes(source, [target], np.eye(1), kl)
    if isinstance(source, Mixture) and source.is_standard and isinstance(target, ProductLaw):
        return _on_axes(Mixture(np.zeros((1, 1))), target.factors, target.frame, kl)
    if isinstance(source, Mixture) and source.is_standard:
        return _gaussianised(source, target, kl, number)
    raise SphereflowError("in dimension 2 and above kl needs the source N(0, I): use transport.gaussian(d).")


def _infinite(source: Law, target: Law) -> str:
    reasons = [obstructions(source, target)[0]]
    if isinstance(target, ProductLaw) and source.gaussian_tails:
        reasons += [obstructions(Mixture(np.zeros((1, 1))), factor)[0] for factor in target.factors]
    return next((reason for reason in reasons if reason), "")


def _on_axes(base: Law, factors: Sequence[Law], frame: np.ndarray, kl: float) -> Found:
    """One piecewise-linear map per axis, each at its best knots."""
    lines = [Rearrangement(base, factor) for factor in factors]
    share = np.array([max(line.kl_constant, 1e-12) ** (1 / 3) for line in lines])
    one = {id(factor): line for factor, line in zip(factors, lines, strict=True)}

    @cache
    def bounded(which: int, knots: int) -> KLBounds:
        return _on_the_line(one[which].schedule(knots), base, one[which].target, kl)

    def tried(scale: float) -> tuple[np.ndarray, list[KLBounds], bool]:
        knots = np.maximum(np.ceil(share * scale), 1).astype(int)
        if (knots + 2).sum() > MOST_PIECES:
            raise SphereflowError(f"kl = {kl:g} needs more than {MOST_PIECES} pieces.")
        parts = [bounded(id(factor), int(k)) for factor, k in zip(factors, knots, strict=True)]
        return knots, parts, bool(sum(part.upper for part in parts) <= kl)

    # From a little below the prediction upwards: with few knots the error does not fall with every one of them.
    step = 1 / share.max()
    scale = max(0.97 * math.sqrt(share.sum() / kl) - 2 * step, 0.0)
    while not tried(scale)[-1]:
        scale += step
    knots, parts, _ = tried(scale)
    schedule = _together(lines, knots, frame)
    proved = all(part.proved for part in parts)
    route = "monotone rearrangement at its best knots" + (f", on each of {len(lines)} axes" if len(lines) > 1 else "")
    lower, upper = (float(sum(getattr(part, end) for part in parts)) for end in ("lower", "upper"))
    return schedule, route, KLBounds(lower, upper, proved, "" if proved else parts[0].assuming)


def _together(lines: Sequence[Rearrangement], knots: np.ndarray, frame: np.ndarray) -> Schedule:
    """The maps of all axes one after another: they commute."""
    if len(lines) == 1:
        return lines[0].schedule(int(knots[0]))
    made: list[Schedule] = []
    for line, count, direction in zip(lines, knots, frame, strict=True):
        x, y = line.knots(int(count))
        ends = np.exp(line.log_slope(x[[0, -1]], y[[0, -1]]))
        made.append(piecewise_linear(x, y, float(ends[0]), float(ends[1]), direction))
    whole = made[0]
    for part in made[1:]:
        whole = whole + part
    return whole


def _on_the_line(schedule: Schedule, base: Law, target: Law, kl: float) -> KLBounds:
    if provable(base, target):
        return line_certificate(schedule, base, target, fineness=max(1.0, math.sqrt(1e-2 / kl)))
    value = line_divergences(schedule, base, target).forward
    return KLBounds(value, value, False, "the quadrature is exact to the digits shown")


def sampled_certificate(
    schedule: Schedule, base: Law, target: Law, *, points: int = _POINTS, number: int = 0
) -> KLBounds:
    """Empirical Bernstein bounds from points of target and image, given the supremum of log(target/image)."""
    image = schedule.density(base)
    both = np.concatenate([target.sample(points, 2 * number), image.sample(points, 2 * number + 1)])
    log_ratio = np.asarray(target.log_density(both)) - np.asarray(image.log_density(both))
    r = np.exp(np.minimum(log_ratio, 700.0))
    g = 2 * (r * log_ratio - r + 1) / (r + 1)
    supremum = max(_SUPREMUM, 2 * float(log_ratio.max()))
    # The two halves have equal size: each is a sample of its own law, and the mean is that over their mixture.
    variance = (g[:points].var(ddof=1) + g[points:].var(ddof=1)) / 2
    log_risk = math.log(4 / _RISK)
    slack = math.sqrt(variance * log_risk / points) + 7 * 2 * supremum * log_risk / (3 * (points - 1))
    value = float(g.mean())
    assuming = f"log(target/image) is nowhere above {supremum:.2g}, with confidence {1 - _RISK:.1%}"
    return KLBounds(max(value - slack, 0.0), value + slack, False, assuming)


def _gaussianised(source: Law, target: Law, kl: float, seed: int) -> Found:
    cloud = target.sample(100_000, seed)
    best = math.inf
    for frames, knots in _FRAMES:
        schedule = gaussianise(cloud, frames=frames, knots=knots, seed=seed).schedule
        found = sampled_certificate(schedule, source, target, number=seed + 1)
        if found.upper <= kl:
            return schedule, f"Gaussianisation, {frames} frames of {knots} knots", found
        best = min(best, found.upper)
    raise SphereflowError(
        f"kl = {kl:g} was not reached by Gaussianisation of up to {frames} frames: the best bound is {best:.3g}. "
        "A target that is a transport.ProductLaw is met axis by axis."
    )


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class SwitchTable(Result):
    """Switches against accuracy: for each `kl` the switches found and the bounds of KL(target||image)."""

    kl: np.ndarray
    switches: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    proved: np.ndarray

    def variables(self) -> Variables:
        names = ("switches", "lower", "upper", "proved")
        return {"kl": ("kl", self.kl)} | {name: ("kl", getattr(self, name)) for name in names}

    def facts(self) -> list[str]:
        rows = zip(self.kl, self.switches, self.upper, self.proved, strict=True)
        return [
            f"KL <= {kl:g}: {switches} switches, {'proved' if proved else 'sampled'} bound {upper:.3g}"
            for kl, switches, upper, proved in rows
        ]


@recorded_call
def switches_needed(source: Law, target: Law, kl: Sequence[float], *, seed: Seed = 0) -> SwitchTable:
    """How many switches each relative entropy in `kl` needs from source to target, by `fit(source, target, kl=...)`."""
    wanted = np.atleast_1d(real_array("kl", kl))
    if wanted.ndim != 1 or not wanted.size:
        raise SphereflowError(f"kl must be one number or a list of them, got shape {wanted.shape}.")
    number = whole_number("seed", number_from(seed, most=2**62 - 2), least=0)
    found = [schedule_for_kl(source, target, float(each), number) for each in wanted]
    bounds = [certificate for *_, certificate in found]
    return SwitchTable(
        kl=wanted,
        switches=np.array([schedule.n_switches for schedule, *_ in found]),
        lower=np.array([c.lower for c in bounds]),
        upper=np.array([c.upper for c in bounds]),
        proved=np.array([c.proved for c in bounds]),
    )
