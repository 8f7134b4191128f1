r"""Divergences on the line without sampling: Gauss-Legendre on the cells where the map is linear.

$$\mathrm{KL}(\rho_\theta\|\rho_*)=\int\rho_B\,(\log\rho_B-L-\log\rho_*\circ\phi)\,dx,\qquad
\mathrm{KL}(\rho_*\|\rho_\theta)=\int e^L\rho_*\circ\phi\,(\log\rho_*\circ\phi-\log\rho_B+L)\,dx .$$
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np
from jaxtyping import Float
from scipy.special import log_ndtr

from sphereflow.numerics.quadrature import panels
from sphereflow.transport.euclidean.flow import gain
from sphereflow.transport.euclidean.laws import Law
from sphereflow.transport.euclidean.schedule import Schedule

_REACH = 12.0  # standard deviations of a Gaussian of the same tail mass
_CELLS = 300
_ORDER = 8
_UNREACHED = 1e-6


def kinks(schedule: Schedule) -> Float[np.ndarray, " m"]:
    """The starting points at which the map of a schedule on the line has a corner: at most one per piece."""
    back = schedule.inverse()
    w, a, b = np.asarray(back.w)[:, 0], np.asarray(back.a)[:, 0], np.asarray(back.b)
    step = w * gain(w * a, np.asarray(back.tau))
    points = np.zeros(0)
    for k in range(schedule.n_pieces):
        points = points + step[k] * np.maximum(a[k] * points + b[k], 0.0)
        if a[k] != 0:  # the corner of a piece does not move under it
            points = np.append(points, -b[k] / a[k])
    return np.unique(points)


def cells(schedule: Schedule, base: Law, target: Law) -> Float[np.ndarray, " m"]:
    """Edges, in the base variable, between which everything that is integrated is smooth."""
    mass = np.linspace(-_REACH, _REACH, _CELLS + 1)
    lower, upper = log_ndtr(mass), log_ndtr(-mass)
    own, wanted = base.quantile(lower, upper), target.quantile(lower, upper)
    even = np.linspace(wanted[_CELLS // 4], wanted[-_CELLS // 4], _CELLS)
    jumps = np.array([*target.breaks])
    images = np.concatenate([wanted, even, jumps])
    pulled = np.asarray(schedule.pullback(images[:, None])[0])[:, 0]
    low, high = max(own[0], base.support[0]), min(own[-1], base.support[1])
    # The images of the target's far tail may lie beyond the base's: they carry the target's mass there.
    low, high = max(min(low, pulled.min()), base.support[0]), min(max(high, pulled.max()), base.support[1])
    edges = np.concatenate([own, pulled, kinks(schedule), np.array([*base.breaks]), [low, high]])
    return np.unique(edges[(edges >= low) & (edges <= high)])


def gauss_legendre(edges: np.ndarray, order: int = _ORDER) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights on the cells between the edges."""
    nodes, weights = panels(edges, order)
    return nodes.ravel(), weights.ravel()


@dataclasses.dataclass(frozen=True)
class LineDivergences:
    """Both relative entropies (nats), total variation, mass of the image, and the largest density ratios."""

    forward: float  # KL(target || image)
    reverse: float  # KL(image || target)
    tv: float
    mass: float
    ratio_forward: float  # sup target / image
    ratio_reverse: float  # sup image / target


def line_divergences(schedule: Schedule, base: Law, target: Law) -> LineDivergences:
    """Everything by quadrature in the base variable; finite numbers only make sense where no tail forbids them."""
    x, weight = gauss_legendre(cells(schedule, base, target))
    y, log_det = (np.asarray(part) for part in schedule.carry(x[:, None]))
    log_base, log_target = base.log_density(x[:, None]), target.log_density(y) + log_det
    rho, star = np.exp(log_base), np.exp(log_target)
    felt = np.maximum(rho, star) > 1e-30
    with np.errstate(invalid="ignore"):  # where a density vanishes its term is zero
        log_ratio = log_base - log_target  # of image to target
        forward, reverse = np.where(star > 0, -star * log_ratio, 0.0), np.where(rho > 0, rho * log_ratio, 0.0)
    # Target mass that the image of the base does not reach at all is missing from these cells.
    reached = float(weight @ star) > 1 - _UNREACHED
    return LineDivergences(
        forward=float(weight @ forward) if reached else math.inf,
        reverse=float(weight @ reverse),
        tv=_total_variation(x, log_ratio, schedule, base, target),
        mass=float(weight @ rho),
        ratio_forward=float(np.exp(min(-log_ratio[felt].min(initial=0.0), 700.0))),
        ratio_reverse=float(np.exp(min(log_ratio[felt].max(initial=0.0), 700.0))),
    )


def _total_variation(x: np.ndarray, log_ratio: np.ndarray, schedule: Schedule, base: Law, target: Law) -> float:
    """Half the variation of F_B - F_* o phi, taken between the points where the two densities cross.

    A rule for smooth functions loses digits at those crossings; differences of distribution functions do not.
    """
    before, after = log_ratio[:-1], log_ratio[1:]
    with np.errstate(invalid="ignore", divide="ignore"):
        crossing = x[:-1] + np.diff(x) * before / (before - after)
        found = crossing[np.isfinite(crossing) & (before * after < 0)]
    points = np.sort(np.concatenate([x, found, kinks(schedule)]))
    points = points[(points >= x[0]) & (points <= x[-1])]
    y = np.asarray(schedule.apply(points[:, None]))[:, 0]
    gap = np.exp(base.log_cdf(points)) - np.exp(target.log_cdf(y))
    ends = abs(gap[0]) + abs(gap[-1])
    return float(np.abs(np.diff(gap)).sum() + ends) / 2
