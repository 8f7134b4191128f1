r"""Relative entropy with a proof: bounds between which $\mathrm{KL}(\rho_*\|\rho_\theta)$ lies, not an estimate.

On the line, in a cell of width h between two kinks, with $\ell=\log\rho_*-\log\rho_\theta$ the midpoint rule for

$$F=\rho_*(\ell-1)+\rho_\theta\ge0,\qquad \int F=\mathrm{KL}(\rho_*\|\rho_\theta),$$

is off by at most $\tfrac{h^3}{24}\sup|F''|$, and the supremum is bounded by the scores of the two laws over the cell.
Beyond the last cell the map is affine, and what is left is bounded by mass and second moment of the target's tail. A
product of laws on the line, in any orthonormal frame, has the sum of these for its relative entropy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import special

from sphereflow.errors import SphereflowError
from sphereflow.transport.euclidean.divergences import obstructions
from sphereflow.transport.euclidean.laws import Law, Mixture, StudentT
from sphereflow.transport.euclidean.line import kinks
from sphereflow.transport.euclidean.schedule import Schedule

_CELLS = 60_000  # of the bulk; the error falls with the square of their number
_FAR = 1e12
_DEVIATIONS = 14.0  # of the widest Gaussian, beyond which a mixture is bounded in closed form
_ROUNDING = 1e-12


@dataclass(frozen=True)
class KLBounds:
    """`lower` <= KL(target||image) <= `upper`; `proved` says whether that is a proof or rests on `assuming`."""

    lower: float
    upper: float
    proved: bool
    assuming: str = ""

    def __str__(self) -> str:
        told = f"KL(target||image) between {self.lower:.4g} and {self.upper:.4g}"
        return told + (", proved" if self.proved else f", if {self.assuming}")


def provable(base: Law, target: Law) -> bool:
    """Whether bounds can be proved on the line: a Gaussian base, and a target whose scores are bounded by formula."""
    gaussian_base = isinstance(base, Mixture) and len(base.weights) == 1
    return base.d == target.d == 1 and gaussian_base and isinstance(target, (Mixture, StudentT))


def line_certificate(schedule: Schedule, base: Law, target: Law, *, fineness: float = 1.0) -> KLBounds:
    """Bounds on KL(target||image) on the line; with `fineness` times as many cells they are closer by its square."""
    if not provable(base, target):
        raise SphereflowError(
            f"bounds are proved on the line for a Gaussian base and a mixture or Student law; got {base} and {target}."
        )
    if obstructions(base, target)[0]:
        return KLBounds(math.inf, math.inf, True)
    assert isinstance(base, Mixture)
    mean, scale = float(base.means[0, 0]), math.exp(-float(base.log_density(np.array([base.means[0]]))[0]))
    scale /= math.sqrt(2 * math.pi)
    knots = np.sort(np.asarray(schedule.apply(kinks(schedule)[:, None]))[:, 0])
    edges = _edges(target, knots, int(_CELLS * min(fineness, 30.0)))
    middle, width = (edges[1:] + edges[:-1]) / 2, np.diff(edges)
    x_left, x_right = (np.asarray(schedule.pullback(e[:, None])[0])[:, 0] for e in (edges[:-1], edges[1:]))
    x = np.asarray(schedule.pullback(middle[:, None])[0])[:, 0]
    slope = width / (x_right - x_left)  # the map is affine on a cell
    log_image = -0.5 * ((x - mean) / scale) ** 2 - math.log(scale * math.sqrt(2 * math.pi)) - np.log(slope)
    log_target = target.log_density(middle[:, None])
    ratio = log_target - log_image
    star, image = np.exp(log_target), np.exp(log_image)
    value = width @ (star * (ratio - 1) + image)

    score, bend = _scores(target, edges)
    most = np.maximum(np.abs(x_left - mean), np.abs(x_right - mean)) / scale  # of |x|, in standard deviations
    least = np.where((x_left < mean) & (x_right > mean), 0.0, np.minimum(np.abs(x_left - mean), np.abs(x_right - mean)))
    image_score, image_bend = most / (scale * slope), 1 / (scale * slope) ** 2
    top = star * np.exp(score * width / 2)
    image_top = np.exp(-0.5 * (least / scale) ** 2) / (scale * math.sqrt(2 * math.pi) * slope)
    high = np.abs(ratio) + (score + image_score) * width / 2
    second = top * ((score**2 + bend) * (high + 1) + 2 * score * (score + image_score) + bend + image_bend)
    second += image_top * (image_score**2 + image_bend)
    error = float((width**3 / 24) @ second) + _ROUNDING
    error += sum(_beyond(target, side, edges, x_left, x_right, slope, mean, scale) for side in (0, -1))
    return KLBounds(max(float(value - error), 0.0), float(value + error), True)


def _edges(target: Law, knots: np.ndarray, cells: int) -> np.ndarray:
    if isinstance(target, Mixture):
        widest = target._roots[:, 0, 0].max()
        low = min(target.means.min() - _DEVIATIONS * widest, knots.min(initial=0.0) - 1)
        high = max(target.means.max() + _DEVIATIONS * widest, knots.max(initial=0.0) + 1)
        return np.unique(np.concatenate([np.linspace(low, high, cells + 1), knots]))
    far = np.geomspace(30.0, _FAR, cells // 3)
    return np.unique(np.concatenate([np.linspace(-30, 30, cells + 1), far, -far, knots]))


def _scores(target: Law, edges: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Bounds of |(log rho)'| and |(log rho)''| over each cell."""
    if isinstance(target, StudentT):
        nu = target.nu
        near = np.where(edges[:-1] * edges[1:] < 0, 0.0, np.minimum(np.abs(edges[:-1]), np.abs(edges[1:])))
        steepest = (nu + 1) / (2 * math.sqrt(nu))
        score = np.where(near > math.sqrt(nu), (nu + 1) * near / (nu + near**2), steepest)
        return score, (nu + 1) / (nu + near**2)
    variance = target._roots[:, 0, 0] ** 2  # type: ignore[attr-defined]
    ends = np.stack([(e[:, None] - target.means[:, 0]) / variance for e in (edges[:-1], edges[1:])])  # type: ignore[attr-defined]
    # The derivative of the score is minus a mean of 1/variance plus a variance of the components' scores.
    spread = ends.max(axis=(0, 2)) - ends.min(axis=(0, 2))
    return np.abs(ends).max(axis=(0, 2)), 1 / variance.min() + spread**2 / 4


