r"""One direction at a time: what rearranging a marginal wins, exactly, and how far it leads in the plane.

$$\mathrm{KL}(\rho\|N(0,I))-\mathrm{KL}(G_\#\rho\|N(0,I))=\mathrm{KL}(\rho_u\|N(0,1)).$$
"""

from __future__ import annotations

from functools import cache

import numpy as np
from scipy.integrate import quad

from sphereflow.claims import Check, Run, basis
from sphereflow.papers.transport_relative_entropy import PAPER
from sphereflow.transport.euclidean.divergences import Divergences, divergences
from sphereflow.transport.euclidean.gaussianisation import gaussianise
from sphereflow.transport.euclidean.laws import gaussian
from sphereflow.transport.euclidean.line import gauss_legendre, kinks, line_divergences
from sphereflow.transport.euclidean.monotone import Rearrangement
from sphereflow.transport.euclidean.named_laws import three_modes
from sphereflow.transport.euclidean.schedule import Schedule

DIRECTIONS = {"e1": (1.0, 0.0), "e2": (0.0, 1.0), "45 degrees": (0.5**0.5, 0.5**0.5)}
FRAMES = ((1, 8), (2, 8), (4, 8), (8, 8), (16, 16))  # frames and knots
SLICED = basis.Extension("one direction at a time, which needs no cells and works in any dimension")


def marginal_entropy(u: np.ndarray) -> float:
    """KL(rho_u||N(0, 1)) by adaptive quadrature."""
    law, normal = three_modes().marginal(u), gaussian(1)

    def integrand(t: float) -> float:
        point = np.array([[t]])
        log = law.log_density(point)[0]
        return float(np.exp(log) * (log - normal.log_density(point)[0]))

    return quad(integrand, -9, 9, limit=200, epsabs=1e-11, epsrel=1e-11, points=(-2, -1, 0, 1, 2))[0]


def drop(u: np.ndarray, schedule: Schedule | None = None) -> float:
    """What rearranging direction u wins, by tensor quadrature in the axes (u, v); with T exact, or piecewise linear."""
    law, bell = three_modes(), gaussian(2)
    line = law.marginal(u)
    corners = np.zeros(0) if schedule is None else kinks(schedule)
    edges = np.unique(np.concatenate([np.linspace(-7, 7, 61), corners]))
    (s, first), (t, second) = gauss_legendre(edges), gauss_legendre(np.linspace(-7, 7, 21))
    v = np.array([-u[1], u[0]])
    x = s[:, None, None] * u + t[None, :, None] * v
    if schedule is None:
        to_bell = Rearrangement(line, gaussian(1))
        image = to_bell.forward(s)
        log_slope = to_bell.log_slope(s, image)
    else:
        moved, log_det = schedule.carry(s[:, None])
        image, log_slope = np.asarray(moved)[:, 0], np.asarray(log_det)
    y = image[:, None, None] * u + t[None, :, None] * v
    density = np.exp(law.log_density(x))
    gained = bell.log_density(y) + log_slope[:, None] - bell.log_density(x)
    return float(first @ (density * gained) @ second)


@PAPER.claim(
    "slice-identity",
    says="Rearranging one marginal to $N(0,1)$ lowers the relative entropy to $N(0,I)$ by exactly the relative entropy "
    "of that marginal.",
    basis=SLICED,
    formula=r"\mathrm{KL}(\rho\|N)-\mathrm{KL}(G_\#\rho\|N)=\mathrm{KL}(\rho_u\|N(0,1))",
)
def slice_identity(run: Run) -> Check:
    check = Check()
    whole, slopeless = {}, {}
    for name, unit in DIRECTIONS.items():
        u = np.array(unit)
        check.row(
            name,
            predicted=marginal_entropy(u),
            measured=drop(u),
            tolerance=1e-8,
            because="tensor quadrature on 60 x 20 cells",
        )
        to_bell = Rearrangement(three_modes().marginal(u), gaussian(1))
        s, weight = gauss_legendre(np.linspace(-7, 7, 61))
        density = np.exp(three_modes().marginal(u).log_density(s[:, None]))
        log_slope = to_bell.log_slope(s, to_bell.forward(s))
        slopeless[name] = marginal_entropy(u) - float(weight @ (density * log_slope))
        v = np.array([-unit[1], unit[0]])
        whole[name] = marginal_entropy(v)
    check.rival(
        "the entropy of the other direction", {name: value for name, value in whole.items() if name != "45 degrees"}
    )
    check.rival("the slope of the map forgotten", slopeless)
    return check


@PAPER.claim(
    "slice-pieces",
    says="With a piecewise-linear rearrangement the gain is less by the relative entropy that is left in the marginal.",
    basis=SLICED,
    formula=r"\mathrm{KL}(\rho_u\|N(0,1))-\mathrm{KL}(T_\#\rho_u\|N(0,1))",
)
def slice_pieces(run: Run) -> Check:
    u = np.array([1.0, 0.0])
    line = three_modes().marginal(u)
    to_bell, whole = Rearrangement(line, gaussian(1)), marginal_entropy(u)
    check = Check()
    for knots in (4, 8, 16):
        schedule = to_bell.schedule(knots)
        check.row(
            f"$K={knots}$",
            predicted=whole - line_divergences(schedule, line, gaussian(1)).reverse,
            measured=drop(u, schedule),
            tolerance=1e-8,
            because="quadrature on the cells of the map",
        )
    check.rival("a gain that does not notice the knots", whole)
    return check


@cache
def row(frames: int, knots: int, seed: int) -> tuple[Schedule, Divergences]:
    found = gaussianise(three_modes().sample(40_000, 1000 + seed), frames=frames, knots=knots)
    return found.schedule, divergences(found.schedule, gaussian(2), three_modes(), seed=seed)


@PAPER.claim(
    "gaussianisation",
    says="On three modes in the plane every doubling of the number of frames of two directions, chosen greedily among "
    "twelve rotations, takes away at least a quarter of the relative entropy, on samples that were not used for the "
    "fit.",
    basis=SLICED,
    formula=r"\mathrm{KL}(\rho_*\|\rho_\theta)",
)
def gaussianisation(run: Run) -> Check:
    keys = [key for key in FRAMES if not run.quick or key[1] == 8]
    found = [row(*key, run.seed)[1].forward for key in keys]
    check = Check(parameters={"switches": [row(*key, run.seed)[0].n_switches for key in keys], "samples": 40_000})
    for (frames, knots), before, after in zip(keys[1:], found[:-1], found[1:], strict=True):
        # 0.75 before - after is a difference of means of 40,000 samples each.
        check.at_least(
            f"won by {frames} frames with {knots} knots",
            bound=0.0,
            measured=0.75 * before.value - after.value,
            error=np.hypot(0.75 * before.error, after.error),
            because="standard errors of both",
        )
    start = divergences(Schedule.empty(2), gaussian(2), three_modes(), seed=run.seed).forward
    check.at_most(
        "left by one frame",
        bound=0.6 * start.value,
        measured=found[0].value,
        error=found[0].error,
        because="standard error",
    )
    turned = {row.name: float(-0.25 * before.value) for row, before in zip(check.rows[:-1], found[:-1], strict=True)}
    check.null("the same frame again, which wins nothing", turned)
    return check
