r"""V = I: tokens converge to points of a polytope.

$$\dot z_i = \sum_j P_{ij}(z_j-z_i),\quad P_{ij}=\mathrm{softmax}_j\, e^{2t}\langle Az_i,Az_j\rangle;\qquad
  x=\lim z_i:\quad x=0\ \text{ or }\ \|Ax\|^2=\max_j\langle Ax,Av_j\rangle .$$
"""

from __future__ import annotations

import numpy as np
import scipy.integrate

from sphereflow.claims import Check, Run, basis
from sphereflow.evolution import hardmax_flow
from sphereflow.observables import hull_volume, polytope_residual, support_function
from sphereflow.papers.emergence_of_clusters import PAPER, reference_solver, sources
from sphereflow.papers.emergence_of_clusters.flow import attention, cross_polytope, original, rescaled, start

AREA_TIMES = (0.5, 1.0, 2.0, 4.0, 8.0, 14.0)
SIZES = (1.0, 5.0)


@PAPER.claim(
    "hull-shrinks",
    says="With $V=I$ the convex hull of twelve rescaled tokens never grows between saved times, in 256 directions, "
    "also when $Q^\\top K$ is indefinite.",
    basis=sources.IDENTITY,
    formula=r"h_t(u)=\max_i\langle u,z_i(t)\rangle \text{ is non-increasing in } t \text{ for every direction } u",
)
def hull_shrinks(run: Run) -> Check:
    angle = np.linspace(0, 2 * np.pi, 256, endpoint=False)
    directions = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    check, opposite = Check(parameters={"n": 12, "d": 2, "directions": 256, "t1": 6}), {}
    for name, form in (("identity", np.eye(2)), ("indefinite", np.array([[1.0, 0.7], [-0.4, -0.8]]))):
        z = rescaled(start(12, 2, 1.0), np.linspace(0, 6, 65), query=form)
        steps = np.diff(support_function(z, directions), axis=0)
        row, because = f"largest growth, {name}", "100 times the tolerance of the solver"
        check.at_most(row, bound=0.0, measured=steps.max(), tolerance=1e-9, because=because)
        x = original(start(12, 2, 1.0), np.linspace(0, 1, 65), query=form)
        opposite[row] = float(np.diff(support_function(x, directions), axis=0).max())
    check.null("tokens that are not rescaled", opposite)
    return check


def _residual(z: np.ndarray, form: np.ndarray | None = None) -> float:
    """The residual of the limit identity, relative to the largest squared norm."""
    norms = np.einsum("ik,kl,il->i", z, np.eye(z.shape[1]) if form is None else form, z)
    return float(polytope_residual(z, form).max() / norms.max())


@PAPER.claim(
    "polytope-identity",
    says="With $V=I$ tokens satisfy $\\|Ax\\|^2=\\max_j\\langle Ax,Av_j\\rangle$ at $t=14$ up to $10^{-5}$: twelve "
    "of two sizes with $A=I$, and four with $A=\\mathrm{diag}(1,\\sqrt{10})$, for which it is false in the metric of "
    "the identity.",
    basis=sources.IDENTITY,
    formula=r"x=\lim z_i:\quad x=0\ \text{or}\ \|Ax\|^2=\max_j\langle Ax,Av_j\rangle",
)
def polytope_identity(run: Run) -> Check:
    corners = np.array([[0.3, 1.5], [4.5, 0.9]])
    check, early, plain = Check(parameters={"d": 2, "t1": 14}), {}, {}
    cases = {
        "twelve tokens, size 1": (start(12, 2, 1.0), None),
        "twelve tokens, size 5": (start(12, 2, 5.0), None),
        "four tokens, A = diag(1, sqrt(10))": (np.concatenate([corners, -corners]), np.diag([1.0, np.sqrt(10)])),
    }
    for name, (x0, a) in cases.items():
        z = rescaled(x0, (0.0, 8.0, 14.0), query=a, key=a)
        form = None if a is None else a @ a
        because = "tokens approach their limits like exp(-t), and exp(-14) = 8e-7"
        check.row(name, predicted=0.0, measured=_residual(z[-1], form), tolerance=1e-5, because=because)
        early[name] = _residual(z[1], form)
        if a is not None:
            plain[name] = _residual(z[-1])
    check.null("the same tokens at t = 8", early)
    check.null("the metric of the identity in place of A", plain)
    return check


