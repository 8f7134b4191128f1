r"""Means over the noise: how fast networks approach the limit in law, and the law of many tokens given the noise.

$$E\,r^{(L)}(T)-E\,r(T)=O(1/L),\qquad E|c_k^n|^2=E|c_k|^2+\frac{1-E|c_k|^2}n .$$
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.polynomial import chebyshev
from scipy.linalg import expm

from sphereflow.claims import Check, Run, basis
from sphereflow.estimates import mean
from sphereflow.papers.synchronization_by_noise import PAPER
from sphereflow.papers.synchronization_by_noise.error_equation import Kernel
from sphereflow.papers.synchronization_by_noise.independent import pair_averages, relu_kappa
from sphereflow.papers.synchronization_by_noise.pathwise import PATHWISE
from sphereflow.synchronisation.network import run_network
from sphereflow.synchronisation.pathwise import strong_errors
from sphereflow.synchronisation.random_fields import RandomPerceptron

START = 0.3
RELU = RandomPerceptron("relu", 1)


@cache
def layer_matrix(step: float, size: int = 33) -> tuple[np.ndarray, np.ndarray]:
    r"""(nodes, matrix): one layer with $\kappa=1$, d = 4, acting on functions of the overlap, at Chebyshev nodes.

    x and y move by the same Gaussian vector: its two components in their plane and the length of the rest decide.
    """
    nodes = np.cos(np.pi * (np.arange(size) + 0.5) / size)
    g, w = np.polynomial.hermite_e.hermegauss(24)
    w = w / w.sum()
    u, v = np.polynomial.laguerre.laggauss(16)  # d - 2 = 2: half the squared length of the rest is exponential
    a, b, rest = np.meshgrid(g, g, 2 * u, indexing="ij")
    weight = (w[:, None, None] * w[None, :, None] * v[None, None, :]).ravel()
    a, b, rest = (np.sqrt(step) * a.ravel(), np.sqrt(step) * b.ravel(), step * rest.ravel())
    rows = []
    for r in nodes:
        s = np.sqrt(1 - r**2)
        first, second = (1 + a, b), (r + a, s + b)
        top = first[0] * second[0] + first[1] * second[1] + rest
        lengths = [np.sqrt(p**2 + q**2 + rest) for p, q in (first, second)]
        image = np.clip(top / (lengths[0] * lengths[1]), -1, 1)
        rows.append(weight @ chebyshev.chebvander(image, size - 1))
    return nodes, np.array(rows) @ np.linalg.inv(chebyshev.chebvander(nodes, size - 1))


def mean_overlap(layers: int, start: float = START) -> float:
    """E r after `layers` layers over t = 1 with kappa = 1 in dimension 4, without sampling."""
    nodes, matrix = layer_matrix(1 / layers)
    values = np.linalg.matrix_power(matrix, layers) @ nodes
    return float(chebyshev.chebval(start, np.linalg.solve(chebyshev.chebvander(nodes, len(nodes) - 1), values)))


@PAPER.claim(
    "weak-order",
    says="The mean overlap of two tokens after $L$ layers of constant noise, computed without sampling, tends to "
    "that of the flow, with an error proportional to $1/L$; simulated networks have the computed mean.",
    basis=PATHWISE,
    formula=r"E\,r^{(L)}(T)-E\,r(T)=C\,h+O(h^2)",
)
def weak_order(run: Run) -> Check:
    d = 4
    check = Check(parameters={"d": d, "t": 1, "start": START})

    def flow(extra: object = np.zeros_like) -> float:
        found = pair_averages(d, np.ones_like, [1.0], payoff=lambda r: r, start=START, extra=extra)  # type: ignore[arg-type]
        return float(found[0])

    layers = np.array([32, 64, 128])
    means = np.array([mean_overlap(int(n)) for n in layers])
    limit = (8 * means[2] - 6 * means[1] + means[0]) / 3
    check.row(
        "mean overlap of the flow", predicted=flow(), measured=limit, tolerance=2e-5, because="the third order in h"
    )
    errors = means - flow()
    orders = np.log2(errors[:-1] / errors[1:])
    names = [f"order between {n} and {2 * n} layers" for n in layers[:-1]]
    check.series(names, predicted=1.0, measured=orders, tolerance=4 / layers[:-1], because="the next order, (d-1) h")
    depths, repeats = (16, 32, 64), 2000 if run.quick else 10_000
    pair = np.array([[1, 0, 0, 0], [START, np.sqrt(1 - START**2), 0, 0]])
    overlap = strong_errors("constant", d=d, x0=pair, depths=depths, repeats=repeats, seed=run.seed + 1).overlap
    found = mean(overlap[:-1].T)
    exact = {f"networks of {n} layers": mean_overlap(n) for n in depths}
    check.series(
        exact,
        predicted=list(exact.values()),
        measured=found.value,
        error=found.error,
        repeats=repeats,
        because="the error bar over paths",
    )
    check.rival("order one half", dict.fromkeys(names, 0.5))
    corrected = flow(lambda r: -(d - 1) * r / 2)
    check.rival(
        "an Ito correction added by hand", {"mean overlap of the flow": corrected, **dict.fromkeys(exact, corrected)}
    )
    check.rival("the term with r squared lost", {"mean overlap of the flow": flow(lambda r: -(r**2))})
    return check


def tangential_modes(count: int, kernel: Kernel | None = None) -> np.ndarray:
    r"""$q_j$ of $\cos\varphi\,K(\varphi)=\sum_jq_j\cos j\varphi$ by cosine transform; ReLU if no kernel is given."""
    phi = np.pi * (np.arange(4096) + 0.5) / 4096
    values = np.cos(phi) * (relu_kappa(np.cos(phi)) if kernel is None else kernel.derivative(phi))
    table = 2 / 4096 * np.cos(np.outer(np.arange(count), phi)) @ values
    table[0] /= 2
    return table


def mode_squares(start: np.ndarray, time: float, count: int = 48, kernel: Kernel | None = None) -> np.ndarray:
    r"""$E|c_k(t)|^2$, k = 0, ..., of the law of tokens given the noise, on the circle without attention.

    $\frac d{dt}E|c_k|^2=-k^2q(0)E|c_k|^2+\frac{k^2}2\sum_jq_j(E|c_{k+j}|^2+E|c_{k-j}|^2)$.
    """
    k = np.arange(-count, count + 1)
    q = tangential_modes(2 * count + 1, kernel)
    coupling = q[np.abs(k[:, None] - k[None, :])]
    coupling[np.arange(len(k)), np.arange(len(k))] *= 2  # j = 0 counts for both neighbours
    matrix = k[:, None] ** 2 * (coupling / 2 - q.sum() * np.eye(len(k)))
    first = np.zeros(2 * count + 1)
    first[count - len(start) + 1 : count + len(start)] = [*start[:0:-1], *start]
    return (expm(matrix * time) @ first)[count:]


@PAPER.claim(
    "tokens-given-the-noise",
    says="On the circle, ReLU layers without attention: first and second Fourier modes of 8 and 64 tokens have the "
    "mean squares of the stochastic equation of their distribution plus $1/n$ of the rest, as for tokens that are "
    "independent given the noise; the mean of the first mode decays at the rate $\\kappa(1)/2$.",
    basis=basis.Abstract("the distribution solves a stochastic partial differential equation; propagation of chaos"),
    formula=r"E|c_k^n|^2=E|c_k|^2+\frac{1-E|c_k|^2}n,\qquad "
    r"\frac d{dt}E|c_k|^2=-k^2q(0)E|c_k|^2+\tfrac{k^2}2\sum_jq_j\big(E|c_{k+j}|^2+E|c_{k-j}|^2\big)",
)
def tokens_given_the_noise(run: Run) -> Check:
    paths, layers, time = (1500, 64, 1.0) if run.quick else (20_000, 128, 1.0)
    rng = np.random.default_rng(run.seed)
    # The density (1 + cos)/2 pi, by rejection: its first mode is 1/2, the others vanish.
    angle = rng.uniform(0, 2 * np.pi, 3 * paths * 64)
    angle = angle[rng.uniform(0, 2, angle.shape) < 1 + np.cos(angle)][: paths * 64]
    x = np.stack([np.cos(angle), np.sin(angle)], axis=-1).reshape(paths, 64, 2)
    final = np.asarray(run_network(RELU, x, layers=layers, step=time / layers, seed=run.seed))[-1]
    turned = final[..., 0] + 1j * final[..., 1]
    check = Check(parameters={"d": 2, "paths": paths, "layers": layers, "t": time})
    exact = mode_squares(np.array([1.0, 0.25]), time)
    alone = {}
    for n in (8, 64):
        for k in (1, 2):
            found = mean(np.abs((turned[:, :n] ** k).mean(axis=1)) ** 2)
            row = f"mode {k}, n={n}"
            check.row(
                row,
                predicted=exact[k] + (1 - exact[k]) / n,
                measured=found.value,
                error=found.error,
                repeats=paths,
                tolerance=1 / layers,
                because="the error bar over paths; the step",
            )
            alone[row] = (0.25 * np.exp(-time / 2) if k == 1 else 0.0) * (1 - 1 / n) + 1 / n
    first = mean(turned.real.mean(axis=1))
    row = "mean of the first mode"
    exact_mean = 0.5 * np.exp(-time / 4)
    check.row(
        row,
        predicted=exact_mean,
        measured=first.value,
        error=first.error,
        repeats=paths,
        tolerance=0.3 / layers,
        because="the error bar over paths; the step",
    )
    check.rival("noise of its own for every token", alone)
    check.rival("the mean of the first mode decays with kappa(1)", {row: 0.5 * np.exp(-time / 2)})
    check.rival("no fluctuation of finitely many tokens", {f"mode {k}, n=8": exact[k] for k in (1, 2)})
    return check
