r"""One dimension: the attention matrix becomes Boolean, and two tokens lead.

$$d=1,\ V>0,\ QK>0:\qquad P(t)\to\text{rows } e_1^\top \text{ or } e_n^\top \text{, except at most one row.}$$
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import scipy.integrate
import scipy.special

from sphereflow.claims import Check, Run, basis
from sphereflow.observables import followed, numerical_rank
from sphereflow.papers.emergence_of_clusters import PAPER, reference_solver, sources
from sphereflow.papers.emergence_of_clusters.flow import attention, original, rescaled

LINE = np.array([-0.9, -0.55, -0.3, -0.1, 0.2, 0.4, 0.7, 0.95])[:, None]


def attention_on_line(times: tuple[float, ...]) -> np.ndarray:
    """Attention matrices of the fixed start on the line at the given times after 0."""
    z = rescaled(LINE, (0.0, *times))[1:]
    return np.stack([attention(np.exp(t) * frame) for t, frame in zip(times, z, strict=True)])


@PAPER.claim(
    "boolean-attention",
    says="In one dimension every row of the attention matrix of eight tokens becomes the indicator of the leftmost "
    "or of the rightmost token by $t=6$, each with the leader that an independent solve gives, so that the rank is "
    "two; the same for random starts, with at most one row left over.",
    basis=sources.BOOLEAN,
    formula=r"P_{i\cdot}(t)\to e_1^\top\ \text{or}\ e_n^\top",
)
def boolean_attention(run: Run) -> Check:
    check = Check(parameters={"n": 8, "d": 1, "t1": 6})
    matrix = attention_on_line((6.0,))[-1]
    away = np.sort(np.minimum(np.abs(matrix), np.abs(1 - matrix)).max(axis=1))
    because = "row errors are doubly exponentially small, exp(-c e^t)"
    check.row("entries away from 0 and 1", predicted=0.0, measured=away[-1], tolerance=1e-6, because=because)
    check.same("rank", predicted=2, measured=numerical_rank(matrix))
    exact = np.argmax(reference_solver.attention(np.exp(6) * reference_solver.solve(LINE, [6.0])[-1]), axis=1)
    for i, (leader, found) in enumerate(zip(exact, followed(matrix), strict=True), start=1):
        check.same(f"leader of token {i}", predicted=float(leader + 1), measured=float(found + 1), because="an index")
    rng = np.random.default_rng(run.seed)
    for k in range(4 if run.quick else 40):
        tokens = np.sort(rng.uniform(-1, 1, (8, 1)), axis=0)
        final = attention(np.exp(6) * rescaled(tokens, (0.0, 6.0))[-1])
        extreme = np.sum((followed(final) == 0) | (followed(final) == 7))
        check.at_least(
            f"tokens that follow an extreme one, random start {k + 1}", bound=7, measured=extreme, because="a count"
        )
    signs = {f"leader of token {i}": 1.0 if x < 0 else 8.0 for i, x in enumerate(LINE[:, 0], start=1)}
    check.rival("the sign of a token at the start decides", signs)
    diffuse = attention(rescaled(LINE, (0.0, 6.0))[-1])
    gap = float(np.minimum(np.abs(diffuse), np.abs(1 - diffuse)).max())
    check.null("logits without exp(tV)", {"entries away from 0 and 1": gap, "rank": numerical_rank(diffuse)})
    return check


@PAPER.claim(
    "context-decides-the-leader",
    says="Which of the two leaders a token follows depends on the others: with the positive tokens of the same start "
    "at half their place all eight follow the leftmost one, among them tokens that did not move.",
    basis=basis.Abstract("leaders emerge, determined by the initial tokens: context-aware"),
    formula=r"P_{i\cdot}(t)\to e_{j(i)}^\top,\quad j(i)\text{ depends on all of }x(0)",
)
def context_decides(run: Run) -> Check:
    check, tokens = Check(parameters={"n": 8, "d": 1, "t1": 6}), LINE.copy()
    tokens[4:] /= 2
    final = followed(attention(np.exp(6) * rescaled(tokens, (0.0, 6.0))[-1]))
    exact = np.argmax(reference_solver.attention(np.exp(6) * reference_solver.solve(tokens, [6.0])[-1]), axis=1)
    before = followed(attention_on_line((6.0,))[-1])
    own = {}
    for i in range(8):
        row = f"leader of token {i + 1}"
        check.same(row, predicted=float(exact[i] + 1), measured=float(final[i] + 1), because="an index")
        own[row] = float(before[i] + 1)
    check.rival("the leaders of the other start", own)
    signs = {f"leader of token {i}": 1.0 if x < 0 else 8.0 for i, x in enumerate(tokens[:, 0], start=1)}
    check.rival("the sign of a token at the start decides", signs)
    return check


@PAPER.claim(
    "boolean-positions",
    says="The rescaled tokens on the line are near two groups at $t=6$, at the positions of an independent solve.",
    basis=sources.BOOLEAN,
    formula=r"z_i(6),\ i=1,\dots,8",
)
def boolean_positions(run: Run) -> Check:
    check, names = Check(parameters={"n": 8, "d": 1, "t1": 6}), [f"token {i}" for i in range(1, 9)]
    exact, flat = (reference_solver.solve(LINE, [6.0], growth=grown)[-1, :, 0] for grown in (True, False))
    measured = rescaled(LINE, (0.0, 6.0))[-1, :, 0]
    check.series(names, predicted=exact, measured=measured, tolerance=1e-9, because="two solvers at 1e-11")
    check.rival("logits of z in place of exp(tV) z", flat)
    check.rival("tokens that stay at their start", LINE[:, 0])
    return check


def _row_error_by_scipy(t1: float) -> float:
    """Largest mass of a row outside its largest entry, integrated in x from the definition."""

    def softmax(x: np.ndarray) -> np.ndarray:
        return scipy.special.softmax(np.outer(x, x), axis=1)

    solution = scipy.integrate.solve_ivp(
        lambda _t, x: softmax(x) @ x, (0, t1), LINE[:, 0], method="DOP853", rtol=1e-13, atol=1e-13
    )
    return float((1 - softmax(solution.y[:, -1]).max(axis=1)).max())


@PAPER.claim(
    "boolean-rate",
    says="The rows become Boolean doubly exponentially fast: the error at $t=4$ is that of an independent solve, and "
    "the logarithm of its inverse grows by the factor $e$ from $t=6$ to 7.",
    basis=sources.BOOLEAN,
    formula=r"\|P_{i\cdot}(t)-e_{j(i)}^\top\|\le\exp(-c\,e^t)",
)
def boolean_rate(run: Run) -> Check:
    errors = []
    for matrix in attention_on_line((4.0, 6.0, 7.0)):
        others = matrix.copy()
        others[np.arange(len(matrix)), followed(matrix)] = 0
        errors.append(others.sum(axis=1).max())
    check = Check(parameters={"n": 8, "d": 1})
    check.row(
        "error at t=4",
        predicted=_row_error_by_scipy(4.0),
        measured=errors[0],
        tolerance=1e-12,
        because="two solvers at 1e-11 or tighter",
    )
    row = "growth of log(1/error), t=6 to 7"
    check.row(
        row,
        predicted=math.e,
        measured=np.log(errors[2]) / np.log(errors[1]),
        tolerance=10 * np.exp(-6) * math.e,
        because="log(1/error) = c e^t (1 + O(e^-t)), up to a few e^-t",
    )
    check.rival("a plain exponential", {row: 7 / 6})
    check.rival("logits that grow like e^(2t)", {row: math.e**2})
    return check


@PAPER.claim(
    "order-and-gaps",
    says="On the line with $V=1$ tokens keep their order, and the distance between neighbours never shrinks between "
    "saved times up to $t=4$.",
    basis=sources.BOOLEAN,
    formula=r"x_{i+1}(t)-x_i(t)\ \text{non-decreasing}",
)
def order_and_gaps(run: Run) -> Check:
    def shrinkage(value: float) -> float:
        x = original(LINE, np.linspace(0, 4, 65), value=np.array([[value]]))[:, :, 0]
        gaps = np.diff(x, axis=1)
        return float((-np.diff(gaps, axis=0) / np.abs(x).max(axis=1)[1:, None]).max())

    check = Check(parameters={"n": 8, "d": 1, "t1": 4})
    least = np.diff(original(LINE, np.linspace(0, 4, 65))[:, :, 0], axis=1).min()
    check.at_least("smallest gap", bound=0.15, measured=least, tolerance=1e-9, because="the smallest gap at the start")
    row, because = "largest shrinkage of a gap", "100 times the tolerance of the solver, relative to the largest token"
    check.at_most(row, bound=0.0, measured=shrinkage(1.0), tolerance=1e-9, because=because)
    check.null("V = -1", {row: shrinkage(-1.0)})
    return check


def scalar(rate: Callable[[np.ndarray], np.ndarray], start: float, t1: float) -> float:
    """The end of u' = rate(u) by SciPy."""
    solution = scipy.integrate.solve_ivp(
        lambda _t, u: rate(u), (0, t1), [start], method="DOP853", rtol=1e-13, atol=1e-14
    )
    return float(solution.y[0, -1])