@PAPER.claim(
    "one-hot-rows",
    says="With $V=I$ every row of the attention matrix of twelve generic tokens is one-hot at $t=14$, for two sizes "
    "of the start.",
    basis=sources.IDENTITY,
    formula=r"P_{i\cdot}(t)\to e_{j(i)}^\top",
)
def one_hot_rows(run: Run) -> Check:
    check, flat = Check(parameters={"n": 12, "d": 2, "t1": 14}), {}
    for size in SIZES:
        z = rescaled(start(12, 2, size), (0.0, 14.0))[-1]
        row = f"largest share outside the leader, size {size:g}"
        outside, without = (float(1 - attention(factor * z).max(axis=1).min()) for factor in (np.exp(14), 1.0))
        because = "logits differ by exp(28) times the gap between inner products, and no token ends where gaps vanish"
        check.row(row, predicted=0.0, measured=outside, tolerance=1e-9, because=because)
        flat[row] = without
    check.null("logits without exp(tV)", flat)
    return check


@PAPER.claim(
    "hull-areas",
    says="The area of the hull of twelve tokens decreases to that of the limit polytope through the values of an "
    "independent solve, at six times up to 14 and for two sizes of the start.",
    basis=sources.IDENTITY,
    formula=r"\mathrm{conv}\{z_i(t)\}\downarrow\mathcal K",
)
def hull_areas(run: Run) -> Check:
    check = Check(parameters={"n": 12, "d": 2, "t1": 14})
    still: dict[str, float] = {}
    flat: dict[str, float] = {}
    for size in SIZES:
        x0 = start(12, 2, size)
        rows = [f"size {size:g}, t={t:g}" for t in AREA_TIMES]
        check.series(
            rows,
            predicted=[hull_volume(z) for z in reference_solver.solve(x0, AREA_TIMES)],
            measured=[hull_volume(z) for z in rescaled(x0, (0.0, *AREA_TIMES))[1:]],
            tolerance=1e-8 * size**2,
            because="two solvers at 1e-11",
        )
        still.update(dict.fromkeys(rows, hull_volume(x0)))
        if size == 1:
            other = reference_solver.solve(x0, AREA_TIMES, growth=False)
            flat.update(zip(rows, [hull_volume(z) for z in other], strict=True))
    check.rival("a hull that does not move", still)
    check.rival("logits of z in place of exp(tV) z", flat)
    return check


@PAPER.claim(
    "limits-exactly",
    says="Once attention is hardmax ($t=10$) the flow is solved exactly: the distinct limits are those that an "
    "independent solve has nearly reached at $t=14$, and satisfy the identity of the theorem to rounding.",
    basis=sources.IDENTITY,
    formula=r"\dot z_i = z_{j(i)}-z_i,\quad j(i)=\operatorname{arg\,max}_j\langle z_i,z_j\rangle",
)
def limits_exactly(run: Run) -> Check:
    check, corners = Check(parameters={"n": 12, "d": 2, "switch to hardmax at": 10}), {}
    for size in SIZES:
        x0 = start(12, 2, size)
        limits = hardmax_flow(rescaled(x0, (0.0, 10.0))[-1], 10.0).z
        exact = reference_solver.solve(x0, [14.0])[-1]
        count, wanted = (len(np.unique((points / size).round(4), axis=0)) for points in (limits, exact))
        check.same(f"number of limits, size {size:g}", predicted=wanted, measured=count)
        row = f"distance of the limits from the tokens at t=14, size {size:g}"
        because = "tokens approach their limits like exp(-t), and exp(-14) = 8e-7"
        gap = np.abs(limits - exact).max()
        check.row(row, predicted=0.0, measured=gap, tolerance=1e-5 * size, because=because)
        identity = f"identity, size {size:g}"
        check.row(identity, predicted=0.0, measured=_residual(limits), tolerance=1e-13, because="rounding")
        leaders = np.argmax(limits @ limits.T, axis=1)
        corners[row] = float(np.abs(x0[leaders] - exact).max())
    check.null("limits at the places where the leaders started", corners)
    return check


