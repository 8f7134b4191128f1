r"""Clusters as weighted atoms: who merges first, and how fast.

$$\dot x_i=P_{x_i}\frac{\sum_j\alpha_je^{\beta\langle x_i,x_j\rangle}x_j}
                    {\sum_k\alpha_ke^{\beta\langle x_i,x_k\rangle}}.$$
"""

from __future__ import annotations

import numpy as np

from sphereflow.claims import Measurement, Run, agreement, at_most
from sphereflow.papers.mathematical_perspective.paper import PAPER
from sphereflow.papers.mathematical_perspective.particles import Model, follow, gaps, speeds, velocities

# Three atoms on the circle at these angles, with these masses: the first two are the closest pair.
_ANGLES = np.array([0.0, 0.9, 2.6])
_MASSES = np.array([0.5, 0.2, 0.3])


def approach_speed(masses: np.ndarray, inner: np.ndarray, beta: float, i: int, j: int) -> float:
    r"""Leading term of $\frac{d}{dt}\langle x_i,x_j\rangle$ at large beta, r the inner product of the closest pair.

    $$e^{-\beta(1-r)}(1-r^2)(\alpha_j/\alpha_i+\alpha_i/\alpha_j).$$
    """
    r = inner[i, j]
    return float(np.exp(-beta * (1 - r)) * (1 - r**2) * (masses[j] / masses[i] + masses[i] / masses[j]))


def _atoms() -> np.ndarray:
    return np.stack([np.cos(_ANGLES), np.sin(_ANGLES)], axis=1)


@PAPER.claim(
    "closest-pair-speed",
    statement="The closest pair of atoms approaches at a speed proportional to exp(-beta(1-r)), r its inner product.",
    source="Survey, section on clusters as atoms",
    formula=r"\frac{d}{dt}\langle x_1,x_2\rangle\approx e^{-\beta(1-r)}(1-r^2)"
    r"\left(\frac{\alpha_2}{\alpha_1}+\frac{\alpha_1}{\alpha_2}\right)",
)
def closest_pair_speed(run: Run) -> Measurement:
    x, betas = _atoms(), (10.0, 20.0, 30.0)
    inner = x @ x.T
    predicted, measured, tolerance = [], [], []
    for beta in betas:
        moved = velocities("sa", beta, x, _MASSES)
        measured.append(moved[0] @ x[1] + x[0] @ moved[1])
        predicted.append(approach_speed(_MASSES, inner, beta, 0, 1))
        # Left out: the pair's own weight in the normaliser, and the pull of the third atom.
        neglected = np.exp(-beta * (1 - inner[0, 1])) + np.exp(-beta * (inner[0, 1] - inner[1, 2]))
        tolerance.append(3 * neglected * predicted[-1] + 1e-15)
    return agreement(
        predicted,
        measured,
        absolute=tolerance,
        because="terms left out are smaller by exp(-beta(1-r)) or exp(-beta(r-r')), r' the next inner product, times "
        "ratios of masses up to 2.5",
        labels=tuple(f"beta={beta:g}" for beta in betas),
    )


@PAPER.claim(
    "closest-pair-first",
    statement="The closest pair of atoms merges while the third has hardly moved.",
    source="Survey, section on clusters as atoms",
    formula=r"t_{\mathrm{merge}}\sim e^{\beta(1-r)}",
)
def closest_pair_first(run: Run) -> Measurement:
    beta, x = 20.0, _atoms()
    inner = x @ x.T
    scale = 1 / approach_speed(_MASSES, inner, beta, 0, 1)
    final = follow("sa", beta, x, np.array([2 * scale]), masses=_MASSES)[-1]
    merged, moved = gaps(final)[0], np.linalg.norm(final[2] - x[2])
    # The pair stays between its two starts, so nothing comes nearer to the third than the second is at the start.
    speed = (_MASSES[0] + _MASSES[1]) / _MASSES[2] * np.exp(-beta * (1 - inner[1, 2]))
    return at_most(
        [1e-3, 1.01 * 2 * scale * speed],
        np.array([merged, moved]),
        because="merged means a gap below 1e-3; the third moves at most at the speed of the others' weight at their "
        "nearest",
        labels=("gap of the closest pair", "distance moved by the third"),
    )


@PAPER.claim(
    "pair-dynamics",
    statement="Two tokens that start orthogonal and follow each other have inner product tanh(2s) after time s.",
    source="Survey, pair dynamics",
    formula=r"\dot y_1=P_{y_1}y_2,\ \dot y_2=P_{y_2}y_1\ \Rightarrow\ \langle y_1,y_2\rangle=\tanh(2s)",
)
def pair_dynamics(run: Run) -> Measurement:
    s = np.array([0.25, 0.5, 1.0, 2.0])
    models: tuple[Model, Model] = ("sa", "usa")
    # At beta = 0 each of two tokens feels half of the other: time runs at half speed.
    measured = [1 - gaps(follow(model, 0.0, np.eye(2), 2 * s))[:, 0] for model in models]
    return agreement(
        np.tile(np.tanh(2 * s), 2),
        np.concatenate(measured),
        absolute=1e-9,
        because="the particles are solved to 1e-10",
        labels=tuple(f"{model.upper()} s={value:g}" for model in models for value in s),
    )


@PAPER.claim(
    "opposite-atoms-stand-still",
    statement="Two thirds of the mass at a point and one third opposite do not move: clustering needs a density.",
    source="Survey, remark on exponential clustering of the mean field",
    formula=r"\tfrac23\delta_e+\tfrac13\delta_{-e}",
)
def opposite_atoms_stand_still(run: Run) -> Measurement:
    x, masses = np.array([[0.6, 0.8], [-0.6, -0.8]]), np.array([2 / 3, 1 / 3])
    cases: list[tuple[Model, float]] = [("sa", 0.1), ("sa", 2.0), ("usa", 0.1), ("usa", 2.0)]
    return at_most(
        0.0,
        np.array([speeds(model, beta, x, masses).max() for model, beta in cases]),
        slack=[1e-13 * np.exp(beta) for _, beta in cases],
        because="rounding, amplified by the kernel exp(beta)",
        labels=tuple(f"{model.upper()} beta={beta:g}" for model, beta in cases),
    )
