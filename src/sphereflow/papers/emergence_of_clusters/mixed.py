r"""V = lambda on F, smaller on an invariant complement G: a polytope in F times anything in G.

$$x=\lim \pi_F z_i:\qquad x=0\ \text{ or }\ \|Ax\|^2=\max_j\langle Ax,Av_j\rangle,\qquad x, v_j\in F .$$

The metric is that of A restricted to F, because the leading part of the logits is
$e^{2\lambda t}\langle A\pi_F z_i, A\pi_F z_j\rangle$.
"""

from __future__ import annotations

import numpy as np

from sphereflow.claims import Measurement, Run, agreement, at_most
from sphereflow.observables import polytope_residual
from sphereflow.papers.emergence_of_clusters import PAPER
from sphereflow.papers.emergence_of_clusters.flow import rescaled, start

VALUE = np.diag([1.0, 1.0, -0.5])
# A matrix that mixes F (the first two coordinates) with G (the third).
MIXING = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 3.0], [0.0, 3.0, 10.0]])


def mixing_start() -> np.ndarray:
    corners = 1.5 * np.array([[0.2, 1.0], [3.0, 0.6]])
    return np.column_stack([np.concatenate([corners, -corners]), [0.1, -0.2, 0.3, 0.05]])


def residual_in_plane(z: np.ndarray, form: np.ndarray) -> float:
    """Residual of the limit identity of the first two coordinates, relative to the largest squared norm."""
    plane = z[:, :2]
    return float(polytope_residual(plane, form).max() / np.einsum("ik,kl,il->i", plane, form, plane).max())


@PAPER.claim(
    "mixed-product",
    statement="With V = diag(1, 1, -1/2) the first two coordinates obey the polytope identity in the limit.",
    source="Theorem on paranormal V: product structure",
    formula=r"\pi_F z_i\to \partial\mathcal K\cup\{0\}",
    falsifier="a residual in F that stops falling like exp(-t)",
)
def mixed_product(run: Run) -> Measurement:
    z = rescaled(start(25, 3, 5.0), (0.0, 4.0, 8.0, 12.0), value=VALUE)
    residuals = [residual_in_plane(frame, np.eye(2)) for frame in z[1:]]
    return agreement(
        [0.0188, 3.6e-4, 6.5e-6],
        residuals,
        absolute=[5e-5, 5e-6, 5e-8],
        because="reference residuals, printed with two or three digits",
        labels=("t = 4", "t = 8", "t = 12"),
        parameters={"n": 25, "d": 3, "V": "diag(1, 1, -1/2)"},
    )


@PAPER.claim(
    "mixed-spread",
    statement="Along a negative eigenvalue the rescaled tokens diverge: only F converges.",
    source="Growth bounds outside F",
    formula=r"\max_i z_{i,3}-\min_i z_{i,3}\sim e^{t/2}",
    falsifier="a third coordinate that converges",
)
def mixed_spread(run: Run) -> Measurement:
    z = rescaled(start(25, 3, 5.0), (0.0, 4.0, 8.0, 12.0), value=VALUE)
    spread = np.ptp(z[1:, :, 2], axis=1)
    return agreement(
        [76.6, 625, 4679],
        spread,
        absolute=[0.05, 0.5, 0.5],
        because="reference spreads, printed with three or four digits",
        labels=("t = 4", "t = 8", "t = 12"),
        parameters={"n": 25, "d": 3, "V": "diag(1, 1, -1/2)"},
    )


@PAPER.claim(
    "mixed-metric",
    statement="If A mixes F with its complement, the identity of the limits holds in the metric of A restricted to F.",
    source="Theorem on paranormal V: metric of the limit identity",
    formula=r"\|Ax\|^2=\max_j\langle Ax,Av_j\rangle,\quad x,v_j\in F",
    falsifier="a residual that does not fall like exp(-t)",
)
def mixed_metric(run: Run) -> Measurement:
    z = rescaled(mixing_start(), (0.0, 12.0), value=VALUE, query=MIXING, key=MIXING)[-1]
    return at_most(
        0.0,
        residual_in_plane(z, (MIXING @ MIXING)[:2, :2]),
        slack=1e-5,
        because="tokens approach their limits like exp(-t), and exp(-12) = 6e-6",
        parameters={"n": 4, "d": 3, "t1": 12},
    )


@PAPER.claim(
    "mixed-metric-projected",
    statement="The same identity in the metric of pi_F A, as in the proof: false when A mixes F with its complement.",
    source="Theorem on paranormal V: form used in the proof",
    formula=r"\|\pi_F Ax\|^2 \ne \max_j\langle \pi_F Ax,\pi_F Av_j\rangle",
    falsifier="a residual in the metric of pi_F A that tends to zero",
)
def mixed_metric_projected(run: Run) -> Measurement:
    z = rescaled(mixing_start(), (0.0, 4.0, 8.0, 12.0), value=VALUE, query=MIXING, key=MIXING)[1:]
    form = MIXING[:2, :2].T @ MIXING[:2, :2]
    return agreement(
        [0.0171, 0.0171],
        [residual_in_plane(frame, form) for frame in z[1:]],
        absolute=5e-5 + 3e-4 * np.array([1.0, 0.02]),
        printed=[0.0, 0.0],
        because="the reference residual is printed with three digits; what is left of exp(-t) at t = 8 and 12 is 3e-4 "
        "and 6e-6",
        labels=("t = 8", "t = 12"),
        note="Counterexample: V = diag(1, 1, -1/2), four tokens, and a matrix A that couples the second coordinate "
        "with the third.",
        parameters={"n": 4, "d": 3},
    )
