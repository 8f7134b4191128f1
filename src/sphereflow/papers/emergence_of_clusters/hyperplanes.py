r"""A simple, positive, dominant eigenvalue: at most three parallel hyperplanes.

$$\varphi_1^* V=\lambda_1\varphi_1^*,\qquad \lim_{t\to\infty}\varphi_1^*(z_i(t))\in\{a,0,b\},\qquad
  a=\lim\min_j\varphi_1^*(z_j),\quad b=\lim\max_j\varphi_1^*(z_j).$$
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from sphereflow.claims import Check, Run, basis
from sphereflow.errors import SphereflowError
from sphereflow.papers.emergence_of_clusters import PAPER, reference_solver, sources
from sphereflow.papers.emergence_of_clusters.flow import PLANAR, TWO_POSITIVE, rescaled, start


def left_eigenvector(value: Float[np.ndarray, "d d"], index: int = 0) -> tuple[float, Float[np.ndarray, " d"]]:
    """(lambda, phi*) with phi* V = lambda phi*, |phi*| = 1, largest entry positive; index 0 has the largest Re."""
    values, vectors = np.linalg.eig(value.T)
    chosen = np.argsort(-values.real)[index]
    if abs(values[chosen].imag) > 0:
        raise SphereflowError(f"eigenvalue {values[chosen]:.4g} is not real: it has no real left eigenvector.")
    phi = vectors[:, chosen].real
    return float(values[chosen].real), phi * np.sign(phi[np.argmax(np.abs(phi))])


def distinct_values(values: Float[np.ndarray, " n"], gap: float = 1e-4) -> list[Float[np.ndarray, " k"]]:
    """Groups of values, in order: a new group begins wherever neighbours are further apart than `gap`."""
    ordered = np.sort(values)
    return np.split(ordered, np.nonzero(np.diff(ordered) > gap)[0] + 1)


def groups_of(size: float) -> tuple[list[np.ndarray], list[np.ndarray], np.ndarray]:
    """Values of phi_1 at t = 12 in groups, of simulated tokens and of an independent solve; and those of the start."""
    _, phi = left_eigenvector(PLANAR)
    x0 = start(20, 2, size)
    found = rescaled(x0, (0.0, 12.0), value=PLANAR)[-1] @ phi
    exact = reference_solver.solve(x0, [12.0], value=PLANAR)[-1] @ phi
    return distinct_values(found), distinct_values(exact), x0 @ phi


@PAPER.claim(
    "hyperplanes",
    says="With a simple positive leading eigenvalue 20 tokens in the plane end on at most three parallel lines, "
    "values of the left leading eigenvector; here on two, those of an independent solve.",
    basis=sources.HYPERPLANES,
    formula=r"\varphi_1^*(z_i)\to c_i\in\{a,0,b\}",
)
def hyperplanes(run: Run) -> Check:
    found, exact, begin = groups_of(1.0)
    check, because = Check(parameters={"n": 20, "d": 2, "t1": 12}), "two solvers at 1e-11"
    check.same("number of values", predicted=len(exact), measured=len(found))
    check.at_most("number of values, by the theorem", bound=3, measured=len(found), because="a count")
    for name, k in (("a", 0), ("b", -1)):
        check.row(name, predicted=exact[k].mean(), measured=found[k].mean(), tolerance=1e-9, because=because)
        check.same(f"tokens at {name}", predicted=len(exact[k]), measured=len(found[k]))
    rates, right = np.linalg.eig(PLANAR)
    z = rescaled(start(20, 2, 1.0), (0.0, 12.0), value=PLANAR)[-1]
    other = distinct_values(z @ right[:, np.argmax(rates.real)].real)
    check.null("the right eigenvector", {"number of values, by the theorem": len(other)})
    check.rival("the extremes of the start", {"a": begin.min(), "b": begin.max()})
    return check


@PAPER.claim(
    "hyperplanes-sizes",
    says="Tokens of half the size end on one single line; tokens five times larger on two, which are within "
    "$10^{-5}$ the extreme ones of their start, as in an independent solve.",
    basis=sources.HYPERPLANES,
    formula=r"a\le b,\quad a=b \text{ allowed}",
)
def hyperplanes_sizes(run: Run) -> Check:
    check, extremes = Check(parameters={"n": 20, "d": 2, "t1": 12}), {}
    for size in (0.5, 5.0):
        found, exact, begin = groups_of(size)
        check.same(f"size {size:g}: number of values", predicted=len(exact), measured=len(found))
        for name, k, first in (("a", 0, begin.min()), ("b", -1, begin.max())):
            row = f"size {size:g}: {name}"
            check.row(row, predicted=exact[k].mean(), measured=found[k].mean(), tolerance=1e-7, because="two solvers")
            if size > 1:
                because = "attention is sharp from the start"
                moved = abs(found[k].mean() - first)
                check.row(f"{row}, moved by", predicted=0.0, measured=moved, tolerance=1e-5, because=because)
            else:
                extremes[row] = float(first)
    check.rival("two lines for every size", {"size 0.5: number of values": 2.0})
    check.rival("small tokens on the extremes of their start", extremes)
    return check


@PAPER.claim(
    "extremes-monotone",
    says="For left eigenvectors with the eigenvalues 1.348, 1.963 and 0.253 the largest value over 20 tokens never "
    "grows and the smallest never falls between saved times; for right eigenvectors of the first matrix they do.",
    basis=basis.Theorem("l:fj", via=sources.LEAN),
    formula=r"\max_j\varphi_k^*(z_j)\downarrow,\qquad \min_j\varphi_k^*(z_j)\uparrow\qquad(\lambda_k\ge0)",
)
def extremes_monotone(run: Run) -> Check:
    def growth(z: np.ndarray) -> float:
        return float(max(np.diff(z.max(axis=1)).max(), -np.diff(z.min(axis=1)).min()))

    check, right = Check(parameters={"n": 20, "t1": 8}), {}
    for value, index in ((PLANAR, 0), (TWO_POSITIVE, 0), (TWO_POSITIVE, 1)):
        rate, phi = left_eigenvector(value, index)
        z = rescaled(start(20, len(value), 1.0), np.linspace(0, 8, 65), value=value, tol=1e-13)
        row, because = f"largest growth, eigenvalue {rate:.3f}", "far above the solver's 1e-13"
        check.at_most(row, bound=0.0, measured=growth(z @ phi), tolerance=1e-10, because=because)
        if value is PLANAR:
            right[row] = growth(z @ left_eigenvector(value.T)[1])
    check.null("the right eigenvector", right)
    return check


@PAPER.claim(
    "codimension-simple",
    says="A symmetric $V$ with the simple positive eigenvalues 1.963 and 0.253 leaves 20 tokens in two groups in "
    "both leading coordinates, whose second one closes at the rate 0.253: consistent with the conjecture on "
    "codimension.",
    basis=basis.Theorem("c:codim, a conjecture", via=sources.LEAN),
    formula=r"(\varphi_1^*,\varphi_2^*)(z_i)\to\text{at most three points}",
)
def codimension_simple(run: Run) -> Check:
    (fast, first), (rate, second) = (left_eigenvector(TWO_POSITIVE, k) for k in (0, 1))
    x0 = start(20, 3, 1.0)
    z = rescaled(x0, (0.0, 8.0, 12.0, 20.0), value=TWO_POSITIVE)
    exact = distinct_values(reference_solver.solve(x0, [8.0], value=TWO_POSITIVE)[-1] @ first)
    leading, halves = distinct_values(z[-1] @ first), distinct_values(z[-1] @ second, gap=0.1)
    side = z[-1] @ first > 0
    widths = np.array([max(np.ptp(frame[side] @ second), np.ptp(frame[~side] @ second)) for frame in z[2:]])
    check = Check(parameters={"n": 20, "d": 3, "t1": 20})
    check.same("values of phi_1", predicted=len(exact), measured=len(leading))
    check.same("groups of phi_2", predicted=2, measured=len(halves))
    begin = x0 @ first
    for name, k in (("a", 0), ("b", -1)):
        because = "the approach like exp(-1.963 t) at t = 8"
        check.row(name, predicted=exact[k].mean(), measured=leading[k].mean(), tolerance=1e-5, because=because)
    row, because = "closing rate, t=12 to 20", "attention is hardmax by t = 12"
    check.row(row, predicted=rate, measured=-np.log(widths[1] / widths[0]) / 8, tolerance=1e-6, because=because)
    check.rival("closing at the leading rate", {row: fast})
    check.rival("closing at the difference of the rates", {row: fast - rate})
    check.rival("the extremes of the start", {"a": begin.min(), "b": begin.max()})
    return check
