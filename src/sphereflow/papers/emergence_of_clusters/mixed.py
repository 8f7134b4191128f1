r"""V = lambda on F, smaller on an invariant complement G: a polytope in F times anything in G.

$$x=\lim \pi_F z_i:\qquad x=0\ \text{ or }\ \|Ax\|^2=\max_j\langle Ax,Av_j\rangle,\qquad x, v_j\in F .$$

The metric is that of A restricted to F, because the leading part of the logits is
$e^{2\lambda t}\langle A\pi_F z_i, A\pi_F z_j\rangle$.
"""

from __future__ import annotations

import numpy as np

from sphereflow.claims import Check, Run, basis
from sphereflow.observables import polytope_residual
from sphereflow.papers.emergence_of_clusters import PAPER, reference_solver, sources
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
    says="With $V=\\mathrm{diag}(1,1,-1/2)$ the first two coordinates of 25 tokens obey the polytope identity in the "
    "limit: the residual is that of an independent solve and falls like $e^{-t}$.",
    basis=sources.MIXED,
    formula=r"\pi_F z_i\to \partial\mathcal K\cup\{0\}",
)
def mixed_product(run: Run) -> Check:
    times, check = (4.0, 8.0, 12.0), Check(parameters={"n": 25, "d": 3, "V": "diag(1, 1, -1/2)"})
    z = rescaled(start(25, 3, 5.0), (0.0, *times), value=VALUE)[1:]
    exact = reference_solver.solve(start(25, 3, 5.0), times, value=VALUE)
    found, known = ([residual_in_plane(frame, np.eye(2)) for frame in frames] for frames in (z, exact))
    names = [f"residual, t={t:g}" for t in times]
    check.series(names, predicted=known, measured=found, tolerance=1e-9, because="two solvers at 1e-11")
    because = "exp(-12) = 6e-6"
    check.row("residual in the end", predicted=0.0, measured=found[-1], tolerance=1e-5, because=because)
    row, rate = "rate, t=8 to 12", -np.log(found[2] / found[1]) / 4
    check.row(row, predicted=1.0, measured=rate, tolerance=0.02, because="further terms like exp(-2t) at t = 8")
    check.rival("the rate 1/2 of the third coordinate", {row: 0.5})
    check.rival("the rate 2 of the logits", {row: 2.0})
    whole = float(polytope_residual(z[-1]).max() / np.sum(z[-1] ** 2, axis=1).max())
    check.null("all three coordinates", {"residual in the end": whole})
    return check


@PAPER.claim(
    "mixed-spread",
    says="Along the negative eigenvalue $-1/2$ the rescaled tokens diverge like $e^{t/2}$, as in an independent "
    "solve: only F converges.",
    basis=basis.Derived("the equation of the third coordinate; growth bounds of the transcription allow it"),
    formula=r"\max_i z_{i,3}-\min_i z_{i,3}\sim e^{t/2}",
)
def mixed_spread(run: Run) -> Check:
    times, check = (4.0, 8.0, 12.0), Check(parameters={"n": 25, "d": 3, "V": "diag(1, 1, -1/2)"})
    found = np.ptp(rescaled(start(25, 3, 5.0), (0.0, *times), value=VALUE)[1:, :, 2], axis=1)
    exact = np.ptp(reference_solver.solve(start(25, 3, 5.0), times, value=VALUE)[:, :, 2], axis=1)
    names = [f"spread, t={t:g}" for t in times]
    check.series(names, predicted=exact, measured=found, relative=1e-7, because="two solvers at 1e-11")
    row, rate = "rate, t=8 to 12", np.log(found[2] / found[1]) / 4
    check.row(row, predicted=0.5, measured=rate, tolerance=0.01, because="what attention still adds at t = 8")
    check.rival("a coordinate that converges", {row: 0.0})
    check.rival("the rate 1 of the other coordinates", {row: 1.0})
    return check


def mixing_residuals(times: tuple[float, ...], form: np.ndarray) -> list[float]:
    z = rescaled(mixing_start(), (0.0, *times), value=VALUE, query=MIXING, key=MIXING)[1:]
    return [residual_in_plane(frame, form) for frame in z]


@PAPER.claim(
    "mixed-metric",
    says="If $A$ mixes F with its complement, the identity of the limits holds in the metric of $A$ restricted to F, "
    "up to $10^{-5}$ at $t=12$; in that of $A^2$ it does not.",
    basis=sources.MIXED,
    formula=r"\|Ax\|^2=\max_j\langle Ax,Av_j\rangle,\quad x,v_j\in F",
)
def mixed_metric(run: Run) -> Check:
    form, check = MIXING @ MIXING, Check(parameters={"n": 4, "d": 3, "t1": 12})
    row, because = "residual, t=12", "tokens approach their limits like exp(-t), and exp(-12) = 6e-6"
    found = mixing_residuals((12.0,), form[:2, :2])[0]
    check.row(row, predicted=0.0, measured=found, tolerance=1e-5, because=because)
    check.null("the metric of A squared", {row: mixing_residuals((12.0,), (form @ form)[:2, :2])[0]})
    check.null("the metric of the identity", {row: mixing_residuals((12.0,), np.eye(2))[0]})
    return check


@PAPER.claim(
    "mixed-metric-projected",
    says="When $A$ mixes F with its complement the identity fails in the metric of $\\pi_FA$: four tokens with "
    "$V=\\mathrm{diag}(1,1,-1/2)$ and an $A$ that couples the second coordinate with the third keep the residual "
    "that an independent solve gives, at $t=8$ and 12. It holds in the metric of $A$ restricted to F.",
    basis=basis.Theorem("t:multiplicity, form used in the proof", via=sources.LEAN),
    formula=r"\|\pi_F Ax\|^2 \ne \max_j\langle \pi_F Ax,\pi_F Av_j\rangle",
    prints="The limits satisfy the identity in the metric of $\\pi_FA$.",
)
def mixed_metric_projected(run: Run) -> Check:
    times, form = (8.0, 12.0), MIXING[:2, :2].T @ MIXING[:2, :2]
    exact = reference_solver.solve(mixing_start(), times, value=VALUE, query=MIXING, key=MIXING)
    check, names = Check(parameters={"n": 4, "d": 3}), [f"residual, t={t:g}" for t in times]
    known = [residual_in_plane(frame, form) for frame in exact]
    check.series(
        names, predicted=known, measured=mixing_residuals(times, form), tolerance=1e-6, because="two solvers at 1e-11"
    )
    check.printed(dict.fromkeys(names, 0.0))
    check.rival("a residual that falls like exp(-t)", {names[1]: known[0] * np.exp(-4)})
    return check
