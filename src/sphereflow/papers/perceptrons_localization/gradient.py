r"""The block is a gradient: energy, field and Hessian belong together, for every activation with the right primitive.

$$\frac{d}{dt}\mathsf E=\sum_im_i\langle\mathcal V[\mu](x_i),\dot x_i\rangle,\qquad\varphi'=2\sigma.$$
"""

from __future__ import annotations

import numpy as np
from scipy import stats

from sphereflow import landscape
from sphereflow.claims import Measurement, Run, agreement, at_most
from sphereflow.dynamics.activations import ACTIVATIONS
from sphereflow.landscape import Problem
from sphereflow.landscape.potential import respond
from sphereflow.numerics.unit_vectors import tangent_frames as frames
from sphereflow.papers.perceptrons_localization import PAPER

DIMENSIONS = (2, 3, 8)
_STEP = 1e-5


def tangent_directions(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Random tangent vectors, one at each point."""
    raw = rng.standard_normal(x.shape)
    return raw - np.sum(raw * x, axis=1, keepdims=True) * x


def along(x: np.ndarray, xi: np.ndarray, t: float) -> np.ndarray:
    """Points after time t on the great circles with these velocities."""
    length = np.linalg.norm(xi, axis=1, keepdims=True)
    return np.cos(t * length) * x + np.sin(t * length) * xi / length


def gradient_error(activation: str, d: int, seed: int) -> float:
    """Relative difference of the central difference of E along a direction and the sum of m <V, xi>."""
    rng = np.random.default_rng([seed, d])
    problem = Problem.random(1.3, d, 4, seed=seed + d, activation=activation)
    x = rng.standard_normal((7, d))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    xi = tangent_directions(x, rng)
    ahead, behind = (landscape.energy(problem, along(x, xi, t)) for t in (_STEP, -_STEP))
    predicted = float(np.sum(landscape.field(problem, x) * xi)) / len(x)
    return abs((ahead - behind) / (2 * _STEP) - predicted) / abs(predicted)


@PAPER.claim(
    "gradient",
    statement="Attention plus perceptron is the gradient of one energy, for every activation and dimension.",
    source="Energy and field of the block, section 2",
    formula=r"\nabla_S\frac{\delta\mathsf E}{\delta\mu}=\int e^{\beta x\cdot y}\mathrm{Proj}_xy\,d\mu(y)+u(x)",
    falsifier="a primitive with phi' other than 2 sigma, v in place of v/2, or the factor 1/N forgotten",
)
def gradient(run: Run) -> Measurement:
    errors = [gradient_error(name, d, run.seed) for name in ACTIVATIONS for d in DIMENSIONS]
    return at_most(
        np.full(len(errors), 1e-8),
        errors,
        because="central differences with step 1e-5 err by 1e-10 in the step and 1e-11 in rounding, over derivatives "
        "that may be small",
        labels=tuple(f"{name}, d={d}" for name in ACTIVATIONS for d in DIMENSIONS),
        parameters={"particles": 7, "beta": 1.3, "neurons": 4, "step": _STEP},
    )


@PAPER.claim(
    "gelu-primitive",
    statement="The energy of GELU in the published code belongs to its flow. It does not: its primitive lacks a term, "
    "and its derivative exceeds twice the activation by the normal density.",
    source="Published code, energy of the GELU perceptron",
    formula=r"\varphi(s)=(s^2-1)\Phi(s)+sf(s),\quad\varphi'=2s\Phi;\qquad (s^2\Phi+sf)'=2s\Phi+f",
    falsifier="the published primitive agreeing with the activation",
)
def gelu_primitive(run: Run) -> Measurement:
    s = np.array([-1.5, -0.5, 0.0, 0.5, 1.5])
    h = 1e-5
    ours = 2 * respond("gelu", np.stack([s + h, s - h])).primitive
    measured = (ours[0] - ours[1]) / (2 * h)

    def published(at: np.ndarray) -> np.ndarray:
        return at**2 * stats.norm.cdf(at) + at * stats.norm.pdf(at)

    return agreement(
        2 * s * stats.norm.cdf(s),
        measured,
        absolute=1e-8,
        printed=(published(s + h) - published(s - h)) / (2 * h),
        because="central differences of a smooth function with step 1e-5",
        labels=tuple(f"derivative at s = {x:g}" for x in s),
        note="The derivative of the published primitive is off by the normal density, 0.399 at s = 0.",
    )


@PAPER.claim(
    "hessian",
    statement="The second derivative of the energy along geodesics is the Hessian written for atoms.",
    source="Second-order critical points; circle form",
    formula=r"\mathrm{Hess}(\xi,\xi)=\frac1{2\beta}\sum_{ij}m_im_jK''(\theta_i-\theta_j)(\xi_i-\xi_j)^2"
    r"+\frac12\sum_im_iv''(\theta_i)\xi_i^2",
    falsifier="the interaction of an atom with itself counted as a force",
)
def hessian(run: Run) -> Measurement:
    rng = np.random.default_rng(run.seed)
    differences, forms = [], []
    for d in DIMENSIONS:
        problem = Problem.random(2.0, d, 3, seed=run.seed + d, activation="tanh")
        x = rng.standard_normal((5, d))
        x /= np.linalg.norm(x, axis=1, keepdims=True)
        masses = rng.dirichlet(np.ones(5))
        xi = tangent_directions(x, rng)
        h = 1e-3
        values = [landscape.energy(problem, along(x, xi, k * h), masses) for k in (-2, -1, 0, 1, 2)]
        differences.append(np.dot([-1, 16, -30, 16, -1], values) / (12 * h**2))
        coordinates = np.einsum("ndp,nd->np", frames(x), xi).ravel()
        forms.append(coordinates @ landscape.hessian(problem, x, masses) @ coordinates)
    return agreement(
        differences,
        forms,
        absolute=1e-8,
        because="second differences of fourth order with step 1e-3: 1e-12 in the step times a sixth derivative along "
        "vectors of length up to 4, and 1e-9 in rounding",
        labels=tuple(f"d={d}" for d in DIMENSIONS),
        parameters={"atoms": 5, "activation": "tanh"},
    )


@PAPER.claim(
    "conventions",
    statement="The two conventions of the kernel describe one landscape: raw weights times e^-beta are peak weights, "
    "atoms and masses agree, energies differ by the factor e^beta.",
    source="Energy (theory) and published code",
    formula=r"\omega_{peak}=e^{-\beta}\omega_{raw},\qquad\mathsf E_{raw}=e^\beta\mathsf E_{peak}",
    falsifier="a factor e^beta lost, or applied twice",
)
def conventions(run: Run) -> Measurement:
    raw = landscape.minimise(Problem(2.0, [1.0], [[1.0, 0.0]], kernel_scale="raw"))
    peak = landscape.minimise(Problem(2.0, [np.exp(-2.0)], [[1.0, 0.0]], kernel_scale="peak"))
    if not len(raw) == len(peak) == 7:
        return agreement([7, 7], [len(raw), len(peak)], absolute=0, because="counts are exact", labels=("raw", "peak"))
    half = [0.489783, 1.339385, 2.392244]
    return agreement(
        np.concatenate([half, [np.pi], peak.angles, peak.masses, [0.0895755203, np.exp(2.0)]]),
        np.concatenate([raw.angles[:4], raw.angles, raw.masses, [peak.energy, raw.energy / peak.energy]]),
        absolute=np.concatenate([[6e-7] * 4, [1e-9] * 14, [6e-11, 1e-9]]),
        because="reference angles have 6 decimals and the energy 10; the two conventions agree to rounding",
        labels=(
            *(f"reference angle {i + 1}" for i in range(4)),
            *(f"angle {i + 1}, raw and peak" for i in range(7)),
            *(f"mass {i + 1}, raw and peak" for i in range(7)),
            "peak energy",
            "ratio of energies",
        ),
        parameters={"beta": 2, "raw weight": 1},
    )
