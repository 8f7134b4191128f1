r"""Deep and wide networks with attention follow the limiting equation on one path of the noise, with order one half.

For one token over the time T, with $k=\kappa(1)$, $k'=\kappa'(1)$ and $g=(d-1)k'-(d-3)k$,

$$E|x^{(L,m)}-x|^2\approx
  \Big[\frac{(d-1)k((d-1)k'+k)}2\frac TL+\frac{(d-1)\mathrm{Var}\,\sigma^2}{4k\,m}\Big]\frac{e^{gT}-1}g;$$

for two tokens with attention on the circle the constants come from `error_equation`.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from jaxtyping import Array

from sphereflow.claims import Check, Run, basis
from sphereflow.estimates import Estimate, mean
from sphereflow.papers.synchronization_by_noise import PAPER
from sphereflow.papers.synchronization_by_noise.error_equation import (
    angles,
    depth_noise,
    mean_square,
    relu_modes,
    return_noise,
    width_noise,
)
from sphereflow.papers.synchronization_by_noise.independent import attention_drift, pair_averages, relu_kappa
from sphereflow.synchronisation.pathwise import StrongErrors, strong_errors

PATHWISE = basis.Abstract("pathwise convergence of deep and wide networks to the limit, with rates")
MODES, BETA = 16, 1.0
DEPTHS = (16, 32, 64)
ALONE = np.sqrt(2 * (1 - np.exp(-0.5)))  # two tokens of the circle under ReLU noises of their own, from one start


def affine(s: Array) -> Array:
    """An activation whose field is a vector and a matrix: kappa = 0.36 + 0.64 r."""
    return 0.6 + 0.8 * s


@cache
def deep(case: str, v: float, quick: bool, seed: int) -> StrongErrors:
    """Networks of 16 to 64 layers on the path of the limit, three tokens in dimension 3 or two on the circle."""
    repeats, steps = (700, 256) if quick else (8000, 512)
    if case == "affine, d=3":
        return strong_errors(
            affine, d=3, n=3, t1=0.5, depths=DEPTHS, steps=steps, strength=v, repeats=2 * repeats, seed=seed
        )
    return strong_errors(
        "relu", n=2, strength=v, beta=BETA, depths=DEPTHS, steps=steps, modes=MODES, repeats=repeats, seed=seed
    )


@cache
def relu_constants(v: float) -> tuple[float, float]:
    """Mean square errors over h, of layers against the limit and against steps along great circles."""
    kernel, phi = relu_modes(MODES), angles()
    local, back = (mean_square(kernel, noise(kernel, phi), v, BETA, 1.0) for noise in (depth_noise, return_noise))
    return local, back


def relu_error(v: float, depth: int, steps: int) -> float:
    """The root mean square distance from the limit, which is followed in `steps` steps along great circles."""
    local, back = relu_constants(v)
    return float(np.sqrt(local * (1 / depth - 1 / steps) + back / steps))


def affine_error(depth: int, steps: int, *, radial: bool = True) -> float:
    """The same by the formula for one token: d = 3, T = 1/2, k = 1, k' = 0.64, without attention."""
    grown = np.expm1(2 * 0.64 * 0.5) / (2 * 0.64)
    local = (2 * 0.64 + radial) / 2 * (1 / depth - 1 / steps) + radial / steps
    return float(np.sqrt(2 * 0.5 * local * grown))


