r"""Which matrix decides: $VB^\top$ first, V later. One run with matrices that are not symmetric pins the transposes."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from sphereflow.claims import Measurement, Run, agreement
from sphereflow.meanfield.zero_temperature import concentration
from sphereflow.papers.low_temperature_concentration import PAPER
from sphereflow.papers.low_temperature_concentration.particles import (
    FRAMES,
    TOKENS,
    equispaced,
    follow,
    follow_limit,
)

TRAP_V = np.array([[1.0, 0.4], [0.0, 0.5]])
TRAP_B = np.array([[0.6, 0.5], [0.0, 1.0]])
# Median angle in degrees, modulo 180, at t = 2, 4, ..., 16, for beta = 1000 with 1,500 equally spaced tokens.
MEDIANS = (32.33, 27.34, 25.29, 21.47, 9.26, 3.34, 1.19, 0.43)


def leading_angle(matrix: np.ndarray) -> float:
    """The direction of the leading eigenvector in degrees, modulo 180."""
    basis = concentration(matrix).basis[:, 0]
    return float(np.degrees(np.arctan2(basis[1], basis[0])) % 180)


def median_angle(angles: Float[np.ndarray, " n"]) -> float:
    """The median of angles modulo 180 degrees, in [0, 180)."""
    return float(np.median(np.degrees(angles) % 180))


@PAPER.claim(
    "which-matrix",
    statement="With scores x^T B y and values V, tokens gather on the leading eigenvector of V B^T, which differs from "
    "those of V B, B^T V, V^T B^T, B V^T and V.",
    source="Limit of the zero-temperature equation; one secondary source writes V^T B^T",
    formula=r"V=\begin{pmatrix}1&0.4\\0&0.5\end{pmatrix},\ B=\begin{pmatrix}0.6&0.5\\0&1\end{pmatrix}",
    falsifier="Any exchange of a matrix with its transpose.",
)
def which_matrix(run: Run) -> Measurement:
    v, b = TRAP_V, TRAP_B
    others = {"V B": v @ b, "B^T V": b.T @ v, "V^T B^T": v.T @ b.T, "B V^T": b @ v.T, "V": v}
    reached = follow_limit(v, b, equispaced(TOKENS), np.linspace(0, 33.0, FRAMES), 0.25)[-1]
    mine = concentration(v, b)
    wrap = lambda a: (a + 1) % 180 - 1  # noqa: E731  (179.99... and 0 are one direction)
    return agreement(
        [26.565, 26.565, 1.0, 0.3, 0.0, 59.04, 78.47, 38.66, 0.0],
        [
            median_angle(reached),
            leading_angle(v @ b.T),
            mine.eigenvalue,
            mine.next_eigenvalue,
            *[wrap(leading_angle(m)) for m in others.values()],
        ],
        absolute=[1e-3, 1e-3, 1e-12, 1e-12, 1e-2, 1e-2, 1e-2, 1e-2, 1e-2],
        because="printed digits, in degrees",
        labels=("reached at zero temperature", "V B^T", "first eigenvalue", "second eigenvalue", *others),
    )


@PAPER.claim(
    "three-phases-in-one-run",
    statement="At beta = 1000 the median token turns to the axis of V B^T, rests, and then turns to the axis of V.",
    source="Three phases: concentration, metastability, terminal phase",
    formula=r"26.57^\circ\ (VB^T)\ \longrightarrow\ 0^\circ\ (V)",
    falsifier="A run that ends at 26.57 degrees, or never comes near.",
)
def three_phases(run: Run) -> Measurement:
    # At t = 6 the clusters are thinner than the spacing that 600 tokens allow at this temperature.
    n, last = (TOKENS, 4.125) if run.quick else (1500, 16.5)
    times = np.linspace(0, last, FRAMES)
    angles = follow(1000.0, TRAP_V, TRAP_B, equispaced(n), times, 0.125)
    moments = [t for t in range(2, 17, 2) if t <= last]
    measured = [median_angle(angles[int(np.argmin(np.abs(times - t)))]) for t in moments]
    return agreement(
        list(MEDIANS[: len(moments)]),
        measured,
        absolute=0.1,
        because="a tenth of a degree",
        labels=tuple(f"t={t}" for t in moments),
        parameters={"n": n, "beta": 1000},
        note="The quick preset sees the first phase only." if run.quick else "",
    )
