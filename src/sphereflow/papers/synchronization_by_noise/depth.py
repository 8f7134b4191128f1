r"""Deep and wide: how fast the network approaches the stochastic flow.

Strong error (same path of the noise, L and 2L layers) of order 1/2, weak error of order 1 in the step h = T/L; the
field of one layer approaches its Gaussian limit as the inverse root of the width.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.polynomial import chebyshev

from sphereflow.claims import Measurement, Run, agreement
from sphereflow.estimates import Estimate, mean, order
from sphereflow.papers.synchronization_by_noise import PAPER
from sphereflow.synchronisation.activations import evaluate
from sphereflow.synchronisation.backward_equation import Backward
from sphereflow.synchronisation.covariance import of_activation, of_powers
from sphereflow.synchronisation.network import coupled_depths
from sphereflow.synchronisation.random_fields import AffineField
from sphereflow.synchronisation.two_point import TwoPoint

D, START = 4, 0.3


@cache
def coupled(constant: float, linear: float, quick: bool, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """(depths, final tokens): networks of 16, 32, ... layers over t = 1 on one path, the deepest first."""
    fine, paths = (512, 500) if quick else (1024, 8000)
    groups = (1, *(fine // depth for depth in (128, 64, 32, 16)))
    x = np.zeros((paths, 2, D))
    x[:, 0, 0], x[:, 1, 0], x[:, 1, 1] = 1, START, np.sqrt(1 - START**2)
    final = coupled_depths(AffineField(constant, linear), x, layers=fine, time=1.0, groups=groups, seed=seed)
    return fine // np.array(groups), np.asarray(final)


@PAPER.claim(
    "strong-order",
    statement="On one path of the noise, networks of different depth approach each other as the root of the step.",
    source="Pathwise convergence with explicit rates",
    formula=r"\big(E|x^{(L)}-x^{(\infty)}|^2\big)^{1/2}=O(h^{1/2})",
    falsifier="weights drawn afresh for the deeper network: the distance does not fall at all",
)
def strong_order(run: Run) -> Measurement:
    depths, final = coupled(1.0, 0.7, run.quick, run.seed)
    squares = np.sum((final[1:] - final[0]) ** 2, axis=-1).mean(axis=-1)
    found = mean(squares.T)
    rms = Estimate(np.sqrt(found.value), found.error / (2 * np.sqrt(found.value)))
    slope = order(1 / depths[1:], rms)
    # An independent program, 4000 paths against 1024 layers; its bars, and the distance of the two reference depths.
    reference, bars = np.array([0.196, 0.279, 0.375, 0.485]), np.array([0.005, 0.006, 0.006, 0.007])
    shallow = reference * (1 / 512 - 1 / 1024) * depths[1:] if run.quick else 0 * reference
    return agreement(
        [0.45, *reference],
        [float(slope.value), *rms.value],
        absolute=[0.15, *(3 * np.sqrt(rms.error**2 + bars**2) + shallow)],
        because="between 0.3 and 0.6 at these depths, 1/2 in the limit; three standard errors of both programs and "
        "the error of the reference depth",
        labels=("fitted order", *(f"distance, {depth} layers" for depth in depths[1:])),
        parameters={"d": D, "noise": (1.0, 0.7), "paths": final.shape[1]},
    )


@cache
def layer_matrix(step: float, size: int = 33) -> tuple[np.ndarray, np.ndarray]:
    r"""(nodes, matrix): one layer with $\kappa=1$ acting on functions of the overlap, at Chebyshev nodes.

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
    """E r after `layers` layers over t = 1 with kappa = 1, without sampling."""
    nodes, matrix = layer_matrix(1 / layers)
    values = np.linalg.matrix_power(matrix, layers) @ nodes
    return float(chebyshev.chebval(start, np.linalg.solve(chebyshev.chebvander(nodes, len(nodes) - 1), values)))


@PAPER.claim(
    "weak-order",
    statement="The mean overlap after a fixed time differs from that of the flow by an error proportional to the step; "
    "simulated networks have the mean computed without sampling.",
    source="Scaling limit of deep networks",
    formula=r"E\,r^{(L)}(T)-E\,r(T)=C\,h+O(h^2)",
    falsifier="an Ito correction added by hand, or lost: the error does not vanish with the step",
)
def weak_order(run: Run) -> Measurement:
    flow = float(Backward(TwoPoint(D, of_powers([1.0]))).averages(lambda r: r, [1.0], start=START)[0])
    layers = np.array([32, 64, 128, 256])
    errors = np.array([mean_overlap(int(n)) - flow for n in layers])
    orders = np.log2(errors[:-1] / errors[1:])
    depths, final = coupled(1.0, 0.0, run.quick, run.seed + 1)
    found = mean(np.sum(final[:, :, 0] * final[:, :, 1], axis=-1).T)
    exact = [mean_overlap(int(n)) for n in depths[1:]]
    return agreement(
        [1.0, 1.0, 1.0, *exact],
        [*orders, *found.value[1:]],
        absolute=[*(4 / layers[:-1]), *(3 * found.error[1:])],
        because="the next term is relatively of the order (d-1) kappa(1) h; three standard errors",
        labels=(
            *(f"order between {n} and {2 * n} layers" for n in layers[:-1]),
            *(f"simulated mean overlap, {n} layers" for n in depths[1:]),
        ),
        note=f"errors {', '.join(f'{e:.2e}' for e in errors)}",
        parameters={"d": D, "t": 1, "start": START},
    )


@PAPER.claim(
    "width-order",
    statement="The field of a layer of width m differs from its Gaussian limit, drawn from the same normals, by an "
    "amount proportional to the inverse root of m.",
    source="Limit of wide layers",
    formula=r"\big(E|\xi_m-\xi_\infty|^2\big)^{1/2}=O(m^{-1/2})",
    falsifier="a factor 1/m in place of its root in the layer",
)
def width_order(run: Run) -> Measurement:
    rng = np.random.default_rng(run.seed)
    x = rng.standard_normal((6, 8))
    x /= np.linalg.norm(x, axis=-1, keepdims=True)
    limit = np.linalg.cholesky(of_activation("relu")(x @ x.T))
    widths, draws = np.array([64, 256, 1024]), 200 if run.quick else 2000
    squares = []
    for m in widths:
        features = evaluate("relu", rng.standard_normal((draws, m, 8)) @ x.T)[0]
        # Given the inner weights the layer is Gaussian with this covariance, so its root plays the part of the layer.
        roots = np.linalg.cholesky(np.einsum("kmi,kmj->kij", features, features) / m)
        squares.append(np.sum((roots - limit) ** 2, axis=(-2, -1)))
    found = mean(np.array(squares).T)
    slope = order(widths.astype(float), Estimate(np.sqrt(found.value), found.error / (2 * np.sqrt(found.value))))
    return agreement(
        [-0.5],
        [float(slope.value)],
        absolute=[3 * float(slope.error) + 0.02],
        because="three standard errors of the fit, and the next order at width 64",
        labels=("fitted order in the width",),
        parameters={"d": 8, "tokens": 6},
    )