@PAPER.claim(
    "strong-order",
    says="On one path of the noise tokens in networks of 16 to 64 layers are away from the limiting equation by the "
    "predicted constant times $L^{-1/2}$: affine layers in dimension 3, and nonlinear (ReLU) layers on the circle "
    "without and with attention. The mean overlap of two tokens with attention is that of the limit.",
    basis=PATHWISE,
    formula=r"E|x^{(L)}-x|^2\approx\frac{(d-1)k((d-1)k'+k)}2\,\frac{e^{gT}-1}g\,\frac TL",
)
def strong_order(run: Run) -> Check:
    cases = (("affine, d=3", 0.0), ("ReLU on the circle", 0.0), ("ReLU on the circle", 1.0))
    check = Check(parameters={"beta": BETA})
    first_order, no_radial, apart, thrice, orders = {}, {}, {}, {}, {}
    for k, (case, v) in enumerate(cases):
        run.notify(k / len(cases), f"{case}, v={v:g}")
        found = deep(case, v, run.quick, run.seed + k)
        repeats, rms = found.depth.shape[1], found.errors()
        exact = []
        for depth, value, error in zip(DEPTHS, rms.value, rms.error, strict=True):
            row = f"{case}, v={v:g}, {depth} layers"
            of_affine = case != "ReLU on the circle"
            exact.append(affine_error(depth, found.steps) if of_affine else relu_error(v, depth, found.steps))
            check.row(
                row,
                predicted=exact[-1],
                measured=value,
                error=error,
                repeats=repeats,
                relative=max(0.05, 1.5 / depth),
                because="the error bar over paths; the next order in the step",
            )
            if depth > 16:
                first_order[row] = exact[0] * 16 / depth
            if of_affine:
                no_radial[row] = affine_error(depth, found.steps, radial=False)
            else:
                apart[row] = ALONE
        row, order = f"{case}, v={v:g}, order", found.order()
        check.row(
            row,
            predicted=np.polyfit(np.log(DEPTHS), np.log(exact), 1)[0],
            measured=order.value,
            error=order.error,
            repeats=repeats,
            tolerance=0.03,
            because="the error bar of the slope over paths; the next order in the step",
        )
        orders[row] = -1.0
        if v:
            overlap = mean(found.overlap[-1])
            row = f"{case}, v={v:g}, mean overlap in the limit"
            check.row(
                row,
                predicted=limit_overlap(v),
                measured=overlap.value,
                error=overlap.error,
                repeats=repeats,
                tolerance=2 / found.steps,
                because="the error bar over paths; the steps of the limit",
            )
            thrice[row] = limit_overlap(3 * v)
    check.rival("order one, anchored at 16 layers", first_order)
    check.rival("slope -1", orders)
    check.rival("no error from the radial part of the noise", no_radial)
    check.rival("fields drawn afresh for the network", apart)
    check.rival("attention three times as strong (its own deep networks converge too)", thrice)
    return check


def limit_overlap(v: float) -> float:
    """The mean overlap of two uniform tokens at t = 1 in the limit with ReLU noise and attention, by collocation."""
    found = pair_averages(2, relu_kappa, [1.0], payoff=lambda r: r, extra=attention_drift(v, BETA))
    return float(found[0])


@PAPER.claim(
    "width-order",
    says="A token in a network of 32 ReLU layers of width $m$ on the circle, whose layers are coupled to Gaussian "
    "ones, is away from the Gaussian network by the predicted constant times $m^{-1/2}$; twice the depth gains "
    "nothing. The same holds for two tokens with attention, with the constant of their error equation.",
    basis=PATHWISE,
    formula=r"E|x^{(m)}-x|^2\approx\frac{(d-1)\mathrm{Var}\,\sigma^2}{4\kappa(1)\,m}\,\frac{e^{gT}-1}g",
)
def width_order(run: Run) -> Check:
    paths, repeats = (8000, 300) if run.quick else (20_000, 3000)
    check = Check(parameters={"d": 2, "t": 1, "paths": paths, "paths with attention": repeats})
    first_order = {}
    for k, (layers, width) in enumerate(((32, 64), (32, 256), (32, 1024), (64, 256))):
        rms = root_mean_square(coupled_widths(layers, width, paths, run.seed + k))
        row = f"{layers} layers of width {width}"
        exact = np.sqrt(1.25 / (4 * 0.5 * width) * np.expm1(1.0))
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
    widths, v = (32, 128, 512), 1.0
    found = strong_errors(
        "relu", n=2, strength=v, beta=BETA, depths=(), widths=widths, modes=MODES, repeats=repeats, seed=run.seed
    )
    rms = found.errors("width")
    level = np.sqrt(mean_square(relu_modes(MODES), width_noise(angles()), v, BETA, 1.0))
    rows = [f"two tokens with attention, width {m}" for m in widths]
    check.series(
        rows,
        predicted=level / np.sqrt(widths),
        measured=rms.value,
        error=rms.error,
        repeats=repeats,
        tolerance=level / np.sqrt(widths) * (3 / np.array(widths) + 1 / 32),
        because="the error bar over paths; the next orders in the width and in the step",
    )
    first_order |= {row: level * np.sqrt(32) / m for row, m in zip(rows[1:], widths[1:], strict=True)}
    check.rival("order one, anchored at the least width", first_order)
    check.rival(
        "errors of the width averaged over the layers", {"64 layers of width 256": np.sqrt(1.25 / 1024 * 1.718)}
    )
    check.rival("errors that do not grow on the way", {"32 layers of width 256": np.sqrt(1.25 / (2 * 256))})
    # Of widths m and M with shared neurons the fields have the correlation sqrt(m/M), which tends to 0.
    check.rival("neurons shared with an infinitely wide layer, instead of the field", dict.fromkeys(rows, ALONE))
    return check


def root_mean_square(squares: np.ndarray) -> Estimate:
    """Root of the mean over paths, with its error."""
    found = mean(squares)
    return Estimate(np.sqrt(found.value), found.error / (2 * np.sqrt(found.value)))


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
