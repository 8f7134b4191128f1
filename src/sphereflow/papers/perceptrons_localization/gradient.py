r"""The block is a gradient: energy, field and Hessian belong together, for every activation with the right primitive.

$$\frac{d}{dt}\mathsf E=\sum_im_i\langle\mathcal V[\mu](x_i),\dot x_i\rangle,\qquad\varphi'=2\sigma.$$
"""

from __future__ import annotations

import numpy as np
from scipy import stats

from sphereflow import landscape
from sphereflow.claims import Check, Run, basis
from sphereflow.dynamics.activations import ACTIVATIONS
from sphereflow.landscape import Problem
from sphereflow.landscape.potential import respond
from sphereflow.numerics.unit_vectors import tangent_frames as frames
from sphereflow.papers.perceptrons_localization import PAPER, reference
from sphereflow.papers.perceptrons_localization.sources import CODE, ENERGY, SECOND_ORDER

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


def gradient_error(activation: str, d: int, seed: int, factor: float = 1.0) -> float:
    """Relative difference of the central difference of E along a direction and the sum of m <V, xi>.

    With a `factor` the weights of the energy are multiplied by it, those of the field are not.
    """
    rng = np.random.default_rng([seed, d])
    problem = Problem.random(1.3, d, 4, seed=seed + d, activation=activation)
    x = rng.standard_normal((7, d))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    xi = tangent_directions(x, rng)
    other = problem.replaced(outer=factor * problem.outer)
    ahead, behind = (landscape.energy(other, along(x, xi, t)) for t in (_STEP, -_STEP))
    predicted = float(np.sum(landscape.field(problem, x) * xi)) / len(x)
    return abs((ahead - behind) / (2 * _STEP) - predicted) / abs(predicted)


@PAPER.claim(
    "gradient",
    says="Attention plus perceptron is the gradient of one energy, for six activations in dimensions 2, 3 and 8.",
    basis=ENERGY,
    formula=r"\nabla_S\frac{\delta\mathsf E}{\delta\mu}=\int e^{\beta x\cdot y}\mathrm{Proj}_xy\,d\mu(y)+u(x)",
)
def gradient(run: Run) -> Check:
    check = Check(parameters={"particles": 7, "beta": 1.3, "neurons": 4, "step": _STEP})
    doubled, halved = {}, {}
    for name in ACTIVATIONS:
        for d in DIMENSIONS:
            row = f"relative error, {name}, $d={d}$"
            check.row(
                row,
                predicted=0.0,
                measured=gradient_error(name, d, run.seed),
                tolerance=1e-8,
                because="central differences: 1e-10 in the step, 1e-11 in rounding, over small derivatives",
            )
            if d == 2:
                doubled[row] = gradient_error(name, d, run.seed, 2.0)
                halved[row] = gradient_error(name, d, run.seed, 0.5)
    check.null("$v$ in place of $v/2$", doubled)
    check.null(r"$\varphi'=\sigma$", halved)
    return check


@PAPER.claim(
    "gelu-primitive",
    says="The primitive of GELU whose energy belongs to the flow has a further term $-\\Phi(s)$; without it the "
    "derivative is off by the normal density.",
    prints="The authors' code takes $s^2\\Phi(s)+sf(s)$ as the primitive of GELU in its energy.",
    basis=CODE,
    formula=r"\varphi(s)=(s^2-1)\Phi(s)+sf(s),\quad\varphi'=2s\Phi;\qquad (s^2\Phi+sf)'=2s\Phi+f",
)
def gelu_primitive(run: Run) -> Check:
    s = np.array([-1.5, -0.5, 0.0, 0.5, 1.5])
    h = 1e-5
    ours = 2 * respond("gelu", np.stack([s + h, s - h])).primitive

    def published(at: np.ndarray) -> np.ndarray:
        return at**2 * stats.norm.cdf(at) + at * stats.norm.pdf(at)

    check = Check(note="The derivative of the published primitive is off by the normal density, 0.399 at s = 0.")
    names = [f"derivative at $s={x:g}$" for x in s]
    check.series(
        names,
        predicted=2 * s * stats.norm.cdf(s),
        measured=(ours[0] - ours[1]) / (2 * h),
        tolerance=1e-8,
        because="central differences of a smooth function with step 1e-5",
    )
    check.printed(dict(zip(names, (published(s + h) - published(s - h)) / (2 * h), strict=True)))
    return check


