r"""Very few switches: the first row of the table on the line, and constructed against trained schedules.

With two knots, symmetric at $\pm y_1$ where a quarter of $(\rho_Bg'^2)^{1/3}$ lies beyond each, the map has the slope
$y_1/x_1$ between them and $T_*'(x_1)$ outside: three switches. Its entropies are integrals over the line.
"""

from __future__ import annotations

import math
from functools import cache
from itertools import pairwise

import numpy as np
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.special import ndtr, ndtri

from sphereflow.claims import Check, Run
from sphereflow.papers.transport_relative_entropy import PAPER, line
from sphereflow.papers.transport_relative_entropy.learning import TRAINING, stall, steps, trained
from sphereflow.papers.transport_relative_entropy.line import RATE, plain_constants

NAMES = ("KL(image||target)", "KL(target||image)", "TV")
MOST = 25.0  # of the base: beyond it less than e^-300 lies, and entropies grow with squares


def log_target(y: float) -> float:
    """The log-density of half N(-2, 1/4) and half N(2, 1/4)."""
    return float(np.logaddexp(-2 * (y - 2) ** 2, -2 * (y + 2) ** 2) - math.log(2 * math.sqrt(math.pi / 2)))


def beyond(y: float) -> float:
    """Its mass to the right of y."""
    return float(ndtr(-2 * (y + 2)) + ndtr(-2 * (y - 2))) / 2


def log_bell(x: float) -> float:
    return -(x**2) / 2 - math.log(2 * math.pi) / 2


@cache
def knot() -> tuple[float, float, float]:
    """(x_1, y_1, slope outside): the knot beyond which a quarter of the monitor lies."""

    def monitor(y: float) -> float:
        x = -float(ndtri(beyond(y)))
        stretch = math.exp(log_bell(x) - log_target(y))
        parts = np.array([-2 * (y - 2) ** 2, -2 * (y + 2) ** 2])
        share = np.exp(parts - np.logaddexp(*parts))
        slope = float(share @ np.array([-4 * (y - 2), -4 * (y + 2)]))
        return (math.exp(log_bell(x)) * (-x - slope * stretch) ** 2) ** (1 / 3) / stretch

    def mass(y: float) -> float:
        return quad(monitor, 0, y, limit=400, points=[p for p in (0.01, 0.5, 1.5, 2.0, 4.0) if p < y], epsrel=1e-10)[0]

    half = mass(9.0)
    y = float(brentq(lambda y: mass(y) - half / 2, 0.01, 4))
    x = -float(ndtri(beyond(y)))
    return x, y, math.exp(log_bell(x) - log_target(y))


def two_knots(x1: float, y1: float, outside: float) -> tuple[float, float, float]:
    """(KL(image||target), KL(target||image), TV) of the symmetric map with these knots, by adaptive quadrature."""

    def log_image(y: float) -> float:
        inner = y < y1
        x, slope = (y * x1 / y1, y1 / x1) if inner else (x1 + (y - y1) / outside, outside)
        return log_bell(x) - math.log(slope)

    def integrals(y: float) -> tuple[float, float, float]:
        p, q = log_image(y), log_target(y)
        return math.exp(p) * (p - q), math.exp(q) * (q - p), abs(math.exp(p) - math.exp(q)) / 2

    pieces = sorted({0.0, 0.5, y1, 2.0, 3.5, 6.0, y1 + outside * MOST})
    image, target, total = (
        2 * sum(quad(lambda y, k=k: integrals(y)[k], a, b, limit=400)[0] for a, b in pairwise(pieces)) for k in range(3)
    )
    return image, target, total


