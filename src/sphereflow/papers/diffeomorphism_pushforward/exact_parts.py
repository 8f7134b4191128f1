r"""What pieces make exactly: affine maps, and the compressible part, the gradient of a convex function.

$$\Theta(x)=(T(x_1),x_2,\dots,x_d)=\nabla\psi(x),\qquad \psi(x)=\int^{x_1}T+\tfrac12\sum_{k\ge2}x_k^2 .$$
"""

from __future__ import annotations

import math

import numpy as np

from sphereflow.claims import Measurement, Run, at_most
from sphereflow.papers.diffeomorphism_pushforward import PAPER
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


@PAPER.claim(
    "affine-exact",
    statement="Every affine map that keeps orientation is made exactly, from three shears per rotation, two pieces per "
    "scaling and one translation; its log-determinant is that of the matrix.",
    source="Affine maps",
    formula=r"x_i\mathrel{+}=-\tan\tfrac\vartheta2\,x_j,\quad x_j\mathrel{+}=\sin\vartheta\,x_i,\quad "
    r"x_i\mathrel{+}=-\tan\tfrac\vartheta2\,x_j",
    falsifier="a shear that acts on one side of its hyperplane only; a tangent that grows near half a turn",
)
def affine_exact(run: Run) -> Measurement:
    found = np.array([affine_errors(d, run.seed, 5 if run.quick else 100) for d in DIMENSIONS]).T
    turned = [rotation_error(angle) for angle in ANGLES]
    return at_most(
        1e-12,
        np.concatenate([found.ravel(), turned]),
        because="rounding over at most 161 pieces",
        labels=(
            *[f"{name}, d={d}" for name in ("map", "log-determinant") for d in DIMENSIONS],
            *[f"rotation by {angle:.5g}" for angle in ANGLES],
        ),
    )


@PAPER.claim(
    "compressible-exact",
    statement="An increasing piecewise-linear map of the first coordinate, a gradient of a convex function, takes at "
    "most two pieces more than it has knots, and other coordinates are not touched.",
    source="The compressible part",
    formula=r"\nabla\psi(x)=(T(x_1),x_2,\dots,x_d),\qquad\text{pieces}\le K+2",
    falsifier="any motion of the other coordinates; more pieces",
)
def compressible_exact(run: Run) -> Measurement:
    rng = np.random.default_rng(run.seed)
    knots, slopes = np.sort(rng.uniform(-2, 2, 7)), np.exp(rng.uniform(-1, 1, 8))
    values = 0.3 + np.append(0.0, np.cumsum(slopes[1:-1] * np.diff(knots)))
    schedule = piecewise_linear(knots, values, float(slopes[0]), float(slopes[-1]), direction=np.eye(3)[0])
    x = 2 * rng.standard_normal((2000, 3))
    y, log_det = (np.asarray(part) for part in schedule.carry(x))
    beyond = values[0] + slopes[0] * np.minimum(x[:, 0] - knots[0], 0) + slopes[-1] * np.maximum(x[:, 0] - knots[-1], 0)
    wanted = np.interp(x[:, 0], knots, values) + beyond - values[0]
    cell = np.searchsorted(knots, x[:, 0])
    return at_most(
        [1e-12, 0.0, 1e-12, 9],
        [
            np.abs(y[:, 0] - wanted).max(),
            np.abs(y[:, 1:] - x[:, 1:]).max(),
            np.abs(log_det - np.log(slopes)[cell]).max(),
            schedule.n_pieces,
        ],
        because="rounding; seven knots and two ends",
        labels=("first coordinate", "other coordinates", "log-determinant", "pieces"),
    )
