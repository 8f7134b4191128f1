r"""Clusters as weighted atoms: who merges first, and how fast.

$$\dot x_i=P_{x_i}\frac{\sum_j\alpha_je^{\beta\langle x_i,x_j\rangle}x_j}
                    {\sum_k\alpha_ke^{\beta\langle x_i,x_k\rangle}}.$$
"""

from __future__ import annotations

import numpy as np

from sphereflow.claims import Check, Run, basis
from sphereflow.papers.mathematical_perspective import sources
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


ATOMS = basis.Equation("clusters as weighted atoms", via=sources.SURVEY)


@PAPER.claim(
    "closest-pair-speed",
    says="The closest pair of three weighted atoms on the circle approaches at the leading speed for large $\\beta$ "
    "(10, 20, 30), proportional to $e^{-\\beta(1-r)}$ with $r$ its inner product.",
    basis=ATOMS,
    formula=r"\frac{d}{dt}\langle x_1,x_2\rangle\approx e^{-\beta(1-r)}(1-r^2)"
    r"\left(\frac{\alpha_2}{\alpha_1}+\frac{\alpha_1}{\alpha_2}\right)",
)
def closest_pair_speed(run: Run) -> Check:
    x, check = _atoms(), Check()
    inner = x @ x.T
    r = inner[0, 1]
    even, square = {}, {}
    for beta in (10.0, 20.0, 30.0):
        moved = velocities("sa", beta, x, _MASSES)
        predicted = approach_speed(_MASSES, inner, beta, 0, 1)
        # Left out: the pair's own weight in the normaliser, and the pull of the third atom.
        neglected = np.exp(-beta * (1 - r)) + np.exp(-beta * (r - inner[1, 2]))
        row = f"beta={beta:g}"
        check.row(
            row,
            predicted=predicted,
            measured=moved[0] @ x[1] + x[0] @ moved[1],
            tolerance=3 * neglected * predicted + 1e-15,
            because="terms left out are smaller by exp(-beta(1-r)) or exp(-beta(r-r')), r' the next inner product, "
            "times ratios of masses up to 2.5",
        )
        even[row] = 2 * np.exp(-beta * (1 - r)) * (1 - r**2)
        square[row] = predicted / (1 + r)
    check.rival("equal masses", even)
    check.rival("the factor 1 - r for 1 - r^2", square)
    return check


@PAPER.claim(
    "closest-pair-first",
    says="At $\\beta=20$ the closest pair of three atoms has merged while the third has moved by no more than the "
    "pull of the others allows; at $\\beta=2$ it has moved more.",
    basis=ATOMS,
    formula=r"t_{\mathrm{merge}}\sim e^{\beta(1-r)}",
)
def closest_pair_first(run: Run) -> Check:
    x, check = _atoms(), Check()
    inner = x @ x.T

    def outcome(beta: float) -> tuple[float, float]:
        last = 2 / approach_speed(_MASSES, inner, 20.0, 0, 1) if beta == 20.0 else 20.0
        final = follow("sa", beta, x, np.array([last]), masses=_MASSES)[-1]
        return float(gaps(final)[0]), float(np.linalg.norm(final[2] - x[2]))

    merged, moved = outcome(20.0)
    scale = 1 / approach_speed(_MASSES, inner, 20.0, 0, 1)
    # The pair stays between its two starts, so nothing comes nearer to the third than the second is at the start.
    speed = (_MASSES[0] + _MASSES[1]) / _MASSES[2] * np.exp(-20.0 * (1 - inner[1, 2]))
    because = "what is called merged"
    check.row("gap of the closest pair", predicted=0.0, measured=merged, tolerance=1e-3, because=because)
    row = "distance moved by the third"
    because = "the others' weight at their nearest, which moves by a hundredth"
    check.at_most(row, bound=2 * scale * speed, measured=moved, relative=0.01, because=because)
    check.null("three atoms at beta = 2", {row: outcome(2.0)[1]})
    return check


@PAPER.claim(
    "pair-dynamics",
    says="Two tokens that start orthogonal and follow each other have the inner product $\\tanh 2s$ after time $s$, "
    "under SA and USA at $\\beta=0$ on the clock $t=2s$.",
    basis=basis.Equation("pair dynamics", via=sources.SURVEY),
    formula=r"\dot y_1=P_{y_1}y_2,\ \dot y_2=P_{y_2}y_1\ \Rightarrow\ \langle y_1,y_2\rangle=\tanh(2s)",
)
def pair_dynamics(run: Run) -> Check:
    s, check = np.array([0.25, 0.5, 1.0, 2.0]), Check()
    models: tuple[Model, Model] = ("sa", "usa")
    for model in models:  # at beta = 0 each of two tokens feels half of the other: time runs at half speed
        found = 1 - gaps(follow(model, 0.0, np.eye(2), 2 * s))[:, 0]
        names = [f"{model.upper()}, s={value:g}" for value in s]
        check.series(names, predicted=np.tanh(2 * s), measured=found, tolerance=1e-9, because="solved to 1e-10")
    check.rival("one token moved", np.tile(np.tanh(s), 2))
    check.rival("exponential approach", np.tile(1 - np.exp(-2 * s), 2))
    return check


@PAPER.claim(
    "opposite-atoms-stand-still",
    says="Two thirds of the mass at a point and one third opposite do not move under SA and USA; displaced by 0.001 "
    "they do.",
    basis=basis.Theorem("thm: mfclust, remark", via=sources.SURVEY),
    formula=r"\tfrac23\delta_e+\tfrac13\delta_{-e}",
)
def opposite_atoms_stand_still(run: Run) -> Check:
    x, masses, check = np.array([[0.6, 0.8], [-0.6, -0.8]]), np.array([2 / 3, 1 / 3]), Check()
    turned = np.array([x[0], [-np.cos(np.arctan2(0.8, 0.6) + 1e-3), -np.sin(np.arctan2(0.8, 0.6) + 1e-3)]])
    cases: list[tuple[Model, float]] = [("sa", 0.1), ("sa", 2.0), ("usa", 0.1), ("usa", 2.0)]
    displaced = {}
    for model, beta in cases:
        row, slack = f"{model.upper()}, beta={beta:g}", 1e-13 * np.exp(beta)
        speed = speeds(model, beta, x, masses).max()
        check.at_most(row, bound=0.0, measured=speed, tolerance=slack, because="rounding, times the kernel exp(beta)")
        displaced[row] = float(speeds(model, beta, turned, masses).max())
    check.null("one atom displaced by 0.001", displaced)
    return check
