r"""Deep and wide: how fast the network approaches the stochastic flow.

For one token over the time T, with $k=\kappa(1)$, $k'=\kappa'(1)$ and $g=(d-1)k'-(d-3)k$, on one path of the noise

$$E|x^{(L,m)}-x|^2\approx
  \Big[\frac{(d-1)k((d-1)k'+k)}2\frac TL+\frac{(d-1)\mathrm{Var}\,\sigma^2}{4k\,m}\Big]\frac{e^{gT}-1}g,$$

the first part from the depth, the second from the width of layers whose field is coupled to the Gaussian one.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.polynomial import chebyshev
from scipy.linalg import expm

from sphereflow.claims import Check, Run, basis
from sphereflow.estimates import Estimate, mean
from sphereflow.papers.synchronization_by_noise import PAPER
from sphereflow.papers.synchronization_by_noise.independent import pair_averages, relu_kappa
from sphereflow.synchronisation.network import coupled_depths, run_network
from sphereflow.synchronisation.random_fields import AffineField, RandomField, RandomPerceptron

START = 0.3
PATHWISE = basis.Abstract("pathwise convergence of deep and wide networks to the limit, with rates")


def amplification(d: int, one: float, slope: float, time: float) -> float:
    r"""$(e^{gT}-1)/g$ with $g=(d-1)k'-(d-3)k$: how errors made on the way have grown at the end."""
    g = (d - 1) * slope - (d - 3) * one
    return float(np.expm1(g * time) / g) if g else time