@PAPER.claim(
    "symmetric-triple",
    says="For tokens $(-u,0,u)$ from $u=0.3$, $u(3)$ is that of one scalar equation; from $u=1$ the middle token "
    "keeps the row (1/3, 1/3, 1/3): the exceptional row of the theorem occurs.",
    basis=basis.Equation("exact solution with an exceptional row", via=sources.LEAN),
    formula=r"\dot u=u\,\frac{e^{u^2}-e^{-u^2}}{e^{u^2}+1+e^{-u^2}}",
)
def symmetric_triple(run: Run) -> Check:
    def weighted(own: float) -> float:
        """u(3) if the token counts itself `own` times."""
        return scalar(
            lambda u: u * (own * np.exp(u**2) - np.exp(-(u**2))) / (own * np.exp(u**2) + 1 + np.exp(-(u**2))), 0.3, 3
        )

    tokens = np.array([[-0.3], [0.0], [0.3]])
    x = original(tokens, (0.0, 3.0))[-1]
    # Not later: the middle token is unstable, and rounding grows like exp(u^2/3).
    middle = attention(original(tokens / 0.3, (0.0, 2.0))[-1])[1]
    check, because = Check(parameters={"n": 3, "d": 1}), "two solvers at 1e-11 or tighter"
    check.row("u(3)", predicted=weighted(1.0), measured=x[2, 0], tolerance=1e-8, because=because)
    names = [f"middle row, entry {j}" for j in (1, 2, 3)]
    check.series(names, predicted=1 / 3, measured=middle, tolerance=1e-8, because=because)
    check.rival("a token that does not count itself", {"u(3)": weighted(0.0)})
    check.rival("a token that counts itself twice", {"u(3)": weighted(2.0)})
    check.rival("a Boolean row without exception", {names[0]: 1.0, names[1]: 0.0})
    return check


