r"""How far the image of a schedule is from its target: both relative entropies and total variation, with error bars.

$$\mathrm{KL}(\rho_*\|\rho_\theta)=E_{Y\sim\rho_*}\left[\log\rho_*(Y)-\log\rho_B(X)+L(X)\right],\ X=\phi^{-1}(Y),\qquad
\mathrm{KL}(\rho_\theta\|\rho_*)=E_{X\sim\rho_B}\left[\log\rho_B(X)-L(X)-\log\rho_*(\phi(X))\right].$$

A flow of finitely many pieces is piecewise linear, so it keeps the tails of the base up to linear scaling. Where the
tails of the two laws are too different, relative entropy is infinite for every schedule; `obstructions` says so before
anything is sampled, because a Monte Carlo estimate would be finite and wrong.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from sphereflow.errors import SphereflowError, whole_number
from sphereflow.estimates import Estimate, mean
from sphereflow.results import Result, Variables, recorded_call
from sphereflow.seeds import Seed, number_from
from sphereflow.transport.euclidean.laws import Law
from sphereflow.transport.euclidean.line import line_divergences
from sphereflow.transport.euclidean.schedule import Schedule

_INFINITE = Estimate(np.asarray(np.inf), np.zeros(()))


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Divergences(Result):
    """KL(target||image) `forward`, KL(image||target) `reverse`, total variation `tv`, all in nats.

    `ratio` is the largest density ratio target/image that was met; the reasons say why an infinite one is infinite.
    """

    forward: Estimate
    reverse: Estimate
    tv: Estimate
    ratio: float
    forward_reason: str = ""
    reverse_reason: str = ""

    @property
    def reverse_pinsker(self) -> float:
        """The bound M log M / (M - 1) TV on KL(target||image), M the largest density ratio."""
        return reverse_pinsker(self.ratio) * float(self.tv.value)

    derived = ("reverse_pinsker",)

    def variables(self) -> Variables:
        values, errors = np.array([self.forward, self.reverse, self.tv], dtype=float).T
        names = np.array(["KL(target||image)", "KL(image||target)", "total variation"])
        return {"kind": ("kind", names), "divergence": ("kind", values), "error": ("kind", errors)}

    def facts(self) -> list[str]:
        return [
            self.forward_reason or f"KL(target||image) {self.forward}",
            self.reverse_reason or f"KL(image||target) {self.reverse}",
            f"total variation {self.tv}",
        ]


def reverse_pinsker(ratio: float) -> float:
    """M log M / (M - 1): what relative entropy can be at most, per unit of total variation, if dP/dQ <= M."""
    return 1.0 if ratio <= 1 + 1e-12 else ratio * math.log(ratio) / (ratio - 1)


def obstructions(base: Law, target: Law) -> tuple[str, str]:
    """Why KL(target||image) and KL(image||target) are infinite for every schedule; empty where they need not be."""
    forward = reverse = ""
    if base.gaussian_tails and math.isinf(target.second_moment):
        forward = (
            "KL(target||image) is infinite because the target has no second moment, while every image of a Gaussian "
            "under finitely many pieces has Gaussian tails"
        )
    elif _escapes(target, base):
        forward = (
            "KL(target||image) is infinite because the base has bounded support, so that target mass lies outside "
            "the reach of every schedule"
        )
    if target.gaussian_tails and math.isinf(base.second_moment):
        reverse = (
            "KL(image||target) is infinite because the base has no second moment, finitely many pieces keep its tails "
            "up to scaling, and the target's tails are Gaussian"
        )
    elif _escapes(base, target):
        reverse = (
            "KL(image||target) is infinite because the base reaches everywhere, and so does its image under a "
            "homeomorphism, while the target has bounded support"
        )
    return forward, reverse


def _escapes(first: Law, second: Law) -> bool:
    """Whether the first law goes to infinity on a side on which the second one does not."""
    return any(math.isinf(f) and not math.isinf(s) for f, s in zip(first.support, second.support, strict=True))


@recorded_call
def divergences(schedule: Schedule, base: Law, target: Law, *, samples: int = 40_000, seed: Seed = 0) -> Divergences:
    """How far the image of `base` under the schedule is from `target`.

    On the line by quadrature; in higher dimension from `samples` points of each law, with standard errors.
    """
    if not schedule.d == base.d == target.d:
        raise SphereflowError(
            f"schedule, base and target must share one dimension, got {schedule.d}, {base.d} and {target.d}."
        )
    number = number_from(seed, most=2**62 - 1)
    forward_reason, reverse_reason = obstructions(base, target)
    if schedule.d == 1:
        exact = line_divergences(schedule, base, target)
        values = exact.forward, exact.reverse, exact.tv
        forward, reverse, tv = (Estimate(np.asarray(x), np.zeros(())) for x in values)
        found = Divergences(forward, reverse, tv, exact.ratio_forward)
    else:
        found = _sampled(schedule, base, target, whole_number("samples", samples, least=2), number)
    forward, forward_reason = _final(found.forward, forward_reason, "target||image")
    reverse, reverse_reason = _final(found.reverse, reverse_reason, "image||target")
    return Divergences(forward, reverse, found.tv, found.ratio, forward_reason, reverse_reason)


def _sampled(schedule: Schedule, base: Law, target: Law, samples: int, seed: int) -> Divergences:
    x = base.sample(samples, 2 * seed)
    y, log_det = schedule.carry(x)
    reverse = base.log_density(x) - log_det - target.log_density(y)
    wanted = target.sample(samples, 2 * seed + 1)
    forward = target.log_density(wanted) - schedule.density(base).log_density(wanted)
    # Both sides estimate the same total variation, (1 - 1/ratio)_+ under the law in the numerator; they are averaged.
    halves = [_mean(-np.expm1(-np.maximum(part, 0.0))) for part in (reverse, forward)]
    tv = Estimate((halves[0].value + halves[1].value) / 2, np.hypot(halves[0].error, halves[1].error) / 2)
    ratio = float(np.exp(min(max(forward.max(), (-reverse).max()), 700.0)))
    return Divergences(_mean(forward), _mean(reverse), tv, ratio)


def _mean(values: np.ndarray) -> Estimate:
    return mean(values) if np.isfinite(values).all() else _INFINITE


def _final(estimate: Estimate, reason: str, name: str) -> tuple[Estimate, str]:
    """What is known of a divergence, and why it is infinite if it is."""
    if not reason and not math.isfinite(estimate.value):
        reason = f"KL({name}) is infinite because some mass of the first law lies where the second one has none"
    return (_INFINITE, reason) if reason else (estimate, "")
