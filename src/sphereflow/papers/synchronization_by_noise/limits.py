r"""Many layers and many tokens: the two orders of limits agree.

$$F(L,n)=E|\bar x|^2=\frac1n+\Big(1-\frac1n\Big)E\,r_L\ (v=0),\qquad \lim_n\lim_LF=\lim_L\lim_nF .$$

The mean overlap $E\,r_L$ of two tokens after L layers is computed without sampling, with attention too.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.polynomial import chebyshev

from sphereflow.claims import Check, Run, basis
from sphereflow.papers.synchronization_by_noise import PAPER
from sphereflow.papers.synchronization_by_noise.error_equation import relu_modes
from sphereflow.papers.synchronization_by_noise.independent import attention_drift, pair_averages
from sphereflow.synchronisation.both_limits import LimitOrders, limit_orders

MODES, BETA = 8, 1.0
DEPTHS, SIZES = (16, 32), (8, 32)
LADDER = (16, 32, 64)


def covariance(r: np.ndarray) -> np.ndarray:
    """ReLU with the cosines up to the order 8."""
    flat = relu_modes(MODES).derivative(np.arccos(np.clip(np.ravel(r), -1, 1)))
    return np.asarray(flat.reshape(np.shape(r)))


@cache
def layer_matrix(step: float, v: float, size: int = 24, points: int = 8) -> tuple[np.ndarray, np.ndarray]:
    """(nodes, matrix): one layer of two tokens on the circle, acting on functions of their overlap.

    Four normal numbers decide, by a product rule; the tokens are x and y, each other's only company.
    """
    nodes = np.cos(np.pi * (np.arange(size) + 0.5) / size)
    g, w = np.polynomial.hermite_e.hermegauss(points)
    a, b, c, d = (part.ravel() for part in np.meshgrid(g, g, g, g, indexing="ij"))
    weight = np.prod(np.meshgrid(w, w, w, w, indexing="ij"), axis=0).ravel() / w.sum() ** 4
    one, rows = float(covariance(np.array(1.0))), []
    for r, here in zip(nodes, covariance(nodes), strict=True):
        y = np.array([r, np.sqrt(1 - r**2)])
        share, rest = here / one, np.sqrt(step * (one - here**2 / one))
        p = v * step / (1 + np.exp(BETA * (1 - r)))  # the weight of the other token
        first = [1 + v * step - p + p * y[0] + np.sqrt(step * one) * a, p * y[1] + np.sqrt(step * one) * b]
        noise = (np.sqrt(step * one) * share * a + rest * c, np.sqrt(step * one) * share * b + rest * d)
        second = [(1 + v * step - p) * y[0] + p + noise[0], (1 + v * step - p) * y[1] + noise[1]]
        top = first[0] * second[0] + first[1] * second[1]
        image = np.clip(top / np.hypot(*first) / np.hypot(*second), -1, 1)
        rows.append(weight @ chebyshev.chebvander(image, size - 1))
    return nodes, np.array(rows) @ np.linalg.inv(chebyshev.chebvander(nodes, size - 1))


@cache
def mean_overlap(layers: int, v: float) -> float:
    """E r after so many layers over t = 1, from two independent uniform tokens."""
    nodes, matrix = layer_matrix(1 / layers, v)
    return float(np.mean(np.linalg.matrix_power(matrix, layers) @ nodes))  # the nodes are equally spaced angles


@cache
def flow_overlap(v: float) -> float:
    """E r at t = 1 in the limit of many layers."""
    found = pair_averages(
        2, covariance, [1.0], payoff=lambda r: r, extra=attention_drift(v, BETA) if v else np.zeros_like
    )
    return float(found[0])


@cache
def measured(v: float, quick: bool, seed: int) -> LimitOrders:
    """The table of F(L, n) and of its limits."""
    return limit_orders(
        "relu",
        strength=v,
        beta=BETA,
        depths=DEPTHS,
        sizes=SIZES,
        modes=MODES,
        repeats=150 if quick else 6000,
        seed=seed,
    )


@PAPER.claim(
    "limits-commute",
    says="The mean squared length of the mean token on the circle (ReLU) has one limit: networks without attention "
    "have the value of the two-token computation at 16 and 32 layers, 8 and 32 tokens; many layers first and many "
    "tokens first agree without and with attention. In the depth the error of two tokens is of order one.",
    basis=basis.Abstract("the limits of depth, width and number of tokens commute"),
    formula=r"\lim_{n}\lim_{L}E|\bar x|^2=\lim_{L}\lim_{n}E|\bar x|^2,\qquad "
    r"F(L,n)=\frac1n+\Big(1-\frac1n\Big)E\,r_L\ (v=0)",
)
def limits_commute(run: Run) -> Check:
    check = Check(parameters={"depths": DEPTHS, "sizes": SIZES, "beta": BETA})
    half: dict[str, float] = {}
    thrice: dict[str, float] = {}
    for v in (0.0, 1.0):
        means = np.array([mean_overlap(depth, v) for depth in LADDER])
        row = f"two tokens, v={v:g}, overlap extrapolated in 1/L"
        check.row(
            row,
            predicted=flow_overlap(v),
            measured=(8 * means[2] - 6 * means[1] + means[0]) / 3,
            tolerance=1e-4,
            because="the third order in 1/L and the product rule",
        )
        if v:
            thrice[row] = flow_overlap(3 * v)
        errors = means - flow_overlap(v)
        rows = [f"two tokens, v={v:g}, order between {depth} and {2 * depth} layers" for depth in LADDER[:-1]]
        check.series(
            rows,
            predicted=1.0,
            measured=np.log2(errors[:-1] / errors[1:]),
            tolerance=2 / np.array(LADDER[:-1]),
            because="the next order in 1/L",
        )
        half |= dict.fromkeys(rows, 0.5)
    alone, kept = {}, {}
    for v in (0.0, 1.0):
        found = measured(v, run.quick, run.seed)
        repeats, table = found.values.shape[-1], found.table()
        if not v:
            for i, depth in enumerate(DEPTHS):
                for j, n in enumerate(SIZES):
                    row = f"networks of {depth} layers, n={n}"
                    check.row(
                        row,
                        predicted=1 / n + (1 - 1 / n) * mean_overlap(depth, 0.0),
                        measured=table.value[i, j],
                        error=table.error[i, j],
                        repeats=repeats,
                        because="the error bar over paths",
                    )
                    alone[row] = 1 / n
            for name, value in (("layers first", found.deep_first), ("tokens first", found.many_first)):
                check.row(
                    name,
                    predicted=flow_overlap(0.0),
                    measured=value.value,
                    error=value.error,
                    repeats=repeats,
                    tolerance=2e-3,
                    because="the error bar over paths; the steps of the limit, and the second order in 1/L",
                )
                alone[name] = 0.0
        row, apart = f"layers first minus tokens first, v={v:g}", found.difference
        check.row(
            row,
            predicted=0.0,
            measured=apart.value,
            error=apart.error,
            repeats=repeats,
            tolerance=2e-3 if not v else 0.01,
            because="the error bar on the same paths; the second orders in 1/n and 1/L",
        )
        kept[row] = flow_overlap(0.0)  # what noise leaves without attention, which only adds to it
    check.rival("noise of its own for every token: 1/n", alone)
    check.rival("many tokens first lose the noise that layers first keep", kept)
    check.rival("weak order one half in the depth", half)
    check.rival("attention three times as strong", thrice)
    return check