def _beyond(
    target: Law,
    side: int,
    edges: np.ndarray,
    x_left: np.ndarray,
    x_right: np.ndarray,
    slope: np.ndarray,
    mean: float,
    scale: float,
) -> float:
    r"""Bound of F beyond the outermost cell, where $x=(y-c)/m$ and $\ell\le C+(y^2+c^2)/(\sigma m)^2$."""
    y, x, m = (edges[0], x_left[0], slope[0]) if side == 0 else (edges[-1], x_right[-1], slope[-1])
    mass, moment = _tail(target, abs(y)) if isinstance(target, StudentT) else _mixture_tail(target, y, side)
    centre = y - m * (x - mean)
    constant = max(float(target.log_density(np.array([[y]]))[0]) + math.log(m * scale * math.sqrt(2 * math.pi)), 0.0)
    image = float(special.ndtr(-abs(x - mean) / scale))
    return constant * mass + (moment + centre**2 * mass) / (scale * m) ** 2 + image


def _tail(target: StudentT, y: float) -> tuple[float, float]:
    """Mass and second moment beyond y > 0 at most, from rho <= c y^(-nu-1)."""
    nu = target.nu
    c = math.exp(float(target.log_density(np.zeros((1, 1)))[0]) + (nu + 1) / 2 * math.log(nu))
    return c * y**-nu / nu, c * y ** (2 - nu) / (nu - 2) if nu > 2 else math.inf


def _mixture_tail(target: Law, y: float, side: int) -> tuple[float, float]:
    """Mass and second moment beyond y, in closed form."""
    m, s = target.means[:, 0], target._roots[:, 0, 0]  # type: ignore[attr-defined]
    sign = -1.0 if side == 0 else 1.0
    z = sign * (y - m) / s
    tail, height = special.ndtr(-z), np.exp(-0.5 * z**2) / math.sqrt(2 * math.pi)
    second = (m**2 + s**2) * tail + sign * 2 * m * s * height + s**2 * z * height
    return float(target.weights @ tail), float(target.weights @ second)  # type: ignore[attr-defined]