@PAPER.claim(
    "hessian",
    says="The second derivative of the energy along geodesics is the Hessian written for atoms, in dimensions 2, 3, 8.",
    basis=SECOND_ORDER,
    formula=r"\mathrm{Hess}(\xi,\xi)=\frac1{2\beta}\sum_{ij}m_im_jK''(\theta_i-\theta_j)(\xi_i-\xi_j)^2"
    r"+\frac12\sum_im_iv''(\theta_i)\xi_i^2",
)
def hessian(run: Run) -> Check:
    rng = np.random.default_rng(run.seed)
    check = Check(parameters={"atoms": 5, "activation": "tanh"})
    itself, whole = {}, {}
    for d in DIMENSIONS:
        problem = Problem.random(2.0, d, 3, seed=run.seed + d, activation="tanh")
        x = rng.standard_normal((5, d))
        x /= np.linalg.norm(x, axis=1, keepdims=True)
        masses = rng.dirichlet(np.ones(5))
        xi = tangent_directions(x, rng)
        h = 1e-3
        values = [landscape.energy(problem, along(x, xi, k * h), masses) for k in (-2, -1, 0, 1, 2)]
        coordinates = np.einsum("ndp,nd->np", frames(x), xi).ravel()
        form = coordinates @ landscape.hessian(problem, x, masses) @ coordinates
        check.row(
            f"$d={d}$",
            predicted=np.dot([-1, 16, -30, 16, -1], values) / (12 * h**2),
            measured=form,
            tolerance=1e-8,
            because="differences of fourth order with step 1e-3, along vectors of length up to 4",
        )
        itself[f"$d={d}$"] = float(form - np.sum(masses**2 * np.sum(xi**2, axis=1)))
        double = landscape.hessian(problem.replaced(outer=2 * problem.outer), x, masses)
        whole[f"$d={d}$"] = float(coordinates @ double @ coordinates)
    check.rival("an atom interacts with itself", itself)
    check.rival("$v''$ in place of $v''/2$", whole)
    return check


@PAPER.claim(
    "conventions",
    says=r"The two conventions of the kernel describe one landscape: raw weights times $e^{-\beta}$ are peak weights, "
    r"atoms and masses agree, energies differ by the factor $e^\beta$.",
    basis=basis.Derived(r"$e^{\beta x\cdot y}$ in the theory and $e^{\beta(x\cdot y-1)}$ in the authors' code"),
    formula=r"\omega_{peak}=e^{-\beta}\omega_{raw},\qquad\mathsf E_{raw}=e^\beta\mathsf E_{peak}",
)
def conventions(run: Run) -> Check:
    raw = landscape.minimise(Problem(2.0, [1.0], [[1.0, 0.0]], kernel_scale="raw"))
    peak = landscape.minimise(Problem(2.0, [np.exp(-2.0)], [[1.0, 0.0]], kernel_scale="peak"))
    right = reference.repelled(2.0, float(np.exp(-2.0)))
    check = Check(parameters={"beta": 2, "raw weight": 1})
    for name, found in (("raw", raw), ("peak", peak)):
        check.same(f"atoms, {name}", predicted=7, measured=len(found))
        if len(found) == 7:
            for what, wanted, got in (("angle", right.angles, found.angles), ("mass", right.masses, found.masses)):
                check.series(
                    [f"{what} {i + 1}, {name}" for i in range(7)],
                    predicted=wanted,
                    measured=got,
                    tolerance=1e-8,
                    because="Newton's method to rounding, amplified by 1/curvature",
                )
    check.row("peak energy", predicted=right.energy, measured=peak.energy, tolerance=1e-12, because="rounding")
    ratio = "raw over peak energy"
    check.row(ratio, predicted=np.exp(2.0), measured=raw.energy / peak.energy, tolerance=1e-9, because="rounding")
    strong = reference.repelled(2.0, 1.0)
    check.rival("weights not converted", {"peak energy": strong.energy, "atoms, raw": 4, "atoms, peak": 4})
    check.rival("the factor lost in the energy", {ratio: 1.0})
    return check
