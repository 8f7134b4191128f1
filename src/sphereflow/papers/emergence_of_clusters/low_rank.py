r"""Attention of low rank in high dimension, under the dynamics itself.

$$V=(2U-1)(2U-1)^\top/\lambda_1,\qquad \dot x_i=\sum_jP_{ij}Vx_j .$$

At t = 11 every row is the indicator of one leader, so the rank is the number of leaders. The authors' program moves
tokens by $\dot x=Vx$, without attention, which has other leaders.
"""

from __future__ import annotations

import numpy as np

from sphereflow.claims import Check, Run, basis
from sphereflow.papers.emergence_of_clusters import PAPER, reference_solver
from sphereflow.papers.emergence_of_clusters.high_dimension import attention_under, normalised_positive

T1 = 11.0


def leaders(x0: np.ndarray, value: np.ndarray, steps: int = 1100) -> np.ndarray:
    """Whom each token attends to most at t = 11, by plain Runge-Kutta steps of the rescaled tokens."""
    rates, vectors = np.linalg.eigh(value)
    z, h = x0 @ vectors, T1 / steps  # in the eigenbasis of V inner products are the same

    def speed(t: float, z: np.ndarray) -> np.ndarray:
        return np.asarray((reference_solver.attention(z * np.exp(t * rates)) @ z - z) * rates)

    for step in range(steps):
        t = step * h
        a = speed(t, z)
        b = speed(t + h / 2, z + h / 2 * a)
        c = speed(t + h / 2, z + h / 2 * b)
        z = z + h / 6 * (a + 2 * b + 2 * c + speed(t + h, z + h * c))
    return np.argmax(reference_solver.attention(z * np.exp(T1 * rates)), axis=1)


@PAPER.claim(
    "low-rank-attention",
    says="With $V=(2U-1)(2U-1)^\\top$ over its largest eigenvalue the attention matrix has at $t=11$ one leader in "
    "every row, those of an independent solve, and their number as its rank (larger preset: 40 tokens in dimension "
    "80, as in the figure).",
    basis=basis.Derived("the setting of a figure of the authors' program, with attention in the dynamics"),
    formula=r"P(t)\to(\mathbf 1_{j=j(i)}),\qquad \mathrm{rank}\,P=\#\{j(i)\}",
)
def low_rank_attention(run: Run) -> Check:
    cases = [(24, 3, 4)] if run.quick else [(24, 3, 12), (40, 80, 4)]
    check = Check(parameters={"n, d, draws": cases, "t": T1})
    alone: dict[str, float] = {}
    full: dict[str, float] = {}
    own: dict[str, float] = {}
    for n, d, count in cases:
        random = np.random.default_rng(run.seed)
        ranks, agree, blurred, without, themselves = [], 0, 0.0, 0, 0
        for _ in range(count):
            value, x0 = normalised_positive(random, d), random.uniform(-1, 1, (n, d))
            found, exact = attention_under(x0, np.array([0.0, T1]), value)[-1], leaders(x0, value)
            rates, vectors = np.linalg.eigh(value)
            script = np.argmax(reference_solver.attention(x0 @ (vectors * np.exp(T1 * rates))), axis=1)
            ranks.append((len(np.unique(exact)), np.linalg.matrix_rank(found, tol=1e-3)))
            agree += np.sum(np.argmax(found, axis=1) == exact)
            without += np.sum(script == exact)
            themselves += np.sum(exact == np.arange(n))
            blurred = max(blurred, 1 - found.max(axis=1).min())
        rank, rows = f"ranks of all draws together, n={n}, d={d}", f"rows with the right leader, n={n}, d={d}"
        predicted, measured = np.sum(ranks, axis=0)
        check.same(rank, predicted=predicted, measured=measured)
        check.same(rows, predicted=n * count, measured=agree)
        name, because = f"largest distance of a row from an indicator, n={n}, d={d}", "two leaders may nearly tie"
        check.row(name, predicted=0.0, measured=blurred, tolerance=1e-2, because=because)
        alone[rows], full[rank], own[rows] = float(without), float(n * count), float(themselves)
    check.rival(r"$\dot x=Vx$, without attention", alone)
    check.rival("full rank", full)
    check.rival("every token its own leader", own)
    return check
