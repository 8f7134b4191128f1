r"""Context: limits depend on the starts of all tokens, and in every dimension a few tokens lead.

$$\sum_j\frac{\partial c_i}{\partial x_j(0)}\,\dot x_j(0)=\lambda_1c_i,\qquad
  c_i=\lim_{t\to\infty}\varphi_1^*(z_i(t)) .$$
"""

from __future__ import annotations

import numpy as np
from scipy.spatial import ConvexHull
from scipy.special import softmax

from sphereflow.claims import Check, Run, basis
from sphereflow.evolution import context_dependence
from sphereflow.papers.emergence_of_clusters import PAPER, reference_solver
from sphereflow.papers.emergence_of_clusters.flow import PLANAR, attention, original, start

T1 = 12.0


@PAPER.claim(
    "limits-depend-on-the-context",
    says="The derivative of the limit of each of ten tokens in the plane with respect to all starts obeys the identity "
    "that follows from the flow not knowing the time, with limits of an independent solve, for a simple and a multiple "
    "leading eigenvalue; the part that belongs to a token's own start is far from it. At least half of the dependence "
    "is on the other tokens.",
    basis=basis.Abstract("the limiting objects depend on the initial tokens: context-aware"),
    formula=r"\sum_j\frac{\partial c_i}{\partial x_j(0)}\,\dot x_j(0)=\lambda_1c_i",
)
def limits_depend_on_the_context(run: Run) -> Check:
    check = Check(parameters={"n": 10, "d": 2, "t1": T1})
    own: dict[str, float] = {}
    linear: dict[str, float] = {}
    still: dict[str, float] = {}
    x0 = start(10, 2, 1.0)
    velocity = softmax(x0 @ x0.T, axis=1) @ x0
    for name, value in (("simple", PLANAR), ("multiple", np.eye(2))):
        found = context_dependence(x0, T1, V=value)
        rate, phi = float(np.linalg.eigvals(value).real.max()), found.limit.coordinates
        limits = reference_solver.solve(x0, [T1], value=value)[-1] @ phi.T
        moved = np.einsum("ikjb,jb->ik", found.jacobian, velocity @ value.T)
        alone = np.einsum("ikib,ib->ik", found.jacobian, velocity @ value.T)
        freely = np.einsum("ikjb,jb->ik", found.jacobian, x0 @ value.T)
        for i, k in np.ndindex(*limits.shape):
            row = f"{name}: token {i + 1}" + (f", coordinate {k + 1}" if len(phi) > 1 else "")
            because = "the limits are reached up to exp(-12) times distances and gradients of order one"
            check.row(row, predicted=rate * limits[i, k], measured=moved[i, k], tolerance=1e-4, because=because)
            own[row], linear[row] = float(alone[i, k]), float(freely[i, k])
            still[row] = float(rate * (x0 @ phi.T)[i, k])
        row = f"{name}: share of the others"
        check.at_least(row, bound=0.5, measured=found.share, tolerance=1e-4, because="as above")
    check.null("only the token's own start", own)
    check.null("starts moved as by x' = Vx", linear)
    check.rival("limits at the start", still)
    return check


@PAPER.claim(
    "leaders-in-the-plane",
    says="In the plane each of twelve tokens ends up attending to one leader, which attends to itself: three vertices "
    "of the limit polytope for $V=I$, two tokens for a simple leading eigenvalue; the leaders are those of an "
    "independent solve, and fewer than the vertices of the hull at the start.",
    basis=basis.Abstract("leaders appear"),
    formula=r"P_{i\cdot}(t)\to e_{j(i)}^\top,\qquad j(j(i))=j(i)",
)
def leaders_in_the_plane(run: Run) -> Check:
    check = Check(parameters={"n": 12, "d": 2, "t1": T1})
    x0 = start(12, 2, 1.0)
    first = np.argmax(x0 @ x0.T, axis=1)
    longest = np.argmax(np.linalg.norm(x0, axis=1))
    hull = len(ConvexHull(x0).vertices)
    corners, nearest, one = {}, {}, {}
    for name, value in (("V = I", np.eye(2)), ("simple", PLANAR)):
        rate = float(np.linalg.eigvals(value).real.max())
        x = original(x0, (0.0, T1), value=value)[-1]
        weights = attention(x)
        leader = np.argmax(weights, axis=1)
        exact = reference_solver.solve(x0, [T1], value=value)[-1]
        scaled = exact @ _growth(value, T1, rate).T
        wanted = np.argmax(scaled @ scaled.T, axis=1)
        count = f"{name}: leaders"
        check.same(count, predicted=len(set(wanted)), measured=len(set(leader)))
        check.same(
            f"{name}: leaders that follow themselves",
            predicted=len(set(wanted)),
            measured=len({j for j in leader if leader[j] == j}),
        )
        least = weights.max(axis=1).min()
        row, because = f"{name}: least weight of a leader", "attention is sharp"
        check.row(row, predicted=1.0, measured=least, tolerance=1e-9, because=because)
        for i in range(12):
            row = f"{name}: leader of token {i + 1}"
            check.same(row, predicted=wanted[i] + 1, measured=leader[i] + 1, because="an index")
            nearest[row], one[row] = float(first[i] + 1), float(longest + 1)
        corners[count] = float(hull)
    check.rival("every vertex of the hull at the start leads", corners)
    check.rival("a token follows whom it attends to most at the start", nearest)
    check.rival("the longest token leads", one)
    return check


def _growth(value: np.ndarray, t: float, rate: float) -> np.ndarray:
    """exp(t (V - rate)) from the eigenvectors of V."""
    rates, vectors = np.linalg.eig(value)
    return np.asarray(np.real((vectors * np.exp(t * (rates - rate))) @ np.linalg.inv(vectors)))
