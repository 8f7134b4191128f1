r"""What pieces make exactly: affine maps, and the compressible part, the gradient of a convex function.

$$\Theta(x)=(T(x_1),x_2,\dots,x_d)=\nabla\psi(x),\qquad \psi(x)=\int^{x_1}T+\tfrac12\sum_{k\ge2}x_k^2 .$$
"""

from __future__ import annotations

import math

import numpy as np

from sphereflow.claims import Check, Run
from sphereflow.papers.diffeomorphism_pushforward import PAPER
from sphereflow.papers.diffeomorphism_pushforward.sources import GENERAL, OURS
from sphereflow.transport.euclidean.affine import affine_schedule, rotation
from sphereflow.transport.euclidean.monotone import piecewise_linear

DIMENSIONS = (2, 3, 5)
ANGLES = (0.3, -1.2, 2.5, math.pi - 5e-4)


def affine_errors(d: int, seed: int, maps: int) -> tuple[float, float]:
    """Largest errors of the map and of its log-determinant over random orientation-preserving affine maps."""
    rng = np.random.default_rng(seed + d)
    worst = [0.0, 0.0]
    for _ in range(maps):
        m, c, x = rng.standard_normal((d, d)), rng.standard_normal(d), rng.standard_normal((100, d))
        m[0] *= np.sign(np.linalg.det(m))
        y, log_det = affine_schedule(m, c).carry(x)
        worst[0] = max(worst[0], float(np.abs(y - x @ m.T - c).max()))
        worst[1] = max(worst[1], float(np.abs(log_det - np.linalg.slogdet(m)[1]).max()))
    return worst[0], worst[1]


def rotation_error(angle: float) -> float:
    x = np.random.default_rng(0).standard_normal((100, 2))
    turned = x[:, :1] * [math.cos(angle), math.sin(angle)] + x[:, 1:] * [-math.sin(angle), math.cos(angle)]
    return float(np.abs(rotation(0, 1, angle, 2).apply(x) - turned).max())


def one_sided_error(angle: float) -> float:
    """The same three shears, each on one side of its hyperplane only."""
    x = np.random.default_rng(0).standard_normal((100, 2))
    turned = x[:, :1] * [math.cos(angle), math.sin(angle)] + x[:, 1:] * [-math.sin(angle), math.cos(angle)]
    y, half = x.copy(), -math.tan(angle / 2)
    for axis, other, amount in ((0, 1, half), (1, 0, math.sin(angle)), (0, 1, half)):
        y[:, axis] += amount * np.maximum(y[:, other], 0)
    return float(np.abs(y - turned).max())


@PAPER.claim(
    "affine-exact",
    says="Every affine map that keeps orientation is made exactly, from three shears per rotation, two pieces per "
    "scaling and one translation; its log-determinant is that of the matrix.",
    basis=OURS,
    formula=r"x_i\mathrel{+}=-\tan\tfrac\vartheta2\,x_j,\quad x_j\mathrel{+}=\sin\vartheta\,x_i,\quad "
    r"x_i\mathrel{+}=-\tan\tfrac\vartheta2\,x_j",
)
def affine_exact(run: Run) -> Check:
    check = Check()
    because = "rounding over at most 161 pieces"
    for d in DIMENSIONS:
        moved, volume = affine_errors(d, run.seed, 5 if run.quick else 100)
        check.at_most(f"map, $d={d}$", bound=0.0, measured=moved, tolerance=1e-12, because=because)
        check.at_most(f"log-determinant, $d={d}$", bound=0.0, measured=volume, tolerance=1e-12, because=because)
    for angle in ANGLES:
        error = rotation_error(angle)
        check.at_most(f"rotation by {angle:.5g}", bound=0.0, measured=error, tolerance=1e-12, because=because)
    check.null(
        "shears on one side of their hyperplane", {f"rotation by {a:.5g}": one_sided_error(a) for a in ANGLES[:3]}
    )
    return check


@PAPER.claim(
    "compressible-exact",
    says="An increasing piecewise-linear map of the first coordinate, a gradient of a convex function, takes at "
    "most two pieces more than it has knots, and other coordinates are not touched.",
    basis=GENERAL,
    formula=r"\nabla\psi(x)=(T(x_1),x_2,\dots,x_d),\qquad\text{pieces}\le K+2",
)
def compressible_exact(run: Run) -> Check:
    rng = np.random.default_rng(run.seed)
    knots, slopes = np.sort(rng.uniform(-2, 2, 7)), np.exp(rng.uniform(-1, 1, 8))
    values = 0.3 + np.append(0.0, np.cumsum(slopes[1:-1] * np.diff(knots)))
    schedule = piecewise_linear(knots, values, float(slopes[0]), float(slopes[-1]), direction=np.eye(3)[0])
    x = 2 * rng.standard_normal((2000, 3))
    y, log_det = (np.asarray(part) for part in schedule.carry(x))
    beyond = values[0] + slopes[0] * np.minimum(x[:, 0] - knots[0], 0) + slopes[-1] * np.maximum(x[:, 0] - knots[-1], 0)
    wanted = np.interp(x[:, 0], knots, values) + beyond - values[0]
    cell = np.searchsorted(knots, x[:, 0])
    check = Check(parameters={"knots": 7, "d": 3})
    moved, volume = np.abs(y[:, 0] - wanted).max(), np.abs(log_det - np.log(slopes)[cell]).max()
    check.at_most("first coordinate", bound=0.0, measured=moved, tolerance=1e-12, because="rounding")
    check.same("other coordinates", predicted=0.0, measured=np.abs(y[:, 1:] - x[:, 1:]).max(), because="exact")
    check.at_most("log-determinant", bound=0.0, measured=volume, tolerance=1e-12, because="rounding")
    check.at_most("pieces", bound=9, measured=schedule.n_pieces, because="seven knots and two ends")
    check.rival("one piece more than knots", {"pieces": 8})
    image = np.abs(log_det - np.log(slopes)[np.searchsorted(values, x[:, 0])]).max()
    check.null("the log-determinant looked up at the image's cell", {"log-determinant": float(image)})
    return check