def coupled(field: RandomField, d: int, time: float, quick: bool, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """(depths, final tokens): networks of 16, 32, ... layers on one path of the noise, the deepest first."""
    fine, paths = (512, 800) if quick else (2048, 8000)
    groups = (1, *(fine // depth for depth in (128, 64, 32, 16)))
    x = np.zeros((paths, 2, d))
    x[:, 0, 0], x[:, 1, 0], x[:, 1, 1] = 1, START, np.sqrt(1 - START**2)
    final = coupled_depths(field, x, layers=fine, time=time, groups=groups, seed=seed)
    return fine // np.array(groups), np.asarray(final)


AFFINE = AffineField(0.6, 0.8)
RELU = RandomPerceptron("relu", 1)


def root_mean_square(squares: np.ndarray) -> Estimate:
    """Root of the mean over paths (the last axis), with its error."""
    found = mean(np.moveaxis(squares, -1, 0))
    return Estimate(np.sqrt(found.value), found.error / (2 * np.sqrt(found.value)))


@PAPER.claim(
    "strong-order",
    says="On one path of the noise the distance of tokens in networks of 16 to 128 layers from those of a much "
    "deeper one is the predicted constant times $L^{-1/2}$, for affine layers in dimension 3 and nonlinear (ReLU) "
    "ones in dimension 2; no attention.",
    basis=PATHWISE,
    formula=r"E|x^{(L)}-x|^2\approx\frac{(d-1)k((d-1)k'+k)}2\,\frac{e^{gT}-1}g\,\frac TL",
)
def strong_order(run: Run) -> Check:
    check = Check()
    first_order, no_radial, apart = {}, {}, {}
    cases = (("affine", AFFINE, 3, 0.5, 1.0, 0.64), ("ReLU", RELU, 2, 0.5, 0.5, 0.5))
    for k, (name, field, d, time, one, slope) in enumerate(cases):
        depths, final = coupled(field, d, time, run.quick, run.seed + k)
        rms = root_mean_square(np.sum((final[1:] - final[0]) ** 2, axis=-1).mean(axis=-1))
        grown = amplification(d, one, slope, time)
        largest = None
        for depth, value, error in zip(depths[:0:-1], rms.value[::-1], rms.error[::-1], strict=True):
            row = f"{name}, {depth} layers"
            left = (1 / depth - 1 / depths[0]) * time * grown  # the deeper network is not the limit
            check.row(
                row,
                predicted=np.sqrt((d - 1) * one * ((d - 1) * slope + one) / 2 * left),
                measured=value,
                error=error,
                repeats=final.shape[1],
                relative=max(0.06, 1.5 / depth),
                because="the error bar over paths; the next order in the step",
            )
            largest = largest or check.rows[-1].predicted * depth
            if depth > 16:
                first_order[row] = largest / depth
            no_radial[row] = np.sqrt((d - 1) * one * (d - 1) * slope / 2 * left)
            apart[row] = np.sqrt(2 * (1 - np.exp(-(d - 1) * one * time)))
    check.rival("order one, anchored at 16 layers", first_order)
    check.rival("no error from the radial part of the noise", no_radial)
    check.rival("weights drawn afresh for the deeper network", apart)
    return check


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
    depths, final = coupled(AffineField(1.0, 0.0), d, 1.0, run.quick, run.seed + 1)
    found = mean(np.sum(final[:, :, 0] * final[:, :, 1], axis=-1).T)
    exact = {f"networks of {n} layers": mean_overlap(int(n)) for n in depths[1:]}
    check.series(
        exact,
        predicted=list(exact.values()),
        measured=found.value[1:],
        error=found.error[1:],
        repeats=final.shape[1],
        because="the error bar over paths",
    )
    check.rival("order one half", dict.fromkeys(names, 0.5))
    corrected = flow(lambda r: -(d - 1) * r / 2)
    check.rival(
        "an Ito correction added by hand", {"mean overlap of the flow": corrected, **dict.fromkeys(exact, corrected)}
    )
    check.rival("the term with r squared lost", {"mean overlap of the flow": flow(lambda r: -(r**2))})
    return check


@PAPER.claim(
    "width-order",
    says="A token in a network of 32 ReLU layers of width $m$ on the circle, whose layers are coupled to Gaussian "
    "ones, is away from the Gaussian network by the predicted constant times $m^{-1/2}$; twice the depth gains "
    "nothing.",
    basis=PATHWISE,
    formula=r"E|x^{(m)}-x|^2\approx\frac{(d-1)\mathrm{Var}\,\sigma^2}{4\kappa(1)\,m}\,\frac{e^{gT}-1}g",
)
def width_order(run: Run) -> Check:
    paths = 8000 if run.quick else 20_000
    check = Check(parameters={"d": 2, "t": 1, "paths": paths})
    first_order, averaged = {}, {}
    for k, (layers, width) in enumerate(((32, 64), (32, 256), (32, 1024), (64, 256))):
        rms = root_mean_square(coupled_widths(layers, width, paths, run.seed + k))
        row = f"{layers} layers of width {width}"
        exact = np.sqrt(1.25 / (4 * 0.5 * width) * amplification(2, 0.5, 0.5, 1.0))
        check.row(
            row,
            predicted=exact,
            measured=rms.value,
            error=rms.error,
            repeats=paths,
            relative=3 / width + 1 / layers,
            because="the error bar over paths; the next orders in the width and in the step",
        )
        if width > 64:
            first_order[row] = exact * np.sqrt(64 / width)
        averaged[row] = exact / np.sqrt(layers / 32)
    check.rival("order one, anchored at width 64", first_order)
    check.rival(
        "errors of the width averaged over the layers", {"64 layers of width 256": averaged["64 layers of width 256"]}
    )
    check.rival("errors that do not grow on the way", {"32 layers of width 256": np.sqrt(1.25 / (2 * 256))})
    return check


def coupled_widths(layers: int, width: int, paths: int, seed: int) -> np.ndarray:
    r"""Squared distances at t = 1 of one token in networks of finite and of infinite width.

    Given the inner weights the field of a layer at y is Gaussian, of variance $\hat K=\frac1m\sum\sigma(w_jy)^2$: it is
    $\sqrt{\hat K/\kappa(1)}$ times the Gaussian field at y, which at x and y has the covariance $\kappa$.
    """
    rng = np.random.default_rng(seed)
    x, y = np.zeros((2, paths, 2))
    x[:, 0] = y[:, 0] = 1
    for _ in range(layers):
        here = relu_kappa(np.clip(np.sum(x * y, axis=-1, keepdims=True), -1, 1)) / 0.5
        first, other = rng.standard_normal((2, paths, 2)) * np.sqrt(0.5)
        second = here * first + np.sqrt(np.maximum(1 - here**2, 0)) * other
        half = rng.binomial(width, 0.5, size=(paths, 1))  # so many neurons are active
        variance = rng.chisquare(np.maximum(half, 1)) * (half > 0) / width
        x = x + first / np.sqrt(layers)
        y = y + np.sqrt(variance / 0.5) * second / np.sqrt(layers)
        x, y = x / np.linalg.norm(x, axis=-1, keepdims=True), y / np.linalg.norm(y, axis=-1, keepdims=True)
    return np.sum((x - y) ** 2, axis=-1)


def modes_of_relu(count: int) -> np.ndarray:
    r"""$q_j$ of $\cos\varphi\,\kappa(\cos\varphi)=\sum_jq_j\cos j\varphi$ for ReLU, by the cosine transform."""
    phi = np.pi * (np.arange(4096) + 0.5) / 4096
    values = np.cos(phi) * relu_kappa(np.cos(phi))
    table = 2 / 4096 * np.cos(np.outer(np.arange(count), phi)) @ values
    table[0] /= 2
    return table


def mode_squares(start: np.ndarray, time: float, count: int = 48) -> np.ndarray:
    r"""$E|c_k(t)|^2$, k = 0, ..., of the law of tokens given the noise, on the circle without attention.

    $\frac d{dt}E|c_k|^2=-k^2q(0)E|c_k|^2+\frac{k^2}2\sum_jq_j(E|c_{k+j}|^2+E|c_{k-j}|^2)$.
    """
    k = np.arange(-count, count + 1)
    q = modes_of_relu(2 * count + 1)
    coupling = q[np.abs(k[:, None] - k[None, :])]
    coupling[np.arange(len(k)), np.arange(len(k))] *= 2  # j = 0 counts for both neighbours
    matrix = k[:, None] ** 2 * (coupling / 2 - 0.5 * np.eye(len(k)))
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
    paths, layers, time = (3000, 64, 1.0) if run.quick else (20_000, 128, 1.0)
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