def cross_polytope_radius(d: int, t1: float, own: float = 1.0) -> float:
    """r(t1) from r(0) = 1 by the scalar equation r' = r (g(e^t r) - 1), solved by SciPy; a token counts `own` times."""

    def rate(t: float, r: np.ndarray) -> np.ndarray:
        square = (np.exp(t) * r) ** 2
        top, bottom = own - np.exp(-2 * square), own + np.exp(-2 * square) + (2 * d - 2) * np.exp(-square)
        return r * (top / bottom - 1)

    return float(scipy.integrate.solve_ivp(rate, (0, t1), [1.0], method="DOP853", rtol=1e-13, atol=1e-14).y[0, -1])


@PAPER.claim(
    "cross-polytope",
    says="Tokens at $\\pm r e_k$ keep their shape in dimensions 1, 2 and 3, and $r(2)$ is that of one scalar equation.",
    basis=basis.Derived("the symmetry of the cross-polytope, V = Q = K = I"),
    formula=r"\dot u=u\,\frac{e^{u^2}-e^{-u^2}}{e^{u^2}+e^{-u^2}+2d-2},\qquad u=e^t r",
)
def cross_polytope_solution(run: Run) -> Check:
    check, twice, other = Check(parameters={"t1": 2}), {}, {}
    for d in (1, 2, 3):
        z, exact = rescaled(cross_polytope(d), (0.0, 2.0))[-1], cross_polytope_radius(d, 2.0)
        row, because = f"r(2), d={d}", "two solvers at 1e-11 or tighter"
        check.row(row, predicted=exact, measured=z[0, 0], tolerance=1e-8, because=because)
        shape = np.abs(z - z[0, 0] * cross_polytope(d)).max()
        check.row(f"loss of shape, d={d}", predicted=0.0, measured=shape, tolerance=1e-8, because=because)
        twice[row], other[row] = cross_polytope_radius(d, 2.0, own=2.0), cross_polytope_radius(d + 1, 2.0)
    check.rival("a token that counts itself twice", twice)
    check.rival("two tokens more", other)
    return check


@PAPER.claim(
    "four-limits-of-a-multiple-eigenvalue",
    says="With $V=I$ in the plane the tokens $\\pm e_1$, $\\pm e_2$ have four distinct limits: a bound of three "
    "parallel subspaces of codimension $k$, $k$ the number of eigenvalues with positive real part, needs simple "
    "eigenvalues.",
    basis=basis.Derived("the theorem on V = I; the conjecture c:codim may mean simple eigenvalues"),
    formula=r"V=I_2,\ k=2:\quad \#\{\lim z_i\}=4 > 3,\qquad \lim z_i=\pm r_\infty e_k",
)
def four_limits(run: Run) -> Check:
    limits = hardmax_flow(rescaled(cross_polytope(2), (0.0, 10.0))[-1], 10.0).z
    check, count = Check(parameters={"n": 4, "d": 2}), "number of limits"
    check.same(count, predicted=4, measured=len(np.unique(limits.round(9), axis=0)))
    radius = cross_polytope_radius(2, 10.0)  # r stands still once exp(-e^{2t}) is zero
    distance = "their distance from 0"
    because = "the scalar equation, both solved to 1e-11"
    check.row(distance, predicted=radius, measured=np.abs(limits).max(), tolerance=1e-8, because=because)
    check.rival("at most three limits", {count: 3.0})
    check.rival("limits at the start", {distance: 1.0})
    return check
