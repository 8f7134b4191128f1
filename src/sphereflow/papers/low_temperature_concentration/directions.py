r"""Which matrix decides: $VB^\top$ first, V later. Matrices that are not symmetric pin the transposes."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from sphereflow.claims import Check, Run
from sphereflow.papers.low_temperature_concentration import PAPER
from sphereflow.papers.low_temperature_concentration.particles import (
    FRAMES,
    TOKENS,
    equispaced,
    follow,
    follow_limit,
)
from sphereflow.papers.low_temperature_concentration.sources import CONCENTRATION, TERMINAL

TRAP_V = np.array([[1.0, 0.4], [0.0, 0.5]])
TRAP_B = np.array([[0.6, 0.5], [0.0, 1.0]])
V, B = TRAP_V, TRAP_B
OTHERS = {"$VB$": V @ B, r"$B^\top V$": B.T @ V, r"$V^\top B^\top$": V.T @ B.T, r"$BV^\top$": B @ V.T, "$V$": V}


def leading_angle(matrix: np.ndarray) -> float:
    """The direction of the leading eigenvector in degrees, in [-1, 179), so that 179.99 and 0 are one direction."""
    values, vectors = np.linalg.eig(matrix)
    x = vectors[:, int(np.argmax(values.real))].real
    return float((np.degrees(np.arctan2(x[1], x[0])) + 1) % 180 - 1)


def median_angle(angles: Float[np.ndarray, " n"]) -> float:
    """The median of angles modulo 180 degrees, in [-1, 179)."""
    return float(np.median((np.degrees(angles) + 1) % 180 - 1))


@PAPER.claim(
    "which-matrix",
    says=r"With scores $x^\top By$ and values $V$, tokens at zero temperature gather on the leading eigenvector of "
    r"$VB^\top$, which differs from those of $VB$, $B^\top V$, $V^\top B^\top$, $BV^\top$ and $V$.",
    basis=CONCENTRATION,
    formula=r"V=\begin{pmatrix}1&0.4\\0&0.5\end{pmatrix},\ B=\begin{pmatrix}0.6&0.5\\0&1\end{pmatrix}",
)
def which_matrix(run: Run) -> Check:
    reached = follow_limit(V, B, equispaced(TOKENS), np.linspace(0, 33.0, FRAMES))[-1]
    check = Check(parameters={"n": TOKENS, "t": 33})
    check.row(
        "median direction in degrees",
        predicted=leading_angle(V @ B.T),
        measured=median_angle(reached),
        tolerance=1e-3,
        because="what is left after t = 33",
    )
    for name, matrix in OTHERS.items():
        check.rival(name, leading_angle(matrix))
    return check


@PAPER.claim(
    "first-and-last-axis",
    says=r"The median token first turns to the axis of $VB^\top$ as at zero temperature ($\beta=1000$, $t\le4$), "
    r"and at a finite temperature ($\beta=30$) it ends on the axis of $V$.",
    basis=TERMINAL,
    formula=r"26.57^\circ\ (VB^\top)\ \longrightarrow\ 0^\circ\ (V)",
)
def three_phases(run: Run) -> Check:
    times = np.linspace(0, 4.125, FRAMES)
    angles, limit = (
        follow(1000.0, V, B, equispaced(TOKENS), times, 0.125),
        follow_limit(V, B, equispaced(TOKENS), times),
    )
    check = Check(parameters={"n": TOKENS, "beta": "1000, then 30"})
    early = []
    for t in (2.0, 4.0):
        i = int(np.argmin(np.abs(times - t)))
        early.append(f"median in degrees at $t={t:g}$")
        check.row(
            early[-1],
            predicted=median_angle(limit[i]),
            measured=median_angle(angles[i]),
            tolerance=0.5,
            because="the correction of order 1/beta, grown by e^(ct)",
        )
    grid = 0.25 * np.arange(FRAMES)
    late = follow(30.0, V, B, follow(30.0, V, B, equispaced(TOKENS), grid, 0.25)[-1], grid, 0.25)[-1]
    end = "median in degrees at $t=33$"
    because = "what is left after t = 33 of a decay at the rate 0.5"
    check.row(end, predicted=leading_angle(V), measured=median_angle(late), tolerance=0.01, because=because)
    check.rival(r"the axis of $VB^\top$ for ever", {end: leading_angle(V @ B.T)})
    check.rival(r"the axis of $V^\top$", {end: leading_angle(V.T)})
    transposed = follow_limit(V, B.T, equispaced(TOKENS), times)
    at = [int(np.argmin(np.abs(times - t))) for t in (2.0, 4.0)]
    check.rival(
        "$B$ and its transpose exchanged", dict(zip(early, [median_angle(transposed[i]) for i in at], strict=True))
    )
    return check
