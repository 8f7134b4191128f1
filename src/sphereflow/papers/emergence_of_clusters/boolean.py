r"""One dimension: the attention matrix becomes Boolean, and two tokens lead.

$$d=1,\ V>0,\ QK>0:\qquad P(t)\to\text{rows } e_1^\top \text{ or } e_n^\top \text{, except at most one row.}$$
"""

from __future__ import annotations

import math

import numpy as np
import scipy.integrate
import scipy.special

from sphereflow.claims import Measurement, Run, agreement, at_most
from sphereflow.observables import followed, numerical_rank
from sphereflow.papers.emergence_of_clusters import PAPER
from sphereflow.papers.emergence_of_clusters.flow import attention, original, rescaled

LINE = np.array([-0.9, -0.55, -0.3, -0.1, 0.2, 0.4, 0.7, 0.95])[:, None]
# Rescaled positions at t = 6, computed from the definition by an independent program.
LINE_AT_6 = np.array([-0.419366, -0.417384, -0.414946, 0.537171, 0.540493, 0.541783, 0.543300, 0.544360])


def attention_on_line(times: tuple[float, ...]) -> np.ndarray:
    """Attention matrices of the fixed start on the line at the given times after 0."""
    z = rescaled(LINE, (0.0, *times))[1:]
    return np.stack([attention(np.exp(t) * frame) for t, frame in zip(times, z, strict=True)])


@PAPER.claim(
    "boolean-attention",
    statement="In one dimension every row of the attention matrix but at most one becomes the indicator of the "
    "leftmost or of the rightmost token, so its rank is at most three.",
    source="Theorem on Boolean attention",
    formula=r"P_{i\cdot}(t)\to e_1^\top\ \text{or}\ e_n^\top",
    falsifier="entries away from 0 and 1 in two rows, a leader that is not extreme, or rank above three",
)
def boolean_attention(run: Run) -> Measurement:
    matrix = attention_on_line((6.0,))[-1]
    away = np.sort(np.minimum(np.abs(matrix), np.abs(1 - matrix)).max(axis=1))
    return agreement(
        [0.0, 2, *([1] * 3 + [8] * 5)],
        [away[-2], numerical_rank(matrix), *(followed(matrix) + 1)],
        absolute=[1e-6, 0.5] + [0.5] * 8,
        because="row errors are doubly exponentially small, exp(-c e^t); counts and indices are exact",
        labels=("entries away from 0 and 1", "rank", *(f"leader of token {i}" for i in range(1, 9))),
        parameters={"n": 8, "d": 1, "t1": 6},
    )


@PAPER.claim(
    "boolean-positions",
    statement="The rescaled tokens on the line converge to two groups, at known positions.",
    source="Theorem on Boolean attention, rescaled positions",
    formula=r"z_i(6),\ i=1,\dots,8",
    falsifier="logits of z in place of exp(tV) z",
)
def boolean_positions(run: Run) -> Measurement:
    z = rescaled(LINE, (0.0, 6.0))[-1, :, 0]
    return agreement(
        LINE_AT_6,
        z,
        absolute=6e-7,
        because="reference positions are printed with 6 decimals",
        labels=tuple(f"token {i}" for i in range(1, 9)),
        parameters={"n": 8, "d": 1, "t1": 6},
    )


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
    statement="The rows become Boolean doubly exponentially fast: the error is 1e-5 at t = 4 and 1e-110 at t = 7.",
    source="Theorem on Boolean attention, rate",
    formula=r"\|P_{i\cdot}(t)-e_{j(i)}^\top\|\le\exp(-c\,e^t)",
    falsifier="a row error that falls like a plain exponential",
)
def boolean_rate(run: Run) -> Measurement:
    times = (4.0, 6.0, 7.0)
    errors = []
    for matrix in attention_on_line(times):
        others = matrix.copy()
        others[np.arange(len(matrix)), followed(matrix)] = 0
        errors.append(others.sum(axis=1).max())
    growth = np.log(errors[2]) / np.log(errors[1])
    return agreement(
        [_row_error_by_scipy(4.0), 0.0, math.e],
        [errors[0], errors[1], growth],
        absolute=[1e-12, 1e-12, 10 * np.exp(-6) * math.e],
        because="two solvers at 1e-11 or tighter; log(1/error) = c e^t (1 + O(e^-t)) grows by the factor e per unit of "
        "time up to a few e^-t",
        labels=("error at t = 4", "error at t = 6", "growth of log(1/error), t = 6 to 7"),
        parameters={"n": 8, "d": 1},
    )