@PAPER.claim(
    "escape-threshold",
    says="A token at $A=\\sqrt{W(n^2)}$, $W$ being Lambert's function, grows like $e^t$ although the 2, 7 or 23 "
    "others sit where they pull it back most; a token at $A/2$ is pulled to the other side.",
    basis=basis.Theorem("t:boolean, auxiliary threshold", via=sources.LEAN),
    formula=r"A^2=n^2e^{-A^2}:\qquad x_i(t_0)>A\ \Rightarrow\ x_i(t)\ge c\,e^t",
)
def escape_threshold(run: Run) -> Check:
    check, below = Check(parameters={"d": 1}), {}
    for n in (3, 8, 24):
        threshold = float(np.sqrt(scipy.special.lambertw(n**2).real))
        # The others sit where they pull most: e^{Ay} y is smallest at y = -1/A.
        others = np.full(n - 1, -1 / threshold)
        paths = [rescaled(np.append(x, others)[:, None], (0.0, 6.0, 8.0))[1:, 0, 0] for x in (threshold, threshold / 2)]
        row = f"exp(-8) x(8), n={n}"
        because = "a fixed share of the start; the accuracy of the solver"
        check.at_least(row, bound=0.5 * threshold, measured=paths[0][1], tolerance=1e-6, because=because)
        check.row(
            f"exp(-2) x(8)/x(6), n={n}",
            predicted=1.0,
            measured=paths[0][1] / paths[0][0],
            tolerance=1e-6,
            because="x grows like exp(t) up to doubly exponentially small terms",
        )
        below[row] = float(paths[1][1])
    check.null("a token at half the threshold", below)
    return check