@PAPER.claim(
    "three-switches",
    says="With two knots and three switches the construction on the line has the entropies and the total variation of "
    "the map with these knots, integrated without it. The image leaves mass where the target has almost none: its "
    "entropy is above what the law $C/K^2$ says, the other one is near it.",
    basis=RATE,
    formula=r"K=2:\quad T'=y_1/x_1\ (|x|<x_1),\quad T'=T_*'(x_1)\ (|x|>x_1)",
)
def three_switches(run: Run) -> Check:
    schedule, found = line.row(2)
    x, y, outside = knot()
    check = Check(parameters={"K": 2})
    exact = two_knots(x, y, outside)
    for name, wanted, measured in zip(NAMES, exact, (found.reverse, found.forward, found.tv), strict=True):
        check.row(
            name,
            predicted=wanted,
            measured=measured,
            relative=2e-4,
            because="knots from a table of the monitor with 2e4 points, and quadrature",
        )
    check.same("switches", predicted=3, measured=schedule.n_switches)
    rows = list(NAMES)
    check.rival("end slopes of one", dict(zip(rows, two_knots(x, y, 1.0), strict=True)))
    check.rival("end slopes of the target's components, 1/2", dict(zip(rows, two_knots(x, y, 0.5), strict=True)))
    middle = float(brentq(lambda t: beyond(t) - 0.25, 0, 4))
    base = math.exp(log_bell(float(ndtri(0.75))) - log_target(middle))
    quartiles = two_knots(float(ndtri(0.75)), middle, base)
    check.rival("knots at the quartiles of the base", dict(zip(rows, quartiles, strict=True)))
    kl, tv = plain_constants()
    check.rival("the law of many knots", {NAMES[0]: kl / 4, NAMES[1]: kl / 4, NAMES[2]: tv / 2})
    return check


def gaussian_in_the_plane() -> float:
    """KL of the three Gaussians to the normal law with their moments: their entropy, and that of the moments.

    Their covariance is 1/4 plus that of the centres (3/2, 0), (-3/4, 13/10), (-3/4, -13/10). Their entropy is an
    integral over the plane.
    """
    axis = np.linspace(-4.5, 4.5, 601)
    u, v = np.meshgrid(axis, axis, indexing="ij")
    centres = np.array([[1.5, 0.0], [-0.75, 1.3], [-0.75, -1.3]])
    parts = np.stack([-2 * ((u - a) ** 2 + (v - b) ** 2) for a, b in centres])
    log_p = np.logaddexp.reduce(parts) - math.log(3 * math.pi / 2)
    entropy = -float(np.sum(np.exp(log_p) * log_p)) * (axis[1] - axis[0]) ** 2
    spread = 0.25 + np.mean(centres**2, axis=0)
    return float(1 + math.log(2 * math.pi) + np.log(spread).sum() / 2 - entropy)


def _best_on_line(pieces: int, kind: str, run: Run) -> float:
    """The least entropy of three trainings: about one start in ten ends far from the others."""
    seeds = (run.seed, run.seed + 100, run.seed + 200)
    return min(float(trained(1, pieces, kind, steps(run), seed)[1].forward.value) for seed in seeds)


@PAPER.claim(
    "training-table",
    says="With three switches on the line training (the best of three starts) with the boundary term beats "
    "the construction, with seventeen the "
    "construction beats training. Training without the boundary term stalls at the moment-matched Gaussian on the line "
    "with four pieces too; in the plane it ends above training with that term.",
    basis=TRAINING,
    formula=r"\mathrm{KL}(\rho_*\|\rho_\theta)\ \text{by number of pieces, constructed and trained}",
)
def training_table(run: Run) -> Check:
    check = Check(
        note=f"In the plane the moment-matched Gaussian leaves {gaussian_in_the_plane():.3f}.",
        parameters={"steps": steps(run), "batch": 2000},
    )
    exact = two_knots(*knot())[1]
    few, stalled = (_best_on_line(4, kind, run) for kind in ("surrogate", "naive"))
    because = "entropies on the line are integrals, to 1e-6"
    row = "line, trained, 3 switches"
    check.at_most(row, bound=exact, measured=few, tolerance=1e-6, because=because)
    check.null("trained without the boundary term", {row: float(stalled)})
    row = "line, without the boundary term, 4 pieces"
    check.row(row, predicted=stall(), measured=stalled, tolerance=0.01, because="noise of the last steps of Adam")
    check.rival("it goes on to the construction with as many switches", {row: exact})
    row, built = "line, trained, 17 switches", float(line.row(16)[1].forward)
    found = _best_on_line(18, "surrogate", run)
    check.at_least(row, bound=built, measured=found, tolerance=1e-6, because=because)
    check.null("training gains on the construction as much as at 3 switches", {row: built * float(few) / exact})
    for pieces in (8,) if run.quick else (8, 16):
        naive, good = (trained(2, pieces, kind, steps(run), run.seed)[1].forward for kind in ("naive", "surrogate"))
        because = "the standard error of the samples"
        row = f"plane, what the boundary term gains, {pieces} pieces"
        check.at_least(
            row,
            bound=0.0,
            measured=naive.value - good.value,
            error=np.hypot(naive.error, good.error),
            because=because,
        )
    return check