@PAPER.claim(
    "order-and-gaps",
    statement="On the line tokens keep their order, and the distance between neighbours never shrinks.",
    source="Lemma for V = 1 in one dimension",
    formula=r"x_{i+1}(t)-x_i(t)\ \text{non-decreasing}",
    falsifier="two tokens that cross or approach each other",
)
def order_and_gaps(run: Run) -> Measurement:
    x = original(LINE, np.linspace(0, 4, 65))[:, :, 0]
    gaps = np.diff(x, axis=1)
    shrinkage = -np.diff(gaps, axis=0) / np.abs(x).max(axis=1)[1:, None]
    return at_most(
        [0.0, 0.0],
        [-gaps.min(), shrinkage.max()],
        slack=1e-9,
        because="100 times the tolerance of the solver, relative to the largest token",
        labels=("order lost by", "largest shrinkage of a gap"),
        parameters={"n": 8, "d": 1, "t1": 4},
    )


@PAPER.claim(
    "symmetric-triple",
    statement="Tokens (-u, 0, u): u obeys one scalar equation, and the middle token keeps the row (1/3, 1/3, 1/3).",
    source="Exact solution; the exceptional row of the theorem on Boolean attention",
    formula=r"\dot u=u\,\frac{e^{u^2}-e^{-u^2}}{e^{u^2}+1+e^{-u^2}}",
    falsifier="a token that does not count itself, or counts itself twice",
)
def symmetric_triple(run: Run) -> Measurement:
    def rate(_t: float, u: np.ndarray) -> np.ndarray:
        return u * (np.exp(u**2) - np.exp(-(u**2))) / (np.exp(u**2) + 1 + np.exp(-(u**2)))

    scalar = scipy.integrate.solve_ivp(rate, (0, 3), [0.3], method="DOP853", rtol=1e-13, atol=1e-14).y[0, -1]
    tokens = np.array([[-0.3], [0.0], [0.3]])
    x = original(tokens, (0.0, 3.0))[-1]
    # Not later: the middle token is unstable, and rounding grows like exp(u^2/3).
    rows = attention(original(tokens / 0.3, (0.0, 2.0))[-1])
    return agreement(
        [scalar, 0.37477860195, 0.0, *([1 / 3] * 3), 1.0],
        [x[2, 0], x[2, 0], x[1, 0], *rows[1], rows[2, 2]],
        absolute=1e-8,
        because="two solvers at 1e-11 or tighter, compared at 1e-8",
        labels=(
            "u(3) against SciPy",
            "u(3) against reference",
            "middle token",
            *(f"middle row from u0 = 1 at t = 2, entry {j}" for j in (1, 2, 3)),
            "own weight of the right token there",
        ),
        parameters={"n": 3, "d": 1, "u0": 0.3},
    )


@PAPER.claim(
    "escape-threshold",
    statement="A token beyond A = sqrt(W(n^2)), W being Lambert's function, grows like exp(t) for ever, wherever the "
    "others are.",
    source="Auxiliary lemma of the theorem on Boolean attention, V = Q = K = 1",
    formula=r"A^2=n^2e^{-A^2}:\qquad x_i(t_0)>A\ \Rightarrow\ x_i(t)\ge c\,e^t",
    falsifier="a token that starts beyond the threshold and is pulled back",
)
def escape_threshold(run: Run) -> Measurement:
    sizes, ratios, thresholds = (3, 8, 24), [], []
    for n in sizes:
        threshold = float(np.sqrt(scipy.special.lambertw(n**2).real))
        thresholds.append(threshold)
        # The others sit where they pull most: e^{Ay} y is smallest at y = -1/A.
        tokens = np.concatenate([[threshold], np.full(n - 1, -1 / threshold)])[:, None]
        z = rescaled(tokens, (0.0, 6.0, 8.0))[:, 0, 0]
        ratios.append(z[2] / z[1] if z[1] > 0 else np.nan)
    return agreement(
        [1.0, 1.0, 1.0, 1.2957687, 1.7450753],
        [*ratios, *thresholds[:2]],
        absolute=[1e-6] * 3 + [5e-8] * 2,
        because="x grows like exp(t) up to doubly exponentially small terms; thresholds are printed with 7 decimals",
        labels=(*(f"exp(-2) x(8)/x(6), n = {n}" for n in sizes), "A, n = 3", "A, n = 8"),
        parameters={"d": 1},
    )
